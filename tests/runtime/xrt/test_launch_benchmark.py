"""The benchmark of launches runs and counts right, and its graphs are what it says. No test looks at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from machine import Machine
from paths import ROOT
from running import needs_compiler

import npu_tensor as nt
from benchmarks import launch
from npu_tensor.config import config
from npu_tensor.runtime.xrt import bindings

pytestmark = needs_compiler



def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The benchmark in a process of its own, as users run it, with the kernels that this test has compiled."""
    environment = os.environ | {"NPU_TENSOR_CACHE_DIR": str(config.cache_dir)}
    command = [sys.executable, "-m", "benchmarks.launch", "--quick", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_the_benchmark_runs_and_says_that_it_is_no_npu(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    finished = run("--json", str(path))
    assert finished.returncode == 0, finished.stderr
    assert "Nothing here ran on an NPU" in finished.stdout
    found = json.loads(path.read_text())
    assert found["device"] == "stand-in"
    assert {"date", "processor", "others"} <= set(found["machine"])
    assert [(row["kernels"], row["contexts"], row["asked_us"]) for row in found["rows"]] == [
        (1, 1, 15),
        (1, 1, 15),
        (100, 1, 6),
        (100, 4, 6),
        (100, 4, 6),
    ]
    for row in found["rows"]:
        assert row["us"] > 0
        assert row["driver_us"] > 0
        assert row["met"] == (row["us"] <= row["asked_us"])
        assert row["syncs"] == 0  # Nothing passes between host and NPU: all operands were there before.
        assert 1 <= row["submissions"] <= row["kernels"]


def test_a_device_that_is_not_there_is_refused() -> None:
    finished = run("--device", "npu:63")
    assert finished.returncode == 1
    assert "npu:63" in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize("number", range(5))
def test_a_case_launches_the_kernels_that_it_names(machine: Machine, number: int) -> None:
    with nt.default_device("npu"):
        case = launch.cases()[number]
        case.call()
        assert machine.contexts_made == case.contexts
        first = machine.launches
        case.call()
        assert machine.launches - first == case.kernels


def test_calls_are_recorded_in_order_and_can_be_made_again(machine: Machine) -> None:
    x = nt.from_numpy(np.arange(-512, 512).astype(ml_dtypes.bfloat16))
    with nt.default_device("npu"):
        x.relu().realize()
        before = machine.launches, machine.syncs
        with launch.recorded(bindings.pyxrt()) as calls:
            x.relu().numpy()
        assert machine.launches - before[0] == 1
        names = [name for name, _ in calls]
        assert names.count("run.start") == 1
        assert names.count("bo.sync") == machine.syncs - before[1] == 1
        assert names.index("run.start") < names.index("run.state") < names.index("bo.sync")
        for _, call in calls:
            call()
    assert machine.launches - before[0] == 2
    recorded = len(calls)
    x.relu().realize()
    assert len(calls) == recorded
