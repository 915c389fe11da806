"""Functions to join, split and rotate tensors, build matrices, and replace parts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import int64
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.creation import zeros
from npu_tensor.functions.indexing import put, require_same_dtype
from npu_tensor.functions.register import Operand, composite, tensor_of
from npu_tensor.functions.shape import cat, cut, split
from npu_tensor.functions.shape import pad as _pad
from npu_tensor.ops import rules
from npu_tensor.ops.rules import dimension, promoted, unpacked
from npu_tensor.spec import broadcast_shapes
from npu_tensor.tensor import Tensor, from_array

# --- dimensions added


def _each(function: Callable[[Tensor], Tensor], tensors: tuple[Any, ...]) -> Any:
    """Apply the function to one tensor, or to each of several."""
    if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
        return function(tensor_of(tensors[0]))
    return tuple(function(tensor_of(tensor)) for tensor in unpacked(tensors))


def _matrix(tensor: Tensor) -> Tensor:
    return tensor if tensor.ndim > 1 else tensor.reshape(1, tensor.numel())


def _cube(tensor: Tensor) -> Tensor:
    return tensor if tensor.ndim > 2 else _matrix(tensor).unsqueeze(-1)


@composite(method=False, view=True)
def atleast_1d(*tensors: Any) -> Any:
    """Convert zero-dimensional tensors to vectors of one element."""
    return _each(lambda tensor: tensor if tensor.ndim else tensor.reshape(1), tensors)


@composite(method=False, view=True)
def atleast_2d(*tensors: Any) -> Any:
    """Convert numbers and vectors to matrices of one row."""
    return _each(_matrix, tensors)


@composite(method=False, view=True)
def atleast_3d(*tensors: Any) -> Any:
    """Append a dimension of extent 1 to matrices; vectors and numbers become matrices of one row first."""
    return _each(_cube, tensors)


@composite(method=False)
def column_stack(tensors: Sequence[Operand]) -> Tensor:
    """Join vectors as columns of a matrix, or matrices side by side."""
    parts = [tensor_of(part) for part in tensors]
    return cat([part if part.ndim > 1 else part.reshape(part.numel(), 1) for part in parts], 1)


@composite(method=False)
def dstack(tensors: Sequence[Operand]) -> Tensor:
    """Join tensors along dimension 2, after `atleast_3d`."""
    return cat([_cube(tensor_of(part)) for part in tensors], 2)


@composite("unfold", function=False, view=True)
def windows_along(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return the slices of `size` elements along a dimension, `step` apart, as a view with size as last dimension."""
    if not input.ndim:  # as in PyTorch, a vector of one element
        return windows_along(input.reshape(1), dimension, size, step).reshape(size)
    place = rules.dimension(dimension, input.ndim)
    if size < 0 or step < 1 or size > input.shape[place]:
        raise ArgumentError(f"windows of {size} elements and steps of {step} do not fit {input.shape[place]} elements")
    return ops.windows(input, place, (input.shape[place] - size) // step + 1, size, step, 1)


# --- splitting


@composite(view=True)
def tensor_split(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Split along dim into a number of parts, or between indices.

    If the parts are not equal, the first ones are larger by one.

    >>> nt.tensor_split(nt.arange(5), 2)
    """
    place = dimension(dim, input.ndim)
    if not input.ndim:
        raise ShapeError("a zero-dimensional tensor cannot be split")
    extent = input.shape[place]
    sections: Any = indices_or_sections.tolist() if isinstance(indices_or_sections, Tensor) else indices_or_sections
    if isinstance(sections, (tuple, list)):
        bounds = [0, *(slice(0, index).indices(extent)[1] for index in sections), extent]
    elif sections > 0:
        bounds = [part * (extent // sections) + min(part, extent % sections) for part in range(sections + 1)]
    else:
        raise ArgumentError(f"the number of parts must be positive, not {sections}")
    return tuple(cut(input, place, start, max(start, stop)) for start, stop in itertools.pairwise(bounds))


def _split_along(name: str, dim: int, least: int) -> None:
    def function(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
        if input.ndim < least:
            raise ShapeError(f"needs {least} dimensions or more, not {input.ndim}")
        place = dim if input.ndim > 1 else 0
        sections = indices_or_sections
        if isinstance(sections, int) and (sections < 1 or input.shape[place] % sections):
            raise ArgumentError(f"{input.shape[place]} cannot be split into {sections} equal parts")
        return tensor_split(input, sections, place)

    function.__doc__ = (
        f"Split along dimension {dim} into equal parts, or between indices, like `tensor_split`.\n\n"
        f">>> nt.{name}(nt.ones(2, 2, 2), 2)"
    )
    composite(name, view=True)(function)


_split_along("vsplit", 0, 2)
_split_along("hsplit", 1, 1)
_split_along("dsplit", 2, 3)


@composite(view=True)
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Split into parts of the given sizes along dim.

    >>> nt.split_with_sizes(nt.arange(4), (1, 3))
    """
    return split(input, tuple(split_sizes), dim)


# --- diagonals and other matrices


@composite()
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return matrices with the rows of input on a diagonal, over the new dimensions dim1 and dim2."""
    first, second = dimension(dim1, input.ndim + 1), dimension(dim2, input.ndim + 1)
    if first == second:
        raise ArgumentError(f"dim1 and dim2 are both {first}")
    extent = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for place in sorted((first, second)):
        shape.insert(place, extent)
    return _replaced(zeros(shape, dtype=input.dtype), input, lambda matrix: ops.diagonal(matrix, offset, first, second))


@composite()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """Return the matrix with all elements of input on a diagonal."""
    return diag_embed(input.reshape(input.numel()), offset)


@composite(method=False)
def block_diag(*tensors: Any) -> Tensor:
    """Return the matrix with these matrices along its diagonal; numbers and vectors count as one row."""
    parts = [tensor_of(tensor) for tensor in tensors]
    dtype = promoted([part._node.spec for part in parts]) if parts else None
    blocks = [_matrix(part).to(dtype) for part in parts]
    rows, width, before = [], sum(block.shape[1] for block in blocks), 0
    for block in blocks:
        rows.append(_pad(block, (before, width - before - block.shape[1])))
        before += block.shape[1]
    return cat(rows, 0) if rows else zeros(1, 0)


def _require_vector(name: str, tensor: Tensor) -> None:
    if tensor.ndim != 1:
        raise ShapeError(f"{name} must be a vector, not {tensor.ndim}-dimensional")


@composite(method=False)
def vander(x: Tensor, N: int | None = None, *, increasing: bool = False) -> Tensor:
    """Return powers of the elements of a vector as columns: N - 1, ..., 1, 0, or ascending. Integers give int64.

    >>> nt.vander(nt.tensor([1, 2, 3]))
    """
    _require_vector("x", x)
    if N is not None and N < 0:
        raise ArgumentError(f"N must not be negative, not {N}")
    count = x.shape[0] if N is None else N
    x = x if x.is_floating_point() else x.to(int64)
    exponents = np.arange(count) if increasing else np.arange(count)[::-1]
    return x.unsqueeze(-1) ** from_array(exponents, x.dtype)


@composite()
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotate k times by a quarter turn from the first towards the second of two dimensions."""
    first, second = (dimension(dim, input.ndim) for dim in dims)
    if first == second:
        raise ArgumentError(f"dims {tuple(dims)} name one twice")
    if k % 4 == 2:
        return input.flip(first, second)
    if k % 2:
        turned = input.transpose(first, second)
        return turned.flip(first if k % 4 == 1 else second)
    return input.clone()


@composite(method=False)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return all choices of r elements of a vector, in order, one per row.

    >>> nt.combinations(nt.tensor([1, 2, 3]))
    """
    _require_vector("input", input)
    if r < 0:
        raise ArgumentError(f"r must not be negative, not {r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = itertools.chain.from_iterable(choose(range(input.shape[0]), r))  # far faster than an array of tuples
    rows = np.fromiter(places, np.int64)
    return ops.take_op(input, from_array(rows.reshape(-1, r) if r else rows), 0)


@composite("broadcast_shapes", method=False)
def shapes_broadcast(*shapes: Any) -> tuple[int, ...]:
    """Return the shape that tensors of these shapes broadcast to."""
    return broadcast_shapes(*((shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes))


# --- parts that are replaced


def _replaced(input: Tensor, source: Tensor, view: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a copy of input in which the part that a view shows is source."""
    require_same_dtype(input, source)
    result = input.clone()
    view(result)._assign(source)
    return result.clone()  # the written tensor is a view of a storage; the result must not be one


@composite()
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Return input with the slice at a position along dim replaced by src.

    >>> nt.select_scatter(nt.zeros(2, 2), nt.ones(2), 0, 1)
    """
    return _replaced(input, src, lambda tensor: ops.select(tensor, dim, index))


@composite()
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """Return input with input[start:end:step] along dim replaced by src.

    >>> nt.slice_scatter(nt.zeros(4), nt.ones(2), 0, 1, 3)
    """
    place = dimension(dim, input.ndim)
    bounds = slice(start, end, step).indices(input.shape[place])
    return _replaced(input, src, lambda tensor: cut(tensor, place, *bounds))


@composite()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return input with a diagonal replaced by src.

    >>> nt.diagonal_scatter(nt.zeros(2, 2), nt.tensor([1.0, 2.0]))
    """
    return _replaced(input, src, lambda tensor: ops.diagonal(tensor, offset, dim1, dim2))


@composite("fill_diagonal_", function=False)
def fill_diagonal_in_place(input: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Set the elements with equal indices in all dimensions to fill_value; wrap continues in a tall matrix."""
    if input.ndim < 2 or (input.ndim > 2 and len({*input.shape}) > 1):
        raise ShapeError(f"needs a matrix, or equal extents, not {list(input.shape)}")
    count = -(-input.numel() // (input.shape[1] + 1)) if wrap and input.ndim == 2 else min(input.shape)
    step = sum(math.prod(input.shape[axis + 1 :]) for axis in range(input.ndim))
    places = from_array(np.arange(count) * step)
    flat = put(input.reshape(input.numel()), (places,), fill_value)
    return input._assign(flat.reshape(input.shape))


# --- by position among all elements


@composite("take")
def take_flat(input: Tensor, index: Tensor) -> Tensor:
    """Return the elements at row-major positions; negative ones count from the end.

    >>> nt.take(nt.tensor([[1, 2], [3, 4]]), nt.tensor([0, 3]))
    """
    return input.reshape(input.numel())[index]


@composite("put", in_place=True)
def put_flat(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return input with the elements at row-major positions replaced by those of source, or increased by them.

    >>> nt.put(nt.zeros(2, 2), nt.tensor([3]), nt.tensor([7.0]))
    """
    require_same_dtype(input, source)
    places, values = index.reshape(index.numel()), source.reshape(source.numel())
    flat = put(input.reshape(input.numel()), (places,), values, reduce="add" if accumulate else "")
    return flat.reshape(input.shape)


@composite(method=False)
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Convert row-major positions to indices in each dimension of a shape.

    >>> nt.unravel_index(nt.tensor([5]), (2, 3))
    """
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    after = [math.prod(extents[axis + 1 :]) for axis in range(len(extents))]
    indices = indices.to(int64)
    return tuple(indices // step % extent for step, extent in zip(after, extents, strict=True))


@composite()
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Return the result of `nonzero`, cut or filled with fill_value to `size` rows. Reads the value.

    >>> nt.nonzero_static(nt.tensor([0, 3, 4]), size=2)
    """
    rows = input.nonzero()
    return _pad(rows[:size], (0, 0, 0, max(size - rows.shape[0], 0)), value=fill_value)


@composite(method=False)
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """Pad like `pad` with mode "constant"."""
    return _pad(input, pad, value=value)


@composite(function=False)
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Sum over the dimensions in which a tensor of shape `size` would be expanded to input's."""
    shape = unpacked(size)
    added = input.ndim - len(shape)
    if broadcast_shapes(input.shape, shape) != input.shape:
        raise ShapeError(f"{list(shape)} does not expand to {list(input.shape)}")
    dims = [*range(added), *(axis for axis in range(added, input.ndim) if shape[axis - added] == 1)]
    return input.sum(dims).reshape(shape) if dims or not shape else input


@composite()
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return True if both have the same shape."""
    return input.shape == other.shape


# --- copies of views

_VIEWS: Final = {
    "as_strided": "(2, 2), (1, 2)",
    "detach": "",
    "diagonal": "",
    "expand": "(2, 4, 4)",
    "narrow": "0, 1, 2",
    "permute": "(1, 0)",
    "select": "0, 1",
    "split": "2",
    "squeeze": "",
    "t": "",
    "transpose": "0, 1",
    "unbind": "",
    "unfold": "0, 2, 1",
    "unsqueeze": "0",
    "view": "(2, 8)",
}
"""Methods that return views, with arguments of an example."""


def _copies(name: str, arguments: str) -> None:
    """Publish <name>_copy."""
    function = getattr(Tensor, name)

    def copied(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        result = function(input, *args, **kwargs)
        return tuple(each.clone() for each in result) if isinstance(result, tuple) else result.clone()

    call = f"nt.eye(4), {arguments}" if arguments else "nt.eye(4)"
    copied.__doc__ = f"""
        Return the result of `{name}`, which takes the same arguments, with memory of its own.

        >>> nt.{name}_copy({call})
    """
    composite(f"{name}_copy", method=False)(copied)


for _name, _arguments in _VIEWS.items():
    _copies(_name, _arguments)
