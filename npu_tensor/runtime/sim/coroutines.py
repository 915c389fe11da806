"""Cooperative coroutines: one runs until it has to wait for another. There is no preemption and no timing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from greenlet import getcurrent, greenlet


class Scheduler:
    """Scheduler that runs coroutines until each has ended or waits.

    Coroutines belong to the thread that calls `start`. `run` and `close` must be called in the same thread.
    """

    def __init__(self) -> None:
        self.ready: deque[greenlet] = deque()
        self.gates: list[Gate] = []
        self._started: list[greenlet] = []
        self._main: greenlet | None = None

    def start(self, body: Callable[[], None]) -> None:
        """Add a coroutine; it begins at the next `run`."""
        coroutine = greenlet(body)
        self._started = [started for started in self._started if not started.dead]
        self._started.append(coroutine)
        self.ready.append(coroutine)

    def run(self) -> None:
        """Run all coroutines until none can continue. An exception of a coroutine ends this call."""
        self._main = getcurrent()
        ready = self.ready
        while ready:
            coroutine = ready.popleft()
            coroutine.parent = self._main
            coroutine.switch()

    def close(self) -> None:
        """End all coroutines. Python's garbage collector does not see the references on their stacks."""
        for coroutine in self._started:
            coroutine.parent = getcurrent()
            coroutine.throw()
        self.ready.clear()

    def suspend(self) -> None:
        """Yield to the scheduler. The caller must first register where it will be made ready again."""
        assert self._main is not None
        self._main.switch()

    @property
    def complaints(self) -> list[str]:
        """Explanations of all waiting coroutines, in the order in which their gates were made."""
        return [complaint for gate in self.gates if (complaint := gate.complaint) is not None]


class Gate:
    """Wait point for at most one coroutine, which calls `wait` in a loop that checks its condition."""

    __slots__ = ("_reason", "_scheduler", "_waiting")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: greenlet | None = None
        self._reason: Callable[[], str | None] = lambda: None
        scheduler.gates.append(self)

    def wait(self, reason: Callable[[], str | None]) -> None:
        """Suspend the coroutine until `open` is called.

        reason: function that explains why it waits, or returns None if that is not worth reporting.
        """
        self._reason = reason
        self._waiting = getcurrent()
        self._scheduler.suspend()

    def open(self) -> None:
        """Let the waiting coroutine check its condition again."""
        if self._waiting is not None:
            self._scheduler.ready.append(self._waiting)
            self._waiting = None

    @property
    def complaint(self) -> str | None:
        """Explanation of the waiting coroutine, or None."""
        return None if self._waiting is None else self._reason()
