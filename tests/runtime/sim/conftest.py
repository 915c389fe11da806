"""Fixtures of the simulator tests."""

import pytest

from npu_tensor.runtime.sim import simulated_array


@pytest.fixture
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable `check`, to test the behaviour of invalid designs on the array."""
    monkeypatch.setattr(simulated_array, "require_valid", lambda design: None)
