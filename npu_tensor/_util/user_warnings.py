"""Warnings that point at the user's line.

    warn("the NPU is gone; the CPU computes")       # model.py:12: RuntimeWarning: the NPU is gone; ...
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import Final

__all__ = ["users_frame", "warn"]

# The package's files, ops that it has compiled, and what calls it for a `with` block.
_NOT_THE_USERS: Final = (str(Path(__file__).parents[1] / "_")[:-1], "<npu_tensor.", contextlib.__file__)


def users_frame() -> tuple[FrameType, int]:
    """The innermost frame outside the package, however deep the caller is in it, and the caller's stacklevel for it."""
    level, frame = 0, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        level, frame = level + 1, frame.f_back
    return frame, level


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Issue a warning whose line is the innermost one outside the package, however deep the caller is in it."""
    warnings.warn(message, category, stacklevel=users_frame()[1])
