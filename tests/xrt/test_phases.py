"""Where the time of a launch goes, as listeners hear it."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from unittest import mock

import pytest
from machine import Machine
from surface_memory import bo

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.observed import observed
from npu_tensor.profiling import profile
from npu_tensor.runtime.sim import host_compiler

pytestmark = pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason()))


def ones(rows: int) -> nt.Tensor:
    return nt.ones(rows, 64).to(nt.bfloat16).realize()


def names(phases: tuple[events.Phase, ...] | list[events.Phase]) -> list[str]:
    return [phase.name for phase in phases]


def test_a_launch_converts_syncs_dispatches_and_runs(machine: Machine) -> None:
    x, y = ones(64), ones(64)
    heard: list[events.Event] = []
    with nt.default_device("npu", policy="always"):
        ((x + x).realize() + x).realize()  # checks both kernels against the CPU
        with events.listen(heard.append):
            first = (y + y).realize()
            second = (first + y).realize()
            assert second.tolist() == [[3.0] * 64] * 64
    found = observed(heard)
    one, two = found.runs
    # Operands; the context, what is to be seen there, and the launch. The first result stays where it is.
    assert names(one.phases) == ["convert", "convert", "dispatch", "sync", "dispatch", "run"]
    assert names(two.phases) == ["convert", "dispatch", "sync", "dispatch", "run"]
    for run in found.runs:
        assert run.event.device == "npu"
        assert 0 < sum(phase.seconds for phase in run.phases) <= run.event.seconds
        assert all(run.start <= phase.when <= run.end for phase in run.phases)
    assert names(found.fetches)[0] == "sync"
    assert all(phase.when > two.end for phase in found.fetches)


def test_results_and_syncs_are_the_same_with_and_without_a_listener(machine: Machine) -> None:
    counts = []
    for observe in (False, False, True):  # The first run checks the kernels against the CPU.
        x, y = ones(64), ones(64)
        with (
            nt.default_device("npu", policy="always"),
            mock.patch.object(bo, "sync", autospec=True, side_effect=bo.sync) as syncs,
            profile() if observe else nullcontext(),
        ):
            assert ((x + y) * x).tolist() == [[2.0] * 64] * 64
        counts.append(syncs.call_count)
    assert counts[1] == counts[2] > 0


def test_threads_hear_of_their_own_launches(machine: Machine) -> None:
    inputs = [ones(64) for _ in range(3)]
    with nt.default_device("npu", policy="always"):
        (inputs[0] + inputs[1]).realize()
        with profile() as p:

            def work(x: nt.Tensor) -> None:
                for _ in range(10):
                    (x + x).realize()

            threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    rows = [row for row in p.by("op") if row.name == "add"]
    assert sum(row.runs for row in rows) == 30
    assert all(row.dispatch > 0 and row.run > 0 for row in rows)
