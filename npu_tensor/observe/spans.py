"""A stream of events as spans: which steps ran, which plans were made and run, which kernels were built."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from npu_tensor import events

__all__ = ["Spans", "StepRun", "spans"]


class StepRun(NamedTuple):
    """One run of a step.

    compile_seconds: of its kernel, if this is the first run of a plan that was made under observation; else None.
    """

    event: events.KernelRan
    compile_seconds: float | None

    @property
    def cold(self) -> bool:
        return self.compile_seconds is not None

    @property
    def nbytes(self) -> int | None:
        """Bytes that it reads and writes, None if not known."""
        return sum(each.kernel.cost.nbytes for each in self.event.placed) if self.event.placed else None

    @property
    def operations(self) -> int | None:
        """Multiplications and additions of a matrix product; what other ops count as is a matter of taste."""
        macs = sum(each.task.macs for each in self.event.placed)
        return 2 * macs if macs else None


@dataclass
class Spans:
    """What happened. fetches: phases outside of steps, when a thread read a result of another device."""

    runs: list[StepRun] = field(default_factory=list)
    plans: list[events.PlanBuilt] = field(default_factory=list)
    plan_runs: list[events.PlanRan] = field(default_factory=list)
    builds: list[events.BuildFinished] = field(default_factory=list)
    fetches: list[events.Phase] = field(default_factory=list)


def spans(heard: Iterable[events.Event]) -> Spans:
    """Sort events by kind and time. They may have been heard in another order."""
    result = Spans()
    fresh: dict[tuple[int, int], float] = {}  # Seconds of the kernel of each step that has not run yet.
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
