"""Command `npu-tensor examples`: copies notebooks and example programs with their data from the package."""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path
from typing import Final

import click

COPIED: Final = {"": (".ipynb", ".md", ".py"), "data": (".gguf", ".md", ".npz")}
"""Suffixes of the copied files, by folder. The programs expect their data beside them."""


def _not_empty(context: click.Context, parameter: click.Parameter, path: str) -> Path:
    if not path:
        raise click.BadParameter("give a directory; '.' is the current one", context, parameter)
    return Path(path)


@click.command()
@click.argument("directory", callback=_not_empty, type=click.Path(file_okay=False))
def examples(directory: Path) -> None:
    """Copy notebooks and programs with their data.

    They come into DIRECTORY. Files that are there already stay as they are.
    """
    for folder, suffixes in COPIED.items():
        (directory / folder).mkdir(parents=True, exist_ok=True)
        files = resources.files("npu_tensor.examples").joinpath(folder).iterdir()
        for file in sorted(files, key=lambda each: each.name):
            target = directory / folder / file.name
            if target.suffix not in suffixes or target.name == "__init__.py":
                continue
            if target.exists():
                click.echo(f"{target}: is there already")
                continue
            with resources.as_file(file) as source:
                shutil.copyfile(source, target)
            click.echo(target)
