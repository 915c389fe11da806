"""Execution on one NPU: launches are queued, submitted in batches and waited for. After a fault the CPU computes them.

    engine.enqueue(launch, faults)      # from any thread
    engine.synchronize()                # all launches requested before have ended

One lock orders the work of all threads on all NPUs. A thread waits for an NPU with the lock only if the run objects of
an earlier launch are needed again, and after a fault. An interrupt (KeyboardInterrupt) may come at any line: launches
whose state is then unknown are abandoned and computed by the CPU.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from threading import Thread, current_thread
from typing import Any, Final, Literal
from weakref import WeakValueDictionary

from npu_tensor import events
from npu_tensor._util.forks import new_lock
from npu_tensor.config import config
from npu_tensor.dataflow.array import Arch
from npu_tensor.errors import BuildError, LaunchError, LaunchTimeout
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.runtime.memory import Allocator, Buffer
from npu_tensor.runtime.npu.buffers import BlockPool, ResidentBuffer, SharedBlock, host_form
from npu_tensor.runtime.npu.contexts import Contexts
from npu_tensor.runtime.npu.driver import Context, Driver, DriverError, Memory, NpuProgram, Submission
from npu_tensor.runtime.npu.faults import Health, Recovery, raises_on_fault
from npu_tensor.runtime.npu.launches import Launch, LaunchBatch, sync_to_device

MOST_FAULTS: Final = 3
"""Consecutive faults of one kernel after which this process leaves it to the CPU."""

MOST_QUEUED: Final = 25
"""Upper bound on runs that wait to be submitted."""

SPIN_SECONDS: Final = 300e-6
PAUSE_SECONDS: Final = 100e-6
"""Most launches end within some hundred microseconds. Waiting for longer ones should cost little."""

lock = new_lock()
"""Lock of all NPUs."""

_keys = itertools.count()
"""Keys of copies, which are different on all NPUs."""


class NpuEngine:
    """One open NPU."""

    def __init__(self, driver: Driver, arch: Arch, uri: str, allocator: Allocator) -> None:
        self.driver = driver
        self.arch = arch
        self.uri = uri
        self.allocator = allocator
        self.recovery = Recovery()
        self.contexts = Contexts(self)
        self.pool = self._new_pool()
        self.health = Health()
        self.faults = 0
        self.forked = False
        self.ready = False
        """True if the device is open, and in this process."""
        self.progress = 0.0
        """Time at which a batch was last seen to have ended."""
        self._keys: dict[HostOperand | int, int] = {}
        self.programs: WeakValueDictionary[str, NpuProgram] = WeakValueDictionary()
        self._queue: list[Launch] = []
        self._batches: list[LaunchBatch] = []
        self._events: list[tuple[Thread, events.Event]] = []
        self.reopen()

    @property
    def busy(self) -> int:
        """Number of launches that are not known to have ended."""
        return len(self._queue) + sum(len(batch.launches) for batch in self._batches)

    def known(self, program: NpuProgram) -> NpuProgram:
        """Return the object that represents all equal programs."""
        return self.programs.setdefault(program.key, program)

    def key(self, form: HostOperand | int) -> int:
        """Return the key of a form of a tensor in this NPU's memory."""
        key = self._keys.get(form)
        return self._keys.setdefault(form, next(_keys)) if key is None else key

    def check_process(self) -> None:
        """Raise DeviceError in a process that was forked after the NPU was opened."""
        if self.forked:
            self.driver.open()

    # --- events

    def note(self, event: events.Event, thread: Thread | None = None) -> None:
        """Queue an event, which is emitted without the lock because a listener may do anything.

        A part joins the current event of `thread`, by default this one, once that thread flushes.
        """
        if events.listeners and (thread not in (None, current_thread()) or not events.collected(event)):
            with lock:
                self._events.append((thread or current_thread(), event))

    def note_phase(self, name: Literal["sync", "convert", "dispatch", "run"], since: float) -> float:
        """Queue a phase that began at `since`, by time.perf_counter, and ends now. Returns the current time."""
        now = time.perf_counter()
        self.note(events.Phase(name, self.uri, now - since, when=now))
        return now

    def flush(self) -> None:
        """Emit events and warnings. Called with everything in order: a listener may do anything, a warning raise."""
        if self.recovery.running:
            return
        if self._events:
            due: list[events.Event] = []
            rest: list[tuple[Thread, events.Event]] = []
            with lock:
                for thread, event in self._events:
                    # A part joins an event of its thread; any thread can emit the others.
                    if isinstance(event, events.Part) and thread is not current_thread() and thread.is_alive():
                        rest.append((thread, event))
                    else:
                        due.append(event)
                self._events = rest
            for event in due:
                if not events.collected(event):
                    events.emit(event)
        self.recovery.warn()

    # --- buffers

    def _new_pool(self) -> BlockPool:
        return BlockPool(self._allocate, config.pool_bytes)

    def _allocate(self, nbytes: int) -> Memory:
        if not self.ready:
            raise DriverError(self.health.cause, blameless=True)  # It was lost while a launch was put together.
        if self.pool.nbytes + nbytes > config.npu_memory_bytes:
            raise DriverError(
                f"all buffers together would exceed npu_memory_bytes={config.npu_memory_bytes}; some NPUs damage "
                "contents above 26 GB; to risk it, set npu_memory_bytes higher",
                blameless=True,
            )
        return self.driver.allocate(nbytes)

    def host_copy(self, resident: ResidentBuffer) -> SharedBlock | Buffer:
        """Wait for a value and return host memory that holds it. Raises LaunchError if it could not be computed."""
        self.check_process()
        if resident.launch is not None:
            self.finish(resident.launch)
        with lock:
            if resident.host is None:
                assert resident.lease is not None
                if resident.lease.block.device_dirty:
                    self._sync_from(resident.lease.block)
                since = time.perf_counter()
                resident.host = host_form(resident, self.allocator)
                if events.listeners:
                    self.note_phase("convert", since)
            host = resident.host
        if self._events:
            self.flush()
        return host

    def _sync_from(self, block: SharedBlock) -> None:
        since = time.perf_counter()
        try:
            block.from_device()
        except DriverError as error:
            raise LaunchError(f"a result on {self.uri} cannot be read any more: {error}") from None
        if events.listeners:
            self.note_phase("sync", since)

    # --- launches

    def enqueue(self, launch: Launch, faults: int) -> bool:
        """Queue a launch. Returns False if a fault has occurred since its leases were taken, at the count `faults`."""
        with lock:
            if self.faults != faults:
                return False
            queue = self._queue
            if queue and (
                launch.step.queued
                or queue[0].step.program is not launch.step.program
                or len(queue) * launch.step.program.steps >= MOST_QUEUED
            ):
                self._submit()
                if self.faults != faults:
                    return False
            launch.step.queued = True
            for _, result in launch.results:
                result.launch = launch
            self._queue.append(launch)
            return True

    def submit(self) -> None:
        """Start the queued launches."""
        if self._queue:
            with lock:
                self._submit()

    def _submit(self) -> None:
        """Submit the queue as a batch. Called with the lock."""
        if self._batches and self._batches[-1].phase != "running":
            self._abandon()  # An interrupt has left it in an unknown state.
        if not self._queue:
            return
        program = self._queue[0].step.program
        earlier = [batch for launch in self._queue if (batch := launch.step.latest) and batch.phase == "running"]
        batch = LaunchBatch(self._queue)
        self._batches.append(batch)
        self._queue = []
        try:
            for other in earlier:
                self.wait(other)  # Its run objects are needed again.
            if batch.phase != "submitting":
                return  # There was a fault meanwhile.
            since = time.perf_counter()
            context = batch.context = self.contexts.get(program)
            if batch.phase == "submitting":  # There was no fault meanwhile.
                observed = bool(events.listeners)
                if observed:
                    since = self.note_phase("dispatch", since)
                sync_to_device(batch.launches)
                if observed:
                    since = self.note_phase("sync", since)
                batch.begin(context, self.driver.launch_seconds)
                if observed:
                    self.note_phase("dispatch", since)
        except BuildError as error:
            program.refused = str(error)
            self._fault(DriverError(str(error)), program, suspect=False)
        except DriverError as error:
            if batch.phase == "submitting":  # Otherwise this error follows from a fault that was handled.
                self._fault(error, program)

    def load(self, program: NpuProgram) -> Context:
        """Create a context. Raises DriverError, BuildError."""
        if not self.ready:
            raise DriverError(self.health.cause, blameless=True)  # It was lost while another context was waited for.
        return self.driver.load(program)

    def wait_for_context(self, context: Context) -> None:
        """Wait until nothing runs in a context."""
        for batch in tuple(self._batches):
            if batch.context is context:
                self.wait(batch)

    def wait(self, batch: LaunchBatch) -> None:
        """Wait until a batch and all earlier ones have ended or are abandoned."""
        while batch.phase == "running":
            running = (other for other in tuple(self._batches) if other.phase == "running")
            self._wait_for_oldest(next(running, batch))

    def _wait_for_oldest(self, batch: LaunchBatch) -> None:
        since, seconds = time.perf_counter(), self.driver.launch_seconds
        while batch.phase == "running":
            submission, fault = batch.submission, None
            if submission is None:
                continue  # Another thread is recording its end.
            try:
                ended = submission.ended()
            except DriverError as error:
                ended, fault = True, error
            if not ended:
                # The time limit begins when the previous batch has ended.
                if time.monotonic() <= max(batch.deadline, self.progress + seconds):
                    submission.wait(0 if time.perf_counter() - since < SPIN_SECONDS else PAUSE_SECONDS)
                    continue
                fault = DriverError(text := f"no answer within {seconds} s")
                fault.__cause__ = LaunchTimeout(text)
            with lock:
                if batch.phase != "running":
                    break
                if events.listeners and not submission.observed(0):
                    self.note_phase("run", since)
                if fault is not None:
                    self._fault(fault, batch.program)
                else:
                    self._complete(batch, submission)

    def _complete(self, batch: LaunchBatch, submission: Submission) -> None:
        """Record that a batch has ended. Called with the lock."""
        try:
            submission.check()
        except DriverError as error:
            self._fault(error, batch.program)
            return
        if events.listeners:
            for number, launch in enumerate(batch.launches):
                for part in submission.observed(number):
                    self.note(part, launch.thread)
        if batch.program.checked and not self.health.failures:  # Otherwise the results may be garbage.
            batch.program.faults = 0
        for launch in batch.launches:
            launch.completed()
        batch.end("done")
        self.progress = time.monotonic()
        self._batches.remove(batch)
        # The latest first, so that the next run finds its blocks in the order in which it takes them.
        launches, batch.launches = batch.launches, []
        while launches:
            launches.pop()

    def finish(self, launch: Any) -> None:
        """Wait until a launch has ended, on the NPU or on the CPU. Raises the error that replaces its results."""
        while isinstance(launch, Launch) and launch.pending:
            batch = launch.batch
            if batch is not None and batch.phase == "running":
                self.wait(batch)
                continue
            with lock:
                batch = launch.batch
                if batch is None and launch in self._queue:
                    self._submit()
                elif launch.pending and (batch is None or batch.phase != "running"):
                    if batch is None or batch.phase != "abandoned":
                        self._abandon(launch)  # An interrupt has left it in an unknown state.
                    self.recovery.recover(launch)
        error = launch.error if isinstance(launch, Launch) else launch
        if error is not None:
            with lock:
                self.recovery.take_error(error)
        self.flush()
        if error is not None:
            raise error.with_traceback(None)  # Otherwise it keeps the frames of all threads that have raised it.

    def synchronize(self) -> None:
        """Wait until all launches enqueued before have ended. The CPU computes those that faults have left over.

        Raises the error of a launch of this thread that failed on the CPU, too, or without fallback (LaunchError).
        """
        self.check_process()
        if self._queue or self._batches:
            with lock:
                self._submit()
                batches = tuple(self._batches)
            for batch in batches:
                self.wait(batch)
        if not self.recovery.idle:
            with lock:
                self.recovery.recover()
                error = self.recovery.take_error()
            self.flush()
            if error is not None:
                raise error.with_traceback(None)
        elif self._events:
            self.flush()

    # --- faults

    def _fault(self, fault: DriverError, program: NpuProgram, suspect: bool = True) -> None:
        """Handle a failed launch. The device may be the cause if it is `suspect`. Called with the lock."""
        cause = str(fault)
        program.faults += not fault.blameless
        if program.faults >= MOST_FAULTS and not program.refused:
            program.refused = f"it failed {program.faults} times on {self.uri}, the last time because: {cause}"
        if suspect:
            self.health.failed(cause)
        self._abandon()
        last = f" for the {program.faults}th time, and is not launched any more" if program.refused else ""
        self._report(fault, program, last, len(self.recovery))
        if fault.lost:
            self._release_device(lost=True)
        else:
            self.pool.release()

    def _report(self, fault: DriverError, program: NpuProgram, last: str, launches: int) -> None:
        self.recovery.report(f"{program.name} failed on {self.uri}{last}: {fault}", fault.__cause__)
        self.note(events.DeviceFault(program.name, self.uri, str(fault), launches))

    def _abandon(self, *launches: Launch) -> None:
        """Abandon all pending launches, and close the contexts in which they may run. Called with the lock.

        The fault counter changes before and after, so that `enqueue` refuses a launch whose leases were taken
        meanwhile. A resident value found meanwhile belongs to an abandoned batch.
        """
        self.faults += 1
        if self._queue or launches:
            self._batches.append(LaunchBatch([*launches, *self._queue]))
            self._queue = []
        for batch in self._batches:
            if batch.submission is not None:
                batch.submission.abandon([launch.leases for launch in batch.launches])
            batch.end("abandoned")
        # An interrupt may have come when a part of a batch was recorded as completed.
        doomed = [launch for batch in self._batches for launch in batch.launches if launch.pending]
        self.recovery.add(doomed)
        self.contexts.close()
        for launch in doomed:
            for _, result in launch.results:
                result.lease = None
            for lease, written in zip(launch.leases, launch.step.writes, strict=True):
                if written:
                    self.pool.discard(lease)
        for batch in self._batches:
            batch.launches = []  # Steps keep the batch, which must not keep their buffers.
        self._batches = []  # Last: while a batch is here that does not run, all this is done again.
        self.faults += 1

    def abandon_all(self) -> None:
        """Abandon all pending launches. The CPU computes them when they are read."""
        with lock:
            if self._queue or self._batches:
                self._abandon()

    def decline(self, program: NpuProgram, fault: DriverError) -> None:
        """Report that a kernel is not launched for lack of memory. Raises LaunchError without fallback."""
        with lock:
            if fault.lost:
                self._fault(fault, program)
            else:
                self._report(fault, program, "", 1)
        self.flush()
        if raises_on_fault():
            raise LaunchError(f"{program.name} failed on {self.uri}: {fault}")

    def reject(self, launch: Launch, cause: str, right: Sequence[Buffer]) -> None:
        """Replace wrong results of a finished launch by the values `right`. Raises LaunchError without fallback."""
        with lock:
            self._fault(DriverError(cause), launch.step.program)
            launch.replaced(right)
            self.recovery.recover()
        self.flush()
        if raises_on_fault():
            raise LaunchError(f"{launch.step.program.name} failed on {self.uri}: {cause}")

    def reopen(self) -> None:
        """Open the device unless it is open. Raises DeviceError."""
        if not self.ready:
            self.driver.open()
            self.ready = True

    def _release_device(self, lost: bool = False) -> None:
        """Close the device. Values in its memory stay readable. Called with the lock."""
        self.ready = False
        self.driver.close(lost)
        self.pool.retire()
        self.pool = self._new_pool()
        self.faults += 1  # `enqueue` refuses a lease of the old pool that another thread has taken since `_abandon`.

    def close(self) -> None:
        """Release the device. The CPU computes pending launches when they are read."""
        if self.forked:
            return
        try:
            for batch in tuple(self._batches):
                self.wait(batch)
        finally:  # A wait may be interrupted.
            with lock:
                self._abandon()
                self._release_device()
                self.health.recovered()
                self.health.cause = "it was closed"
                self._events = []
                self.programs = WeakValueDictionary()
                self.recovery.forget()
