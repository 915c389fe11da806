"""The machine that the stand-in for pyxrt shows: its NPUs, what goes wrong on it, and what was asked of it.

    machine = Machine([Npu("RyzenAI-npu4", context_limit=6)])
    with install(machine):                          # sys.modules["pyxrt"] is the stand-in meanwhile
        machine.inject(Fault.TIMEOUT, after=3)      # the fourth launch from now
        machine.faults = lambda launch: Fault.GARBAGE if launch % 200 == 0 else None
        ...
    assert machine.launches == 17 and machine.live_contexts == 0 and not machine.crashes

Limits, texts and states follow XRT 2.25 and the shim of xdna-driver (src/shim): nothing here was measured on an NPU.
"""

from __future__ import annotations

import enum
import errno
import importlib
import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from npu_tensor.dataflow.array import ARRAYS, Array

__all__ = ["Crash", "Fault", "Machine", "Npu", "current", "driver_error", "install"]

LIMITS: Final = {"npu1": 6, "npu2": 16}
"""Hardware contexts by array, as the driver counts them: AIE2_MAX_HWCTX of 6, and hwctx_limit of 16."""


class Crash(RuntimeError):
    """What would end the process or corrupt memory with the real module. Also noted in `Machine.crashes`."""


class Fault(enum.Enum):
    """What can go wrong. The first six meet a launch, the others what their names say."""

    ERROR = "state ERROR; the outputs hold garbage"
    TIMEOUT = "state TIMEOUT; the outputs hold garbage, what is queued behind it in the context is aborted"
    HANG = "never completes, nor does what is queued behind it in the context"
    GARBAGE = "COMPLETED; the outputs hold garbage"
    START = "start or execute raises err=-5"
    LOST = "the device is gone when the launch starts: every call raises err=-19"
    CONTEXT = "the next context is refused as at the limit"
    MEMORY = "the next buffer object raises err=-12"
    BAD_ALLOC = "the next buffer object raises MemoryError: std::bad_alloc"


LAUNCH_FAULTS: Final[tuple[Fault, ...]] = (
    Fault.ERROR,
    Fault.TIMEOUT,
    Fault.HANG,
    Fault.GARBAGE,
    Fault.START,
    Fault.LOST,
)


@dataclass(eq=False)
class Npu:
    """One NPU.

    name: what XRT calls it, which decides the array. context_limit: live contexts of all processes together; None for
    the driver's own. refusal: the error number of one context too many, ENOSPC or EINVAL. memory: bytes of buffer
    objects that fit; None for any number.
    """

    name: str = "RyzenAI-npu4"
    bdf: str = "0000:c6:00.1"
    context_limit: int | None = None
    refusal: int = errno.ENOSPC
    memory: int | None = None

    def __post_init__(self) -> None:
        self.first_generation = "npu1" in self.name or "Phoenix" in self.name
        if self.context_limit is None:
            self.context_limit = LIMITS[self.array.device]
        self.present = True
        self.generation = 0
        self.cores: set[Any] = set()  # weak references to the living contexts of this process
        self.closed: deque[Any] = deque()
        self.slots = itertools.cycle(range(1, 256))  # numbers of contexts, as the driver gives them

    @property
    def array(self) -> Array:
        """What is simulated for it."""
        return ARRAYS["aie2" if self.first_generation else "aie2p"]


class Machine:
    """All state of the stand-in. compute: whether kernels run; without, every launch completes and moves nothing.

    driver_sync: whether syncs ask the driver (XRT's setting Debug.force_driver_sync), which fails without the device.
    polls: how often state() says SUBMITTED before a launch runs. group_of_kernel: whether a launch touches only buffers
    of its context's own group, and completes all the same (mlir-aie#3653). chains: whether firmware takes a runlist of
    two and more, which some rejects (iree-amd-aie#1404). wrong_arch: what a kernel for the other array does.
    crashes: misuse that the real module answers with a crash or silent corruption. warnings: what is questionable.
    """

    def __init__(self, devices: Sequence[Npu] | None = None) -> None:
        self.devices = [Npu()] if devices is None else list(devices)
        self.compute = True
        self.driver_sync = False
        self.polls = 0
        self.group_of_kernel = False
        self.chains = True
        self.wrong_arch: Literal["zeros", "error", "timeout"] = "zeros"
        self.crashes: list[str] = []
        self.warnings: list[str] = []
        self.failures: list[str] = []
        self.lock = threading.RLock()
        self.count_launch = itertools.count()
        self.count_submission = itertools.count()
        self.count_to_device = itertools.count()
        self.count_from_device = itertools.count()
        self.count_set_arg = itertools.count()
        self.count_poll = itertools.count()
        self.count_context = itertools.count()
        self.allocated: deque[int] = deque()
        self.freed: deque[int] = deque()
        self._live = [0, 0]
        self.faults: Callable[[int], Fault | None] | None = None
        self.injected: list[tuple[int, Fault]] = []

    # What was asked of it.

    @property
    def launches(self) -> int:
        """Kernels that were submitted, or were to be and the driver refused."""
        return _value(self.count_launch)

    @property
    def submissions(self) -> int:
        """Calls of the driver that submitted something: one per run, one per 24 runs of a list."""
        return _value(self.count_submission)

    @property
    def to_device(self) -> int:
        """Syncs in this direction."""
        return _value(self.count_to_device)

    @property
    def from_device(self) -> int:
        """Syncs in this direction."""
        return _value(self.count_from_device)

    @property
    def set_args(self) -> int:
        """Calls of run.set_arg."""
        return _value(self.count_set_arg)

    @property
    def state_polls(self) -> int:
        """Calls of run.state."""
        return _value(self.count_poll)

    @property
    def contexts_made(self) -> int:
        """Contexts that were created."""
        return _value(self.count_context)

    @property
    def live_contexts(self) -> int:
        """Contexts of this process."""
        return sum(core() is not None for npu in self.devices for core in list(npu.cores))

    @property
    def live_bos(self) -> int:
        """Buffer objects; sub-buffers count with the one that they are part of."""
        self._settle()
        return self._live[0]

    @property
    def live_bytes(self) -> int:
        """Bytes of all buffer objects."""
        self._settle()
        return self._live[1]

    def note_allocated(self, nbytes: int) -> None:
        """Count a buffer object."""
        self.allocated.append(nbytes)
        if len(self.allocated) > 1000:
            self._settle()

    def _settle(self) -> None:
        # Destructors may run in any thread at any time, so that they only append.
        with self.lock:
            for sign, sizes in ((1, self.allocated), (-1, self.freed)):
                while sizes:
                    self._live[0] += sign
                    self._live[1] += sign * sizes.popleft()

    # What goes wrong.

    def inject(self, fault: Fault, after: int = 0, times: int = 1) -> None:
        """Let a fault happen, once `after` of what it meets went well."""
        with self.lock:
            base = self.launches if fault in LAUNCH_FAULTS else 0
            self.injected += [(base + after + number, fault) for number in range(times)]

    def launch_fault(self, launch: int) -> Fault | None:
        """What happens to the launch of this number, counted from 0."""
        fault: Fault | None = None
        for entry in self.injected:
            if entry[0] == launch and entry[1] in LAUNCH_FAULTS:
                self.injected.remove(entry)
                fault = entry[1]
                break
        if fault is None and self.faults is not None:
            fault = self.faults(launch)
            if fault is not None and fault not in LAUNCH_FAULTS:
                self.inject(fault)
                return None
        return fault

    def creation_fault(self, *faults: Fault) -> Fault | None:
        """What happens to the context or buffer object that is being made."""
        with self.lock:
            due: Fault | None = None
            left = []
            for after, fault in self.injected:
                if fault not in faults:
                    left.append((after, fault))
                elif after == 0 and due is None:
                    due = fault
                else:
                    left.append((max(after - 1, 0), fault))
            self.injected = left
        return due

    def unplug(self, number: int = 0) -> None:
        """Take an NPU away: every call that needs it raises err=-19."""
        self.devices[number].present = False

    def plug_in(self, number: int = 0, reset: bool = True) -> None:
        """Bring it back. reset: as the driver starts anew, so that what was opened before stays lost."""
        npu = self.devices[number]
        npu.generation += not npu.present and reset
        npu.present = True

    def crash(self, what: str) -> Crash:
        """Note a misuse. Returns the error to be raised."""
        self.crashes.append(what)
        return Crash(f"the real pyxrt would crash here: {what}")


def _value(count: itertools.count[int]) -> int:
    """What a counter stands at. next() of one is atomic, which += of an attribute is not."""
    return int(repr(count)[6:-1])


def driver_error(number: int, what: str) -> RuntimeError:
    """An error as the shim words it (shim_err in src/shim/shim_debug.h), with the number as the kernel gives it."""
    return RuntimeError(f"{what} (err=-{number}): {os.strerror(number)}")


_current: Machine | None = None


def current() -> Machine:
    """What an object belongs to that is made without another one; a machine with one NPU where none is installed."""
    global _current
    if _current is None:
        _current = Machine()
    return _current


@contextmanager
def install(machine: Machine) -> Iterator[Any]:
    """Let `import pyxrt` give the stand-in, with this machine behind it. Gives the module."""
    global _current
    standin = _load()
    before = _current, sys.modules.get("pyxrt")
    _current, sys.modules["pyxrt"] = machine, standin
    try:
        yield standin
    finally:
        _current, imported = before
        if imported is None:
            del sys.modules["pyxrt"]
        else:
            sys.modules["pyxrt"] = imported


@cache
def _load() -> Any:
    """The stand-in as a module, without making it importable for others."""
    directory = Path(__file__).parent
    imported = sys.modules.pop("pyxrt", None)
    if imported is not None and Path(imported.__file__ or "").parent == directory:
        sys.modules["pyxrt"] = imported
        return imported
    sys.path.insert(0, str(directory))
    try:
        return importlib.import_module("pyxrt")
    finally:
        sys.path.remove(str(directory))
        sys.modules.pop("pyxrt", None)
        if imported is not None:
            sys.modules["pyxrt"] = imported
