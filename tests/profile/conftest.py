"""Every test makes its plans: what it runs first is cold."""

from __future__ import annotations

import pytest

from npu_tensor.planner import selection


@pytest.fixture(autouse=True)
def _no_plans() -> None:
    selection.reset_plans()
