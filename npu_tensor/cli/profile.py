"""Command `npu-tensor profile`: runs a program and shows its profile."""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Literal

import click

from npu_tensor._util.output_files import in_a_directory
from npu_tensor.observe.profiling import profile as profiled

INTERRUPTED = 130
"""Exit code after Ctrl-C, by the convention of shells: 128 plus the signal number."""


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--by",
    type=click.Choice(["op", "line", "device", "plan"]),
    default="op",
    show_default=True,
    help="Subject of a row of the table.",
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=in_a_directory,
    help="Also write a trace for ui.perfetto.dev or chrome://tracing.",
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def profile(
    by: Literal["op", "line", "device", "plan"], trace: Path | None, script: Path, arguments: tuple[str, ...]
) -> None:
    """Profile a Python program.

    Runs it and prints where the time of its tensors went, also if it fails.
    Options of this command come before SCRIPT; all that follows is the program's. Exit code: the program's, 1 if it
    raised, 130 if Ctrl-C has ended it.
    """
    code: object = 0
    arguments_before, path_before = sys.argv, sys.path[:]
    with profiled() as run:
        sys.argv, sys.path = [str(script), *arguments], [str(script.parent), *sys.path]
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            code = end.code
        except (Exception, KeyboardInterrupt) as error:
            own = _own_part(error.__traceback__, str(script))
            shown = traceback.format_exception(None, error, own) if own else traceback.format_exception_only(error)
            click.echo("".join(shown), nl=False, err=True)
            code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
        finally:
            sys.argv, sys.path = arguments_before, path_before
    click.echo(f"{run.heading}\n{run.by(by)}")
    if trace is not None:
        try:
            run.trace(trace)
        except OSError as error:
            raise click.ClickException(f"{trace} cannot be written: {error.strerror}") from None
        click.echo(f"trace: {trace}")
    sys.exit(code)  # type: ignore[arg-type]


def _own_part(part: TracebackType | None, script: str) -> TracebackType | None:
    """Return the program's part of a traceback, without the frames of its runner; None if it has not started."""
    while part is not None and part.tb_frame.f_code.co_filename != script:
        part = part.tb_next
    return part
