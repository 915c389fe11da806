"""A plan: what will run for one structure. It is made once, holds no data, and fills a list of values when it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, groupby
from itertools import count as counter
from typing import Any, Final, NamedTuple, Protocol

from npu_tensor import events
from npu_tensor._util.units import size
from npu_tensor.errors import NpuTensorError, OutOfMemoryError
from npu_tensor.events import listeners
from npu_tensor.graph.nodes import located
from npu_tensor.ops.declare import Call, describe
from npu_tensor.planner.measures import Declined
from npu_tensor.runtime.devices.host import host_devices
from npu_tensor.runtime.store.background import builds
from npu_tensor.task import AsynchronousDevice, Kernel, Refusal, Step, Task

__all__ = ["Placed", "Plan", "RecordedOp", "run_lines"]


class RecordedOp(Protocol):
    """An op and the line of the user's program that recorded it, as text."""

    @property
    def call(self) -> Call | None: ...
    @property
    def line(self) -> str: ...


Ops = Sequence[tuple[int, RecordedOp]]
Run = Callable[..., None]


class Placed(NamedTuple):
    """A task, the kernel that runs it and its bound step.

    refusals: of the devices that come before that of the kernel, in their order.
    """

    task: Task
    kernel: Kernel
    step: Step
    refusals: tuple[Refusal | Declined, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """What will run for one structure. Item numbers index the list of values.

    placed: kernels in order. steps: each with the items that no later step reads. counts: how many kernels each step
    runs, more than one where an NPU has several in a launch. aliases: kept views -> item whose buffer they share.
    asynchronous: devices of steps that return before their work is done. builds_before: None if it has the kernels that
    it should; else how many builds had ended before it was made, while some of its kernels were still being built.
    runs: counts from 0, for whoever counts runs.
    run: runs all steps on a list of values, whose leaves are filled in, and leaves kept items in it. It takes the ops
    with their items, for messages and events, and whether to wait until asynchronous devices have ended their work.
    Raises NpuTensorError with the recording lines, or what the body of an op or a signal handler raises.
    """

    placed: tuple[Placed, ...]
    steps: tuple[tuple[Step, tuple[int, ...]], ...]
    counts: tuple[int, ...]
    aliases: tuple[tuple[int, int], ...]
    size: int
    asynchronous: tuple[AsynchronousDevice, ...] = ()
    builds_before: int | None = None
    runs: Iterator[int] = field(default_factory=counter, repr=False)
    run: Run = field(init=False, repr=False)

    @property
    def launches(self) -> list[tuple[Placed, ...]]:
        """The kernels of each step."""
        ends = accumulate(self.counts)
        return [self.placed[end - count : end] for count, end in zip(self.counts, ends, strict=True)]

    @property
    def provisional(self) -> bool:
        """Whether another plan takes its place when its kernels are built."""
        return self.builds_before is not None

    @property
    def outdated(self) -> bool:
        """Whether it is provisional and a build has ended since, so that a new plan may be better."""
        return self.builds_before is not None and self.builds_before != builds.finished

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", _runner(self))

    def finish(self, values: list[Any], wait: bool) -> None:
        """What is left to do when all steps have been asked for; see `run`."""
        for item, base in self.aliases:
            values[item] = values[base]
        for device in self.asynchronous:
            if wait:
                device.synchronize()
            else:
                device.submit()

    def failed(self, error: NpuTensorError | MemoryError, values: Sequence[Any], recorded: Ops) -> NpuTensorError:
        """Return the error of a step with the lines that recorded the ops it names.

        Other exceptions pass as they are: they may come from a signal handler that ran during the step.
        """
        if isinstance(error, NpuTensorError):
            lines = dict.fromkeys(op.line for _, op in recorded if op.call is error.call)
            shown: NpuTensorError = located(error, str(error), ", ".join(lines))
            shown.__cause__ = error.__cause__
            return shown
        shown = self._out_of_memory(values, recorded)
        shown.__cause__ = error
        return shown

    def run_observed(self, values: list[Any], recorded: Ops) -> None:
        """Run the steps with an event for each."""
        begin = time.perf_counter()
        lines = {item: op.line for item, op in recorded}
        first = 0
        for (step, last_read), count in zip(self.steps, self.counts, strict=True):
            start = time.perf_counter()
            with events.collect_parts() as parts:
                step(values)
                for device in self.asynchronous:
                    device.synchronize()  # so that the time is that of this step
            for event in self._ran(first, count, start, parts, lines):
                events.emit(event)
            first += count
            for item in last_read:
                values[item] = None
        events.emit(events.PlanRan(time.perf_counter() - begin, self))

    def _ran(
        self, first: int, count: int, start: float, parts: events.Parts, lines: dict[int, str]
    ) -> Iterator[events.KernelRan]:
        """The events of a step that has just ended: one per kernel where a simulated array says when each ended."""
        end = time.perf_counter()
        simulated = parts.of(events.KernelSimulated)
        singly = len(simulated) == count
        ends = [*(each.when for each in simulated[:-1]), end] if singly else [end]
        for number, until in enumerate(ends):
            placed = self.placed[first + number : first + number + 1] if singly else self.placed[first : first + count]
            tasks = [entry.task for entry in placed]
            yield events.KernelRan(
                "+".join([task.name for task in tasks]),
                placed[0].kernel.device,
                ", ".join([f"{o.dtype.short}{list(o.layout.shape)}" for o in tasks[-1].outputs]),
                until - start,
                self,
                first + number,
                tuple(dict.fromkeys(lines[item] for task in tasks for item in task.items if lines.get(item))),
                tuple([phase for phase in parts.of(events.Phase) if start < phase.when <= until]),
                simulated[number] if singly else None,
                len(placed),
                when=until,
            )
            start = until

    def _out_of_memory(self, values: Sequence[Any], recorded: Ops) -> OutOfMemoryError:
        """The error of a step that had no memory; names the largest result of its task."""
        # What a step has computed is there until a later one has read it, so the first one behind all that is there
        # has failed.
        tasks = [placed.task for placed in self.placed]
        computed = [n for n, task in enumerate(tasks) if any(values[each.item] is not None for each in task.outputs)]
        failed = tasks[min(max(computed, default=-1) + 1, len(tasks) - 1)]
        result = max(failed.outputs, key=lambda output: output.nbytes)
        call = failed.calls[failed.items.index(result.item)]
        line = next((op.line for item, op in recorded if item == result.item), "")
        text = f"{call.op.name}({describe(call.operands)}): out of memory: the result {call.spec} needs "
        return located(OutOfMemoryError(), f"{text}{size(call.spec.nbytes)}", line)


JOINED_AFTER: Final = 10
"""Runs of a plan before its kernels on the processor are joined; chosen, so that plans of few runs are spared that."""


def _joined(plan: Plan) -> tuple[tuple[Step, tuple[int, ...]], ...]:
    """The steps of a plan, with those on the processor that follow each other in as few as possible."""
    host, result = host_devices()[0], []
    each = zip(plan.launches, plan.steps, strict=True)
    for is_host, group in groupby(each, lambda pair: pair[0][0].kernel.device == host.uri):
        launches, steps = zip(*group, strict=True)
        if not is_host:
            result += steps
            continue
        kernels, dead = [placed.kernel for (placed,) in launches], [items for _, items in steps]
        first = 0
        for count, step, _ in host.launches(kernels, [step for step, _ in steps], dead):
            result.append((step, (*chain.from_iterable(dead[first : first + count]),)))
            first += count
    return tuple(result)


def _runner(plan: Plan) -> Run:
    """`Plan.run`, with what it needs at hand: small plans take little longer than their steps."""
    steps, ends = plan.steps, bool(plan.aliases or plan.asynchronous)
    only = steps[0][0] if len(steps) == 1 else None
    runs_left = JOINED_AFTER

    def run(values: list[Any], recorded: Ops = (), wait: bool = True) -> None:
        nonlocal steps, runs_left
        try:
            if listeners:
                plan.run_observed(values, recorded)
            elif only is not None:
                only(values)
            else:
                if runs_left:
                    runs_left = max(runs_left - 1, 0)
                    if not runs_left:
                        steps = _joined(plan)
                for step, last_read in steps:
                    step(values)
                    for item in last_read:
                        values[item] = None
            if ends:
                plan.finish(values, wait)
        except (NpuTensorError, MemoryError) as error:
            raise plan.failed(error, values, recorded)  # noqa: B904 - it has set the cause

    return run


def run_lines(plan: Plan, ops: str, wait: str, namespace: dict[str, Any]) -> list[str]:
    """Source that runs a plan on the list `values`, for generated functions. ops, wait: expressions, see `Plan.run`.

    A plan that is a single step is run without the function that runs any plan, which takes 0.2 us.
    """
    run = f"run(values, {ops}, {wait})"
    namespace["run"] = plan.run
    if len(plan.steps) > 1 or plan.aliases or plan.asynchronous:
        return [run]
    namespace.update(step=plan.steps[0][0], failed=plan.failed, listeners=listeners)
    namespace["errors"] = NpuTensorError, MemoryError
    return [
        f"if listeners: {run}",
        "else:",
        "    try: step(values)",
        f"    except errors as error: raise failed(error, values, {ops})",
    ]
