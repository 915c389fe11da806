"""Command `npu-tensor info`: prints the machine information for a bug report."""

from __future__ import annotations

from pathlib import Path

import click

from npu_tensor._util.output_files import json_option, put_json
from npu_tensor.cli.options import search_path_options
from npu_tensor.cli.settings import print_settings, setting_rows
from npu_tensor.observe.drawing.terminal import print_table
from npu_tensor.observe.drawing.text import beside

__all__ = ["info"]


@click.command()
@json_option("an object; its `reason` says why there is no NPU")
@search_path_options
def info(json_file: Path | None) -> None:
    """Print versions, processor, devices, arrays and settings.

    Devices are all NPUs together, each NPU, the CPU and the simulated NPUs, each with its URI. Also says why there is
    no NPU, which devices of XRT are not used, and which arrays kernels can be made for.
    """
    from npu_tensor.tools.report import report

    facts = report()
    settings = setting_rows()
    if put_json(json_file, facts | {"settings": settings}):
        return
    features = facts["system"].pop("features", None)
    print_table("system", ("", ""), facts["system"].items())
    if features is not None:
        click.echo("\n".join(beside("features", features, 10)))
    print_table(
        "devices",
        ("URI", "ordinal", "PCI address", "name", "arch", "columns"),
        (
            (
                device["uri"],
                "" if device["ordinal"] is None else f"npu:{device['ordinal']}",
                device["pci_address"],
                device["name"],
                device["arch"],
                device["columns"] or "",
            )
            for device in facts["devices"]
        ),
    )
    for device in facts["left_out"]:
        click.echo(f"not used: {device}")
    if facts["reason"]:
        click.echo(f"no NPU: {facts['reason']}\n`npu-tensor doctor` says what is missing and how to fix it")
    print_table(
        "arrays",
        ("arch", "columns", "cores", "also called"),
        ((row["arch"], row["columns"], row["cores"], ", ".join(row["names"])) for row in facts["arrays"]),
    )
    click.echo(f"here: {facts['this_array']}")
    print_settings(settings)
