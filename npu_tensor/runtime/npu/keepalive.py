"""Keeps an idle NPU powered. After some seconds without work the NPU is switched off, and the next launch takes about
0.13 s longer (mlir-aie issue 2944).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["KeepAlive"]

PERIOD_SECONDS: Final = 4.0
"""Time between touches. Idle NPUs were seen to be switched off after 8 to 10 seconds."""


class KeepAlive:
    """Thread that touches a device until `seconds` after the last launch of the program.

    Args:
        touch: Function that runs something harmless on the device.
        latest: Function that returns the time of the last launch, by the monotonic clock.
        seconds: Time after the last launch during which the device is kept awake.
    """

    def __init__(self, touch: Callable[[], None], latest: Callable[[], float], seconds: float) -> None:
        self._touch = touch
        self._latest = latest
        self.seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="npu keepalive", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True until the thread ends, which it also does when the device fails."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(PERIOD_SECONDS):
            if time.monotonic() - self._latest() < self.seconds:
                try:
                    self._touch()
                except Exception:  # The next launch reports it to the user.
                    return
