"""Scaled dot-product attention."""

from __future__ import annotations

import math

import npu_tensor as nt
from npu_tensor import ops


def attention(
    src0: nt.Tensor,
    src1: nt.Tensor,
    src2: nt.Tensor,
    src3: nt.Tensor | None = None,
    *,
    is_causal: bool = False,
    softcap: float = 0.0,
) -> nt.Tensor:
    """Return (features,heads,queries,batch) for queries src0, keys src1, values src2 and an optional mask src3.

    src0 is (features,queries,heads,batch); src1 and src2 have keys for queries and may have fewer heads. src3 is
    float32 and is added to the scores, after their soft cap. The op is recorded itself, since functions choose it by
    the current device.
    """
    masks = () if src3 is None else (src3,)
    scale = 1 / math.sqrt(src0.shape[3])
    result: nt.Tensor = ops.attention(src0, src1, src2, *masks, scale=scale, is_causal=is_causal, softcap=softcap)
    return result
