"""GGML's matrix product."""

from __future__ import annotations

import npu_tensor as nt
from npu_tensor.runtime.npu.tensor_desc import TensorDesc


def ggml_op_mul_mat(src0: nt.Tensor, src1: nt.Tensor, *, output: TensorDesc) -> nt.Tensor:
    """src0 of extents (K,M) and src1 of (K,N) give (M,N): every element is the product of a row of each.

    Along the two outer dimensions each matrix of src0 serves as many consecutive ones of src1 as there are. Sums are
    float32 or int32 and stored in the dtype of the output. A quantized src0 is one matrix.
    """
    _check(src0, src1)
    if src0.dtype.is_quantized:
        return nt.linear(src1, src0.reshape(*src0.shape[2:])).to(output.dtype)
    if output.dtype is not src0.dtype or src1.dtype is not src0.dtype:
        return nt.mul_mat(src0, src1).to(output.dtype)
    outer0, outer1 = src0.shape[:2], src1.shape[:2]
    few = [extent for own in outer0 for extent in (own, 1)]
    many = [extent for own, other in zip(outer0, outer1, strict=True) for extent in (own, other // own)]
    left = src1.reshape(*many, *src1.shape[2:])
    right = src0.reshape(*few, *src0.shape[2:]).transpose(-1, -2)
    return nt.matmul(left, right).reshape(*outer1, src1.shape[2], src0.shape[2])


def _check(src0: nt.Tensor, src1: nt.Tensor) -> None:
    operands = f"src0 {_extents(src0)} and src1 {_extents(src1)}"
    (rows0, columns0), (rows1, columns1) = src0.shape[2:], src1.shape[2:]
    if columns0 != columns1:
        hint = ""
        if rows0 == columns1:  # as if src0 were (M,K) and src1 (K,N)
            m, k, n = columns0, rows0, rows1
            hint = (
                f". These look like row-major (NumPy) shapes; expected src0 ({k},{m},1,1), src1 ({k},{n},1,1) and "
                f"output ({m},{n},1,1)"
            )
        raise nt.ShapeError(f"{operands} differ in their first extent: GGML takes (K,M) and (K,N) to (M,N){hint}")
    if any(other % own for own, other in zip(src0.shape[:2], src1.shape[:2], strict=True)):
        raise nt.ShapeError(f"{operands}: the last two extents of src1 must be multiples of those of src0")


def _extents(tensor: nt.Tensor) -> str:
    return f"({','.join(map(str, reversed(tensor.shape)))})"
