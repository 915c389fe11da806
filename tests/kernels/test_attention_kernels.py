"""Attention on the simulated array against the formula in float64."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_sources import compiled_together
from kernel_tasks import TARGETS, WHOLE, accepted, arrays, computed, data_task, layout_of, nmse, simulate
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.kernels import attention
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.runtime.npu.packing import form_of
from npu_tensor.task import Refusal, Task

Array = np.ndarray[Any, Any]
Shape = tuple[int, int, int, int, int, int]
"""Batch, query heads, key heads, queries, keys, features."""

CASES: dict[str, tuple[Shape, bool, bool]] = {
    "one tile": ((1, 1, 1, 16, 32, 64), False, False),
    "few queries, keys that fill no block": ((2, 3, 1, 5, 7, 64), False, False),
    "causal, the last block begins earlier": ((1, 4, 2, 300, 150, 64), True, False),
    "more queries than keys, causal": ((1, 2, 2, 290, 40, 64), True, False),
    "one query for a group of heads": ((1, 8, 2, 1, 200, 64), False, False),
    "one query per head, in place": ((2, 2, 2, 1, 300, 64), False, False),
    "three heads share keys": ((1, 9, 3, 1, 140, 64), False, False),
    "16 heads share keys, fewer keys than a block": ((1, 16, 1, 1, 20, 128), False, False),
    "more heads than columns": ((3, 6, 3, 70, 33, 64), False, False),
    "mask": ((1, 2, 1, 40, 70, 64), False, True),
    "few queries, cores with keys of their own": ((2, 6, 3, 3, 531, 64), False, False),
    "one query, masked": ((2, 4, 2, 1, 150, 64), False, True),
    "96 features": ((1, 2, 1, 130, 64, 96), True, False),
    "96 features, masked": ((1, 2, 1, 30, 64, 96), False, True),
    "128 features": ((1, 2, 1, 140, 50, 128), True, False),
    "128 features, masked": ((1, 1, 1, 130, 35, 128), True, True),
    "128 features, one query, masked": ((1, 4, 2, 1, 150, 128), False, True),
}
"""Shape, is_causal, has a mask."""

pytestmark = needs_compiler


_compiled = compiled_together(
    lambda: [
        accepted(attention.claim(_task(_operands(shape, masked), is_causal), where))
        for shape, is_causal, masked in CASES.values()
        for where in WHOLE.values()
    ]
)


def _operands(shape: Shape, masked: bool = False, seed: int = 0, size: float = 1.0) -> list[Array]:
    batch, heads, groups, queries, keys, features = shape
    generator = np.random.default_rng(seed)

    def normal(*extents: int) -> Array:
        return generator.standard_normal(extents).astype(ml_dtypes.bfloat16)

    query = (normal(batch, heads, queries, features).astype(np.float32) * size).astype(ml_dtypes.bfloat16)
    operands = [query, normal(batch, groups, keys, features), normal(batch, groups, keys, features)]
    if masked:
        mask = generator.standard_normal((1, heads, queries, keys)).astype(np.float32) * 3
        mask[generator.random(mask.shape) < 0.3] = -math.inf
        mask[:, 0, -1] = -math.inf
        operands.append(mask)
    return operands


def _task(operands: list[Array], is_causal: bool = False, scale: float | None = None, softcap: float = 0.0) -> Task:
    scale = operands[0].shape[-1] ** -0.5 if scale is None else scale
    return data_task("attention", operands, operands, scale, is_causal, softcap)


def _expected(
    operands: list[Array], is_causal: bool = False, scale: float | None = None, softcap: float = 0.0
) -> Array:
    query, key, value, *masks = (each.astype(np.float64) for each in operands)
    group = query.shape[1] // key.shape[1]
    key, value = (np.repeat(each, group, 1) for each in (key, value))
    scores = query @ key.swapaxes(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    scores = sum(masks, scores)
    if is_causal:
        scores[..., np.tri(*scores.shape[-2:]) == 0] = -math.inf
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(largest), 0, largest))
    total = weights.sum(-1, keepdims=True)
    result: Array = (weights @ value / np.where(total == 0, 1, total)).swapaxes(1, 2)
    return result


def _result(operands: list[Array], where: Target, *options: Any) -> Array:
    return computed(_task(operands, *options), where, operands)


@pytest.mark.parametrize("case", list(CASES))
@arrays
def test_against_float64(case: str, where: Target) -> None:
    """Weights and results are rounded to bfloat16, which is an error of 2.8e-6 each."""
    shape, is_causal, masked = CASES[case]
    operands = _operands(shape, masked)
    assert nmse(_result(operands, where, is_causal), _expected(operands, is_causal)) <= 8e-6


CAPPED = [
    "causal, the last block begins earlier",
    "one query for a group of heads",
    "mask",
    "128 features, one query, masked",
]


@pytest.mark.parametrize("case", CAPPED)
@arrays
def test_soft_caps(case: str, where: Target) -> None:
    """Scores of up to 20 before a cap of 5, and masks that are added after it."""
    shape, is_causal, masked = CASES[case]
    operands = _operands(shape, masked, size=5.0)
    options = (is_causal, None, 5.0)
    assert nmse(_result(operands, where, *options), _expected(operands, *options)) <= 8e-6


@arrays
def test_large_scores_reach_the_cap(where: Target) -> None:
    """Scores around the last ones whose sums with a rounding constant are not exact."""
    shape, is_causal, masked = CASES["mask"]
    for exponent in range(38, 50, 2):
        operands = _operands(shape, masked, size=2.0**exponent)
        options = (is_causal, None, 5.0)
        assert nmse(_result(operands, where, *options), _expected(operands, *options)) <= 8e-6


@pytest.mark.parametrize("softcap", [-1.0, 2.0**10, math.inf, math.nan])
def test_soft_caps_that_are_refused(softcap: float) -> None:
    answer = attention.claim(_task(_operands((1, 1, 1, 16, 16, 64)), False, None, softcap), WHOLE["aie2"])
    assert answer == Refusal(f"attention: a soft cap of {softcap:g}")


@arrays
def test_one_query_needs_no_copy_by_the_host(where: Target) -> None:
    """Heads that share keys are repeated until they fill a tile."""
    for heads in (8, 6):
        offer = attention.claim(_task(_operands((1, heads, 2, 1, 256, 64))), where)
        assert isinstance(offer, Offer)
        assert [form_of(operand, nt.bfloat16) for operand in offer.operands] == [None] * 4


@arrays
def test_queries_without_keys_give_zeros(where: Target) -> None:
    operands = _operands(CASES["mask"][0], True)
    assert not _result(operands, where)[:, -1, 0].any()


@arrays
def test_scores_that_grow(where: Target) -> None:
    """Every block has larger scores than the one before, by factors of 2^50, and all but the last weigh nothing."""
    operands = _operands((1, 2, 1, 40, 128, 64), size=8.0)
    operands[0][:] = np.abs(operands[0])
    operands[1][:] = np.linspace(0.0, 4.0, 128)[:, None].astype(np.float32)
    result = _result(operands, where)
    assert nmse(result, _expected(operands)) <= 8e-6


@arrays
def test_numbers_that_are_not_finite(where: Target) -> None:
    operands = _operands((1, 2, 1, 40, 70, 64))
    operands[0][0, 0, 3, 5] = np.nan
    operands[0][0, 1, 4, 5] = np.inf
    result = _result(operands, where).astype(np.float32)
    assert np.isnan(result[0, 3, 0]).all()
    assert np.isnan(result[0, 4, 1]).all()
    assert np.isfinite(result).sum() == result.size - 2 * 64
    operands = _operands((1, 2, 1, 300, 70, 64))
    operands[2][0, 0, 9, 7] = np.inf
    result = _result(operands, where, True).astype(np.float32)
    assert np.isfinite(result[0, :, :, :7]).all()
    assert np.isinf(result[0, 9:, :, 7]).all()


@arrays
def test_views(where: Target) -> None:
    """A part of a cache (tokens, heads, features), and queries cut out of a joint projection, read in place."""
    generator = np.random.default_rng(1)
    joint = generator.standard_normal((1, 20, 6, 64)).astype(ml_dtypes.bfloat16)
    cache = generator.standard_normal((1, 90, 2, 64)).astype(ml_dtypes.bfloat16)
    views = [joint[:, :, 2:].swapaxes(1, 2), cache[:, :50].swapaxes(1, 2), cache[:, 20:70].swapaxes(1, 2)]
    bases = [joint, cache, cache]
    task = data_task("attention", views, bases, 0.125, False, 0.0)
    offer = attention.claim(task, where)
    (result,) = simulate(task, offer, where, bases)
    assert nmse(result, _expected(views)) <= 8e-6
    assert not isinstance(offer, Refusal)
    assert [operand.layout.shape for operand in offer.operands[1:3]] == [
        (layout_of(views[1], cache).offset + 49 * 128 + 64 + 64,),
        (layout_of(views[2], cache).offset + 49 * 128 + 64 + 64,),
    ]


def test_block_floats() -> None:
    operands = _operands((1, 4, 2, 300, 150, 64))
    task, where = _task(operands, True), WHOLE["aie2p"]._replace(bfloat16="bfp16")
    offer = attention.claim(task, where)
    assert not isinstance(offer, Refusal)
    assert offer.coarse
    (result,) = simulate(task, offer, where, operands)
    assert 8e-6 < nmse(result, _expected(operands, True)) <= 5e-4


@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_offer_builds_and_runs(data: st.DataObject) -> None:
    groups, heads = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    shape = (
        data.draw(st.integers(1, 2)),
        groups * heads,
        groups,
        data.draw(st.integers(1, 5) | st.integers(1, 200)),
        data.draw(st.integers(1, 200)),
        64,
    )
    is_causal, masked = data.draw(st.booleans()), shape[3] <= 64 and data.draw(st.booleans())
    where, scale = data.draw(st.sampled_from(TARGETS)), data.draw(st.sampled_from([0.01, 0.125, 3.0]))
    options = (is_causal, scale, data.draw(st.sampled_from([0.0, 3.0])))
    operands = _operands(shape, masked, data.draw(st.integers(0, 9)))
    assert nmse(_result(operands, where, *options), _expected(operands, *options)) <= 2e-5


def test_shapes_share_configurations() -> None:
    shapes = [(1, 8, 2, 300, 150, 64), (2, 32, 8, 2048, 2048, 64), (1, 8, 8, 257, 1000, 64)]
    designs = [accepted(attention.claim(_task(_operands(shape), True), WHOLE["aie2"])) for shape in shapes]
    assert len({id(design.configuration) for design in designs}) == 1


@pytest.mark.parametrize(
    ("shape", "scale", "reason"),
    [
        ((1, 1, 1, 16, 16, 80), 1.0, "attention: heads of 80 and 80 features, and kernels have 64, 96, 128"),
        ((1, 1, 1, 16, 16, 64), -1.0, "attention: a scale of -1"),
        ((1, 1, 1, 16, 0, 64), 1.0, "attention: no keys"),
        ((1, 64, 64, 3072, 3072, 64), 1.0, None),
    ],
)
def test_refusals(shape: Shape, scale: float, reason: str | None) -> None:
    batch, heads, groups, queries, keys, features = shape
    extents = [(batch, heads, queries, features), *[(batch, groups, keys, features)] * 2, (1, 1, queries, keys)]
    dtypes = (*["bfloat16"] * 3, "float32")
    operands = [np.empty(extent, dtype) for extent, dtype in zip(extents, dtypes, strict=True)]
    answer = attention.claim(_task(operands[: 4 if reason is None else 3], scale=scale), WHOLE["aie2p"])
    assert isinstance(answer, Refusal)
    assert answer.reason == reason or "transfers in one run; 16384 are the most" in answer.reason


def test_float32_needs_a_policy() -> None:
    operands = [each.astype(np.float32) for each in _operands((1, 2, 1, 40, 70, 64))]
    answer = attention.claim(_task(operands), WHOLE["aie2"])
    assert answer == Refusal("attention: rounds float32 to bfloat16, the policy for float32 is exact")
    where = WHOLE["aie2"]._replace(float32="bfloat16")
    result = _result(operands, where)
    assert result.dtype == np.float32
    assert nmse(result, _expected(operands)) <= 2e-5


@arrays
@pytest.mark.parametrize("features", attention.FEATURES)
def test_results_of_float32_fit_the_cores(features: int, where: Target) -> None:
    for queries, masked in ((40, False), (300, False), (300, True)):
        operands = [each.astype(np.float32) for each in _operands((1, 2, 1, queries, 70, features), masked)]
        accepted(attention.claim(_task(operands), where._replace(float32="bfloat16")))


@pytest.mark.parametrize("softcap", [0.0, 2.0])
@pytest.mark.parametrize("device", ["sim:npu1?float32=bfloat16", "sim:npu2?float32=bfloat16"])
def test_flash_attn_ext(device: str, softcap: float) -> None:
    """GGML's op with a mask, slopes and a soft cap. The CPU's results are compared with GGML's in tests/ops."""
    generator = np.random.default_rng(2)
    shapes = ((1, 4, 260, 64), (1, 2, 50, 64), (1, 2, 50, 64), (1, 1, 260, 50))
    operands = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]

    def compute() -> nt.Tensor:
        return nt.flash_attn_ext(*map(nt.from_numpy, operands), scale=0.125, max_bias=8.0, logit_softcap=softcap)

    with nt.default_device("cpu"):
        expected = compute().numpy()
    with nt.default_device(device):
        pending = compute()
        assert [row.device for row in nt.explain(pending) if row.op == "attention"] == [device]
        assert nmse(pending.numpy(), expected.astype(np.float64)) <= 5e-4


@pytest.mark.parametrize("device", ["sim:npu1", "sim:npu2"])
def test_scaled_dot_product_attention(device: str) -> None:
    """A mask of bool is converted, and bfloat16 is native. Fewer than 64 queries are computed by products."""
    operands = _operands((1, 4, 2, 64, 50, 64))
    mask = np.random.default_rng(3).random((64, 50)) < 0.7
    with nt.default_device(device):
        query, key, value = map(nt.from_numpy, operands)
        pending = nt.scaled_dot_product_attention(query, key, value, nt.from_numpy(mask), enable_gqa=True)
        assert [row.device for row in nt.explain(pending) if row.op == "attention"] == [device]
        few = nt.scaled_dot_product_attention(query[:, :, 1:], key, value, enable_gqa=True)
        assert not [row for row in nt.explain(few) if row.op == "attention"]
        result = pending.numpy()
    addends = np.where(mask, 0, -math.inf)[None, None]
    assert nmse(result.swapaxes(1, 2), _expected([*operands, addends])) <= 8e-6
