"""Phases of a launch that listeners receive."""

from contextlib import nullcontext

import pytest
from faulty_npu import FaultyNpu
from running import needs_compiler

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.observe.profiling import profile
from npu_tensor.observe.spans import spans

pytestmark = [needs_compiler, pytest.mark.usefixtures("less_optimised")]


def ones(rows: int) -> nt.Tensor:
    return nt.ones(rows, 64).to(nt.bfloat16).realize()


def names(phases: tuple[events.Phase, ...] | list[events.Phase]) -> list[str]:
    return [phase.name for phase in phases]


def test_a_launch_converts_syncs_dispatches_and_runs(npu: FaultyNpu) -> None:
    x, y = ones(64), ones(64)
    heard: list[events.Event] = []
    ((x + x).realize() + x).realize()  # checks both kernels against the CPU
    with events.listen(heard.append):
        first = (y + y).realize()
        second = (first + y).realize()
        assert second.tolist() == [[3.0] * 64] * 64
    result = spans(heard)
    one, two = result.runs
    # The operand; the context, what is to be seen there, and the launch. The first result stays where it is.
    assert names(one.event.phases) == ["convert", "dispatch", "sync", "dispatch", "run"]
    assert names(two.event.phases) == ["convert", "dispatch", "sync", "dispatch", "run"]
    for run in result.runs:
        assert run.event.device == "sim:npu2"
        assert 0 < sum(phase.seconds for phase in run.event.phases) <= run.event.seconds
        assert all(run.event.start <= phase.when <= run.event.when for phase in run.event.phases)
    assert names(result.fetches)[0] == "sync"
    assert all(phase.when > two.event.when for phase in result.fetches)


def test_results_and_syncs_are_the_same_with_and_without_a_listener(npu: FaultyNpu) -> None:
    counts = []
    for observe in (False, False, True):  # The first run checks the kernels against the CPU.
        x, y = ones(64), ones(64)
        before = npu.to_device + npu.from_device
        with profile() if observe else nullcontext():
            assert ((x + y) * x).tolist() == [[2.0] * 64] * 64
        counts.append(npu.to_device + npu.from_device - before)
    assert counts[1] == counts[2] > 0
