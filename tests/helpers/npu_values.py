"""Computations of NPU tests with NumPy's results."""

from typing import Any

import ml_dtypes
import numpy as np

import npu_tensor as nt

Array = np.ndarray[Any, Any]

BF16 = np.dtype(ml_dtypes.bfloat16)


def normal(*shape: int, seed: int = 0, dtype: Any = BF16) -> Array:
    """Normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def as_float(array: Array) -> Array:
    """Convert to float64, in which references are computed."""
    return array.astype(np.float64)


def close(got: nt.Tensor | Array, expected: Array) -> None:
    """Every element is within one part in 64 of the largest, as bfloat16 and sums in another order may leave them."""
    result = as_float(got.numpy() if isinstance(got, nt.Tensor) else got)
    assert result.shape == expected.shape
    largest = float(np.abs(expected).max(initial=1e-3))
    np.testing.assert_allclose(result, expected, rtol=2.0**-6, atol=largest * 2.0**-7)


def joined(number: int, seed: int = 0) -> tuple[nt.Tensor, Array]:
    """Vectors one after the other: a configuration of its own for every number below 18, without code for the cores.

    Their lengths decide the sizes of the objects that pass through memtiles; other numbers may share a configuration.
    The tensor is recorded and not computed; the array is what it must become.
    """
    lengths = [2 * 4 ** (number % 2), 2 * 4 ** (number // 2 % 6), *[2 * 4**3] * (number // 12)]
    vectors = [normal(length, seed=seed + place) for place, length in enumerate(lengths)]
    return nt.cat([nt.from_numpy(vector) for vector in vectors]), np.concatenate(vectors)


def compute(number: int, seed: int = 0) -> None:
    """A kernel of its own for every number, as `joined` has it. Raises AssertionError if the result is wrong."""
    result, expected = joined(number, seed)
    np.testing.assert_array_equal(result.numpy(), expected)


def reordered(times: int, seed: int = 0) -> tuple[nt.Tensor, Array]:
    """Reorder the rows of a matrix several times: one kernel, which each time reads its previous result."""
    order = np.random.default_rng(9).permutation(24).astype(np.int32)
    at, values = nt.from_numpy(order), normal(24, 64, seed=seed)
    value = nt.from_numpy(values)
    for _ in range(times):
        value, values = value.index_select(0, at), values[order]
    return value, values


class Rearranged:
    """Kernels of three configurations one after another, with values that die inside; no number changes."""

    def __init__(self) -> None:
        rows = 16
        self.order = np.random.default_rng(rows).permutation(rows).astype(np.int32)
        self.x, self.y = normal(rows, 32), normal(rows, 32, seed=1)
        self.operands = tuple(map(nt.from_numpy, (self.x, self.y, self.order)))

    def recorded(self) -> nt.Tensor:
        """Not computed yet."""
        x, y, order = self.operands
        return nt.cat([x.index_select(0, order), y]).transpose(0, 1).contiguous()

    @property
    def expected(self) -> Array:
        """Expected value."""
        return np.concatenate([self.x[self.order], self.y]).T

    def compute(self) -> None:
        """Raises AssertionError if the result is wrong."""
        np.testing.assert_array_equal(self.recorded().numpy(), self.expected)
