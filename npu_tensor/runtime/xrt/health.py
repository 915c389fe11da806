"""Whether an NPU may be used, after what happened to it.

A fault makes the device suspect: the next launch is a probe, which runs alone and is compared with the CPU. If it
succeeds, the device is trusted again; if not, it rests, each time longer.
"""

from __future__ import annotations

import time
from typing import Final, Literal

__all__ = ["Health"]

FIRST_REST: Final = 0.05
LONGEST_REST: Final = 60.0
"""Seconds. A reset of the NPU takes some tens of milliseconds; what a minute does not mend needs the user."""


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
