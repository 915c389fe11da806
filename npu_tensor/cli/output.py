"""Commands whose output cannot be written say so, instead of a traceback: a full disk, a reader that has gone."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import click

from npu_tensor.errors import NpuTensorError

__all__ = ["Command", "CommandGroup", "failures"]

_OF_OUTPUT: Final = {errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EPIPE}


class Command(click.Command):
    """A command that ends with exit code 1 and one sentence if its output cannot be written."""

    def main(self, *arguments: Any, **named: Any) -> Any:
        try:
            try:
                return super().main(*arguments, **named)
            finally:
                sys.stdout.flush()
        except OSError as error:
            if error.filename is not None or error.errno not in _OF_OUTPUT:
                raise
            with suppress(OSError):  # Python would write at its end what is left, and fail again.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if error.errno != errno.EPIPE:  # EPIPE: the reader, such as `head`, has ended.
                with suppress(OSError):
                    click.echo(f"Error: the output cannot be written: {error.strerror}", err=True)
            sys.exit(1)


class CommandGroup(Command, click.Group):
    """A group of commands that does so."""


@contextmanager
def failures() -> Iterator[None]:
    """Errors of the package, of files and missing libraries are errors of the command, without a traceback."""
    try:
        yield
    except OSError as error:
        named = error.filename is not None and error.strerror is not None
        raise click.ClickException(f"{error.filename}: {error.strerror}" if named else str(error)) from None
    except (NpuTensorError, ImportError) as error:
        raise click.ClickException(str(error)) from None
