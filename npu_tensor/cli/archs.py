"""The command `npu-tensor archs`: the arrays that kernels are made for."""

from __future__ import annotations

import click

from npu_tensor.dataflow.array import ARRAY_NAMES, ARRAYS
from npu_tensor.errors import DeviceError
from npu_tensor.observe.drawing.terminal import print_table

__all__ = ["archs"]


@click.command()
def archs() -> None:
    """List the arrays of NPUs, and this machine's.

    Kernels can be made for all of them, whatever this machine has.
    """
    print_table(
        "arrays",
        ("arch", "columns", "cores", "also called"),
        (
            (arch, array.columns, len(array.tiles(array.columns)), ", ".join(ARRAY_NAMES[array.arch][1:]))
            for arch, array in ARRAYS.items()
        ),
    )
    from npu_tensor.runtime.devices.detect import detect_arch

    try:
        found = detect_arch()
    except DeviceError as error:
        click.echo(f"here: {error}")
    else:
        click.echo(f"here: {found.arch} ({found.source})")
