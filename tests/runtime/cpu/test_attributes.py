"""Numeric attributes are operands of compiled kernels: another value reuses the code and gives the right result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.runtime.devices.host import host_devices

X = np.array([-3.0, -1.5, -0.0, 0.0, 0.25, 1.0, 2.5, 30.0, math.inf, -math.inf, math.nan, 7.0], np.float32)
W = np.random.default_rng(5).normal(size=(12, 12)).astype(np.float32)
FINITE = W[0]


def leaky(x: Any, slope: float) -> Any:
    return np.where(x > 0, x, x * slope)


# Expression recorded with a value, and the same in float64.
CASES: dict[str, tuple[Callable[[float], nt.Tensor], Callable[[float], Any]]] = {
    "alpha": (lambda a: nt.add(nt.tensor(X), nt.tensor(FINITE), alpha=a), lambda a: X + np.float64(a) * FINITE),
    "bounds": (lambda a: nt.tensor(X).clamp(-a, a), lambda a: np.minimum(np.maximum(X, -a), a)),
    "least": (lambda a: nt.tensor(X).clamp(min=a), lambda a: np.maximum(X, np.float64(a))),
    "slope": (lambda a: nt.leaky_relu(nt.tensor(X), a), lambda a: leaky(X.astype(float), a)),
    "eps": (
        lambda a: nt.rms_norm(nt.tensor(FINITE), (12,), eps=abs(a)),
        lambda a: FINITE / np.sqrt((FINITE.astype(float) ** 2).mean() + abs(a)),
    ),
    "sum": (lambda a: nt.leaky_relu(nt.tensor(W), a).sum(1), lambda a: leaky(W.astype(float), a).sum(1)),
    "column sum": (lambda a: nt.leaky_relu(nt.tensor(W), a).sum(0), lambda a: leaky(W.astype(float), a).sum(0)),
    "transposed": (
        lambda a: nt.leaky_relu(nt.tensor(W), a) + nt.tensor(W).mT,
        lambda a: leaky(W.astype(float), a) + W.T,
    ),
    "after a product": (
        lambda a: nt.leaky_relu(nt.tensor(W) @ nt.tensor(W), a),
        lambda a: leaky(W.astype(float) @ W, a),
    ),
    "before a product": (
        lambda a: nt.leaky_relu(nt.tensor(W), a) @ nt.tensor(W),
        lambda a: leaky(W.astype(float), a) @ W,
    ),
}
VALUES = [0.1, 2.0, 3, -0.7, 0.0, -0.0, 1e-42, 1e300, -1e300, math.inf, math.nan]
FINITE_VALUES = [0.1, 2.0, 3, -0.7, 0.0, -0.0, 1e-42]


def built() -> int:
    statistics = host_devices()[0].engine.statistics  # type: ignore[attr-defined]
    return int(statistics.compiled + statistics.disk_hits)


@pytest.mark.parametrize("name", CASES)
def test_another_value_is_no_other_kernel(name: str) -> None:
    record, reference = CASES[name]
    record(0.3).realize()
    before = built()
    products = "product" in name or "sum" in name or name == "transposed"
    for value in FINITE_VALUES if products else VALUES:
        with np.errstate(all="ignore"):
            expected = np.asarray(reference(float(np.float32(value)))).astype(np.float32)
        result = record(value).numpy()
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-6, err_msg=str(value))
    assert built() == before


@pytest.mark.parametrize("dtype", [nt.int8, nt.uint8, nt.int32, nt.int64, nt.float64, nt.bfloat16, nt.float16])
def test_values_of_other_dtypes(dtype: nt.DType) -> None:
    x = nt.arange(0, 100).to(dtype).realize()
    x.clamp(1, 2).realize()
    before = built()
    for low, high in [(3, 80), (0, 127), (50, 50), (99, 0)]:
        assert x.clamp(low, high).tolist() == [min(max(n, low), high) for n in range(100)]
    assert built() == before


def test_integers_keep_all_their_bits() -> None:
    x = nt.tensor([0, 2**62 + 1, -(2**62) - 1])
    for bound in (2**62 - 1, 2**62, 2**53 + 1):
        assert x.clamp(-bound, bound).tolist() == [0, bound, -bound]
    assert nt.sub(x, nt.tensor([1, 1, 1]), alpha=2**53 + 1).tolist() == [n - 2**53 - 1 for n in x.tolist()]


def test_the_sign_of_a_zero_counts() -> None:
    zero, one = nt.tensor([-0.0]), nt.tensor([1.0])
    signs = [math.copysign(1, nt.add(zero, one, alpha=alpha).item()) for alpha in (0.0, -0.0, 0.0)]
    assert signs == [1.0, -1.0, 1.0]


def test_what_a_value_decides_is_structure() -> None:
    """None or a bound, and an alpha of 1, which multiplies nothing."""
    x = nt.tensor(X)
    assert np.array_equal(x.clamp(None, 1.0).numpy(), np.minimum(X, 1), equal_nan=True)
    assert np.array_equal(x.clamp(1.0, None).numpy(), np.maximum(X, 1), equal_nan=True)
    for alpha in (1, 2, 1.0, 0.5):
        assert np.array_equal(nt.add(x, x, alpha=alpha).numpy(), X + np.float32(alpha) * X, equal_nan=True)
