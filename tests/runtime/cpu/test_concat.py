"""Tensors joined by one compiled kernel, against NumPy."""

import numpy as np
import pytest

import npu_tensor as nt


def _joined(arrays: list[np.ndarray], dim: int, dtype: nt.DType) -> None:
    result = nt.cat([nt.from_numpy(array).to(dtype).realize() for array in arrays], dim)
    assert [row.kernel for row in nt.explain(result) if row.op == "concat"] == ["concat"]
    np.testing.assert_array_equal(result.to(nt.int64).numpy(), np.concatenate(arrays, dim))


@pytest.mark.parametrize("dtype", [nt.float32, nt.float64, nt.bfloat16, nt.int8, nt.bool])
@pytest.mark.parametrize(
    ("shape", "dim", "extents"),
    [((1,), 0, [3, 0, 5]), ((9, 1), 1, [1, 1, 1]), ((20, 1), 1, [40, 7, 33]), ((1, 3, 11), 0, [2, 1]),
     ((2, 1, 5), 1, [1] * 150)],
)  # fmt: skip
def test_extents(shape: tuple[int, ...], dim: int, extents: list[int], dtype: nt.DType) -> None:
    random = np.random.default_rng(0)
    shapes = [(*shape[:dim], extent, *shape[dim + 1 :]) for extent in extents]
    _joined([random.integers(0, 2 if dtype is nt.bool else 99, each) for each in shapes], dim, dtype)


@pytest.mark.parametrize("dim", [0, 1])
def test_large_operands_in_threads(dim: int) -> None:
    shapes = [(3, 60001), (3, 1), (3, 20000)] if dim else [(500, 90), (1, 90), (90, 90)]
    _joined([np.arange(np.prod(shape)).reshape(shape) for shape in shapes], dim, nt.int32)


def test_views() -> None:
    x = np.arange(60).reshape(5, 12)
    tensor = nt.from_numpy(x).realize()
    result = nt.cat([tensor[::2], tensor[:3, ::-1], tensor[:1].expand(2, 12), tensor[:, :5].T[:, :1].expand(5, 12)])
    expected = [x[::2], x[:3, ::-1], x[[0, 0]], np.repeat(x[:1, :5].T, 12, 1)]
    np.testing.assert_array_equal(result.numpy(), np.concatenate(expected))
