"""explain says where ops run without running them."""

from __future__ import annotations

import npu_tensor as nt
from npu_tensor import events


def test_every_op_has_a_row_and_nothing_runs() -> None:
    x, w, b = nt.ones(8, 16), nt.ones(4, 16), nt.ones(4)
    nt.realize(x, w, b)
    seen: list[events.Event] = []
    with events.listen(seen.append):
        out = nt.linear(x, w, b).relu().cumsum(0)
        table = nt.explain(out)
    assert not any(isinstance(event, events.KernelRan) for event in seen)
    assert not out.is_realized
    by_op = {row.op: row for row in table}
    assert by_op["permute"].device == "-"
    assert by_op["relu"].kernel == "gemm"
    assert by_op["add"].kernel.startswith("fused into")
    assert by_op["cumsum"].kernel == "numpy"
    assert "no compiled form" in by_op["cumsum"].why
    assert by_op["cumsum"].line.startswith("test_display.py:")
    assert all(row.seconds is None or row.seconds > 0 for row in table)


def test_prints_as_an_aligned_table() -> None:
    text = str(nt.explain(nt.ones(3) + 1))
    header, *rows = text.splitlines()
    assert header.split()[:3] == ["#", "op", "out"]
    assert all(row[header.index("op")] != " " for row in rows)


def test_realized_tensor_has_no_rows() -> None:
    assert len(nt.explain(nt.ones(3).realize())) == 0


def test_float64_function_runs_in_numpy_with_the_reason() -> None:
    (row,) = nt.explain(nt.zeros(4, dtype=nt.float64).realize().exp())
    assert row.kernel == "numpy"
    assert "float64" in row.why
