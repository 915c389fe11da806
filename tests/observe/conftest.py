"""What the tests of the observers share."""

import pytest

from npu_tensor.planner import selection


@pytest.fixture
def _no_plans() -> None:
    """What the test runs first is planned."""
    selection.reset_plans()
