"""Every exception the package raises on purpose.

    NpuTensorError          (RuntimeError)
    ├── ShapeError      (ValueError)    operands whose shapes do not fit
    ├── DTypeError      (TypeError)     a dtype the op does not take
    ├── DimensionError  (IndexError)    a dimension or index out of range
    ├── DivisionError   (ZeroDivisionError) an integer was divided by zero
    ├── OutOfMemoryError (MemoryError)  there is no memory left for a value
    ├── ArgumentError   (ValueError)    any other bad argument value
    ├── DeviceError                     a device that does not exist or cannot be used
    ├── BuildError                      a kernel that could not be compiled
    ├── FileError       (OSError)       a file that could not be written, as on a full disk
    ├── LaunchError                     a kernel that failed while it ran
    │   └── LaunchTimeout               a kernel that did not end
    └── CaptureError                    a value was asked for while `jit` captures

Each is also the built-in exception that NumPy users catch, and RuntimeError, which PyTorch raises nearly always.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

__all__ = [
    "ArgumentError",
    "BuildError",
    "CaptureError",
    "DTypeError",
    "DeviceError",
    "DimensionError",
    "DivisionError",
    "FileError",
    "GradientError",
    "LaunchError",
    "LaunchTimeout",
    "NpuTensorError",
    "OutOfMemoryError",
    "ShapeError",
]


class NpuTensorError(RuntimeError):
    """The base of all exceptions of the package.

    call: the op that failed while it ran, where there is one. recorded_at: the line that recorded it, as "file.py:12";
    the message ends in it. reason: the message without the name and the operands of a function, and without the line;
    "" where the message has neither.
    """

    call: object = None
    recorded_at: str = ""
    reason: str = ""


class ShapeError(NpuTensorError, ValueError):
    """Shapes do not fit the op; the message names both."""


class DTypeError(NpuTensorError, TypeError):
    """The op does not take this dtype."""


class DimensionError(NpuTensorError, IndexError):
    """A dimension or an index is out of range."""


class DivisionError(NpuTensorError, ZeroDivisionError):
    """An integer was divided by zero."""


class OutOfMemoryError(NpuTensorError, MemoryError):
    """There is no memory left; names the op and the size of its result."""


class ArgumentError(NpuTensorError, ValueError):
    """An argument has a value that the op does not take."""


class DeviceError(NpuTensorError):
    """The device does not exist on this machine or cannot be used.

    code: INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE or INCOMPATIBLE where a device was asked for; UNAVAILABLE if it
    exists and cannot be used.
    """

    def __init__(self, message: str, code: str = "UNAVAILABLE") -> None:
        super().__init__(message)
        self.code = code


class BuildError(NpuTensorError):
    """A kernel could not be compiled.

    Attributes:
        transient: True if the reason may not come again, such as a signal.
        pending: True if the kernel is being built in the background.
    """

    def __init__(self, message: str, *, transient: bool = False, pending: bool = False) -> None:
        super().__init__(message)
        self.transient = transient
        self.pending = pending


class FileError(NpuTensorError, OSError):
    """A file could not be written completely, as on a full disk."""


class LaunchError(NpuTensorError):
    """A kernel failed while it ran; names the op, its specs and the line that recorded it."""


class GradientError(NpuTensorError):
    """There is no gradient: an op on the way has no derivative, or the result is not one float."""


class LaunchTimeout(LaunchError):
    """A kernel did not end; of a simulated one the message says who waits for what."""


class CaptureError(NpuTensorError):
    """`jit` captures the structure of a function; values do not exist yet.

    Fails:

        @nt.jit
        def f(x):
            return x * 2 if x.sum() > 0 else x

    Works:

        @nt.jit
        def f(x):
            return nt.where(x.sum() > 0, x * 2, x)
    """


E = TypeVar("E", bound=Exception)


def reworded(error: E, text: str) -> E:
    """The same error in other words, with its class and its attributes. Raise it from the cause of the first."""
    other = copy.copy(error)
    other.args = (text,)
    return other


def no_such_name(place: str, name: str, names: Iterable[str], hint: str = "") -> AttributeError:
    """The error for a name that a module does not have, with the hint, or the name that it has and that is similar."""
    import difflib

    near = [] if hint else difflib.get_close_matches(name, names, 1, 0.75)  # Less similar short names are not meant.
    advice = f": {hint}" if hint else "".join(f"; did you mean {each!r}?" for each in near)
    # With an `obj` of its own, Python adds no guess to the traceback.
    return AttributeError(f"{place} has no attribute {name!r}{advice}", name=name, obj=None)


@contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in what goes wrong while the block writes it: an OSError of no particular kind is a FileError."""
    try:
        yield
    except OSError as error:
        if type(error) is not OSError:  # Such as FileNotFoundError.
            raise
        # NumPy's own has no number, and says that not all could be written.
        raise FileError(f"{os.fspath(path)!r} could not be written: {error.strerror or error}") from error
