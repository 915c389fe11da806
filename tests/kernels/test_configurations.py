"""One binary serves many shapes: what is built for random shapes of a family, on the simulated NPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor import events

Array = np.ndarray[Any, Any]
Make = Callable[[np.random.Generator], tuple[nt.Tensor, Array]]

SHAPES = 200


def values(rng: np.random.Generator, *shape: int) -> tuple[nt.Tensor, Array]:
    """As bfloat16, and what that is as float64."""
    x = rng.uniform(-1, 1, shape).astype(ml_dtypes.bfloat16)
    return nt.from_numpy(x), x.astype(np.float64)


def extent(rng: np.random.Generator, most: int) -> int:
    """Evenly distributed magnitudes."""
    return int(2 ** rng.uniform(0, np.log2(most)))


def elementwise(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    x, exact = values(rng, extent(rng, 64), extent(rng, 3000))
    y, other = values(rng, *exact.shape)
    return x * y, exact * other


def with_row(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    x, exact = values(rng, 2 + extent(rng, 64), 32 * extent(rng, 60))
    y, other = values(rng, exact.shape[1])
    return x * y, exact * other


def product(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    m, k, n = (9 + extent(rng, 200) for _ in range(3))  # Fewer rows are no task of this family.
    (x, exact), (y, other) = values(rng, m, k), values(rng, n, k)
    return x @ y.T, exact @ other.T


def rows(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    x, exact = values(rng, extent(rng, 100), 2 + extent(rng, 2000))
    exponentials = np.exp(exact - exact.max(1, keepdims=True))
    return x.softmax(1), exponentials / exponentials.sum(1, keepdims=True)


def turned(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    tokens, heads = extent(rng, 100), extent(rng, 20)
    x, exact = values(rng, tokens, heads, 32)
    positions = rng.integers(0, 1000, tokens).astype(np.int32)
    angles = positions[:, None, None] * 10000.0 ** (-np.arange(16) / 16)
    even, odd = exact[..., 0::2], exact[..., 1::2]
    pairs = [even * np.cos(angles) - odd * np.sin(angles), even * np.sin(angles) + odd * np.cos(angles)]
    return nt.rope(x, nt.from_numpy(positions)), np.stack(pairs, -1).reshape(exact.shape)


CASES = {
    # by family: how many configurations may be built for one dtype and program
    "elementwise": (elementwise, 3),
    "with a row": (with_row, 3),
    "gemm": (product, 6),
    "rope": (turned, 2),
    # Two for each class of lengths, times two for whole and part vectors.
    "rowwise": (rows, 2 * 2 * 11),
}


@pytest.mark.parametrize("device", ["sim:npu1", "sim:npu2"])
@pytest.mark.parametrize("family", CASES)
def test_random_shapes_are_served_by_few_binaries(family: str, device: str) -> None:
    make, most = CASES[family]
    rng = np.random.default_rng(0)
    seen: list[events.Event] = []
    with nt.default_device(device), events.listen(seen.append):
        for _ in range(SHAPES):
            result, expected = make(rng)
            computed = result.numpy().astype(np.float64)
            scale = np.sqrt(np.mean(expected**2))
            np.testing.assert_allclose(computed, expected, rtol=2**-6, atol=2**-6 * scale)
    built = [event for event in seen if isinstance(event, events.BuildFinished)]
    assert 1 <= len(built) <= most
