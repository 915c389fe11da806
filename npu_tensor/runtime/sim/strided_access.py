"""Bytes that a DMA touches, in order, as strided views."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.dataflow.design import AccessPattern, Dim
from npu_tensor.ops.layouts import merged
from npu_tensor.runtime.sim.tile_memory import Bytes

__all__ = ["StridedAccess", "object_access", "pattern_accesses"]

_LARGEST_CHUNK: Final = 1 << 20
"""Upper bound on the bytes of host memory that one access copies, unless they are contiguous.

A fill reads this much ahead of the array, and a drain writes it at once.
"""


class StridedAccess(NamedTuple):
    """Nested loops over elements of `itemsize` bytes from byte `start`. strides: in bytes."""

    start: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def nbytes(self) -> int:
        """Number of bytes that are accessed."""
        return math.prod(self.sizes) * self.itemsize

    @property
    def end(self) -> int:
        """End of the touched range: one past the last byte."""
        return (
            self.start
            + sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))
            + self.itemsize
        )

    @property
    def contiguous(self) -> bool:
        """True if the access is one contiguous run."""
        return self.strides == (self.itemsize,)

    def view(self, memory: Bytes) -> np.ndarray[Any, Any]:
        """Return the elements in the order of the access. Raises ValueError if it exceeds the memory."""
        return np.ndarray(self.sizes, f"u{self.itemsize}", memory, self.start, self.strides)


def _merged(dims: Iterable[Dim]) -> list[Dim]:
    """Return the same access with as few loops as possible, at least one."""
    dims = tuple(dims)
    sizes, (strides,) = merged([dim.size for dim in dims], [[dim.stride for dim in dims]])
    return list(map(Dim, sizes, strides)) or [Dim(1, 1)]


def _access(start: int, dims: Sequence[Dim], itemsize: int) -> StridedAccess:
    return StridedAccess(
        start * itemsize, tuple(dim.size for dim in dims), tuple(dim.stride * itemsize for dim in dims), itemsize
    )


def object_access(dims: Sequence[Dim], elements: int, itemsize: int) -> StridedAccess:
    """Return the access of dims_to_stream or dims_from_stream to an object; in order without dims."""
    return _access(0, _merged(dims or [Dim(elements, 1)]), itemsize)


def pattern_accesses(pattern: AccessPattern, itemsize: int) -> list[StridedAccess]:
    """Return the accesses of a pattern to a host buffer, in pieces that differ only in their starts."""
    dims = _merged(map(Dim, pattern.sizes, pattern.strides))
    inner = len(dims) - 1
    while inner > 0 and math.prod(dim.size for dim in dims[inner - 1 :]) * itemsize <= _LARGEST_CHUNK:
        inner -= 1
    outer = itertools.product(*([index * stride for index in range(size)] for size, stride in dims[:inner]))
    return [_access(pattern.offset + sum(offsets), dims[inner:], itemsize) for offsets in outer]
