"""scripts/env_setup.sh, with an interpreter that logs its arguments and installs nothing."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from paths import ROOT

SCRIPT = ROOT / "scripts" / "env_setup.sh"
REQUIREMENTS = ROOT / "requirements-iron.txt"
TESTED = ROOT / "npu_tensor" / "cli" / "doctor" / "tested.json"
SHELLS = ["bash", pytest.param("zsh", marks=pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed"))]

# Answers as CPython and pip do as far as the script can see it: an environment is a directory with bin/activate, in
# which this file is the interpreter; a package is there once it was installed.
PYTHON = r"""#!/bin/bash
echo "$(basename "$0")|$*" >> "$CALLS"
packages="$(dirname "$0")/../lib/python3.12/site-packages"
case "$*" in
    *"${FAILS:-no such command}"*) exit 3 ;;
    "-c import sys"*) echo "${NUMBER:-3.12}" ;;
    "-m venv "*)
        for directory; do :; done
        mkdir -p "$directory/bin" "$directory/lib/python3.12/site-packages"
        cp "$0" "$directory/bin/python"
        echo "export VIRTUAL_ENV='$directory'; PATH='$directory/bin:'\$PATH" > "$directory/bin/activate"
        ;;
    "-m pip install --editable "*) touch "$packages/npu_tensor" ;;
    "-m pip install "*) mkdir -p "$packages/llvm-aie" ;;
    "-I -c import npu_tensor") test -e "$packages/npu_tensor" ;;
    "-c import pyxrt") exit 1 ;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path) -> dict[str, str]:
    """An environment whose python3 is the one above; its calls go to tmp_path/calls."""
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(PYTHON)
    python.chmod(0o755)
    return {"PATH": f"{python.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), "CALLS": str(tmp_path / "calls")}


def run(program: str, environment: dict[str, str], shell: str = "bash") -> subprocess.CompletedProcess[str]:
    options = ["--noprofile", "--norc"] if shell == "bash" else ["--no-rcs"]
    return subprocess.run(
        [shell, *options, "-c", program], env=environment, cwd=environment["HOME"], capture_output=True, text=True
    )


def calls(environment: dict[str, str]) -> list[list[str]]:
    """[interpreter, arguments], without questions that change nothing."""
    path = Path(environment["CALLS"])
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return [line.split("|") for line in lines if "-m " in line]


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_shellcheck_finds_nothing() -> None:
    assert subprocess.run(["shellcheck", SCRIPT], capture_output=True, text=True).stdout == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_a_dry_run_prints_the_commands_in_order_and_changes_nothing(shell: str, fake: dict[str, str]) -> None:
    before = sorted(path.name for path in ROOT.iterdir())
    program = f"set -u; . {SCRIPT} iron --dry-run --dir new && . {SCRIPT} --dry-run --dir new && echo twice"
    done = run(program, fake, shell)
    assert done.returncode == 0, done.stderr
    directory = f"{fake['HOME']}/new"
    once = [
        f"+ python3 -m venv --system-site-packages {directory}",
        f"+ {directory}/bin/python -m pip install -r {REQUIREMENTS}",
        f"+ {directory}/bin/python -m pip install --editable {ROOT}",
        f"+ . {directory}/bin/activate",
        f"+ export PEANO_INSTALL_DIR={directory}/lib/python3.12/site-packages/llvm-aie",
    ]
    assert done.stdout.splitlines() == [*once, *once, "twice"]
    assert calls(fake) == []
    assert not Path(directory).exists()
    assert sorted(path.name for path in ROOT.iterdir()) == before


def test_it_can_be_run_without_being_sourced(fake: dict[str, str]) -> None:
    done = run(f"bash {SCRIPT} --dry-run", fake)
    assert done.returncode == 0
    assert f"venv --system-site-packages {ROOT}/.venv-iron\n" in done.stdout
    assert run(f"bash {SCRIPT} --frobnicate", fake).returncode == 1


@pytest.mark.parametrize("shell", SHELLS)
def test_it_makes_the_environment_once_and_activates_it_every_time(shell: str, fake: dict[str, str]) -> None:
    program = f'set -u; . {SCRIPT} --dir "my env" && echo "$VIRTUAL_ENV|$PEANO_INSTALL_DIR|$(command -v python)"'
    directory = f"{fake['HOME']}/my env"
    wanted = f"{directory}|{directory}/lib/python3.12/site-packages/llvm-aie|{directory}/bin/python"
    install = ["python", f"-m pip install -r {REQUIREMENTS}"]

    first = run(program, fake, shell)
    assert first.stdout.splitlines()[-1] == wanted, first.stderr
    assert "pyxrt cannot be imported" in first.stdout
    assert calls(fake) == [
        ["python3", f"-m venv --system-site-packages {directory}"],
        install,
        ["python", f"-m pip install --editable {ROOT}"],
    ]

    second = run(program, fake, shell)
    assert second.stdout.splitlines()[-1] == wanted, second.stderr
    # pip decides what to install; it does nothing for satisfied requirements.
    assert calls(fake) == [install]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("options", ["", "--frobnicate"])
def test_it_leaves_nothing_behind_but_the_environment(shell: str, options: str, fake: dict[str, str]) -> None:
    names = "compgen -A variable -A function" if shell == "bash" else "typeset +; typeset +f"
    program = f"{{ {names}; }} > before; . {SCRIPT} {options} --dir env; {{ {names}; }} > after"
    run(program, fake, shell)
    listed = ((Path(fake["HOME"]) / name).read_text().splitlines() for name in ("before", "after"))
    before, after = ({line.split()[-1] for line in lines} for lines in listed)
    kept_by_the_shell = {"PIPESTATUS", "OLDPWD"}
    assert after - before - kept_by_the_shell == (set() if options else {"VIRTUAL_ENV", "PEANO_INSTALL_DIR"})


@pytest.mark.parametrize(("version", "page"), [("1.4.0", "v1.4.0"), ("1.4.2.dev7+g0123456", "latest-wheels-4")])
def test_another_version_comes_from_its_own_page(version: str, page: str, fake: dict[str, str]) -> None:
    (install,) = re.findall(r"pip install (--find.*)", run(f". {SCRIPT} --dry-run --mlir-aie {version}", fake).stdout)
    revision = page if page.startswith("v") else "main"
    assert install.split() == [
        *(
            "--find-links",
            f"https://github.com/Xilinx/mlir-aie/releases/expanded_assets/{page}",
            f"mlir_aie=={version}",
        ),
        *("-r", f"https://raw.githubusercontent.com/Xilinx/mlir-aie/{revision}/utils/peano-requirements.txt"),
    ]


def test_the_requirements_name_a_release_and_its_own_page() -> None:
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if line and not line.startswith("#")]
    page, mlir_aie, peano = lines
    *_, newest = json.loads(TESTED.read_text())["mlir-aie"]["tested"]
    assert mlir_aie == f"mlir_aie=={newest}"
    assert page.endswith(f"/Xilinx/mlir-aie/releases/expanded_assets/v{newest}")
    assert peano.endswith(f"/Xilinx/mlir-aie/v{newest}/utils/peano-requirements.txt")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("options", "settings", "words"),
    [
        ("--frobnicate", {}, "unknown option --frobnicate"),
        ("--mlir-aie ''", {}, "--mlir-aie needs a value"),
        ("--python no-such-python", {}, "no-such-python does not run"),
        ("--dir new", {"NUMBER": "3.10"}, "3.11 or newer is needed"),
        ("--dir occupied", {}, "is no environment of Python 3.12"),
        ("--dir new", {"FAILS": "-m pip install -r"}, ""),
        ("--dir new", {"FAILS": "import aie.iron"}, "cannot be imported"),
    ],
)
def test_what_fails_ends_the_script_and_not_the_shell(
    shell: str, options: str, settings: dict[str, str], words: str, fake: dict[str, str]
) -> None:
    (Path(fake["HOME"]) / "occupied").mkdir()
    done = run(f"set -u; . {SCRIPT} {options}; echo the shell goes on after $?", {**fake, **settings}, shell)
    assert done.stdout.splitlines()[-1] == "the shell goes on after 1"
    assert words in done.stderr


def test_it_works_where_a_wheel_puts_it(fake: dict[str, str]) -> None:
    """Beside no sources, so that the package itself comes from an index."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    prefix = Path(fake["HOME"]) / "prefix"
    for place, sources in project["tool"]["setuptools"]["data-files"].items():
        (prefix / place).mkdir(parents=True)
        for path in (path for source in sources for path in ROOT.glob(source)):
            shutil.copy(path, prefix / place)
    done = run(f". {prefix}/share/npu_tensor/scripts/env_setup.sh --dry-run --dir new", fake)
    assert done.returncode == 0, done.stderr
    installs = [arguments.split() for arguments in re.findall(r"pip install (.*)", done.stdout)]
    (option, requirements), package = installs
    assert (option, Path(requirements).read_text()) == ("-r", REQUIREMENTS.read_text())
    assert package == ["npu-tensor"]
