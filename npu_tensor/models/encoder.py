"""Sentence embeddings by BERT encoders, from files that Hugging Face's `transformers` writes."""

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


class Layer(nn.Module):
    """Encoder layer: attention and a network, each followed by a residual and a norm. Names follow the files."""

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
        """Apply the layer to x (texts, tokens, features); mask (texts, tokens) is True for tokens."""
        part = self.attention.self
        q, k, v = (
            each(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (part.query, part.key, part.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, mask.unsqueeze(1).unsqueeze(1))
        out = self.attention.output
        x = out.LayerNorm(x + out.dense(mixed.transpose(1, 2).flatten(2)))
        return self.output.LayerNorm(x + self.output.dense(F.gelu(self.intermediate.dense(x))))


SUPPORTED: Final = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
"""Required entries of config.json. The last two may be missing: these are the defaults of `transformers`."""


class Encoder(nn.Module):
    """Encoder of BERT. The embedding of a text is the mean over its tokens.

    Args:
        config: Content of config.json.

    Raises:
        ArgumentError: The model, activation or kind of positions is not supported, or a size is missing or wrong.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        entry(config, "model_type", STRING)
        for key, value in SUPPORTED.items():
            if (actual := entry(config, key, STRING, value)) != value:
                raise nt.ArgumentError(f"{key} is {actual!r}; supported is {value!r}")
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
        """Load an encoder for inference. Weights of other parts, such as a pooler, are ignored.

        Args:
            directory: Folder with config.json and model.safetensors.

        Raises:
            ArgumentError: config.json is damaged or of another model, or a weight is missing. The message names the
                file.
        """
        folder = Path(directory)
        try:
            config = json.loads((folder / "config.json").read_text("utf-8"))
            if not isinstance(config, dict):
                raise nt.ArgumentError("the file is not a JSON object")
            encoder = cls(config).requires_grad_(False)
        except ValueError as error:  # Includes ArgumentError and the errors of json and UTF-8.
            raise nt.ArgumentError(f"{folder / 'config.json'}: {error}") from error
        missing = encoder.load_state_dict(nt.load(folder / "model.safetensors"), strict=False, assign=True).missing_keys
        if missing:
            raise nt.ArgumentError(f"{folder / 'model.safetensors'} has no {', '.join(missing)}")
        return encoder

    def forward(self, tokens: nt.Tensor, mask: nt.Tensor) -> Any:
        """Return features (texts, tokens, features) of tokens (texts, tokens); mask is False for padding."""
        parts = self.embeddings
        x = parts.word_embeddings(tokens) + parts.position_embeddings.weight[: tokens.shape[1]]
        x = parts.LayerNorm(x + parts.token_type_embeddings.weight[0])
        for layer in self.encoder.layer:
            x = layer(x, mask)
        return x

    @jit
    def embed(self, tokens: nt.Tensor, mask: nt.Tensor) -> Any:
        """Return the normalized mean (texts, features) over the tokens of each text; zeros for an empty text."""
        token_mask = mask.unsqueeze(-1)
        sums = nt.where(token_mask, self(tokens, mask), 0.0).sum(1)
        return F.normalize(sums / token_mask.sum(1).clamp(min=1), dim=-1)
