"""The machine that the stand-in for pyxrt shows: its NPUs, what goes wrong on it, and what was asked of it.

    machine = Machine([Npu("RyzenAI-npu4")])
    with install(machine):                          # sys.modules["pyxrt"] is the stand-in meanwhile
        machine.inject(Fault.TIMEOUT, after=3)      # the fourth launch from now
        ...
    assert machine.launches == 17 and machine.live_contexts == 0 and not machine.crashes

Limits, texts and states follow XRT 2.25 and the shim of xdna-driver (src/shim): nothing here was measured on an NPU.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from unittest import mock

from npu_faults import Faults

from npu_tensor.dataflow.array import ARRAYS, Array
from npu_tensor.runtime.sim.simulated_array import SimulatedArray

LIMITS: Final = {"npu1": 6, "npu2": 16}
"""Hardware contexts by array, as the driver counts them: AIE2_MAX_HWCTX of 6, and hwctx_limit of 16."""


class Crash(RuntimeError):
    """Misuse that would end the process or corrupt memory with the real module. Recorded in `Machine.crashes`."""


@dataclass(eq=False)
class Npu:
    """One NPU. name: what XRT calls it, which decides the array. context_limit: live contexts of all processes."""

    name: str = "RyzenAI-npu4"
    bdf: str = "0000:c6:00.1"

    def __post_init__(self) -> None:
        self.first_generation = "npu1" in self.name
        self.context_limit = LIMITS[self.array.device]
        self.present = True
        self.generation = 0
        self.cores: set[Any] = set()  # weak references to the living contexts of this process
        self.closed: deque[Any] = deque()
        self.slots = itertools.cycle(range(1, 256))  # numbers of contexts, as the driver gives them

    @property
    def array(self) -> Array:
        """Array of the NPU."""
        return ARRAYS["aie2" if self.first_generation else "aie2p"]

    @cached_property
    def simulated(self) -> SimulatedArray:
        """Simulated array that runs its kernels."""
        return SimulatedArray(self.array)


class Machine(Faults):
    """State of the stand-in.

    Attributes:
        compute: True if kernels run; otherwise every launch completes and moves no data.
        polls: Number of times that state() returns SUBMITTED before a launch runs.
        submissions: Number of started runs.
        syncs: Number of syncs of buffer objects, in both directions.
        memories: See `npu_memory`.
        crashes: Misuse that crashes the real module or corrupts its memory silently.
        complaints: Questionable calls, and kernels that fail.
    """

    def __init__(self, devices: Sequence[Npu] | None = None) -> None:
        super().__init__()
        self.devices = [Npu()] if devices is None else list(devices)
        self.compute = True
        self.polls = 0
        self.crashes: list[str] = []
        self.complaints: list[str] = []
        self.submissions = self.syncs = self.contexts_made = 0
        self.memories: dict[int, int] = {}

    @property
    def live_contexts(self) -> int:
        """Contexts of this process."""
        return sum(core() is not None for npu in self.devices for core in list(npu.cores))

    @property
    def live_memories(self) -> int:
        """Buffer objects."""
        return len(self.memories)

    def plug_in(self) -> None:
        """Return the first NPU. The driver is reset, so contexts and memories that were opened before stay lost."""
        npu = self.devices[0]
        npu.generation += not npu.present
        npu.present = True

    def crash(self, what: str) -> Crash:
        """Record a misuse and return the error to raise."""
        self.crashes.append(what)
        return Crash(f"the real pyxrt would crash here: {what}")


def driver_error(number: int, what: str) -> RuntimeError:
    """An error as the shim words it (shim_err in src/shim/shim_debug.h), with the number as the kernel gives it."""
    return RuntimeError(f"{what} (err=-{number}): {os.strerror(number)}")


_current: Machine | None = None


def current() -> Machine:
    """Return the installed machine."""
    assert _current is not None
    return _current


@contextmanager
def install(machine: Machine) -> Iterator[Any]:
    """Make `import pyxrt` return the stand-in for this machine. Yields the module."""
    global _current
    import xrt_module

    before, _current = _current, machine
    try:
        with mock.patch.dict(sys.modules, pyxrt=xrt_module):
            yield xrt_module
    finally:
        _current = before
