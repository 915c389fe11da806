"""Faults of an NPU, after which results are right and one warning names the cause."""

import gc
import itertools
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from fake_clock import Clock
from faulty_npu import FaultyNpu
from npu_faults import Fault
from npu_values import Array, compute, joined, normal, reordered
from running import heard, needs_compiler

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.errors import LaunchError
from npu_tensor.events import Fallback
from npu_tensor.graph.structure import structure_of
from npu_tensor.planner import planner, selection
from npu_tensor.runtime.npu import buffers, launch_step, npu_engine
from npu_tensor.runtime.npu.agreement import disagreement
from npu_tensor.runtime.npu.npu_engine import MOST_FAULTS
from npu_tensor.runtime.npu.packing import pack

pytestmark = [needs_compiler, pytest.mark.usefixtures("clock")]


@pytest.fixture(autouse=True)
def faults(monkeypatch: pytest.MonkeyPatch) -> list[events.DeviceFault]:
    """The events of this kind. Listeners would make the scheduler wait after every kernel."""
    result: list[events.DeviceFault] = []

    def emit(event: events.Event) -> None:
        if isinstance(event, events.DeviceFault):
            result.append(event)

    listening = SimpleNamespace(**{**vars(events), "listeners": [result], "emit": emit})
    monkeypatch.setattr(npu_engine, "events", listening)
    return result


@contextmanager
def warned(faults: list[events.DeviceFault], cause: str, outcome: str = "; the CPU computes") -> Iterator[None]:
    """One event and one warning, which name kernel and cause."""
    faults.clear()
    with pytest.warns(RuntimeWarning) as seen:
        yield
    assert len(faults) == 1, faults
    assert len(seen) == 1, [str(warning.message) for warning in seen]
    message = str(seen[0].message)
    (fault,) = faults
    assert re.search(cause, fault.cause), fault
    assert fault.kernel.startswith(("concat-", "get_rows-")), fault
    assert fault.kernel in message
    assert fault.cause in message
    assert fault.device in message
    assert outcome in message


# --- every fault in every kind of work

Pairs = list[tuple[nt.Tensor, Array]]


def one_kernel(seed: int) -> Pairs:
    result, expected = joined(0, seed)
    return [(result.realize(), expected)]


def one_context(seed: int) -> Pairs:
    """Four launches of one kernel, each on the result of the previous one."""
    value, expected = reordered(4, seed)
    return [(value.realize(), expected)]


def _wider(x: Any, y: Any, cat: Callable[..., Any]) -> Any:
    wide = cat([x, y], 1)
    high = cat([wide, wide], 0)
    return cat([high, high], 1)


def several_contexts(seed: int) -> Pairs:
    """Three kernels, each on the result of the previous one."""
    x, y = normal(16, 32, seed=seed), normal(16, 32, seed=seed + 1)
    result = _wider(nt.from_numpy(x), nt.from_numpy(y), nt.cat)
    return [(result.realize(), _wider(x, y, np.concatenate))]


def asynchronous(seed: int) -> Pairs:
    """Realize without waiting, in two contexts; the last result needs another one. Results are not read in order."""
    pairs = [joined(number % 2, seed + number) for number in range(4)]
    for result, _ in pairs:
        result.realize(wait=False)
    first, expected = pairs[0]
    pairs.append((nt.cat([first, first], 0).realize(wait=False), np.concatenate([expected, expected])))
    return pairs[::-1]


WORK: dict[str, tuple[Callable[[int], Pairs], int]] = {
    "one kernel": (one_kernel, 1),
    "one context": (one_context, 4),
    "several contexts": (several_contexts, 3),
    "asynchronous": (asynchronous, 5),
}

CAUSES = {
    Fault.ERROR: "STATE_ERROR|state ERROR",
    Fault.TIMEOUT: "STATE_TIMEOUT|state TIMEOUT|STATE_ABORT|state ABORT",
    Fault.HANG: "no answer within 10 s",
    Fault.START: "err=-5",
    Fault.LOST: "err=-19",
}


def right(work: Callable[[int], Pairs], seed: int) -> None:
    for result, expected in work(seed):
        np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("fault", CAUSES, ids=lambda fault: fault.name)
def test_the_kernel_that_failed_is_named(
    npu: FaultyNpu, clock: Clock, faults: list[events.DeviceFault], fault: Fault
) -> None:
    """The fault names the failed kernel, not the one before it in another context or the one after it."""
    x, y = nt.from_numpy(normal(16, 32)), nt.from_numpy(normal(16, 32))
    placed: list[Any] = list(planner.plan(structure_of([_wider(x, y, nt.cat)._node])).placed)
    names = [entry.kernel.request.name for entry in placed]
    assert len(set(names)) == 3
    for position, name in enumerate(names):
        right(several_contexts, position)
        npu.inject(fault, after=position)
        with warned(faults, CAUSES[fault]):
            right(several_contexts, position)
        assert faults[0].kernel == name
        npu.plug_in()
        clock.now += 100


# --- suspicion


@contextmanager
def checks() -> Iterator[list[Any]]:
    """Record the comparisons with the CPU."""
    with mock.patch.object(launch_step, "disagreement", wraps=disagreement) as compared:
        yield compared.mock_calls


def test_a_fault_makes_the_device_suspect_until_a_probe(npu: FaultyNpu, faults: list[events.DeviceFault]) -> None:
    """The probe is a launch of the user's, by itself and compared with the CPU."""
    one_kernel(0)
    opened = npu.engine
    npu.inject(Fault.ERROR)
    with warned(faults, "ERROR"):
        right(one_kernel, 1)
    assert (opened.health.failures, opened.health.resting) == (1, False)
    with checks() as compared:
        right(one_kernel, 2)
        assert not opened.health.failures
        assert len(compared) == 1
        right(one_kernel, 3)
        assert len(compared) == 1


def test_nothing_is_launched_while_the_device_rests(npu: FaultyNpu, clock: Clock) -> None:
    one_kernel(0)
    npu.inject(Fault.ERROR, times=2)
    with pytest.warns(RuntimeWarning):
        right(one_kernel, 1)
    with pytest.warns(RuntimeWarning):
        right(one_kernel, 2)
    before = npu.launches
    with heard(Fallback) as left:
        right(one_kernel, 3)
    assert npu.launches == before
    assert [(event.device, "ERROR" in event.reason) for event in left] == [("sim:npu2", True)]
    clock.now += 100
    right(one_kernel, 4)
    assert npu.launches == before + 1


def test_a_kernel_that_fails_three_times_is_left_to_the_cpu(npu: FaultyNpu, clock: Clock) -> None:
    """The others stay on the NPU."""
    compute(0)
    compute(1)
    for _ in range(MOST_FAULTS):
        npu.inject(Fault.ERROR)
        with pytest.warns(RuntimeWarning, match="state ERROR"):
            compute(0)
        clock.now += 100
        compute(1)
        assert not npu.engine.health.failures
    before = npu.launches
    with heard(Fallback) as left:
        compute(0)
    assert re.search(f"it failed {MOST_FAULTS} times on sim:npu2.*state ERROR", left[0].reason)
    assert npu.launches == before
    compute(1)
    assert npu.launches == before + 1


# --- without fallback


@pytest.mark.parametrize(
    ("fault", "name"),
    [*itertools.product(CAUSES, ["several contexts", "asynchronous"]), (Fault.ERROR, "one kernel")],
    ids=lambda value: getattr(value, "name", value),
)
def test_without_fallback(npu: FaultyNpu, clock: Clock, fault: Fault, name: str) -> None:
    """The error names kernel and cause, no wrong result is returned, and the process continues."""
    work, count = WORK[name]
    right(work, 0)
    for position in range(count):
        npu.inject(fault, after=position)
        with config.scope(fallback="error"), pytest.raises(LaunchError) as raised:
            right(work, position)
        assert re.search(r"(concat|get_rows)-\S+ failed on sim:npu2: ", str(raised.value)), raised.value
        assert re.search(CAUSES[fault], str(raised.value))
        npu.plug_in()
        clock.now += 100
        before = npu.launches
        right(work, 10 + position)
        assert npu.launches - before == count


def test_all_abandoned_results_raise_the_error(npu: FaultyNpu) -> None:
    """Every read raises it."""
    compute(0)
    with config.scope(fallback="error"):
        npu.inject(Fault.ERROR, after=1)
        pairs = [joined(0, seed)[0] for seed in range(3)]
        nt.realize(*pairs, wait=False)
        with pytest.raises(LaunchError, match="ERROR"):
            nt.synchronize()
        for _ in range(2):
            for result in pairs:
                with pytest.raises(LaunchError, match="ERROR"):
                    result.numpy()
    with pytest.raises(LaunchError, match="ERROR"):
        nt.cat([pairs[0], pairs[0]], 0).numpy()
    compute(0)


def test_errors_are_raised_in_the_thread_that_launched(npu: FaultyNpu) -> None:
    compute(0)
    compute(1)
    raised: dict[str, list[str]] = {"first": [], "second": []}
    launched, failed = threading.Barrier(2), threading.Barrier(2)

    def work(name: str, number: int) -> None:
        result = joined(number, 1)[0].realize(wait=False)
        launched.wait(10)
        if name == "second":
            failed.wait(10)
        for _ in range(3):
            try:
                nt.synchronize()
            except LaunchError as error:
                raised[name].append(str(error))
        if name == "first":
            failed.wait(10)
        assert result.device == "sim:npu2"

    npu.inject(Fault.TIMEOUT)
    with config.scope(fallback="error"), ThreadPoolExecutor(2) as threads:
        list(threads.map(work, ("first", "second"), (0, 1)))
        nt.synchronize()  # Nothing is left for this one.
    assert [len(texts) for texts in raised.values()] == [1, 1]


# --- the check of a kernel's first results


def test_the_check_can_be_left_out(npu: FaultyNpu) -> None:
    with checks() as compared:
        with config.scope(self_check=False):
            compute(0)
        assert not compared
        selection.reset()  # Like another process, which reads the files again.
        gc.collect()
        compute(0)
        assert len(compared) == 1  # That it ran does not mean that it is right.


def test_garbage_at_the_first_use_is_caught(npu: FaultyNpu, faults: list[events.DeviceFault]) -> None:
    npu.inject(Fault.GARBAGE)
    result, expected = joined(0)
    with checks() as compared:
        with warned(faults, r"differs from the CPU's: \d+ of 4 elements differ", outcome=""):
            np.testing.assert_array_equal(result.numpy(), expected)
        compute(0)
        assert len(compared) == 2  # It was not noted as right.
        compute(0)
        assert len(compared) == 2


# --- the device goes away


def test_lost_and_back(npu: FaultyNpu, clock: Clock, faults: list[events.DeviceFault]) -> None:
    """The CPU computes in the meantime, without further warnings; then kernels and values are loaded again."""
    kept, expected = joined(0)
    kept.realize()
    weights = nt.from_numpy(normal(16, 32))
    nt.cat([weights, weights], 0).realize()
    npu.unplug()
    with warned(faults, "err=-19"):
        compute(0, 1)
    for seed in range(3):
        compute(seed % 2, seed)
        clock.now += 100
    assert npu.launches == 2
    npu.plug_in()
    clock.now += 100
    compute(0, 4)
    compute(1, 5)
    assert npu.launches == 4
    with mock.patch.object(buffers, "pack", wraps=pack) as packed:
        for value, array in ((kept, expected), (weights, weights.numpy())):
            again = nt.cat([value, value], 0)
            np.testing.assert_array_equal(again.numpy(), np.concatenate([array, array]))
            assert again.device == "sim:npu2"
        assert packed.call_count == 2  # Memory of the lost device is not usable by another one.
    assert npu.live_contexts == 4  # Contexts of two numbers, and of concatenations of 4 and of 512 elements each.


def test_unread_values_of_a_lost_device(npu: FaultyNpu, clock: Clock) -> None:
    """Unread values are lost, and the error states this; values that the host has read stay.

    This holds if reading requires the driver to flush the caches. Otherwise unread values can still be read.
    """
    npu.syncs_ask = True
    seen, expected = joined(0)
    lost, _ = joined(0, 1)
    seen.numpy()
    lost.realize()
    npu.unplug()
    for _ in range(2):
        with pytest.raises(LaunchError, match=r"on sim:npu2 cannot be read any more: .*err=-19"):
            lost.numpy()
    with (
        pytest.warns(RuntimeWarning, match=r"concat-\S+ failed on sim:npu2: .*err=-19"),
        pytest.raises(LaunchError, match="cannot be read any more"),
    ):
        nt.cat([lost, seen]).numpy()
    np.testing.assert_array_equal(seen.numpy(), expected)
    npu.plug_in()
    clock.now += 100
    with pytest.raises(LaunchError, match="cannot be read any more"):
        lost.numpy()
    before = npu.launches
    compute(0, 3)
    assert npu.launches == before + 1


# --- hangs


def test_blocks_that_a_hanging_launch_may_write_are_not_used_again(npu: FaultyNpu) -> None:
    compute(0)
    npu.inject(Fault.HANG)
    result, expected = joined(0, 1)
    result.realize(wait=False)
    lease: Any = result._node.value.lease
    block = lease.block
    del lease
    with pytest.warns(RuntimeWarning, match="no answer"):
        np.testing.assert_array_equal(result.numpy(), expected)
    for seed in range(4):
        other = joined(0, seed)[0].realize()
        assert other._node.value.lease.block is not block


def test_many_launches_may_take_longer_together(npu: FaultyNpu, clock: Clock) -> None:
    """The time limit applies to each launch: a queued launch first waits for those before it."""
    for number in range(5):
        compute(number)
    npu.polls = 8
    for order in (range(5), reversed(range(5))):
        pairs = [joined(number, number) for number in range(5)]
        for result, _ in pairs:
            result.realize(wait=False)
        assert npu.launches % 5 == 0
        with mock.patch.object(clock, "shortest", 1.0):
            for number in order:
                result, expected = pairs[number]
                np.testing.assert_array_equal(result.numpy(), expected)
    assert npu.launches == 15


def test_a_long_chain_that_failed_when_devices_were_closed(npu: FaultyNpu) -> None:
    """Each launch needs the one before; they are computed one after the other, not one within the other."""
    with config.scope(self_check=False):
        right(one_context, 0)
        value, expected = reordered(200)
        npu.inject(Fault.ERROR)
        value.realize(wait=False)
        npu.engine.close()
        with pytest.warns(RuntimeWarning, match=r"get_rows-\S+ failed on sim:npu2: .*ERROR"):
            np.testing.assert_array_equal(value.numpy(), expected)
