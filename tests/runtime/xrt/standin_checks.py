"""What the tests of the stand-in expect.

STARTED, OUTPUT: the start of both buffers of a `Loaded`. ADDED: of the second one after `add(7)` has run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from machine import Crash, Machine

__all__ = ["ADDED", "OUTPUT", "STARTED", "crash", "noted", "states"]

STARTED: Final = [0, 1, 2, 3]
OUTPUT: Final = [-5, -5, -5, -5]
ADDED: Final = [7, 8, 9, 10]


@contextmanager
def crash(machine: Machine, about: str) -> Iterator[None]:
    """Expect a misuse to be noticed, and let the test go on."""
    with pytest.raises(Crash, match=re.escape(about)):
        yield
    noted(machine, about)


def noted(machine: Machine, about: str) -> None:
    """Expect that one misuse was noted, and forget it."""
    assert about in machine.crashes.pop(), machine.crashes
    assert not machine.crashes


def states(runs: list[Any]) -> list[str]:
    """Without the prefix that they all have."""
    return [run.state().name.removeprefix("ERT_CMD_STATE_") for run in runs]
