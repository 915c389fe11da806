"""Program of a launch, without the driver's part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["NpuProgram"]


@dataclass(eq=False, kw_only=True)
class NpuProgram:
    """Program of a launch, shared by all steps that have the same one.

    Attributes:
        key: Key of the binary and of this use of it.
        binary: Key of the binary. Programs of one binary run in one context.
        steps: Number of driver runs per launch.
        checked: True if its results need no comparison now.
        faults: Failed launches since the last correct one.
        refused: Reason why the program is not launched any more, or empty.
    """

    name: str
    key: str
    binary: str
    sizes: Sequence[int]
    steps: int = 1
    checked: bool = False
    faults: int = 0
    refused: str = ""
