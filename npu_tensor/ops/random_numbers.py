"""Ops that draw random numbers: a seed of 63 bits determines all elements of a result.

Uniform and normal numbers are functions of the seed and the position alone, so that loops compute them in any order:
Threefry-2x32 with 20 rounds (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011) encrypts the position.
The functions take arrays or `Symbol`s. All other distributions are drawn by NumPy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npu_tensor.ops import rules
from npu_tensor.ops.registry import op

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)


def _words(seed: Any, position: Any) -> tuple[Any, Any]:
    """Return two random int32 numbers."""
    low, high = seed.astype("int32"), (seed >> 32).astype("int32")
    keys = low, high, low ^ high ^ 0x1BD11BDA
    a, b = position.astype("int32") + low, (position >> 32).astype("int32") + high
    for number in range(20):
        a = a + b
        left = _ROTATIONS[number % 8]
        b = ((b << left) | _upper_bits(b, left)) ^ a
        if number % 4 == 3:
            step = number // 4 + 1
            a, b = a + keys[step % 3], b + keys[(step + 1) % 3] + step
    return a, b


def _upper_bits(word: Any, count: int) -> Any:
    return (word >> (32 - count)) & ((1 << count) - 1)


def uniform_numbers(seed: Any, position: Any, dtype: str) -> Any:
    """Return numbers from [0, 1), with as many bits as a significand of `dtype` has: rounding must not reach 1."""
    a, b = _words(seed, position)
    if dtype == "float64":
        return _upper_bits(a, 26).astype(dtype) * 2.0**-26 + _upper_bits(b, 27).astype(dtype) * 2.0**-53
    bits = {"bfloat16": 8, "float16": 11, "float32": 24}[dtype]
    return _upper_bits(a, bits).astype("float32") * 2.0**-bits


def normal_numbers(seed: Any, position: Any, dtype: str) -> Any:
    """Return standard normal numbers, after Box and Muller."""
    if dtype == "float64":
        u, turn = 1 - uniform_numbers(seed, position * 2, dtype), uniform_numbers(seed, position * 2 + 1, dtype)
    else:
        a, b = _words(seed, position)
        # Small numbers keep 31 bits: their logarithms are the tails.
        u, turn = (_upper_bits(a, 31).astype("float32") + 0.5) * 2.0**-31, b.astype("float32") * 2.0**-32
    return np.sqrt(-2 * np.log(u)) * np.cos(turn * (2 * math.pi))


@op(kind="data", rule=rules.sequence, public=False)
def random_uniform(seed, /, shape, dtype):
    """Draw uniform numbers from [0, 1)."""
    return uniform_numbers(seed.reshape(1), np.arange(math.prod(shape)), dtype.name).reshape(shape)


@op(kind="data", rule=rules.sequence, public=False)
def random_normal(seed, /, shape, dtype):
    """Draw standard normal numbers."""
    return normal_numbers(seed.reshape(1), np.arange(math.prod(shape)), dtype.name).reshape(shape)


@op(kind="data", rule=rules.sequence, public=False)
def random_integers(seed, low, high, /, shape, dtype):
    """Draw uniform integers from [low, high)."""
    return _generator(seed).integers(int(low), int(high), shape)


@op(kind="data", rule=rules.sequence, public=False)
def random_order(seed, /, shape, dtype):
    """Draw a permutation of the integers below the number of elements."""
    return _generator(seed).permutation(shape[0])


@op(kind="data", rule=rules.sequence, public=False)
def random_poisson(seed, rate, /, shape, dtype):
    """Draw Poisson numbers of the given rates."""
    return _generator(seed).poisson(rate.astype(np.float64), shape)


@op(kind="data", rule=rules.sequence, public=False)
def random_binomial(seed, count, probability, /, shape, dtype):
    """Draw binomial numbers of the given counts and probabilities."""
    return _generator(seed).binomial(count.astype(np.int64), probability.astype(np.float64), shape)


def _generator(seed: Any) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(int(seed)))  # The fastest of NumPy's.
