"""Shape functions, made of the four views (reshape, permute, expand, slice), concat and pad."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import DType, promote
from npu_tensor.errors import ArgumentError, DimensionError, DTypeError, GradientError, ShapeError
from npu_tensor.functions.creation import arange, extents
from npu_tensor.functions.register import Operand, composite, fitting, tensor_of
from npu_tensor.ops import registry
from npu_tensor.ops.rules import dimension, unpacked
from npu_tensor.spec import broadcast_shapes, contiguous_strides
from npu_tensor.tensor import Tensor, from_array


class ValuesIndices(NamedTuple):
    """Result of max, min, sort and topk along a dimension."""

    values: Tensor
    indices: Tensor


def _promoted(tensors: Sequence[Tensor]) -> DType | None:
    return promote((tensor.dtype, tensor.ndim) for tensor in tensors) if tensors else None


def joined(tensors: Sequence[Tensor], dim: int, dtype: DType | None = None) -> Tensor:
    """Join tensors along `dim`, in `dtype` or their promoted one."""
    dtype = dtype or _promoted(tensors)
    return ops.concat_op(*(part if part.dtype is dtype else part.to(dtype) for part in tensors), dim=dim)


def cut(input: Tensor, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
    """Return input[start:stop:step] along `dim`, for bounds that are already resolved."""
    bounds = [(0, extent, 1) for extent in input.shape]
    bounds[dim] = (start, stop, step)
    return ops.slice_(input, tuple(bounds))


# --- extents and order of dimensions


@composite()
def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Return the elements at storage_offset + i * stride[0] + j * stride[1] + ... as a copy.

    The elements are counted in row-major order of `input`, as in PyTorch for a contiguous tensor.

    >>> nt.as_strided(nt.arange(6), (2, 2), (1, 2))
    """
    return input.reshape(input.numel())[from_array(strided_places(size, stride, storage_offset))]


def strided_places(size: Sequence[int], stride: Sequence[int], storage_offset: int | None) -> Any:
    """Return the position of each element of a strided tensor. Raise ShapeError for negative numbers."""
    if len(size) != len(stride) or min((*size, *stride, storage_offset or 0), default=0) < 0:
        raise ShapeError(f"size {list(size)} and stride {list(stride)} must be equally many numbers, none negative")
    steps = np.ix_(*(np.arange(extent) * step for extent, step in zip(size, stride, strict=True)))
    return sum(steps, np.full(tuple(size), storage_offset or 0, np.int64))


@composite(function=False, view=True)
def view(input: Tensor, *shape: Any) -> Tensor:
    """Return the same memory with another shape; one extent may be -1.

    With a dtype in place of a shape, the bits of the elements are read as that dtype, and the last extent changes with
    its size. That is a copy: writing to it does not change input.

    Raises:
        ArgumentError: The strides do not allow the shape without a copy.

    >>> nt.tensor([1.0, -2.0]).view(nt.int32)
    """
    if len(shape) == 1 and isinstance(shape[0], DType):
        return ops.bits_as(input, shape[0].name)
    result = input.reshape(*shape)
    if result._alias is None:
        strides = ", ".join(map(str, stride(input)))
        raise ArgumentError(
            f"strides ({strides}) allow no view of shape {list(result.shape)}; use reshape, which copies"
        )
    return result


@composite(function=False, view=True)
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """Return the same memory with the shape of other."""
    return view(input, other.shape)


@composite(function=False, view=True)
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """Return the elements with the shape of other."""
    return input.reshape(other.shape)


@composite(aliases=("swapaxes", "swapdims"), ggml="TRANSPOSE", view=True)
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Swap the dimensions dim0 and dim1."""
    dims = list(range(input.ndim))
    first, second = dimension(dim0, input.ndim), dimension(dim1, input.ndim)
    if dims:
        dims[first], dims[second] = dims[second], dims[first]
    return input.permute(*dims)


@composite(view=True)
def t(input: Tensor) -> Tensor:
    """Swap rows and columns; return tensors of fewer than two dimensions unchanged.

    Raises:
        ShapeError: `input` has more than two dimensions.
    """
    if input.ndim > 2:
        raise ShapeError("t() takes at most two dimensions; use mT or transpose")
    return input.permute(*reversed(range(input.ndim)))


@composite(aliases=("moveaxis",), view=True)
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Move the dimensions `source` to the positions `destination`; the others keep their order."""
    sources = [dimension(d, input.ndim) for d in _sequence(source)]
    targets = [dimension(d, input.ndim) for d in _sequence(destination)]
    if len(sources) != len(targets) or len({*sources}) < len(sources) or len({*targets}) < len(targets):
        raise ArgumentError("source and destination must name equally many different dimensions")
    order = [d for d in range(input.ndim) if d not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return input.permute(*order[: input.ndim])  # a zero-dimensional tensor has no dimension 0


def _sequence(value: int | Sequence[int]) -> Sequence[int]:
    return value if isinstance(value, (tuple, list)) else (value,)


@composite(view=True)
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Remove all dimensions of extent 1, or those of them in `dim`."""
    chosen = range(input.ndim) if dim is None else [dimension(d, input.ndim) for d in _sequence(dim)]
    return input.reshape(*(e for axis, e in enumerate(input.shape) if e != 1 or axis not in chosen))


@composite(view=True)
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """Insert a dimension of extent 1 before `dim`."""
    place = dimension(dim, input.ndim + 1)
    return input.reshape(*input.shape[:place], 1, *input.shape[place:])


@composite(view=True)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merge the dimensions start_dim to end_dim."""
    start, end = dimension(start_dim, input.ndim), dimension(end_dim, input.ndim)
    if start > end:
        raise ArgumentError(f"start_dim {start_dim} comes after end_dim {end_dim}")
    return input.reshape(*input.shape[:start], math.prod(input.shape[start : end + 1]), *input.shape[end + 1 :])


@composite(view=True)
def ravel(input: Tensor) -> Tensor:
    """Return all elements in one dimension."""
    return input.contiguous().reshape(input.numel())


@composite(view=True)
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Split the dimension `dim` into `sizes`, one of which may be -1.

    >>> nt.unflatten(nt.arange(6), 0, (2, 3))
    """
    place = dimension(dim, input.ndim)
    sizes = list(sizes)
    if sizes.count(-1) == 1:
        known = math.prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = input.shape[place] // known if known else 0
    if math.prod(sizes) != input.shape[place]:
        raise ShapeError(f"sizes {sizes} do not multiply to {input.shape[place]}")
    return view(input, *input.shape[:place], *sizes, *input.shape[place + 1 :])


@composite(function=False)
def stride(input: Tensor, dim: int | None = None) -> Any:
    """Return the distance of neighbours in elements, for each dimension or for one.

    For a dimension of extent 1 it has no meaning. Results of ops are row-major, whatever their operands are.
    """
    strides = contiguous_strides(input.shape) if input._alias is None else input._alias[1].layout.strides
    return strides if dim is None else strides[dimension(dim, input.ndim)]


@composite(function=False)
def is_contiguous(input: Tensor) -> bool:
    """Return True if the elements are in row-major order. Only views may have another order."""
    return input._alias is None or input._alias[1].is_contiguous


def _renames(name: str) -> None:
    """Publish the method <name>_, after which a tensor is another view of its memory."""
    function: Any = registry.methods()[name]

    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if input.requires_grad and input.is_leaf:
            raise GradientError("an in-place op cannot change a leaf that requires a gradient")
        input._show_as(function(input, *args, **kwargs))
        return input

    method.__doc__ = f"Apply `{name}` in place: this tensor becomes that view of its memory."
    composite(f"{name}_", function=False, view=True)(method)


for _name in ("squeeze", "unsqueeze", "t", "transpose", "swapaxes", "swapdims"):
    _renames(_name)


# --- repetition


@composite(function=False, view=True)
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Expand to the shape of other."""
    return input.expand(other.shape)


@composite(view=True)
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """Expand to a shape by the rules of broadcasting."""
    return input.expand(size)


@composite(method=False, view=True)
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Expand all tensors to their common shape.

    >>> nt.broadcast_tensors(nt.zeros(2, 1), nt.ones(3))
    """
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
    return tuple(tensor.expand(shape) for tensor in tensors)


def _repeated(input: Tensor, repeats: tuple[int, ...], before: bool) -> Tensor:
    """Repeat every dimension as a whole (before=True) or element by element."""
    apart: list[int] = []
    expanded: list[int] = []
    for extent, times in zip(input.shape, repeats, strict=True):
        if 1 in (extent, times):
            apart.append(extent)
            expanded.append(extent * times)
            continue
        apart += (1, extent) if before else (extent, 1)
        expanded += (times, extent) if before else (extent, times)
    merged = [extent * times for extent, times in zip(input.shape, repeats, strict=True)]
    return input.reshape(apart).expand(expanded).reshape(merged)


@composite(function=False)
def repeat(input: Tensor, *repeats: Any) -> Tensor:
    """Repeat the whole tensor along each dimension; more numbers than dimensions add leading ones."""
    times = extents(repeats)
    if len(times) < input.ndim:
        raise ShapeError(f"repeat needs at least {input.ndim} numbers, not {len(times)}")
    return _repeated(input.reshape((1,) * (len(times) - input.ndim) + input.shape), times, before=True)


@composite()
def tile(input: Tensor, *dims: Any) -> Tensor:
    """Repeat the whole tensor like `repeat`; fewer numbers than dimensions apply to the last ones."""
    times = extents(dims)
    return repeat(input, (1,) * (input.ndim - len(times)) + times)


@composite()
def repeat_interleave(
    input: Tensor, repeats: int | Tensor | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Repeat every element `repeats` times, along `dim` or flattened.

    Args:
        repeats: Number of times, or an integer tensor with one number for each element along dim. None repeats the
            positions 0, 1, ... as often as `input` states.
        output_size: Sum of the numbers in a tensor, which is read if it is not given.

    >>> nt.repeat_interleave(nt.tensor([1.0, 2.0]), 2)
    """
    if repeats is None:
        input, repeats = arange(input.numel()), input
    if dim is None:
        input, dim = input.reshape(input.numel()), 0
    place = dimension(dim, input.ndim)
    if isinstance(repeats, Tensor) and repeats.numel() != 1:
        ends = repeats.cumsum(0)
        if ends.shape != input.shape[place : place + 1]:
            raise ShapeError(f"repeats must have {input.shape[place]} elements, not the shape {list(repeats.shape)}")
        count = int(ends[-1]) if output_size is None and repeats.numel() else output_size or 0
        return index_select(input, place, ops.search_places(ends, arange(count), True))
    times = int(repeats) if isinstance(repeats, Tensor) else operator.index(repeats)
    return _repeated(input, tuple(times if axis == place else 1 for axis in range(input.ndim)), before=False)


# --- joining and splitting


@composite(method=False, aliases=("concat", "concatenate"), ggml="CONCAT")
def cat(tensors: Sequence[Operand], dim: int = 0) -> Tensor:
    """Join tensors along dim; their dtypes are promoted. One-dimensional empty ones count for the dtype only."""
    parts = [tensor_of(part) for part in tensors]
    filled = [part for part in parts if part.shape != (0,)]
    return joined(filled or parts, dim, _promoted(parts))


@composite(method=False)
def stack(tensors: Sequence[Operand], dim: int = 0) -> Tensor:
    """Join tensors of equal shape along a new dimension."""
    parts = [tensor_of(part) for part in tensors]
    if not parts:
        raise ArgumentError("needs at least one tensor")
    if any(part.shape != parts[0].shape for part in parts):
        raise ShapeError(f"shapes differ: {[list(part.shape) for part in parts]}")
    shape = parts[0].shape
    place = dimension(dim, len(shape) + 1)
    if place == len(shape):
        return joined([unsqueeze(part, place) for part in parts], place)
    return joined(parts, place).reshape(*shape[:place], len(parts), *shape[place:])  # One view in place of many.


@composite(method=False)
def meshgrid(*tensors: Tensor, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Expand each vector along a dimension of its own; indexing="xy" swaps the first two dimensions.

    >>> nt.meshgrid(nt.arange(2), nt.arange(3))
    """
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
    """Return all combinations of the elements of vectors, one per row; those of the last vector vary fastest.

    A single vector is returned unchanged.

    >>> nt.cartesian_prod(nt.tensor([1, 2]), nt.tensor([3, 4]))
    """
    if len(tensors) == 1:
        return tensors[0]
    return stack([grid.reshape(grid.numel()) for grid in meshgrid(*tensors)], -1)


@composite(method=False)
def hstack(tensors: Sequence[Operand]) -> Tensor:
    """Join tensors along dimension 1, or 0 if they have one dimension."""
    parts = [tensor_of(part) for part in tensors]
    parts = [part.reshape(1) if not part.ndim else part for part in parts]
    return cat(parts, 0 if parts and parts[0].ndim == 1 else 1)


@composite(method=False, aliases=("row_stack",))
def vstack(tensors: Sequence[Operand]) -> Tensor:
    """Join tensors along dimension 0, after making each at least a matrix."""
    parts = [tensor_of(part) for part in tensors]
    return cat([part.reshape(1, part.numel()) if part.ndim < 2 else part for part in parts], 0)


@composite(view=True, aliases=("unsafe_split",))
def split(input: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Split into parts of a given size along dim (the last may be smaller), or of given sizes."""
    place = dimension(dim, input.ndim)
    if not input.ndim:
        raise ShapeError("a zero-dimensional tensor cannot be split")
    extent = input.shape[place]
    if isinstance(split_size_or_sections, int):
        size = split_size_or_sections
        if size < 0 or (size == 0 and extent):
            raise ArgumentError(f"the size of a part must be positive, not {size}")
        sizes = [min(size, extent - start) for start in range(0, extent, size)] if extent else [0]
    else:
        sizes = list(split_size_or_sections)
        if sum(sizes) != extent or any(size < 0 for size in sizes):
            raise ArgumentError(f"sizes {sizes} do not add up to {extent}")
    parts, start = [], 0
    for size in sizes:
        parts.append(cut(input, place, start, start + size))
        start += size
    return tuple(parts)


@composite(view=True, aliases=("unsafe_chunk",))
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Split into at most `chunks` parts of equal size along dim; the last may be smaller."""
    if chunks < 1:
        raise ArgumentError(f"chunks must be positive, not {chunks}")
    extent = input.shape[dimension(dim, input.ndim)] if input.ndim else 0
    return split(input, -(-extent // chunks), dim) if extent else split(input, [0] * chunks, dim)


@composite(view=True)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along dim."""
    if not input.ndim:
        raise ShapeError("a zero-dimensional tensor has no slices")
    return tuple(ops.select(input, dim, index) for index in range(input.shape[dimension(dim, input.ndim)]))


# --- parts


@composite(view=True)
def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return `length` elements along dim from `start`.

    >>> nt.narrow(nt.arange(5), 0, 1, 3)
    """
    place = dimension(dim, input.ndim)
    extent = input.shape[place] if input.ndim else 0
    if not -extent <= start <= extent:
        raise DimensionError(f"start {start} is out of range [{-extent}, {extent}]")
    start += extent if start < 0 else 0
    if length < 0 or start + length > extent:
        raise ShapeError(f"{length} elements from {start} do not fit the extent {extent}")
    return cut(input, place, start, start + length)


@composite()
def flip(input: Tensor, *dims: Any) -> Tensor:
    """Reverse the elements along dims."""
    dims = unpacked(dims)
    chosen = {dimension(d, input.ndim) for d in dims}
    if len(chosen) != len(dims):
        raise ArgumentError(f"dims {dims} name one twice")
    if not input.ndim:
        return input.clone()
    bounds = ((e - 1, -1, -1) if axis in chosen else (0, e, 1) for axis, e in enumerate(input.shape))
    return ops.slice_(input, tuple(bounds))


@composite()
def fliplr(input: Tensor) -> Tensor:
    """Reverse the columns."""
    return flip(input, 1)


@composite()
def flipud(input: Tensor) -> Tensor:
    """Reverse the rows."""
    if not input.ndim:
        raise ShapeError("a zero-dimensional tensor has no rows")
    return flip(input, 0)


@composite(ggml="ROLL")
def roll(input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """Shift elements along dims; those pushed out enter at the other end. dims=None rolls the flattened tensor."""
    amounts = _sequence(shifts)
    if dims is None or (isinstance(dims, (tuple, list)) and not dims):
        if len(amounts) != 1:
            raise ArgumentError("several shifts need as many dims")
        return roll(input.reshape(input.numel()), amounts, 0).reshape(input.shape)
    places = _sequence(dims)
    if len(amounts) != len(places):
        raise ArgumentError(f"shifts {amounts} and dims {places} must be equally many")
    for shift, dim in zip(amounts, places, strict=True):
        place = dimension(dim, input.ndim)
        extent = input.shape[place]
        moved = shift % extent if extent else 0
        if moved:
            tail = cut(input, place, extent - moved, extent)
            input = joined([tail, cut(input, place, 0, extent - moved)], place)
    return input.clone()


@composite(method=False, ggml="PAD, PAD_REFLECT_1D")
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Add elements around a tensor. Negative widths crop.

    Args:
        pad: (before, after) of the last dimension, then of the one before it, and so on.
        mode: "constant", "reflect", "replicate" or "circular".
        value: Added elements in the mode "constant"; None for 0.
    """
    if len(pad) % 2 or len(pad) // 2 > input.ndim:
        raise ArgumentError(f"pad {list(pad)} must have two widths for each of at most {input.ndim} dimensions")
    pairs = [(operator.index(pad[i]), operator.index(pad[i + 1])) for i in range(0, len(pad), 2)]
    widths = ((0, 0),) * (input.ndim - len(pairs)) + tuple(reversed(pairs))
    return ops.pad_widths(input, widths, mode, 0 if value is None else fitting(value, input.dtype))


@composite(ggml="DIAG")
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """Return the matrix with the vector `input` on a diagonal, or the diagonal of the matrix `input`."""
    if input.ndim == 2:
        return ops.diagonal(input, diagonal)
    if input.ndim != 1:
        raise ShapeError(f"diag takes one or two dimensions, not {input.ndim}")
    # A column of the vector, then n zero columns: read with rows one longer, the vector lies on the diagonal.
    n = input.shape[0]
    square = pad(input.reshape(n, 1), (0, n)).reshape(n * (n + 1))
    square = cut(square, 0, 0, n * n).reshape(n, n)
    above, left = max(diagonal, 0), max(-diagonal, 0)
    return pad(square, (above, left, left, above)) if diagonal else square


# --- selection by masks and indices


@composite(in_place=True)
def masked_fill(input: Tensor, mask: Tensor, value: float | Tensor) -> Tensor:
    """Return input with `value` where mask is true; keeps the input's dtype."""
    if isinstance(value, (bool, int, float)):
        value = fitting(value, input.dtype)
    result = ops.where_op(mask, value, input)
    if result.dtype is input.dtype:
        return result
    if result.dtype.category > input.dtype.category and not (isinstance(value, float) and value.is_integer()):
        raise DTypeError(f"value {value} does not fit {input.dtype.name}")
    return result.to(input.dtype)


@composite()
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Return out[i][j] = input[index[i][j]][j] for dim = 0, and accordingly for other dims.

    Args:
        sparse_grad: Has no effect; gradients are dense.

    >>> nt.gather(nt.tensor([[1, 2], [3, 4]]), 1, nt.tensor([[1, 0], [0, 0]]))
    """
    if not input.ndim and index.ndim <= 1:
        return gather(input.reshape(1), dim, index.reshape(index.numel())).reshape(index.shape)
    return ops.gather_along(input, index, dim)


@composite(ggml="GET_ROWS")
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return the slices of input at the positions in the vector `index` along dim.

    >>> nt.index_select(nt.tensor([[1, 2], [3, 4]]), 1, nt.tensor([1]))
    """
    if index.ndim > 1:
        raise DimensionError("index must be a vector")
    if not input.ndim:
        return index_select(input.reshape(1), dim, index).reshape(())
    return ops.take_op(input, index.reshape(index.numel()), dim)


@composite()
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Gather elements, with input and indices broadcast in the other dimensions; dim=None flattens both.

    >>> nt.take_along_dim(nt.tensor([[1, 2], [3, 4]]), nt.tensor([[1], [0]]), 1)
    """
    if dim is None:
        return take_along_dim(input.reshape(input.numel()), indices.reshape(indices.numel()), 0)
    if input.ndim != indices.ndim:
        raise ShapeError("input and indices must have as many dimensions")
    place = dimension(dim, input.ndim)
    indices = ops.where_op(indices < 0, indices + input.shape[place], indices)
    common = broadcast_shapes(
        (*input.shape[:place], 1, *input.shape[place + 1 :]), (*indices.shape[:place], 1, *indices.shape[place + 1 :])
    )
    return gather(
        input.expand(*common[:place], input.shape[place], *common[place + 1 :]),
        place,
        indices.expand(*common[:place], indices.shape[place], *common[place + 1 :]),
    )


@composite()
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> ValuesIndices:
    """Sort along dim. Always stable; NaN counts as the largest.

    Returns:
        `values` in order, and `indices` of their positions before.
    """
    indices = input.argsort(dim, descending)
    return ValuesIndices(gather(input, dim, indices), indices)


@composite(ggml="TOP_K")
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """Return the k largest (or smallest) elements along dim in order, and their indices. Always sorted.

    NaN counts as the largest; the choice among equal elements is undefined.
    """
    indices = ops.top_indices(input, k, dim, largest)
    return ValuesIndices(gather(input, dim, indices), indices)
