"""Where the time of a step goes, for those who listen to events.

    phases = Phases("sim:npu2")
    pack(...)
    phases.ended("convert")
    phases.tell()
"""

from __future__ import annotations

import time
from typing import Literal

from npu_tensor import events

__all__ = ["Phases"]


class Phases:
    """Begins now, if anybody listens, and notes what ends; listeners hear of it when they are told."""

    __slots__ = ("_device", "_found", "_since")

    def __init__(self, device: str) -> None:
        self._device = device
        self._found: list[events.Phase] = []
        self._since = time.perf_counter() if events.listeners else None

    def ended(self, name: Literal["convert", "sync", "dispatch", "run"]) -> None:
        """Everything since the phase before was this one."""
        if self._since is not None:
            now = time.perf_counter()
            self._found.append(events.Phase(name, self._device, now - self._since, when=now))
            self._since = now

    def tell(self) -> None:
        """Emit the phases: without any lock, as a listener may do anything."""
        for event in self._found:
            events.emit_part(event)
        self._found.clear()
