"""Element-wise ops of two operands. The second one is repeated along the first where its extent is a divisor."""

from __future__ import annotations

from collections.abc import Callable

import npu_tensor as nt


def ggml_op_add(src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
    """src0 + src1."""
    return _repeating(nt.add, src0, src1)


def ggml_op_sub(src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
    """src0 - src1."""
    return _repeating(nt.sub, src0, src1)


def ggml_op_mul(src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
    """src0 * src1."""
    return _repeating(nt.mul, src0, src1)


def ggml_op_div(src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
    """src0 / src1, of floats."""
    return _repeating(nt.div, src0, src1)


def ggml_op_minimum(src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
    """Return the smaller of both; NaN if one is NaN."""
    return _repeating(nt.minimum, src0, src1)


def ggml_op_maximum(src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
    """Return the larger of both; NaN if one is NaN."""
    return _repeating(nt.maximum, src0, src1)


def _repeating(function: Callable[..., nt.Tensor], src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
    """Return the function where src1 repeats as GGML lets it: 10 elements, for example, along 20 of src0.

    NumPy repeats an extent of 1 only, so such a dimension of src0 is cut in two.
    """
    cut0: list[int] = []
    cut1: list[int] = []
    for extent, own in zip(src0.shape, src1.shape, strict=True):
        if extent % own:
            raise nt.ShapeError(
                f"src1 with extents {_ne(src1)} does not repeat over src0 with {_ne(src0)}: each must be a divisor"
            )
        cut0 += [extent] if own in (1, extent) else [extent // own, own]
        cut1 += [own] if own in (1, extent) else [1, own]
    return function(src0.reshape(*cut0), src1.reshape(*cut1)).reshape(*src0.shape)


def _ne(tensor: nt.Tensor) -> list[int]:
    return list(reversed(tensor.shape))
