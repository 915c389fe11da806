"""Counts of the benchmark of launches, without times."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from machine import current
from running import needs_compiler

from benchmarks import launch

pytestmark = needs_compiler


def test_the_benchmark_runs_and_says_that_it_is_no_npu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[tuple[int, int]] = []
    measured = launch._row

    def counting(case: launch.Case, *arguments: Any) -> dict[str, Any]:
        made, before = measured(case, *arguments), current().launches
        case.call()
        counted.append((current().launches - before, current().contexts_made))
        return made

    monkeypatch.setattr(launch, "_row", counting)
    monkeypatch.setattr(launch, "EACH", 3)
    path = tmp_path / "result.json"
    finished = CliRunner().invoke(launch.main, ["--quick", "--json", str(path)], catch_exceptions=False)
    assert finished.exit_code == 0, finished.output
    assert "Nothing here ran on an NPU" in finished.output
    result = json.loads(path.read_text())
    assert result["device"] == "stand-in"
    assert {"date", "processor", "others"} <= set(result["machine"])
    assert [(row["kernels"], row["contexts"], row["asked_us"]) for row in result["rows"]] == [
        (1, 1, 15),
        (1, 1, 15),
        (12, 1, 6),
        (12, 4, 6),
        (12, 4, 6),
    ]
    # One context for relu, and one for each of the four kinds of products, once they were needed.
    assert counted == [(1, 1), (1, 1), (12, 2), (12, 5), (12, 5)]
    for row in result["rows"]:
        assert row["us"] > 0
        assert row["driver_us"] > 0
        assert row["met"] == (row["us"] <= row["asked_us"])
        assert row["syncs"] == 0  # Nothing passes between host and NPU: all operands were there before.
        assert 1 <= row["submissions"] <= row["kernels"]
