"""Indexing: t[...] and t[...] = value with integers, slices, None, Ellipsis, masks and integer tensors.

Steps may be negative, as in NumPy. A boolean mask reads the mask's value, because the shape depends on it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from npu_tensor.dtypes import bool_, int64
from npu_tensor.errors import DimensionError, DTypeError, ShapeError
from npu_tensor.functional.register import Operand, composite, tensor_of
from npu_tensor.ops import OPS
from npu_tensor.ops.rules import dimension
from npu_tensor.spec import broadcast_shapes
from npu_tensor.tensor import RECORDERS, Tensor, from_array, record

__all__: list[str] = []

_slice = RECORDERS["slice"]


class _Index(NamedTuple):
    """An index cut into steps: slice all dimensions; reshape; take points along `places`.

    bounds: (start, stop, step) of every dimension. shape: after dropping integers and adding None. tensors: integer
    tensors and the dimension of `shape` that each indexes.
    """

    bounds: tuple[tuple[int, int, int], ...]
    shape: tuple[int, ...]
    tensors: tuple[tuple[int, Tensor], ...]


def _mask_indices(mask: Tensor) -> list[Tensor]:
    """Where a mask is true, as one index tensor per dimension. Reads the mask."""
    return [from_array(axis, int64) for axis in np.nonzero(mask.numpy())]


def _as_tensor(part: Any) -> Tensor:
    if isinstance(part, Tensor):
        return part
    array = np.asarray(part)
    if array.size == 0 and not isinstance(part, np.ndarray):
        array = array.astype(np.int64)
    return from_array(array)


def _parts(index: Any, ndim: int) -> list[Any]:
    """The index as a list, with Ellipsis spelled out and arrays as integer tensors; masks become their positions."""
    given = list(index) if isinstance(index, tuple) else [index]
    parts: list[Any] = []
    used = 0
    for part in given:
        if part is None or part is Ellipsis:
            parts.append(part)
        elif isinstance(part, slice):
            parts.append(part)
            used += 1
        elif isinstance(part, (bool, np.bool_)):
            raise DTypeError("a Python bool is not an index; use a mask tensor")
        elif isinstance(part, (Tensor, np.ndarray, list, range)):
            tensor = _as_tensor(part)
            if tensor.dtype is bool_:
                parts.append(tensor)
                used += tensor.ndim
            elif tensor.dtype.category == 2:
                raise DimensionError(f"indices must be integers or masks, not {tensor.dtype.name}")
            else:
                parts.append(tensor.to(int64))
                used += 1
        elif hasattr(part, "__index__"):
            parts.append(operator.index(part))
            used += 1
        else:
            raise TypeError(f"{type(part).__name__} is not an index; use integers, slices, None, ... or tensors")
    if used > ndim:
        raise DimensionError(f"{used} indices for a tensor of {ndim} dimensions")
    dots = [position for position, part in enumerate(parts) if part is Ellipsis]
    if len(dots) > 1:
        raise DimensionError("an index may have one Ellipsis")
    rest = [slice(None)] * (ndim - used)
    if dots:
        parts[dots[0] : dots[0] + 1] = rest
    else:
        parts += rest
    return parts


def _resolved(index: Any, extents: tuple[int, ...]) -> _Index:
    bounds: list[tuple[int, int, int]] = []
    shape: list[int] = []
    tensors: list[tuple[int, Tensor]] = []
    for part in _parts(index, len(extents)):
        if part is None:
            shape.append(1)
            continue
        if isinstance(part, Tensor) and part.dtype is bool_:
            covered = extents[len(bounds) : len(bounds) + part.ndim]
            if part.shape != covered:
                raise DimensionError(f"mask {list(part.shape)} does not fit the extents {list(covered)}")
            if not part.ndim:
                shape.append(1)
                tensors.append((len(shape) - 1, from_array(np.zeros(int(bool(part)), np.int64))))
                continue
            for positions, extent in zip(_mask_indices(part), covered, strict=True):
                tensors.append((len(shape), positions))
                shape.append(extent)
                bounds.append((0, extent, 1))
            continue
        axis = len(bounds)
        extent = extents[axis]
        if isinstance(part, int):
            if not -extent <= part < extent:
                raise DimensionError(f"index {part} is out of range for dimension {axis} of extent {extent}")
            start = part + extent if part < 0 else part
            bounds.append((start, start + 1, 1))
        elif isinstance(part, slice):
            bounds.append(_slice_bounds(part, extent))
            shape.append(len(range(*bounds[-1])))
        else:
            tensors.append((len(shape), part))
            shape.append(extent)
            bounds.append((0, extent, 1))
    return _Index(tuple(bounds), tuple(shape), tuple(tensors))


def _slice_bounds(part: slice, extent: int) -> tuple[int, int, int]:
    """Bounds inside the extent; an empty slice becomes (0, 0, 1), so that it never points outside."""
    bounds = part.indices(extent)
    return bounds if len(range(*bounds)) else (0, 0, 1)


def _basic(input: Tensor, index: _Index) -> Tensor:
    if any(bound != (0, extent, 1) for bound, extent in zip(index.bounds, input.shape, strict=True)):
        input = _slice(input, index.bounds)
    return input.reshape(index.shape) if input.shape != index.shape else input


def _are_adjacent(places: list[int]) -> bool:
    return places[-1] - places[0] == len(places) - 1


def get(input: Tensor, index: Any) -> Tensor:
    """input[index]."""
    resolved = _resolved(index, input.shape)
    basic = _basic(input, resolved)
    if not resolved.tensors:
        return basic.reshape(basic.shape) if basic is input else basic
    places = [place for place, _ in resolved.tensors]
    indices = [tensor for _, tensor in resolved.tensors]
    if len(indices) == 1 and indices[0].ndim == 0 and not basic.ndim:
        return basic
    others = [axis for axis in range(basic.ndim) if axis not in places]
    taken = record(OPS["take_points"], (basic.permute(*places, *others), *indices))
    if not _are_adjacent(places) or not places[0]:
        return taken
    # Neighbouring index tensors leave their result where they stood; otherwise it comes first, as in NumPy.
    added = taken.ndim - len(others)
    before = places[0]
    order = [*range(added, added + before), *range(added), *range(added + before, taken.ndim)]
    return taken.permute(*order)


def _result_shape(resolved: _Index) -> tuple[tuple[int, ...], int]:
    """The shape of input[index], and where the dimensions of the index tensors start in it."""
    if not resolved.tensors:
        return resolved.shape, 0
    places = [place for place, _ in resolved.tensors]
    taken = broadcast_shapes(*(tensor.shape for _, tensor in resolved.tensors))
    start = places[0] if _are_adjacent(places) else 0
    kept = [extent for axis, extent in enumerate(resolved.shape) if axis not in places]
    return (*kept[:start], *taken, *kept[start:]), start


def put(input: Tensor, index: Any, value: Operand) -> Tensor:
    """input with input[index] replaced by value, broadcast and converted to the dtype of input."""
    if isinstance(index, Tensor) and index.dtype is bool_ and index.shape == input.shape:
        source = tensor_of(value)
        if source.numel() == 1:  # needs no look at the mask
            return RECORDERS["where"](index, source.reshape(()).to(input.dtype), input)
    resolved = _resolved(index, input.shape)
    shape, _ = _result_shape(resolved)
    source = tensor_of(value).to(input.dtype)
    while source.ndim > len(shape) and source.shape[0] == 1:
        source = source.reshape(source.shape[1:])
    if broadcast_shapes(source.shape, shape) != shape:
        raise ShapeError(f"a value of shape {list(source.shape)} does not fit {list(shape)}")
    tensors = iter(tensor for _, tensor in resolved.tensors)
    parts: list[Any] = []
    operands: list[Tensor] = []
    for part in _parts(index, input.ndim):
        if isinstance(part, Tensor):
            count = part.ndim if part.dtype is bool_ and part.ndim else 1
            operands += [next(tensors) for _ in range(count)]
            parts += ["tensor"] * count if part.dtype is not bool_ or part.ndim else [None, "tensor"]
        elif isinstance(part, slice):
            parts.append(("slice", part.start, part.stop, part.step))
        else:
            parts.append(part)
    # A new axis is indexed by slices in NumPy; a zero-dimensional mask is a new axis that is then indexed.
    return record(OPS["put"], (input, source.expand(shape), *operands), (tuple(parts),))


def _set(self: Tensor, index: Any, value: Operand) -> None:
    self._assign(put(self, index, value))


def _iterate(self: Tensor) -> Iterator[Tensor]:
    if not self.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


composite("__getitem__", function=False)(get)
composite("__setitem__", function=False)(_set)
composite("__iter__", function=False)(_iterate)


@composite()
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Positions of elements that are not zero, one row each, or one vector per dimension. Reads the value."""
    found = np.nonzero(np.atleast_1d(input.numpy()))
    if as_tuple:
        return tuple(from_array(axis, int64) for axis in found)
    rows = np.stack(found, axis=1) if input.ndim else np.zeros((len(found[0]), 0))
    return from_array(rows, int64)


argwhere = composite("argwhere")(lambda input: nonzero(input))


@composite()
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where mask, as a vector. Reads the mask."""
    shape = broadcast_shapes(input.shape, mask.shape)
    return get(input.expand(shape), mask.expand(shape)) if shape else get(input.reshape(1), mask.reshape(1))


@composite()
def where(condition: Tensor, input: Operand | None = None, other: Operand | None = None) -> Any:
    """input where condition, else other. where(condition) is nonzero(condition, as_tuple=True)."""
    if input is None or other is None:
        return nonzero(condition, as_tuple=True)
    return RECORDERS["where"](condition, input, other)


def _where_method(self: Tensor, condition: Tensor, other: Operand) -> Tensor:
    return RECORDERS["where"](condition, self, other)


composite("where", function=False)(_where_method)


@composite()
def index_fill(input: Tensor, dim: int, index: Tensor, value: float) -> Tensor:
    """input with the slices at the positions `index` along dim set to value."""
    place = dimension(dim, input.ndim)
    return put(input, (*[slice(None)] * place, index), value)


@composite()
def scatter(input: Tensor, dim: int, index: Tensor, src: Tensor | float) -> Tensor:
    """input with src[i][j] stored at [index[i][j]][j] for dim = 0, and likewise for the others."""
    place = dimension(dim, input.ndim)
    if index.ndim != input.ndim:
        raise ShapeError("index must have as many dimensions as input")
    positions: list[Any] = [
        index if axis == place else from_array(np.arange(extent).reshape(*_ones(axis, index.ndim)))
        for axis, extent in enumerate(index.shape)
    ]
    if isinstance(src, Tensor):
        src = get(src, tuple(slice(extent) for extent in index.shape))
    return put(input, tuple(positions), src)


def _ones(axis: int, ndim: int) -> tuple[int, ...]:
    return tuple(-1 if other == axis else 1 for other in range(ndim))
