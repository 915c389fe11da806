"""What the runtime knows of a program that an NPU runs; its driver knows the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["NpuProgram"]


@dataclass(eq=False, kw_only=True)
class NpuProgram:
    """What a launch runs. Shared by all steps that have the same.

    name: of the kernels. key: of the binary and this use of it.
    binary: the key of the binary; programs of one binary run in one context.
    sizes: bytes of each argument.
    steps: runs of the driver that a launch is.
    checked: whether its results were compared with the CPU's, and need not be now.
    launches: how many steps were asked to run it.
    faults: how many launches failed since one was right.
    refused: why it is not launched any more, or nothing.
    """

    name: str
    key: str
    binary: str
    sizes: Sequence[int]
    steps: int = 1
    checked: bool = False
    launches: int = 0
    faults: int = 0
    refused: str = ""
