"""Commands `npu-tensor pack` and `npu-tensor unpack`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from npu_tensor.runtime.store import packs

EXTENSION = ".ntpack"


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help=f"The file to make; default: DIRECTORY{EXTENSION}."
)
def pack(directory: Path, output: Path | None) -> None:
    """Put the kernels of DIRECTORY into one file.

    They are verified. `npu-tensor gen-kernels` and `nt.compile` write such directories.
    """
    directory = directory.resolve()
    output = output or Path(f"{directory.name}{EXTENSION}")
    number = packs.pack(directory, output)
    click.echo(f"{output}: {number} files, {output.stat().st_size} bytes")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-d", "--directory", type=click.Path(path_type=Path), help="A new directory; default: FILE without its extension."
)
def unpack(file: Path, directory: Path | None) -> None:
    """Verify the kernel pack FILE and unpack it. Prints the variable that lets programs use its kernels."""
    directory = (directory or Path(file.stem)).resolve()
    number = packs.unpack(file, directory)
    click.echo(f"{directory}: {number} files, all verified", err=True)
    click.echo(f"export NPU_TENSOR_KERNEL_DIR={shlex.quote(str(directory))}")
