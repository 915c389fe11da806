"""What the tests of the core share."""

from collections.abc import Iterator

import pytest

from npu_tensor.config import config
from npu_tensor.planner import selection


@pytest.fixture(params=["host", "numpy", *(pytest.param(name, marks=pytest.mark.slow) for name in ("avx2", "sse2"))])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The CPU device as it is, with lower instruction sets, and the NumPy reference."""
    level = request.param
    settings = {"cpu_compile": False} if level == "numpy" else {"cpu_features": level if level != "host" else ""}
    with config.scope(**settings):
        selection.reset()
        yield level
    selection.reset()
