"""Compiler processes: logs, errors, time limits, and the progress bar."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

import pytest

from npu_tensor.errors import BuildError
from npu_tensor.runtime.build import progress
from npu_tensor.runtime.build.process import run


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_output_of_all_commands_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    run(python("print('one')"), tmp_path, log, 60)
    second = python("import sys, os; print(os.environ['LC_ALL'], os.environ['X'], file=sys.stderr)")
    run(second, tmp_path, log, 60, {"X": "y"})
    assert [line for line in log.read_text().splitlines() if not line.startswith("$ ")] == ["one", "C y"]


def test_a_failure_says_what_the_command_said_last(tmp_path: Path) -> None:
    program = "print('early ' * 5000); print('k.cc:1: error: no'); raise SystemExit(1)"
    with pytest.raises(BuildError) as caught:
        run(python(program), tmp_path, tmp_path / "build.log", 60)
    assert str(caught.value).endswith("k.cc:1: error: no")
    assert len(str(caught.value)) <= 6000
    assert not caught.value.transient


def test_a_command_that_a_signal_ended_may_be_tried_again(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        run(python("import os; os.kill(os.getpid(), 9)"), tmp_path, tmp_path / "build.log", 60)
    assert caught.value.transient


@pytest.mark.parametrize(
    "said",
    [
        "g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.",
        "collect2: fatal error: ld terminated with signal 9 [Killed]",
        "clang: error: unable to execute command: Killed",
        "LLVM ERROR: out of memory\nAllocation failed",
        "virtual memory exhausted: Cannot allocate memory",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "subprocess.CalledProcessError: Command '['aiecc']' died with <Signals.SIGKILL: 9>.",
        "ld: final link failed: No space left on device",
        "k.cc:1: fatal error: error writing to /tmp/k.s: Disk quota exceeded",
    ],
)
def test_a_driver_whose_compiler_met_with_an_accident_may_be_started_again(tmp_path: Path, said: str) -> None:
    with pytest.raises(BuildError) as caught:
        run(python(f"print({said!r}); raise SystemExit(1)"), tmp_path, tmp_path / "build.log", 60)
    assert caught.value.transient
    assert str(caught.value) == said


@pytest.mark.parametrize(
    "said",
    [
        "g++: internal compiler error: Segmentation fault signal terminated program cc1plus",
        "error: 'aie.tile' op allocated buffers exceeded available memory",
        "k.cc:3:9: error: expected ';'\n    3 |     catch (const std::bad_alloc &) // Out of memory, Killed",
        "k.cc:3:9: error: 'Killed' was not declared",
    ],
)
def test_repeatable_failures_are_not_accidents(tmp_path: Path, said: str) -> None:
    with pytest.raises(BuildError) as caught:
        run(python(f"print({said!r}); raise SystemExit(1)"), tmp_path, tmp_path / "build.log", 60)
    assert not caught.value.transient


def test_a_command_that_does_not_exist_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no-such-compiler cannot be started"):
        run(["no-such-compiler"], tmp_path, tmp_path / "build.log", 60)


def test_the_time_limit_ends_the_command_and_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    child = "import time; time.sleep(600)"
    program = (
        f"import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {child!r}]); "
        f"open({str(pid)!r}, 'w').write(str(child.pid)); print('waiting', flush=True); child.wait()"
    )
    said = r"ended after 2 s \(NPU_TENSOR_BUILD_SECONDS sets the limit\)\nwaiting"
    with pytest.raises(BuildError, match=said) as caught:
        run(python(program), tmp_path, tmp_path / "build.log", 2)
    assert caught.value.transient
    status = Path(f"/proc/{pid.read_text()}/stat")
    for _ in range(100):
        if not status.exists() or status.read_text().split()[2] == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("the child still runs")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_while_building(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # by which notebooks are known; tests of them load it
    with progress.building("add-1024bf16"):
        deadline = time.monotonic() + 20
        while "building kernels" not in stream.getvalue() and time.monotonic() < deadline and stream.isatty():
            time.sleep(0.01)
        time.sleep(0.1)
    return stream.getvalue()


def test_a_bar_appears_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = shown_while_building(_Terminal(), monkeypatch)
    assert "building kernels" in shown
    assert "add-1024bf16" in shown


def test_nothing_is_printed_into_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_while_building(io.StringIO(), monkeypatch) == ""
