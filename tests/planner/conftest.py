"""Fixtures of the planner tests."""

from collections.abc import Iterator

import pytest

from npu_tensor.config import config
from npu_tensor.planner import selection


@pytest.fixture(params=["host", "numpy", pytest.param("sse2", marks=pytest.mark.slow)])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The CPU device as it is, with the lowest instruction set, and the NumPy reference."""
    level = request.param
    settings = {"cpu_features": level if level != "host" else ""}
    with config.scope(**settings):
        selection.reset()
        yield level
    selection.reset()
