"""Profiles: tables from told events against sums by hand, and of real runs."""

import re
from collections.abc import Sequence

import pytest
from running import needs_compiler
from told import Teller, made

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.observe.profiling import Profile, ProfileRow, profile
from npu_tensor.observe.spans import spans

pytestmark = pytest.mark.usefixtures("_no_plans")


def heard(*tellers: Teller) -> Profile:
    result = Profile()
    for teller in tellers:
        for event in teller.events:
            result.hear(event)
    return result


def only(table: Sequence[ProfileRow], name: str, start: str) -> ProfileRow:
    (row,) = (row for row in table if (row.name, row.start) == (name, start))
    return row


def test_the_first_run_of_a_plan_is_cold_and_pays_for_its_kernel() -> None:
    t = Teller()
    plan = made(("add", "cpu", 8_000), ("mul", "cpu", 4_000))
    t.plan(plan, seconds=1.0, compile_seconds=0.75, kernels={"add": 0.25, "mul": 0.125})
    for seconds in (0.5, 0.0625, 0.03125):
        t.ran("add", seconds, plan, 0)
        t.ran("mul", 2 * seconds, plan, 1)
    table = heard(t).by("op")
    assert [(row.name, row.start, row.runs) for row in table] == [
        ("mul", "cold", 1),
        ("add", "cold", 1),
        ("(plan)", "cold", 1),
        ("mul", "warm", 2),
        ("add", "warm", 2),
    ]
    cold = only(table, "add", "cold")
    assert (cold.total, cold.plan, cold.compile, cold.run, cold.p50) == (0.75, 0, 0.25, 0.5, 0.5)
    # Planning, and what of compiling no single kernel accounts for.
    whole = only(table, "(plan)", "cold")
    assert (whole.total, whole.plan, whole.compile, whole.run) == (0.625, 0.25, 0.375, 0)
    warm = only(table, "mul", "warm")
    assert (warm.total, warm.compile, warm.run) == (0.1875, 0, 0.1875)
    assert (warm.nbytes, warm.bytes_per_second) == (8_000, 8_000 / 0.1875)
    assert sum(row.total for row in table) == 1.0 + 3 * (0.5 + 0.0625 + 0.03125)


def test_by_line_and_by_device() -> None:
    t = Teller()
    t.ran("add", 1.0, lines=("a.py:3",))
    t.ran("mul", 2.0, lines=("a.py:3",), device="npu")
    t.ran("add+mul", 4.0, lines=("a.py:3", "b.py:7"))
    t.ran("add", 8.0)
    result = heard(t)
    assert [(row.name, row.device, row.total) for row in result.by("line")] == [
        ("(not known)", "cpu", 8),
        ("a.py:3, b.py:7", "cpu", 4),
        ("a.py:3", "npu", 2),
        ("a.py:3", "cpu", 1),
    ]
    assert [(row.name, row.runs, row.total) for row in result.by("device")] == [("cpu", 3, 13), ("npu", 1, 2)]
    assert [row["name"] for row in result.rows] == ["add", "add+mul", "mul"]
    with pytest.raises(nt.ArgumentError, match="by op, line, device, plan, not by 'file'"):
        result.by("file")  # type: ignore[arg-type]


def test_by_plan() -> None:
    t = Teller()
    plan = made(("add", "cpu", 0), ("mul", "npu", 0))
    t.plan(plan, 1.0, 0.75, {"add": 0.25})
    for seconds in (4.0, 2.0, 1.0):
        t.ran("add", seconds, plan, 0)
        t.phase("run", seconds)
        t.ran("mul", seconds, plan, 1, device="npu", after=0.0)
        t.plan_ran(2.5 * seconds, plan)
    other = made(("neg", "cpu", 0))
    t.ran("neg", 0.125, other)
    t.plan_ran(0.125, other)
    t.phase("sync", 0.0625)
    result = heard(t)
    assert [(row.name, row.device, row.start, row.runs, row.total) for row in result.by("plan")] == [
        ("add to mul", "cpu, npu", "cold", 1, 11),
        ("add to mul", "cpu, npu", "warm", 2, 7.5),
        ("neg", "cpu", "warm", 1, 0.125),
        ("(fetch)", "npu", "warm", 1, 0.0625),
    ]
    cold, warm, *_ = result.by("plan")
    assert (cold.plan, cold.compile, cold.run, cold.p50) == (0.25, 0.75, 8, 10)
    assert (warm.plan, warm.compile, warm.p50, warm.p95) == (0, 0, 3.75, pytest.approx(4.875))
    t.plan_ran(1.0)
    result.hear(t.events[-1])
    assert [row.runs for row in result.by("plan") if row.name == "(no kernel)"] == [1]


def test_rates_are_of_real_devices_only() -> None:
    t = Teller()
    plan = made(("matmul", "cpu", 3_000), depth=16)
    t.ran("matmul", 0.5, plan)
    t.ran("matmul", 1.5, plan)
    t.simulated(seconds=0.001)
    t.ran("add", 2.0, made(("add", "sim:npu2", 1_000)), device="sim:npu2", after=1.0)
    t.ran("sub", 1.0)
    table = heard(t).by("op")
    product, simulated, unknown = (only(table, name, "warm") for name in ("matmul", "add", "sub"))
    assert product.bytes_per_second == 3_000
    assert product.operations_per_second == 2 * (2 * 8 * 4 * 16) / 2.0
    assert product.predicted is None
    assert (simulated.nbytes, simulated.bytes_per_second, simulated.predicted) == (1_000, None, 0.001)
    assert (unknown.nbytes, unknown.bytes_per_second) == (None, None)
    # So few that they say nothing.
    assert "GB/s" not in str(table)
    assert "GFLOP/s" not in str(table)


def test_the_table_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    t = Teller()
    plan = made(("add", "cpu", 4_000_000))
    t.plan(plan, 0.003, 0.001, {"add": 0.001})
    t.ran("add", 0.002, plan)
    t.ran("add", 0.001, plan)
    result = heard(t)
    result.end = result.start + 0.25
    assert str(result).splitlines() == [
        "250.00 ms: planning 2.00 ms, compiling 1.00 ms, kernels 3.00 ms in 2 runs",
        "name    device  start  runs    total     plan  compile      run      p50      p95  GB/s",
        "add     cpu     cold      1  3.00 ms           1.00 ms  2.00 ms  2.00 ms  2.00 ms     2",
        "(plan)  cpu     cold      1  2.00 ms  2.00 ms                    2.00 ms  2.00 ms",
        "add     cpu     warm      1  1.00 ms                    1.00 ms  1.00 ms  1.00 ms     4",
    ]
    assert repr(result) == str(result)
    assert "simulat" not in str(result)
    t.simulated(1e-4)
    t.ran("<neg>", 1.0, after=0.5)
    result = heard(t)
    assert str(result).splitlines()[-1] == (
        "Times of a simulated NPU are those of the simulation; predicted ones are for the real array."
    )
    page = result._repr_html_()
    assert "&lt;neg&gt;" in page
    assert "<neg>" not in page
    (cell,) = re.findall('<td style="([^"]*)">100.0 us</td>', page)
    assert "text-align:right" in cell
    assert "white-space:nowrap" in cell


# --- of real runs


def test_a_block_is_profiled_and_then_no_more() -> None:
    before = list(events.listeners)
    x = nt.ones(33, 7).realize()
    with profile() as p:
        for _ in range(3):
            (x + 1).exp().realize()
        during = p.seconds
    (x + 2).realize()
    assert events.listeners == before
    assert during <= p.seconds == p.seconds
    cold, warm = (only(p.by("line"), row.name, row.start) for row in p.by("line") if row.name != "(plan)")
    assert (cold.start, warm.start) == ("cold", "warm") or (warm.start, cold.start) == ("cold", "warm")
    assert {cold.name, warm.name} == {row.name for row in (cold, warm)}
    assert all(row.name.startswith("test_profiling.py:") for row in (cold, warm))
    assert sorted((cold.runs, warm.runs)) == [1, 2]
    assert {row.device for row in p.by("op")} == {"cpu"}


@needs_compiler
def test_a_simulated_npu_has_all_phases() -> None:
    x = nt.ones(64, 64).to(nt.bfloat16).realize()
    with nt.default_device("sim:npu2?cols=2", policy="always"):
        with profile() as p:
            for _ in range(2):
                (x * x).realize()
        with profile(tiles=False) as without:
            (x * x).realize()
    rows = [row for row in p.by("op") if row.device == "sim:npu2?cols=2"]
    assert [(row.name, row.runs) for row in rows] == [("mul", 1), ("mul", 1)]
    for row in rows:
        assert min(row.convert, row.sync, row.dispatch, row.run) > 0
        assert row.predicted is not None
    for run in spans(p._heard).runs:
        # The rest goes by while threads wake, which a busy machine delays.
        assert 0.5 < sum(phase.seconds for phase in run.event.phases) / run.event.seconds <= 1
    for each, recorded in ((p, [True, True]), (without, [False])):
        counted = [run.event.simulated for run in spans(each._heard).runs]
        assert [event is not None and event.timeline is not None for event in counted] == recorded
