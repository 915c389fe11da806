"""Distinct values, their counts, and positions in sorted sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import float32, float64, int32, int64
from npu_tensor.errors import ArgumentError, DimensionError, DTypeError, ShapeError
from npu_tensor.functions.arithmetic import result_type
from npu_tensor.functions.creation import zeros
from npu_tensor.functions.register import Operand, composite, tensor_of, wide
from npu_tensor.functions.scattering import index_add
from npu_tensor.graph.history import require_constant
from npu_tensor.tensor import Tensor, from_array

# Upper bound on candidates of `isin` that are compared one by one, which is faster than a search up to about 32.
_FEW_CANDIDATES = 32


@composite()
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the distinct elements, or slices along dim, in ascending order. Every NaN is distinct. Reads the value.

    Args:
        sorted: Has no effect; the result is always sorted.
        return_inverse: True to also return the position of each element in the result.
        return_counts: True to also return the number of occurrences.
        dim: Dimension of the slices; None for elements.
    """
    require_constant("unique", input._node)
    array = wide(input).numpy()
    values, inverse, counts = np.unique(array, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)
    results = [from_array(values, input.dtype)]
    if return_inverse:
        results.append(from_array(inverse.reshape(input.shape if dim is None else -1), int64))
    if return_counts:
        results.append(from_array(counts, int64))
    return results[0] if len(results) == 1 else tuple(results)


@composite(method=False)
def isin(elements: Operand, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Return True for each element that is among test_elements.

    >>> nt.isin(nt.tensor([1, 2, 3]), nt.tensor([2, 5]))
    """
    dtype = result_type(elements, test_elements)
    values, candidates = tensor_of(elements).to(dtype), tensor_of(test_elements).to(dtype)
    candidates = candidates.reshape(candidates.numel())
    if candidates.numel() <= _FEW_CANDIDATES:
        present = (values.unsqueeze(-1) == candidates).any(-1)
    else:
        ascending = candidates.sort().values
        place = searchsorted(ascending[:-1], values)  # A value above all others is compared with the last candidate.
        present = ops.take_op(ascending, place, 0) == values
    return ~present if invert else present


@composite()
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Return the number of occurrences of 0, 1, ... in a vector, or the sums of their weights. Reads the value.

    >>> nt.bincount(nt.tensor([0, 1, 1, 3]))
    """
    if input.ndim != 1 or (weights is not None and weights.shape != input.shape):
        raise ShapeError("needs a vector, and weights of its shape")
    if not input.dtype.is_integer:
        raise DTypeError(f"takes integers, not {input.dtype.name}")
    array = input.numpy()
    if weights is None:
        if array.size and array.min() < 0:
            raise DimensionError(f"index {array.min()} is negative")
        return from_array(np.bincount(array, minlength=minlength), int64)
    length = max(int(array.max()) + 1 if array.size else 0, minlength)
    if weights.dtype is not float32:
        weights = weights.to(float64)
    return index_add(zeros(length, dtype=weights.dtype), 0, input.to(int64), weights)


@composite(method=False)
def searchsorted(
    sorted_sequence: Tensor,
    input: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Return the position of each value (..., m) in an ascending sequence (..., n).

    NaN counts as the largest value, as in `sort`. A one-dimensional sequence serves values of any shape.

    Args:
        sorted_sequence: Ascending values (..., n).
        input: Values (..., m).
        out_int32: True for int32 positions in place of int64.
        right: True for the position after equal elements, False for the one before.
        side: "right" or "left", in place of `right`.
        sorter: Order of the sequence that is ascending, as `argsort` returns it.

    >>> nt.searchsorted(nt.tensor([1.0, 2.0, 3.0]), nt.tensor([0.5, 2.5]))
    """
    values = tensor_of(input)
    if not sorted_sequence.ndim:
        raise ShapeError("a sequence has at least one dimension")
    if sorted_sequence.ndim > 1 and sorted_sequence.shape[:-1] != values.shape[:-1]:
        raise ShapeError("a sequence of several dimensions needs values with the same leading ones")
    if side not in (None, "left", "right") or (right and side == "left"):
        raise ArgumentError(f"side must be 'left' or 'right' and agree with right={right}, not {side!r}")
    if sorter is not None:
        sorted_sequence = sorted_sequence.gather(-1, sorter)
    places = ops.search_places(sorted_sequence, values, right or side == "right")
    return places.to(int32) if out_int32 else places


@composite(method=False)
def bucketize(input: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Return the interval of each value between ascending boundaries, like `searchsorted`.

    >>> nt.bucketize(nt.tensor([0.5, 2.5]), nt.tensor([1.0, 2.0, 3.0]))
    """
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)
