"""Interface between the runtime and one NPU: memory, contexts and submissions.

    memory = driver.allocate(4096)
    context = driver.load(program)
    submission = context.prepare([RunRequest(context.run(program), [memory], words)])
    submission.start()
    while not submission.ended():
        submission.wait(1e-3)
    submission.check()

`runtime.xrt` implements it for real NPUs, `runtime.sim` for simulated ones. A driver remembers only what its runs are
set to. Dirty caches, residency, queues and faults are handled above it, in the same way for all drivers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from npu_tensor import events

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class DriverError(Exception):
    """A failure that the driver or the array reports. Its `__cause__` is the original exception, if there is one.

    Attributes:
        lost: True if the device is unusable until it is opened again.
        busy: True if a context may become available once other ones are closed.
        blameless: True if the program did not cause the failure (out of memory, device lost).
    """

    def __init__(self, message: str, *, lost: bool = False, busy: bool = False, blameless: bool = False) -> None:
        super().__init__(message)
        self.lost = lost
        self.busy = busy
        self.blameless = blameless or lost


@dataclass(eq=False, kw_only=True)
class NpuProgram:
    """Program of a launch, shared by all steps that have the same one.

    Attributes:
        key: Key of the binary and of this use of it.
        binary: Key of the binary. Programs of one binary run in one context.
        steps: Number of driver runs per launch.
        checked: True if its results need no comparison now.
        faults: Failed launches since the last correct one.
        refused: Reason why the program is not launched any more, or empty.
    """

    name: str
    key: str
    binary: str
    sizes: Sequence[int]
    steps: int = 1
    checked: bool = False
    faults: int = 0
    refused: str = ""


class Memory(Protocol):
    """A buffer shared by host and device, with undefined initial contents. Syncs make writes visible."""

    @property
    def bytes(self) -> Bytes:
        """Host view of the buffer. It does not keep the memory alive."""
        ...

    @property
    def address(self) -> int:
        """Host address of the first byte."""
        ...

    def to_device(self) -> None:
        """Make host writes visible to the device. Raises DriverError."""
        ...

    def from_device(self) -> None:
        """Make device writes visible to the host. Raises DriverError."""
        ...


class Run(Protocol):
    """A program in a context. It can be launched repeatedly, but not twice at the same time."""

    @property
    def context(self) -> Context:
        """Context of the run. Once it is closed, the run cannot be used."""
        ...


class RunRequest(NamedTuple):
    """A launch: its run, one memory per argument of the program, and the words of its runtime parameters."""

    run: Run
    memories: Sequence[Memory]
    words: Sequence[int]


class Submission(Protocol):
    """Launches that are handed over together, in order."""

    def start(self) -> None:
        """Hand the launches over without waiting for them. Raises DriverError, also if some have begun."""
        ...

    def ended(self) -> bool:
        """Return True if the last launch has ended, successfully or not. Raises DriverError."""
        ...

    def wait(self, seconds: float) -> None:
        """Let other threads run for this time, or until the end if the driver can notice it."""
        ...

    def check(self) -> None:
        """Raise DriverError unless all launches succeeded. Called after the last one has ended."""
        ...

    def observed(self, number: int) -> Sequence[events.Part]:
        """Return the events of one finished launch; empty on real hardware."""
        ...

    def abandon(self, *used: object) -> None:
        """Stop waiting, and keep the objects in `used` alive until the device cannot access them."""
        ...


class Context(Protocol):
    """A loaded binary, shared by all programs of this binary."""

    @property
    def program(self) -> NpuProgram:
        """Program for which the context was loaded."""
        ...

    def run(self, program: NpuProgram) -> Run:
        """Create a run of a program. Raises DriverError."""
        ...

    def prepare(self, requests: Sequence[RunRequest]) -> Submission:
        """Set the arguments of the runs. Raises DriverError."""
        ...

    def close(self) -> None:
        """Release the context, even if something runs in it."""
        ...


class Driver(Protocol):
    """One NPU."""

    @property
    def launch_seconds(self) -> float:
        """Time limit of a launch, in seconds."""
        ...

    def open(self) -> None:
        """Open the device, or open it again. Raises DeviceError."""
        ...

    def close(self, lost: bool) -> None:
        """Release the device, which may be lost. The host can still read its memory."""
        ...

    def allocate(self, nbytes: int) -> Memory:
        """Allocate at least `nbytes`. Raises DriverError."""
        ...

    def load(self, program: NpuProgram) -> Context:
        """Load the binary of a program into a new context.

        Raises:
            DriverError: The driver provides no context.
            BuildError: The binary does not fit the program.
        """
        ...
