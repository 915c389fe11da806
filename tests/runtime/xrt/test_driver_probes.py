"""Probes of a driver and their consequences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from machine import Machine
from npu_faults import Fault
from npu_values import reordered

import npu_tensor as nt
from npu_tensor.cli.selftest import about
from npu_tensor.config import config
from npu_tensor.planner import selection
from npu_tensor.runtime.npu.npu_engine import NpuEngine
from npu_tensor.runtime.xrt import driver_probes
from npu_tensor.runtime.xrt.xrt_device import XrtDevice

pytestmark = pytest.mark.usefixtures("_unchecked")

WELL = {"sums of floats": "rounded to nearest even", "host buffers": "in group 0", "chains of launches": "work"}
SEVERAL = {"kernels in one launch": "work"}


@pytest.fixture(autouse=True)
def _unknown(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is known of the driver."""
    monkeypatch.setattr(NpuEngine, "chains", False)
    with config.scope(launch_seconds=1):
        yield


def device() -> XrtDevice:
    """The NPU."""
    with nt.default_device("npu"):
        (npu, *_) = selection.accelerators(selection.current())
    assert isinstance(npu, XrtDevice)
    return npu


def asked() -> dict[str, str]:
    """Everything that the probes say."""
    return driver_probes.probe(device())


@pytest.mark.parametrize("npu", ["machine", "first_generation"])
def test_a_driver_that_does_everything(npu: str, request: pytest.FixtureRequest) -> None:
    machine = request.getfixturevalue(npu)
    assert asked() == (WELL | SEVERAL if npu == "machine" else WELL)
    assert machine.complaints == []
    assert device().engine.chains
    assert device().engine.driver.group == 0


def test_the_self_test_asks_first(machine: Machine) -> None:
    assert about("npu").items() >= WELL.items()
    machine.faults = lambda launch: Fault.ERROR
    assert "does not run the first probe" in about("npu")["first probe"]


def test_findings_are_kept_for_the_driver(machine: Machine) -> None:
    asked()
    selection.reset()
    device().engine.close()
    device()._checked = None
    assert device().checked.findings == {"group": "0", "chains": "work", "several": "work"}
    machine.chains = False
    assert asked()["chains of launches"].startswith("fail, so that none are used: the launch ended in state ERROR")
    device()._checked = None
    assert device().checked.findings["chains"] == "fail"
    assert not device().engine.chains


@pytest.mark.parametrize("run", ["first", "second"])
def test_a_launch_of_two_kernels_that_fails(machine: Machine, run: str) -> None:
    assert device().costs.reconfiguration_cost is not None
    # Two launches by themselves, and a chain of two with one more, come before.
    machine.inject(Fault.GARBAGE, after=4 if run == "first" else 5)
    result = asked()["kernels in one launch"]
    assert result == f"wrong in the {run} run, so that each is a launch of its own"
    assert device().checked.findings["several"] == "fail"
    assert device().costs.reconfiguration_cost is None


def select_again(times: int) -> None:
    """Launch one kernel several times; each launch reads the result of the previous one."""
    with nt.default_device("npu"):
        value, expected = reordered(times)
        np.testing.assert_array_equal(value.numpy(), expected)


def test_launches_are_started_one_by_one_unless_chains_are_known_to_work(machine: Machine) -> None:
    for submissions in (4, 2):
        select_again(1)  # Compared with the CPU.
        before = machine.submissions
        select_again(4)
        assert machine.submissions - before == submissions
        asked()
    assert machine.complaints == []


def test_buffers_in_the_group_that_the_kernel_names(machine: Machine) -> None:
    machine.group_of_kernel = True
    assert asked()["host buffers"] == "in group 65536, the kernel's: not in 0"
    assert device().engine.driver.group == 1 << 16


def test_an_npu_that_does_nothing(machine: Machine) -> None:
    machine.faults = lambda launch: Fault.HANG
    with pytest.raises(nt.DeviceError, match=r"does not run the first probe: no answer within 1 s; no answer"):
        asked()


def test_rounding_is_described_by_its_first_difference() -> None:
    nearest = driver_probes.OPERANDS.astype(np.float64).sum(axis=0).astype(np.float32)
    assert driver_probes.rounding(nearest) == "rounded to nearest even"
    nearest[3] += 1
    assert "so that float32 is less exact: 1.00000012 + 5.96046448e-08 = 2" in driver_probes.rounding(nearest)
