"""Launches of several kernels: one submission, intermediates in scratch, and what follows a fault."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from fake_clock import Clock
from faulty_npu import FaultyNpu
from npu_faults import Fault
from npu_values import Rearranged, reordered
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.errors import LaunchError

pytestmark = [needs_compiler, pytest.mark.usefixtures("less_optimised")]


@pytest.fixture(autouse=True)
def _several(npu: FaultyNpu) -> Iterator[None]:
    with config.scope(launch_milliseconds=500):
        yield


@pytest.mark.parametrize("npu", ["sim:npu1", "sim:npu2"], indirect=True)
def test_kernels_of_one_configuration_are_one_launch(npu: FaultyNpu) -> None:
    for _ in range(2):  # The first launch is compared with those of its kernels one by one.
        value, right = reordered(4)
        before = npu.submissions
        np.testing.assert_array_equal(value.numpy(), right)
    assert npu.submissions - before == 1
    explanation = nt.explain(reordered(4)[0])
    assert (explanation.launches, explanation.configuration_changes, explanation.context_switches) == (1, 0, 0)


@pytest.mark.parametrize("npu", ["sim:npu1", "sim:npu2"], indirect=True)
@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.TIMEOUT, Fault.GARBAGE, Fault.START, Fault.LOST])
def test_a_fault_of_several_configurations(npu: FaultyNpu, clock: Clock, fault: Fault) -> None:
    """Garbage is found by the check of the first run."""
    work = Rearranged()
    if fault is not Fault.GARBAGE:
        work.compute()
    npu.inject(fault)
    with pytest.warns(RuntimeWarning, match="failed on sim:npu"):
        work.compute()
    npu.plug_in()
    clock.now += 100
    work.compute()
    assert not npu.engine.health.failures
    if fault is not Fault.GARBAGE:
        npu.inject(fault)
        with config.scope(fallback="error"), pytest.raises(LaunchError, match="failed on sim:npu"):
            work.compute()
