"""Events of an NPU, collected under its lock and emitted without it, because a listener may do anything.

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
    """Pending events of the NPU with this URI."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._events: list[events.Event] = []
        self._of_threads: dict[Thread, list[events.Event]] = {}

    @property
    def pending(self) -> bool:
        """True if there are events to emit."""
        return bool(self._events or self._of_threads)

    def add(self, event: events.Event) -> None:
        """Queue an event if there is a listener. A part of this thread's current event joins that event at once."""
        if events.listeners and not events.collected(event):
            self._events.append(event)

    def add_to(self, thread: Thread, event: events.Event) -> None:
        """Queue a part of another thread's event. It joins that event when the thread emits."""
        if thread is current_thread() or not thread.is_alive():
            self.add(event)
        elif events.listeners:
            self._of_threads.setdefault(thread, []).append(event)

    def add_phase(self, name: Literal["sync", "convert", "dispatch", "run"], since: float) -> float:
        """Queue a phase that began at `since`, by time.perf_counter, and ends now. Returns the current time."""
        now = time.perf_counter()
        self.add(events.Phase(name, self.uri, now - since, when=now))
        return now

    def emit(self) -> None:
        """Emit the events in order, and the parts of this thread's event or of threads that have ended."""
        for thread in tuple(self._of_threads):
            if thread is current_thread() or not thread.is_alive():
                for part in self._of_threads.pop(thread, ()):
                    if not events.collected(part):
                        events.emit(part)
        while self._events:
            try:
                event = self._events.pop(0)
            except IndexError:  # Another thread has emitted it.
                break
            events.emit(event)

    def forget(self) -> None:
        """Drop all events."""
        self._events.clear()
        self._of_threads.clear()
