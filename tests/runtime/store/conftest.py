"""Caches for the tests, apart from that of this user."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import HeldBackend

from npu_tensor import events
from npu_tensor.config import CACHE_CLEARED, config
from npu_tensor.runtime.store import directories as store_directories
from npu_tensor.runtime.store.background import builds
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.store import Store


@pytest.fixture
def own_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is left in the machine's temporary directory, and no test sees what another found out."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    monkeypatch.setattr(store_directories, "_refusals", {})
    monkeypatch.setattr(store_directories, "_own", {})
    monkeypatch.setattr(store_directories, "_warned", set())
    monkeypatch.delenv(CACHE_CLEARED, raising=False)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def store(root: Path, own_temporary_directory: Path) -> Store:
    return Store(root)


@pytest.fixture
def emitted() -> Iterator[list[events.Event]]:
    result: list[events.Event] = []
    with events.listen(result.append):
        yield result


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 KB."""
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(path)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("file systems cannot be mounted here")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


@pytest.fixture
def _in_background(tmp_path: Path) -> Iterator[None]:
    """A cache and builds of the test's own."""
    with config.scope(cache_path=str(tmp_path / "cache"), kernel_dirs=(), jit="background"):
        yield
        builds.finish()
        builds.start_anew()


@pytest.fixture
def backend() -> Iterator[HeldBackend]:
    made = HeldBackend()
    yield made
    made.go.set()


@pytest.fixture
def library(backend: HeldBackend) -> KernelLibrary:
    return KernelLibrary(backend)
