"""Keeps an NPU from its power gate: after some seconds without work it is switched off, and the next launch waits
about 0.13 s until it is back (mlir-aie's issue 2944).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["KeepAlive"]

PERIOD_SECONDS: Final = 4.0
"""Idle NPUs were seen to be switched off after 8 to 10 seconds."""


class KeepAlive:
    """A thread that touches a device while it is idle, until `seconds` after the last launch of the program.

    touch: runs something harmless. latest: when something was last submitted, by the monotonic clock.
    """

    def __init__(
        self,
        touch: Callable[[], None],
        latest: Callable[[], float],
        seconds: float,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._touch = touch
        self._latest = latest
        self.seconds = seconds
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._thread = threading.Thread(target=self._run, name="npu keepalive", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread still runs; it ends when the device fails."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End the thread; returns when it has ended."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        used = self._latest()
        mine = 0.0
        while not self._wait(PERIOD_SECONDS / 2):
            if self._latest() not in (used, mine):
                used = self._latest()
            now = time.monotonic()
            if now - used < self.seconds and now - self._latest() >= PERIOD_SECONDS / 2:
                try:
                    self._touch()
                except Exception:  # The next launch finds out, and says so to the user.
                    return
                mine = self._latest()
