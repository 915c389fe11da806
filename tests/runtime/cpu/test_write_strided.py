"""Values that are stored or added with strides: compiled copies, against NumPy."""

from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor import ops

Key = tuple[slice | int, ...]


@pytest.mark.parametrize("dtype", [nt.float32, nt.float64, nt.float16, nt.bfloat16, nt.int32])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize(
    "key",
    [
        (slice(None), slice(1, 3)),
        (slice(None), slice(None), slice(None, None, 2)),
        (slice(None, None, -1), slice(4, 0, -2), slice(1, None)),
        (2, slice(None), 3),
    ],
)
def test_parts(key: Key, add: bool, dtype: nt.DType) -> None:
    random = np.random.default_rng(0)
    whole = random.integers(-9, 9, (4, 5, 23))
    value = random.integers(-9, 9, whole[key].shape)
    of_places = np.arange(whole.size).reshape(whole.shape)[key]
    strides = tuple(int(np.diff(of_places, axis=a).flat[0]) for a in range(of_places.ndim))

    def as_tensor(array: np.ndarray[Any, Any]) -> nt.Tensor:
        return nt.from_numpy(array.astype(np.float32)).to(dtype)

    # The value is a view that jumps in memory.
    turned = as_tensor(np.ascontiguousarray(value.T)).realize().permute(*range(value.ndim)[::-1])
    written = ops.write_strided(as_tensor(whole).realize(), turned, int(of_places.flat[0]), strides=strides, add=add)
    assert [row.kernel for row in nt.explain(written) if row.op == "write_strided"] == ["strided"]
    whole[key] = whole[key] + value if add else value
    np.testing.assert_array_equal(written.to(nt.float32).numpy(), whole)


def test_elements_without_places_of_their_own_are_left_to_numpy() -> None:
    written = ops.write_strided(nt.zeros(3).realize(), nt.ones(3, 2), 0, strides=(1, 0))
    assert [row.kernel for row in nt.explain(written) if row.op == "write_strided"] == ["numpy"]
    assert written.tolist() == [1, 1, 1]


def test_the_operand_of_a_write_stays() -> None:
    before = nt.arange(6, dtype=nt.float32).realize()
    after = ops.write_strided(before, nt.ones(2), 1, strides=(3,)).realize()
    assert (before.tolist(), after.tolist()) == ([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 1, 5])


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((6, 3, 20, 50), (1100, 1, 55, 1)),  # windows of 3 along rows of 55
        ((6, 3, 3, 20, 50), (1320, 60, 1, 60, 1)),
        ((40, 5, 30), (64, 2, 2)),
        ((9, 700), (1, 1)),
        ((3, 64, 40), (1, 3, 200)),
    ],
)
@pytest.mark.parametrize("compiled", [True, False])
def test_sums_of_elements_with_equal_places(shape: tuple[int, ...], strides: tuple[int, ...], compiled: bool) -> None:
    random = np.random.default_rng(0)
    whole, value = random.integers(-9, 9, 12000).astype(np.float32), random.integers(-9, 9, shape).astype(np.float32)
    written = ops.write_strided(nt.from_numpy(whole), nt.from_numpy(value), 7, strides=strides, add=True)
    if compiled:
        assert [row.kernel for row in nt.explain(written)] == ["strided"]
        result = written.numpy()
    else:
        result = ops.write_strided.op.body(whole.copy(), value, 7, strides=strides, add=True)
    places = 7 + sum(np.arange(n).reshape(-1, *[1] * (len(shape) - 1 - a)) * strides[a] for a, n in enumerate(shape))
    np.add.at(whole, places, value)
    np.testing.assert_array_equal(result, whole)


def test_a_value_may_be_what_it_is_written_over() -> None:
    y = nt.arange(40, dtype=nt.float32).realize() + 0.5
    assert ops.write_strided(y, y, 39, strides=(-1,)).tolist() == [39.5 - n for n in range(40)]
