"""Edge values of functions, where errors would go unnoticed, against PyTorch."""

from typing import Any

import numpy as np
import pytest
from comparison import TORCH_DTYPES, from_torch, to_torch

import npu_tensor as nt

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_running_sums_do_not_lose_what_they_have_added(name: str) -> None:
    """Sums of a million float32 numbers, and of as many 16-bit numbers as fit the range, are rounded once."""
    x = nt.full((1_000_000 if name == "float32" else 300,), 0.1, dtype=name)
    exact = to_torch(x).double().cumsum(0)
    np.testing.assert_array_equal(to_torch(x.cumsum(0)).float(), exact.to(TORCH_DTYPES[name]).float())


@pytest.mark.parametrize(
    ("name", "dtypes"),
    [
        ("addcmul", ("int64", "int8", "int8")),
        ("addcmul", ("float64", "float32", "float32")),
        ("addcmul", ("int16", "uint8", "int8")),
        ("addcdiv", ("float64", "float32", "float32")),
    ],
    ids=str,
)
def test_products_are_computed_in_the_widest_type(name: str, dtypes: tuple[str, str, str]) -> None:
    numbers = ([1, 2], [100, 3], [100, 7])
    ours = [nt.tensor(values, dtype=dtype) for values, dtype in zip(numbers, dtypes, strict=True)]
    expected = getattr(torch, name)(*map(to_torch, ours))
    result = getattr(nt, name)(*ours)
    assert to_torch(result).dtype is expected.dtype
    np.testing.assert_array_equal(result.numpy(), expected.numpy())


def test_medians_of_nothing() -> None:
    assert torch.zeros(0).median().isnan()
    assert nt.zeros(0).median().isnan()
    assert nt.zeros(3, 0).median(0)[0].shape == tuple(torch.zeros(3, 0).median(0)[0].shape)
    for empty in (lambda: nt.zeros(0, 3).median(0), lambda: nt.zeros(0, dtype=nt.int64).median()):
        with pytest.raises(nt.DimensionError, match="no median"):
            empty()


def test_quotients_of_infinite_numbers_are_rounded_down() -> None:
    """Results follow the array API standard, with signed zeros; PyTorch returns NaN or -1."""
    inf, nan = np.inf, np.nan
    table = [
        (inf, 2, inf), (inf, -2, -inf), (-inf, 2, -inf), (-inf, -2, inf), (1, inf, 0.0), (-1, inf, -0.0),
        (1, -inf, -0.0), (-1, -inf, 0.0), (inf, inf, nan), (inf, -inf, nan), (nan, inf, nan), (inf, 0, inf),
    ]  # fmt: skip
    x, y, expected = np.array(table, np.float32).T
    quotients = (nt.from_numpy(x.copy()) // nt.from_numpy(y.copy())).numpy()
    np.testing.assert_array_equal(quotients, expected)
    np.testing.assert_array_equal(np.signbit(quotients)[expected == 0], np.signbit(expected)[expected == 0])


@pytest.mark.once  # The bounds hold for compiled kernels; NumPy's functions have different ones.
@pytest.mark.parametrize(
    ("name", "low", "high", "ulps"),
    [
        ("lgamma", 0.9, 1.1, 4),
        ("lgamma", 1.1, 2.5, 4),
        ("lgamma", 2.5, 12.0, 4),
        ("erfc", -2.0, 2.0, 4),
        ("erfc", 2.0, 9.0, 4),
        ("erfinv", -0.99, 0.99, 4),
        ("cosh", 85.0, 89.4, 4),
    ],
)
def test_special_functions_have_nearly_all_digits(name: str, low: float, high: float, ulps: int) -> None:
    x = torch.from_numpy(np.random.default_rng(0).uniform(low, high, 100_000).astype(np.float32))
    exact = getattr(torch, name)(x.double()).numpy()
    error = abs(getattr(nt, name)(from_torch(x)).numpy() - exact)
    assert (error <= ulps * np.spacing(abs(exact).astype(np.float32))).all()


def test_lgamma_of_large_negative_numbers_and_at_its_zeros() -> None:
    for dtype in (nt.float32, nt.float64):
        assert nt.lgamma(nt.tensor([-3.484e37, -1.0, 0.0, -np.inf], dtype=dtype)).tolist() == [np.inf] * 4
        assert nt.lgamma(nt.tensor([1.0, 2.0], dtype=dtype)).tolist() == [0, 0]


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("shape", [(16, 16), (5, 13)])
@pytest.mark.parametrize(("mode", "antialias"), [("bicubic", False), ("bicubic", True), ("bilinear", True)])
def test_interpolation_reads_only_elements_within_reach(
    value: float, shape: tuple[int, int], mode: str, antialias: bool
) -> None:
    x = torch.randn(1, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    x[0, 0, 2, 3] = value
    expected = torch.nn.functional.interpolate(x, shape, mode=mode, antialias=antialias).numpy()
    result = nt.interpolate(from_torch(x), shape, mode=mode, antialias=antialias).numpy()
    assert 0 < np.isfinite(expected[0, 0]).sum() < np.isfinite(expected[0, 1]).sum()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation"),
    [((2, 2), 1, (3, 2)), ((3, 3), 2, 1), ((3, 2), (2, 3), (3, 2)), ((2, 3), (4, 1), (2, 3)), ((1, 5), 3, (1, 6))],
    ids=str,
)
def test_transposed_convolution_of_infinity(kernel: tuple[int, int], stride: Any, dilation: Any) -> None:
    """Output positions that no kernel element connects to the infinity stay finite."""
    x, weight = torch.ones(1, 1, 3, 2), torch.ones(1, 1, *kernel)
    x[0, 0, 1, 0] = torch.inf
    expected = torch.nn.functional.conv_transpose2d(x, weight, stride=stride, dilation=dilation).tolist()
    result = nt.conv_transpose2d(from_torch(x), from_torch(weight), stride=stride, dilation=dilation)
    assert result.tolist() == expected
