"""Failures that pyxrt reports, and abandoned runs."""

from collections.abc import Iterator
from unittest import mock

import numpy as np
import pytest
from fake_clock import Clock
from machine import Machine
from npu_faults import Fault
from npu_values import compute, joined, reordered
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.planner import selection
from npu_tensor.runtime.npu import faults, launch_step, launches, npu_engine
from npu_tensor.runtime.npu.agreement import disagreement
from npu_tensor.runtime.xrt import bindings, engines, xrt_driver
from npu_tensor.runtime.xrt.xrt_driver import driver_error

pytestmark = [pytest.mark.usefixtures("_unchecked"), needs_compiler]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (npu_engine, faults, launches, xrt_driver, bindings):
        monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def npu(machine: Machine) -> Iterator[Machine]:
    """The default device."""
    with nt.default_device("npu"):
        yield machine
    assert not machine.complaints


@pytest.mark.parametrize(
    ("error", "lost", "busy", "blameless"),
    [
        (RuntimeError("DRM_IOCTL_AMDXDNA_EXEC_CMD IOCTL failed (err=-19): No such device"), True, False, True),
        (RuntimeError("DRM_IOCTL_AMDXDNA_CREATE_HWCTX IOCTL failed (err=-28): No space left"), False, True, True),
        (RuntimeError("DRM_IOCTL_AMDXDNA_CREATE_HWCTX IOCTL failed (err=-22): Invalid argument"), False, True, False),
        (RuntimeError("DRM_IOCTL_AMDXDNA_CREATE_BO IOCTL failed (err=-12): Cannot allocate"), False, False, True),
        (RuntimeError("DRM_IOCTL_AMDXDNA_EXEC_CMD IOCTL failed (err=-5): Input/output error"), False, False, False),
        (MemoryError("std::bad_alloc"), False, False, False),
    ],
    ids=str,
)
def test_exceptions_are_classified(error: Exception, lost: bool, busy: bool, blameless: bool) -> None:
    meant = driver_error(error)
    assert (str(meant), meant.lost, meant.busy, meant.blameless) == (str(error), lost, busy, blameless)


CAUSES = {
    Fault.ERROR: "ended in state ERROR",
    Fault.TIMEOUT: "ended in state (TIMEOUT|ABORT)",
    Fault.HANG: "no answer within 10 s",
    Fault.START: "err=-5",
    Fault.LOST: "err=-19",
}


def in_one_context(seed: int) -> None:
    """Four launches of one kernel, submitted together."""
    value, expected = reordered(4, seed)
    np.testing.assert_array_equal(value.numpy(), expected)


def in_contexts(seed: int) -> None:
    """Four launches in two contexts, started before any result is read."""
    pairs = [joined(number % 2, seed + number) for number in range(4)]
    for result, _ in pairs:
        result.realize(wait=False)
    for result, expected in pairs[::-1]:
        np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("work", [in_one_context, in_contexts])
@pytest.mark.parametrize("fault", CAUSES, ids=lambda fault: fault.name)
def test_a_fault_at_every_launch(npu: Machine, clock: Clock, fault: Fault, work: mock.Mock) -> None:
    """Nothing of XRT is dropped while it is under way, and the device is used again."""
    npu.polls = 1
    for seed in range(2):
        work(seed)
    for position in range(4):
        npu.inject(fault, after=position)
        with pytest.warns(RuntimeWarning, match=f"failed on npu: (?s:.*)({CAUSES[fault]})"):
            work(10 + position)
        npu.plug_in()
        clock.now += 100
        before = npu.launches
        work(20 + position)
        assert npu.launches - before == 4
        assert not engines._engines[0].health.failures


@pytest.mark.parametrize("fault", [Fault.MEMORY, Fault.BAD_ALLOC], ids=lambda fault: fault.name)
def test_without_memory_the_cpu_computes(npu: Machine, fault: Fault) -> None:
    compute(0)
    npu.inject(fault, times=2)
    with pytest.warns(RuntimeWarning, match="err=-12|bad_alloc"):
        compute(20)
    npu.injected.clear()
    compute(20)
    assert npu.launches == 2


@pytest.mark.parametrize("name", ["machine", "first_generation"])
def test_contexts_are_given_up_where_the_driver_allows_fewer(name: str, request: pytest.FixtureRequest) -> None:
    """Once what runs in them has ended. Where it allows none, the CPU computes."""
    machine: Machine = request.getfixturevalue(name)
    machine.devices[0].context_limit = 1
    machine.polls = 3
    with nt.default_device("npu"):
        for seed in range(2):
            in_contexts(seed)
        assert (machine.launches, machine.live_contexts) == (8, 1)
        selection.reset()
        machine.devices[0].context_limit = 0
        with pytest.warns(RuntimeWarning, match=r"CREATE_HWCTX .*err=-28"):
            compute(0)
    assert not machine.complaints


def test_each_kernel_is_checked_once_per_driver(npu: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_a_new_process(*numbers: int) -> int:
        """Return the number of results that a new process compares with the CPU's."""
        selection.reset()
        with mock.patch.object(launch_step, "disagreement", wraps=disagreement) as compared:
            for number in numbers:
                compute(number)
        return compared.call_count

    assert in_a_new_process(0, 1, 0, 1) == 2
    assert in_a_new_process(0, 2) == 1
    monkeypatch.setattr(bindings, "xrt_version", lambda: "2.99.1")
    assert in_a_new_process(0) == 1
