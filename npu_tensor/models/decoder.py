"""Decoders of Llama, Qwen2 and Qwen3, configured by a GGUF file.

Modules have the names of GGUF's tensors (`blk.0.attn_q.weight`), so a file is a state dict. `ARCHITECTURES` lists the
differences between architectures; sizes and rotation come from the metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import npu_tensor as nt
from npu_tensor import nn
from npu_tensor.functions.gguf import GGUF
from npu_tensor.models.metadata import COUNT, NUMBER, REQUIRED, STRING, ValueType, entry
from npu_tensor.nn import functional as F

ATTENTION_TOKENS: Final = 128
"""Tokens whose attention is computed together, so that it fits in the caches of a processor."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """Properties of an architecture.

    Attributes:
        pairs: Pairs of features that rotate together: the mode of `npu_tensor.rope`.
        qkv_bias: True if the projections of queries, keys and values have biases.
        qk_norm: True if each head of queries and keys has an RMS norm before the rotation.
    """

    pairs: str
    qkv_bias: bool = False
    qk_norm: bool = False


ARCHITECTURES: Final = {
    "llama": Architecture("normal"),
    "qwen2": Architecture("neox", qkv_bias=True),
    "qwen3": Architecture("neox", qk_norm=True),
}
"""Architectures by `general.architecture`. Files of Mistral and SmolLM also use "llama"."""


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """Configuration of a decoder, from the metadata of a file.

    Attributes:
        kind: Architecture.
        vocabulary: Number of tokens in the vocabulary.
        context: Number of tokens that the model was trained for.
        layers: Number of layers.
        features: Features of a token.
        hidden: Features inside the gated network.
        heads: Number of heads of queries.
        kv_heads: Number of heads of keys and values.
        head_features: Features of a head.
        epsilon: Epsilon of the norms.
        rotation: Arguments of `npu_tensor.rope`.
        has_head: True if the output matrix is not the embedding.
        has_factors: True if the file has factors of the rotation frequencies, as files of Llama 3 do.
    """

    kind: Architecture
    vocabulary: int
    context: int
    layers: int
    features: int
    hidden: int
    heads: int
    kv_heads: int
    head_features: int
    epsilon: float
    rotation: Mapping[str, Any]
    has_head: bool
    has_factors: bool

    @classmethod
    def of(cls, metadata: Mapping[str, Any], tensors: Mapping[str, nt.Tensor]) -> DecoderConfig:
        """Read the configuration from metadata.

        Raises:
            ArgumentError: The architecture is unknown, or metadata or matrices are missing or wrong.
        """
        name = entry(metadata, "general.architecture", STRING)
        if name not in ARCHITECTURES:
            raise nt.ArgumentError(f"the architecture is {name!r}; supported are {', '.join(ARCHITECTURES)}")

        def value(key: str, kind: ValueType = COUNT, default: Any = REQUIRED) -> Any:
            return entry(metadata, f"{name}.{key}", kind, default)

        features, heads, layers = value("embedding_length"), value("attention.head_count"), value("block_count")
        head_features = value("attention.key_length", default=features // heads)
        for needed in ("token_embd.weight", f"blk.{layers - 1}.ffn_down.weight"):
            if needed not in tensors or tensors[needed].ndim != 2:
                raise nt.ArgumentError(f"the file has no matrix {needed}")
        return cls(
            kind=ARCHITECTURES[name],
            vocabulary=tensors["token_embd.weight"].shape[0],
            context=value("context_length"),
            layers=layers,
            features=features,
            hidden=value("feed_forward_length"),
            heads=heads,
            kv_heads=value("attention.head_count_kv", default=heads),
            head_features=head_features,
            epsilon=value("attention.layer_norm_rms_epsilon", NUMBER),
            rotation=_rotation(value, ARCHITECTURES[name].pairs, head_features),
            has_head="output.weight" in tensors,
            has_factors="rope_freqs.weight" in tensors,
        )


def _rotation(value: Callable[..., Any], pairs: str, head_features: int) -> dict[str, Any]:
    """Return the arguments of `rope`, with GGUF's scaling types "linear" and "yarn" and llama.cpp's defaults."""
    rotation = {
        "mode": pairs,
        "n_dims": value("rope.dimension_count", default=head_features),
        "freq_base": value("rope.freq_base", NUMBER, 10000.0),
        "attn_factor": value("rope.scaling.attn_factor", NUMBER, 1.0),
    }
    scaling = value("rope.scaling.type", STRING, "linear")
    if scaling not in ("none", "linear", "yarn"):
        raise nt.ArgumentError(f"rope.scaling.type is {scaling!r}; supported are none, linear and yarn")
    if scaling != "none":
        old = value("rope.scale_linear", NUMBER, 1.0)  # The key of older files.
        rotation["freq_scale"] = 1 / value("rope.scaling.factor", NUMBER, old)
    if scaling == "yarn":
        rotation["n_ctx_orig"] = value("rope.scaling.original_context_length", default=value("context_length"))
        rotation["ext_factor"] = 1.0
    return rotation


class _Linear(nn.Linear):
    """Linear layer whose weights a file replaces, so that none are drawn."""

    def reset_parameters(self) -> None:
        """Leave zeros."""


class _Embedding(nn.Embedding):
    """Embedding whose rows a file replaces, so that none are drawn."""

    def reset_parameters(self) -> None:
        """Leave zeros."""


class DecoderBlock(nn.Module):
    """Decoder layer: attention and a gated network, each with a norm before it and a residual.

    Keys and values of all positions are buffers (context, kv_heads, head_features), which a call updates in place.
    """

    def __init__(self, config: DecoderConfig, context: int, dtype: Any) -> None:
        self.config = c = config
        width, kv_width = c.heads * c.head_features, c.kv_heads * c.head_features
        self.attn_norm = nn.RMSNorm(c.features, c.epsilon)
        self.attn_q = _Linear(c.features, width, c.kind.qkv_bias)
        self.attn_k = _Linear(c.features, kv_width, c.kind.qkv_bias)
        self.attn_v = _Linear(c.features, kv_width, c.kind.qkv_bias)
        if c.kind.qk_norm:
            self.attn_q_norm = nn.RMSNorm(c.head_features, c.epsilon)
            self.attn_k_norm = nn.RMSNorm(c.head_features, c.epsilon)
        self.attn_output = _Linear(width, c.features, False)
        self.ffn_norm = nn.RMSNorm(c.features, c.epsilon)
        self.ffn_gate = _Linear(c.features, c.hidden, False)
        self.ffn_up = _Linear(c.features, c.hidden, False)
        self.ffn_down = _Linear(c.hidden, c.features, False)
        for name in ("keys", "values"):
            cache = nt.zeros(context, c.kv_heads, c.head_features, dtype=dtype)
            # All layers share the plan of these zeros. Pending, they would be a plan of their own in the first call.
            self.register_buffer(name, cache.realize(), persistent=False)

    def attention(self, x: nt.Tensor, positions: nt.Tensor, mask: nt.Tensor, factors: nt.Tensor | None) -> Any:
        """Attend to cached positions.

        Args:
            x: Features (tokens, features).
            positions: Consecutive positions (tokens,) below the window.
            mask: Mask (tokens, window), True for positions to attend to.
            factors: Factors of the rotation frequencies, or None.
        """
        c = self.config
        q, k, v = (layer(x).unflatten(-1, (-1, c.head_features)) for layer in (self.attn_q, self.attn_k, self.attn_v))
        if c.kind.qk_norm:
            q, k = self.attn_q_norm(q), self.attn_k_norm(k)
        q, k = (nt.rope(each, positions, factors, **c.rotation) for each in (q, k))
        self.keys[positions], self.values[positions] = k, v
        tokens, window = mask.shape
        parts = []
        for first in range(0, tokens, ATTENTION_TOKENS):
            last = min(first + ATTENTION_TOKENS, tokens)
            seen = window - tokens + last  # These tokens do not attend to the end of the window.
            views = q[first:last], self.keys[:seen], self.values[:seen]
            query, keys, values = (each.transpose(0, 1) for each in views)
            mixed = F.scaled_dot_product_attention(query, keys, values, mask[first:last, :seen], enable_gqa=True)
            parts.append(mixed.transpose(0, 1).flatten(-2))
        return self.attn_output(nt.cat(parts) if len(parts) > 1 else parts[0])

    def forward(self, x: nt.Tensor, *where: Any) -> Any:
        """Apply the layer to features (tokens, features). `where` are the other arguments of `attention`."""
        x = x + self.attention(self.attn_norm(x), *where)
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


class Decoder(nn.Module):
    """Language model with a cache for one text.

    Args:
        config: Configuration.
        context: Maximum number of tokens of the text.
        cache_dtype: Dtype of the cached keys and values.
    """

    def __init__(self, config: DecoderConfig, context: int, cache_dtype: Any = nt.float16) -> None:
        self.config, self.context = config, context
        self.token_embd = _Embedding(config.vocabulary, config.features)
        self.blk = nn.ModuleList([DecoderBlock(config, context, cache_dtype) for _ in range(config.layers)])
        self.output_norm = nn.RMSNorm(config.features, config.epsilon)
        if config.has_head:
            self.output = _Linear(config.features, config.vocabulary, False)
        factors = nt.ones(config.rotation["n_dims"] // 2) if config.has_factors else None
        self.rope_freqs = nn.Module()
        self.rope_freqs.register_buffer("weight", factors)

    @classmethod
    def of(cls, file: GGUF, context: int, cache_dtype: Any = nt.float16) -> Decoder:
        """Create the model of a file for inference.

        Args:
            file: Result of `npu_tensor.load_gguf`.
            context: Maximum number of tokens of a text, limited to the number that the model was trained for.
            cache_dtype: Dtype of the cached keys and values.

        Raises:
            ArgumentError: The architecture is unknown, or the file lacks tensors of its architecture.
        """
        config = DecoderConfig.of(file.metadata, file.tensors)
        if context < 1:
            raise nt.ArgumentError(f"the context must have room for a token, not {context}")
        decoder = cls(config, min(context, config.context), cache_dtype).requires_grad_(False)
        decoder.load_state_dict(file.tensors, assign=True)
        return decoder

    def forward(self, tokens: nt.Tensor, positions: nt.Tensor, window: int) -> Any:
        """Return features (tokens, features) of tokens (tokens,) at consecutive positions (tokens,) below `window`."""
        x = self.token_embd(tokens).float()
        mask = nt.arange(window) <= positions.unsqueeze(1)
        for block in self.blk:
            x = block(x, positions, mask, self.rope_freqs.weight)
        return self.output_norm(x)

    def logits(self, x: nt.Tensor) -> Any:
        """Return the logits (tokens, vocabulary) of features from `forward`."""
        return self.output(x) if self.config.has_head else F.linear(x, self.token_embd.weight)

    @nt.jit
    def step(self, tokens: nt.Tensor, positions: nt.Tensor, last: nt.Tensor, window: int) -> Any:
        """Return the logits (1, vocabulary) of the token that follows the one at index `last` (1,)."""
        x = self(tokens, positions, window)
        return self.logits(x if len(tokens) == 1 else x[last])
