"""Warnings that point at the user's line.

    warn("the NPU is gone; the CPU computes")       # model.py:12: RuntimeWarning: the NPU is gone; ...
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path
from typing import Final

__all__ = ["warn"]

# The package's files, ops that it has compiled, and what calls it for a `with` block.
_NOT_THE_USERS: Final = (str(Path(__file__).parent / "_")[:-1], "<npu_tensor.", contextlib.__file__)


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Issue a warning whose line is the innermost one outside the package, however deep the caller is in it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
