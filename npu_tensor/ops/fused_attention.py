"""Scaled dot-product attention as one op: the scores never exist as a tensor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npu_tensor.dtypes import bool_, float32
from npu_tensor.errors import DTypeError, ShapeError
from npu_tensor.ops.declare import Resolution
from npu_tensor.ops.registry import op
from npu_tensor.ops.rules import of_tensors
from npu_tensor.spec import Spec

__all__ = ["attention", "attention_backward"]


@of_tensors("float32, float16 and bfloat16")
def _rule(query: Spec, key: Spec, value: Spec, *masks: Spec, **attributes: Any) -> Resolution:
    if any(each.dtype.register != "float32" for each in (query, key, value)):
        raise DTypeError("takes float32, float16 and bfloat16")
    if any(each.ndim != 4 for each in (query, key, value, *masks)):
        raise ShapeError("needs (batch, heads, tokens, features)")
    (batch, heads, queries, features), (_, groups, keys, _) = query.shape, key.shape
    if key.shape != (batch, groups, keys, features) or value.shape[:3] != key.shape[:3]:
        raise ShapeError(f"query {list(query.shape)}, key {list(key.shape)} and value {list(value.shape)} do not fit")
    if heads % groups if groups else heads:
        raise ShapeError(f"{groups} key heads do not divide {heads} query heads")
    scores = (batch, heads, queries, keys)
    for mask in masks:
        if mask.dtype not in (bool_, float32):
            raise DTypeError(f"takes masks of bool and float32, not {mask.dtype.name}")
        if any(extent not in (1, whole) for extent, whole in zip(mask.shape, scores, strict=True)):
            raise ShapeError(f"mask {list(mask.shape)} does not broadcast to {list(scores)}")
    registers = (*["float32"] * 3, *(mask.dtype.register for mask in masks))
    spec = Spec.of((batch, queries, heads, value.shape[3]), query.dtype)
    return Resolution(spec, registers, attributes)


@op(kind="data", rule=_rule, ggml="FLASH_ATTN_EXT", public=False)
def attention(*tensors: Any, scale: float = 1.0, is_causal: bool = False, softcap: float = 0.0) -> Any:
    """Return softmax(query @ key.T * scale + mask) @ value as (batch, queries, heads, value features).

    Operands are query (batch, heads, queries, features), key (batch, key heads, keys, features), value (batch, key
    heads, keys, value features) and optionally a mask that broadcasts to the scores: bool, True where a query may
    attend, or float32, added to the scores. Each key head serves a group of consecutive query heads. A query that may
    not attend to any key gives 0. A score s becomes softcap * tanh(s / softcap), if that is not 0, before the mask.
    """
    query, key, value, *masks = tensors
    mixed = np.matmul(_weights(query, key, masks, scale, is_causal, softcap), _repeated(value, query))
    return np.ascontiguousarray(mixed.swapaxes(1, 2))


def _repeated(heads: Any, query: Any) -> Any:
    """Repeat each head of keys or values for the query heads that it serves."""
    return np.repeat(heads, query.shape[1] // max(heads.shape[1], 1), 1)


def _weights(query: Any, key: Any, masks: Any, scale: float, is_causal: bool, softcap: float = 0.0) -> Any:
    scores = np.matmul(query * np.float32(scale), _repeated(key, query).swapaxes(-1, -2))
    if softcap:
        scores = np.tanh(scores / np.float32(softcap)) * np.float32(softcap)
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -math.inf)
    for mask in masks:
        scores = np.where(mask, scores, -math.inf) if mask.dtype == bool else scores + mask
    largest = scores.max(-1, keepdims=True, initial=-math.inf)
    weights = np.exp(scores - np.where(largest == -math.inf, 0, largest))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


@of_tensors("float32, float16 and bfloat16")
def _backward_rule(gradient: Spec, delta: Spec, *operands: Spec, **attributes: Any) -> Resolution:
    forward = _rule(operands, attributes)
    query, key, value = (operand.size for operand in operands[:3])
    if gradient.shape != forward.spec.shape or delta.shape != gradient.shape[:3]:
        raise ShapeError(f"needs the gradient of {list(forward.spec.shape)} and its sums over features")
    spec = Spec.of((query + key + value,), float32)
    return Resolution(spec, ("float32", "float32", *forward.registers), attributes)


@op(kind="data", rule=_backward_rule, public=False)
def attention_backward(*tensors: Any, scale: float = 1.0, is_causal: bool = False) -> Any:
    """Compute the gradients of query, key and value, one after the other, each as (batch, tokens, heads, features).

    Operands are the gradient of the result of `attention`, the sum of its product with the result over the features,
    and the operands of `attention`.
    """
    gradient, delta, query, key, value, *masks = tensors
    weights = _weights(query, key, masks, scale, is_causal)
    gradient = gradient.swapaxes(1, 2)
    of_weights = np.matmul(gradient, _repeated(value, query).swapaxes(-1, -2))
    of_scores = weights * (of_weights - delta.swapaxes(1, 2)[..., None]) * np.float32(scale)
    of_query = np.matmul(of_scores, _repeated(key, query))

    def grouped(repeated: Any, like: Any) -> Any:
        batch, groups, keys, features = like.shape
        return repeated.reshape(batch, groups, query.shape[1] // max(groups, 1), keys, features).sum(2)

    of_key = grouped(np.matmul(of_scores.swapaxes(-1, -2), query), key)
    of_value = grouped(np.matmul(weights.swapaxes(-1, -2), gradient), value)
    return np.concatenate([each.swapaxes(1, 2).reshape(-1) for each in (of_query, of_key, of_value)])
