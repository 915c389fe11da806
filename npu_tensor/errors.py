"""The exceptions of the package.

    NpuTensorError          (RuntimeError)
    ├── ShapeError      (ValueError)    shapes do not fit
    ├── DTypeError      (TypeError)     the op does not support a dtype
    ├── DimensionError  (IndexError)    a dimension or index is out of range
    ├── DivisionError   (ZeroDivisionError) an integer was divided by zero
    ├── OutOfMemoryError (MemoryError)  no memory is left for a value
    ├── ArgumentError   (ValueError)    an argument has another invalid value
    ├── DeviceError                     a device does not exist or cannot be used
    ├── BuildError                      a kernel could not be compiled
    ├── FileError       (OSError)       a file could not be written, for example to a full disk
    ├── GradientError                   a gradient does not exist
    ├── LaunchError                     a kernel failed while it ran
    │   └── LaunchTimeout               a kernel did not end
    └── CaptureError                    a value was read while `jit` captures

Each is also the built-in exception that NumPy users catch, and RuntimeError, which PyTorch raises in most cases.
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
    """Base of all exceptions of the package.

    Attributes:
        call: The op that failed while it ran, or None.
        recorded_at: Line that recorded it, such as "file.py:12", which ends the message; "" if there is none.
        reason: Message without function, operands and line; "" if the message has none of these.
    """

    call: object = None
    recorded_at: str = ""
    reason: str = ""


class ShapeError(NpuTensorError, ValueError):
    """Shapes do not fit the op. The message names them."""


class DTypeError(NpuTensorError, TypeError):
    """The op does not support a dtype."""


class DimensionError(NpuTensorError, IndexError):
    """A dimension or an index is out of range."""


class DivisionError(NpuTensorError, ZeroDivisionError):
    """An integer was divided by zero."""


class OutOfMemoryError(NpuTensorError, MemoryError):
    """No memory is left. The message names the op and the size of its result."""


class ArgumentError(NpuTensorError, ValueError):
    """An argument has an invalid value."""


class DeviceError(NpuTensorError):
    """The device does not exist on this machine or cannot be used.

    Attributes:
        code: INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE or INCOMPATIBLE for a requested device; UNAVAILABLE if it exists
            but cannot be used.
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
    """A file could not be written completely, for example to a full disk."""


class LaunchError(NpuTensorError):
    """A kernel failed while it ran. The message names the op, its specs and the line that recorded it."""


class GradientError(NpuTensorError):
    """A gradient does not exist: an op on the way has no derivative, or the result is not a single float."""


class LaunchTimeout(LaunchError):
    """A kernel did not end. For a simulated kernel, the message lists the blocked waits."""


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
    """Copy an error with another message. Raise the copy from the cause of the original."""
    result = copy.copy(error)
    result.args = (text,)
    return result


def message_of(error: BaseException) -> str:
    """Return the message of an error of this package; that of another error with its type in front."""
    return str(error) if isinstance(error, NpuTensorError) else f"{type(error).__name__}: {error}"


def no_such_name(place: str, name: str, names: Iterable[str], hint: str = "") -> AttributeError:
    """Make the error for a missing name of a module, with a hint or the most similar name."""
    import difflib

    near = [] if hint else difflib.get_close_matches(name, names, 1, 0.75)  # Less similar names mislead.
    advice = f": {hint}" if hint else "".join(f"; did you mean {each!r}?" for each in near)
    # With an explicit `obj`, Python adds no suggestion to the traceback.
    return AttributeError(f"{place} has no attribute {name!r}{advice}", name=name, obj=None)


@contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let errors of the block, which writes a file, name the file. A plain OSError becomes a FileError."""
    try:
        yield
    except OSError as error:
        if type(error) is not OSError:
            if error.errno is None:
                raise
            # FileNotFoundError and the like name a temporary file that would have replaced this one.
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        # NumPy's own error has no number and says that not all could be written.
        raise FileError(f"{os.fspath(path)!r} could not be written: {error.strerror or error}") from error
