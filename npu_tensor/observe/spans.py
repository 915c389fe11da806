"""Spans of a stream of events: runs of steps, plans and their runs, builds of kernels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from npu_tensor import events


class StepRun(NamedTuple):
    """One run of a step.

    Attributes:
        event: Event of the run.
        compile_seconds: Compile time of the kernel in the first run of an observed plan; else None.
    """

    event: events.KernelRan
    compile_seconds: float | None

    @property
    def cold(self) -> bool:
        return self.compile_seconds is not None

    @property
    def nbytes(self) -> int | None:
        """Memory traffic in bytes; None if not known."""
        return sum(each.kernel.cost.nbytes for each in self.event.placed) if self.event.placed else None

    @property
    def operations(self) -> int | None:
        """Multiplications and additions of matrix products. Other ops have no agreed operation count."""
        macs = sum(each.task.macs for each in self.event.placed)
        return 2 * macs if macs else None


@dataclass
class Spans:
    """Sorted events by kind. `fetches` are phases outside of steps: reads of results from another device."""

    runs: list[StepRun] = field(default_factory=list)
    plans: list[events.PlanBuilt] = field(default_factory=list)
    plan_runs: list[events.PlanRan] = field(default_factory=list)
    builds: list[events.BuildFinished] = field(default_factory=list)
    fetches: list[events.Phase] = field(default_factory=list)


def spans(heard: Iterable[events.Event]) -> Spans:
    """Sort events by kind and time. They may arrive in another order."""
    result = Spans()
    fresh: dict[tuple[int, int], float] = {}  # Compile seconds of steps that have not run yet.
    for event in sorted(heard, key=lambda event: event.when):
        match event:
            case events.PlanBuilt():
                result.plans.append(event)
                seconds = [kernel.seconds for kernel in event.kernels]
                seconds += [0.0] * (event.steps - len(seconds))
                fresh |= {(id(event.plan), number): taken for number, taken in enumerate(seconds)}
            case events.KernelRan():
                result.runs.append(StepRun(event, fresh.pop((id(event.plan), event.step), None)))
            case events.PlanRan():
                result.plan_runs.append(event)
            case events.BuildFinished():
                result.builds.append(event)
            case events.Phase():
                result.fetches.append(event)
    return result
