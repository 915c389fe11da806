"""What the tests of the self-test share."""

from __future__ import annotations

import pytest

from npu_tensor.runtime.sim import host_compiler


@pytest.fixture
def _compiler() -> None:
    """Skips without a compiler for the simulated NPUs."""
    if (reason := host_compiler.reason()) is not None:
        pytest.skip(reason)
