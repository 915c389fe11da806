"""Random numbers of further distributions, made of uniform and normal ones, and activations that draw."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import DType, bool_, default_dtype, float32, float64
from npu_tensor.errors import ArgumentError, DimensionError, ShapeError
from npu_tensor.functions.creation import Generator, arange, draw, extents, rand, randint, randn, zeros_like
from npu_tensor.functions.register import composite, require_float, tensor_of, wide
from npu_tensor.functions.search import searchsorted
from npu_tensor.functions.shape import topk
from npu_tensor.graph.index_checks import known_value
from npu_tensor.spec import broadcast_shapes
from npu_tensor.tensor import Tensor

# `rand` returns multiples of 2**-24 or 2**-53; half a step replaces 0, whose logarithm is infinite.
_HALF_A_STEP = {float32: 2.0**-25, float64: 2.0**-54}

_WRONG_WEIGHTS = "weights must be finite and not negative, and at least as many positive as are drawn; a sample"


def _exponential(like: Tensor, generator: Generator | None) -> Tensor:
    """Return exponential numbers of rate 1, above 0 and finite, of the shape of `like`, not yet rounded to 16 bits."""
    dtype = float64 if like.dtype is float64 else float32
    return -rand(like.shape, generator=generator, dtype=dtype).clamp(min=_HALF_A_STEP[dtype]).log()


def _drawn(shape: tuple[int, ...], probability: Tensor | float, generator: Generator | None) -> Tensor:
    """Return 1 with the given probability, else 0; NaN where the probability is invalid."""
    if not isinstance(probability, Tensor):
        if not 0 <= probability <= 1:
            raise ArgumentError(f"a probability must be in [0, 1], not {probability}")
        return (rand(shape, generator=generator, dtype=float64) < probability).float()
    p = wide(probability)
    valid = (p >= 0) & (p <= 1)
    return ops.where_op(valid, (rand(shape, generator=generator, dtype=p.dtype) < p).to(p.dtype), math.nan)


@composite()
def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """Draw 1 with the probability in each element of input, or with p, else 0; NaN where it is outside [0, 1]."""
    if p is None:
        require_float(input)
    return _drawn(input.shape, input if p is None else p, generator).to(input.dtype)


@composite(method=False, creates=True)
def normal(
    mean: Tensor | float,
    std: Tensor | float = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Draw normal random numbers.

    The dtype is that of mean, or of std if only that is a tensor, and float32 for two numbers.

    Args:
        mean: Mean; broadcast with std.
        std: Standard deviation.
        size: Shape, if mean and std are numbers.

    >>> nt.normal(0.0, 1.0, (2, 2))
    """
    if not isinstance(std, Tensor) and not std >= 0:
        raise ArgumentError(f"std must not be negative: {std}")
    tensors = [value for value in (mean, std) if isinstance(value, Tensor)]
    if bool(tensors) is (size is not None):
        raise ArgumentError("needs a size if mean and std are numbers, and no size otherwise")
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors)) if tensors else extents((size,))
    target = dtype or (tensors[0].dtype if tensors else default_dtype(float))
    drawn = wide(randn(shape, generator=generator, dtype=target))
    return (drawn * std + mean).to(target)


@composite()
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Draw indices with the weights in each row of input, which need not sum to 1.

    Args:
        input: Weights (categories) or (rows, categories).
        num_samples: Number of indices per row.
        replacement: True if an index may be drawn again.

    Returns:
        int64 indices (num_samples) or (rows, num_samples).

    Raises:
        DimensionError: Weights are negative or not finite, or fewer are positive than are drawn without replacement.
            Raised at once if the weights have been computed, otherwise where the indices are read.

    >>> nt.multinomial(nt.tensor([0.0, 0.3, 0.7]), 2)
    """
    require_float(input)
    if input.ndim not in (1, 2) or not input.shape[-1]:
        raise ShapeError(f"needs (categories) or (rows, categories), not {list(input.shape)}")
    categories = input.shape[-1]
    if num_samples < 1 or (num_samples > categories and not replacement):
        raise ArgumentError(f"{num_samples} samples cannot be drawn of {categories} categories")
    known, needed = known_value(input._node), 1 if replacement else num_samples
    if known is not None and not ((np.isfinite(known) & (known >= 0)).all() and ((known > 0).sum(-1) >= needed).all()):
        raise DimensionError(_WRONG_WEIGHTS.partition(";")[0])
    weights = input.to(float64)
    if replacement:
        sums = weights.cumsum(-1)
        # The last sum is exactly 1 and `rand` is below 1, so a sum above the drawn number exists.
        sums = sums / sums[..., -1:]
        drawn = rand((*input.shape[:-1], num_samples), generator=generator, dtype=float64)
        samples = searchsorted(sums, drawn, right=True)
    else:
        # The order of exponential numbers of these rates is a draw without replacement.
        samples = topk(_exponential(weights, generator) / weights, num_samples, largest=False).indices
    total = weights.sum(-1, True)
    fine = (weights >= 0).all(-1, True) & (total > 0) & total.isfinite()
    fine = fine & (ops.gather_along(weights, samples, -1) > 0)
    # Wrong rows become an index that is out of range, which `take` refuses when it runs.
    return ops.take_op(arange(categories), ops.where_op(fine, samples, categories), 0, _WRONG_WEIGHTS)


@composite(method=False)
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw from Poisson distributions with the rates in input."""
    return _counts(ops.random_poisson, generator, input)


@composite(method=False)
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw the number of successes of `count` trials, each with the probability in prob.

    >>> nt.binomial(nt.tensor([10.0, 20.0]), nt.tensor([0.5, 0.1]))
    """
    return _counts(ops.random_binomial, generator, count, prob)


def _counts(op: Any, generator: Generator | None, *parameters: Tensor) -> Tensor:
    dtype = require_float(parameters[-1])
    shape = broadcast_shapes(*(each.shape for each in parameters))
    result: Tensor = op(draw(generator), *parameters, shape, dtype)
    return result


# --- in place


@composite("normal_", function=False)
def normal_in_place(
    input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Replace the value by normal random numbers."""
    return input._assign(normal(mean, std, input.shape, generator=generator, dtype=input.dtype))


@composite("uniform_", function=False)
def uniform_in_place(
    input: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Replace the value by uniform random numbers on [from_, to). Rounding to the dtype may give `to`."""
    if not from_ <= to:
        raise ArgumentError(f"needs from_ <= to, not {from_} and {to}")
    drawn = rand(input.shape, generator=generator, dtype=input.dtype)
    return input._assign(drawn * (to - from_) + from_)


@composite("exponential_", function=False)
def exponential_in_place(input: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Replace the value by exponential random numbers of rate lambd."""
    if not lambd > 0:
        raise ArgumentError(f"lambd must be positive, not {lambd}")
    require_float(input)
    return input._assign((_exponential(input, generator) / lambd).to(input.dtype))


@composite("bernoulli_", function=False)
def bernoulli_in_place(input: Tensor, p: Tensor | float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Replace the value by 1 with probability p, else 0. An invalid p gives NaN, or 0 of integers."""
    probability = tensor_of(p).expand(input.shape) if isinstance(p, (Tensor, np.ndarray)) else p
    return input._assign(_drawn(input.shape, probability, generator).to(input.dtype))


@composite("random_", function=False)
def random_in_place(
    input: Tensor, from_: int = 0, to: int | None = None, *, generator: Generator | None = None
) -> Tensor:
    """Replace the value by uniform random integers on [from_, to), or [0, from_), or all that the dtype holds."""
    if to is None and from_:
        from_, to = 0, from_
    dtype = input.dtype
    if to is None:
        to = _beyond(dtype)
    return input._assign(randint(from_, to, input.shape, generator, dtype))


def _beyond(dtype: DType) -> int:
    """Return the upper bound of random integers of a dtype: one more than the largest, or exact, integer."""
    if dtype.is_floating_point:
        epsilon = float(ml_dtypes.finfo(dtype.numpy).eps)  # type: ignore[no-untyped-call]
        return round(2 / epsilon)
    return 2 if dtype is bool_ else min(int(np.iinfo(dtype.numpy).max) + 1, 2**63 - 1)


@composite("cauchy_", function=False)
def cauchy_in_place(
    input: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Replace the value by random numbers of a Cauchy distribution; sigma is half its width at half maximum."""
    drawn = rand(input.shape, generator=generator, dtype=float64)
    return input._assign((median + sigma * ops.tan(math.pi * (drawn - 0.5))).to(input.dtype))


@composite("geometric_", function=False)
def geometric_in_place(input: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Replace the value by random numbers of trials up to the first success, each with probability p."""
    if not 0 < p < 1:
        raise ArgumentError(f"p must be between 0 and 1, not {p}")
    drawn = rand(input.shape, generator=generator, dtype=float64)
    return input._assign(((ops.log1p(-drawn) / math.log1p(-p)).floor() + 1).to(input.dtype))


@composite("log_normal_", function=False)
def log_normal_in_place(
    input: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Tensor:
    """Replace the value by random numbers whose logarithms are normal with this mean and standard deviation."""
    return input._assign(normal(mean, std, input.shape, generator=generator, dtype=input.dtype).exp())


# --- activations that draw

# Klambauer et al., Self-Normalizing Neural Networks, 2017: minus the scale of selu times its alpha.
_SATURATED = -1.7580993408473766


def _alpha_dropped(input: Tensor, p: float, training: bool, shape: tuple[int, ...]) -> Tensor:
    """Apply dropout to selu's lower limit with one random number per element of `shape`."""
    if not 0 <= p <= 1:
        raise ArgumentError(f"p must be from 0 to 1, not {p}")
    if not training or p == 0:
        return input
    if p == 1:
        return input * 0
    scale = 1 / math.sqrt((1 - p) * (1 + p * _SATURATED * _SATURATED))
    kept = ops.where_op(rand(shape) < p, _SATURATED, wide(input))
    return (kept * scale - scale * p * _SATURATED).to(require_float(input))


@composite(method=False)
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """Replace elements by selu's lower limit with probability p in training, keeping mean and variance."""
    return _alpha_dropped(input, p, training, input.shape)


@composite(method=False)
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """Replace whole channels (dimension 1) by selu's lower limit, like `alpha_dropout`."""
    return _alpha_dropped(input, p, training, (*input.shape[:2], *[1] * (input.ndim - 2)))


@composite(in_place=True)
def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """Return input where positive, else input times a slope.

    Args:
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

    >>> nt.gumbel_softmax(nt.tensor([1.0, 2.0, 3.0]), hard=True)
    """
    noise = -(zeros_like(logits).exponential_().log())
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    sample = zeros_like(soft).scatter(dim, soft.argmax(dim, True), 1.0)
    return sample - soft.detach() + soft
