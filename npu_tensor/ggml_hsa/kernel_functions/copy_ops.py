"""Ops that move or convert elements."""

from __future__ import annotations

import npu_tensor as nt
from npu_tensor.runtime.npu.tensor_desc import TensorDesc


def ggml_op_cont(src0: nt.Tensor, *, output: TensorDesc) -> nt.Tensor:
    """Return the elements of src0, in order, in the extents of the output. src0 may have any strides."""
    return src0.reshape(*output.shape)


def ggml_op_cpy(src0: nt.Tensor, *, output: TensorDesc) -> nt.Tensor:
    """src0 in the dtype of the output."""
    return src0.to(output.dtype)


def ggml_op_concat(src0: nt.Tensor, src1: nt.Tensor, *, dim: int = 0) -> nt.Tensor:
    """src0 and src1 one after the other along dim, which counts from the innermost dimension."""
    if not 0 <= dim < 4:
        raise nt.DimensionError(f"dim must be 0 to 3, not {dim}")
    return nt.cat([src0, src1], 3 - dim)


def ggml_op_repeat(src0: nt.Tensor, *, output: TensorDesc) -> nt.Tensor:
    """src0 repeated to the extents of the output."""
    if any(extent % own for extent, own in zip(output.shape, src0.shape, strict=True)):
        raise nt.ShapeError(f"src0 {list(reversed(src0.shape))} does not repeat to {list(output.ne)}")
    return src0.repeat(*(extent // own for extent, own in zip(output.shape, src0.shape, strict=True)))
