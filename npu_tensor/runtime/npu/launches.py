"""Launches: what was asked of an NPU and has not ended, and how it is handed over.

Launches of one context are submitted together as a batch. A driver works in order, so that the last one's end tells
that all have ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Thread, current_thread
from typing import Any, Final

from npu_tensor._util.forks import cached_property
from npu_tensor.runtime.memory import Buffer
from npu_tensor.runtime.npu.buffers import Lease, ResidentBuffer
from npu_tensor.runtime.npu.driver import Context, DriverError, Run, RunRequest, Submission
from npu_tensor.runtime.npu.npu_program import NpuProgram
from npu_tensor.task import Step, Task

__all__ = ["KernelStep", "Launch", "LaunchBatch", "on_host", "run_alone", "sync_to_device"]

_SPIN_SECONDS: Final = 300e-6
_LONGEST_PAUSE: Final = 1e-3
"""Most launches end within some hundred microseconds; for those that do not, waiting should cost little."""


class KernelStep:
    """What the launches of one step of a plan share. compute: makes a step that computes a task on the CPU.

    tasks: of its kernels, in order.
    inputs: items of the plan that are not made in the launch.
    writes: for each buffer whether the NPU writes it.
    run: the latest, which belongs to a context.
    latest: the newest batch that has it.
    queued: whether it waits to be submitted.
    """

    def __init__(
        self, tasks: Sequence[Task], program: NpuProgram, writes: Sequence[bool], compute: Callable[[Task], Step]
    ) -> None:
        self.tasks = tuple(tasks)
        self.program = program
        results = {output.item for task in tasks for output in task.outputs}
        operands = dict.fromkeys(source.item for task in tasks for source in task.inputs)
        self.inputs = tuple(item for item in operands if item not in results)
        self.size = 1 + max((*operands, *results))
        self.writes = tuple(writes)
        self.run: Run | None = None
        self.latest: LaunchBatch | None = None
        self.queued = False
        self._compute = compute

    @cached_property
    def on_host(self) -> Step:
        """The same tasks on the CPU, compiled when first asked for."""
        steps = [self._compute(task) for task in self.tasks]

        def run(values: list[Any]) -> None:
            for step in steps:
                step(values)

        return run


@dataclass(eq=False, slots=True)
class Launch:
    """One run of a step: enough to submit it, and to compute it on the CPU instead.

    leases: its buffers, in the order of the design's.
    inputs: values, as the step's.
    results: by item, at least one.
    thread: that asked for it.
    on_device: whether the NPU computed it.
    error: what its results are instead of values.
    """

    step: KernelStep
    leases: list[Lease]
    inputs: tuple[Any, ...]
    results: list[tuple[int, ResidentBuffer]]
    words: Sequence[int]
    batch: LaunchBatch | None = None
    thread: Thread = field(default_factory=current_thread)
    on_device: bool = False
    error: Exception | None = None

    @property
    def pending(self) -> bool:
        """Whether it has neither values nor an error yet."""
        return self.results[0][1].launch is self

    def values(self, inputs: Sequence[Any] | None = None) -> list[Any]:
        """A list of values for steps that compute the same, with its inputs, or others in their place."""
        values: list[Any] = [None] * self.step.size
        for item, value in zip(self.step.inputs, self.inputs if inputs is None else inputs, strict=True):
            values[item] = value
        return values

    def request(self, context: Context) -> RunRequest:
        """What a context is asked for. Raises DriverError."""
        step = self.step
        run = step.run
        if run is None or run.context is not context:
            run = step.run = context.run(step.program)
        return RunRequest(run, [lease.block.memory for lease in self.leases], self.words)

    def completed(self) -> None:
        """The NPU has computed it."""
        self.on_device = True
        for _, result in self.results:
            result.launch = None

    def failed(self, error: Exception) -> None:
        """Its results are an error, raised where they are read."""
        self.error = error
        for _, result in self.results:
            result.lease = None
            result.launch = error

    def replaced(self, values: Sequence[Any]) -> None:
        """The CPU has computed it. values: one per result."""
        # The first result last, which `pending` asks: an interrupt may come between.
        for (_, result), value in reversed(list(zip(self.results, values, strict=True))):
            result.host = value
            result.home = None
            result.lease = None
            result.launch = None


class LaunchBatch:
    """Launches that are submitted together.

    phase: "submitting", "running", then "done" or "abandoned". One that nobody submits now and that is still in the
    first phase was interrupted. launches: none of one that has ended. program: what all of them run. submission: what
    was handed over, until the end. chained: whether that may be a list.
    """

    __slots__ = ("chained", "context", "deadline", "launches", "phase", "program", "submission")

    def __init__(self, launches: list[Launch]) -> None:
        self.launches = launches
        self.program = launches[0].step.program
        self.phase = "submitting"
        self.chained = False
        self.context: Context | None = None
        self.submission: Submission | None = None
        self.deadline = 0.0
        for launch in launches:
            launch.batch = self
            launch.step.latest = self
            launch.step.queued = False

    @property
    def abandoned(self) -> bool:
        """Whether nobody will hear of it from the NPU."""
        return self.phase == "abandoned"

    def begin(self, context: Context, chains: bool, seconds: float) -> None:
        """Hand the launches over. chains: whether they may be a list. seconds: that they may take. Raises DriverError.

        The submission is known before it begins: an interrupt may come between.
        """
        self.chained = chains and len(self.launches) > 1
        self.submission = context.prepare([launch.request(context) for launch in self.launches], self.chained)
        self.submission.start()
        self.deadline = time.monotonic() + seconds
        self.phase = "running"

    def end(self, phase: str) -> None:
        """Let go of the context, as steps remember the batch. phase: "done" or "abandoned"."""
        self.phase = phase
        self.submission = self.context = None

    def pause(self, since: float) -> None:
        """Let other threads run before the NPU is asked again."""
        waited = time.perf_counter() - since
        if (submission := self.submission) is not None:
            submission.wait(0 if waited < _SPIN_SECONDS else min(waited / 8, _LONGEST_PAUSE))

    def late(self, progress: float, seconds: float) -> bool:
        """Whether it takes longer than launches may. progress: when another one was last seen to have ended."""
        return time.monotonic() > max(self.deadline, progress + seconds)


def run_alone(submission: Submission, seconds: float, *used: object) -> None:
    """Hand a submission over and return when it has ended. seconds: that it may take.

    used: what must live until the device cannot touch it. Raises DriverError if it fails or takes longer.
    """
    try:
        submission.start()
        late = time.monotonic() + seconds
        while not submission.ended():
            if time.monotonic() > late:
                raise DriverError(f"no answer within {seconds} s")
            submission.wait(_LONGEST_PAUSE)
        submission.check()
    except DriverError:
        submission.abandon(*used)
        raise


def sync_to_device(launches: Sequence[Launch]) -> None:
    """Let the NPU see what the host has written to the buffers of launches. Raises DriverError."""
    for launch in launches:
        for lease, written in zip(launch.leases, launch.step.writes, strict=True):
            block = lease.block
            if block.host_dirty:
                block.to_device()
            if written:
                block.device_dirty = True


def on_host(launch: Launch, inputs: Sequence[Any] | None = None) -> list[Buffer]:
    """The results of a launch, computed by the CPU. inputs: other values than its own. Raises what the values cause."""
    values = launch.values(inputs)
    launch.step.on_host(values)
    return [values[item] for item, _ in launch.results]
