"""Compiled rotary embeddings against complex numbers in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npu_tensor as nt

Array = np.ndarray[Any, Any]

TOKENS, HEADS, FEATURES = 7, 3, 40
# Relative to the largest result, about 4: two roundings of products, one of the sum; for 16-bit floats, the final one.
TOLERANCE = {"float32": 2e-6, "float64": 1e-14, "bfloat16": 2e-2, "float16": 3e-3}


def sample(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def expected(x: Array, positions: Array, n_dims: int, mode: str, base: float = 10000.0, factors: Any = 1) -> Array:
    """Every pair as a complex number times e^(i angle)."""
    pairs = np.arange(n_dims).reshape((2, -1) if mode == "neox" else (-1, 2), order="C")
    real, imaginary = pairs if mode == "neox" else pairs.T
    rates = base ** (-2.0 * np.arange(n_dims // 2) / n_dims) / factors
    turns = np.exp(1j * positions[:, None, None] * rates)
    result = x.astype(np.float64)
    turned = (result[..., real] + 1j * result[..., imaginary]) * turns
    result[..., real], result[..., imaginary] = turned.real, turned.imag
    return result


def kernel_of(y: nt.Tensor) -> str:
    return next(row.kernel for row in nt.explain(y) if row.op == "rotate")


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n_dims", [2, 30, FEATURES])
@pytest.mark.parametrize("mode", ["normal", "neox"])
def test_modes_and_lengths(mode: str, n_dims: int, dtype: str) -> None:
    x = nt.from_numpy(sample(2, TOKENS, HEADS, FEATURES)).to(dtype).realize()
    positions = np.array([0, 5, 2, 1, 90, 90, 4096])
    y = nt.rope(x, nt.from_numpy(positions), n_dims=n_dims, mode=mode)
    assert ("loops" in kernel_of(y)) == (dtype != "float64")
    exact = expected(x.numpy(), positions, n_dims, mode)
    np.testing.assert_allclose(y.numpy().astype(np.float64), exact, atol=TOLERANCE[dtype], rtol=0)
    if n_dims < FEATURES:
        np.testing.assert_array_equal(y.numpy()[..., n_dims:], x.numpy()[..., n_dims:])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_far_positions_lose_nothing(dtype: str) -> None:
    """In float32 alone, an angle of millions of turns would be off by whole radians."""
    x = sample(4, 1, 64)
    positions = np.array([1, 1 << 20, (1 << 30) + 1, -(1 << 30)], dtype)
    y = nt.rope(nt.from_numpy(x), nt.from_numpy(positions), mode="neox")
    np.testing.assert_allclose(y.numpy(), expected(x, positions, 64, "neox"), atol=2e-6, rtol=0)


def test_factors_divide_the_angles() -> None:
    x, positions = sample(TOKENS, HEADS, FEATURES), np.arange(TOKENS)
    factors = np.linspace(0.5, 8, FEATURES // 2, dtype=np.float32)
    y = nt.rope(nt.from_numpy(x), nt.from_numpy(positions), nt.from_numpy(factors), freq_base=500.0)
    exact = expected(x, positions, FEATURES, "normal", 500.0, factors.astype(np.float64))
    np.testing.assert_allclose(y.numpy(), exact, atol=2e-6, rtol=0)


def test_scale_and_magnitude() -> None:
    x, positions = sample(TOKENS, HEADS, FEATURES), np.arange(TOKENS)
    y = nt.rope(nt.from_numpy(x), nt.from_numpy(positions), freq_scale=0.25, attn_factor=3.0)
    exact = 3 * expected(x, positions / 4, FEATURES, "normal")
    np.testing.assert_allclose(y.numpy(), exact, atol=6e-6, rtol=0)


@pytest.mark.parametrize("mode", ["normal", "neox"])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.transpose(0, 1),
        lambda x: x[:, :, ::2],
        lambda x: x[:, 1:, 4:20],
        lambda x: x[:, :1].expand(TOKENS, 5, FEATURES) if isinstance(x, nt.Tensor) else x[:, :1].repeat(5, 1),
    ],
    ids=["transposed", "every second", "part", "repeated"],
)
def test_views(view: Any, mode: str) -> None:
    x = sample(TOKENS, TOKENS, FEATURES)
    # NumPy's transpose takes all dimensions.
    seen = x.transpose(1, 0, 2) if view(nt.from_numpy(x)).numpy().shape == x.shape else view(x)
    positions = np.arange(TOKENS)[::-1].copy()
    y = nt.rope(view(nt.from_numpy(x)), nt.from_numpy(positions), mode=mode)
    np.testing.assert_allclose(y.numpy(), expected(seen, positions, seen.shape[-1], mode), atol=2e-6, rtol=0)


@pytest.mark.parametrize("shape", [(0, HEADS, 4), (3, 0, 4), (0, 3, HEADS, 4), (1, 1, 2)])
def test_few_or_no_elements(shape: tuple[int, ...]) -> None:
    x, positions = sample(*shape), np.arange(shape[-3])
    y = nt.rope(nt.from_numpy(x), nt.from_numpy(positions))
    np.testing.assert_allclose(y.numpy(), expected(x, positions, shape[-1], "normal"), atol=2e-6)
