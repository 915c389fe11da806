"""Transformer block of Llama models: normalized attention and a gated feed-forward network, each with a residual.

    python transformer_block.py

prints the device of every op, and the difference between bfloat16 and float32. The parameters are random, with a seed.
"""

from __future__ import annotations

import math

import numpy as np

import npu_tensor as nt

__all__ = ["DIM", "HEADS", "HIDDEN", "TOKENS", "Block", "random_tokens", "random_weights"]

TOKENS = 128
DIM = 512
HEADS = 8
HIDDEN = 1376
EPSILON = 1e-5


def random_weights() -> dict[str, np.ndarray]:
    """Return float32 parameters by name. Rows of a matrix are outputs, as in torch.nn.Linear."""
    random = np.random.default_rng(0)

    def matrix(outputs: int, inputs: int) -> np.ndarray:
        return random.standard_normal((outputs, inputs), np.float32) / np.float32(math.sqrt(inputs))

    def scale() -> np.ndarray:
        return 1 + random.standard_normal(DIM, np.float32) / 10

    return {
        "attention_norm": scale(),
        "query": matrix(DIM, DIM),
        "key": matrix(DIM, DIM),
        "value": matrix(DIM, DIM),
        "output": matrix(DIM, DIM),
        "feed_forward_norm": scale(),
        "gate": matrix(HIDDEN, DIM),
        "up": matrix(HIDDEN, DIM),
        "down": matrix(DIM, HIDDEN),
    }


def random_tokens(tokens: int = TOKENS) -> np.ndarray:
    """Return a float32 sequence (tokens, DIM) for the block."""
    return np.random.default_rng(0).standard_normal((tokens, DIM), np.float32)


class Block:
    """Block with the parameters of `random_weights` in `dtype`."""

    def __init__(self, dtype: str = "float32") -> None:
        self.dtype = dtype
        self.weights = {name: nt.from_numpy(value).to(dtype).realize() for name, value in random_weights().items()}

    @nt.jit
    def __call__(self, x: nt.Tensor) -> nt.Tensor:
        """Apply `forward`, which is captured once per number of tokens."""
        return self.forward(x)

    def forward(self, x: nt.Tensor) -> nt.Tensor:
        """Map (tokens, DIM) to (tokens, DIM). Token i sees tokens 0 to i."""
        x = x + self.attention(self.norm(x, "attention_norm"))
        return x + self.feed_forward(self.norm(x, "feed_forward_norm"))

    def norm(self, x: nt.Tensor, name: str) -> nt.Tensor:
        """Normalize every token by its root mean square."""
        return nt.rms_norm(x, DIM, self.weights[name], EPSILON)

    def attention(self, x: nt.Tensor) -> nt.Tensor:
        """Compute causal attention in HEADS heads, with rotary position embedding."""
        tokens = x.shape[0]
        positions = nt.arange(tokens)
        query, key, value = (
            nt.linear(x, self.weights[name]).reshape(tokens, HEADS, DIM // HEADS) for name in ("query", "key", "value")
        )
        query, key = (nt.rope(heads, positions, mode="neox") for heads in (query, key))
        query, key, value = (heads.transpose(0, 1) for heads in (query, key, value))
        mixed = nt.scaled_dot_product_attention(query, key, value, is_causal=True)
        return nt.linear(mixed.transpose(0, 1).reshape(tokens, DIM), self.weights["output"])

    def feed_forward(self, x: nt.Tensor) -> nt.Tensor:
        """Compute SwiGLU: the projection by one matrix gates the projection by another one."""
        gate, up = nt.linear(x, self.weights["gate"]), nt.linear(x, self.weights["up"])
        return nt.linear(gate.silu() * up, self.weights["down"])


def main() -> None:
    tokens = nt.from_numpy(random_tokens())
    exact, rounded = Block("float32"), Block("bfloat16")
    print(nt.explain(exact.forward(tokens)))
    expected = exact(tokens).numpy()
    found = rounded(tokens.to("bfloat16")).numpy().astype(np.float32)
    print(f"largest value {np.abs(expected).max():.3f}")
    print(f"largest difference in bfloat16 {np.abs(found - expected).max():.3f}")


if __name__ == "__main__":
    main()
