"""Options of commands that write files, such as `--json [FILE]`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def in_a_directory(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Reject a file whose directory does not exist. A callback for options."""
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(f"there is no directory {str(path.parent)!r}", context, parameter)
    return path


STDOUT = Path("-")
"""Value of `--json` without a file."""


def json_option(content: str) -> Callable[[Command], Command]:
    """Create the option `--json [FILE]`. The command gets `json_file` for `put_json`.

    Args:
        content: Description of the JSON for the help text.
    """
    return click.option(
        "--json",
        "json_file",
        metavar="[FILE]",
        is_flag=False,
        flag_value=str(STDOUT),
        type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
        callback=in_a_directory,
        help=f"Print JSON in place of tables: {content}. With FILE, write it there besides the tables.",
    )


def put_json(file: Path | None, content: Any) -> bool:
    """Write the JSON that `--json` requests. Returns True if the command must print nothing else."""
    if file is None:
        return False
    text = json.dumps(content, indent=2, default=str)
    if file == STDOUT:
        click.echo(text)
        return True
    try:
        file.write_text(f"{text}\n", "utf-8", "surrogateescape")
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}") from None
    return False
