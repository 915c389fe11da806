"""Fixtures of the tests of device selection."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_npus import MORE_STRIX, PHOENIX, STRIX, Machine

from npu_tensor.config import config
from npu_tensor.runtime.xrt import bindings


@pytest.fixture
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in ("NPU_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(variable, raising=False)
    config.reset()
    yield
    config.reset()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _own_settings: None) -> Machine:
    """Four NPUs, of which the second is another one than the rest."""
    made = Machine(tmp_path)
    made.has(STRIX, PHOENIX, *MORE_STRIX)
    monkeypatch.setattr(bindings, "pyxrt", lambda: made)
    monkeypatch.setattr(bindings, "open_device", made.open_device)
    return made
