"""Ops over rows: the innermost dimension."""

from __future__ import annotations

import npu_tensor as nt
from npu_tensor.runtime.npu.tensor_desc import TensorDesc


def ggml_op_soft_max(
    src0: nt.Tensor, src1: nt.Tensor | None = None, *, scale: float = 1.0, max_bias: float = 0.0
) -> nt.Tensor:
    """softmax(src0 * scale + slope * src1) of every row; see npu_tensor.soft_max_ext for mask and slope."""
    if src1 is None and scale == 1:
        return nt.softmax(src0, -1)
    return nt.soft_max_ext(src0, src1, scale, max_bias)


def ggml_op_norm(src0: nt.Tensor, *, eps: float = 1e-5) -> nt.Tensor:
    """(src0 - mean) / sqrt(variance + eps)."""
    return nt.layer_norm(src0, src0.shape[-1], eps=eps)


def ggml_op_rms_norm(src0: nt.Tensor, *, eps: float = 1e-5) -> nt.Tensor:
    """src0 / sqrt(mean(src0^2) + eps)."""
    return nt.rms_norm(src0, src0.shape[-1], eps=eps)


def ggml_op_l2_norm(src0: nt.Tensor, *, eps: float = 1e-12) -> nt.Tensor:
    """src0 / max(sqrt(sum(src0^2)), eps)."""
    return nt.l2_norm(src0, -1, eps)


def ggml_op_sum_rows(src0: nt.Tensor, *, output: TensorDesc) -> nt.Tensor:
    """Return the sum of every row, in the dtype of the output; its extent 0 is 1."""
    total = nt.sum_rows(src0)
    return total if total.dtype is output.dtype else total.to(output.dtype)


def ggml_op_sum(src0: nt.Tensor, *, output: TensorDesc) -> nt.Tensor:
    """Return the sum of all elements, in the dtype of the output (1,1,1,1)."""
    total = src0.sum()
    return total if total.dtype is output.dtype else total.to(output.dtype)


def ggml_op_mean(src0: nt.Tensor) -> nt.Tensor:
    """Return the mean of every row; extent 0 of the output is 1."""
    return src0.mean(-1, True)


def ggml_op_argmax(src0: nt.Tensor, *, output: TensorDesc) -> nt.Tensor:
    """Find the index of the first largest element of every row; extents (ne1, ne2, ne3, 1), i32 or i64."""
    index = src0.argmax(-1)
    return index if index.dtype is output.dtype else index.to(output.dtype)


def ggml_op_count_equal(src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
    """Count equal elements, as i64."""
    return nt.count_equal(src0, src1)
