"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Final

from npu_tensor import ops
from npu_tensor.dtypes import float32, float64
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.creation import arange
from npu_tensor.functions.neural import dropped, require_float, wide
from npu_tensor.functions.register import composite
from npu_tensor.graph.history import grad_mode
from npu_tensor.planner.selection import accelerators, current
from npu_tensor.tensor import Tensor


@composite(method=False, ggml="FLASH_ATTN_EXT")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return softmax(query @ key.T * scale + mask) @ value.

    A query that may not attend to any key gives 0. Key and value may be float16 or bfloat16 if query is float32.

    Args:
        query: Floats (..., queries, features).
        key: Floats (..., keys, features).
        value: Floats (..., keys, value features).
        attn_mask: Bool, True where a query may attend, or float, added to the scores.
        dropout_p: Dropout probability of the weights.
        is_causal: True to let query i attend to keys 0 to i only.
        scale: Factor of the scores; None for 1 / sqrt(features).
        enable_gqa: True to let each head of key and value serve a group of query heads, without a copy.

    Returns:
        Tensor of shape (..., queries, value features) in the dtype of `query`.

    Raises:
        ArgumentError: Both `attn_mask` and `is_causal` are given.
        ShapeError: The shapes do not fit, or key heads do not divide query heads.

    >>> nt.scaled_dot_product_attention(nt.ones(2, 4), nt.ones(3, 4), nt.ones(3, 2))
    """
    if is_causal and attn_mask is not None:
        raise ArgumentError("give attn_mask or is_causal, not both")
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ShapeError("needs (..., tokens, features)")
    if enable_gqa and (query.ndim < 3 or not key.shape[-3] or query.shape[-3] % key.shape[-3]):
        raise ShapeError(f"{key.shape[-3:-2]} key heads do not divide {query.shape[-3:-2]} query heads")
    require_float(query)
    factor = 1 / math.sqrt(query.shape[-1] or 1) if scale is None else scale
    if not dropout_p and is_fused(query, key, value, attn_mask, enable_gqa):
        return _fused(query, key, value, attn_mask, factor, is_causal)
    return attention_by_products(query, key, value, attn_mask, factor, is_causal, enable_gqa, dropout_p)


def attention_by_products(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    enable_gqa: bool,
    dropout_p: float = 0.0,
) -> Tensor:
    """Record attention as two products, with the scores as a tensor."""
    dtype, apart, together = query.dtype, query.shape[-3:-1], (0, 0)
    if enable_gqa:
        together = key.shape[-3], math.prod(apart) // max(key.shape[-3], 1)

    def grouped(x: Tensor, rows: tuple[int, ...]) -> Tensor:
        """Make the tokens of a group of heads rows of one product with the head that serves them."""
        return x.reshape(*x.shape[:-3], *rows, x.shape[-1]) if enable_gqa else x

    wider = "float64" if dtype is float64 else "float32"
    products = ops.contract(grouped(query, together), key.transpose(-1, -2), wider)
    scores = _masked(grouped(products, apart) * scale, mask, is_causal)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = ops.where_op(scores.amax(-1, True) == -math.inf, 0.0, weights)
    weights = dropped(weights.to(dtype), dropout_p, True, weights.shape)
    return grouped(ops.contract(grouped(weights, together), value, dtype.name), apart)


def _masked(scores: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor:
    if is_causal:
        queries, keys = scores.shape[-2:]
        attn_mask = arange(keys) <= arange(queries).unsqueeze(1)
    if attn_mask is None:
        return scores
    if attn_mask.is_floating_point():
        return scores + wide(attn_mask)
    return ops.where_op(attn_mask, scores, -math.inf)


LEAST_ROWS: Final = 16
"""Queries per key head from which one op is at least as fast as two products, measured on a Zen 3: its panels have 16
rows, and products of fewer rows read a cache of keys at the speed of memory."""


def is_fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, enable_gqa: bool) -> bool:
    """Return True if attention is recorded as one op.

    NPUs and gradients of masks need the scores. Operands that do not fit get their errors from the products.
    """
    if mask is not None and grad_mode.enabled and mask._node.history is not None:
        return False
    if query.ndim > 4 or not query.ndim == key.ndim == value.ndim or accelerators(current()):
        return False
    heads, groups = (math.prod(each.shape[-3:-2]) for each in (query, key))
    if key.shape[:-1] != value.shape[:-1] or key.shape[-1] != query.shape[-1] or query.shape[:-3] != key.shape[:-3]:
        return False
    if (
        not groups
        or heads % groups
        or (heads != groups and not enable_gqa)
        or heads * query.shape[-2] < LEAST_ROWS * groups
    ):
        return False
    dtypes = {each.dtype for each in (query, key, value)}
    if any(dtype.register != "float32" for dtype in dtypes) or (query.dtype is not float32 and len(dtypes) > 1):
        return False
    whole = (1,) * (4 - query.ndim) + (*query.shape[:-1], key.shape[-2])
    return mask is None or (
        mask.ndim <= query.ndim
        and mask.dtype.name in ("bool", "float32", "float16", "bfloat16")
        and all(extent in (1, full) for extent, full in zip(reversed(mask.shape), reversed(whole), strict=False))
    )


def _fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, is_causal: bool) -> Tensor:
    tensors = [query, key, value, *([] if mask is None else [wide(mask)])]
    operands = [each if each.ndim == 4 else each.reshape(*(1,) * (4 - each.ndim), *each.shape) for each in tensors]
    result: Tensor = ops.attention(*operands, scale=scale, is_causal=is_causal).transpose(1, 2)
    return result if query.ndim == 4 else result.reshape(*query.shape[:-1], value.shape[-1])
