"""Coroutines that take turns: one runs until it has to wait for another. Nothing here is preempted or timed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from greenlet import getcurrent, greenlet

__all__ = ["Gate", "Scheduler"]


class Scheduler:
    """Runs coroutines until each has ended or waits.

    They belong to the thread that `start` is called in, as do the calls of `run` and `close`.
    """

    def __init__(self) -> None:
        self.ready: deque[greenlet] = deque()
        self._started: list[greenlet] = []
        self._main: greenlet | None = None

    def start(self, body: Callable[[], None]) -> None:
        """Add a coroutine; it begins at the next `run`."""
        coroutine = greenlet(body)
        self._started = [started for started in self._started if not started.dead]
        self._started.append(coroutine)
        self.ready.append(coroutine)

    def run(self) -> None:
        """Let everything run until nothing can. An exception of a coroutine ends this call."""
        self._main = getcurrent()
        ready = self.ready
        while ready:
            coroutine = ready.popleft()
            coroutine.parent = self._main
            coroutine.switch()

    def close(self) -> None:
        """End all coroutines. Python's garbage collector does not see what their stacks refer to."""
        for coroutine in self._started:
            coroutine.parent = getcurrent()
            coroutine.throw()
        self.ready.clear()

    def suspend(self) -> None:
        """Give the turn back; before, the caller notes itself where something will make it ready again."""
        assert self._main is not None
        self._main.switch()


class Gate:
    """A place where at most one coroutine waits, in a loop around `wait` that looks whether it may go on.

    reason: why it waits, None if it need not be told.
    """

    __slots__ = ("_scheduler", "_waiting", "reason")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: greenlet | None = None
        self.reason: Callable[[], str | None] | None = None

    def wait(self, reason: Callable[[], str | None]) -> None:
        """Stop until `open` is called."""
        self.reason = reason
        self._waiting = getcurrent()
        self._scheduler.suspend()

    def open(self) -> None:
        """Let the one that waits here look again."""
        if self._waiting is not None:
            self._scheduler.ready.append(self._waiting)
            self._waiting = None

    @property
    def complaint(self) -> str | None:
        """What the one that waits here would say."""
        return self.reason() if self._waiting is not None and self.reason is not None else None
