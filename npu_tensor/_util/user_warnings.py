"""The user's line: where an op was recorded, and where warnings point.

Example:
    warn("the NPU is gone; the CPU computes")       # model.py:12: RuntimeWarning: the NPU is gone; ...
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

__all__ = ["INTERNAL", "user_frame", "user_line", "warn"]

_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep
_PROGRAMS: Final = tuple(
    f"{_PACKAGE}{folder}{os.sep}" for folder in ("benchmarks", "cli", "examples", "models", "tools")
)
"""Parts of the package that use it as a program of a user does."""


class _Files(dict[str, bool]):
    """By name of a file, whether it is the package's own, as the functions are that it compiles."""

    def __missing__(self, path: str) -> bool:
        internal = path.startswith((_PACKAGE, "<npu_tensor.")) and not path.startswith(_PROGRAMS)
        return self.setdefault(path, internal)


INTERNAL: Final = _Files()


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame from `frame` on that is not the package's own, nor contextlib's for a `with` block."""
    while frame is not None and (INTERNAL[path := frame.f_code.co_filename] or path == contextlib.__file__):
        frame = frame.f_back
    return frame


def user_line(frame: FrameType | None) -> tuple[CodeType, int] | None:
    """Code and instruction offset of that frame."""
    frame = user_frame(frame)
    return None if frame is None else (frame.f_code, frame.f_lasti)


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Issue a warning whose line is the innermost one outside the package, however deep the caller is in it."""
    frame: FrameType | None = sys._getframe()
    found, level = user_frame(frame), 1
    while frame is not None and frame is not found and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
