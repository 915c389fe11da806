"""Fused kernels that represent designs which no single GGML op has."""

from __future__ import annotations

import npu_tensor as nt


def multiply_add(src0: nt.Tensor, src1: nt.Tensor, src2: nt.Tensor) -> nt.Tensor:
    """src0 * src1 + src2."""
    return src0 * src1 + src2


def multiply_add_add(src0: nt.Tensor, src1: nt.Tensor, src2: nt.Tensor, src3: nt.Tensor) -> nt.Tensor:
    """src0 * src1 + src2 + src3: as many operands as a design can have."""
    return src0 * src1 + src2 + src3


def times_number(src0: nt.Tensor) -> nt.Tensor:
    """src0 times a number, which the program gives when it runs."""
    return src0 * 2


def exp_and_one_more(src0: nt.Tensor) -> tuple[nt.Tensor, nt.Tensor]:
    """exp(src0) and exp(src0) + 1, two results of one kernel."""
    result = src0.exp()
    return result, result + 1


def select(src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
    """src0 where it is larger than src1, else 0."""
    result: nt.Tensor = nt.where(src0 > src1, src0, 0)
    return result


def masked_soft_max(src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
    """softmax(src0 + src1) over rows, both as large."""
    return (src0 + src1).softmax(-1)


def shifted_and_soft_max(src0: nt.Tensor) -> tuple[nt.Tensor, nt.Tensor]:
    """src0 + 1 and the softmax of its rows, two results of one kernel."""
    shifted = src0 + 1
    return shifted, shifted.softmax(-1)


def weighted_rms_norm(src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
    """rms_norm of the rows of src0 times the weights src1, one for each column."""
    return nt.rms_norm(src0, src0.shape[-1], src1.reshape(src1.shape[-1]))


def sum_of_shifted(src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
    """Return the sums of the rows of src0 - src1, where src1 has one number per row."""
    return (src0 - src1).sum(-1, True)


def times_number_soft_max(src0: nt.Tensor) -> nt.Tensor:
    """Softmax of src0 times a number, which the program gives when it runs."""
    return (src0 * 0.125).softmax(-1)


def linear_gelu(src0: nt.Tensor, src1: nt.Tensor, src2: nt.Tensor) -> nt.Tensor:
    """gelu(src1 @ src0.T + src2) with a bias for each row of src0."""
    return nt.gelu(_product(src0, src1) + src2)


def linear_relu(src0: nt.Tensor, src1: nt.Tensor, src2: nt.Tensor) -> nt.Tensor:
    """relu(src1 @ src0.T + src2) with a bias for each row of src0; also of integers."""
    return nt.relu(_product(src0, src1) + src2)


def product_times_column(src0: nt.Tensor, src1: nt.Tensor, src2: nt.Tensor) -> nt.Tensor:
    """src1 @ src0.T times src2, one number for each row of src1."""
    return _product(src0, src1) * src2


def product_times_number(src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
    """src1 @ src0.T times a number, which the program gives when it runs."""
    return _product(src0, src1) * 2


def _product(src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
    return nt.matmul(src1, src0.transpose(-1, -2))
