"""Indexing: t[...] and t[...] = value with integers, slices, None, Ellipsis, masks and integer tensors.

Steps may be negative, as in NumPy. A boolean mask reads the mask's value, because the shape depends on it.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import STRUCT_CODES, bool_, int64, uint8
from npu_tensor.errors import ArgumentError, DimensionError, DTypeError, ShapeError
from npu_tensor.functions.creation import zeros_like
from npu_tensor.functions.register import Operand, composite, converted, fitting, tensor_of
from npu_tensor.graph.tracing import current_watch, watches
from npu_tensor.ops.declare import Call, keep
from npu_tensor.ops.rules import dimension, index_dtype
from npu_tensor.runtime.memory import Buffer
from npu_tensor.spec import Spec, broadcast_shapes
from npu_tensor.tensor import Tensor, from_array, overwrite_part, own_value, views_of


def _as_tensor(part: Any) -> Tensor:
    if isinstance(part, Tensor):
        return part
    try:
        array = np.asarray(part)
    except ValueError as error:
        raise DimensionError(f"lists as an index must be rectangular: {error}") from None
    if array.dtype.kind == "O":
        raise DimensionError("a list as an index has integers or truth values in it; for slices and None write a tuple")
    is_list = not isinstance(part, np.ndarray)
    if (is_list and array.size == 0) or (array.dtype.kind in "iu" and (is_list or 1 < array.itemsize < 8)):
        array = array.astype(np.int64)
    return from_array(array)


def _number(index: Any) -> int | None:
    """Return the value of a zero-dimensional integer, which selects a slice as a Python integer does, or else None.

    Also None for tensors while a function is captured, because their values do not exist then.
    """
    is_tensor = isinstance(index, Tensor)
    if not (is_tensor or isinstance(index, np.ndarray)) or index.ndim:
        return None
    is_integer = index.dtype.is_integer if is_tensor else index.dtype.kind in "iu"
    if not is_integer or index.dtype in (bool_, uint8, np.uint8) or (is_tensor and current_watch() is not None):
        return None
    return int(index)


def _parts(index: Any, ndim: int) -> list[Any]:
    """Return the index as a list for all dimensions: Ellipsis expanded, sequences and arrays as tensors."""
    items = list(index) if isinstance(index, tuple) else [index]
    parts: list[Any] = []
    used = 0
    for part in items:
        if part is None or part is Ellipsis or isinstance(part, slice):
            parts.append(part)
            used += isinstance(part, slice)
        elif isinstance(part, (bool, np.bool_)):
            parts.append(from_array(np.asarray(part)))
        elif (number := _number(part)) is not None:
            parts.append(number)
            used += 1
        elif isinstance(part, (Tensor, np.ndarray, list, tuple, range)):
            tensor = _as_tensor(part)
            if tensor.is_floating_point():
                raise DimensionError(f"indices must be integers or masks, not {tensor.dtype.name}")
            if tensor.dtype is uint8:
                raise DimensionError("uint8 is not an index: write .bool() for a mask, .long() for positions")
            is_mask = tensor.dtype is bool_
            parts.append(tensor if is_mask else tensor.to(int64))
            used += tensor.ndim if is_mask else 1
        elif hasattr(part, "__index__"):
            parts.append(operator.index(part))
            used += 1
        else:
            raise TypeError(f"{type(part).__name__} is not an index; use integers, slices, None, Ellipsis or tensors")
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


class _Index:
    """Steps of an index: slice all dimensions; reshape; take points along some dimensions.

    Attributes:
        bounds: (start, stop, step) of every dimension.
        shape: Shape after dropping integers and adding None.
        origins: Dimension of the input for each dimension of `shape`, None for a new one.
        tensors: Integer tensors, each with the dimension of `shape` that it indexes.
    """

    def __init__(self, index: Any, extents: tuple[int, ...], for_put: bool = False) -> None:
        self.bounds: tuple[tuple[int, int, int], ...] = ()
        self.shape: tuple[int, ...] = ()
        self.origins: tuple[int | None, ...] = ()
        self.tensors: tuple[tuple[int, Tensor], ...] = ()
        self._extents = extents
        parts = _parts(index, len(extents))
        # Integers are operands, so that changing ones do not change the structure. PyTorch treats an integer beside
        # index tensors as a slice, not as one of these tensors.
        self._integers_as_tensors = for_put and not any(isinstance(part, Tensor) for part in parts)
        for part in parts:
            self._add(part)

    def _add(self, part: Any) -> None:
        """Add an int, a slice, None, a mask or an integer tensor."""
        if part is None:
            self._new_dimension()
        elif isinstance(part, int):
            self._integer(part)
        elif isinstance(part, slice):
            bounds = part.indices(self._extent)
            self._kept(bounds if len(range(*bounds)) else (0, 0, 1))  # an empty slice must not point outside
        elif part.dtype is bool_:
            self._mask(part)
        else:
            self._points(part)

    @property
    def _extent(self) -> int:
        """Extent of the next dimension."""
        return self._extents[len(self.bounds)]

    def _new_dimension(self) -> None:
        self.shape += (1,)
        self.origins += (None,)

    def _kept(self, bounds: tuple[int, int, int]) -> None:
        self.origins += (len(self.bounds),)
        self.bounds += (bounds,)
        self.shape += (len(range(*bounds)),)

    def _points(self, index: Tensor) -> None:
        self.tensors += ((len(self.shape), index),)
        self._kept((0, self._extent, 1))

    def _integer(self, index: int) -> None:
        extent = self._extent
        if not -extent <= index < extent:
            raise DimensionError(f"index {index} is out of range for dimension {len(self.bounds)} of extent {extent}")
        index %= extent
        if self._integers_as_tensors:
            self._points(from_array(np.array(index, np.int64)))
        else:
            self.bounds += ((index, index + 1, 1),)

    def _mask(self, mask: Tensor) -> None:
        """Convert a mask of n dimensions to n vectors of positions. Reads the mask."""
        start = len(self.bounds)
        covered = self._extents[start : start + mask.ndim]
        if any(own not in (0, extent) for own, extent in zip(mask.shape, covered, strict=True)):
            raise DimensionError(f"mask {list(mask.shape)} does not fit the extents {list(covered)}")
        if not mask.ndim:  # a new dimension of extent 1 or 0
            self.tensors += ((len(self.shape), from_array(np.zeros(int(bool(mask)), np.int64))),)
            self._new_dimension()
        else:
            for positions in np.nonzero(mask.numpy()):
                self._points(from_array(positions, int64))


def _start(tensors: tuple[tuple[int, Tensor], ...]) -> int:
    """Return the position of the dimensions of index tensors in the result.

    Neighbouring tensors keep their position; otherwise their dimensions come first, as in NumPy. A tensor without
    dimensions only removes its own, as an integer does.
    """
    removed = [place for place, tensor in tensors if not tensor.ndim]
    places = [place - sum(other < place for other in removed) for place, tensor in tensors if tensor.ndim]
    return places[0] if places and places[-1] - places[0] == len(places) - 1 else 0


_views: dict[Any, tuple[Call, ...]] = {}
"""View ops that make input[index], by the spec of the input and the key of the index."""


_BOUNDS: Final = {int, type(None)}


def _key(index: Any) -> tuple[Any, ...] | None:
    """Return a hashable key of an index of integers, slices, None and Ellipsis; None for any other index."""
    key: list[Any] = []
    for part in index if type(index) is tuple else (index,):
        if type(part) is slice:
            bounds = part.start, part.stop, part.step
            if not {*map(type, bounds)} <= _BOUNDS:
                return None
            key.append(bounds)
        elif part is None or part is Ellipsis or type(part) is int:
            key.append(part)
        else:
            return None
    return tuple(key)


def _views_at(spec: Spec, resolved: _Index) -> tuple[Call, ...]:
    """Return the view ops for the slices and the shape of an index."""
    calls: list[Call] = []
    if any(bound != (0, extent, 1) for bound, extent in zip(resolved.bounds, spec.shape, strict=True)):
        calls.append(ops.slice_.op.call((spec,), (resolved.bounds,)))
        spec = calls[0].spec
    if spec.shape != resolved.shape or not (calls or resolved.tensors):
        calls.append(ops.reshape.op.call((spec,), (resolved.shape,)))
    return tuple(calls)


def get(input: Tensor, index: Any) -> Tensor:
    """Return input[index]."""
    if (number := _number(index)) is not None:
        index = number
    if type(index) is int and input.ndim:
        return ops.select(input, 0, index)
    spec, key = input._node.spec, _key(index)
    if key is not None and (spec, key) in _views:
        return views_of(input, _views[spec, key])
    resolved = _Index(index, input.shape)
    calls = _views_at(spec, resolved)
    if key is not None:
        keep(_views, (spec, key), calls)
    basic = views_of(input, calls)
    if not resolved.tensors:
        return basic
    places = [place for place, _ in resolved.tensors]
    indices = [tensor for _, tensor in resolved.tensors]
    others = [axis for axis in range(basic.ndim) if axis not in places]
    elements = ops.take_points(basic.permute(*places, *others), *indices)
    added, before = elements.ndim - len(others), _start(resolved.tensors)
    if (watch := current_watch()) is not None and not any(tensor.ndim for tensor in indices):
        watch.copies.add(elements)
    if not added or not before:
        return elements
    order = [*range(added, added + before), *range(added), *range(added + before, elements.ndim)]
    return elements.permute(*order).clone()  # the result must not be a view


def _without_switches(index: Any) -> Any | None:
    """Replace zero-dimensional bools and masks, which select all or nothing, by None. Return None for nothing."""
    parts = list(index) if isinstance(index, tuple) else [index]
    for position, part in enumerate(parts):
        is_mask = isinstance(part, (Tensor, np.ndarray)) and not part.ndim and part.dtype in (bool_, np.bool_)
        if is_mask or isinstance(part, (bool, np.bool_)):
            if not part:
                return None
            parts[position] = None
    return tuple(parts)


def _fitted(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Expand the value to `shape`, without surplus leading dimensions of extent 1."""
    surplus = max(value.ndim - len(shape), 0)
    own = value.shape[surplus:]
    pairs = zip(reversed(own), reversed(shape), strict=False)
    if any(extent != 1 for extent in value.shape[:surplus]) or any(a not in (1, b) for a, b in pairs):
        raise ShapeError(f"a value of shape {list(value.shape)} does not fit {list(shape)}")
    value = value.reshape(own) if surplus else value
    return value if value.shape == shape else value.expand(shape)


def put(input: Tensor, index: Any, value: Operand, wrap: bool = True, reduce: str = "") -> Tensor:
    """Return input with input[index] replaced by value, broadcast and converted to the dtype of input.

    Args:
        index: Index in any form that `input[index]` accepts.
        value: New elements. A number must fit the dtype.
        wrap: True to accept negative elements of index tensors.
        reduce: "add" or "multiply" to combine with the value, once for each time a position occurs.
    """
    source = converted(value, input.dtype)
    if isinstance(index, tuple) and len(index) == 1 and isinstance(index[0], Tensor):
        (index,) = index
    if isinstance(index, Tensor) and index.dtype is bool_ and index.ndim and reduce != "multiply":
        inner = input.shape[index.ndim :]
        source = source.reshape(()) if source.numel() == 1 else source
        if index.shape == input.shape[: index.ndim] and source.ndim <= len(inner):  # works without the mask's value
            element = _fitted(source, inner)
            mask = index.reshape(*index.shape, *(1 for _ in inner))
            return ops.where_op(mask, input + element if reduce else element, input)
    index = _without_switches(index)
    if index is None:
        return input.clone()
    resolved = _Index(index, input.shape, for_put=True)
    places = [place for place, _ in resolved.tensors]
    indices = [tensor for _, tensor in resolved.tensors]
    extents = broadcast_shapes(*(tensor.shape for tensor in indices))
    outer = [extent for axis, extent in enumerate(resolved.shape) if axis not in places]
    start = _start(resolved.tensors)
    shape = (*outer[:start], *extents, *outer[start:])
    dims = tuple(axis for place in places if (axis := resolved.origins[place]) is not None)
    others = [len(range(*bound)) for axis, bound in enumerate(resolved.bounds) if axis not in dims]
    taken_dims = range(start, start + len(extents))
    order = [*taken_dims, *(axis for axis in range(len(shape)) if axis not in taken_dims)]
    source = _fitted(source, shape)
    if order != [*range(len(shape))]:
        source = source.permute(*order)
    if source.shape != (*extents, *others):
        source = source.reshape(*extents, *others)
    return ops.put_op(input, source, *indices, bounds=resolved.bounds, dims=dims, wrap=wrap, reduce=reduce)


def _first_element(spec: Spec, index: Any) -> int | None:
    """Return the number of the first element at integer positions, or None for another index or one out of range."""
    positions = index if type(index) is tuple else (index,)
    if len(positions) > spec.ndim:
        return None
    first, size = 0, spec.size
    for position, extent in zip(positions, spec.shape, strict=False):
        if type(position) is not int or not -extent <= position < extent:
            return None
        size //= extent
        first += size * (position % extent)
    return first


def _stored_in_place(input: Tensor, index: Any, first: int, value: Operand) -> bool:
    """Store a number or a computed tensor at integer positions in place. Return False if that needs a new value."""
    spec = input._node.spec
    shape = spec.shape[len(index) if type(index) is tuple else 1 :]
    if isinstance(value, Tensor):
        node = value._node
        fits = node.spec.dtype is spec.dtype and node.spec.shape == shape and node.history is None
        if not fits or type(node.value) is not Buffer or not own_value(input):
            return False
        return overwrite_part(input, first, node.value.address, node.spec.nbytes)
    if shape or spec.dtype not in STRUCT_CODES or not own_value(input):
        return False
    try:
        data = struct.pack(STRUCT_CODES[spec.dtype], value.item() if isinstance(value, np.generic) else value)
    except (OverflowError, struct.error):
        return False
    element = ctypes.create_string_buffer(data, len(data))
    return overwrite_part(input, first, ctypes.addressof(element), len(data))


def _is_part(input: Tensor, index: Any, first: int | None, value: Operand) -> bool:
    """Return True if the value is the view input[index]."""
    written = value._alias if isinstance(value, Tensor) else None
    if input._alias is None or written is None or written[0] is not input._alias[0]:
        return False
    view, spec = written[1], input._node.spec
    if first is not None and not input._alias[1].path and view.is_contiguous:
        shape = spec.shape[len(index) if type(index) is tuple else 1 :]
        return view.layout.offset == first and view.spec.shape == shape and view.spec.dtype is spec.dtype
    return get(input, index)._alias == written


@composite("__setitem__", function=False)
def _set(self: Tensor, index: Any, value: Operand) -> None:
    first = None if watches else _first_element(self._node.spec, index)
    if _is_part(self, index, first, value):
        return  # x[i] += y writes to the view x[i], and then x[i] to itself.
    if first is not None and _stored_in_place(self, index, first, value):
        return
    if self._alias is not None and self._alias[1].overlaps:
        part = get(self, index)  # The written part itself may not overlap, after expand for example.
        if part._alias is not None:
            part.copy_(value)
            return
    if (watch := current_watch()) is not None:
        watch.lost.pop(id(value), None)  # for x[i] += 1
    self._assign(put(self, index, value))


@composite("__iter__", function=False, view=True)
def _iterate(self: Tensor) -> Iterator[Tensor]:
    if not self.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


composite("__getitem__", function=False, view=True)(get)


@composite()
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Return the positions of elements that are not zero. Reads the value.

    Args:
        as_tuple: True for one vector per dimension, False for a matrix with one row per element.
    """
    positions = np.nonzero(np.atleast_1d(input.numpy()))
    if as_tuple:
        return tuple(from_array(axis, int64) for axis in positions)
    rows = np.stack(positions, axis=1) if input.ndim else np.zeros((len(positions[0]), 0))
    return from_array(rows, int64)


@composite()
def argwhere(input: Tensor) -> Tensor:
    """Return the positions of elements that are not zero, one row each. Reads the value."""
    rows: Tensor = nonzero(input)
    return rows


def require_mask(mask: Tensor) -> None:
    """Raise DTypeError unless the mask is bool; other elements would be positions."""
    if mask.dtype is not bool_:
        raise DTypeError(f"the mask must be bool, not {mask.dtype.name}")


def require_same_dtype(input: Tensor, source: Tensor) -> None:
    """Raise DTypeError unless source has the dtype of input."""
    if source.dtype is not input.dtype:
        name = input.dtype.name
        raise DTypeError(f"{source.dtype.name} cannot be put into {name}; convert with .to(npu_tensor.{name})")


@composite()
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """Return the elements where mask is true, as a vector. Reads the mask."""
    require_mask(mask)
    shape = broadcast_shapes(input.shape, mask.shape)
    return get(input.expand(shape), mask.expand(shape)) if shape else get(input.reshape(1), mask.reshape(1))


@composite(method=False)
def where(condition: Tensor, input: Operand | None = None, other: Operand | None = None) -> Any:
    """Return input where condition is true, else other.

    A condition alone gives its positions, as `nonzero` with as_tuple=True.

    >>> nt.where(nt.tensor([True, False]), nt.tensor([1.0, 2.0]), 0.0)
    """
    if input is None or other is None:
        return nonzero(condition, as_tuple=True)
    for value, tensor in ((input, other), (other, input)):
        if isinstance(value, int) and isinstance(tensor, Tensor) and tensor.dtype.is_integer:
            fitting(value, tensor.dtype)
    return ops.where_op(condition, input, other)


@composite("where", function=False)
def _where_method(self: Tensor, condition: Tensor, other: Operand) -> Any:
    """Return this tensor where condition is true, else other."""
    return where(condition, self, other)


@composite(in_place=True)
def index_fill(input: Tensor, dim: int, index: Tensor, value: float) -> Tensor:
    """Return input with the slices at the positions `index` along dim set to value.

    >>> nt.index_fill(nt.zeros(3), 0, nt.tensor([2, 0]), 7.0)
    """
    place = dimension(dim, input.ndim)
    index_dtype(index.dtype)
    result = put(with_dimension(input), (*[slice(None)] * place, index), value)
    return result if input.ndim else result.reshape(())


def with_dimension(tensor: Tensor) -> Tensor:
    """Reshape a zero-dimensional tensor to a vector, because positions along a dimension need one."""
    return tensor if tensor.ndim else tensor.reshape(1)


@composite(in_place=True)
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | float | None = None,
    *,
    value: float | None = None,
    reduce: str | None = None,
) -> Tensor:
    """Return input with elements of src stored at [index[i][j]][j] for dim = 0, and accordingly for other dims.

    Args:
        dim: Dimension along which `index` counts.
        index: Integer positions. Negative ones are out of range, as in `gather`.
        src: Tensor of the new elements, at least as large as `index`.
        value: Number to store instead of `src`.
        reduce: "add" or "multiply" to combine with the present elements, once for each time a position occurs.

    Raises:
        ArgumentError: `reduce` has another value.
        TypeError: Not exactly one of `src` and `value` is given.

    >>> nt.scatter(nt.zeros(3), 0, nt.tensor([2, 0]), nt.tensor([1.0, 2.0]))
    """
    if reduce not in (None, "add", "multiply"):
        raise ArgumentError(f"reduce must be add or multiply, not {reduce!r}")
    source = value if src is None else with_dimension(src) if isinstance(src, Tensor) else src
    if source is None or (src is not None and value is not None) or (isinstance(value, Tensor) and value.ndim):
        raise TypeError("scatter takes either a tensor as src or a number as value")
    return put_along(input, dim, index, source, reduce or "")


def put_along(input: Tensor, dim: int, index: Tensor, source: Tensor | float, reduce: str) -> Tensor:
    """Store or reduce elements like `scatter`. `reduce` is the name of a function of NumPy."""
    shape, input, index = input.shape, with_dimension(input), with_dimension(index)
    if isinstance(source, Tensor) and source.ndim:
        require_same_dtype(input, source)
        if source.ndim != index.ndim or any(a < b for a, b in zip(source.shape, index.shape, strict=True)):
            raise ShapeError(f"src of shape {list(source.shape)} is smaller than index of shape {list(index.shape)}")
        if source.shape != index.shape:
            source = get(source, tuple(slice(extent) for extent in index.shape))
    else:
        source = converted(source, input.dtype).expand(index.shape)
    dim = dimension(dim, input.ndim)
    index_dtype(index.dtype)
    result = ops.scatter_along(input, source, index, dim, reduce) if index.numel() else input.clone()
    return result if shape else result.reshape(shape)


# --- functions with an in-place form only


@composite("zero_", function=False)
def zero_in_place(input: Tensor) -> Tensor:
    """Set all elements to zero."""
    return input._assign(zeros_like(input), uniform=True)


@composite("fill_", function=False)
def fill_in_place(input: Tensor, value: float | Tensor) -> Tensor:
    """Set all elements to one number."""
    number = converted(value, input.dtype)
    return input._assign(number.reshape(()).expand(input.shape), uniform=True)


@composite("copy_", function=False)
def copy_in_place(input: Tensor, src: Operand, non_blocking: bool = False) -> Tensor:
    """Replace the value by that of src, broadcast and converted."""
    value = tensor_of(src).to(input.dtype).expand(input.shape)
    return input._assign(ops.reshape(value, *input.shape) if value is src else value)
