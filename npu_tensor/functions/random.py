"""Random numbers of other distributions, made of the uniform and the normal ones; seeds are drawn as in `rand`."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import DType, bool_, default_dtype, float32, float64
from npu_tensor.errors import ArgumentError, DimensionError, DTypeError, ShapeError
from npu_tensor.functions.creation import Generator, arange, check_device, draw, extents, rand, randint, randn
from npu_tensor.functions.neural import wide
from npu_tensor.functions.register import composite, tensor_of
from npu_tensor.functions.search import searchsorted
from npu_tensor.functions.shape import topk
from npu_tensor.graph.index_checks import known_value
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
    target = dtype or (tensors[0].dtype if tensors else default_dtype(float))
    drawn = wide(randn(shape, generator=generator, dtype=target))
    return (drawn * std + mean).to(target)


@composite()
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Indices drawn with the weights in each row of input, which need not sum to 1; int64 of (rows, num_samples).

    Raises DimensionError if weights are negative or not finite, or if fewer are positive than are drawn without
    replacement. The error is raised at once if the weights have been computed, otherwise where the indices are read.

    >>> nt.multinomial(nt.tensor([0.0, 0.3, 0.7]), 2)
    """
    if not input.is_floating_point():
        raise DTypeError(f"takes weights as floats, not {input.dtype.name}")
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
        # The last is 1 exactly, and `rand` below 1: the first sum above the number drawn exists.
        sums = sums / sums[..., -1:]
        drawn = rand((*input.shape[:-1], num_samples), generator=generator, dtype=float64)
        samples = searchsorted(sums, drawn, right=True)
    else:
        # The smallest of exponential numbers of these rates are a draw without replacement.
        samples = topk(_exponential(weights, generator) / weights, num_samples, largest=False).indices
    total = weights.sum(-1, True)
    fine = (weights >= 0).all(-1, True) & (total > 0) & total.isfinite()
    fine = fine & (ops.gather_along(weights, samples, -1) > 0)
    # What is wrong becomes an index that is out of range, which `take` refuses when it runs.
    return ops.take_op(arange(categories), ops.where_op(fine, samples, categories), 0, _WRONG_WEIGHTS)


@composite(method=False)
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Random numbers of Poisson distributions with the rates in input."""
    return _counts(ops.random_poisson, generator, input)


@composite(method=False)
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials succeed, each with the probability in prob.

    >>> nt.binomial(nt.tensor([10.0, 20.0]), nt.tensor([0.5, 0.1]))
    """
    return _counts(ops.random_binomial, generator, count, prob)


def _counts(op: Any, generator: Generator | None, *parameters: Tensor) -> Tensor:
    if not parameters[-1].is_floating_point():
        raise DTypeError(f"takes floats, not {parameters[-1].dtype.name}")
    shape = broadcast_shapes(*(each.shape for each in parameters))
    result: Tensor = op(draw(generator), *parameters, shape, parameters[-1].dtype)
    return result


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


@composite("random_", function=False)
def random_in_place(
    input: Tensor, from_: int = 0, to: int | None = None, *, generator: Generator | None = None
) -> Tensor:
    """Uniform random integers on [from_, to), or [0, from_), or all that the dtype holds, in place of the value."""
    if to is None and from_:
        from_, to = 0, from_
    dtype = input.dtype
    if to is None:
        to = _beyond(dtype)
    return input._assign(randint(from_, to, input.shape, generator, dtype))


def _beyond(dtype: DType) -> int:
    """One more than the largest integer of a dtype, or of int64; of floats the largest up to which all are exact."""
    if dtype.is_floating_point:
        epsilon = float(ml_dtypes.finfo(dtype.numpy).eps)  # type: ignore[no-untyped-call]
        return round(2 / epsilon)
    return 2 if dtype is bool_ else min(int(np.iinfo(dtype.numpy).max) + 1, 2**63 - 1)


def _from_uniform(name: str, transform: Any, doc: str) -> None:
    def method(input: Tensor, *parameters: float, generator: Generator | None = None) -> Tensor:
        drawn = rand(input.shape, generator=generator, dtype=float64)
        return input._assign(transform(drawn, *parameters).to(input.dtype))

    method.__doc__ = f"{doc}, in place of the value."
    composite(name, function=False)(method)


_from_uniform(
    "cauchy_",
    lambda u, median=0.0, sigma=1.0: median + sigma * ops.tan(math.pi * (u - 0.5)),
    "Random numbers of a Cauchy distribution with a median and a half width at half maximum",
)
_from_uniform(
    "geometric_",
    lambda u, p: (ops.log1p(-u) / math.log1p(-p)).floor() + 1,
    "How many trials it takes to succeed once, each with probability p",
)


@composite("log_normal_", function=False)
def log_normal_in_place(
    input: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Tensor:
    """Random numbers whose logarithms are normal with this mean and standard deviation, in place of the value."""
    return input._assign(normal(mean, std, input.shape, generator=generator, dtype=input.dtype).exp())
