"""Random numbers of other distributions, made of the uniform and the normal ones; seeds are drawn as in `rand`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import float32, float64
from npu_tensor.errors import ArgumentError, DTypeError, ShapeError
from npu_tensor.functions.creation import Generator, arange, check_device, extents, rand, randn
from npu_tensor.functions.neural import wide
from npu_tensor.functions.register import composite, tensor_of
from npu_tensor.functions.shape import topk
from npu_tensor.spec import broadcast_shapes
from npu_tensor.tensor import Tensor

__all__: list[str] = []

# `rand` gives multiples of 2**-24 and 2**-53; the logarithm of 0 is replaced by that of half a step.
_HALF_A_STEP = {float32: 2.0**-25, float64: 2.0**-54}

_WRONG_WEIGHTS = "weights must be finite and not negative, and at least as many positive as are drawn; a sample"


def _exponential(like: Tensor, generator: Generator | None) -> Tensor:
    """Exponential numbers of rate 1, above 0 and finite, of the input's shape, not rounded to 16 bits yet."""
    dtype = float64 if like.dtype is float64 else float32
    return -rand(like.shape, generator=generator, dtype=dtype).clamp(min=_HALF_A_STEP[dtype]).log()


def _drawn(shape: tuple[int, ...], probability: Tensor | float, generator: Generator | None) -> Tensor:
    """1 with the given probability, else 0; NaN where that is no probability."""
    if not isinstance(probability, Tensor):
        if not 0 <= probability <= 1:
            raise ArgumentError(f"a probability must be in [0, 1], not {probability}")
        return (rand(shape, generator=generator, dtype=float64) < probability).float()
    p = wide(probability)
    valid = (p >= 0) & (p <= 1)
    return ops.where_op(valid, (rand(shape, generator=generator, dtype=p.dtype) < p).to(p.dtype), math.nan)


@composite()
def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability in each element of input, or with p, else 0; NaN where that is outside [0, 1]."""
    if p is None and not input.is_floating_point():
        raise DTypeError(f"takes probabilities as floats, not {input.dtype.name}")
    return _drawn(input.shape, input if p is None else p, generator).to(input.dtype)


@composite(method=False)
def normal(
    mean: Tensor | float,
    std: Tensor | float = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Normal random numbers of these means and standard deviations, which broadcast; of two numbers, `size` of them.

    The dtype is that of mean, or of std if only that is a tensor, and float32 of two numbers.

    >>> nt.normal(0.0, 1.0, (2, 2))
    """
    check_device(device)
    if not isinstance(std, Tensor) and not std >= 0:
        raise ArgumentError(f"std must not be negative: {std}")
    tensors = [value for value in (mean, std) if isinstance(value, Tensor)]
    if bool(tensors) is (size is not None):
        raise ArgumentError("needs a size if mean and std are numbers, and takes none otherwise")
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors)) if tensors else extents((size,))
    target = dtype or (tensors[0].dtype if tensors else float32)
    drawn = wide(randn(shape, generator=generator, dtype=target))
    return (drawn * std + mean).to(target)


@composite()
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Indices drawn with the weights in each row of input, which need not sum to 1; int64 of (rows, num_samples).

    Raises DimensionError, where the indices are read, if weights are negative or not finite, or if fewer are positive
    than are drawn without replacement.

    >>> nt.multinomial(nt.tensor([0.0, 0.3, 0.7]), 2)
    """
    if not input.is_floating_point():
        raise DTypeError(f"takes weights as floats, not {input.dtype.name}")
    if input.ndim not in (1, 2) or not input.shape[-1]:
        raise ShapeError(f"needs (categories) or (rows, categories), not {list(input.shape)}")
    categories = input.shape[-1]
    if num_samples < 1 or (num_samples > categories and not replacement):
        raise ArgumentError(f"{num_samples} samples cannot be drawn of {categories} categories")
    weights = input.to(float64)
    if replacement:
        sums = weights.cumsum(-1)
        # The last is 1 exactly, and `rand` below 1: the first sum above the number drawn exists.
        sums = sums / sums[..., -1:]
        drawn = rand((*input.shape[:-1], num_samples, 1), generator=generator, dtype=float64)
        samples = (sums.unsqueeze(-2) <= drawn).sum(-1)
    else:
        # The smallest of exponential numbers of these rates are a draw without replacement.
        samples = topk(_exponential(weights, generator) / weights, num_samples, largest=False).indices
    total = weights.sum(-1, True)
    fine = (weights >= 0).all(-1, True) & (total > 0) & total.isfinite()
    fine = fine & (ops.gather_along(weights, samples, -1) > 0)
    # What is wrong becomes an index that is out of range, which `take` refuses when it runs.
    return ops.take(arange(categories), ops.where_op(fine, samples, categories), 0, _WRONG_WEIGHTS)


# --- in place


@composite("normal_", function=False)
def normal_in_place(
    input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Normal random numbers in place of the value."""
    return input._assign(normal(mean, std, input.shape, generator=generator, dtype=input.dtype))


@composite("uniform_", function=False)
def uniform_in_place(
    input: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Uniform random numbers on [from_, to) in place of the value; rounding to the dtype may give `to`."""
    if not from_ <= to:
        raise ArgumentError(f"needs from_ <= to, not {from_} and {to}")
    drawn = rand(input.shape, generator=generator, dtype=input.dtype)
    return input._assign(drawn * (to - from_) + from_)


@composite("exponential_", function=False)
def exponential_in_place(input: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Exponential random numbers of rate lambd in place of the value."""
    if not lambd > 0:
        raise ArgumentError(f"lambd must be positive, not {lambd}")
    if not input.is_floating_point():
        raise DTypeError(f"gives floats, not {input.dtype.name}")
    return input._assign((_exponential(input, generator) / lambd).to(input.dtype))


@composite("bernoulli_", function=False)
def bernoulli_in_place(input: Tensor, p: Tensor | float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """1 with probability p, else 0, in place of the value; NaN, or 0 of integers, where p is no probability."""
    probability = tensor_of(p).expand(input.shape) if isinstance(p, (Tensor, np.ndarray)) else p
    return input._assign(_drawn(input.shape, probability, generator).to(input.dtype))
