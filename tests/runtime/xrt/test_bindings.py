"""Search for pyxrt, and opening of devices."""

import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from npu_tensor.config import config
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.shared_libraries import XRT
from npu_tensor.runtime.xrt import bindings
from npu_tensor.runtime.xrt.bindings import open_device, pyxrt

SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
FAKE = "class device: pass\n"


@pytest.fixture(autouse=True)
def _no_pyxrt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Neither this machine's nor one that another test has found."""
    for variable in ("NPU_TENSOR_XRT_PATH", "XILINX_XRT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(bindings, "USUAL_PLACES", (str(tmp_path / "usual").removeprefix("/"),))
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not list(Path(entry).glob("pyxrt*"))])
    monkeypatch.delitem(sys.modules, "pyxrt", raising=False)
    monkeypatch.setattr(bindings, "_opened", {})
    monkeypatch.setattr(bindings, "_opener", None)
    config.reset()
    yield
    sys.modules.pop("pyxrt", None)
    monkeypatch.undo()
    config.reset()


def module(directory: Path, text: str = FAKE, name: str = "pyxrt.py") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text(text)
    return directory / name


def tried() -> list[str]:
    with pytest.raises(DeviceError) as caught:
        pyxrt()
    assert caught.value.code == "NOT_FOUND"
    first, *lines = str(caught.value).splitlines()
    assert first == "XRT's Python module pyxrt was not found. Tried"
    return [line.strip() for line in lines]


def test_places_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = module(tmp_path / "installed")
    usual = module(tmp_path / "usual")
    inside = module(tmp_path / "xrt/python")
    beside = module(tmp_path / "xrt")
    monkeypatch.syspath_prepend(str(installed.parent))
    monkeypatch.setenv("XILINX_XRT", str(tmp_path / "xrt"))
    for file in (installed, inside, beside, usual):
        assert pyxrt().__file__ == str(file)
        assert pyxrt() is sys.modules["pyxrt"]
        del sys.modules["pyxrt"]
        file.unlink()
    assert tried() == [
        "import pyxrt: not found",
        f"XILINX_XRT: {tmp_path / 'xrt/python'}: not found",
        f"XILINX_XRT: {tmp_path / 'xrt'}: not found",
        f"usual place: {tmp_path / 'usual'}: not found",
    ]


def test_a_module_for_another_python_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = module(tmp_path / "usual", "", "pyxrt.cpython-39-x86_64-linux-gnu.so")
    installed = module(tmp_path / "installed", "", "pyxrt.cpython-27-aarch64-linux-gnu.so")
    monkeypatch.syspath_prepend(str(installed.parent))
    assert tried() == [
        f"import pyxrt: {installed}: built for Python 2.7; this Python takes pyxrt{SUFFIX}",
        f"usual place: {other}: built for Python 3.9; this Python takes pyxrt{SUFFIX}",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise RuntimeError('no good')", "no good"),
        ("raise ImportError('Python version mismatch: compiled for 3.9')", "Python version mismatch: compiled for 3.9"),
        ("class other: pass", "is not XRT's module: it has no `device`"),
    ],
)
def test_a_module_that_cannot_be_used_is_passed_over(tmp_path: Path, text: str, reason: str) -> None:
    module(tmp_path / "broken", text)
    fine = module(tmp_path / "fine")
    with config.scope(xrt_path=[tmp_path / "broken", tmp_path / "fine"]):
        assert pyxrt().__file__ == str(fine)
        del sys.modules["pyxrt"]
        fine.unlink()
        lines = tried()
    assert lines[2].startswith(f"config.xrt_path: {tmp_path / 'broken'}: ")
    assert lines[2].endswith(reason)
    assert "pyxrt" not in sys.modules


EXTENSION = """
#include <Python.h>
unsigned xrtVersionMajor(void);
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "pyxrt"};
PyMODINIT_FUNC PyInit_pyxrt(void) {
    PyObject *made = PyModule_Create(&definition);
    PyModule_AddIntConstant(made, "device", xrtVersionMajor());
    return made;
}
"""


@pytest.mark.skipif(not Path(sysconfig.get_path("include"), "Python.h").is_file(), reason="there is no Python.h")
def test_its_library_is_found_where_xrt_is(tmp_path: Path) -> None:
    """The installation is in a directory that the system's loader does not know."""
    python, lib = tmp_path / "xrt/python", tmp_path / "xrt/lib"
    python.mkdir(parents=True)
    lib.mkdir()
    version = {"xrtVersionMajor": 2, "xrtVersionMinor": 21, "xrtVersionPatch": 75}
    functions = dict.fromkeys(XRT.symbols, 0) | version
    source = "".join(f"unsigned {name}(void) {{ return {number}; }}\n" for name, number in functions.items())
    library = lib / XRT.names[0]
    include = f"-I{sysconfig.get_path('include')}"
    for text, file, flags in (
        (source, library, [f"-Wl,-soname,{XRT.names[0]}"]),
        (EXTENSION, python / f"pyxrt{SUFFIX}", [include, f"-L{lib}", f"-l:{XRT.names[0]}"]),
    ):
        command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(file), *flags]
        subprocess.run(command, input=text, text=True, check=True)

    program = (
        "import npu_tensor; from npu_tensor.runtime.xrt import bindings\n"
        "bindings.USUAL_PLACES = ()\n"
        "try: print(bindings.pyxrt().__file__, bindings.pyxrt().device, bindings.xrt_version())\n"
        "except npu_tensor.DeviceError as error: print(error)"
    )
    environment = {**os.environ, "XILINX_XRT": str(tmp_path / "xrt"), "PYTHONPATH": os.pathsep.join(sys.path)}

    def run() -> str:
        # -S excludes the packages of this Python, which may include XRT.
        command = [sys.executable, "-S", "-c", program]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert run() == f"{python / f'pyxrt{SUFFIX}'} 2 2.21.75\n"
    library.rename(tmp_path / "elsewhere")
    assert f"XILINX_XRT: {python}: {XRT.names[0]}: cannot open shared object file" in run()


class Opener(ModuleType):
    """A pyxrt whose devices open as `answers` say, one after the other: an error, or nothing."""

    def __init__(self, *answers: str) -> None:
        super().__init__("pyxrt")
        self.answers = list(answers)
        self.opened: list[int] = []

    def device(self, index: int) -> object:
        self.opened.append(index)
        if self.answers and (answer := self.answers.pop(0)):
            raise RuntimeError(answer)
        return object()


@pytest.fixture
def opener(monkeypatch: pytest.MonkeyPatch) -> Opener:
    made = Opener()
    monkeypatch.setitem(sys.modules, "pyxrt", made)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return made


BUSY = "Open /dev/accel/accel0 failed (err=-19): No such device"


def test_a_device_that_is_away_for_a_moment(opener: Opener) -> None:
    opener.answers = [BUSY, BUSY, ""]
    open_device(0)
    assert opener.opened == [0, 0, 0]


def test_a_device_that_stays_away(opener: Opener) -> None:
    opener.answers = [BUSY] * 100
    with pytest.raises(DeviceError, match=r"XRT cannot open NPU 0: Open /dev/accel/accel0 failed \(err") as caught:
        open_device(0)
    assert caught.value.code == "UNAVAILABLE"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("Open /dev/accel/accel0 failed (err=-13): Permission denied", "UNAVAILABLE"),
        (" No such device with index '3'", "OUT_OF_RANGE"),
    ],
)
def test_other_errors_are_raised_at_once(opener: Opener, said: str, code: str) -> None:
    opener.answers = [said]
    with pytest.raises(DeviceError) as caught:
        open_device(3)
    assert str(caught.value) == f"XRT cannot open NPU 3: {said.strip()}"
    assert caught.value.code == code
    assert opener.opened == [3]
