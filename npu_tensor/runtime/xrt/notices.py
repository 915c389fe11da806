"""What listeners and users hear of an NPU: collected while the lock of the NPUs is held, said without it."""

from __future__ import annotations

import time
from typing import Literal

from npu_tensor import events
from npu_tensor.runtime.xrt.recovery import Recovery

__all__ = ["Notices"]


class Notices:
    """The events of one NPU that are yet to be emitted. uri: of the NPU. recovery: what warns of its faults."""

    def __init__(self, uri: str, recovery: Recovery) -> None:
        self.uri = uri
        self._recovery = recovery
        self._events: list[events.Event] = []

    @property
    def pending(self) -> bool:
        """Whether there are events to emit."""
        return bool(self._events)

    def add(self, event: events.Event) -> None:
        """Emit an event later, if anybody listens by now; a part of what this thread does joins it at once."""
        if events.listeners and not events.collected(event):
            self._events.append(event)

    def add_phase(self, name: Literal["sync", "convert", "dispatch", "run"], since: float) -> float:
        """Something was done from then, by time.perf_counter, until now, which is returned."""
        now = time.perf_counter()
        self.add(events.Phase(name, self.uri, now - since, when=now))
        return now

    def add_context(
        self, kind: type[events.ContextOpened | events.ContextClosed], kernel: str, contexts: int
    ) -> None:
        """A context of a kernel was opened or closed. contexts: how many there are then."""
        self.add(kind(kernel, self.uri, contexts))

    def say(self) -> None:
        """Emit events and warnings, once everything is in order again: a listener may do anything, a warning raise."""
        if self._recovery.running:
            return
        while self._events:
            try:
                event = self._events.pop(0)
            except IndexError:  # Another thread emits it.
                break
            events.emit(event)
        self._recovery.warn()

    def forget(self) -> None:
        """Emit none of the events."""
        self._events.clear()
