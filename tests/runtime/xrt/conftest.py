"""What the tests of the XRT device share: a machine with one NPU, behind a stand-in for pyxrt."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

# Not left there: `import pyxrt` must find the stand-in only where a test has installed it.
sys.path.insert(0, str(Path(__file__).parent / "standin"))
import interrupts  # noqa: F401
from backend import StandinBackend
from machine import Machine, Npu, install
from xrt_designs import Files, Loaded, add, affine

with install(Machine()):
    pass
sys.path.pop(0)

from npu_tensor.config import config
from npu_tensor.planner import selection
from npu_tensor.runtime.npu.npu_engine import NpuEngine
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.xrt import bindings, engines, xrt_device


@pytest.fixture(autouse=True)
def _always() -> Iterator[None]:
    """The NPU runs all it has kernels for, also what the CPU would do sooner, and every kernel is a launch."""
    with config.scope(policy="always", launch_milliseconds=0):
        yield


@pytest.fixture(scope="session")
def standin_library() -> KernelLibrary:
    """Kernels that the stand-in can run; each is compiled once for all tests."""
    return KernelLibrary(StandinBackend())


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, standin_library: KernelLibrary) -> Iterator[Machine]:
    """One NPU of the second generation, which nothing has opened yet. Fails a test that misused pyxrt."""
    yield from _machine(Machine([Npu()]), monkeypatch, standin_library)


@pytest.fixture
def first_generation(monkeypatch: pytest.MonkeyPatch, standin_library: KernelLibrary) -> Iterator[Machine]:
    """The same with an NPU of the first generation."""
    yield from _machine(Machine([Npu("RyzenAI-npu1", "0000:c4:00.1")]), monkeypatch, standin_library)


@pytest.fixture(autouse=True)
def _chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches are chained, as after a probe that saw it work: the harder way."""
    monkeypatch.setattr(NpuEngine, "chains", True)


_versions = itertools.count(os.getpid() * 1000)
"""Processes of one run share what is on disk."""


@pytest.fixture
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests have found to be right is compared with the CPU again."""
    version = f"2.25.{next(_versions)}"
    monkeypatch.setattr(bindings, "xrt_version", lambda: version)


def _machine(machine: Machine, monkeypatch: pytest.MonkeyPatch, library: KernelLibrary) -> Iterator[Machine]:
    monkeypatch.setattr(bindings, "_opened", {})
    monkeypatch.setattr(bindings, "_opener", None)
    monkeypatch.setattr(bindings, "_failed", None)
    monkeypatch.setattr(xrt_device, "library", lambda: library)
    monkeypatch.setattr(engines, "_engines", {})  # Those of other tests may be of NPUs that this machine has not.
    with install(machine):
        selection.reset()
        yield machine
        selection.reset()
    assert not machine.crashes, "\n".join(machine.crashes)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A kernel that adds 7."""
    return Files(add(7), tmp_path_factory.mktemp("add"))


@pytest.fixture(scope="session")
def affine_files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A kernel with runtime parameters."""
    return Files(affine(), tmp_path_factory.mktemp("affine"))


@pytest.fixture(scope="session")
def older_files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A kernel for the first generation that adds 7."""
    return Files(add(7, "aie2"), tmp_path_factory.mktemp("older"))


@pytest.fixture
def pyxrt(machine: Machine) -> ModuleType:
    """The stand-in, while it is installed."""
    return sys.modules["pyxrt"]


@pytest.fixture
def loaded(pyxrt: ModuleType, files: Files) -> Loaded:
    """The kernel that adds 7, in a context of its own."""
    return Loaded(pyxrt, pyxrt.device(0), files)
