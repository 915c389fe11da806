"""Rows of a table on the simulated array are exactly NumPy's `take`."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_tasks import TARGETS, WHOLE, accepted, arrays, computed, data_task, random_bits, simulate
from running import needs_compiler

from npu_tensor.dataflow.cost import count
from npu_tensor.dtypes import DTYPES, DType, bfloat16, float32, int8, int32
from npu_tensor.kernels import get_rows
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.task import Refusal, Task

Array = np.ndarray[Any, Any]

pytestmark = needs_compiler


def indices(rows: int, count: tuple[int, ...], dtype: Any = np.int32) -> Array:
    """Some rows several times, the first and the last among them if there is room."""
    chosen = np.random.default_rng(rows).integers(0, rows, count).astype(dtype)
    chosen.reshape(-1)[:2] = [rows - 1, 0][: math.prod(count)]
    return chosen


def rows_task(table: Array, index: Array, dim: int = 0, base: Array | None = None) -> Task:
    return data_task("take", [table, index], [table if base is None else base, index], dim, "index", "")


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.short)
@pytest.mark.parametrize(("rows", "length", "count"), [(5, 256, 4), (1, 1, 1), (7, 3, 100), (300, 64, 150)])
@arrays
def test_rows(rows: int, length: int, count: int, dtype: DType, where: Target) -> None:
    table, index = random_bits((rows, length), dtype), indices(rows, (count,))
    assert computed(rows_task(table, index), where, [table, index]).tobytes() == table[index].tobytes()


def test_indices_of_any_shape_and_width() -> None:
    table = random_bits((50, 24), bfloat16)
    for index in (indices(50, (3, 4), np.int64), indices(50, (2, 1, 5)), indices(50, (6, 4))[::2, 0], indices(50, ())):
        result = computed(rows_task(table, index), WHOLE["aie2"], [table, index])
        assert result.tobytes() == table[index].tobytes()


def test_tables_that_are_views() -> None:
    base = random_bits((60, 3, 10), float32)
    index = indices(20, (9,))
    every_third = base[::3]
    assert computed(rows_task(every_third, index, base=base), WHOLE["aie2p"], [base, index]).tobytes() == (
        every_third[index].tobytes()
    )
    one_more = base[None]
    assert computed(rows_task(one_more, index, 1, base), WHOLE["aie2p"], [base, index]).tobytes() == (
        np.take(one_more, index, 1).tobytes()
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(1, 400),
    st.integers(1, 700),
    st.integers(1, 200),
    st.sampled_from([int32, bfloat16, int8]),
    st.sampled_from(TARGETS),
)
def test_an_offer_is_a_design_that_runs(rows: int, length: int, number: int, dtype: DType, where: Target) -> None:
    table, index = random_bits((rows, length), dtype), indices(rows, (number,))
    task = rows_task(table, index)
    answer = get_rows.claim(task, where)
    if isinstance(answer, Offer):
        assert simulate(task, answer, where, [table, index])[0].tobytes() == table[index].tobytes()
        return
    assert "would stream by" in answer.reason
    # Slices of a row overlap by less than half of it.
    assert 1.5 * table.nbytes * -(-number // 16) > max(2**20, 32 * number * length * dtype.itemsize)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([1, 3, 100, 999, 5000, 40000]),
    st.sampled_from([1, 5, 64, 1000, 4097, 20000]),
    st.sampled_from([1, 3, 10, 333, 4096, 20000]),
    st.sampled_from([int32, bfloat16, int8]),
    st.sampled_from(TARGETS),
)
def test_an_offer_for_large_shapes_passes_every_check(
    rows: int, length: int, number: int, dtype: DType, where: Target
) -> None:
    table, index = np.zeros((rows, length), dtype.numpy), np.zeros(number, np.int32)
    answer = get_rows.claim(rows_task(table, index), where)
    if isinstance(answer, Offer):
        accepted(answer)


@arrays
def test_traffic_is_the_table_once(where: Target) -> None:
    """This holds if the cores can hold all result rows. Every column takes part."""
    table, index = random_bits((1000, 2048), bfloat16), indices(1000, (64,))
    counters = count(accepted(get_rows.claim(rows_task(table, index), where)))
    entered = {
        channel: nbytes
        for channel, nbytes in counters.stream_bytes.items()
        if channel.tile.kind == "shim" and channel.direction == "out" and channel.fifo.startswith("table")
    }
    assert table.nbytes <= sum(entered.values()) < 1.05 * table.nbytes
    assert {channel.tile.column for channel in entered} == set(range(where.columns))


def test_refusals_say_why() -> None:
    table = random_bits((20000, 64), float32)
    cases = [
        (rows_task(table, indices(100, (2,))), "5120000 bytes would stream by for 512 bytes of rows"),
        (rows_task(table[:40], indices(40, (2,)), 1), "along dimension 1"),
        (rows_task(table[:40, ::2], indices(40, (2,)), base=table), "not neighbours"),
        (rows_task(table[:0], indices(1, (2,)), base=table), "no rows"),
    ]
    for task, words in cases:
        refusal = get_rows.claim(task, WHOLE["aie2p"])
        assert isinstance(refusal, Refusal)
        assert words in refusal.reason
