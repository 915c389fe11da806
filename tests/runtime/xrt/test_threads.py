"""Threads, forked and spawned processes on one NPU: what they share, and that nobody gets somebody else's result."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from machine import Machine, Npu
from running import in_child, needs_compiler

import npu_tensor as nt
from npu_tensor.planner import selection

pytestmark = needs_compiler

ALL = os.environ.get("NPU_TENSOR_TEST_ALL") == "1"
REALIZES = 10_000 if ALL else 400
"""Of each of two threads."""

SWITCH_SECONDS = 1e-5
"""How long a thread runs before another one may: the usual 5 ms leave few places where they meet."""


@pytest.fixture(autouse=True)
def _threads_take_turns() -> Any:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    yield
    sys.setswitchinterval(before)


def bfloat16(array: Any) -> nt.Tensor:
    """A tensor of this dtype, which holds the integers of these tests exactly."""
    return nt.from_numpy(np.asarray(array).astype(ml_dtypes.bfloat16))


def side_by_side(*works: Callable[[], None]) -> None:
    """Run all at the same time, each in a thread. Raises what the first of them raises."""
    begin = threading.Barrier(len(works))

    def after_all(work: Callable[[], None]) -> None:
        begin.wait()
        work()

    with ThreadPoolExecutor(len(works)) as pool:
        for finished in [pool.submit(after_all, work) for work in works]:
            finished.result()


class Shared:
    """Operands that all threads read, and the same graphs for all: two kernels in contexts of their own, and both."""

    def __init__(self) -> None:
        generator = np.random.default_rng(5)
        self.right = generator.integers(-3, 4, (16, 32)).astype(float)
        self.right_weight = np.eye(32, 16)
        self.x, self.weight = bfloat16(self.right), bfloat16(self.right_weight)

    def once(self, number: int, wait: bool = True) -> tuple[nt.Tensor, np.ndarray[Any, Any]]:
        """A result and what it must be."""
        own = float(number % 5)
        if number % 3 == 0:
            return (self.x + bfloat16(np.full((16, 32), own))).realize(wait=wait), self.right + own
        if number % 3 == 1:
            return (self.x @ self.weight).realize(wait=wait), self.right @ self.right_weight
        return ((self.x + own) @ self.weight).realize(wait=wait), (self.right + own) @ self.right_weight

    def many(self, count: int, wait: bool = True) -> None:
        """Raises AssertionError for a wrong result."""
        late: list[tuple[nt.Tensor, np.ndarray[Any, Any]]] = []
        for number in range(count):
            late.append(self.once(number, wait))
            if len(late) == 5:  # Read some in the order in which they were made, and some the other way round.
                for result, right in late[:: 1 if number % 2 else -1]:
                    np.testing.assert_array_equal(result.numpy().astype(float), right)
                late.clear()


@pytest.mark.parametrize("wait", [True, False], ids=["realize", "realize later"])
def test_two_threads_share_plans_and_operands(machine: Machine, wait: bool) -> None:
    with nt.default_device("npu"):
        shared = Shared()
        shared.many(5)
        before = machine.launches
        side_by_side(*2 * [partial(shared.many, REALIZES, wait)])
        assert machine.launches - before >= 2 * REALIZES
        nt.synchronize()
        del shared
    selection.reset()
    gc.collect()
    assert (machine.live_contexts, machine.live_bos) == (0, 0)


def test_many_threads_with_few_contexts(machine: Machine) -> None:
    machine.devices[0].context_limit = 2
    machine.polls = 2
    with nt.default_device("npu"):
        shared = Shared()
        side_by_side(*6 * [lambda: shared.many(REALIZES // 8, wait=False)])
        assert machine.live_contexts <= 2


def test_many_threads_look_at_one_value(machine: Machine) -> None:
    machine.polls = 3
    with nt.default_device("npu"):
        shared = Shared()
        for number in range(20):
            result, right = shared.once(number, wait=False)

            def look(result: nt.Tensor = result, right: Any = right) -> None:
                np.testing.assert_array_equal(result.numpy().astype(float), right)
                np.testing.assert_array_equal((result + 1).numpy().astype(float), right + 1)

            side_by_side(*4 * [look])


def test_one_thread_launches_while_another_synchronizes(machine: Machine) -> None:
    ended = threading.Event()

    def launch() -> None:
        try:
            shared.many(REALIZES // 2, wait=False)
        finally:
            ended.set()

    def synchronize() -> None:
        while not ended.is_set():
            nt.synchronize()

    with nt.default_device("npu"):
        shared = Shared()
        side_by_side(launch, synchronize)


def test_others_run_while_a_thread_waits_for_the_npu(machine: Machine) -> None:
    with nt.default_device("npu"):
        shared = Shared()
        shared.many(5)
        machine.polls = 10**9
        pending, right = shared.once(0, wait=False)
        waiting = threading.Thread(target=pending.numpy)
        waiting.start()
        with nt.default_device("cpu"):
            assert (nt.from_numpy(np.ones(4)) + 1).tolist() == [2] * 4
        assert waiting.is_alive()
        for core in machine.devices[0].cores:
            for job in core().queue:
                job.polls = 0
        waiting.join()
        np.testing.assert_array_equal(pending.numpy().astype(float), right)


def test_threads_on_a_logical_device_use_all_its_npus(machine: Machine) -> None:
    machine.devices.append(Npu(bdf="0000:c7:00.1"))
    machine.devices[0].bdf = "0000:c6:00.1"
    with nt.default_device(",".join(["npu://0000:c6:00.1", "0000:c7:00.1"])):
        shared = Shared()
        side_by_side(*2 * [partial(shared.many, REALIZES // 4, wait=False)])
        assert [bool(npu.cores) for npu in machine.devices] == [True, True]
        nt.synchronize()
        del shared
    selection.reset()
    gc.collect()
    assert (machine.live_contexts, machine.live_bos) == (0, 0)


def test_a_forked_process_is_refused_and_can_use_the_cpu(machine: Machine) -> None:
    with nt.default_device("npu"):
        shared = Shared()
        shared.many(5)
        unread, right = shared.once(0)
        read, _ = shared.once(1)
        read.numpy()

        def on_the_cpu() -> Any:
            with nt.default_device("cpu"):
                return (nt.from_numpy(np.ones(4)) + 1).tolist()

        def give_back() -> Any:
            before = machine.live_contexts, len(machine.freed)
            selection.reset()
            gc.collect()
            return (machine.live_contexts, len(machine.freed)) == before

        for work in (lambda: shared.once(0), lambda: shared.once(1, wait=False), unread.numpy, nt.synchronize):
            with pytest.raises(AssertionError, match=r"DeviceError: .*spawn"):
                in_child(work)
        assert in_child(on_the_cpu) == [2.0, 2.0, 2.0, 2.0]
        assert in_child(give_back)
        np.testing.assert_array_equal(unread.numpy().astype(float), right)
        shared.many(5)


def test_a_process_may_fork_before_it_uses_the_npu(machine: Machine) -> None:
    with nt.default_device("npu"):
        shared = Shared()
        in_child(lambda: shared.many(5))
        shared.many(5)


def test_a_process_that_forks_while_a_thread_launches(machine: Machine) -> None:
    with nt.default_device("npu"):
        shared = Shared()
        shared.many(5)

        def fork() -> None:
            for _ in range(5):
                with pytest.raises(AssertionError, match="DeviceError: "):
                    in_child(lambda: shared.once(0))

        side_by_side(fork, lambda: shared.many(REALIZES // 8, wait=False))
