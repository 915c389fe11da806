"""Ctrl-C at any moment, as a process with the real pyxrt meets it.

    with interrupts(after=0.001):
        work()                      # raises KeyboardInterrupt somewhere, or ends before

Python handles signals between two steps of its own code, never inside of a module in C++. The stand-in is Python: an
interrupt that comes while it works is delivered when it has returned.
"""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType
from typing import Any

import npu_memory

from npu_tensor.runtime.sim import simulated_array

__all__ = ["interrupts"]

_BELOW = tuple(str(Path(path).parent) for path in (__file__, npu_memory.__file__, simulated_array.__file__))
"""The stand-in with its memory, and the simulated array that runs its kernels in greenlets, whose frames do not end in
the stand-in."""

_AGAIN = 50e-6
"""Seconds until an interrupt is tried again that came too early."""


class interrupts:
    """Raise KeyboardInterrupt in the block, once, about `after` seconds from now; in the main thread only."""

    def __init__(self, after: float) -> None:
        self._after = after
        self._before: Any = None

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGALRM, _deliver)
        signal.setitimer(signal.ITIMER_REAL, self._after)

    def __exit__(self, *error: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)


def _deliver(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code is interrupts.__exit__.__code__:  # The block has ended.
            return
        if frame.f_code.co_filename.startswith(_BELOW):
            signal.setitimer(signal.ITIMER_REAL, _AGAIN)
            return
        frame = frame.f_back
    raise KeyboardInterrupt
