"""The file of a session: accepted and rejected contents."""

import copy
from pathlib import Path
from typing import Any

import pytest
from sessions import row, session

from benchmarks.ceilings import ceilings
from benchmarks.compare import changes, differences, lost, regressions
from benchmarks.results import LeftOut, ResultsError, Row, load, save

PREDICTED = row(kind="predicted", device="npu2")


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    content = session([row(), row("numpy"), PREDICTED])
    save(path, content)
    assert load(path) == content
    assert [Row(**result) for result in load(path)["rows"]] == [row(), row("numpy"), PREDICTED]


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        (row()._replace(iterations=29), "iterations"),
        (row()._replace(p99=None), "p99"),
        (row()._replace(p50=0.0), "p50"),
        (row()._replace(kind="guessed"), "kind"),  # type: ignore[arg-type]
        (row()._replace(shapes="4x4"), "shapes"),  # type: ignore[arg-type]
        # Rows that were not measured have neither iterations nor a first run.
        (PREDICTED._replace(iterations=30), "iterations"),
        (PREDICTED._replace(cold=1e-3), "cold"),
        (PREDICTED._replace(idle_seconds=1.0), "idle_seconds"),
    ],
)
def test_a_row_that_says_something_else_is_refused(wrong: Row, place: str, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=rf"rows\[1\]\.{place}"):
        save(tmp_path / "results.json", session([row("numpy"), wrong]))
    assert not any(tmp_path.iterdir())


# --- comparing two sessions finds exactly the slowdowns


ROWS = (
    row("npu_tensor", 1e-3),
    row("npu_tensor jit", 0.5e-3),
    row("numpy", 2e-3),
    row("torch", 3e-3),
    row("npu_tensor", 4e-3, case="mul"),
    row("numpy", 5e-3, case="mul"),
    row("npu_tensor", 6e-3, case="mul", kind="predicted", device="npu2"),
)


def slower(factors: dict[int, float]) -> list[tuple[str, str, str]]:
    """Return the reported slowdowns if the times of these rows are multiplied by factors."""
    old = session(ROWS)
    new = copy.deepcopy(old)
    for number, factor in factors.items():
        new["rows"][number]["p50"] *= factor
    return [
        (change.row["case"], change.row["contender"], change.row["kind"])
        for change in regressions(changes(old, new), 1.25)
    ]


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ({0: 1.5}, [("add", "npu_tensor", "measured")]),
        ({1: 1.5}, [("add", "npu_tensor jit", "measured")]),
        ({4: 1.5, 0: 1.1}, [("mul", "npu_tensor", "measured")]),
        ({6: 1.5}, [("mul", "npu_tensor", "predicted")]),
        # A faster result is not a regression.
        ({0: 0.5}, []),
        # A machine that is slower today slows all contenders.
        (dict.fromkeys(range(6), 1.5), []),
        # Predictions do not depend on the day.
        (dict.fromkeys(range(7), 1.5), [("mul", "npu_tensor", "predicted")]),
        # Peers that were slow for a moment before.
        ({2: 0.5, 3: 0.5}, []),
        # One of the peers is slow for a moment now; the other one shows that the machine is not.
        ({0: 2.0, 2: 4.0}, [("add", "npu_tensor", "measured")]),
        ({0: 2.0, 2: 4.0, 3: 1.9}, []),
        # The worst first.
        ({0: 2.0, 4: 3.0}, [("mul", "npu_tensor", "measured"), ("add", "npu_tensor", "measured")]),
        # Peers of another case say nothing.
        ({4: 2.0, 2: 4.0, 3: 4.0}, [("mul", "npu_tensor", "measured")]),
    ],
)
def test_exactly_the_regressions_are_found(factors: dict[int, float], expected: list[tuple[str, str, str]]) -> None:
    assert slower(factors) == expected


def test_what_is_left_out_now_is_lost() -> None:
    new = session([ROWS[2]])
    assert list(lost(session(ROWS), new)) == []  # the other rows were not requested
    broken = LeftOut("broken", "ops", "add", "float32", "4", "cpu", "npu_tensor", failed=True)
    peer = broken._replace(contender="torch")
    new["left_out"] = [entry._asdict() for entry in (broken, peer, broken._replace(size="8"))]
    (result,) = lost(session(ROWS), new)
    assert (result.row, result.reason) == (ROWS[0]._asdict(), "broken")
    new["left_out"] = [LeftOut("no compiler", "ops", contender="npu_tensor")._asdict()]
    assert [result.row["case"] for result in lost(session(ROWS), new)] == ["add", "mul", "mul"]


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ({}, []),
        ({"date": "2027-01-01T00:00:00+00:00", "others": 0.01}, []),
        ({"others": 1.0}, ["others: other processes used 1.00 cores now"]),
        ({"commit": "0123", "memory_bytes": 1 << 30}, []),  # what an older file does not tell
        ({"processor": "another"}, ["processor: one before, another now"]),
        ({"power": "battery"}, ["power: None before, battery now"]),
        ({"governor": "powersave", "threads": 4}, ["governor: None before, powersave now", "threads: 2 before, 4 now"]),
    ],
)
def test_differences_of_the_machines_are_named(machine: dict[str, Any], expected: list[str]) -> None:
    assert differences(session([]), session([], **machine)) == expected


# --- the lines of the roofline


def lines(dtype: str, flops: int) -> dict[str, Any]:
    """Return the ceilings, by device, of a session with one measured row of one second."""
    row = Row("ops", "add", dtype, [[4]], "4", "cpu", "numpy", "measured", 1.0, flops=flops)
    return {line["device"]: line for line in ceilings([row]) if line["dtype"] == dtype}


def test_lines_of_the_arrays_are_their_peaks() -> None:
    """MACs of a core per cycle, of 4 x 4 cores at 1 GHz and of 8 x 4 at 1.8 GHz; two operations each."""
    result = lines("bfloat16", flops=1)
    assert result["npu1"]["flops_per_second"] == 2 * 128 * 16 * 1.0e9
    assert result["npu2"]["flops_per_second"] == 2 * 32 * 32 * 1.8e9
    assert all("peak" in result[device]["source"] for device in ("npu1", "npu2"))
