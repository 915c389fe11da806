"""Commands that end without a traceback if their output cannot be written (disk full, reader closed)."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import click

from npu_tensor.errors import NpuTensorError

__all__ = ["Command", "CommandGroup", "failures"]

_OF_OUTPUT: Final = {errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}

_READER_GONE: Final = 128 + signal.SIGPIPE
"""Exit code of a command whose reader, such as `head`, has ended. A program killed by SIGPIPE has the same one."""


def _discard_output() -> None:
    """Discard the rest of the output. Python would try to write it at exit and fail again."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _until_the_reader_ends() -> Iterator[None]:
    """End the command without a message if its output is no longer read."""
    try:
        yield
    except (BrokenPipeError, SystemExit) as end:
        # rich exits by itself with another exit code.
        if not isinstance(end, BrokenPipeError) and not isinstance(end.__context__, BrokenPipeError):
            raise
        _discard_output()
        sys.exit(_READER_GONE)


class Command(click.Command):
    """Command that ends with exit code 1 and one sentence if its output cannot be written.

    If the reader of the output has ended, it ends silently with the exit code of SIGPIPE.
    """

    def main(self, *arguments: Any, **named: Any) -> Any:
        try:
            try:
                return super().main(*arguments, **named)
            finally:
                with _until_the_reader_ends():
                    sys.stdout.flush()
        except OSError as error:
            if error.filename is not None or error.errno not in _OF_OUTPUT:
                raise
            _discard_output()
            with suppress(OSError):
                click.echo(f"Error: the output cannot be written: {error.strerror}", err=True)
            sys.exit(1)

    # click handles a broken pipe in `main` with exit code 1. These methods run inside it.

    def make_context(self, *arguments: Any, **named: Any) -> click.Context:
        with _until_the_reader_ends():
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: click.Context) -> Any:
        with _until_the_reader_ends():
            return super().invoke(ctx)


class CommandGroup(Command, click.Group):
    """Command group with the behaviour of `Command`."""


@contextmanager
def failures() -> Iterator[None]:
    """Turn errors of the package, of files and of missing libraries into errors of the command, without a traceback."""
    try:
        yield
    except BrokenPipeError:  # `Command` ends the command.
        raise
    except OSError as error:
        named = error.filename is not None and error.strerror is not None
        raise click.ClickException(f"{error.filename}: {error.strerror}" if named else str(error)) from None
    except (NpuTensorError, ImportError) as error:
        raise click.ClickException(str(error)) from None
