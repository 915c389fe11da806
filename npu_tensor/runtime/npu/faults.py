"""What follows a fault: whether the NPU may be used, and what the CPU computes in its place.

A fault makes the device suspect: the next launch is a probe, which runs alone and is compared with the CPU. If it
succeeds, the device is trusted again; if not, it rests, each time longer. Launches that were abandoned are computed by
the CPU in their order.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Final, Literal

from npu_tensor._util.user_warnings import warn
from npu_tensor.config import config
from npu_tensor.errors import LaunchError, LaunchTimeout, NpuTensorError
from npu_tensor.runtime.npu.buffers import ResidentBuffer
from npu_tensor.runtime.npu.launches import Launch, on_host

__all__ = ["Health", "Recovery", "is_strict"]

FIRST_REST: Final = 0.05
LONGEST_REST: Final = 60.0
"""Seconds. A reset of the NPU takes some tens of milliseconds; what a minute does not mend needs the user."""


def is_strict() -> bool:
    """Whether a fault is an error instead of work for the CPU."""
    return config.strict or config.fallback == "error"


class Health:
    """Healthy, suspect, or at rest until a time."""

    def __init__(self) -> None:
        self._failures = 0
        self._rests_until = 0.0
        self.cause = ""
        self.trusted = True
        """Whether nothing happened since a launch was last seen to be right."""

    @property
    def state(self) -> Literal["healthy", "suspect", "resting"]:
        """resting: the CPU takes all launches. suspect: the next launch is a probe."""
        if not self._failures:
            return "healthy"
        return "resting" if time.monotonic() < self._rests_until else "suspect"

    def failed(self, cause: str) -> None:
        """A launch ended in a fault. The first one is followed by a probe at once."""
        self._failures += 1
        self.trusted = False
        self.cause = cause
        rest = FIRST_REST * 4.0 ** min(self._failures - 2, 10) if self._failures > 1 else 0.0
        self._rests_until = time.monotonic() + min(rest, LONGEST_REST)

    def recovered(self) -> None:
        """A probe gave the right result."""
        self._failures = 0
        self.trusted = True


class Recovery:
    """The abandoned launches of one NPU. All methods but `warn` are called with the lock of the NPUs."""

    def __init__(self) -> None:
        self._launches: list[Launch] = []
        self._errors: list[tuple[threading.Thread, Exception]] = []
        self._notes: list[str] = []
        self.running = 0
        """How many launches are being computed."""

    @property
    def idle(self) -> bool:
        """Whether there is nothing to compute, to raise or to say."""
        return not (self._launches or self._errors or self._notes)

    def __len__(self) -> int:
        return len(self._launches)

    def add(self, launches: Iterable[Launch]) -> None:
        """Take launches that nobody will hear of from the NPU, in the order in which they were asked for."""
        known = set(self._launches)
        self._launches += [launch for launch in launches if launch not in known]

    def note(self, message: str, cause: BaseException | None, strict: bool) -> None:
        """Say later what happened. strict: let the results of all launches be errors of this text instead."""
        if not strict:
            self._notes.append(message)
            return
        kind = LaunchTimeout if isinstance(cause, LaunchTimeout) else LaunchError
        errors: dict[threading.Thread, LaunchError] = {}  # One for each thread, which raises it once.
        for launch in self._launches:
            if launch.pending:
                error = errors.setdefault(launch.thread, kind(message))
                error.__cause__ = cause
                self._fail(launch, error)

    def recover(self, until: Launch | None = None) -> None:
        """Compute what was abandoned, up to and with `until`, or all."""
        while self._launches and (until is None or until.pending):
            # Out of the list first: an operand that comes from another NPU may lead here again.
            self._compute(self._launches.pop(0))
        # It is not in the list after an interrupt or `forget`. What it reads comes first, however long the chain is.
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
        """Let go of the launches: those that somebody looks at are computed then. What happened is still said."""
        self._launches, self._errors = [], []

    def _compute(self, launch: Launch) -> None:
        if not launch.pending:
            return
        self.running += 1
        try:
            launch.replaced(on_host(launch))
        except NpuTensorError as error:  # Others may come from a signal handler. The launch stays pending then.
            self._fail(launch, error)
        finally:
            self.running -= 1

    def _fail(self, launch: Launch, error: Exception) -> None:
        launch.failed(error)
        self._errors.append((launch.thread, error))

    def take_error(self, error: Exception | None = None) -> Exception | None:
        """Forget an error that is about to be raised: this one, or all of the calling thread, the first of which is."""
        thread = threading.current_thread()
        forgotten = [entry for entry in self._errors if (entry[0] == thread if error is None else entry[1] is error)]
        self._errors = [entry for entry in self._errors if entry not in forgotten and entry[0].is_alive()]
        return forgotten[0][1] if forgotten else error

    def warn(self) -> None:
        """Say what happened, once everything is in order again: a warning may be an exception."""
        while not self.running:
            try:
                note = self._notes.pop(0)
            except IndexError:  # Another thread says it.
                return
            warn(f"{note}; the CPU computes what was under way")
