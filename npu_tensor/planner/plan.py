"""A plan: what will run for one structure. It is made once, holds no data, and fills a list of values when it runs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from npu_tensor import events
from npu_tensor.runtime.store.background import builds
from npu_tensor.task import AsynchronousDevice, Kernel, Refusal, Step, Task

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Located", "Placed", "Plan", "Timings"]


class Located(Protocol):
    """What was recorded at a line of the user's program, as text."""

    @property
    def line(self) -> str: ...


class Placed(NamedTuple):
    """A task, the kernel that runs it and its bound step.

    refusals: of the devices that come before that of the kernel, in their order.
    """

    task: Task
    kernel: Kernel
    step: Step
    refusals: tuple[Refusal, ...]


@dataclass(slots=True)
class Timings:
    """What the steps of a plan took. wanted: how many of its next runs are timed, as `explain` asks for.

    seconds: by step, of the latest run that was timed; None before that.
    """

    seconds: list[float | None]
    wanted: int = 0


@dataclass(frozen=True)
class Plan:
    """What will run for one structure. `graph` is frozen; item numbers index the list of values.

    steps: each with the items that nobody needs afterwards. aliases: kept views -> item whose buffer they share.
    asynchronous: devices of steps that return before their work is done. builds_before: None if it has the kernels that
    it should; else how many builds had ended before it was made, while some of its kernels were still being built.
    """

    graph: nx.DiGraph
    placed: tuple[Placed, ...]
    steps: tuple[tuple[Step, tuple[int, ...]], ...]
    aliases: tuple[tuple[int, int], ...]
    size: int
    asynchronous: tuple[AsynchronousDevice, ...] = ()
    timings: Timings = field(default_factory=lambda: Timings([]))
    builds_before: int | None = None

    @property
    def provisional(self) -> bool:
        """Whether another plan takes its place when its kernels are built."""
        return self.builds_before is not None

    @property
    def outdated(self) -> bool:
        """Whether it is provisional and a build has ended since, so that a new plan may be better."""
        return self.builds_before is not None and self.builds_before != builds.finished

    def run(self, values: list[Any], wait: bool = True, recorded: Iterable[tuple[int, Located]] = ()) -> None:
        """Run all steps on the list of values, whose leaves are filled in; leaves kept items in it.

        wait: whether asynchronous devices have ended their work when this returns. recorded: items and what they were
        recorded as, for those who watch.
        """
        if events.listeners or self.timings.wanted:
            self._run_observed(values, recorded)
        else:
            for step, dying in self.steps:
                step(values)
                for item in dying:
                    values[item] = None
        for item, base in self.aliases:
            values[item] = values[base]
        for device in self.asynchronous:
            if wait:
                device.synchronize()
            else:
                device.submit()

    def _run_observed(self, values: list[Any], recorded: Iterable[tuple[int, Located]]) -> None:
        if self.timings.wanted:
            self.timings.wanted = max(0, self.timings.wanted - 1)
        begin = time.perf_counter()
        lines = {item: found.line for item, found in recorded} if events.listeners else {}
        for number, ((step, dying), placed) in enumerate(zip(self.steps, self.placed, strict=True)):
            start = time.perf_counter()
            with events.collect_parts() as parts:
                step(values)
                for device in self.asynchronous:
                    device.synchronize()  # so that the time is that of this step
            end = time.perf_counter()
            seconds = self.timings.seconds[number] = end - start
            task = placed.task
            if events.listeners:
                out = ", ".join(f"{o.dtype.short}{list(o.layout.shape)}" for o in task.outputs)
                where = tuple(dict.fromkeys(lines[item] for item in task.items if lines.get(item)))
                phases, simulated = parts.of(events.Phase), next(iter(parts.of(events.KernelSimulated)), None)
                uri = placed.kernel.device
                events.emit(
                    events.KernelRan(
                        task.name, uri, out, seconds, self, number, where, phases, simulated, when=end
                    )
                )
            for item in dying:
                values[item] = None
        if events.listeners:
            events.emit(events.PlanRan(time.perf_counter() - begin, self))
