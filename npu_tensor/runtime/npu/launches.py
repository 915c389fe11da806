"""Launches: runs that were requested from an NPU and have not ended, and their submission.

Launches of one context are submitted together as a batch. A driver works in order, so all have ended when the last one
has.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Thread, current_thread
from typing import TYPE_CHECKING, Any, Literal

from npu_tensor.runtime.memory import Buffer
from npu_tensor.runtime.npu.buffers import Lease, ResidentBuffer
from npu_tensor.runtime.npu.driver import Context, RunRequest, Submission

if TYPE_CHECKING:
    from npu_tensor.runtime.npu.launch_step import LaunchStep


@dataclass(eq=False, slots=True)
class Launch:
    """One run of a step, with everything to submit it or to compute it on the CPU instead.

    Attributes:
        leases: Buffers in the order of the program's arguments.
        results: Result buffers by item, at least one.
        on_device: True if the NPU has computed it.
        error: Error that replaces its results.
    """

    step: LaunchStep
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
        """True if it has neither values nor an error yet."""
        return self.results[0][1].launch is self

    def values(self, inputs: Sequence[Any] | None = None) -> list[Any]:
        """Create a list of values for steps that compute the same, from its own inputs or from replacements."""
        values: list[Any] = [None] * self.step.size
        for item, value in zip(self.step.inputs, self.inputs if inputs is None else inputs, strict=True):
            values[item] = value
        return values

    def request(self, context: Context) -> RunRequest:
        """Create the request for a context. Raises DriverError."""
        step = self.step
        run = step.run
        if run is None or run.context is not context:
            run = step.run = context.run(step.program)
        return RunRequest(run, [lease.block.memory for lease in self.leases], self.words)

    def completed(self) -> None:
        """Record that the NPU has computed it."""
        self.on_device = True
        for _, result in self.results:
            result.launch = None

    def failed(self, error: Exception) -> None:
        """Replace its results by an error, which reading them raises."""
        self.error = error
        for _, result in self.results:
            result.lease = None
            result.launch = error

    def replaced(self, values: Sequence[Any]) -> None:
        """Store results that the CPU has computed."""
        # The first result last because `pending` reads it: an interrupt may come between.
        for (_, result), value in reversed(list(zip(self.results, values, strict=True))):
            result.host = value
            result.home = None
            result.lease = None
            result.launch = None


class LaunchBatch:
    """Launches that are submitted together.

    Attributes:
        phase: State of the batch. One that is "submitting" while no thread submits it was interrupted.
    """

    __slots__ = ("context", "deadline", "launches", "phase", "program", "submission")

    def __init__(self, launches: list[Launch]) -> None:
        self.launches = launches
        self.program = launches[0].step.program
        self.phase: Literal["submitting", "running", "done", "abandoned"] = "submitting"
        self.context: Context | None = None
        self.submission: Submission | None = None
        self.deadline = 0.0
        for launch in launches:
            launch.batch = self
            launch.step.latest = self
            launch.step.queued = False

    def begin(self, context: Context, seconds: float) -> None:
        """Submit the launches with a time limit in seconds. Raises DriverError."""
        # Stored before it begins: an interrupt may come between.
        self.submission = context.prepare([launch.request(context) for launch in self.launches])
        self.submission.start()
        self.deadline = time.monotonic() + seconds
        self.phase = "running"

    def end(self, phase: Literal["done", "abandoned"]) -> None:
        """Change the phase and release the context, because steps keep the batch."""
        self.phase = phase
        self.submission = self.context = None


def sync_to_device(launches: Sequence[Launch]) -> None:
    """Make host writes to the buffers of launches visible to the NPU. Raises DriverError."""
    for launch in launches:
        for lease, written in zip(launch.leases, launch.step.writes, strict=True):
            block = lease.block
            if block.host_dirty:
                block.to_device()
            if written:
                block.device_dirty = True


def on_host(launch: Launch, inputs: Sequence[Any] | None = None) -> list[Buffer]:
    """Compute the results of a launch on the CPU, from its own inputs or from replacements."""
    values = launch.values(inputs)
    launch.step.on_host(values)
    return [values[item] for item, _ in launch.results]
