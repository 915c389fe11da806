"""Fault policy: when an NPU may be used, and recovery of abandoned launches on the CPU.

A failed launch abandons everything in flight, and the CPU computes it in order. The next launch runs by itself and is
compared with the CPU. If it is right, the device is trusted again; if not, the device rests.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Final

from npu_tensor._util.user_warnings import warn
from npu_tensor.config import config
from npu_tensor.errors import LaunchError, LaunchTimeout, NpuTensorError
from npu_tensor.runtime.npu.buffers import ResidentBuffer
from npu_tensor.runtime.npu.launches import Launch, on_host

REST_SECONDS: Final = 10.0
"""Time without launches after a second failure in a row. A reset of the NPU takes some tens of milliseconds, and a
launch that hangs waits as long as this.
"""


def raises_on_fault() -> bool:
    """Return True if a fault raises an error instead of moving the work to the CPU."""
    return config.fallback == "error"


class Health:
    """Failures of a device since its last correct result. `cause` is the latest one."""

    def __init__(self) -> None:
        self.failures = 0
        self.cause = ""
        self._rests_until = 0.0

    @property
    def resting(self) -> bool:
        """True while the device gets no launches."""
        return self.failures > 1 and time.monotonic() < self._rests_until

    def failed(self, cause: str) -> None:
        """Record a failed launch."""
        self.failures += 1
        self.cause = cause
        self._rests_until = time.monotonic() + REST_SECONDS

    def recovered(self) -> None:
        """Record a correct result."""
        self.failures = 0


class Recovery:
    """Abandoned launches of one NPU. All methods except `warn` are called with the lock of the NPUs."""

    def __init__(self) -> None:
        self._launches: list[Launch] = []
        self._errors: list[tuple[threading.Thread, Exception]] = []
        self._warnings: list[str] = []
        self.running = 0
        """Number of launches that the CPU is computing."""

    @property
    def idle(self) -> bool:
        """True if there is nothing to compute, to raise or to warn about."""
        return not (self._launches or self._errors or self._warnings)

    def __len__(self) -> int:
        return len(self._launches)

    def add(self, launches: Iterable[Launch]) -> None:
        """Add abandoned launches in the order in which they were requested."""
        known = set(self._launches)
        self._launches += [launch for launch in launches if launch not in known]

    def report(self, message: str, cause: BaseException | None) -> None:
        """Queue a warning. Without fallback, the message is the error of all abandoned launches instead."""
        if not raises_on_fault():
            self._warnings.append(message)
            return
        kind = LaunchTimeout if isinstance(cause, LaunchTimeout) else LaunchError
        errors: dict[threading.Thread, LaunchError] = {}  # One for each thread, which raises it once.
        for launch in self._launches:
            if launch.pending:
                error = errors.setdefault(launch.thread, kind(message))
                error.__cause__ = cause
                self._fail(launch, error)

    def recover(self, until: Launch | None = None) -> None:
        """Compute the abandoned launches, up to and including `until`, or all."""
        while self._launches and (until is None or until.pending):
            # Out of the list first: an operand on another NPU may lead here again.
            self._compute(self._launches.pop(0))
        # `until` is not in the list after an interrupt or `forget`. Its inputs come first, however long the chain is.
        waiting = [until] if until is not None else []
        while waiting:
            earlier = [
                value.launch
                for value in waiting[-1].inputs
                if isinstance(value, ResidentBuffer) and isinstance(value.launch, Launch) and value.launch.pending
            ]
            if earlier and waiting[-1].pending:
                waiting += earlier
            else:
                self._compute(waiting.pop())

    def forget(self) -> None:
        """Drop the launches, which are computed if they are read later. Warnings stay."""
        self._launches, self._errors = [], []

    def _compute(self, launch: Launch) -> None:
        if not launch.pending:
            return
        self.running += 1
        try:
            launch.replaced(on_host(launch))
        except NpuTensorError as error:  # Other exceptions may come from a signal handler; the launch stays pending.
            self._fail(launch, error)
        finally:
            self.running -= 1

    def _fail(self, launch: Launch, error: Exception) -> None:
        launch.failed(error)
        self._errors.append((launch.thread, error))

    def take_error(self, error: Exception | None = None) -> Exception | None:
        """Forget an error that the caller raises: `error`, or all of this thread. Returns the first one."""
        thread = threading.current_thread()
        forgotten = [entry for entry in self._errors if (entry[0] == thread if error is None else entry[1] is error)]
        self._errors = [entry for entry in self._errors if entry not in forgotten and entry[0].is_alive()]
        return forgotten[0][1] if forgotten else error

    def warn(self) -> None:
        """Issue the queued warnings. Called with everything in order: a warning may raise."""
        while self._warnings:
            try:
                message = self._warnings.pop(0)
            except IndexError:  # Another thread has issued it.
                return
            warn(f"{message}; the CPU computes what was under way")
