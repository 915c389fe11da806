"""Threads on one NPU, which share plans and operands but not results."""

import gc
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
from faulty_npu import FaultyNpu
from npu_values import normal
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.planner import selection

pytestmark = needs_compiler

REALIZES = 10_000 if os.environ.get("NPU_TENSOR_TEST_ALL") == "1" else 200
"""Realizations per thread."""

SWITCH_SECONDS = 1e-5
"""Time slice of a thread. With the usual 5 ms threads rarely meet."""


@pytest.fixture(autouse=True)
def _threads_take_turns() -> Any:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    yield
    sys.setswitchinterval(before)


def side_by_side(*works: Callable[[], None]) -> None:
    """Run all at the same time, each in a thread. Raise the first of their exceptions."""
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
        self.right = normal(16, 32)
        self.order = np.random.default_rng(5).permutation(16).astype(np.int32)
        self.x, self.at = nt.from_numpy(self.right), nt.from_numpy(self.order)

    def once(self, number: int, wait: bool = True) -> tuple[nt.Tensor, np.ndarray[Any, Any]]:
        """Result with its expected value."""
        result, right = self.x, self.right
        if number % 3 != 0:
            result, right = result.index_select(0, self.at), right[self.order]
        if number % 3 != 1:
            own = np.full_like(self.right, number % 5)
            result, right = nt.cat([result, nt.from_numpy(own)]), np.concatenate([right, own])
        return result.realize(wait=wait), right

    def many(self, count: int, wait: bool = True) -> None:
        """Raises AssertionError for a wrong result."""
        late: list[tuple[nt.Tensor, np.ndarray[Any, Any]]] = []
        for number in range(count):
            late.append(self.once(number, wait))
            if len(late) == 5:  # Read some in the order in which they were made, and some the other way round.
                for result, right in late[:: 1 if number % 2 else -1]:
                    np.testing.assert_array_equal(result.numpy(), right)
                late.clear()


def test_two_threads_share_plans_and_operands(npu: FaultyNpu) -> None:
    shared = Shared()
    shared.many(5)
    before = npu.launches
    side_by_side(*2 * [partial(shared.many, REALIZES, wait=False)])
    assert npu.launches - before >= 2 * REALIZES
    nt.synchronize()
    del shared
    selection.reset()
    gc.collect()
    assert (npu.live_contexts, npu.live_memories) == (0, 0)


def test_many_threads_with_few_contexts(npu: FaultyNpu) -> None:
    npu.context_limit = 2
    npu.polls = 2
    shared = Shared()
    side_by_side(*6 * [lambda: shared.many(REALIZES // 8, wait=False)])
    assert npu.live_contexts <= 2


def test_other_threads_run_while_one_waits_for_the_npu(npu: FaultyNpu) -> None:
    shared = Shared()
    shared.many(5)
    npu.polls = 10**9
    pending, right = shared.once(0, wait=False)
    waiting = threading.Thread(target=pending.numpy)
    waiting.start()
    with nt.default_device("cpu"):
        assert (nt.from_numpy(np.ones(4)) + 1).tolist() == [2] * 4
    assert waiting.is_alive()
    npu.polls = 0
    waiting.join()
    np.testing.assert_array_equal(pending.numpy(), right)


@pytest.mark.parametrize("npu", ["sim:npu2x2"], indirect=True)
def test_threads_on_a_logical_device_use_all_its_npus(npu: FaultyNpu) -> None:
    shared = Shared()
    side_by_side(*2 * [partial(shared.many, REALIZES // 4, wait=False)])
    assert [any(context.driver is driver for context in npu.contexts) for driver in npu.drivers] == [True, True]
