"""Checks of options that name a file to write, before the work whose result it is for."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["in_a_directory"]


def in_a_directory(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """A callback for an option: refuses a file whose directory does not exist."""
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(f"there is no directory {str(path.parent)!r}", context, parameter)
    return path
