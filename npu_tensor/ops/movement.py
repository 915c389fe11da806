"""Ops on shape and position: views of the same memory, and ops by which NumPy moves elements.

Views are closed under composition; every other shape function of the frontend is composed of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from npu_tensor.dtypes import as_dtype, int64
from npu_tensor.errors import ArgumentError, DimensionError, DTypeError, ShapeError
from npu_tensor.ops import rules
from npu_tensor.ops.declare import Call, Layout, Operand, Resolution
from npu_tensor.ops.layouts import reshaped
from npu_tensor.ops.registry import op
from npu_tensor.ops.rules import dimension, of_tensors, require_tensor
from npu_tensor.spec import Spec, broadcast_shapes

Bounds = tuple[tuple[int, int, int], ...]
"""Start, stop and step in every dimension."""

# --- bits


@of_tensors()
def _bits_rule(x: Spec, dtype: Any) -> Resolution:
    dtype = as_dtype(dtype)
    if x.dtype.is_quantized or dtype.is_quantized:
        quantized = x.dtype if x.dtype.is_quantized else dtype
        raise DTypeError(f"{quantized.name} stores blocks, which cannot be read as single elements")
    shape: tuple[int, ...] = x.shape
    if x.dtype.itemsize != dtype.itemsize:
        nbytes = shape[-1] * x.dtype.itemsize if shape else x.dtype.itemsize
        if not shape or nbytes % dtype.itemsize:
            raise ShapeError(
                f"{nbytes} bytes along the last dimension of {list(shape)} do not divide into {dtype.name}"
            )
        shape = (*shape[:-1], nbytes // dtype.itemsize)
    return Resolution(Spec.of(shape, dtype), (None,), {"dtype": dtype.name})


@op(kind="data", rule=_bits_rule, public=False, computes=False)
def bits_as(input, /, dtype: str):
    """Reinterpret the bits of the elements as another dtype; the last dimension grows or shrinks accordingly."""
    return np.asarray(input, order="C").view(as_dtype(dtype).numpy)


# --- views


def _resolve_shape(x: Spec, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return `shape` with its one -1 replaced by the remaining extent."""
    extents = list(rules.integer_extents(shape))
    if extents.count(-1) > 1 or any(extent < -1 for extent in extents):
        raise ShapeError(f"shape {extents} may have one -1 and no other negative extent")
    if -1 in extents:
        known = math.prod(extent for extent in extents if extent != -1)
        if known == 0 or x.size % known:
            raise ShapeError(f"shape {extents} does not fit {x.size} elements")
        extents[extents.index(-1)] = x.size // known
    if math.prod(extents) != x.size:
        raise ShapeError(f"shape {extents} does not fit {x.size} elements")
    return tuple(extents)


def _view(x: Spec, shape: tuple[int, ...], /, **attributes: Any) -> Resolution:
    return Resolution(Spec.of(shape, x.dtype), (None,), attributes)


@of_tensors()
def _reshape_rule(x: Spec, shape: tuple[Any, ...]) -> Resolution:
    shape = _resolve_shape(x, shape)
    if x.dtype.is_quantized and shape[-1:] != x.shape[-1:]:
        raise ShapeError(f"rows of {x.dtype.name} cannot be split or joined; convert them with dequantize()")
    return _view(x, shape, shape=shape)


def _reshape_layout(layout: Layout, shape: tuple[int, ...], attributes: dict[str, Any]) -> Layout | None:
    return reshaped(layout, shape)


@op(kind="view", rule=_reshape_rule, ggml="RESHAPE", layout=_reshape_layout, quantized=True)
def reshape(input, /, *shape: int):
    """Give the elements, in row-major order, another shape; the result shares memory if the strides allow that."""
    return np.reshape(input, shape)


@of_tensors()
def _permute_rule(x: Spec, dims: tuple[int, ...]) -> Resolution:
    dims = tuple(dimension(dim, x.ndim) for dim in dims)
    if sorted(dims) != list(range(x.ndim)):
        raise ArgumentError(f"permute needs each of the {x.ndim} dimensions once, not {dims}")
    return _view(x, tuple(x.shape[dim] for dim in dims), dims=dims)


def _permute_layout(layout: Layout, shape: tuple[int, ...], attributes: dict[str, Any]) -> Layout:
    return Layout(shape, tuple(layout.strides[dim] for dim in attributes["dims"]), layout.offset)


@op(kind="view", rule=_permute_rule, ggml="PERMUTE", layout=_permute_layout)
def permute(input, /, *dims: int):
    """Reorder the dimensions."""
    return np.transpose(input, dims)


@of_tensors()
def _expand_rule(x: Spec, shape: tuple[Any, ...]) -> Resolution:
    wanted = rules.integer_extents(shape)
    if len(wanted) < x.ndim:
        raise ShapeError(f"expand to {list(wanted)} has fewer dimensions than the tensor")
    own = (None,) * (len(wanted) - x.ndim) + x.shape
    extents = tuple(n if extent == -1 and n is not None else extent for n, extent in zip(own, wanted, strict=True))
    if any(extent < 0 or n not in (None, 1, extent) for n, extent in zip(own, extents, strict=True)):
        raise ShapeError(f"only dimensions of extent 1 expand; {list(x.shape)} does not expand to {list(wanted)}")
    return _view(x, extents, shape=extents)


def _expand_layout(layout: Layout, shape: tuple[int, ...], attributes: dict[str, Any]) -> Layout:
    lead = len(shape) - len(layout.shape)
    strides = (0,) * lead + tuple(
        stride if extent == wanted else 0
        for extent, stride, wanted in zip(layout.shape, layout.strides, shape[lead:], strict=True)
    )
    return Layout(shape, strides, layout.offset)


@op(kind="view", rule=_expand_rule, ggml="REPEAT", layout=_expand_layout)
def expand(input, /, *shape: int):
    """Repeat dimensions of extent 1 to the given extents without copying; -1 keeps an extent.

    >>> nt.expand(nt.tensor([[1], [2]]), 2, 3)
    """
    return np.broadcast_to(input, shape)


@of_tensors()
def _slice_rule(x: Spec, bounds: Bounds) -> Resolution:
    return _view(x, tuple(len(range(*bound)) for bound in bounds), bounds=bounds)


def _slice_layout(layout: Layout, shape: tuple[int, ...], attributes: dict[str, Any]) -> Layout:
    offset = layout.offset
    strides = []
    for stride, (start, _, step) in zip(layout.strides, attributes["bounds"], strict=True):
        offset += start * stride
        strides.append(stride * step)
    return Layout(shape, tuple(strides), offset if math.prod(shape) else layout.offset)


@op(kind="view", rule=_slice_rule, ggml="VIEW", layout=_slice_layout, public=False)
def slice_(input, /, bounds):
    """Select range(start, stop, step) in every dimension; steps may be negative, bounds are resolved."""
    return input[_slices(bounds)]


@of_tensors()
def _select_rule(x: Spec, dim: int, index: int) -> Resolution:
    if not x.ndim:
        raise DimensionError("a zero-dimensional tensor has no slices")
    dim = dimension(dim, x.ndim)
    extent = x.shape[dim]
    if not -extent <= index < extent:
        raise DimensionError(f"index {index} is out of range for dimension {dim} of extent {extent}")
    return _view(x, (*x.shape[:dim], *x.shape[dim + 1 :]), dim=dim, index=index % extent)


def _select_layout(layout: Layout, shape: tuple[int, ...], attributes: dict[str, Any]) -> Layout:
    dim, strides = attributes["dim"], layout.strides
    start = layout.offset + attributes["index"] * strides[dim] if math.prod(shape) else layout.offset
    return Layout(shape, (*strides[:dim], *strides[dim + 1 :]), start)


@op(kind="view", rule=_select_rule, ggml="VIEW", layout=_select_layout)
def select(input, /, dim: int, index: int):
    """Return the slice at `index` along dim, without that dimension.

    >>> nt.select(nt.tensor([[1, 2], [3, 4]]), 0, 1)
    """
    return input[(*[slice(None)] * dim, index)]


@of_tensors()
def _diagonal_rule(x: Spec, offset: int, dim1: int, dim2: int) -> Resolution:
    first, second = dimension(dim1, x.ndim), dimension(dim2, x.ndim)
    if first == second:
        raise ArgumentError(f"dim1 and dim2 must differ, both are {first}")
    length = max(0, min(x.shape[first] + min(offset, 0), x.shape[second] - max(offset, 0)))
    others = (extent for axis, extent in enumerate(x.shape) if axis not in (first, second))
    return _view(x, (*others, length), offset=offset, dim1=first, dim2=second)


def _diagonal_layout(layout: Layout, shape: tuple[int, ...], attributes: dict[str, Any]) -> Layout:
    offset, first, second = attributes["offset"], attributes["dim1"], attributes["dim2"]
    rows, columns = layout.strides[first], layout.strides[second]
    others = (stride for axis, stride in enumerate(layout.strides) if axis not in (first, second))
    start = layout.offset + max(-offset, 0) * rows + max(offset, 0) * columns if math.prod(shape) else layout.offset
    return Layout(shape, (*others, rows + columns), start)


@op(kind="view", rule=_diagonal_rule, layout=_diagonal_layout)
def diagonal(input, /, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """Return the elements (i, i + offset) of dimensions dim1 and dim2 as the last dimension."""
    return np.diagonal(input, offset, dim1, dim2)


@of_tensors()
def _windows_rule(x: Spec, dim: int, count: int, size: int, **steps: int) -> Resolution:
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
    return _view(x, shape, dim=dim, count=count, size=size, **steps)


def _windows_layout(layout: Layout, shape: tuple[int, ...], attributes: dict[str, Any]) -> Layout:
    strides = list(layout.strides)
    own = strides[attributes["dim"]]
    strides[attributes["dim"]] = own * attributes["step"]
    return Layout(shape, (*strides, own * attributes["gap"]), layout.offset)


@op(kind="view", rule=_windows_rule, ggml="VIEW", layout=_windows_layout, public=False)
def windows(input, /, dim: int, count: int, size: int, step: int, gap: int):
    """Cut `count` windows along dim, `step` apart; their `size` elements, `gap` apart, are a new last dimension."""
    every_window = np.lib.stride_tricks.sliding_window_view(input, gap * (size - 1) + 1, dim)[..., ::gap]
    return np.moveaxis(np.moveaxis(every_window, dim, 0)[::step][:count], 0, dim)


# --- ops that move elements


def _write_strided_rule(operands: tuple[Operand, ...], attributes: dict[str, Any]) -> Resolution:
    x, value, _ = operands  # The offset may be a number.
    x, value = require_tensor(x), require_tensor(value)
    if x.dtype is not value.dtype or len(attributes["strides"]) != value.ndim:
        raise ArgumentError("needs a value of the same dtype, and a stride for each of its dimensions")
    return Resolution(x, (None, None, None), attributes)


@op(kind="data", rule=_write_strided_rule, ggml="SET", public=False, updates=True)
def write_strided(input, value, offset, /, strides: tuple[int, ...], add: bool = False):
    """Store or add value in input, from element `offset` in row-major order, with the given strides.

    Positions may coincide if values are added.
    """
    if value.size:
        if add and 0 in strides[-1:]:
            value = value.sum(-1, dtype=value.dtype, keepdims=True)
        # reshape returns a view because the operand is contiguous. The view begins at the first element of value.
        part = input.reshape(-1)[int(offset) :]
        steps = [stride * input.itemsize for stride in strides]
        place = np.lib.stride_tricks.as_strided(part, value.shape, steps)
        if not add:
            place[...] = value
            return input
        for number in np.ndindex(value.shape[:-1]):
            place[number] += value[number]
    return input


@of_tensors()
def _concat_rule(*tensors: Spec, dim: int) -> Resolution:
    if not tensors:
        raise ArgumentError("needs at least one tensor")
    first, dtype = tensors[0].shape, tensors[0].dtype
    dim = dimension(dim, len(first))
    if not first:
        raise ShapeError("zero-dimensional tensors cannot be concatenated; use stack")
    around = first[:dim], first[dim + 1 :]
    if any(each.ndim != len(first) or (each.shape[:dim], each.shape[dim + 1 :]) != around for each in tensors):
        raise ShapeError(f"shapes differ in a dimension other than {dim}")
    if any(each.dtype is not dtype for each in tensors):
        raise DTypeError("all tensors must have one dtype")
    shape = (*around[0], sum(each.shape[dim] for each in tensors), *around[1])
    return Resolution(Spec.of(shape, dtype), (None,) * len(tensors), {"dim": dim})


@op(kind="data", rule=_concat_rule, ggml="CONCAT", public=False, computes=False)
def concat_op(*tensors, dim: int = 0):
    """Join tensors of one dtype along dim."""
    return np.concatenate(tensors, axis=dim)


@of_tensors()
def _pad_rule(x: Spec, widths: tuple[tuple[int, int], ...], mode: str, value: float) -> Resolution:
    shape = tuple(extent + before + after for extent, (before, after) in zip(x.shape, widths, strict=True))
    if any(extent < 0 for extent in shape):
        raise ShapeError(f"padding {widths} of {list(x.shape)} leaves a negative extent")
    if mode not in _PAD_MODES:
        raise ArgumentError(f"mode must be one of {', '.join(_PAD_MODES)}, not {mode!r}")
    for extent, width in zip(x.shape, widths, strict=True):
        rest = extent + sum(min(each, 0) for each in width)
        if rest < 0 and mode in ("constant", "circular"):
            raise ShapeError(f"{mode} padding {width} removes more than the extent {extent}")
        limits = {"reflect": extent - 1, "circular": extent if rest else 0, "replicate": None if extent else 0}
        limit = limits.get(mode)
        if limit is not None and max(width) > max(limit, 0):
            raise ShapeError(f"{mode} padding {width} is wider than the dimension of extent {extent} allows")
    return _view(x, shape, widths=widths, mode=mode, value=value)


def _crop(extent: int, before: int, after: int) -> slice:
    """Return the part of a dimension that negative widths keep."""
    return slice(max(-before, 0), extent + min(after, 0))


_PAD_MODES: Final = ("constant", "reflect", "replicate", "circular")


def padded_places(mode: str, extent: int, before: int, after: int) -> np.ndarray:
    """Return the source index of each element of a padded dimension, for every mode but "constant"."""
    places = np.arange(-before, extent + after)
    if mode == "reflect":
        return np.abs(places).clip(max=2 * (extent - 1) - np.abs(places))
    if mode == "replicate":
        return places.clip(0, extent - 1)
    # Wrap around the cropped part; the other modes also read cropped elements, as in PyTorch.
    kept = np.arange(extent)[_crop(extent, before, after)]
    return kept[np.arange(-max(before, 0), kept.size + max(after, 0)) % max(kept.size, 1)]


@op(kind="data", rule=_pad_rule, ggml="PAD", public=False, computes=False)
def pad_widths(input, /, widths, mode: str = "constant", value: float = 0.0):
    """Add (before, after) elements to every dimension of input; negative widths crop."""
    if mode == "constant":
        crop = tuple(_crop(extent, *width) for extent, width in zip(input.shape, widths, strict=True))
        added = [(max(before, 0), max(after, 0)) for before, after in widths]
        return np.pad(input[crop], added, constant_values=np.asarray(value).astype(input.dtype))
    for axis, width in enumerate(widths):
        if any(width):
            input = np.take(input, padded_places(mode, input.shape[axis], *width), axis)
    return input


@of_tensors()
def _triangle_rule(x: Spec, diagonal: int) -> Resolution:
    if x.ndim < 2:
        raise ShapeError("needs at least two dimensions")
    return Resolution(x, (None,), {"diagonal": diagonal})


@op(kind="data", rule=_triangle_rule, ggml="TRI", computes=False, in_place=True)
def tril(input, /, diagonal: int = 0):
    """Keep the elements of the last two dimensions on and below the diagonal; the others become zero."""
    return np.tril(input, diagonal)


@op(kind="data", rule=_triangle_rule, computes=False, in_place=True)
def triu(input, /, diagonal: int = 0):
    """Keep the elements of the last two dimensions on and above the diagonal; the others become zero."""
    return np.triu(input, diagonal)


@op(kind="data", rule=rules.positions, ggml="ARGSORT")
def argsort(input, /, dim: int = -1, descending: bool = False, stable: bool = False):
    """Return the indices that sort along dim. The sort is always stable; NaN counts as the largest."""
    if not input.ndim:
        return np.zeros((), np.int64)
    if not descending:
        return np.argsort(input, axis=dim, kind="stable")
    # Sorting the reversed array and reversing keeps equal elements in their order and puts NaN first.
    backward = np.argsort(np.flip(input, dim), axis=dim, kind="stable")
    return np.flip(input.shape[dim] - 1 - backward, dim)


@of_tensors()
def _top_rule(x: Spec, k: int, dim: int, largest: bool) -> Resolution:
    dim = dimension(dim, x.ndim)
    if not 0 <= k <= (x.shape[dim] if x.ndim else 1):
        raise DimensionError(f"k = {k} is out of range for dimension {dim} of {x}")
    shape = (*x.shape[:dim], k, *x.shape[dim + 1 :]) if x.ndim else ()
    return Resolution(Spec.of(shape, int64), (x.dtype.register,), {"k": k, "dim": dim, "largest": largest})


@op(kind="data", rule=_top_rule, ggml="TOP_K", public=False)
def top_indices(input, /, k: int, dim: int, largest: bool):
    """Return the indices of the k largest (or smallest) elements along dim, in order; NaN counts as the largest."""
    if not input.ndim or not k:
        return np.zeros([*input.shape[:dim], k, *input.shape[dim + 1 :]] if input.ndim else (), np.int64)
    extent = input.shape[dim]
    chosen = slice(extent - k, None) if largest else slice(k)
    # Partition and sort both put NaN last.
    candidates = np.argpartition(input, extent - k if largest else k - 1, dim)
    candidates = np.moveaxis(candidates, dim, -1)[..., chosen]
    order = np.argsort(np.take_along_axis(np.moveaxis(input, dim, -1), candidates, -1), -1)
    values = np.take_along_axis(candidates, order[..., ::-1] if largest else order, -1)
    return np.moveaxis(values, -1, dim)


@of_tensors()
def _search_rule(sequence: Spec, values: Spec, right: bool) -> Resolution:
    register = rules.promoted((sequence, values)).register
    return Resolution(Spec.of(values.shape, int64), (register, register), {"right": right})


@op(kind="data", rule=_search_rule, public=False)
def search_places(sequence, values, /, right: bool = False):
    """Search the ascending rows of `sequence`, which has one dimension or the leading dimensions of `values`."""
    side: Any = "right" if right else "left"
    if sequence.ndim == 1:
        return np.searchsorted(sequence, values, side)
    places = np.empty(values.shape, np.int64)
    for row in np.ndindex(sequence.shape[:-1]):
        places[row] = np.searchsorted(sequence[row], values[row], side)
    return places


# --- indexing by tensors


def _dimension_of_index(x: Spec, index: Spec, dim: int) -> int:
    """Return the dimension along which an index counts, from the front. Raise an error if the index does not fit."""
    rules.index_dtype(index.dtype)
    dim = dimension(dim, x.ndim)
    if index.ndim != x.ndim:
        raise ShapeError("index must have as many dimensions as input")
    if any(i > e for axis, (i, e) in enumerate(zip(index.shape, x.shape, strict=True)) if axis != dim):
        raise ShapeError(f"index {list(index.shape)} is larger than input in a dimension other than {dim}")
    return dim


@of_tensors()
def _gather_rule(x: Spec, index: Spec, dim: int, **names: str) -> Resolution:
    dim = _dimension_of_index(x, index, dim)
    return Resolution(Spec.of(index.shape, x.dtype), (None, None), {"dim": dim, **names})


def _check_range(index: np.ndarray, extent: int, name: str = "index", lowest: int = 0) -> None:
    if index.size and (index.min() < lowest or index.max() >= extent):
        wrong = index.max() if index.max() >= extent else index.min()
        raise IndexError(f"{name} {wrong} is out of range for extent {extent}")


def _index_along(call: Call, position: int = 1) -> Iterator[tuple[int, int, int]]:
    yield position, 0, require_tensor(call.operands[0]).shape[call.attributes["dim"]]


@op(kind="data", rule=_gather_rule, public=False, computes=False, indices=_index_along)
def gather_along(input, index, /, dim: int, name: str = "index", caller: str = ""):
    """Return out[i][j] = input[index[i][j]][j] for dim = 0, and likewise for other dimensions.

    Errors use `name` for the index and `caller`, if it is not empty, for the function.
    """
    _check_range(index, input.shape[dim], name)
    crop = tuple(slice(None) if axis == dim else slice(extent) for axis, extent in enumerate(index.shape))
    return np.take_along_axis(input[crop], index.astype(np.int64), axis=dim)


@of_tensors()
def _scatter_rule(x: Spec, value: Spec, index: Spec, dim: int, reduce: str) -> Resolution:
    dim = _dimension_of_index(x, index, dim)
    if value.shape != index.shape:
        raise ShapeError(f"needs a value of shape {list(index.shape)}, not {list(value.shape)}")
    register = x.dtype.register if reduce else None
    return Resolution(x, (register, register, None), {"dim": dim, "reduce": reduce})


@op(kind="data", rule=_scatter_rule, public=False, updates=True, indices=partial(_index_along, position=2))
def scatter_along(input, value, index, /, dim: int, reduce: str = ""):
    """Store value[i][j] at [index[i][j]][j] for dim = 0, and likewise for other dimensions; `reduce` as in `put`."""
    _check_range(index, input.shape[dim])
    places: list[Any] = [*np.ogrid[tuple(slice(extent) for extent in index.shape)]]
    places[dim] = index
    return _put(input, tuple(places), value, reduce)


def _put(input: np.ndarray, places: Any, value: np.ndarray, reduce: str) -> np.ndarray:
    if reduce:
        getattr(np, reduce).at(input, places, value.astype(input.dtype))
    else:
        input[places] = value.astype(input.dtype)
    return input


@of_tensors()
def _take_rule(x: Spec, index: Spec, dim: int, **names: str) -> Resolution:
    rules.index_dtype(index.dtype)
    dim = dimension(dim, x.ndim)
    if x.dtype.is_quantized and dim == x.ndim - 1:
        raise DimensionError(f"single elements cannot be taken from the blocks of {x.dtype.name}")
    shape = (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])
    return Resolution(Spec.of(shape, x.dtype), (None, None), {"dim": dim, **names})


@op(kind="data", rule=_take_rule, ggml="GET_ROWS", public=False, computes=False, quantized=True, indices=_index_along)
def take_op(input, index, /, dim: int, name: str = "index", caller: str = ""):
    """Return slices of input along dim, one per element of index; the shape of index replaces dim.

    `name` and `caller` are those of gather_along.
    """
    _check_range(index, input.shape[dim], name)
    return np.take(input, index, axis=dim)


@of_tensors()
def _index_rule(x: Spec, *indices: Spec) -> Resolution:
    for index in indices:
        rules.index_dtype(index.dtype)
    shape = broadcast_shapes(*(index.shape for index in indices))
    return Resolution(Spec.of((*shape, *x.shape[len(indices) :]), x.dtype), (None, *(None for _ in indices)), {})


def _leading_indices(call: Call) -> Iterator[tuple[int, int, int]]:
    for position, extent in enumerate(require_tensor(call.operands[0]).shape[: len(call.operands) - 1], 1):
        yield position, -extent, extent


@op(kind="data", rule=_index_rule, public=False, computes=False, indices=_leading_indices)
def take_points(*tensors):
    """Return tensors[0][tensors[1], tensors[2], ...]: integer tensors index the leading dimensions together."""
    input, *indices = tensors
    for index, extent in zip(indices, input.shape, strict=False):
        _check_range(index, extent, lowest=-extent)
    return input[tuple(indices)]


@of_tensors()
def _put_rule(
    x: Spec, value: Spec, *indices: Spec, bounds: Bounds, dims: tuple[int, ...], wrap: bool, reduce: str
) -> Resolution:
    places = broadcast_shapes(*(index.shape for index in indices))
    rest = (len(range(*bound)) for axis, bound in enumerate(bounds) if axis not in dims)
    expected = (*places, *rest)
    if len(indices) != len(dims) or value.shape != expected:
        raise ArgumentError(f"needs an index tensor for each of dims {dims} and a value of shape {list(expected)}")
    register = x.dtype.register if reduce else None
    attributes = {"bounds": bounds, "dims": dims, "wrap": wrap, "reduce": reduce}
    return Resolution(x, (register, register, *(None for _ in indices)), attributes)


def _put_indices(call: Call) -> Iterator[tuple[int, int, int]]:
    for position, dim in enumerate(call.attributes["dims"], 2):
        extent = len(range(*call.attributes["bounds"][dim]))
        yield position, -extent if call.attributes["wrap"] else 0, extent


@op(kind="data", rule=_put_rule, ggml="SET_ROWS", public=False, updates=True, indices=_put_indices)
def put_op(*tensors, bounds: Bounds, dims: tuple[int, ...], wrap: bool = True, reduce: str = ""):
    """Store tensors[1] in tensors[0] at the elements that tensors[2:] index.

    Args:
        tensors: Destination, value, and one index per entry of `dims`. The value has the dimensions of the indices
            first, then the remaining dimensions of the indexed part.
        bounds: Range of each dimension of the destination that the indices refer to.
        dims: Indexed dimensions.
        wrap: Negative indices count from the end; otherwise they are out of range.
        reduce: Name of the NumPy function, such as "add", that combines an element with each value stored there;
            "" replaces the element.
    """
    input, value, *indices = tensors
    inside: tuple[Any, ...] = (..., *_slices(bounds))  # With the ellipsis, zero dimensions give an array, not a scalar.
    part = input[inside]
    front = np.transpose(part, (*dims, *(axis for axis in range(part.ndim) if axis not in dims)))
    for index, extent in zip(indices, front.shape, strict=False):
        _check_range(index, extent, lowest=-extent if wrap else 0)
    _put(front, tuple(indices) or ..., value, reduce)
    return input


def _slices(bounds: Bounds) -> tuple[slice, ...]:
    """Convert resolved bounds to slices; a stop before the first element becomes None."""
    return tuple(slice(start, stop if stop >= 0 else None, step) for start, stop, step in bounds)


# --- creation


@op(kind="data", rule=rules.sequence, ggml="ARANGE", public=False)
def arange_from(start, step, /, shape, dtype):
    """Return start + i * step."""
    return start + np.arange(shape[0]) * step


@op(kind="data", rule=rules.sequence, public=False)
def linspace_between(start, end, /, shape, dtype):
    """Return evenly spaced numbers from start to end, both included."""
    return np.linspace(float(start), float(end), shape[0])


@op(kind="data", rule=rules.creation, public=False)
def eye_matrix(one, /, shape, dtype):
    """Return a matrix with ones on the diagonal."""
    return np.eye(*shape)
