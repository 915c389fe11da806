"""Several simulated NPUs as one device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from running import heard, needs_compiler

import npu_tensor as nt
from npu_tensor import events

pytestmark = pytest.mark.usefixtures("less_optimised")

SECONDS = 60
"""Until a test that hangs fails; nothing here takes as long."""


def bfloat16(*shape: int, seed: int = 0) -> nt.Tensor:
    values = np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32)
    return nt.from_numpy(values).to(nt.bfloat16).realize()


def simulated_on(work: Callable[[], object]) -> list[str]:
    """The members that ran the launches of some work, in order."""
    with heard(events.KernelRan) as ran:
        work()
    return [event.simulated.device for event in ran if event.simulated is not None]


@needs_compiler
def test_explain_names_the_logical_device_and_events_the_member() -> None:
    x = bfloat16(64)
    with nt.default_device("sim:npu2x2"), heard(events.KernelRan, events.Fallback) as ran:
        assert nt.explain(x + x)[-1].device == "sim:npu2x2"
        on = simulated_on(lambda: [(x + x).realize() for _ in range(4)])
    assert sorted(set(on)) == ["sim:npu2x2#0", "sim:npu2x2#1"]
    assert on[:2] == on[2:]  # by turns
    assert {(type(event), event.device) for event in ran} == {(events.KernelRan, "sim:npu2x2")}


@needs_compiler
def test_several_give_what_one_gives() -> None:
    x, weights = bfloat16(24, 64), bfloat16(40, 64, seed=1)

    def compute() -> list[np.ndarray]:
        hidden = nt.linear(x, weights)
        results = [hidden.softmax(dim=-1), hidden.tanh(), x.sum(dim=-1), x * 2 + 1]
        return [result.float().numpy() for result in results]

    actual = []
    for uri in ("sim:npu1", "sim:npu1x3"):
        with nt.default_device(uri):
            actual.append(compute())
            on = simulated_on(compute)
    assert len(set(on)) == 3
    for one, several in zip(*actual, strict=True):
        np.testing.assert_array_equal(one, several)
