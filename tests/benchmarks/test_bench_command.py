"""The benchmark command: its runs, its files, and its report of missing parts."""

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from running import python
from sessions import row, session

import npu_tensor as nt
from benchmarks import command, run, suites
from benchmarks.cases import SIDE, Case, cases
from benchmarks.peers.npu_tensor import NpuTensor
from benchmarks.results import LeftOut, Row, load, save
from benchmarks.session import QUICK_AMOUNT, measured
from benchmarks.timing import Effort

LITTLE = QUICK_AMOUNT._replace(effort=Effort(rounds=2, block_seconds=1e-6, blocks=15))


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command.bench, arguments)


def bench(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """The results of a run with NumPy as the only peer, if none is named."""
    path = tmp_path / "results.json"
    peers = () if "--peer" in arguments else ("--peer", "numpy")
    outcome = invoke("--quick", "--json", str(path), *peers, *arguments)
    assert outcome.exit_code == 0, outcome.output
    return load(path)


def test_a_suite_writes_rows_machine_and_contenders(tmp_path: Path) -> None:
    before = nt.get_default_device()
    result = bench(tmp_path, "--suite", "dispatch", "--only", "add 16 elements")
    assert nt.get_default_device() == before
    assert {(entry["contender"], entry["device"], entry["kind"]) for entry in result["rows"]} == {
        ("npu_tensor", "cpu", "measured"),
        ("npu_tensor jit", "cpu", "measured"),
        ("numpy", "cpu", "measured"),
    }
    assert {entry["size"] for entry in result["rows"]} == {f"{SIDE}x{SIDE}"}
    assert result["quick"] is True
    assert result["contenders"].keys() == {"npu_tensor", "npu_tensor jit", "numpy"}
    assert {"npu1", "npu2", "cpu"} == {ceiling["device"] for ceiling in result["ceilings"]}


def test_the_sweep_predicts_where_there_is_no_npu() -> None:
    """The crossover needs a figure of an NPU at every size; none of them is called measured."""
    result = list(suites.SUITES["matmul"].run(suites.Task([], (), QUICK_AMOUNT, True, frozenset())))
    rows = [entry for entry in result if isinstance(entry, Row)]
    assert {(entry.device, entry.dtype, entry.size, entry.kind) for entry in rows} == {
        (device, "bfloat16", f"{n}x{n}", "predicted")
        for device in ("npu1", "npu2", "cpu")
        for n in (64, 128, 256, 512, 1024)
    }
    refused = [entry for entry in result if isinstance(entry, LeftOut)]
    assert {entry.dtype for entry in refused} == {"float32"}
    assert all("float32 is exact on the CPU" in entry.reason for entry in refused)
    assert not any(entry.failed for entry in refused)


def test_language_models(tmp_path: Path) -> None:
    rows = bench(tmp_path, "--suite", "language", "--peer", "none")["rows"]
    assert [(entry["case"], entry["size"], entry["dtype"]) for entry in rows[:2]] == [
        ("made-up: prompt", "64", "q8_0"),
        ("made-up: decode", "1", "q8_0"),
    ]
    assert rows[0]["cold"] > rows[0]["p50"] > 0


def test_defects_are_written_and_end_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*operands: nt.Tensor) -> nt.Tensor:
        raise nt.BuildError("no such instruction")

    monkeypatch.setattr(NpuTensor, "linear", staticmethod(fail))
    path = tmp_path / "results.json"
    suite = suites.Suite("made up", ("linear",), lambda task: measured(small_product(), task.libraries, LITTLE))
    monkeypatch.setitem(suites.SUITES, "matmul", suite)
    outcome = invoke("--suite", "matmul", "--peer", "numpy", "--json", str(path))
    assert outcome.exit_code == 1, outcome.output
    assert "Error: npu_tensor cpu linear float32 64x64: BuildError: no such instruction" in outcome.output
    result = load(path)
    assert [entry["contender"] for entry in result["rows"]] == ["numpy"]
    assert {entry["contender"] for entry in result["left_out"] if entry["failed"]} == {"npu_tensor", "npu_tensor jit"}


def small_product() -> Case:
    return next(cases(["linear"], ["64x64"], "matmul"))


def test_peers_that_are_not_there_are_left_out_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "benchmarks.peers.torch", raising=False)
    result = bench(tmp_path, "--peer", "torch", "--suite", "dispatch", "--only", "add 16 elements")
    (entry,) = result["left_out"]
    assert entry["contender"] == "torch"
    assert "torch" in entry["reason"]
    assert "torch" not in result["contenders"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suite", "no_such"], "no_such"),
        (["--suite", "ops", "--only", "no_such"], "no such workload: no_such; there are add, "),
        (["--peer", "scipy"], "scipy"),
        (["--device", "npu:7"], "npu:7"),
        (["--device", "gpu"], "gpu"),
        (["--threshold", "1"], "1"),
        (["--compare", "missing.json"], "missing.json"),
    ],
)
def test_what_is_not_there_is_refused_by_name(arguments: list[str], message: str) -> None:
    outcome = invoke("--quick", *arguments)
    assert outcome.exit_code == 2, outcome.output
    assert message in outcome.output


@pytest.mark.parametrize(("p50", "exit_code"), [(1e-3, 0), (0.5e-3, 1)])
def test_the_exit_code_says_whether_something_has_become_slower(
    p50: float, exit_code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old.json"
    save(old, session([row("npu_tensor", p50), row("numpy", 2e-3)], processor="another"))
    monkeypatch.setattr(run, "measured", lambda *_: session([row("npu_tensor", 1e-3), row("numpy", 2e-3)]))
    outcome = invoke("--suite", "ops", "--compare", str(old))
    assert outcome.exit_code == exit_code, outcome.output
    assert "processor: another before, one now" in outcome.output


def test_a_checkout_and_the_installed_package_run_the_same() -> None:
    commands = (["benchmarks"], ["npu_tensor", "bench"])
    helps = [python("-W", "error", "-m", *each, "--help").stdout.partition("\n")[2] for each in commands]
    assert helps[0] == helps[1]
    assert "--compare" in helps[0]
