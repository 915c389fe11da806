"""A plan: the launches for one structure. It is made once, holds no data, and fills a list of values when it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, NamedTuple, Protocol

from npu_tensor import events
from npu_tensor._util.units import size
from npu_tensor.errors import NpuTensorError, OutOfMemoryError
from npu_tensor.events import listeners
from npu_tensor.graph.nodes import located
from npu_tensor.ops.declare import Call, describe
from npu_tensor.planner.measures import Declined
from npu_tensor.runtime.store.background import builds
from npu_tensor.task import AsynchronousDevice, Kernel, Refusal, Step, Task


class RecordedOp(Protocol):
    """An op and the line of the user's program that recorded it, as text."""

    @property
    def call(self) -> Call | None: ...
    @property
    def line(self) -> str: ...


Ops = Sequence[RecordedOp]
BoundStep = tuple[Step, tuple[int, ...]]
"""A step, and the items that no later step reads."""


class Placed(NamedTuple):
    """A task, the kernel that runs it and its bound step.

    Attributes:
        task: The task.
        kernel: Kernel of the first device that takes the task.
        step: Step that runs the kernel.
        refusals: Refusals of the preferred devices, in order of preference.
    """

    task: Task
    kernel: Kernel
    step: Step
    refusals: tuple[Refusal | Declined, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """Launches for one structure. Item numbers index the list of values.

    Attributes:
        placed: Kernels in the order in which they run.
        steps: Launches in order, each with the items that no later step reads. A kernel on the CPU is one step.
        counts: Number of kernels of each of `steps`; more than one where an NPU runs several in a launch.
        aliases: Kept views, each with the item whose buffer it shares.
        size: Length of the list of values.
        first_op: Item of the first recorded op. Those of the other recorded ops follow.
        origins: Items that were not recorded, each with the item that it serves.
        asynchronous: Devices of steps that return before their work is done.
        builds_before: None if all kernels are final; else the number of builds that had ended before the plan was made
            while some of its kernels were still being built.
        joined: The same steps, where consecutive kernels on the CPU are one call of native code.
    """

    placed: tuple[Placed, ...]
    steps: tuple[BoundStep, ...]
    counts: tuple[int, ...]
    aliases: tuple[tuple[int, int], ...]
    size: int
    first_op: int
    origins: Mapping[int, int] = field(default_factory=dict)
    asynchronous: tuple[AsynchronousDevice, ...] = ()
    builds_before: int | None = None
    joined: tuple[BoundStep, ...] = ()

    @property
    def launches(self) -> list[tuple[Placed, ...]]:
        """Kernels of each step."""
        ends = accumulate(self.counts)
        return [self.placed[end - count : end] for count, end in zip(self.counts, ends, strict=True)]

    @property
    def provisional(self) -> bool:
        """True if another plan replaces it when its kernels are built."""
        return self.builds_before is not None

    @property
    def outdated(self) -> bool:
        """True if it is provisional and a build has ended since, so that a new plan may be better."""
        return self.builds_before is not None and self.builds_before != builds.finished

    def run(self, values: list[Any], recorded: Ops = (), wait: bool = True) -> None:
        """Run all steps and leave the kept items in the list of values.

        Args:
            values: Values by item. Those of leaves are filled in; others are None. The list grows to `size`.
            recorded: Recorded ops, for error messages and events.
            wait: True to return only after asynchronous devices have finished.

        Raises:
            NpuTensorError: A step failed. The message ends in the lines that recorded the failing op.
        """
        if len(values) < self.size:
            values += [None] * (self.size - len(values))
        observer = _Observer(self, recorded) if listeners else None
        try:
            for step, last_read in self.joined if observer is None else self.steps:
                if observer is None:
                    step(values)
                else:
                    observer.run(step, values)
                for item in last_read:
                    values[item] = None
            for item, base in self.aliases:
                values[item] = values[base]
            for device in self.asynchronous:
                if wait:
                    device.synchronize()
                else:
                    device.submit()
        except (NpuTensorError, MemoryError) as error:
            # Other exceptions pass unchanged: they may come from a signal handler that ran during the step.
            raise self._failed(error, values, recorded)  # noqa: B904 - it has set the cause
        if observer is not None:
            observer.end()

    def _failed(self, error: NpuTensorError | MemoryError, values: Sequence[Any], recorded: Ops) -> NpuTensorError:
        """Return the error of a step with the lines that recorded the ops it names."""
        if isinstance(error, NpuTensorError):
            lines = dict.fromkeys(op.line for op in recorded if op.call is error.call)
            shown: NpuTensorError = located(error, str(error), ", ".join(lines))
            shown.__cause__ = error.__cause__
            return shown
        shown = self._out_of_memory(values, recorded)
        shown.__cause__ = error
        return shown

    def _out_of_memory(self, values: Sequence[Any], recorded: Ops) -> OutOfMemoryError:
        """Return the error of a step that had no memory. It names the largest result of the task."""
        # The value of a step is in the list until a later step has read it, so the step after the last value failed.
        tasks = [placed.task for placed in self.placed]
        computed = [n for n, task in enumerate(tasks) if any(values[each.item] is not None for each in task.outputs)]
        failed = tasks[min(max(computed, default=-1) + 1, len(tasks) - 1)]
        result = max(failed.outputs, key=lambda output: output.nbytes)
        call = failed.calls[failed.items.index(result.item)]
        origin = self.origins.get(result.item, result.item)
        line = next((op.line for item, op in enumerate(recorded, self.first_op) if item == origin), "")
        text = f"{call.op.name}({describe(call.operands)}): out of memory: the result {call.spec} needs "
        return located(OutOfMemoryError(), f"{text}{size(call.spec.nbytes)}", line)


class _Observer:
    """Emits an event for each kernel of a run, and one for the run."""

    def __init__(self, plan: Plan, recorded: Ops) -> None:
        self._plan = plan
        self._lines = {item: op.line for item, op in enumerate(recorded, plan.first_op)}
        self._lines |= {item: self._lines[origin] for item, origin in plan.origins.items() if origin in self._lines}
        self._counts = iter(plan.counts)
        self._first = 0  # number of the next kernel
        self._begin = time.perf_counter()

    def run(self, step: Step, values: list[Any]) -> None:
        """Run a step and emit the events of its kernels."""
        start = time.perf_counter()
        with events.collect_parts() as parts:
            step(values)
            for device in self._plan.asynchronous:
                device.synchronize()  # The time is that of this step alone.
        count = next(self._counts)
        for event in self._events(count, start, parts):
            events.emit(event)
        self._first += count

    def end(self) -> None:
        """Emit the event of the run."""
        events.emit(events.PlanRan(time.perf_counter() - self._begin, self._plan))

    def _events(self, count: int, start: float, parts: events.Parts) -> Iterator[events.KernelRan]:
        """Yield one event per kernel where a simulated array tells when each ended, else one for the step."""
        end, first, placed = time.perf_counter(), self._first, self._plan.placed
        simulated = parts.of(events.KernelSimulated)
        singly = len(simulated) == count
        ends = [*(each.when for each in simulated[:-1]), end] if singly else [end]
        for number, until in enumerate(ends):
            several = placed[first + number : first + number + 1] if singly else placed[first : first + count]
            tasks = [entry.task for entry in several]
            items = chain.from_iterable(task.items for task in tasks)
            yield events.KernelRan(
                kernel="+".join([task.name for task in tasks]),
                device=several[0].kernel.device,
                out=", ".join([f"{o.dtype.short}{list(o.layout.shape)}" for o in tasks[-1].outputs]),
                seconds=until - start,
                plan=self._plan,
                step=first + number,
                lines=tuple(dict.fromkeys(self._lines[item] for item in items if self._lines.get(item))),
                phases=tuple([phase for phase in parts.of(events.Phase) if start < phase.when <= until]),
                simulated=simulated[number] if singly else None,
                kernels=len(several),
                when=until,
            )
            start = until
