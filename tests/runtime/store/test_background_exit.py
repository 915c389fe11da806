"""Programs that end, are interrupted or fork while kernels are being built."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes import SECONDS
from paths import ROOT

from npu_tensor.runtime.store.directories import SCRATCH_PREFIX

pytestmark = pytest.mark.usefixtures("_in_background")

# Its compiler writes its process id and that of a child process, and ends when a test writes into `go`.
PROGRAM = f"""
import os, signal, sys
from pathlib import Path
sys.path[:0] = {[str(Path(__file__).parent), str(ROOT / "tests" / "helpers")]}
from fakes import HeldBackend, request
from npu_tensor.errors import BuildError
from npu_tensor.runtime.store.background import builds, finish_builds
from npu_tensor.runtime.build.process import run
from npu_tensor.runtime.store.library import KernelLibrary

COMPILER = '''
import os, subprocess, sys
with open("begun", "w") as file:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    file.write(f"{{os.getpid()}} {{child.pid}}")
open("go").read()
child.kill()
child.wait()
'''

class Backend(HeldBackend):
    def build(self, request, directory, force=False):
        run([sys.executable, "-c", COMPILER], Path.cwd(), directory / "build.log", 600)
        (directory / "out").write_text("made")
        return {{".bin": directory / "out"}}

def find():
    try:
        return library.find(wanted).origin
    except BuildError as error:
        return "pending" if error.pending else str(error)

library, wanted = KernelLibrary(Backend()), request()
print(find(), flush=True)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The directory in which the program runs."""
    for name in ("begun", "go"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "temporary").mkdir()
    return tmp_path


@contextmanager
def started(program: str, place: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A process, and the process ids of the compiler that it has begun and of its child."""
    own = {"NPU_TENSOR_CACHE_DIR": str(place / "cache"), "TMPDIR": str(place / "temporary")}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM + program],
        cwd=place,
        env={**os.environ, "NPU_TENSOR_JIT": "background", **own},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process, [int(number) for number in (place / "begun").read_text().split()]
        finally:
            process.kill()


def runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def left_over(place: Path) -> list[str]:
    """Files of the cache that are none of its locks, and directories of builds."""
    cached = [path.name for path in (place / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"]
    return cached + [path.name for path in (place / "temporary").glob(f"{SCRATCH_PREFIX}*")]


def test_a_program_that_ends_ends_its_builds(place: Path) -> None:
    with started("sys.stdin.read()\nsys.exit(3)", place) as (process, compilers):
        output, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, output) == (3, "pending\n"), errors
    assert "BuildError" not in errors
    assert not any(map(runs, compilers))
    assert left_over(place) == []


def test_an_interrupt_ends_the_program_and_its_builds(place: Path) -> None:
    with started("print('now', flush=True)\nprint(finish_builds())", place) as (process, compilers):
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["pending\n", "now\n"]
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert output == ""
    assert not any(map(runs, compilers))
    assert left_over(place) == []
