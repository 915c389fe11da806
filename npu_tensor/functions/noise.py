"""Activations and dropout that draw random numbers."""

from __future__ import annotations

import math

from npu_tensor import ops
from npu_tensor.errors import ArgumentError
from npu_tensor.functions.creation import rand, zeros_like
from npu_tensor.functions.neural import dropped, require_float, wide
from npu_tensor.functions.register import composite
from npu_tensor.tensor import Tensor

__all__: list[str] = []


@composite(method=False)
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Drop whole channels of (batch, channels, depth, height, width), like `dropout`."""
    return dropped(input, p, training, (*input.shape[:-3], 1, 1, 1))


# Klambauer et al., Self-Normalizing Neural Networks, 2017: minus the scale of selu times its alpha.
_SATURATED = -1.7580993408473766


@composite(method=False)
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """Replace elements by selu's lower limit with probability p in training, keeping mean and variance."""
    if not 0 <= p <= 1:
        raise ArgumentError(f"p must be from 0 to 1, not {p}")
    if not training or p == 0:
        return input
    if p == 1:
        return input * 0
    scale = 1 / math.sqrt((1 - p) * (1 + p * _SATURATED * _SATURATED))
    kept = ops.where_op(rand(input.shape) < p, _SATURATED, wide(input))
    return (kept * scale - scale * p * _SATURATED).to(require_float(input))


@composite(in_place=True)
def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """Return input where positive, else input times a slope.

    Args:
        input: Tensor of any shape.
        lower: Smallest slope.
        upper: Largest slope.
        training: True to draw a slope for each element; False to use the mean of both.
    """
    if not lower <= upper:
        raise ArgumentError(f"lower {lower} is above upper {upper}")
    slope = rand(input.shape, dtype=wide(input).dtype) * (upper - lower) + lower if training else (lower + upper) / 2
    return ops.where_op(input > 0, input, wide(input) * slope).to(require_float(input))


@composite(method=False)
def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Return softmax((logits + Gumbel noise) / tau) over dim: a sample of the categories for a small tau.

    Args:
        logits: Floats of any shape.
        tau: Temperature.
        hard: True to return one-hot vectors with the gradient of the soft sample.
        eps: Has no effect.
        dim: Dimension; negative values count from the last one.

    >>> nt.gumbel_softmax(nt.tensor([1.0, 2.0, 3.0]), hard=True)
    """
    noise = -(zeros_like(logits).exponential_().log())
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    sample = zeros_like(soft).scatter(dim, soft.argmax(dim, True), 1.0)
    return sample - soft.detach() + soft
