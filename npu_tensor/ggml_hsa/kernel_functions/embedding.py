"""Inputs of a model: rows of a table by token, and rotary positions."""

from __future__ import annotations

from typing import Any

import npu_tensor as nt


def ggml_op_get_rows(src0: nt.Tensor, src1: nt.Tensor) -> nt.Tensor:
    """Return rows of src0 (features,entries,1,1) at indices src1 (n,1,1,1): (features,n,1,1), in the dtype of src0.

    Only single tables: GGML's form with one table per batch has no kernel.
    """
    if src0.shape[:2] != (1, 1) or src1.shape[:3] != (1, 1, 1):
        raise nt.ShapeError("get_rows takes one table (features,entries,1,1) and one vector of indices (n,1,1,1)")
    return nt.index_select(src0.reshape(*src0.shape[2:]), 0, src1.reshape(src1.shape[3]))


def ggml_op_rope(src0: nt.Tensor, src1: nt.Tensor, src2: nt.Tensor | None = None, **settings: Any) -> nt.Tensor:
    """src0 (features,heads,tokens,batch) turned by its positions src1 (tokens,1,1,1); see npu_tensor.rope.

    src2 holds factors that divide the angles. settings: n_dims, mode, freq_base and YaRN's parameters.
    """
    factors = None if src2 is None else src2.reshape(src2.numel())
    return nt.rope(src0, src1.reshape(src1.numel()), factors, **settings)
