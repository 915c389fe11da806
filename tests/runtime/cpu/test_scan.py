"""Scans along a dimension by one compiled kernel, against NumPy and a loop in Python."""

import numpy as np
import pytest

import npu_tensor as nt

SHAPES = [((7,), 0), ((5, 9), 1), ((9, 5), 0), ((3, 4, 71), 1), ((2, 6, 3), 1), ((1, 1), 0), ((6, 33), -1)]


def _kernels(result: nt.Tensor) -> list[str]:
    return [row.kernel for row in nt.explain(result) if row.op in ("cumsum", "cumprod", "running_extreme")]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int8", "int32", "int64", "bool"])
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_sums_and_products(shape: tuple[int, ...], dim: int, dtype: str) -> None:
    x = np.random.default_rng(0).integers(0 if dtype == "bool" else -2, 2, shape)
    tensor = nt.from_numpy(x).to(getattr(nt, dtype)).realize()
    for name in ("cumsum", "cumprod"):
        result = getattr(tensor, name)(dim)
        assert _kernels(result) == ["scan"]
        np.testing.assert_array_equal(result.to(nt.float64).numpy(), getattr(np, name)(x, dim))


@pytest.mark.parametrize("dim", [0, 1])
def test_sums_are_rounded_once(dim: int) -> None:
    x = np.random.default_rng(0).standard_normal((300, 200), np.float32)
    expected = np.cumsum(x, dim, np.float64).astype(np.float32)
    np.testing.assert_array_equal(nt.from_numpy(x).cumsum(dim).numpy(), expected)
    np.testing.assert_array_equal(nt.from_numpy(x).T.cumsum(1 - dim).numpy(), expected.T)
    backward = np.cumsum(x[::-1, ::-2], dim, np.float64).astype(np.float32)
    np.testing.assert_array_equal(nt.from_numpy(x).flip(0)[:, ::-2].cumsum(dim).numpy(), backward)


def test_special_numbers() -> None:
    x = np.array([[-0.0, 0.0, np.inf, 1, -np.inf, 2], [-0.0, -0.0, np.nan, 1, 2, 3]], np.float32)
    with np.errstate(invalid="ignore"):
        for tensor, dim in ((nt.from_numpy(x), 1), (nt.from_numpy(np.repeat(x.T, 9, 1)), 0)):
            expected = np.cumsum(tensor.numpy(), dim)
            np.testing.assert_array_equal(tensor.cumsum(dim).numpy(), expected)
            np.testing.assert_array_equal(np.signbit(tensor.cumsum(dim).numpy())[0], np.signbit(expected)[0])


def _indices(row: np.ndarray, largest: bool) -> list[int]:
    best, found = 0, []
    for place, value in enumerate(row):
        previous = row[best]
        if value != value or value == previous or (value > previous if largest else value < previous):
            best = place
        found.append(best)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "uint8", "int64", "bool"])
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_extremes(shape: tuple[int, ...], dim: int, dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 200 if dtype == "uint8" else 9, shape)
    values = x.astype(np.float64)
    if dtype.endswith(("32", "64", "16")) and "int" not in dtype:
        values[np.random.default_rng(1).random(shape) < 0.1] = np.nan
    tensor = nt.from_numpy(values if np.isnan(values).any() else x).to(getattr(nt, dtype)).realize()
    for name in ("cummax", "cummin"):
        result = getattr(tensor, name)(dim).indices
        assert _kernels(result) == ["scan"]
        expected = np.apply_along_axis(_indices, dim, values, name == "cummax")
        np.testing.assert_array_equal(result.numpy(), expected)
