"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any, Final

from npu_tensor import ops
from npu_tensor.dtypes import bfloat16, float16, float32, float64
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.creation import arange
from npu_tensor.functions.neural import dropout, dropped
from npu_tensor.functions.products import linear
from npu_tensor.functions.register import composite, require_float, wide
from npu_tensor.functions.shape import cat, pad
from npu_tensor.functions.templated import templated
from npu_tensor.graph.history import grad_mode
from npu_tensor.planner.selection import accelerators, current
from npu_tensor.runtime.devices.device_kind import device_option
from npu_tensor.runtime.devices.device_uri import parse_uri
from npu_tensor.task import Accelerator
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
    if dropout_p:
        return attention_by_products(query, key, value, attn_mask, factor, is_causal, enable_gqa, dropout_p)
    return _attention(query, key, value, attn_mask, factor, is_causal, enable_gqa)


@templated
def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    factor: float,
    is_causal: bool,
    enable_gqa: bool,
) -> Tensor:
    if is_fused(query, key, value, mask, enable_gqa):
        return _fused(query, key, value, mask, factor, is_causal)
    return attention_by_products(query, key, value, mask, factor, is_causal, enable_gqa)


def attention_by_products(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    enable_gqa: bool,
    dropout_p: float = 0.0,
    softcap: float = 0.0,
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
    scores = grouped(products, apart) * scale
    if softcap:
        scores = (scores / softcap).tanh() * softcap
    scores = _masked(scores, mask, is_causal)
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

    Gradients of masks need the scores. Operands that do not fit get their errors from the products.
    """
    if mask is not None and grad_mode.enabled and mask._node.history is not None:
        return False
    if query.ndim > 4 or not query.ndim == key.ndim == value.ndim:
        return False
    devices = accelerators(current())
    if devices and not _suits_array(query, key, value, devices, mask is not None):
        return False
    heads, groups = (math.prod(each.shape[-3:-2]) for each in (query, key))
    if key.shape[:-1] != value.shape[:-1] or key.shape[-1] != query.shape[-1] or query.shape[:-3] != key.shape[:-3]:
        return False
    if (
        not groups
        or heads % groups
        or (heads != groups and not enable_gqa)
        or (not devices and heads * query.shape[-2] < LEAST_ROWS * groups)
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


def _suits_array(query: Tensor, key: Tensor, value: Tensor, devices: tuple[Accelerator, ...], is_masked: bool) -> bool:
    """Return True if an NPU has a kernel for the operands; its products are faster than the CPU's attention.

    The host pads operands with fewer rows than the cores of a column compute at once, which ends a launch. Products of
    so few rows stay in one launch with their neighbours. One query without a mask needs no padding: the DMA repeats it.
    """
    # Programs without an NPU do not need these modules, which take 30 ms to import.
    from npu_tensor.kernels.attention import FEATURES
    from npu_tensor.kernels.attention.design import CORES, STRIP

    rounds = any(device_option(parse_uri(device.uri), "float32") == "bfloat16" for device in devices)
    features, is_few = query.shape[-1], query.shape[-2] < CORES * STRIP
    dtypes = (bfloat16, float16, float32) if rounds and not is_few else (bfloat16,)
    if features not in FEATURES or (is_few and (query.shape[-2] != 1 or is_masked)):
        return False
    return value.shape[-1] == features and all(x.dtype in dtypes for x in (query, key, value))


def _fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, is_causal: bool) -> Tensor:
    if mask is not None and mask.dtype.name == "bool" and accelerators(current()):
        mask = ops.where_op(mask, 0.0, -math.inf)
    tensors = [query, key, value, *([] if mask is None else [wide(mask)])]
    operands = [each if each.ndim == 4 else each.reshape(*(1,) * (4 - each.ndim), *each.shape) for each in tensors]
    result: Tensor = ops.attention(*operands, scale=scale, is_causal=is_causal).transpose(1, 2)
    return result if query.ndim == 4 else result.reshape(*query.shape[:-1], value.shape[-1])


# --- several heads


@composite(method=False)
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attend with several heads, between linear layers, as `nn.MultiheadAttention` does.

    Masks are True for excluded keys, or floats that are added to the scores.

    Args:
        query: Floats (tokens, batch, features); the batch may be omitted.
        key: Floats (keys, batch, features).
        value: Floats (keys, batch, features).
        embed_dim_to_check: Features of `query`.
        num_heads: Number of heads.
        in_proj_weight: Weights of query, key and value below one another.
        in_proj_bias: Biases of query, key and value in a row.
        bias_k: Further key, (1, 1, features).
        bias_v: Further value, (1, 1, features).
        add_zero_attn: True to append a key and a value of zeros.
        dropout_p: Dropout probability of the weights.
        out_proj_weight: Weight of the last linear layer.
        out_proj_bias: Bias of the last linear layer.
        training: False to drop no weights.
        key_padding_mask: Mask (batch, keys).
        need_weights: True to return the attention weights too.
        attn_mask: Mask (queries, keys) or (batch * num_heads, queries, keys).
        use_separate_proj_weight: True to use the three weights that follow in place of `in_proj_weight`.
        q_proj_weight: Weight of the query.
        k_proj_weight: Weight of the key.
        v_proj_weight: Weight of the value.
        static_k: Keys (batch * num_heads, keys, features of a head) in place of those of `key`.
        static_v: Values in place of those of `value`.
        average_attn_weights: True to average the weights over the heads.
        is_causal: Hint that `attn_mask`, which must be passed, is causal.

    Returns:
        The result in the shape of `query`, and the weights or None.

    >>> nt.multi_head_attention_forward(*[nt.eye(4)] * 3, 4, 1, nt.ones(12, 4), *[None] * 3, False, 0, nt.eye(4), None)
    """
    if is_causal and attn_mask is None:
        raise ArgumentError("Need attn_mask if specifying the is_causal hint.")
    if query.shape[-1] != embed_dim_to_check or embed_dim_to_check % num_heads:
        raise ShapeError(f"query has {query.shape[-1]} features for {embed_dim_to_check} in {num_heads} heads")
    has_batch = query.ndim == 3
    batched = {each: each.transpose(0, 1) if has_batch else each for each in (query, key, value)}
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight
    parts = _projected([batched[query], batched[key], batched[value]], weights, in_proj_bias)
    mask = _summed_masks(key_padding_mask, attn_mask, query, num_heads)
    for place, further in ((1, bias_k), (2, bias_v)):
        if further is not None:
            lead = parts[place].shape[:-2]
            parts[place] = cat([parts[place], further.expand(*lead, 1, embed_dim_to_check)], -2)
    q, k, v = (each.unflatten(-1, (num_heads, -1)).transpose(-2, -3) for each in parts)
    if static_k is not None:
        k = static_k.unflatten(0, (-1, num_heads))
    if static_v is not None:
        v = static_v.unflatten(0, (-1, num_heads))
    if add_zero_attn:
        k, v = pad(k, (0, 0, 0, 1)), pad(v, (0, 0, 0, 1))
    if mask is not None and k.shape[-2] != mask.shape[-1]:
        mask = pad(mask, (0, (bias_k is not None) + add_zero_attn))
    probability = dropout_p if training else 0.0
    if need_weights:
        scores = q @ k.mT * (1 / math.sqrt(q.shape[-1]))
        attention = dropout((scores if mask is None else scores + mask).softmax(-1), probability)
        result = attention @ v
        returned = attention.mean(-3) if average_attn_weights else attention
    else:
        result, returned = scaled_dot_product_attention(q, k, v, mask, probability), None
    result = linear(result.transpose(-2, -3).flatten(-2), out_proj_weight, out_proj_bias)
    return (result.transpose(0, 1) if has_batch else result), returned


def _projected(inputs: list[Tensor], weight: Any, bias: Tensor | None) -> list[Tensor]:
    """Return query, key and value after their linear layers."""
    if isinstance(weight, Tensor) and inputs[0] is inputs[1] is inputs[2]:  # One product for all three.
        return [*linear(inputs[0], weight, bias).chunk(3, -1)]
    weights = weight.chunk(3) if isinstance(weight, Tensor) else weight
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return [linear(*each) for each in zip(inputs, weights, biases, strict=True)]


def _summed_masks(
    key_padding_mask: Tensor | None, attn_mask: Tensor | None, query: Tensor, num_heads: int
) -> Tensor | None:
    """Return the sum of the masks as floats to add to the scores (batch, heads, queries, keys)."""
    masks = []
    if attn_mask is not None:
        split = attn_mask.ndim == 3 and query.ndim == 3
        masks.append(attn_mask.unflatten(0, (-1, num_heads)) if split else attn_mask)
    if key_padding_mask is not None:
        masks.append(key_padding_mask.unsqueeze(-2).unsqueeze(-2))
    added = [each if each.is_floating_point() else ops.where_op(each, -math.inf, 0.0).to(query.dtype) for each in masks]
    return None if not added else added[0] if len(added) == 1 else added[0] + added[1]
