"""The user's line, at which ops are recorded and to which warnings point.

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

_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep
_PROGRAMS: Final = tuple(
    f"{_PACKAGE}{folder}{os.sep}" for folder in ("benchmarks", "cli", "examples", "models", "tools")
)
"""Parts of the package that use it like a user's program."""


class _Files(dict[str, bool]):
    """Cache by file name; True if the file, or generated code, belongs to the package."""

    def __missing__(self, path: str) -> bool:
        internal = path.startswith(_PACKAGE) and not path.startswith(_PROGRAMS)
        return self.setdefault(path, internal)


INTERNAL: Final = _Files()

_SKIPPED: Final = _Files({contextlib.__file__: True})
"""The same, with contextlib, which serves `with` blocks."""


def user_line(frame: FrameType | None) -> tuple[CodeType, int] | None:
    """Return code and instruction offset of the innermost frame outside the package and contextlib."""
    while frame is not None:
        code = frame.f_code
        if not _SKIPPED[code.co_filename]:
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Issue a warning at the innermost line outside the package."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and _SKIPPED[frame.f_code.co_filename]:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
