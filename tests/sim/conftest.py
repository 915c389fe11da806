"""What the tests of the simulated NPU share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from npu_tensor.config import config
from npu_tensor.runtime.sim import array


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled kernels of other processes must not decide what is tested here."""
    with config.scope(cache_path=str(tmp_path_factory.mktemp("cache"))):
        yield


@pytest.fixture
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let designs be loaded that `check` would refuse: what they do on the array is tested here."""
    monkeypatch.setattr(array, "check", lambda design: [])
