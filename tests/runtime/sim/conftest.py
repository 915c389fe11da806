"""Fixtures of the simulator tests."""

from __future__ import annotations

import pytest

from npu_tensor.runtime.sim import simulated_array


@pytest.fixture
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let designs be loaded that `check` would refuse: what they do on the array is tested here."""
    monkeypatch.setattr(simulated_array, "check", lambda design: [])
