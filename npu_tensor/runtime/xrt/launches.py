"""Launches: what was asked of an NPU and has not ended, and how it is handed to XRT.

Launches of one context are submitted together as a batch: one by one, or, where a probe saw that this driver can, all
but the last as a runlist and the last by itself. Some firmware rejects runlists of two and more (iree-amd-aie#1404). A
queue of XRT works in order, so that the last one's state tells whether all have ended, and asking for a state, unlike
XRT's waiting for a runlist, does not keep other Python threads from running.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Thread, current_thread
from typing import Any, Final

from npu_tensor._util.forks import cached_property
from npu_tensor.config import config
from npu_tensor.runtime.memory import Buffer
from npu_tensor.runtime.xrt.buffers import Lease, ResidentBuffer, SharedBlock
from npu_tensor.runtime.xrt.contexts import Context, RunObject, write_instructions
from npu_tensor.runtime.xrt.npu_program import NpuProgram
from npu_tensor.task import Step, Task

__all__ = [
    "COMPLETED",
    "PENDING",
    "KernelStep",
    "Launch",
    "LaunchBatch",
    "RunFailed",
    "on_host",
    "submit",
    "sync_to_device",
]

NEW: Final = 1
COMPLETED: Final = 4
PENDING: Final = frozenset({1, 2, 3, 7})
"""Values of XRT's ert_cmd_state: new, queued, running (which pyxrt has no name for), submitted."""

_STATE: Final = re.compile(r"ERT_CMD_STATE_([A-Z]+)")

_SPIN_SECONDS: Final = 300e-6
_LONGEST_PAUSE: Final = 1e-3
"""Most launches end within some hundred microseconds; for those that do not, waiting should cost little."""


class RunFailed(Exception):
    """A launch ended in another state than completed."""


class KernelStep:
    """What the launches of one step of a plan share. compute: makes a step that computes a task on the CPU.

    tasks: of its kernels, in order.
    inputs: items of the plan that are not made in the launch.
    writes: for each buffer whether the NPU writes it.
    chained_run, single_run: its run objects in a runlist and by itself.
    latest: the newest batch that has it.
    queued: whether it waits to be submitted.
    """

    def __init__(
        self, tasks: Sequence[Task], program: NpuProgram, writes: Sequence[bool], compute: Callable[[Task], Step]
    ) -> None:
        self.tasks = tuple(tasks)
        self.program = program
        made = {output.item for task in tasks for output in task.outputs}
        read = dict.fromkeys(source.item for task in tasks for source in task.inputs)
        self.inputs = tuple(item for item in read if item not in made)
        self.size = 1 + max((*read, *made))
        self.writes = tuple(writes)
        self.chained_run = RunObject()
        self.single_run = RunObject()
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
    first phase was interrupted. launches: none of one that has ended. program: what all of them run. runs: those that
    were started by themselves. chained: whether a runlist is submitted in front of them.
    """

    __slots__ = ("_state", "chained", "context", "deadline", "launches", "phase", "program", "runlist", "runs")

    context: Context

    def __init__(self, launches: list[Launch]) -> None:
        self.launches = launches
        self.program = launches[0].step.program
        self.phase = "submitting"
        self.chained = False
        self.runlist: Any = None
        self.runs: list[Any] = []
        self._state = NEW
        self.deadline = 0.0
        for launch in launches:
            launch.batch = self
            launch.step.latest = self
            launch.step.queued = False

    @property
    def abandoned(self) -> bool:
        """Whether nobody will hear of it from the NPU."""
        return self.phase == "abandoned"

    def end(self, phase: str) -> None:
        """Let go of XRT's objects, which would keep a context alive. phase: "done" or "abandoned"."""
        self.phase = phase
        self.runs, self.runlist = [], None

    def state(self) -> int:
        """The state of the last launch, as XRT's number. Raises RuntimeError if the device cannot be asked."""
        runs = self.runs
        if self._state in PENDING and runs:
            self._state = int(runs[-1].state())
        return self._state

    def pause(self, since: float) -> None:
        """Let other threads run before the state is asked again."""
        waited = time.perf_counter() - since
        time.sleep(0 if waited < _SPIN_SECONDS else min(waited / 8, _LONGEST_PAUSE))

    def late(self, progress: float) -> bool:
        """Whether it takes longer than launches may. progress: when another one was last seen to have ended."""
        return time.monotonic() > max(self.deadline, progress + config.launch_seconds)

    def check(self) -> None:
        """Raise RunFailed unless all launches of a batch whose last one has ended have completed."""
        for run in self.runs:
            state = run.state()
            if int(state) != COMPLETED:
                raise RunFailed(f"the launch ended in state {str(state).rpartition('STATE_')[2]}")
        if self.runlist is not None:
            try:
                self.runlist.wait()  # Returns at once. pyxrt cannot take the time limit that it says it takes.
            except RuntimeError as error:
                named = _STATE.search(str(error))
                raise RunFailed(f"the launch ended in state {named[1]}" if named else str(error)) from None


def submit(batch: LaunchBatch, context: Context, driver: Any, chains: bool) -> None:
    """Hand the launches of a batch to XRT. chains: whether runlists may be used. Raises RuntimeError."""
    chained, single = (batch.launches[:-1], batch.launches[-1:]) if chains else ([], batch.launches)
    batch.chained = bool(chained)
    for launch in chained:
        _prepare(launch, launch.step.chained_run, context, driver)
    for launch in single:
        _prepare(launch, launch.step.single_run, context, driver)
    if chained:
        batch.runlist = context.runlist(tuple(launch.step.chained_run for launch in chained))
        try:
            batch.runlist.execute()
        except RuntimeError:
            batch.runlist = None  # Nothing of it was submitted: it is one chain.
            raise
    for launch in single:
        batch.runs.append(launch.step.single_run.run)
        try:
            batch.runs[-1].start()
        except RuntimeError:
            batch.runs.pop()
            raise
    batch.deadline = time.monotonic() + config.launch_seconds
    batch.phase = "running"
    context.latest = batch


def sync_to_device(launches: Sequence[Launch], driver: Any) -> None:
    """Let the NPU see what the host has written to the buffers of launches. Raises RuntimeError."""
    for launch in launches:
        for lease in launch.leases:
            if lease.block.host_dirty:
                _sync(lease.block, driver)


def _sync(block: SharedBlock, driver: Any) -> None:
    block.bo.sync(driver.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE)
    block.host_dirty = False


def _prepare(launch: Launch, run_object: RunObject, context: Context, driver: Any) -> None:
    """Set what differs from the run's last time, and sync what the host has written.

    Notes of what is set are taken back before they become untrue: an interrupt may come between any two lines.
    """
    if run_object.run is None:
        context.make_run(run_object, launch.step.program)
    if launch.words and run_object.words != launch.words:
        run_object.words = None
        assert run_object.instructions is not None
        write_instructions(run_object.instructions, launch.step.program.patched(launch.words), driver)
        run_object.words = launch.words
    arguments = run_object.arguments
    first = context.first
    for number, (lease, written) in enumerate(zip(launch.leases, launch.step.writes, strict=True)):
        block = lease.block
        if arguments[number] is not block:
            arguments[number] = None
            run_object.run.set_arg(first + number, block.bo)
            arguments[number] = block
        if block.host_dirty:
            _sync(block, driver)
        if written:
            block.device_dirty = True


def on_host(launch: Launch, inputs: Sequence[Any] | None = None) -> list[Buffer]:
    """The results of a launch, computed by the CPU. inputs: other values than its own. Raises what the values cause."""
    values = launch.values(inputs)
    launch.step.on_host(values)
    return [values[item] for item, _ in launch.results]
