"""The lines of the roofline."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.ceilings import ceilings
from benchmarks.results import Row


def lines(dtype: str, flops: int) -> dict[str, Any]:
    """Of a session with one measured row of a second, by device."""
    row = Row("ops", "add", dtype, [[4]], "4", "cpu", "numpy", "measured", 1.0, flops=flops)
    return {line["device"]: line for line in ceilings([row]) if line["dtype"] == dtype}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_slow_rows_are_no_limit_of_the_processor(dtype: str) -> None:
    found = lines(dtype, flops=1)["cpu"]
    assert found["flops_per_second"] > 1e6  # a processor that took half an hour for the product would have less
    assert found["bytes_per_second"] > 1e6
    assert "best seen here" in found["source"]


def test_no_row_is_faster_than_the_best_that_was_seen() -> None:
    assert lines("float32", flops=10**18)["cpu"]["flops_per_second"] == 1e18


def test_lines_of_the_arrays_are_their_peaks() -> None:
    """MACs of a core per cycle, of 4 x 4 cores at 1 GHz and of 8 x 4 at 1.5 GHz; two operations each."""
    found = lines("bfloat16", flops=1)
    assert found["npu1"]["flops_per_second"] == 2 * 128 * 16 * 1.0e9
    assert found["npu2"]["flops_per_second"] == 2 * 256 * 32 * 1.5e9
    assert all("peak" in found[device]["source"] for device in ("npu1", "npu2"))


def test_a_session_without_the_processor_measures_nothing_of_it() -> None:
    assert {line["device"] for line in ceilings([])} == {"npu1", "npu2"}
