"""Rotary embeddings on the simulated array against the formula in float64."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_tasks import TARGETS, accepted, computed, data_task, nmse, target
from running import needs_compiler

from npu_tensor.dtypes import DType, bfloat16, float16, float32, float64
from npu_tensor.kernels import rope
from npu_tensor.kernels.offer import Target
from npu_tensor.task import Refusal, Task

Array = np.ndarray[Any, Any]

WHOLE = [target("aie2", 4, "bfloat16"), target("aie2p", 8, "bfloat16")]
DEFAULTS = {
    "n_dims": None,
    "mode": "normal",
    "base": 10000.0,
    "scale": 1.0,
    "n_ctx_orig": 0,
    "ext_factor": 0.0,
    "attn_factor": 1.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
}

arrays = pytest.mark.parametrize("where", WHOLE, ids=lambda where: where.array.arch)
pytestmark = needs_compiler


def rope_task(x: Array, positions: Array, *factors: Array, **options: Any) -> Task:
    operands = [x, positions, *factors]
    return data_task("rotate", operands, operands, *{**DEFAULTS, **options}.values())


def expected(
    x: Array,
    positions: Array,
    n_dims: int | None = None,
    mode: str = "normal",
    base: float = 10000.0,
    scale: float = 1.0,
    magnitude: float = 1.0,
    factors: Array | None = None,
) -> Array:
    """Pair by pair as a complex number times e^(i angle), in float64; x is rounded to bfloat16 first."""
    values = x.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
    dims = x.shape[-1] if n_dims is None else n_dims
    result = values.copy()
    for pair in range(dims // 2):
        first, second = (2 * pair, 2 * pair + 1) if mode == "normal" else (pair, pair + dims // 2)
        angle = scale * positions.astype(np.float64)[:, None] * base ** (-2 * pair / dims)
        if factors is not None:
            angle = angle / float(factors[pair])
        turned = (values[..., first] + 1j * values[..., second]) * magnitude * np.exp(1j * angle)
        result[..., first], result[..., second] = turned.real, turned.imag
    return result


def error(result: Array, reference: Array) -> float:
    """Normalized mean square error; results that are bfloat16 numbers are held against the rounded reference."""
    if result.dtype != np.float32:
        reference = reference.astype(np.float32).astype(ml_dtypes.bfloat16)
    return nmse(result, reference)


def data(shape: tuple[int, ...], dtype: DType, furthest: int = 8192) -> tuple[Array, Array]:
    """Normal numbers and positions up to `furthest`, which is one of them."""
    generator = np.random.default_rng(math.prod(shape))
    positions = generator.integers(0, furthest, shape[-3], endpoint=True).astype(np.int32)
    positions[-1] = furthest
    return generator.standard_normal(shape).astype(dtype.numpy), positions


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((2, 32, 128), {}),
        ((2, 32, 80), {"n_dims": 20}),
        ((3, 5, 80), {"n_dims": 32, "mode": "neox"}),
        ((1, 7, 3, 64), {"mode": "neox", "base": 500000.0}),
        ((2, 5, 4, 66), {"scale": 1 / 1.4245, "attn_factor": 1.4245}),
        ((1, 1, 2), {}),
        ((2, 5, 1, 1024), {"mode": "neox", "n_dims": 1022}),
    ],
    ids=str,
)
@arrays
def test_bfloat16(shape: tuple[int, ...], options: dict[str, Any], where: Target) -> None:
    x, positions = data(shape, bfloat16)
    result = computed(rope_task(x, positions, **options), where, [x, positions])
    assert result.dtype == bfloat16.numpy
    renamed = {{"attn_factor": "magnitude"}.get(name, name): value for name, value in options.items()}
    assert error(result, expected(x, positions, **renamed)) <= 1e-6


@pytest.mark.parametrize("dtype", [float16, float32], ids=lambda dtype: dtype.short)
def test_floats_that_are_rounded_to_bfloat16(dtype: DType) -> None:
    x, positions = data((6, 3, 64), dtype)
    result = computed(rope_task(x, positions), WHOLE[1], [x, positions])
    assert result.dtype == dtype.numpy
    assert error(result, expected(x, positions)) <= 1e-6


@pytest.mark.parametrize("furthest", [1, 100_000, 2_000_000])
def test_far_positions(furthest: int) -> None:
    """The angle loses 2^-33 turns per position; 2e-3 radians at two millions are half a bfloat16 ulp."""
    x, positions = data((16, 2, 64), float32, furthest)
    result = computed(rope_task(x, positions), WHOLE[0], [x, positions])
    assert error(result, expected(x, positions)) <= (2 * math.pi * 2**-33 * furthest) ** 2 + 2**-28


def test_negative_and_wide_positions() -> None:
    x, _ = data((5, 2, 64), float32)
    positions = np.array([-1, 0, -8192, 7, 3], np.int64)
    assert error(computed(rope_task(x, positions), WHOLE[0], [x, positions]), expected(x, positions)) <= 1e-6


def test_yarn() -> None:
    """Low pairs turn as trained, high ones as stretched, between two dimensions that follow from beta."""
    options = {"n_ctx_orig": 512, "ext_factor": 1.0, "scale": 0.25}
    x, positions = data((4, 2, 128), float32, 2000)
    result = computed(rope_task(x, positions, **options), WHOLE[1], [x, positions])
    magnitude = 1 + 0.1 * math.log(4)
    trained = expected(x, positions, magnitude=magnitude)
    stretched = expected(x, positions, scale=0.25, magnitude=magnitude)
    low, high = (128 * math.log(512 / (beta * 2 * math.pi)) / (2 * math.log(10000)) for beta in (32, 1))
    first, last = 2 * math.floor(low), 2 * math.ceil(high) + 2
    assert 0 < first < last < 128
    assert error(result[..., :first], trained[..., :first]) <= 1e-6
    assert error(result[..., last:], stretched[..., last:]) <= 1e-6


@pytest.mark.parametrize("shape", [(3, 2, 64), (2, 70, 4, 128)], ids=str)
@arrays
def test_frequency_factors(shape: tuple[int, ...], where: Target) -> None:
    """More or fewer positions than factors in one round; columns with one round and with several."""
    x, positions = data(shape, bfloat16)
    factors = np.random.default_rng(3).uniform(0.3, 8, shape[-1] // 2 + 1).astype(np.float32)
    result = computed(rope_task(x, positions, factors, mode="neox"), where, [x, positions, factors])
    assert error(result, expected(x, positions, mode="neox", factors=factors)) <= 1e-6


def test_views() -> None:
    """Queries cut out of a joint projection, and positions that are a column."""
    joint, _ = data((2, 6, 3, 4, 64), bfloat16)
    pairs = np.stack([positions_of(6), positions_of(6) + 1], 1)
    x, positions = joint[:, :, 1], pairs[:, 1]
    task = data_task("rotate", [x, positions], [joint, pairs], *DEFAULTS.values())
    assert error(computed(task, WHOLE[1], [joint, pairs]), expected(x, positions)) <= 1e-6


def positions_of(tokens: int) -> Array:
    return (np.arange(tokens) * 37 % 101).astype(np.int32)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(1, 5), max_size=2),
    st.integers(1, 70),
    st.integers(1, 40),
    st.integers(2, 300),
    st.integers(1, 150),
    st.booleans(),
    st.sampled_from(TARGETS),
)
def test_an_offer_passes_every_check(
    lead: list[int], tokens: int, heads: int, features: int, half: int, divided: bool, where: Target
) -> None:
    n_dims = min(2 * half, features // 2 * 2)
    x = np.zeros((*lead, tokens, heads, features), bfloat16.numpy)
    factors = [np.ones(n_dims // 2, np.float32)] * divided
    answer = rope.claim(rope_task(x, positions_of(tokens), *factors, n_dims=n_dims), where)
    if isinstance(answer, Refusal):
        assert features % 2
        assert "words of 4 bytes" in answer.reason
        return
    accepted(answer)


@pytest.mark.parametrize(
    "shape", [(100_000, 1, 2), (600, 3, 1024), (40, 16, 1024), (2000, 4, 64), (5000, 1, 16)], ids=str
)
@pytest.mark.parametrize("divided", [False, True])
@arrays
def test_the_largest_objects_fit(shape: tuple[int, ...], divided: bool, where: Target) -> None:
    """float32 results need the most memory."""
    x = np.zeros(shape, np.float32)
    factors = [np.ones(shape[-1] // 2, np.float32)] * divided
    accepted(rope.claim(rope_task(x, np.zeros(shape[0], np.int32), *factors), where))


def test_refusals_say_why() -> None:
    x, positions = data((4, 2, 64), float32)
    long = np.zeros((4, 1, 1026), bfloat16.numpy)
    odd = np.zeros((4, 1, 5), bfloat16.numpy)
    wide = np.zeros((4, 2, 64), float64.numpy)
    cases = [
        (rope_task(x, positions), target("aie2", 4), "the policy for float32 is exact"),
        (rope_task(x, positions), target("aie2", 4, "emulate"), "the policy for float32 is emulate"),
        (rope_task(x, positions, base=0.0), WHOLE[0], "finite angles"),
        (rope_task(long, positions), WHOLE[0], "1026 features, more than 1024"),
        (rope_task(odd, positions, n_dims=4), WHOLE[0], "words of 4 bytes"),
        (rope_task(wide, positions), WHOLE[0], "no kernel for"),
    ]
    for task, where, words in cases:
        refusal = rope.claim(task, where)
        assert isinstance(refusal, Refusal)
        assert words in refusal.reason
