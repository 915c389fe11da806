"""Copies on the simulated array are exact: every dtype, order, slice and repeat, against NumPy."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_tasks import TARGETS, WHOLE, accepted, arrays, copy_task, data_task, random_bits, simulate
from running import needs_compiler

from npu_tensor.dtypes import DTYPES, DType, as_dtype, bfloat16, int8, int32, int64
from npu_tensor.kernels import movement
from npu_tensor.kernels.movement.tiling import MOST_MOVES
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.task import Refusal, Task

Array = np.ndarray[Any, Any]

pytestmark = needs_compiler


def same(result: Array, expected: Array) -> bool:
    """Equal bits: NaNs count."""
    return result.shape == expected.shape and result.tobytes() == np.ascontiguousarray(expected).tobytes()


def moved(view: Array, base: Array, where: Target) -> Array:
    task = copy_task(view, base)
    return simulate(task, movement.claim(task, where), where, [base])[0]


def reason(task: Task, where: Target) -> str:
    claim = movement.claim if task.kind == "map" else movement.claim_concat
    refusal = claim(task, where)
    assert isinstance(refusal, Refusal)
    return refusal.reason


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.short)
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (64, 96), (33, 130), (1, 300), (1000, 2)], ids=str)
@arrays
def test_transpose(shape: tuple[int, int], dtype: DType, where: Target) -> None:
    base = random_bits(shape, dtype)
    assert same(moved(base.T, base, where), base.T)


@st.composite
def views(draw: st.DrawFn) -> tuple[Array, Array]:
    """An array of up to five dimensions and a view of it: permuted, sliced, reversed, repeated."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 8, 16, 31]), min_size=1, max_size=5))
    while np.prod(shape) > 20000:
        shape.pop()
    base = random_bits(tuple(shape), as_dtype(draw(st.sampled_from(DTYPES))))
    view = base.transpose(draw(st.permutations(range(base.ndim))))
    axis = draw(st.integers(0, view.ndim - 1))
    change = draw(st.sampled_from(["none", "slice", "step", "reverse", "repeat"]))
    along = [slice(None)] * view.ndim
    if change == "repeat":
        return base, np.broadcast_to(np.expand_dims(view, axis), (*view.shape[:axis], 3, *view.shape[axis:]))
    extent = view.shape[axis]
    along[axis] = {
        "none": slice(None),
        "slice": slice(extent // 3, None),
        "step": slice(None, None, 2),
        "reverse": slice(None, None, -1),
    }[change]
    return base, view[tuple(along)]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(views(), st.sampled_from(TARGETS))
def test_an_offer_is_a_design_that_runs(case: tuple[Array, Array], where: Target) -> None:
    base, view = case
    task = copy_task(view, base)
    answer = movement.claim(task, where)
    if isinstance(answer, Offer):
        assert same(simulate(task, answer, where, [base])[0], view)
        return
    # Whole words are refused for their number only: steps backwards and repeats are loops of transfers.
    assert base.itemsize < 4 or "transfers" in answer.reason


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 3, 16, 64, 127, 1000, 1023, 1025, 4096, 10007]), min_size=2, max_size=4),
    st.randoms(use_true_random=False),
    st.sampled_from(DTYPES),
    st.sampled_from(TARGETS),
)
def test_an_offer_for_large_shapes_passes_every_check(
    shape: list[int], random: Random, dtype: DType, where: Target
) -> None:
    while np.prod(shape) > 1 << 28:
        shape.pop()
    base = np.zeros(shape, dtype.numpy)  # Takes no memory unless it is written.
    answer = movement.claim(copy_task(base.transpose(random.sample(range(base.ndim), base.ndim)), base), where)
    if isinstance(answer, Offer):
        accepted(answer)


def test_refusals_say_why() -> None:
    where = WHOLE["aie2"]
    long = random_bits((3000, 4), int32)
    assert f"more than {MOST_MOVES}" in reason(copy_task(long[::-1], long), where)
    small = random_bits((6, 10), bfloat16)
    assert "2-byte elements would move out of their words" in reason(copy_task(small[:, ::2], small), where)
    wide = random_bits((300, 16), int32)
    assert "less than 1 in 8" in reason(copy_task(wide[:, :1], wide), where)
    odd = random_bits((3, 5), int8)
    assert "1-byte elements" in reason(data_task("concat", [odd, odd], [odd, odd], 1), where)
    parts = [random_bits((4, 4), int32, seed) for seed in range(16)]
    assert "16 operands, more than 15" in reason(data_task("concat", parts, parts, 0), where)


@pytest.mark.parametrize("dim", range(4))
@pytest.mark.parametrize("dtype", [int32, int64, bfloat16, int8], ids=lambda dtype: dtype.short)
@arrays
def test_concat(dim: int, dtype: DType, where: Target) -> None:
    shapes = [[4, 6, 5, 8] for _ in range(3)]
    for shape, extent in zip(shapes, (4, 8, 12), strict=True):
        shape[dim] = extent
    parts = [random_bits(tuple(shape), dtype, seed) for seed, shape in enumerate(shapes)]
    task = data_task("concat", parts, parts, dim)
    result = simulate(task, movement.claim_concat(task, where), where, parts)[0]
    assert same(result, np.concatenate(parts, dim))


@st.composite
def joinable(draw: st.DrawFn) -> tuple[list[Array], list[Array], int]:
    """Views that differ along one dimension, some transposed, and the arrays that they read."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 8, 17, 32]), min_size=1, max_size=4))
    dim = draw(st.integers(0, len(shape) - 1))
    dtype = as_dtype(draw(st.sampled_from(DTYPES)))
    views, bases = [], []
    for seed, extent in enumerate(draw(st.lists(st.sampled_from([1, 2, 4, 9, 40]), min_size=2, max_size=4))):
        shape[dim] = extent
        order = draw(st.permutations(range(len(shape))))
        bases.append(random_bits(tuple(shape[axis] for axis in order), dtype, seed))
        views.append(bases[-1].transpose(np.argsort(order)))
    return views, bases, dim


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(joinable(), st.sampled_from(TARGETS))
def test_an_offer_to_join_is_a_design_that_runs(case: tuple[list[Array], list[Array], int], where: Target) -> None:
    views, bases, dim = case
    task = data_task("concat", views, bases, dim)
    answer = movement.claim_concat(task, where)
    if isinstance(answer, Offer):
        assert same(simulate(task, answer, where, bases)[0], np.concatenate(views, dim))
        return
    small = bases[0].itemsize < 4 and "leave their words" in answer.reason
    assert small or "transfers" in answer.reason or (where.columns == 1 and "different shapes" in answer.reason)


def test_one_operand_many_times_is_one_host_buffer() -> None:
    base = random_bits((4, 20), int32)
    task = data_task("concat", [base] * 9, [base] * 9, 0)
    task = task._replace(inputs=tuple(operand._replace(item=0) for operand in task.inputs))
    for where in TARGETS:
        offer = movement.claim_concat(task, where)
        assert isinstance(offer, Offer), offer
        assert len(offer.operands) == 2
        assert same(simulate(task, offer, where, [base])[0], np.concatenate([base] * 9))


@pytest.mark.parametrize("dtype", [int32, bfloat16], ids=lambda dtype: dtype.short)
@arrays
def test_large_transposes_use_all_columns(dtype: DType, where: Target) -> None:
    base = np.zeros((4096, 2048), dtype.numpy)
    design = accepted(movement.claim(copy_task(base.T, base), where))
    shims = {fifo.producer.column for fifo in design.fifos if fifo.producer.kind == "shim"}
    assert shims == set(range(where.columns))
