"""What happens on one NPU: launches are queued, submitted in batches, waited for and, after a fault, left to the CPU.

    engine.enqueue(launch)      # from any thread
    engine.synchronize()        # all that was asked for has ended

One lock orders what all threads do to all NPUs. It is held while an NPU is waited for only where the objects of an
earlier launch are needed again, and after a fault. An interrupt (KeyboardInterrupt) may end any line: what is in doubt
afterwards is abandoned and computed by the CPU.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

from npu_tensor import events
from npu_tensor._util.forks import new_lock
from npu_tensor._util.user_warnings import warn
from npu_tensor.config import config
from npu_tensor.dataflow.array import Arch
from npu_tensor.errors import BuildError, LaunchError, LaunchTimeout
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.runtime.memory import Allocator, Buffer
from npu_tensor.runtime.npu.buffers import BlockPool, ResidentBuffer, SharedBlock, host_form
from npu_tensor.runtime.npu.contexts import Contexts
from npu_tensor.runtime.npu.driver import Context, Driver, DriverError, Memory, RunRequest
from npu_tensor.runtime.npu.faults import Health, Recovery, is_strict
from npu_tensor.runtime.npu.keepalive import KeepAlive
from npu_tensor.runtime.npu.launches import Launch, LaunchBatch, run_alone, sync_to_device
from npu_tensor.runtime.npu.notices import Notices
from npu_tensor.runtime.npu.npu_program import NpuProgram

__all__ = ["NpuEngine", "lock"]

MOST_FAULTS: Final = 3
"""Of one kernel in a row, after which this process leaves it to the CPU."""

MOST_QUEUED: Final = 25
"""Runs that wait to be submitted: one chain of XRT, which holds 24, and the last one by itself."""

lock = new_lock()
"""Of all NPUs."""

_keys = itertools.count()
"""Keys of copies are different on all NPUs."""


class NpuEngine:
    """One NPU, opened. uri: for messages. chains: whether launches may be submitted as lists."""

    chains = False

    def __init__(self, driver: Driver, arch: Arch, uri: str, allocator: Allocator) -> None:
        self.driver = driver
        self.arch = arch
        self.uri = uri
        self.allocator = allocator
        self.recovery = Recovery()
        self.notices = Notices(uri)
        self.contexts = Contexts(arch, self._load, self._settle, self.notices)
        self.pool = self._new_pool()
        self.health = Health()
        self.faults = 0
        self.forked = False
        self.ready = False
        """Whether the device is open, and in this process."""
        self.latest = 0.0
        """When something was last submitted, by the monotonic clock."""
        self.progress = 0.0
        """When something was last seen to have ended."""
        self.keepalive: KeepAlive | None = None
        self._keys: dict[HostOperand | int, int] = {}
        self.programs: WeakValueDictionary[str, NpuProgram] = WeakValueDictionary()
        self._queue: list[Launch] = []
        self._batches: list[LaunchBatch] = []
        self.reopen()

    @property
    def busy(self) -> int:
        """How many launches have not ended, as far as is known."""
        return len(self._queue) + sum(len(batch.launches) for batch in self._batches)

    def known(self, program: NpuProgram) -> NpuProgram:
        """The one object that stands for all programs that are the same."""
        return self.programs.setdefault(program.key, program)

    def key(self, form: HostOperand | int) -> int:
        """What stands for a form of a tensor in this NPU's memory."""
        key = self._keys.get(form)
        return self._keys.setdefault(form, next(_keys)) if key is None else key

    def check_process(self) -> None:
        """Raise DeviceError in a process that was forked after the NPU was opened."""
        if self.forked:
            self.driver.open()

    def say(self) -> None:
        """Emit events and warnings, once everything is in order again: a listener may do anything, a warning raise."""
        if not self.recovery.running:
            self.notices.emit()
            self.recovery.warn()

    # --- buffers

    def _new_pool(self) -> BlockPool:
        return BlockPool(self._create, config.pool_bytes)

    def _create(self, nbytes: int) -> Memory:
        if not self.ready:
            raise DriverError(self.health.cause, blameless=True)  # It was lost while a launch was put together.
        return self.driver.allocate(nbytes)

    def host_copy(self, resident: ResidentBuffer) -> SharedBlock | Buffer:
        """Where the host can read the value; waits for it. Raises LaunchError if it could not be computed."""
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
                    self.notices.add_phase("convert", since)
            host = resident.host
        if self.notices.pending:
            self.say()
        return host

    def _sync_from(self, block: SharedBlock) -> None:
        since = time.perf_counter()
        try:
            block.from_device()
        except DriverError as error:
            raise LaunchError(f"a result on {self.uri} cannot be read any more: {error}") from None
        if events.listeners:
            self.notices.add_phase("sync", since)

    # --- launches

    def enqueue(self, launch: Launch, faults: int) -> bool:
        """Take a launch whose leases were found when there had been `faults` faults; False if there was one since."""
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
        """Let the NPU begin with what was enqueued."""
        if self._queue:
            with lock:
                self._submit()

    def _submit(self) -> None:
        """With the lock."""
        if self._batches and self._batches[-1].phase != "running":
            self._abandon()  # An interrupt has left it in doubt.
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
                return  # A fault meanwhile.
            since = time.perf_counter()
            context = batch.context = self.contexts.get(program)
            if batch.phase == "submitting":  # No fault meanwhile.
                observed = bool(events.listeners)
                if observed:
                    since = self.notices.add_phase("dispatch", since)
                sync_to_device(batch.launches)
                if observed:
                    since = self.notices.add_phase("sync", since)
                batch.begin(context, self.chains, self.driver.launch_seconds)
                if observed:
                    self.notices.add_phase("dispatch", since)
                self.latest = time.monotonic()
        except BuildError as error:
            program.refused = str(error)
            self._fault(DriverError(str(error)), program, suspect=False)
        except DriverError as error:
            if batch.phase == "submitting":  # Otherwise that fault is known, and this one follows from it.
                self._fault(error, program, chained=batch.chained)

    def _load(self, program: NpuProgram) -> Context:
        if not self.ready:
            raise DriverError(self.health.cause, blameless=True)  # It was lost while another context was waited for.
        return self.driver.load(program, self._make_room)

    def _make_room(self) -> None:
        """Give back the memory that nothing uses: of the pool of now, as contexts outlive the one they began with."""
        self.pool.release()

    def _settle(self, context: Context) -> None:
        for batch in tuple(self._batches):
            if batch.context is context:
                self.wait(batch)

    def wait(self, batch: LaunchBatch) -> None:
        """Return when the NPU has ended a batch, or is not waited for any more."""
        since, seconds = time.perf_counter(), self.driver.launch_seconds
        while batch.phase == "running":
            submission, fault = batch.submission, None
            if submission is None:
                continue  # Another thread notes its end.
            try:
                ended = submission.ended()
            except DriverError as error:
                ended, fault = True, error
            if not ended and not batch.late(self.progress, seconds):
                batch.pause(since)
                continue
            if not ended:
                first = next((other for other in tuple(self._batches) if other.phase == "running"), batch)
                if first is not batch:
                    self._note_waiting(since)
                    self.wait(first)  # This one may have waited for it.
                    since = time.perf_counter()
                    continue
                fault = DriverError(text := f"no answer within {seconds} s")
                fault.__cause__ = LaunchTimeout(text)
            with lock:
                if batch.phase != "running":
                    break
                if events.listeners and not submission.observed(0):
                    self._note_waiting(since)
                if fault is not None:
                    self._fault(fault, batch.program, chained=batch.chained)
                else:
                    self._complete(batch)

    def _note_waiting(self, since: float) -> None:
        if events.listeners:
            self.notices.add_phase("run", since)

    def _complete(self, batch: LaunchBatch) -> None:
        """A batch's last launch has ended, and so have those before it in its context. With the lock."""
        for ended in [other for other in self._batches if other.phase == "running" and other.context is batch.context]:
            submission = ended.submission
            assert submission is not None
            try:
                submission.check()
            except DriverError as error:
                self._fault(error, ended.program, chained=ended.chained)
                return
            if events.listeners:
                for number, launch in enumerate(ended.launches):
                    for part in submission.observed(number):
                        self.notices.add_to(launch.thread, part)
            if self.health.trusted and ended.program.checked:  # Otherwise it may be garbage.
                ended.program.faults = 0
            for launch in ended.launches:
                launch.completed()
            ended.end("done")
            self.progress = time.monotonic()
            self._batches.remove(ended)
            # The latest first: the next run finds its blocks in the order in which it takes them.
            launches, ended.launches = ended.launches, []
            while launches:
                launches.pop()
            if ended is batch:
                return

    def finish(self, launch: Any) -> None:
        """Return when a launch has ended, on the NPU or on the CPU. Raises the error that its results are, if any."""
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
                    if batch is None or not batch.abandoned:
                        self._abandon(launch)  # An interrupt has left it in doubt.
                    self.recovery.recover(launch)
        error = launch.error if isinstance(launch, Launch) else launch
        if error is not None:
            with lock:
                self.recovery.take_error(error)
        self.say()
        if error is not None:
            raise error.with_traceback(None)  # Otherwise it holds the frames of all that have raised it.

    def synchronize(self) -> None:
        """Return when everything that was enqueued before has ended.

        What faults have left over is computed by the CPU, in order. Raises what went wrong there with launches of this
        thread, or LaunchError for them if strict.
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
            self.say()
            if error is not None:
                raise error.with_traceback(None)
        elif self.notices.pending:
            self.say()

    # --- faults

    def _fault(self, fault: DriverError, program: NpuProgram, suspect: bool = True, chained: bool = False) -> None:
        """A launch of a program failed. With the lock.

        suspect: whether the device may be to blame. chained: whether it was one of a chain, which may be to blame: this
        process makes no more.
        """
        cause = str(fault)
        if chained:
            self.chains = False
        program.faults += not chained and not fault.blameless
        if program.faults >= MOST_FAULTS and not program.refused:
            program.refused = f"it failed {program.faults} times on {self.uri}, the last time because: {cause}"
        if suspect:
            self.health.failed(cause)
        self._abandon()
        last = f" for the {program.faults}th time, and is not launched any more" if program.refused else ""
        self.recovery.note(f"{program.name} failed on {self.uri}{last}: {cause}", fault.__cause__, is_strict())
        if fault.lost:
            self._let_go(lost=True)
        self.notices.add(events.DeviceFault(program.name, self.uri, cause, len(self.recovery)))

    def _abandon(self, *launches: Launch) -> None:
        """Give up all that has not ended, and the contexts in which it may still run. With the lock.

        A lease that was looked up before does not get into the queue: the number of faults is another one before and
        after. One that is looked up meanwhile belongs to an abandoned batch, which shows.
        """
        self.faults += 1
        if self._queue or launches:
            self._batches.append(LaunchBatch([*launches, *self._queue]))
            self._queue = []
        for batch in self._batches:
            if batch.submission is not None:
                batch.submission.abandon([launch.leases for launch in batch.launches])
            batch.end("abandoned")
        # An interrupt may have come when some of a batch had been noted as completed.
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
            batch.launches = []  # Their steps remember the batch, and must not keep their buffers.
        self._batches = []  # Last: as long as one is there that does not run, all this is done again.
        self.faults += 1

    def abandon_all(self) -> None:
        """Let the CPU compute what has not ended, once somebody looks."""
        with lock:
            if self._queue or self._batches:
                self._abandon()

    def decline(self, program: NpuProgram, fault: DriverError) -> None:
        """Say that a kernel is not launched now, for want of a buffer. Raises LaunchError if strict."""
        cause, lost = str(fault), fault.lost
        if lost:
            with lock:
                self._fault(fault, program)
            self.say()
        elif events.listeners:
            events.emit(events.DeviceFault(program.name, self.uri, cause, 1))
        if is_strict():
            raise LaunchError(f"{program.name} failed on {self.uri}: {cause}")
        if not lost:
            warn(f"the CPU computes {program.name}, not {self.uri}: {cause}")

    def reject(self, launch: Launch, cause: str, right: Sequence[Buffer]) -> None:
        """The results of a launch that has ended are wrong; `right` takes their place. Raises LaunchError if strict."""
        with lock:
            self._fault(DriverError(cause), launch.step.program)
            launch.replaced(right)
            self.recovery.recover()
        self.say()
        if is_strict():
            raise LaunchError(f"{launch.step.program.name} failed on {self.uri}: {cause}")

    def reopen(self) -> None:
        """Open the device, also after it was lost or closed. Raises DeviceError."""
        if not self.ready:
            self.driver.open()
            self.ready = True

    def _let_go(self, lost: bool = False) -> None:
        """Of the device; values that lie in its memory stay readable. With the lock."""
        self.ready = False
        self.driver.close(lost)
        self.pool.retire()
        self.pool = self._new_pool()
        self.faults += 1  # A lease of the old pool that another thread has got since `_abandon` is refused.

    def keep_awake(self, seconds: float) -> None:
        """Touch the NPU while it is idle, until so long after the last launch."""
        if sys.is_finalizing():  # No thread runs any more, and starting one would wait forever.
            return
        if self.keepalive is None or not self.keepalive.alive:
            self.keepalive = KeepAlive(self.touch, lambda: self.latest, seconds)
        self.keepalive.seconds = max(seconds, self.keepalive.seconds)

    def touch(self) -> None:
        """Run a loaded program on buffers of zeros, so that the NPU stays awake. Does nothing if it is busy."""
        with lock:
            context = self.contexts.smallest()
            if self._queue or self._batches or context is None or not self.health.trusted:
                return
            leases = [self.pool.take(size) for size in context.program.sizes]
            for lease in leases:
                lease.block.host_dirty = True
                lease.block.bytes[:] = 0  # Whatever they are for: indices, too, are in range.
                lease.block.to_device()
            memories = [lease.block.memory for lease in leases]
            submission = context.prepare([RunRequest(context.run(context.program), memories, ())], chain=False)
            self.latest = time.monotonic()
            try:
                run_alone(submission, self.driver.launch_seconds, leases)
            except DriverError as error:
                for lease in leases:
                    self.pool.discard(lease)
                self._fault(error, context.program)

    def close(self) -> None:
        """Give everything back; what has not ended is computed by the CPU when somebody looks."""
        if self.forked:
            return
        if self.keepalive is not None:
            self.keepalive.stop()
            self.keepalive = None
        try:
            for batch in tuple(self._batches):
                self.wait(batch)
        finally:  # A wait may be interrupted.
            with lock:
                self._abandon()
                self._let_go()
                self.health.recovered()
                self.health.cause = "it was closed"
                self.notices.forget()
                self.programs = WeakValueDictionary()
                self.recovery.forget()
