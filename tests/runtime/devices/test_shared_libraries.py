"""Search for the libraries of XRT and HSA."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from npu_tensor.config import config
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.shared_libraries import HSA, XRT, RuntimeLibrary

VARIABLES = [
    (XRT, "NPU_TENSOR_XRT_PATH"),
    (XRT, "XILINX_XRT"),
    (HSA, "NPU_TENSOR_XRT_PATH"),
    (HSA, "IREE_HAL_AMDGPU_LIBHSA_PATH"),
    (HSA, "ROCM_PATH"),
]
BOTH = pytest.mark.parametrize("wanted", [XRT, HSA], ids=["xrt", "hsa"])


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Libraries that are usable, that lack the first symbol or all, and that need another which is nowhere."""
    directory = tmp_path_factory.mktemp("compiled")

    def library(name: str, source: str, *flags: str) -> Path:
        path = directory / name
        command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path), f"-L{directory}", *flags]
        subprocess.run(command, input=source, text=True, check=True)
        return path

    made = {}
    for name, wanted in (("xrt", XRT), ("hsa", HSA)):
        functions = [f"int {symbol}(void) {{ return 0; }}\n" for symbol in wanted.symbols]
        made[name] = library(name, "".join(functions), "-Wl,--build-id=0x00c0ffee")
        made[f"{name} without"] = library(f"{name}-without", "".join(functions[1:]), "-Wl,--build-id=none")
    needed = library("libneeded.so", "int needed(void) { return 0; }", "-Wl,-soname,libneeded.so")
    made["xrt that needs"] = library("needs", "int needed(void); int n(void) { return needed(); }", "-lneeded")
    needed.unlink()
    return made


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for _, variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    config.reset()
    yield
    monkeypatch.undo()
    config.reset()


def put(library: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(library, target)
    return target


def kind(wanted: RuntimeLibrary) -> str:
    return "xrt" if wanted is XRT else "hsa"


def nowhere(wanted: RuntimeLibrary) -> RuntimeLibrary:
    """The same by names that no loader knows."""
    return wanted._replace(names=("libnt_nowhere.so.1", "libnt_nowhere.so"))


def lines(wanted: RuntimeLibrary) -> list[str]:
    with pytest.raises(DeviceError) as caught:
        wanted.find()
    assert caught.value.code == "NOT_FOUND"
    return str(caught.value).splitlines()


@pytest.mark.parametrize(("wanted", "variable"), VARIABLES, ids=[variable for _, variable in VARIABLES])
def test_a_variable_names_a_file_or_a_directory(
    wanted: RuntimeLibrary,
    variable: str,
    compiled: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = put(compiled[kind(wanted)], tmp_path / "here/lib" / wanted.names[0])
    for named in (file, file.parent, tmp_path / "here"):
        monkeypatch.setenv(variable, str(named))
        config.reset()
        result = wanted.find()
        assert (result.path, result.named_by) == (file, variable)
        assert hasattr(result.handle, wanted.symbols[0])


@BOTH
def test_places_are_tried_in_order(
    wanted: RuntimeLibrary, compiled: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = wanted.names[0]
    files = [put(compiled[kind(wanted)], tmp_path / str(number) / name) for number in range(6)]
    explicit = wanted._replace(search_paths=(tmp_path / "0", tmp_path / "1"))
    monkeypatch.setenv("NPU_TENSOR_XRT_PATH", f"{tmp_path / '2'}{os.pathsep}{tmp_path / '3'}")
    monkeypatch.setenv("PATH", f"{tmp_path / '4'}{os.pathsep}{tmp_path / '5'}")
    by = ["search path"] * 2 + ["NPU_TENSOR_XRT_PATH"] * 2 + ["PATH"] * 2
    for file, named_by in zip(files, by, strict=True):
        result = explicit.find()
        assert (result.path, result.named_by) == (file, named_by)
        file.unlink()


@BOTH
def test_only_a_library_with_the_symbols_is_taken(
    wanted: RuntimeLibrary, compiled: dict[str, Path], tmp_path: Path
) -> None:
    made = kind(wanted)
    wanted = nowhere(wanted)
    put(compiled[f"{made} without"], tmp_path / "a" / wanted.names[0])
    usable = put(compiled[made], tmp_path / "b" / wanted.names[1])
    paths = (tmp_path / "a", tmp_path / "b")
    assert wanted._replace(search_paths=paths).find().path == usable
    usable.unlink()
    tried = lines(wanted._replace(search_paths=paths))
    assert f"  search path: {tmp_path / 'a' / wanted.names[0]}: has no {wanted.symbols[0]}" in "\n".join(tried)


def test_every_place_is_in_the_error_with_the_reason(
    compiled: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = nowhere(XRT)
    name = wanted.names[0]
    (tmp_path / "empty").mkdir()
    text = tmp_path / "text" / name
    text.parent.mkdir()
    text.write_text("not a library")
    needs = put(compiled["xrt that needs"], tmp_path / "needs" / name)
    broken = tmp_path / "loop" / name
    broken.parent.mkdir()
    broken.symlink_to(broken)
    monkeypatch.setenv("XILINX_XRT", str(needs.parent))
    monkeypatch.setenv("PATH", f"{tmp_path / 'empty'}{os.pathsep}{os.pathsep}{tmp_path / 'empty'}")
    wanted = wanted._replace(search_paths=(tmp_path / "none", text, text.parent, broken.parent))
    absent = "cannot open shared object file: No such file or directory"
    assert lines(wanted) == [
        f"XRT's library ({name} or libnt_nowhere.so) was not found. Tried",
        f"  search path: {tmp_path / 'none'}: does not exist",
        f"  search path: {text}: file too short",
        f"  search path: {text}: file too short",
        f"  search path: {broken.parent}: has none of these files",
        f"  XILINX_XRT: {needs}: libneeded.so: {absent}",
        f"  PATH: {tmp_path / 'empty'}: has none of these files",
        f"  the system's loader: {name}: {absent}",
        f"  the system's loader: libnt_nowhere.so: {absent}",
    ]
