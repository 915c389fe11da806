"""Which bytes a DMA touches in which order, as strided views."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.dataflow.design import AccessPattern, Dim
from npu_tensor.runtime.sim.tile_memory import Bytes

__all__ = ["StridedAccess", "object_access", "pattern_accesses"]

_LARGEST_CHUNK: Final = 1 << 20
"""Bytes of host memory that one access copies at most, unless they are contiguous.

A fill reads so many ahead of what the array takes, and a drain writes them at once.
"""


class StridedAccess(NamedTuple):
    """Nested loops over elements of `itemsize` bytes from byte `start`. strides in bytes."""

    start: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def nbytes(self) -> int:
        """How many bytes it passes."""
        return math.prod(self.sizes) * self.itemsize

    @property
    def end(self) -> int:
        """One past the last byte it touches."""
        return (
            self.start
            + sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))
            + self.itemsize
        )

    @property
    def contiguous(self) -> bool:
        """Whether it is one run of neighbours."""
        return self.strides == (self.itemsize,)

    def view(self, memory: Bytes) -> np.ndarray[Any, Any]:
        """The elements in the order of the access. Raises ValueError if it leaves the memory."""
        return np.ndarray(self.sizes, f"u{self.itemsize}", memory, self.start, self.strides)


def _merged(dims: Iterable[Dim]) -> list[Dim]:
    """The same access with as few loops as possible, one at least."""
    merged: list[Dim] = []
    for dim in dims:
        if dim.size == 1:
            continue
        if merged and merged[-1].stride == dim.size * dim.stride:
            dim = Dim(merged.pop().size * dim.size, dim.stride)
        merged.append(dim)
    return merged or [Dim(1, 1)]


def _access(start: int, dims: Sequence[Dim], itemsize: int) -> StridedAccess:
    return StridedAccess(
        start * itemsize, tuple(dim.size for dim in dims), tuple(dim.stride * itemsize for dim in dims), itemsize
    )


def object_access(dims: Sequence[Dim], elements: int, itemsize: int) -> StridedAccess:
    """The access of dims_to_stream or dims_from_stream through an object; in order without any."""
    return _access(0, _merged(dims or [Dim(elements, 1)]), itemsize)


def pattern_accesses(pattern: AccessPattern, itemsize: int) -> list[StridedAccess]:
    """An access pattern through a host buffer, in pieces: all alike but for their starts."""
    dims = _merged(map(Dim, pattern.sizes, pattern.strides))
    inner = len(dims) - 1
    while inner > 0 and math.prod(dim.size for dim in dims[inner - 1 :]) * itemsize <= _LARGEST_CHUNK:
        inner -= 1
    outer = itertools.product(*([index * stride for index in range(size)] for size, stride in dims[:inner]))
    return [_access(pattern.offset + sum(offsets), dims[inner:], itemsize) for offsets in outer]
