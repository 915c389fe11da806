"""npu-tensor selftest: what it prints, writes and exits with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from broken import Array, BrokenDevice
from click.testing import CliRunner, Result

from npu_tensor.cli.selftest import selftest
from npu_tensor.tools import self_test


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(selftest, list(map(str, arguments)))


def zeros(values: Array) -> None:
    values[...] = 0


def nothing(values: Array) -> None:
    pass


@pytest.mark.usefixtures("_compiler")
def test_a_simulated_npu(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    done = invoke(
        "--device", "sim:npu2", "--family", "movement", "--dtype", "i16", "--dtype", "u8", "--quick", "--json", file
    )
    assert done.exit_code == 0, done.output
    rows = json.loads(file.read_text("utf-8"))["rows"]
    assert len(rows) == 2
    assert {row["dtype"] for row in rows} == {"i16", "u8"}
    assert f"sim:npu2: {len(rows)} pass" in done.stdout
    lines = [line for line in done.stdout.splitlines() if "│ movement" in line]
    assert len(lines) == len(rows)
    assert all("│ simulated │" in line for line in lines)
    assert done.stderr.splitlines()[0] == "1/2 movement-transpose-u8: pass"
    assert len(done.stderr.splitlines()) == len(rows)


def test_a_broken_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(self_test, "_opened", lambda uri: BrokenDevice(zeros))
    file = tmp_path / "report.json"
    done = invoke("--device", "cpu", "--quick", "--json", file)
    assert done.exit_code == 1
    assert "cpu: 37 wrong" in done.stdout
    assert json.loads(file.read_text("utf-8"))["ok"] is False


def test_an_interrupt_shows_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def interrupt(values: Array) -> None:
        calls.append(values)
        if len(calls) > 20:
            raise KeyboardInterrupt

    monkeypatch.setattr(self_test, "_opened", lambda uri: BrokenDevice(interrupt))
    done = invoke("--device", "cpu", "--quick")
    assert done.exit_code == 1
    assert "cpu: 2 pass" in done.stdout
    assert done.stderr.splitlines()[-1] == "Aborted!"


def test_a_report_without_a_directory_is_refused_before_anything_runs(tmp_path: Path) -> None:
    done = invoke("--device", "cpu", "--json", tmp_path / "absent" / "report.json")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "there is no directory" in done.stderr


def test_a_simulated_npu_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    done = invoke("--device", "sim:npu2?cols=4", "--quick")
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr == (
        "Error: sim:npu2?cols=4 needs a C++20 compiler: set CXX or install g++ or clang++\n"
    )


def test_a_report_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(self_test, "_opened", lambda uri: BrokenDevice(nothing))
    file = tmp_path / ("n" * 300)
    done = invoke("--device", "cpu", "--family", "rope", "--json", file)
    assert done.exit_code == 1
    assert "cpu: 15 pass" in done.stdout
    assert "cannot be written: File name too long" in done.stderr


def test_devices_that_there_are_not() -> None:
    assert "there is no simulated npu7" in invoke("--device", "sim:npu7").stderr
    done = invoke("--device", "sim:npu2?cols=99")
    assert done.exit_code == 2
    assert "--device" in done.stderr
