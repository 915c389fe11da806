"""Sentence embeddings by an encoder of the BERT class, from files as Hugging Face's `transformers` writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import npu_tensor as nt
from npu_tensor import nn
from npu_tensor.jit import jit
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


class Encoder(nn.Module):
    """The encoder of BERT. config: that of the file config.json."""

    def __init__(self, config: dict[str, Any]) -> None:
        features, epsilon = config["hidden_size"], config["layer_norm_eps"]
        self.embeddings = nn.Module()
        for name, count in (
            ("word_embeddings", config["vocab_size"]),
            ("position_embeddings", config["max_position_embeddings"]),
            ("token_type_embeddings", config["type_vocab_size"]),
        ):
            setattr(self.embeddings, name, nn.Embedding(count, features))
        self.embeddings.LayerNorm = nn.LayerNorm(features, epsilon)
        self.encoder = nn.Module()
        sizes = (features, config["intermediate_size"], config["num_attention_heads"], epsilon)
        self.encoder.layer = nn.ModuleList([Layer(*sizes) for _ in range(config["num_hidden_layers"])])

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Encoder:
        """The encoder in config.json and model.safetensors, for inference.

        Raises ArgumentError if a weight is missing; what is there besides, such as a pooler, is not used.
        """
        folder = Path(directory)
        encoder = cls(json.loads((folder / "config.json").read_text("utf-8"))).requires_grad_(False)
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
        """(texts, features): the means over the tokens of each text, of length 1."""
        weights = mask.unsqueeze(-1).float()
        return F.normalize((self(tokens, mask) * weights).sum(1) / weights.sum(1), dim=-1)
