"""The command `npu-tensor docs`: compares what docs/ says with the code it follows from, or writes it."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Final

import click

__all__ = ["docs"]

SOURCE_TREE: Final = Path(__file__).resolve().parents[2]


@click.command()
@click.option("--check", is_flag=True, help="Compare, change nothing; exit code 1 if something differs.")
@click.option("--write", is_flag=True, help="Write what differs.")
@click.option(
    "--directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=SOURCE_TREE / "docs",
    help="Where the pages are; default: docs in the source tree.",
)
def docs(check: bool, write: bool, directory: Path) -> None:
    """Check or write generated docs.

    Compares the pages and tables in docs/ that follow from the code with it.
    """
    if check == write:
        raise click.UsageError("Give either '--check' or '--write'.")
    from npu_tensor.cli.pages import GENERATED, generated

    differs = False
    for path in (directory / name for name in GENERATED):
        before = path.read_text("utf-8") if path.exists() else ""
        try:
            after = generated(path.name, before)
        except ValueError as error:
            raise click.ClickException(str(error)) from None
        if before == after:
            continue
        differs = True
        if write:
            path.write_text(after, "utf-8")
            click.echo(f"{path}: written")
        else:
            lines = (before.splitlines(), after.splitlines())
            click.echo("\n".join(difflib.unified_diff(*lines, str(path), "the code", n=0, lineterm="")))
    if differs and check:
        raise click.ClickException("docs differ from the code; `npu-tensor docs --write` writes them")
