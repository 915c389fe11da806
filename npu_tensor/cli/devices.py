"""The command `npu-tensor devices`: what can compute here."""

from __future__ import annotations

import json

import click

from npu_tensor.cli.device_option import search_path_options
from npu_tensor.functions.device_listing import inventory
from npu_tensor.observe.drawing.terminal import print_table

__all__ = ["devices"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object; its `reason` says why there is no NPU.")
@search_path_options
def devices(as_json: bool) -> None:
    """List the devices.

    They are all NPUs together, each NPU, the CPU and the simulated NPUs, each with its URI. Also says why there is no
    NPU, and which devices of XRT are not used.
    """
    found = inventory()
    if as_json:
        listed = [device._asdict() for device in found.devices]
        click.echo(json.dumps({"devices": listed, "left_out": found.left_out, "reason": found.reason}, indent=2))
        return
    print_table(
        "devices",
        ("URI", "ordinal", "PCI address", "name", "arch", "columns"),
        (
            (
                device.uri,
                "" if device.ordinal is None else f"npu:{device.ordinal}",
                device.pci_address,
                device.name,
                device.arch,
                device.columns or "",
            )
            for device in found.devices
        ),
    )
    for device in found.left_out:
        click.echo(f"not used: {device}")
    if found.reason:
        click.echo(f"no NPU: {found.reason}\n`npu-tensor doctor` says what is missing and how to fix it")
