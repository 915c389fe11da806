"""`npu-tensor profile` runs programs as Python does."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from npu_tensor.cli.profile import profile
from npu_tensor.planner import selection

PROGRAM = """
import sys
import helper
import npu_tensor as nt

x = nt.ones(8, 52).realize()
y = (x + helper.ONE).exp().realize()
print(__name__, sys.argv[1:])
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text("ONE = 1\n")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_a_program_is_run_and_profiled(script: Path, tmp_path: Path) -> None:
    selection.reset_plans()  # Other tests may have made this plan.
    before = sys.argv, sys.path[:]
    trace = tmp_path / "trace.json"
    command = ["--by", "line", "--trace", str(trace), str(script), "first", "--second"]
    result = CliRunner().invoke(profile, command, env={"COLUMNS": "200"})
    assert (sys.argv, sys.path) == before
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "__main__ ['first', '--second']"
    assert "planning" in lines[1]
    assert lines[2].split()[:4] == ["name", "device", "start", "runs"]
    assert {line.split()[0] for line in lines[3:-1]} == {"(plan)", "program.py:6", "program.py:7"}
    assert lines[-1] == f"trace: {trace}"
    assert {"plan", "cpu"} <= {
        entry["args"].get("name") for entry in json.loads(trace.read_text("utf-8"))["traceEvents"]
    }


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("sys.exit(3)", 3, ""),
        ("sys.exit()", 0, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("x @ x", 1, "npu_tensor.errors.ShapeError: "),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
    ],
)
def test_the_profile_is_shown_however_the_program_ends(script: Path, end: str, code: int, said: str) -> None:
    script.write_text(f"{PROGRAM}{end}\n")
    result = CliRunner().invoke(profile, [str(script)])
    assert result.exit_code == code
    assert "kernels" in result.stdout
    assert "add+exp" in result.stdout
    assert said in result.stderr
    assert (f'program.py", line 9, in <module>\n    {end}\n' in result.stderr) is (code in (1, 130))
    assert "runpy" not in result.stderr


def test_a_program_may_have_options_with_the_names_of_ours(script: Path) -> None:
    result = CliRunner().invoke(profile, ["--by", "device", str(script), "--by", "line", "--trace", "x", "--help"])
    assert result.exit_code == 0
    assert result.output.splitlines()[0] == "__main__ ['--by', 'line', '--trace', 'x', '--help']"
    assert "program.py" not in result.stdout
    assert not Path("x").exists()
