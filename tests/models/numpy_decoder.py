"""Independent decoder in float64 NumPy, written from the papers, without a cache."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

PAIRS = {"llama": "neighbours", "qwen2": "halves", "qwen3": "halves"}


def rms_norm(x: Array, weight: Array, epsilon: float) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def rotated(x: Array, angles: Array, pairs: str) -> Array:
    """Rotate x (tokens, heads, features) by angles (tokens, features / 2), as complex numbers (Su et al., 2021)."""
    turn = np.exp(1j * angles)[:, None]
    if pairs == "halves":
        first, second = np.split(x, 2, -1)
        turned = (first + 1j * second) * turn
        return np.concatenate([turned.real, turned.imag], -1)
    turned = (x[..., ::2] + 1j * x[..., 1::2]) * turn
    return np.stack([turned.real, turned.imag], -1).reshape(x.shape)


def logits(metadata: Mapping[str, Any], weights: Mapping[str, Array], tokens: Sequence[int]) -> Array:
    """Return the logits (tokens, vocabulary)."""
    name = metadata["general.architecture"]
    value = {key.removeprefix(f"{name}."): each for key, each in metadata.items()}
    w = {key: np.asarray(each, np.float64) for key, each in weights.items()}
    heads, kv_heads = value["attention.head_count"], value["attention.head_count_kv"]
    epsilon = value["attention.layer_norm_rms_epsilon"]
    width = value.get("attention.key_length", value["embedding_length"] // heads)
    rates = value["rope.freq_base"] ** (-np.arange(0, width, 2) / width) / w.get("rope_freqs.weight", 1)
    if value.get("rope.scaling.type", "linear") == "linear":
        rates = rates / value.get("rope.scaling.factor", value.get("rope.scale_linear", 1))
    angles = np.outer(np.arange(len(tokens)), rates)

    x = w["token_embd.weight"][list(tokens)]
    for layer in range(value["block_count"]):

        def of(part: str, x: Array, layer: int = layer) -> Array:
            bias = w.get(f"blk.{layer}.{part}.bias", 0)
            return x @ w[f"blk.{layer}.{part}.weight"].T + bias

        def norm(part: str, x: Array, layer: int = layer) -> Array:
            return rms_norm(x, w[f"blk.{layer}.{part}.weight"], epsilon)

        h = norm("attn_norm", x)
        q = of("attn_q", h).reshape(len(tokens), heads, width)
        k, v = (of(part, h).reshape(len(tokens), kv_heads, width) for part in ("attn_k", "attn_v"))
        if f"blk.{layer}.attn_q_norm.weight" in w:
            q, k = norm("attn_q_norm", q), norm("attn_k_norm", k)
        q, k = (rotated(each, angles, PAIRS[name]) * value.get("rope.scaling.attn_factor", 1) for each in (q, k))
        mixed = np.zeros_like(q)
        for head in range(heads):
            group = head // (heads // kv_heads)
            scores = q[:, head] @ k[:, group].T / np.sqrt(width)
            scores[np.triu_indices(len(tokens), 1)] = -np.inf
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            mixed[:, head] = shares / shares.sum(-1, keepdims=True) @ v[:, group]
        x = x + of("attn_output", mixed.reshape(len(tokens), heads * width))
        h = norm("ffn_norm", x)
        gate = of("ffn_gate", h)
        x = x + of("ffn_down", gate / (1 + np.exp(-gate)) * of("ffn_up", h))
    x = rms_norm(x, w["output_norm.weight"], epsilon)
    return x @ w["output.weight" if "output.weight" in w else "token_embd.weight"].T
