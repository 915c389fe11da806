"""The command `npu-tensor examples`: copies the notebooks and example programs, which a wheel has as well."""

from __future__ import annotations

import shutil
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import click

from npu_tensor.cli.output import failures

__all__ = ["examples"]

COPIED: Final = (".gguf", ".ipynb", ".md", ".npz", ".py")


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
def examples(directory: Path) -> None:
    """Copy notebooks and programs.

    They come into DIRECTORY. Files that are there already stay as they are.
    """
    with failures():
        _copy(resources.files("npu_tensor.examples"), directory)


def _copy(folder: Traversable, directory: Path) -> None:
    """Copy the files of a folder and, because the programs read them, its data."""
    directory.mkdir(parents=True, exist_ok=True)
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        target = directory / file.name
        if file.name == "data" and file.is_dir():
            _copy(file, target)
        if target.suffix not in COPIED or target.name == "__init__.py":
            continue
        if target.exists():
            click.echo(f"{target}: is there already")
            continue
        with resources.as_file(file) as source:
            shutil.copyfile(source, target)
        click.echo(target)
