"""Every test has a cache and builds of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import HeldBackend

from npu_tensor.config import config
from npu_tensor.runtime.store.background import builds
from npu_tensor.runtime.store.library import KernelLibrary


@pytest.fixture(autouse=True)
def _in_background(tmp_path: Path) -> Iterator[None]:
    with config.scope(cache_path=str(tmp_path / "cache"), kernel_dirs=(), jit="background", force_recompile=False):
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
