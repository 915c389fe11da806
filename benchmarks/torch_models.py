"""Idiomatic PyTorch versions of the suite's models: eager, for inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch.nn import functional

from npu_tensor.examples.transformer_block import DIM, EPSILON, HEADS

ROPE_BASE = 10000.0


class TorchBlock:
    """PyTorch version of `transformer_block.Block`: (tokens, DIM) to (tokens, DIM).

    Tables of sines and cosines for `tokens` positions are created once, as in PyTorch implementations of Llama.
    """

    def __init__(self, weights: Mapping[str, np.ndarray], tokens: int, dtype: str) -> None:
        stored = getattr(torch, dtype)
        self.weights = {name: torch.from_numpy(value).to(stored) for name, value in weights.items()}
        features = DIM // HEADS
        rates = ROPE_BASE ** (-torch.arange(0, features, 2, dtype=torch.float64) / features)
        angles = torch.outer(torch.arange(tokens, dtype=torch.float64), rates).repeat(1, 2)
        self.cosines, self.sines = angles.cos().to(stored), angles.sin().to(stored)

    @torch.inference_mode()
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x, "attention_norm"))
        return x + self.feed_forward(self.norm(x, "feed_forward_norm"))

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.rms_norm(x, (DIM,), self.weights[name], EPSILON)

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        """Rotate (heads, tokens, features) by the angles of the positions."""
        first, second = x.chunk(2, -1)
        return x * self.cosines + torch.cat((-second, first), -1) * self.sines

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.shape[0]
        query, key, value = (
            functional.linear(x, self.weights[name]).view(tokens, HEADS, DIM // HEADS).transpose(0, 1)
            for name in ("query", "key", "value")
        )
        query, key = self.rotate(query), self.rotate(key)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return functional.linear(mixed.transpose(0, 1).reshape(tokens, DIM), self.weights["output"])

    def feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = functional.linear(x, self.weights["gate"]), functional.linear(x, self.weights["up"])
        return functional.linear(functional.silu(gate) * up, self.weights["down"])


class TorchMlp:
    """PyTorch version of `models.Mlp`: (images, 784) to (images, 10)."""

    def __init__(self, weights: Sequence[tuple[np.ndarray, np.ndarray]], dtype: str) -> None:
        stored = getattr(torch, dtype)
        self.layers = [
            (torch.from_numpy(weight).to(stored), torch.from_numpy(bias).to(stored)) for weight, bias in weights
        ]

    @torch.inference_mode()
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        *hidden, last = self.layers
        for weight, bias in hidden:
            x = functional.relu(functional.linear(x, weight, bias))
        return functional.linear(x, *last)
