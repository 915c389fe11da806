"""Elements stored or added at positions in tensors; the input keeps its value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import DType, bool_, int64
from npu_tensor.errors import ArgumentError, DimensionError, ShapeError
from npu_tensor.functions.creation import arange, full_like, ones_like, zeros, zeros_like
from npu_tensor.functions.indexing import put, put_along, require_mask, require_same_dtype, scatter, with_dimension
from npu_tensor.functions.neural import limit_rows
from npu_tensor.functions.products import bmm
from npu_tensor.functions.register import Operand, composite, tensor_of
from npu_tensor.functions.shape import cat
from npu_tensor.ops.rules import dimension, index_dtype
from npu_tensor.spec import broadcast_shapes
from npu_tensor.tensor import Tensor, from_array


@composite(in_place=True)
def index_put(input: Tensor, indices: Sequence[Tensor], values: Operand, accumulate: bool = False) -> Tensor:
    """Return input with input[indices] replaced by values.

    Args:
        indices: Index tensors of the first dimensions.
        values: New elements, broadcast.
        accumulate: True to add the values, once for each time a position occurs.

    >>> nt.index_put(nt.zeros(3), (nt.tensor([2, 0]),), nt.tensor([1.0, 2.0]))
    """
    if accumulate or isinstance(values, Tensor):
        require_same_dtype(input, tensor_of(values))
    return put(input, tuple(indices), values, reduce="add" if accumulate else "")


def _put_slices(input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str = "") -> Tensor:
    """Put the slices of source at the positions `index` along dim; there must be one for each."""
    shape, input, source = input.shape, with_dimension(input), with_dimension(source)
    place = dimension(dim, input.ndim)
    if index.ndim > 1:
        raise DimensionError("index must be a vector")
    expected = (*input.shape[:place], index.numel(), *input.shape[place + 1 :])
    if source.shape != expected:
        raise ShapeError(f"source must have the shape {list(expected)}, not {list(source.shape)}")
    require_same_dtype(input, source)
    index_dtype(index.dtype)
    source = source.movedim(place, 0) if place else source
    bounds = tuple((0, extent, 1) for extent in input.shape)
    result = ops.put_op(input, source, with_dimension(index), bounds=bounds, dims=(place,), wrap=False, reduce=reduce)
    return result if shape else result.reshape(shape)


@composite(in_place=True)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Return input with the slices at the positions `index` along dim replaced by those of source.

    >>> nt.index_copy(nt.zeros(3), 0, nt.tensor([2, 0]), nt.tensor([1.0, 2.0]))
    """
    return _put_slices(input, dim, index, source)


@composite(in_place=True)
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """Return input with alpha times the slices of source added to those at the positions `index` along dim.

    >>> nt.index_add(nt.zeros(3), 0, nt.tensor([0, 0]), nt.tensor([1.0, 2.0]))
    """
    added = source if alpha == 1 else source * alpha
    return _put_slices(input, dim, index, added, "add")


@composite(in_place=True)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Return input with src[i][j] added to [index[i][j]][j] for dim = 0, and accordingly for other dims.

    >>> nt.scatter_add(nt.zeros(3), 0, nt.tensor([0, 0]), nt.tensor([1.0, 2.0]))
    """
    return scatter(input, dim, index, src, reduce="add")


@composite(in_place=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return input with the elements of source, in order, where mask is true. Reads the mask.

    >>> nt.masked_scatter(nt.zeros(3), nt.tensor([True, False, True]), nt.tensor([5.0, 6.0]))
    """
    require_mask(mask)
    require_same_dtype(input, source)
    shape = broadcast_shapes(input.shape, mask.shape)
    input, mask = input.expand(shape), mask.expand(shape)
    places = np.flatnonzero(mask.numpy())
    if source.numel() < places.size:
        raise ShapeError(f"source has {source.numel()} elements for {places.size} places")
    flat, values = input.reshape(input.numel()), source.reshape(source.numel()).narrow(0, 0, places.size)
    return ops.scatter_along(flat, values, from_array(places, int64), 0).reshape(shape)


_REDUCTIONS: Final = {"sum": "add", "prod": "multiply", "mean": "add", "amax": "maximum", "amin": "minimum"}


def _start_of(reduce: str, dtype: DType) -> float:
    """Return the neutral element of a reduction."""
    if dtype is bool_:
        return reduce in ("prod", "amin")
    if reduce in ("amax", "amin"):
        limits = np.iinfo(dtype.numpy) if dtype.is_integer else None
        lowest, highest = (limits.min, limits.max) if limits else (-math.inf, math.inf)
        return lowest if reduce == "amax" else highest
    return 1 if reduce == "prod" else 0


def _reduced(
    put_into: Callable[[Tensor, Tensor, str], Tensor], input: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    """Apply put_into(tensor, value, how) for PyTorch's names of reductions."""
    if reduce not in _REDUCTIONS:
        raise ArgumentError(f"reduce must be one of {', '.join(_REDUCTIONS)}, not {reduce!r}")
    start = input if include_self else put_into(input, full_like(source, _start_of(reduce, input.dtype)), "")
    total = put_into(start, source, _REDUCTIONS[reduce])
    if reduce != "mean":
        return total
    counts = put_into((ones_like if include_self else zeros_like)(input), ones_like(source), "add").clamp(min=1)
    return total / counts if input.is_floating_point() else total // counts


@composite(in_place=True)
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Reduce input with src[i][j] at [index[i][j]][j] for dim = 0, and accordingly for other dims.

    Args:
        dim: Dimension along which `index` counts.
        index: Integer positions.
        src: Elements, at least as many as in `index`.
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: False to leave out the elements of `input` at these positions.

    >>> nt.scatter_reduce(nt.ones(2), 0, nt.tensor([0, 0]), nt.tensor([2.0, 3.0]), "sum")
    """

    def put_into(tensor: Tensor, value: Tensor, how: str) -> Tensor:
        return put_along(tensor, dim, index, with_dimension(value), how)

    return _reduced(put_into, input, src, reduce, include_self)


@composite(in_place=True)
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Reduce the slices of input at the positions `index` along dim with those of source, like `scatter_reduce`.

    >>> nt.index_reduce(nt.ones(2), 0, nt.tensor([0, 0]), nt.tensor([2.0, 3.0]), "prod")
    """

    def put_into(tensor: Tensor, value: Tensor, how: str) -> Tensor:
        return _put_slices(tensor, dim, index, value, how)

    return _reduced(put_into, input, source, reduce, include_self)


@composite(method=False)
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sum, mean or maximum of the rows of weight in each bag. An empty bag gives zeros.

    Args:
        input: Indices: a matrix with one bag per row, or a vector with `offsets`.
        weight: Matrix (entries, features).
        offsets: Position of the first index of each bag in a vector.
        norm_type: Order of the norm that `max_norm` limits.
        mode: "sum", "mean" or "max".
        per_sample_weights: Factors of the rows, for "sum".
        include_last_offset: True if the last offset is the end of the last bag.
        padding_idx: Index that does not count.

    Returns:
        Tensor (bags, features).

    >>> nt.embedding_bag(nt.tensor([[0, 2]]), nt.arange(6.0).reshape(3, 2))
    """
    if (input.ndim == 1) is (offsets is None) or mode not in ("sum", "mean", "max"):
        raise ArgumentError("needs a matrix, or a vector and offsets, and the mode sum, mean or max")
    if per_sample_weights is not None and mode != "sum":
        raise ArgumentError(f"per_sample_weights are for the mode sum, not {mode!r}")
    limit_rows(weight, input, max_norm, norm_type, scale_grad_by_freq)
    if offsets is None and input.shape[1] and padding_idx is None:
        rows = ops.take_op(weight, input, 0)
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.unsqueeze(-1)
        return rows.sum(1) if mode == "sum" else rows.mean(1) if mode == "mean" else rows.amax(1)
    indices = input.reshape(input.numel())
    if offsets is None:
        count = input.shape[0]
        bag = arange(count).unsqueeze(1).expand(input.shape).reshape(indices.shape)
    else:
        count = offsets.shape[0] - include_last_offset
        bag = (offsets[:count].unsqueeze(1) <= arange(indices.shape[0])).sum(0) - 1
    rows = ops.take_op(weight, indices, 0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(indices.shape[0], 1)
    if padding_idx is not None:  # into an extra bag, which is dropped
        bag = ops.where_op(indices == padding_idx % weight.shape[0], count, bag)
    bags = zeros(count + 1, weight.shape[1], dtype=weight.dtype)
    how = {"sum": "sum", "mean": "mean", "max": "amax"}[mode]
    return index_reduce(bags, 0, bag, rows, how, include_self=False)[:count]


@composite(method=False)
def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None) -> Tensor:
    """Multiply groups of rows with a matrix for each group, as in mixtures of experts.

    Args:
        mat_a: Matrix (rows, k), whose rows are sorted by group, or matrices (groups, rows, k).
        mat_b: Matrices (groups, k, columns). With two matrices (rows, k) and (k, columns), `offs` divides k, and the
            result has a product for each group. A matrix (k, columns) with matrices `mat_a` has sorted columns.
        offs: End of each group, ascending; None for matrices in both operands.

    Returns:
        The products: (rows, columns), or (groups, rows, columns). Rows after the last group are zero.

    >>> nt.grouped_mm(nt.ones(3, 1), nt.arange(2.0).reshape(2, 1, 1) + 1, offs=nt.tensor([1, 3]))
    """
    if offs is None or {mat_a.ndim, mat_b.ndim} - {2, 3}:
        return bmm(mat_a, mat_b)
    if mat_a.ndim == 3:
        return grouped_mm(mat_b.mT, mat_a.mT, offs=offs).mT
    groups, rows = offs.shape[0], mat_a.shape[mat_b.ndim - 3]
    # Each group fills blocks of one size, so that shapes do not depend on values: at most twice the work.
    size = max(1, -(-rows // groups))
    ends = offs.to(int64)
    starts = cat([zeros(1, dtype=int64), ends[:-1]])
    counts = (ends - starts + size - 1).floor_divide(size)
    last = counts.cumsum(0)
    first, blocks = last - counts, arange(rows // size + groups)
    owner = (blocks.unsqueeze(1) >= last).sum(1).clamp(max=groups - 1)
    row = (starts[owner] + (blocks - first[owner]) * size).unsqueeze(1) + arange(size)
    inside, row = row < ends[owner].unsqueeze(1), row.clamp(max=rows - 1)
    if mat_b.ndim == 2:
        left = ops.where_op(inside.unsqueeze(2), ops.take_op(mat_a.mT, row, 0), 0.0)
        products = left.mT @ ops.take_op(mat_b, row, 0)
        return index_add(zeros(groups, *products.shape[1:], dtype=products.dtype), 0, owner, products)
    products = ops.take_op(mat_a, row, 0) @ ops.take_op(mat_b, owner, 0)
    number = arange(rows)
    group = (number.unsqueeze(1) >= ends).sum(1)
    known = group.clamp(max=groups - 1)
    taken = ops.take_op(products.flatten(0, 1), first[known] * size + number - starts[known], 0)
    return ops.where_op((group < groups).unsqueeze(1), taken, 0.0)
