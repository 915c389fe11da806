"""What a stream of events says: which steps ran with which phases, which plans were made, which kernels were built.

    observed([*heard]).runs[0].phase("convert")

Events are put together by when and in which thread they were made, so the order in which they were heard is not
important.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from npu_tensor import events

__all__ = ["Observed", "PlanMade", "StepRun", "observed"]


class StepRun(NamedTuple):
    """One run of a step.

    start, end: by time.perf_counter. cold: whether it is the first run of a plan that was made under observation.
    compile_seconds: what making the kernel had taken, in a cold run. nbytes, operations: of memory and arithmetic,
    None if not known. simulated: what a simulated array counted.
    """

    event: events.KernelRan
    start: float
    end: float
    cold: bool
    compile_seconds: float
    phases: tuple[events.Phase, ...]
    nbytes: int | None
    operations: int | None
    simulated: events.KernelSimulated | None

    def phase(self, name: str) -> float:
        """Seconds of one phase. A kernel without phases only runs."""
        if not self.phases:
            return self.event.seconds if name == "run" else 0.0
        return sum(phase.seconds for phase in self.phases if phase.name == name)


class PlanMade(NamedTuple):
    """A plan was made. compile_seconds: for kernels, besides what the cold runs of its steps account for."""

    event: events.PlanBuilt
    plan_seconds: float
    compile_seconds: float


@dataclass
class Observed:
    """What happened. fetches: phases outside of steps, when somebody looked at a result of another device."""

    runs: list[StepRun] = field(default_factory=list)
    plans: list[PlanMade] = field(default_factory=list)
    plan_runs: list[events.PlanRan] = field(default_factory=list)
    kernels: list[events.KernelBuilt] = field(default_factory=list)
    builds: list[events.BuildFinished] = field(default_factory=list)
    fetches: list[events.Phase] = field(default_factory=list)


@dataclass
class _Thread:
    """Events of a thread that wait for the one that they belong to."""

    phases: list[events.Phase] = field(default_factory=list)
    kernels: list[events.KernelBuilt] = field(default_factory=list)
    simulated: events.KernelSimulated | None = None


def observed(heard: Iterable[events.Event]) -> Observed:
    """Put events together."""
    found = Observed()
    threads: defaultdict[int, _Thread] = defaultdict(_Thread)
    # Seconds of the kernel of each step that has not run yet, by plan and number. The events keep the plans alive.
    fresh: dict[tuple[int, int], float] = {}
    amounts: dict[tuple[int, int], tuple[int | None, int | None]] = {}
    for event in sorted(heard, key=lambda event: event.when):
        thread = threads[event.thread]
        match event:
            case events.Phase():
                thread.phases.append(event)
            case events.KernelSimulated():
                thread.simulated = event
            case events.KernelBuilt():
                thread.kernels.append(event)
                found.kernels.append(event)
            case events.BuildFinished():
                found.builds.append(event)
            case events.PlanBuilt():
                begun = event.when - event.seconds
                kernels = [kernel for kernel in thread.kernels if kernel.when >= begun]
                thread.kernels.clear()
                seconds = _by_step(event, kernels)
                fresh.update({(id(event.plan), number): taken for number, taken in enumerate(seconds)})
                rest = max(0.0, event.compile_seconds - sum(seconds))
                found.plans.append(PlanMade(event, event.seconds - event.compile_seconds, rest))
            case events.KernelRan():
                step = id(event.plan), event.step
                if step not in amounts:
                    amounts[step] = _amounts(event)
                found.runs.append(_run(event, thread, fresh.pop(step, None), amounts[step], found.fetches))
            case events.PlanRan():
                found.plan_runs.append(event)
    found.fetches += [phase for thread in threads.values() for phase in thread.phases]
    return found


def _by_step(made: events.PlanBuilt, kernels: Sequence[events.KernelBuilt]) -> list[float]:
    """What making the kernel of each step took."""
    waiting: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for kernel in reversed(kernels):
        waiting[kernel.kernel, kernel.device].append(kernel.seconds)
    names = [(placed.task.name, placed.kernel.device) for placed in _placed(made.plan)]
    return [waiting[name].pop() if waiting[name] else 0.0 for name in names or [("", "")] * made.steps]


def _run(
    event: events.KernelRan,
    thread: _Thread,
    compile_seconds: float | None,
    amounts: tuple[int | None, int | None],
    fetches: list[events.Phase],
) -> StepRun:
    """compile_seconds: None if the step has run before. Phases from before the run are added to `fetches`."""
    start = event.when - event.seconds
    phases = tuple(phase for phase in thread.phases if phase.when > start)
    fetches += [phase for phase in thread.phases if phase.when <= start]
    simulated = thread.simulated if thread.simulated is not None and thread.simulated.when > start else None
    thread.phases.clear()
    thread.simulated = None
    cold = compile_seconds is not None
    return StepRun(event, start, event.when, cold, compile_seconds or 0.0, phases, *amounts, simulated)


def _amounts(event: events.KernelRan) -> tuple[int | None, int | None]:
    """Bytes of a step, and operations of a matrix product; what other ops count as is a matter of taste."""
    placed = _placed(event.plan)
    if event.step >= len(placed):
        return None, None
    entry = placed[event.step]
    return entry.kernel.cost.nbytes, 2 * entry.task.macs if entry.task.kind == "matmul" else None


def _placed(plan: Any) -> Sequence[Any]:
    return () if plan is None else plan.placed
