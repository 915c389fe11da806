"""Elements at indices along a dimension: a compiled loop, against NumPy."""

import numpy as np
import pytest

import npu_tensor as nt


@pytest.mark.parametrize("dtype", [nt.float32, nt.float64, nt.bfloat16, nt.int8, nt.bool])
@pytest.mark.parametrize(
    ("shape", "dim", "count"), [((7,), 0, 4), ((4, 9), 1, 1), ((3, 5, 6), 1, 8), ((5, 4, 3), 0, 2)]
)
@pytest.mark.parametrize("index", [nt.int32, nt.int64])
def test_elements(shape: tuple[int, ...], dim: int, count: int, index: nt.DType, dtype: nt.DType) -> None:
    random = np.random.default_rng(0)
    x = random.integers(0, 100 if dtype is not nt.bool else 2, shape)
    places = random.integers(0, shape[dim], (*shape[:dim], count, *shape[dim + 1 :]))
    result = nt.from_numpy(x).to(dtype).realize().gather(dim, nt.from_numpy(places).to(index).realize())
    assert [row.kernel for row in nt.explain(result)] == ["rows"]
    np.testing.assert_array_equal(result.to(nt.int64).numpy(), np.take_along_axis(x, places, dim))


def test_many_elements_in_threads() -> None:
    random = np.random.default_rng(0)
    x, places = random.standard_normal((1000, 50), np.float32), random.integers(0, 50, (1000, 60))
    result = nt.from_numpy(x).gather(1, nt.from_numpy(places))
    np.testing.assert_array_equal(result.numpy(), np.take_along_axis(x, places, 1))


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("order", [(2, 1, 0), (0, 2, 1)])
def test_views(order: tuple[int, ...], dim: int) -> None:
    x = np.arange(60.0).reshape(3, 4, 5)
    view, own = nt.from_numpy(x)[:, 1:, ::2].permute(order), x[:, 1:, ::2].transpose(order)
    places = np.random.default_rng(0).integers(0, own.shape[dim], own.shape)
    result = view.gather(dim, nt.from_numpy(places))
    np.testing.assert_array_equal(result.numpy(), np.take_along_axis(own, places, dim))


@pytest.mark.parametrize("wrong", [-1, 5, 1 << 40])
def test_places_that_are_not_there(wrong: int) -> None:
    result = nt.arange(10).reshape(2, 5).gather(1, nt.tensor([[0, 4], [1, wrong]]).double().long())
    with pytest.raises(IndexError, match=f"{wrong} is out of range for extent 5"):
        result.numpy()
