"""The self-test on a simulated NPU with faults, used through a stand-in for XRT: its report names each fault."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from npu_tensor.cli import selftest as self_test
from npu_tensor.cli.selftest import selftest_command as command
from npu_tensor.cli.selftest.outcome import FAILED
from npu_tensor.cli.selftest.stages import STAGES, steps

SHORT = [
    ("probes", "one kernel"),
    ("first kernels", "elementwise-one_stream-i32"),
    ("kernels", "elementwise-two_streams-i32"),
]


@pytest.fixture
def fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """A function that runs the command with a fault in the first kernel, and returns the report, with its text."""
    here = Path(__file__).parent
    paths = [here, here.parent / "helpers", here.parent / "runtime/xrt/standin", *sys.path]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
    monkeypatch.setenv("NT_OCCURRED", str(tmp_path / "occurred"))
    monkeypatch.setattr(self_test, "CHILD", "import faulty_selftest; faulty_selftest.main()")
    monkeypatch.setattr(self_test, "steps", lambda *_: SHORT)

    def run(name: str) -> dict[str, Any]:
        monkeypatch.setenv("NT_FAULT", name)
        files = tmp_path / "report.txt", tmp_path / "report.json"
        options = ("--device", "npu", "--quick", "--report", files[0], "--json", files[1])
        done = CliRunner().invoke(command, list(map(str, options)))
        report: dict[str, Any] = json.loads(files[1].read_text("utf-8"))
        assert done.exit_code == (0 if report["ok"] else 1), done.output
        return report | {"text": files[0].read_text("utf-8")}

    return run


FAULTS = {
    "ERROR": ("launch failed", "state ERROR", "sudo dmesg"),
    "TIMEOUT": ("hang", "state TIMEOUT", "sudo dmesg"),
    "HANG": ("hang", "no answer within 0.5 s", "reboot"),
    "BLOCKED": ("hang", "no answer within 5 s", "reboot"),
    "GARBAGE": ("wrong", "elements differ", "mlir-aie#3653"),
    "START": ("launch failed", "err=-5", "sudo dmesg"),
    "LOST": ("device lost", "err=-19", "reload the module"),
    "CONTEXT": ("no context", "err=-28", "aie-partitions"),
    "MEMORY": ("out of memory", "err=-12", "locked memory"),
    "BAD_ALLOC": ("out of memory", "std::bad_alloc", "locked memory"),
    "CRASH": ("crash", "signal SIGABRT\nterminate called after", "bug report"),
    "BUILD": ("build failed", "BuildError: Peano failed in ~/work", "mlir-aie"),
    "REFUSED": ("refused", "too much", ""),
}
"""Result, reason and advice of each fault."""


@pytest.mark.usefixtures("_compiler")
@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_named_and_the_next_steps_run(name: str, fault: Callable[[str], dict[str, Any]]) -> None:
    result, reason, advice = FAULTS[name]
    report = fault(name)
    first, faulty, last = report["rows"]
    assert (first["result"], last["result"]) == ("pass", "pass"), report["text"]
    assert faulty["result"] == result, report["text"]
    assert reason in faulty["reason"]
    assert advice in faulty["advice"]
    assert report["ok"] is (result not in FAILED)
    assert f"{result.upper() if result in FAILED else result}" in report["text"]
    assert all(line in report["text"] for line in faulty["reason"].splitlines())


@pytest.mark.usefixtures("_compiler")
def test_without_its_device_the_test_ends(fault: Callable[[str], dict[str, Any]]) -> None:
    report = fault("GONE")
    assert [row["result"] for row in report["rows"]] == ["pass", "device lost", "not run"]
    assert "the device does not run a sum of 64 integers" in report["rows"][2]["reason"]


@pytest.mark.usefixtures("_compiler")
def test_a_device_that_never_answers_again_ends_the_test(
    fault: Callable[[str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_test, "RUN_SECONDS", 20)
    report = fault("STUCK")
    assert [row["result"] for row in report["rows"]] == ["pass", "hang", "not run"]
    assert "no answer within 20 s" in report["rows"][2]["reason"]


@pytest.mark.usefixtures("_compiler")
def test_all_stages(fault: Callable[[str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kernels = {"elementwise-one_stream-bf16", "elementwise-two_streams-i32"}
    plan = [step for step in steps("npu", (), (), False) if "kernels" not in step[0] or step[1] in kernels]
    monkeypatch.setattr(self_test, "steps", lambda *_: plan)
    monkeypatch.setenv("NPU_TENSOR_CACHE_DIR", str(tmp_path / "cache"))
    report = fault("none")
    assert list(dict.fromkeys(row["stage"] for row in report["rows"])) == list(STAGES)[1:]
    assert "Python" in report["machine"]
    bad = [row for row in report["rows"] if row["result"] in FAILED and row["stage"] != "doctor"]
    assert bad == [], report["text"]
    assert "AIE-0123456789abcdef" not in report["text"]
