"""Coordinates: all combinations of values, and positions of triangles."""

from __future__ import annotations

import numpy as np

from npu_tensor.dtypes import int64
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.creation import extents
from npu_tensor.functions.register import composite
from npu_tensor.functions.shape import stack
from npu_tensor.ops.rules import unpacked
from npu_tensor.tensor import Tensor, from_array

__all__: list[str] = []


@composite(method=False)
def meshgrid(*tensors: Tensor, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Each vector expanded along a dimension of its own; indexing="xy" swaps the first two dimensions."""
    if indexing not in ("ij", "xy"):
        raise ArgumentError(f"indexing must be 'ij' or 'xy', not {indexing!r}")
    vectors: tuple[Tensor, ...] = unpacked(tensors)
    if any(vector.ndim > 1 for vector in vectors):
        raise ShapeError("needs vectors or numbers")
    shape = [vector.numel() for vector in vectors]
    grids = tuple(
        vector.reshape(*(extent if axis == place else 1 for axis, extent in enumerate(shape))).expand(shape)
        for place, vector in enumerate(vectors)
    )
    return tuple(grid.transpose(0, 1) for grid in grids) if indexing == "xy" and len(shape) > 1 else grids


@composite(method=False)
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of the elements of vectors, one row each, the last vector's varying fastest."""
    if len(tensors) == 1:
        return tensors[0].clone()
    return stack([grid.reshape(grid.numel()) for grid in meshgrid(*tensors)], -1)


@composite(method=False)
def tril_indices(row: int, col: int, offset: int = 0) -> Tensor:
    """Rows and columns, (2, n) of int64, of the elements on and below a diagonal."""
    rows, columns = extents((row, col))
    return from_array(np.stack(np.tril_indices(rows, offset, columns)), int64)


@composite(method=False)
def triu_indices(row: int, col: int, offset: int = 0) -> Tensor:
    """Rows and columns, (2, n) of int64, of the elements on and above a diagonal."""
    rows, columns = extents((row, col))
    return from_array(np.stack(np.triu_indices(rows, offset, columns)), int64)
