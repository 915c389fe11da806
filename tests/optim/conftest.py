"""Fixtures of the tests of optimizers."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _less_optimised(less_optimised: None) -> None:
    """Compile with less optimization: many kernels run once each. tests/ops runs fully optimized ones."""
