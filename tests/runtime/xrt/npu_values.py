"""What the tests of the XRT device compute, and NumPy's answers to that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
from machine import Machine

import npu_tensor as nt
from npu_tensor import events

__all__ = ["BF16", "Array", "Case", "as_float", "close", "errors_of", "joined", "normal", "recorded"]

Array = np.ndarray[Any, Any]
Case = tuple[Callable[..., nt.Tensor], Callable[..., Array]]

BF16 = np.dtype(ml_dtypes.bfloat16)


def normal(*shape: int, seed: int = 0, dtype: Any = BF16) -> Array:
    """Normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def as_float(array: Array) -> Array:
    """As float64, in which references are computed."""
    return array.astype(np.float64)


def close(got: nt.Tensor | Array, expected: Array) -> None:
    """Every element is within one part in 64 of the largest, as bfloat16 and sums in another order may leave them."""
    found = as_float(got.numpy() if isinstance(got, nt.Tensor) else got)
    assert found.shape == expected.shape
    largest = float(np.abs(expected).max(initial=1e-3))
    np.testing.assert_allclose(found, expected, rtol=2.0**-6, atol=largest * 2.0**-7)


def joined(number: int, seed: int = 0) -> tuple[nt.Tensor, Array]:
    """Vectors one after the other: a configuration of its own for every number below 18, without code for the cores.

    Their lengths decide the sizes of the objects that pass through memtiles; other numbers may share a configuration.
    The tensor is recorded and not computed; the array is what it must become.
    """
    lengths = [2 * 4 ** (number % 2), 2 * 4 ** (number // 2 % 6), *[2 * 4**3] * (number // 12)]
    vectors = [normal(length, seed=seed + place) for place, length in enumerate(lengths)]
    return nt.cat([nt.from_numpy(vector) for vector in vectors]), np.concatenate(vectors)


def errors_of(machine: Machine) -> list[str]:
    """What the stand-in has to complain of, beyond crashes, which fail every test."""
    return [*machine.warnings, *machine.failures]


@contextmanager
def recorded(*kinds: type[events.Event]) -> Iterator[list[Any]]:
    """The events of these kinds meanwhile."""
    found: list[events.Event] = []
    with events.listen(lambda event: found.append(event) if isinstance(event, kinds) else None):
        yield found
