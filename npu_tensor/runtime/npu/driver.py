"""What an NPU is to the runtime: memory, contexts and submissions. `runtime.xrt` and `runtime.sim` have one each.

    memory = driver.allocate(4096)
    context = driver.load(program, make_room)
    submission = context.prepare([RunRequest(context.run(program), [memory], words)], chain=False)
    submission.start()
    while not submission.ended():
        submission.wait(1e-3)
    submission.check()

Nothing here is remembered from one launch to the next but what a run is set to. What was written by whom, what lies
where, what is under way and what is done about a fault is above it, and the same for every driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from npu_tensor import events
from npu_tensor.runtime.npu.npu_program import NpuProgram

__all__ = ["Bytes", "Context", "Driver", "DriverError", "Memory", "Run", "RunRequest", "Submission"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class DriverError(Exception):
    """What the driver or the array says when something fails.

    Its cause is what was raised, if anything was. lost: whether the device is away until it is opened again. busy:
    whether a context may be had once others are given up. blameless: whether it may befall any program, as a lack of
    memory, and a lost device.
    """

    def __init__(self, message: str, *, lost: bool = False, busy: bool = False, blameless: bool = False) -> None:
        super().__init__(message)
        self.lost = lost
        self.busy = busy
        self.blameless = blameless or lost


class Memory(Protocol):
    """A buffer. What one side has written, the other sees after a sync. Its contents may be anything at first."""

    @property
    def bytes(self) -> Bytes:
        """For the host. Does not keep the memory alive."""
        ...

    @property
    def address(self) -> int:
        """Of the first byte, for the host."""
        ...

    def to_device(self) -> None:
        """Let the device see what the host has written. Raises DriverError."""
        ...

    def from_device(self) -> None:
        """Let the host see what the device has written. Raises DriverError."""
        ...


class Run(Protocol):
    """A program in a context, ready to be launched again and again, but not twice at the same time."""

    @property
    def context(self) -> Context:
        """Where it was made. Once that is closed, the run cannot be used."""
        ...


class RunRequest(NamedTuple):
    """A launch. memories: one per argument of the program. words: of its runtime parameters, if it has any."""

    run: Run
    memories: Sequence[Memory]
    words: Sequence[int]


class Submission(Protocol):
    """Launches that were handed over together, in order."""

    def start(self) -> None:
        """Hand them over. Raises DriverError, also if some of them have begun; returns before they have ended."""
        ...

    def ended(self) -> bool:
        """Whether the last one has, in whatever way. Raises DriverError if the device cannot be asked."""
        ...

    def wait(self, seconds: float) -> None:
        """Let other threads run for so long, or until the end if that can be noticed."""
        ...

    def check(self) -> None:
        """Raise DriverError unless all have done their work. Called when the last one has ended."""
        ...

    def observed(self, number: int) -> Sequence[events.Part]:
        """What the array has noted of the work of one launch that has ended. Nothing of a real one."""
        ...

    def abandon(self, *used: object) -> None:
        """Nobody waits any more. used: what must live until the device cannot touch it."""
        ...


class Context(Protocol):
    """A binary that is loaded, for all programs that have it. program: for which it was loaded."""

    @property
    def program(self) -> NpuProgram: ...

    def run(self, program: NpuProgram) -> Run:
        """A run of a program. Raises DriverError."""
        ...

    def prepare(self, requests: Sequence[RunRequest], chain: bool) -> Submission:
        """Set the runs to their arguments. chain: whether they may become one list. Raises DriverError."""
        ...

    def close(self) -> None:
        """Give the context up, whatever runs in it."""
        ...


class Driver(Protocol):
    """One NPU."""

    @property
    def launch_seconds(self) -> float:
        """How long the runtime waits for a launch."""
        ...

    def open(self) -> None:
        """Open the device, also after it was closed. Raises DeviceError."""
        ...

    def close(self, lost: bool) -> None:
        """Let go of the device; its memory stays readable for the host. lost: whether it is away."""
        ...

    def allocate(self, nbytes: int) -> Memory:
        """Memory of at least so many bytes. Raises DriverError."""
        ...

    def load(self, program: NpuProgram, make_room: Callable[[], object]) -> Context:
        """A new context with a program's binary. make_room: gives memory back. Raises DriverError, BuildError."""
        ...
