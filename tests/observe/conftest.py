"""Fixtures of the observer tests."""

import pytest

from npu_tensor.planner import selection


@pytest.fixture
def _no_plans() -> None:
    """Drop all plans, so that the first run of a test is planned."""
    selection.reset_plans()
