"""What the tests of the self-test share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from npu_tensor.config import config
from npu_tensor.runtime.sim import host_compiler


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled kernels of other processes must not decide what is tested here."""
    with config.scope(cache_path=str(tmp_path_factory.mktemp("cache")), kernel_dirs=(), jit=True):
        yield


@pytest.fixture
def _compiler() -> None:
    """Skips without a compiler for the simulated NPUs."""
    if (reason := host_compiler.reason()) is not None:
        pytest.skip(reason)
