"""Random launches and faults on both generations."""

from __future__ import annotations

import pytest
import soak
from npu_faults import Fault
from running import needs_compiler

pytestmark = [needs_compiler, pytest.mark.usefixtures("less_optimised")]


@pytest.mark.parametrize("kind", [("sim:npu1", 3), ("sim:npu2", 4)], ids=lambda kind: f"{kind[0]}, {kind[1]} contexts")
def test_every_value_is_right_and_nothing_leaks(kind: tuple[str, int]) -> None:
    """With fewer contexts than kernels, and faults of every kind."""
    report = soak.soak(400, kernels=6, fault_every=8, seed=1, kind=kind)
    assert report.launches >= 400
    assert report.programs
    assert report.changing
    assert report.compared > 100
    assert set(report.faults) == {fault.name for fault in Fault}
    assert report.most_contexts == kind[1] < report.kernels
