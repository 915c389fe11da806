"""Sentence embeddings by an encoder of the BERT class, from files as Hugging Face's `transformers` writes them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import npu_tensor as nt
from npu_tensor import nn
from npu_tensor.jit import jit
from npu_tensor.models.metadata import COUNT, NUMBER, STRING, entry
from npu_tensor.nn import functional as F

__all__ = ["Encoder"]


class Layer(nn.Module):
    """Attention and a network, each with a residual and a norm behind it. Names of parts are those of the files."""

    def __init__(self, features: int, hidden: int, heads: int, epsilon: float) -> None:
        self.heads = heads
        self.attention, self.attention.self, self.attention.output = nn.Module(), nn.Module(), nn.Module()
        for name in ("query", "key", "value"):
            setattr(self.attention.self, name, nn.Linear(features, features))
        self.attention.output.dense = nn.Linear(features, features)
        self.attention.output.LayerNorm = nn.LayerNorm(features, epsilon)
        self.intermediate, self.output = nn.Module(), nn.Module()
        self.intermediate.dense = nn.Linear(features, hidden)
        self.output.dense = nn.Linear(hidden, features)
        self.output.LayerNorm = nn.LayerNorm(features, epsilon)

    def forward(self, x: nt.Tensor, mask: nt.Tensor) -> Any:
        """x (texts, tokens, features), mask (texts, tokens), true for tokens."""
        part = self.attention.self
        q, k, v = (
            each(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (part.query, part.key, part.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, mask.unsqueeze(1).unsqueeze(1))
        out = self.attention.output
        x = out.LayerNorm(x + out.dense(mixed.transpose(1, 2).flatten(2)))
        return self.output.LayerNorm(x + self.output.dense(F.gelu(self.intermediate.dense(x))))


SUPPORTED: Final = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
"""What config.json must say. The last two may be missing: these are the defaults of `transformers`."""


class Encoder(nn.Module):
    """The encoder of BERT; an embedding of a text is the mean over its tokens. config: that of the file config.json.

    Raises ArgumentError for another model, activation or kind of positions, and for sizes that are missing or wrong.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        entry(config, "model_type", STRING)
        for key, value in SUPPORTED.items():
            if (actual := entry(config, key, STRING, value)) != value:
                raise nt.ArgumentError(f"{key} is {actual!r}; {value!r} is known")
        features, epsilon = entry(config, "hidden_size", COUNT), entry(config, "layer_norm_eps", NUMBER)
        self.embeddings = nn.Module()
        for name, count in (
            ("word_embeddings", "vocab_size"),
            ("position_embeddings", "max_position_embeddings"),
            ("token_type_embeddings", "type_vocab_size"),
        ):
            setattr(self.embeddings, name, nn.Embedding(entry(config, count, COUNT), features))
        self.embeddings.LayerNorm = nn.LayerNorm(features, epsilon)
        self.encoder = nn.Module()
        hidden, heads, layers = (
            entry(config, key, COUNT) for key in ("intermediate_size", "num_attention_heads", "num_hidden_layers")
        )
        if features % heads:
            raise nt.ArgumentError(f"hidden_size {features} is not divisible by num_attention_heads {heads}")
        self.encoder.layer = nn.ModuleList([Layer(features, hidden, heads, epsilon) for _ in range(layers)])

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Encoder:
        """The encoder in config.json and model.safetensors, for inference.

        Raises ArgumentError, with the name of the file, for a config.json that is damaged or of another model, and if a
        weight is missing; what is there besides, such as a pooler, is not used.
        """
        folder = Path(directory)
        try:
            config = json.loads((folder / "config.json").read_text("utf-8"))
            if not isinstance(config, dict):
                raise nt.ArgumentError("the file is no JSON object")
            encoder = cls(config).requires_grad_(False)
        except ValueError as error:  # of which ArgumentError and what json and UTF-8 raise are
            raise nt.ArgumentError(f"{folder / 'config.json'}: {error}") from error
        missing = encoder.load_state_dict(nt.load(folder / "model.safetensors"), strict=False, assign=True).missing_keys
        if missing:
            raise nt.ArgumentError(f"{folder / 'model.safetensors'} has no {', '.join(missing)}")
        return encoder

    def forward(self, tokens: nt.Tensor, mask: nt.Tensor) -> Any:
        """Features (texts, tokens, features) of tokens (texts, tokens); mask (texts, tokens): which are no padding."""
        parts = self.embeddings
        x = parts.word_embeddings(tokens) + parts.position_embeddings.weight[: tokens.shape[1]]
        x = parts.LayerNorm(x + parts.token_type_embeddings.weight[0])
        for layer in self.encoder.layer:
            x = layer(x, mask)
        return x

    @jit
    def embed(self, tokens: nt.Tensor, mask: nt.Tensor) -> Any:
        """(texts, features): the means over the tokens of each text, of length 1; zeros for a text without tokens."""
        are_tokens = mask.unsqueeze(-1)
        sums = nt.where(are_tokens, self(tokens, mask), 0.0).sum(1)
        return F.normalize(sums / are_tokens.sum(1).clamp(min=1), dim=-1)
