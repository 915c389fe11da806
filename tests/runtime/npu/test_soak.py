"""A short soak always; NPU_TENSOR_TEST_ALL=1 makes it 100,000 launches, a third for each limit of contexts."""

from __future__ import annotations

import os

import pytest
import soak
from npu_faults import Fault
from running import needs_compiler

pytestmark = [
    needs_compiler,
    pytest.mark.usefixtures("less_optimised"),
]

ALL = os.environ.get("NPU_TENSOR_TEST_ALL") == "1"


@pytest.mark.parametrize("kind", soak.LIMITS, ids=lambda kind: f"{kind[0]}, {kind[1]} contexts")
def test_every_value_is_right_and_nothing_leaks(kind: tuple[str, int]) -> None:
    launches, recipes, fault_every = (33_334, 1000, 200) if ALL else (300, 8, 40)
    report = soak.soak(launches, recipes, fault_every, seed=kind[1], kind=kind)
    assert report.launches >= launches
    assert report.programs
    assert report.compared > launches / 4
    assert sum(report.faults.values()) > launches / fault_every / 2
    assert report.most_contexts <= kind[1]
    assert not report.left
    if ALL:
        assert report.kernels >= 40
        assert len(report.faults) == len(Fault)
        # The last seven of ten, after everything has been compiled: what leaks in a launch would be thousands of them.
        assert max(report.resident[3:]) - report.resident[3] < 30
        assert max(report.buffers[3:]) < 2 * max(report.buffers[:3])
        assert max(report.objects[3:]) < 1.2 * report.objects[3]
