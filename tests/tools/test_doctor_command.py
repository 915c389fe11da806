"""The command: a line for every check, JSON of a fixed shape, and an exit code that scripts can use."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fake_system import FAKE_HSA, FAKE_XRT, Machine, library, source_of

from npu_tensor.cli import doctor as command
from npu_tensor.runtime.devices.shared_libraries import HSA
from npu_tensor.tools import doctor as diagnosis
from npu_tensor.tools.doctor import CHECKS, Finding


@pytest.fixture
def asked(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The command finds this machine."""

    def diagnose(_root: Path) -> list[Finding]:
        return real(machine.root, machine.system())

    real = diagnosis.diagnose
    monkeypatch.setattr(diagnosis, "diagnose", diagnose)
    return machine


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command.doctor, arguments)


def checks_of(result: Result) -> list[str]:
    """The lines that are not about the check above them."""
    return [line for line in result.output.splitlines() if not line.startswith(" ")]


def test_a_line_for_every_check_and_one_for_all(asked: Machine) -> None:
    result = run()
    assert result.exit_code == 0
    *lines, last = checks_of(result)
    assert [line[8:].split("  ")[0].strip() for line in lines] == list(CHECKS)
    assert {line[:8].strip() for line in lines} == {"ok", "note"}
    assert last.startswith("An NPU can be used: npu:0")


def test_what_is_wrong_says_why_and_what_fixes_it(asked: Machine) -> None:
    (asked.root / "dev/accel/accel0").unlink()
    result = run()
    assert result.exit_code == 1
    *lines, last = checks_of(result)
    assert len(lines) == len(CHECKS)
    (wrong,) = (line for line in lines if line.startswith("PROBLEM"))
    below = result.output.splitlines()[result.output.splitlines().index(wrong) + 1 :]
    assert re.fullmatch(r"PROBLEM device files\s+there is no /dev/accel/accel0, .+", wrong)
    assert re.fullmatch(r"        why: .+", below[0])
    assert re.fullmatch(r"        fix: .+--device /dev/accel.+", below[1])
    assert last.startswith("No NPU can be used; fix device files first")


@pytest.mark.parametrize("works", [True, False])
def test_json_has_a_fixed_shape(asked: Machine, works: bool) -> None:
    if not works:
        asked.npus = []
    result = run("--json")
    assert result.exit_code == (0 if works else 1)
    contents = json.loads(result.output)
    assert list(contents) == ["usable", "verdict", "findings"]
    assert contents["usable"] is works
    assert isinstance(contents["verdict"], str)
    assert [finding["check"] for finding in contents["findings"]] == list(CHECKS)
    for finding in contents["findings"]:
        assert list(finding) == ["check", "status", "found", "why", "fix"]
        assert all(isinstance(text, str) and "\n" not in text for text in finding.values())
        assert finding["status"] in ("ok", "note", "problem")
        assert finding["found"]
    problems = [finding for finding in contents["findings"] if finding["status"] == "problem"]
    assert bool(problems) is not works
    assert all(finding["why"] and finding["fix"] for finding in problems)


def start(*arguments: str, pyxrt: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, where the system's loader knows no library of other tests.

    pyxrt: use the one of this machine, if it has one.
    """
    program = "from npu_tensor.cli.doctor import doctor; doctor()"
    if not pyxrt:
        program = f"import sys; sys.modules['pyxrt'] = None; {program}"
    return subprocess.run(
        [sys.executable, "-c", program, "--json", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_this_machine_whatever_it_has(tmp_path: Path) -> None:
    result = start(pyxrt=True, NPU_TENSOR_CACHE_DIR=str(tmp_path))
    assert not result.stderr
    contents = json.loads(result.stdout)
    assert result.returncode == (0 if contents["usable"] else 1)
    assert [finding["check"] for finding in contents["findings"]] == list(CHECKS)
    assert not any("the check itself failed" in finding["found"] for finding in contents["findings"])


def test_another_libhsa_comes_first(machine: Machine, tmp_path: Path) -> None:
    soname = f"-Wl,-soname,{HSA.names[0]}"
    ours = library(tmp_path / "rocm/lib" / HSA.names[0], source_of(HSA), soname, "-Wl,--build-id=0xabcd")
    other = library(tmp_path / "other" / HSA.names[0], source_of(HSA), soname)
    # Where the first directory is that of the variable, which says lib for ROCM_PATH.
    for paths, warned in ((f"{other.parent}:{ours.parent}", True), (f"{ours.parent}:{other.parent}", False)):
        result = start(
            f"--root={machine.root}",
            LD_LIBRARY_PATH=paths,
            ROCM_PATH=str(tmp_path / "rocm"),
            NPU_TENSOR_CACHE_DIR=str(tmp_path / "cache"),
            CXX="/nowhere/c++",
            PATH="/nowhere",
        )
        (hsa,) = (found for found in json.loads(result.stdout)["findings"] if found["check"] == "HSA runtime")
        assert f"{ours}, by ROCM_PATH, build abcd" in hsa["found"]
        assert (hsa["status"], f"but {other} comes first" in hsa["found"]) == (("note" if warned else "ok"), warned)
        assert hsa["fix"] == (f"export LD_LIBRARY_PATH={ours.parent}:$LD_LIBRARY_PATH" if warned else "")


def test_search_paths_of_the_command_line(machine: Machine, libraries: Path, tmp_path: Path) -> None:
    result = start(
        f"--root={machine.root}",
        f"--xrt-search-path={tmp_path}",
        f"--xrt-search-path={libraries / FAKE_XRT.names[0]}",
        f"--amdgpu_libhsa_search_path={libraries / FAKE_HSA.names[0]}",
        NPU_TENSOR_CACHE_DIR=str(tmp_path / "cache"),
    )
    found = {finding["check"]: finding for finding in json.loads(result.stdout)["findings"]}
    assert found["XRT"]["found"].startswith("2.25.0 ")
    assert f"{libraries / FAKE_XRT.names[0]}, by config.xrt_path" in found["XRT"]["found"]
    assert f"{libraries / FAKE_HSA.names[0]}, by config.libhsa_path" in found["HSA runtime"]["found"]
    for directory in (tmp_path / "python", tmp_path):
        assert f"config.xrt_path: {directory}: import of pyxrt halted" in found["pyxrt"]["found"]
