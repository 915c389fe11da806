"""Forked processes, which cannot use an NPU that their parent has opened."""

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from machine import Machine
from npu_values import joined
from running import in_child, needs_compiler

import npu_tensor as nt
from npu_tensor.planner import selection

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def npu(machine: Machine) -> Iterator[Machine]:
    """The default device."""
    with nt.default_device("npu"):
        yield machine


def compute(count: int) -> None:
    """Two kernels in contexts of their own."""
    for number in range(count):
        result, expected = joined(number % 2, number)
        np.testing.assert_array_equal(result.realize(wait=False).numpy(), expected)


def test_a_forked_process_is_refused_and_can_use_the_cpu(npu: Machine) -> None:
    compute(2)
    unread, right = joined(0)
    unread.realize()

    def on_the_cpu() -> Any:
        with nt.default_device("cpu"):
            return (nt.from_numpy(np.ones(4)) + 1).tolist()

    def give_back() -> Any:
        before = npu.live_contexts, npu.live_memories
        selection.reset()
        gc.collect()
        return (npu.live_contexts, npu.live_memories) == before

    works = (joined(0)[0].realize, lambda: joined(1)[0].realize(wait=False), unread.numpy, nt.synchronize)
    for work in works:
        with pytest.raises(AssertionError, match=r"DeviceError: .*spawn"):
            in_child(work)
    assert in_child(on_the_cpu) == [2.0, 2.0, 2.0, 2.0]
    assert in_child(give_back)
    np.testing.assert_array_equal(unread.numpy(), right)
    compute(2)


def test_a_process_may_fork_before_it_uses_the_npu() -> None:
    in_child(lambda: compute(2))
    compute(2)
