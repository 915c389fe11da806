"""The events of an NPU: collected while a lock is held, emitted without it, as a listener may do anything.

Example:
    notices = Notices("sim:npu2")
    since = time.perf_counter()
    pack(...)
    since = notices.add_phase("convert", since)
    notices.emit()
"""

from __future__ import annotations

import time
from threading import Thread, current_thread
from typing import Literal

from npu_tensor import events

__all__ = ["Notices"]


class Notices:
    """The events that are yet to be emitted. uri: of the NPU."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._events: list[events.Event] = []
        self._of_threads: dict[Thread, list[events.Event]] = {}

    @property
    def pending(self) -> bool:
        """Whether there are events to emit."""
        return bool(self._events or self._of_threads)

    def add(self, event: events.Event) -> None:
        """Emit an event later, if anybody listens by now; a part of what this thread does joins it at once."""
        if events.listeners and not events.collected(event):
            self._events.append(event)

    def add_to(self, thread: Thread, event: events.Event) -> None:
        """The same for a part of what another thread does, which joins it when that thread emits events."""
        if thread is current_thread() or not thread.is_alive():
            self.add(event)
        elif events.listeners:
            self._of_threads.setdefault(thread, []).append(event)

    def add_phase(self, name: Literal["sync", "convert", "dispatch", "run"], since: float) -> float:
        """Something was done from then, by time.perf_counter, until now, which is returned."""
        now = time.perf_counter()
        self.add(events.Phase(name, self.uri, now - since, when=now))
        return now

    def emit(self) -> None:
        """Emit the events in their order; of those that are for a thread, the ones for this one or one that ended."""
        for thread in tuple(self._of_threads):
            if thread is current_thread() or not thread.is_alive():
                for part in self._of_threads.pop(thread, ()):
                    if not events.collected(part):
                        events.emit(part)
        while self._events:
            try:
                event = self._events.pop(0)
            except IndexError:  # Another thread emits it.
                break
            events.emit(event)

    def forget(self) -> None:
        """Emit none of the events."""
        self._events.clear()
        self._of_threads.clear()
