"""Spec: shape and dtype of a tensor, known before its data. Specs are interned: equal ones are the same object."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, ClassVar, Final, SupportsIndex, overload

from npu_tensor._util.cache_sizes import LAYOUTS
from npu_tensor._util.units import size
from npu_tensor.dtypes import DType
from npu_tensor.errors import ShapeError

__all__ = ["Size", "Spec", "broadcast_shapes", "contiguous_strides"]


MOST_DIMENSIONS: Final = 64
"""Upper bound on dimensions: that of NumPy, which computes ops without a compiled form."""

MOST_BYTES: Final = 2**63 - 1
"""Upper bound on sizes: that of 64-bit strides."""


class Size(tuple[int, ...]):
    """Shape of a tensor: a tuple with a method for the number of elements. Its slices are sizes, too."""

    __slots__ = ()

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Size: ...

    def __getitem__(self, index: Any) -> Any:
        part = tuple.__getitem__(self, index)
        return Size(part) if type(index) is slice else part

    def numel(self) -> int:
        """Return the number of elements."""
        return math.prod(self)


class Spec:
    """Shape (outermost dimension first, as in NumPy) and dtype. Create with `Spec.of`."""

    __slots__ = ("dtype", "nbytes", "ndim", "shape", "size")
    _interned: ClassVar[dict[tuple[tuple[int, ...], DType], Spec]] = {}

    def __init__(self, shape: tuple[int, ...], dtype: DType) -> None:
        self.shape: Final = Size(shape)
        self.dtype: Final = dtype
        self.ndim: Final = len(shape)
        self.size: Final[int] = math.prod(shape)
        self.nbytes: Final[int] = dtype.nbytes(self.size)

    @classmethod
    def of(cls, shape: tuple[int, ...], dtype: DType) -> Spec:
        """Return the Spec of a shape and dtype.

        Raises:
            ShapeError: There are too many dimensions or bytes, or the blocks of the dtype do not divide the rows.
        """
        key = (shape, dtype)
        spec = cls._interned.get(key)
        if spec is None:
            _require_countable(shape, dtype)
            spec = cls._interned.setdefault(key, cls(shape, dtype))
        return spec

    def __repr__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return Spec.of, (self.shape, self.dtype)

    @property
    def ne(self) -> tuple[int, int, int, int]:
        """GGML's four extents, innermost first, padded with ones. Raises ShapeError above four dimensions."""
        if self.ndim > 4:
            raise ShapeError(f"GGML tensors have at most 4 dimensions, {self} has {self.ndim}")
        padded = (*reversed(self.shape), 1, 1, 1, 1)
        return padded[0], padded[1], padded[2], padded[3]


def _require_countable(shape: tuple[int, ...], dtype: DType) -> None:
    if len(shape) > MOST_DIMENSIONS:
        raise ShapeError(f"a tensor has at most {MOST_DIMENSIONS} dimensions, not {len(shape)}")
    if dtype.block > 1 and (not shape or shape[-1] % dtype.block):
        raise ShapeError(
            f"{dtype.name} has blocks of {dtype.block} elements, which do not divide rows of {list(shape)}"
        )
    nbytes = dtype.nbytes(math.prod(max(extent, 1) for extent in shape))
    if nbytes > MOST_BYTES:
        raise ShapeError(f"{dtype.name} of shape {list(shape)} needs {size(nbytes)}, more than 64 bits can address")


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Broadcast shapes by NumPy's rule. Raises ShapeError, which names all shapes, if they do not fit."""
    ndim = max(map(len, shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for axis, extent in enumerate(shape, ndim - len(shape)):
            if extent != 1:
                if result[axis] not in (1, extent):
                    raise ShapeError(f"shapes {' and '.join(str(list(s)) for s in shapes)} do not broadcast")
                result[axis] = extent
    return tuple(result)


@lru_cache(maxsize=LAYOUTS)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return row-major strides in elements."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)
