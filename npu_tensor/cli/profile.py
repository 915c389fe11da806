"""The command `npu-tensor profile`: runs a program and shows where its time went."""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path
from typing import Literal

import click

from npu_tensor.profiling import profile as profiled

__all__ = ["profile"]


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--by",
    type=click.Choice(["op", "line", "device"]),
    default="op",
    show_default=True,
    help="What each row of the table is about.",
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Also write a trace for ui.perfetto.dev or chrome://tracing.",
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def profile(by: Literal["op", "line", "device"], trace: Path | None, script: Path, arguments: tuple[str, ...]) -> None:
    """Run a Python program and print where the time of its tensors went, also if it fails.

    ARGUMENTS are the program's; options of this command come before SCRIPT. Exit code: the program's, 1 if it raised.
    """
    code: object = 0
    arguments_before, path_before = sys.argv, sys.path[:]
    with profiled() as found:
        sys.argv, sys.path = [str(script), *arguments], [str(script.parent), *sys.path]
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            code = end.code
        except Exception as error:
            # The program's own part of the traceback: what ran it is of no interest.
            frames = traceback.extract_tb(error.__traceback__)
            first = next((i for i, frame in enumerate(frames) if frame.filename == str(script)), 0)
            said = [*traceback.format_list(frames[first:]), *traceback.format_exception_only(error)]
            click.echo("Traceback (most recent call last):\n" + "".join(said), nl=False, err=True)
            code = 1
        finally:
            sys.argv, sys.path = arguments_before, path_before
    click.echo(f"{found.heading}\n{found.by(by)}")
    if trace is not None:
        found.trace(trace)
        click.echo(f"trace: {trace}")
    sys.exit(code)  # type: ignore[arg-type]
