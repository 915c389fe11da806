"""Fixtures of the XRT tests: a machine with one NPU, accessed through a stand-in for pyxrt."""

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "standin"))
from backend import StandinBackend
from machine import Machine, Npu, install

from npu_tensor.config import config
from npu_tensor.planner import selection
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.xrt import bindings, engines, xrt_device


@pytest.fixture(autouse=True)
def _always() -> Iterator[None]:
    """Run all supported ops on the NPU, even if the CPU is faster. Every kernel is a launch."""
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


_versions = itertools.count(os.getpid() * 1000)
"""Version numbers that are unique per process, because the processes of one run share files on disk."""


@pytest.fixture
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels that other tests have checked be compared with the CPU again."""
    version = f"2.25.{next(_versions)}"
    monkeypatch.setattr(bindings, "xrt_version", lambda: version)


def _machine(machine: Machine, monkeypatch: pytest.MonkeyPatch, library: KernelLibrary) -> Iterator[Machine]:
    monkeypatch.setattr(bindings, "_opened", {})
    monkeypatch.setattr(bindings, "_opener", None)
    monkeypatch.setattr(xrt_device, "library", lambda: library)
    monkeypatch.setattr(engines, "_engines", {})  # Those of other tests may be of NPUs that this machine has not.
    with install(machine):
        selection.reset()
        yield machine
        selection.reset()
    assert not machine.crashes, "\n".join(machine.crashes)
