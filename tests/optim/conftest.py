"""What the tests of optimisers share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _less_optimised(less_optimised: None) -> None:
    """Many kernels run once each; tests/ops runs those of the same ops as users compile them."""
