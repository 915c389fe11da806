"""Fixtures of the NPU tests: an NPU whose driver fails on demand."""

from collections.abc import Iterator

import faulty_npu
import pytest
from fake_clock import Clock
from faulty_npu import FaultyNpu, installed

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.runtime.npu import faults, launches, npu_engine


@pytest.fixture
def npu(request: pytest.FixtureRequest) -> Iterator[FaultyNpu]:
    """Install the default device, of the second generation unless the test names another one. Every kernel is a launch.

    The fixture fails a test if the runtime violates a rule of the driver.
    """
    made = FaultyNpu()
    with (
        config.scope(launch_milliseconds=0),
        installed(made),
        nt.default_device(getattr(request, "param", "sim:npu2"), "always"),
    ):
        yield made
    assert not made.complaints


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Clock of the NPU's runtime."""
    made = Clock()
    for module in (npu_engine, faults, launches, faulty_npu):
        monkeypatch.setattr(module, "time", made)
    return made
