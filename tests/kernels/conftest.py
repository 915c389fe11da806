"""Fixtures of the kernel tests."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _less_optimised(less_optimised: None) -> None:
    """These compile hundreds of kernels."""
