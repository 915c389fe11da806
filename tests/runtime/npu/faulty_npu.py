"""A simulated NPU whose driver injects the faults that a test requests, and records all requests.

    npu = FaultyNpu()
    with installed(npu), nt.default_device("sim:npu2"):
        npu.inject(Fault.TIMEOUT, after=3)      # the fourth launch from now
        npu.faults = lambda launch: Fault.GARBAGE if launch % 200 == 0 else None
        ...
    assert npu.launches == 17 and npu.live_contexts == 0 and not npu.complaints

A submission runs when the host polls it. Those of a context run in order, and those of different contexts in the order
in which they are polled. An abandoned submission runs at the next submission. So a host that touches memory too early,
does not wait for another context or reuses memory that is still in use gets wrong data here every time.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock
from weakref import WeakSet, ref

from npu_faults import Fault, Faults
from npu_memory import Memory

from npu_tensor.errors import DeviceError
from npu_tensor.planner import selection
from npu_tensor.runtime.npu.driver import DriverError, NpuProgram, RunRequest
from npu_tensor.runtime.npu.npu_engine import NpuEngine
from npu_tensor.runtime.sim import simulated_device
from npu_tensor.runtime.sim.simulated_array import SimulatedArray
from npu_tensor.runtime.sim.simulated_device import SimulatedDevice
from npu_tensor.runtime.sim.simulated_driver import (
    SimulatedContext,
    SimulatedDriver,
    SimulatedProgram,
    SimulatedRun,
    SimulatedSubmission,
)

__all__ = ["FaultyDriver", "FaultyNpu", "installed"]

INSTRUCTIONS: Final = 4096
"""Bytes that a run needs in addition to its arguments."""


class FaultyNpu(Faults):
    """Faults of an NPU, or of several as one device, and counts of requests.

    With a START fault, the runs before it have started. Runs after an ERROR or a TIMEOUT in a submission do not run.

    Attributes:
        context_limit: Upper bound on the contexts of each NPU.
        polls: Polls that report a submission as unfinished before it runs.
        syncs_ask: True if syncs fail while the device is away.
        complaints: Errors of the runtime.
        new_outputs: Outputs of launches in memory that no launch had used before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.context_limit = 16
        self.polls = 0
        self.syncs_ask = False
        self.complaints: list[str] = []
        self.to_device = self.from_device = self.new_outputs = 0
        self.drivers: list[FaultyDriver] = []
        self.engines: WeakSet[NpuEngine] = WeakSet()
        self.contexts: WeakSet[FaultyContext] = WeakSet()
        self.memories: dict[int, int] = {}
        self.abandoned: list[FaultySubmission] = []

    @property
    def engine(self) -> NpuEngine:
        (engine,) = self.engines
        return engine

    @property
    def live_contexts(self) -> int:
        """Contexts that were not closed."""
        return sum(not context.closed for context in self.contexts)

    @property
    def live_memories(self) -> int:
        """Number of memories in use, including those of contexts."""
        return len(self.memories)

    def unplug(self) -> None:
        """Remove the device."""
        for driver in self.drivers:
            driver.present = False

    def plug_in(self, reset: bool = True) -> None:
        """Return the device. After a `reset`, contexts and memories that were opened before stay lost."""
        for driver in self.drivers:
            driver.generation += reset and not driver.present
            driver.present = True

    def run_abandoned(self) -> None:
        """Run submissions without a waiter, unless they hang or the device is away."""
        for submission in self.abandoned:
            submission.advance(patient=True)
        self.abandoned = [each for each in self.abandoned if not each.done and each.context.usable]

    def end_hung(self) -> None:
        """Abort everything in flight, as a driver does after a hang of some seconds."""
        with self.lock:
            for context in set(self.contexts):
                context.abort()
            self.abandoned.clear()


class FaultyMemory(Memory):
    """See `driver.Memory`."""

    def __init__(self, driver: FaultyDriver, nbytes: int) -> None:
        super().__init__(nbytes, driver.npu.memories)
        self.is_new = True
        self._driver = driver
        self._generation = driver.generation

    def to_device(self) -> None:
        self._driver.npu.to_device += 1
        self._check()
        super().to_device()

    def from_device(self) -> None:
        self._driver.npu.from_device += 1
        self._check()
        super().from_device()

    def _check(self) -> None:
        if self._driver.npu.syncs_ask:
            self._driver.check(self._generation)


class FaultyDriver(SimulatedDriver):
    """See `driver.Driver`. `present` is False for a removed device; `generation` counts resets."""

    launch_seconds = 10

    def __init__(self, npu: FaultyNpu, array: SimulatedArray) -> None:
        super().__init__(array)
        self.npu = npu
        self.present = True
        self.generation = 0
        self._opened = -1
        npu.drivers.append(self)

    def open(self) -> None:
        if not self.present:
            raise DeviceError("the device is away (err=-19)")
        self._opened = self.generation

    def check(self, generation: int | None = None) -> None:
        """Raise DriverError if the device is away. generation: when something was made that is used."""
        generation = self._opened if generation is None else generation
        if not self.present or generation != self.generation:
            raise DriverError("the device is away (err=-19)", lost=True)

    def allocate(self, nbytes: int) -> Any:
        npu = self.npu
        self.check()
        fault = npu.due(Fault.MEMORY, Fault.BAD_ALLOC)
        if fault is Fault.BAD_ALLOC:
            raise DriverError("std::bad_alloc")
        if fault is Fault.MEMORY:
            raise DriverError("no memory (err=-12)", blameless=True)
        return FaultyMemory(self, nbytes)

    def load(self, program: NpuProgram) -> FaultyContext:
        npu = self.npu
        self.check()
        with npu.lock:
            npu.run_abandoned()
            living = sum(not context.closed and context.driver is self for context in npu.contexts)
            if npu.due(Fault.CONTEXT) is not None or living >= npu.context_limit:
                raise DriverError("no context (err=-28)", busy=True, blameless=True)
            assert isinstance(program, SimulatedProgram)
            return FaultyContext(self, program)


class FaultyRun:
    """See `driver.Run`. `instructions` is the memory that it needs in addition to its arguments."""

    def __init__(self, context: FaultyContext, program: SimulatedProgram) -> None:
        self.context = context
        self.program = program
        self.instructions = context.driver.allocate(INSTRUCTIONS)


class FaultyContext(SimulatedContext):
    """See `driver.Context`. On the first generation, closing one context sets `broken` for all."""

    def __init__(self, driver: FaultyDriver, program: SimulatedProgram) -> None:
        super().__init__(driver.array, program)
        self.driver = driver
        self.closed = False
        self.broken = False
        self.queue: deque[FaultySubmission] = deque()
        self._generation = driver.generation
        self._runs: WeakSet[FaultyRun] = WeakSet()
        driver.npu.contexts.add(self)

    @property
    def usable(self) -> bool:
        """True if its device has been present all the time."""
        return self.driver.present and self._generation == self.driver.generation

    def check(self) -> None:
        """Raise DriverError if nothing can be handed over."""
        self.driver.check(self._generation)
        if self.broken:
            raise DriverError("the context went with another one (err=-2)")

    def run(self, program: NpuProgram) -> Any:
        assert isinstance(program, SimulatedProgram)
        run = FaultyRun(self, program)
        self._runs.add(run)
        return run

    def prepare(self, requests: Sequence[Any]) -> FaultySubmission:
        for run, memories, _ in requests:
            for memory, written in zip(memories, run.program.written, strict=True):
                self.driver.npu.new_outputs += written and memory.is_new
                memory.is_new = False
        return FaultySubmission(self, requests)

    def abort(self) -> None:
        """End everything that is under way."""
        for submission in self.queue:
            submission.done, submission.error = True, DriverError("the launch ended in state ABORT")
        self.queue.clear()

    def close(self) -> None:
        npu = self.driver.npu
        if any(not submission.is_abandoned for submission in self.queue):
            npu.complaints.append("a context is closed in which something runs that somebody waits for")
        if not self.closed and self.driver.array.array.arch == "aie2":
            for other in set(npu.contexts):
                other.broken |= other.driver is self.driver
        self.closed = True
        for run in set(self._runs):
            run.instructions = None
        super().close()


class FaultySubmission(SimulatedSubmission):
    """See `driver.Submission`. It does not keep the memory of its launches, as XRT does not."""

    def __init__(self, context: FaultyContext, requests: Sequence[RunRequest]) -> None:
        super().__init__(context.driver.array, ())
        self.context = context
        self.done = False
        self.error: DriverError | None = None
        self.is_abandoned = False
        self._npu = context.driver.npu
        self._looks = 0
        self._launches = [(run, [ref(memory) for memory in memories], words) for run, memories, words in requests]
        self._faults: list[Fault | None] = []
        self._used: tuple[object, ...] = ()

    def start(self) -> None:
        npu, context = self._npu, self.context
        with npu.lock:
            npu.run_abandoned()
            context.check()
            try:
                for _ in self._launches:
                    fault = npu.launch_fault()
                    if fault is Fault.LOST:
                        context.driver.present = False
                        context.check()
                    if fault is Fault.START:
                        raise DriverError("the launch is not taken (err=-5)")
                    self._faults.append(fault)
            finally:
                context.queue.append(self)

    def advance(self, patient: bool = False) -> bool:
        """Run the context until this has ended; return False if it has not. `patient` waits for more than one poll."""
        queue = self.context.queue
        with self._npu.lock:
            while not self.done and queue and self.context.usable:
                first = queue[0]
                if first._looks < self._npu.polls and not patient:
                    first._looks += 1
                    return False
                if Fault.HANG in first._faults:
                    return False
                first.error = first._computed()
                queue.popleft().done = True
                if Fault.TIMEOUT in first._faults:
                    self.context.abort()
            return self.done

    def _computed(self) -> DriverError | None:
        """Run the launches. Returns what ends them early."""
        npu = self._npu
        for (run, references, words), fault in zip(self._launches, self._faults, strict=False):
            memories: list[Any] = [reference() for reference in references]
            if None in memories:
                npu.complaints.append("memory was freed before its launch had ended")
                return None
            assert isinstance(run, FaultyRun)
            outputs = [memory for memory, written in zip(memories, run.program.written, strict=True) if written]
            if fault is None:
                self._requests = (RunRequest(SimulatedRun(self.context, run.program), memories, words),)
                super().start()
                assert self._end is not None
                if (error := self._end.exception()) is not None:
                    npu.complaints.append(str(error))
            for memory in outputs:
                if fault is not None:
                    memory.fill_with_garbage(npu.launches)
                if memory.written_by_npu():
                    npu.complaints.append("the NPU wrote memory that had dirty lines in the cache")
            if fault in (Fault.ERROR, Fault.TIMEOUT):
                return DriverError(f"the launch ended in state {fault.name}")
        self._requests = ()
        return None

    def ended(self) -> bool:
        if not self.done:
            self.context.driver.check()
        return self.advance()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def check(self) -> None:
        if self.error is not None:
            raise self.error

    def observed(self, number: int) -> tuple[()]:
        """Return nothing, like a real NPU."""
        return ()

    def abandon(self, *used: object) -> None:
        self.is_abandoned = True
        if self in self.context.queue:
            self._used = used
            self._npu.abandoned.append(self)


@contextmanager
def installed(npu: FaultyNpu) -> Iterator[None]:
    """Replace simulated NPUs by this one. They are opened again, and check their kernels like real ones."""

    class FaultyDevice(SimulatedDevice):
        self_checks = True

        def open_engine(self) -> NpuEngine:
            engine = NpuEngine(FaultyDriver(npu, self.array), self.target.array.arch, self.uri, self.allocator)
            npu.engines.add(engine)
            return engine

    with mock.patch.object(simulated_device, "SimulatedDevice", FaultyDevice):
        selection.reset()
        try:
            yield
        finally:
            selection.reset()
