"""Kernels that are part of the package: making them, finding them, and the sentence where there are none."""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from paths import ROOT

from npu_tensor.cli import main
from npu_tensor.config import config
from npu_tensor.ggml_hsa import config_file
from npu_tensor.ggml_hsa.config_file import Entry
from npu_tensor.runtime.build.iron import IronBackend
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.sim.host_backend import HostBackend
from npu_tensor.runtime.store import kernel_directory
from npu_tensor.runtime.store.library import KernelLibrary

needs_compiler = pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason()))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory of the package's built-in kernels."""
    path = tmp_path / "builtin_kernels"
    monkeypatch.setattr(kernel_directory, "BUILTIN", path)
    return path


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path) -> Iterator[None]:
    with config.scope(kernel_dirs=(), jit=True, cache_path=str(tmp_path / "cache")):
        yield


def wanted(arch: str) -> Entry:
    """The kernel of the minimal configuration for an array."""
    ((entry,), _) = config_file.load_for("minimal", None, [arch])
    return entry


@needs_compiler
def test_kernels_of_the_package_are_found_without_a_compiler(place: Path, tmp_path: Path) -> None:
    arguments = ["gen-kernels", "minimal", "--arch", "aie2p", "--output-dir", str(place), "--target", "host"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert kernel_directory.builtin_targets() == ("aie2p",)
    shutil.copytree(place, tmp_path / "mine")
    with config.scope(jit=False, cache_path=str(tmp_path / "empty")):
        request = wanted("aie2p").request()
        result = KernelLibrary(HostBackend()).find(request)
        assert result.origin == "precompiled"
        assert result.files[".so"].parent == place / "aie2p"
        with config.scope(kernel_dirs=(tmp_path / "mine",)):  # comes first
            result = KernelLibrary(HostBackend()).find(request)
        assert result.files[".so"].parent == tmp_path / "mine" / "aie2p"


# --- directories without kernels


def add_targets(place: Path, *archs: str) -> None:
    for arch in archs:
        (place / arch).mkdir(parents=True)
        (place / arch / "kernel.json").write_text("{}")


NO_COMPILER = "no compiler: No module named 'aie' (mlir-aie)"


@pytest.fixture
def _no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IronBackend, "missing", lambda _: NO_COMPILER)
    monkeypatch.setattr(IronBackend, "toolchain", lambda _: "none")


@pytest.mark.usefixtures("_no_compiler")
def test_an_array_without_kernels_and_without_a_compiler(place: Path) -> None:
    sentence = f"no kernels for `aie2p`: built-in targets are {{}}; set GGML_HSA_KERNEL_DIR or {{}} ({NO_COMPILER})"
    assert kernel_directory.no_kernels("aie2p", IronBackend()) == sentence.format("none", "install mlir-aie")
    add_targets(place, "aie2")
    assert kernel_directory.no_kernels("aie2p", IronBackend()) == sentence.format("aie2", "install mlir-aie")
    assert kernel_directory.no_kernels("aie2", IronBackend()) is None


@pytest.mark.usefixtures("_no_compiler")
@pytest.mark.parametrize("kind", ["ready", "cached"])
def test_kernels_that_are_there_suffice(place: Path, tmp_path: Path, kind: str) -> None:
    made = {"ready": tmp_path / "ready" / "aie2p", "cached": tmp_path / "cache" / "aie2p-none"}[kind]
    (tmp_path / "ready").mkdir()
    with config.scope(kernel_dirs=(tmp_path / "ready",)):
        assert kernel_directory.no_kernels("aie2p", IronBackend()) is not None
        made.mkdir(parents=True)
        assert kernel_directory.no_kernels("aie2p", IronBackend()) is None
        assert kernel_directory.no_kernels("aie2", IronBackend()) is not None


def test_a_compiler_suffices_unless_building_is_off(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IronBackend, "missing", lambda _: None)
    assert kernel_directory.no_kernels("aie2p", IronBackend()) is None
    with config.scope(jit=False):
        reason = str(kernel_directory.no_kernels("aie2p", IronBackend()))
        assert reason.endswith("or set NPU_TENSOR_JIT=wait, so that they are built")


# --- the wheel


@pytest.mark.slow
@pytest.mark.parametrize("archs", [(), ("aie2",)])
def test_a_wheel_brings_the_kernels_that_are_there(tmp_path: Path, archs: tuple[str, ...]) -> None:
    pytest.importorskip("setuptools", minversion="77")
    tree = tmp_path / "tree"

    def unneeded(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name in ("__pycache__", "builtin_kernels")]

    for name in ("npu_tensor", "benchmarks", "kernels", "share", "scripts", "examples"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=unneeded)
    for path in ROOT.glob("[!.]*"):
        if path.is_file():
            shutil.copy(path, tree)
    add_targets(tree / "npu_tensor" / "builtin_kernels", *archs)
    program = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    done: Any = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "dist"], cwd=tree, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        brought = [name for name in file.namelist() if "builtin_kernels" in name]
    assert brought == [f"npu_tensor/builtin_kernels/{arch}/kernel.json" for arch in archs]
