"""What was measured on the machine of whoever runs the tests must not decide what they see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from npu_tensor.config import config
from npu_tensor.planner import selection
from npu_tensor.runtime import rates


@pytest.fixture(autouse=True)
def cache(tmp_path: Path) -> Iterator[Path]:
    """An empty cache directory, with devices that were opened for it."""
    with config.scope(cache_path=str(tmp_path)):
        rates.forget()
        selection.reset()
        yield tmp_path
    rates.forget()
    selection.reset()
