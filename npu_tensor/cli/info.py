"""Command `npu-tensor info`: prints the machine information for a bug report."""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import click

from npu_tensor._util.output_files import json_option, put_json
from npu_tensor._util.version import VERSION
from npu_tensor.cli.options import search_path_options
from npu_tensor.cli.settings import print_settings, setting_rows
from npu_tensor.config import config
from npu_tensor.dataflow.array import ARRAY_NAMES, ARRAYS
from npu_tensor.errors import ArgumentError, DeviceError, NpuTensorError
from npu_tensor.functions.resources import get_num_threads
from npu_tensor.observe.drawing.text import beside, print_table
from npu_tensor.runtime.devices.backends import inventory
from npu_tensor.runtime.devices.detect import detect_arch
from npu_tensor.runtime.devices.device_kind import DeviceUri
from npu_tensor.runtime.devices.device_uri import KINDS, parse_uri, split_uris

DEPENDENCIES: Final = ("numpy", "networkx", "ml_dtypes", "llvmlite", "opt_einsum")


def single_uri(uri: str) -> DeviceUri:
    """Parse the URI of one device.

    Raises:
        ArgumentError: The URI lists several devices.
        DeviceError: The URI is invalid.
    """
    if len(split_uris(uri)) > 1:
        raise ArgumentError(f"{uri}: one device is tested at a time")
    return parse_uri(uri)


def machine_information(uri: str) -> dict[str, str]:
    """Return versions and the information of the device at a URI. Raises DeviceError."""
    device = single_uri(uri)
    return versions() | KINDS[device.scheme].information(device)


def versions() -> dict[str, str]:
    """Return the versions of this package, of Python, of the system and of dependencies."""
    return {
        "npu_tensor": VERSION,
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        **{name: metadata.version(name) for name in DEPENDENCIES},
    }


def _system() -> dict[str, str]:
    """Return versions, the processor with its vector features, the threads and the cache directory."""
    rows = versions()
    try:
        from llvmlite.binding import llvm_version_info

        from npu_tensor.runtime.cpu.target import host_target

        target = host_target("" if config.cpu_features == "numpy" else config.cpu_features)
        rows |= {
            "LLVM": ".".join(map(str, llvm_version_info)),
            "processor": target.cpu,
            "vector lanes": f"{target.lanes} x float32",
            "features": " ".join(sorted(target.features)),
        }
    except (ImportError, NpuTensorError) as error:
        rows["processor"] = f"not known: {error}"
    try:
        rows["threads"] = str(get_num_threads())
    except NpuTensorError as error:
        rows["threads"] = f"not known: {error}"
    return rows | {"cache directory": str(config.cache_dir)}


def _this_array() -> str:
    """Return the array of this machine and the source of that information, or why it is unknown."""
    try:
        arch, source = detect_arch()
    except DeviceError as error:
        return str(error)
    return f"{arch} ({source})"


@click.command()
@json_option("an object; its `reason` says why there is no NPU")
@search_path_options
def info(json_file: Path | None) -> None:
    """Print versions, processor, devices, arrays and settings.

    Devices are all NPUs together, each NPU, the CPU and the simulated NPUs, each with its URI. Also says why there is
    no NPU, which devices of XRT are not used, and which arrays kernels can be made for.
    """
    listing = inventory()
    system, devices = _system(), [device._asdict() for device in listing.devices]
    arrays: list[dict[str, Any]] = [
        {
            "arch": arch,
            "columns": array.columns,
            "cores": len(array.tiles(array.columns)),
            "names": ARRAY_NAMES[array.arch][1:],
        }
        for arch, array in ARRAYS.items()
    ]
    settings = setting_rows()
    facts = {
        "system": system,
        "devices": devices,
        "left_out": listing.left_out,
        "reason": listing.reason,
        "arrays": arrays,
        "this_array": _this_array(),
        "settings": settings,
    }
    if put_json(json_file, facts):
        return
    for name, value in system.items():
        click.echo("\n".join(beside(name, value, 18)))
    click.echo()
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
            for device in devices
        ),
    )
    for device in listing.left_out:
        click.echo(f"not used: {device}")
    if listing.reason:
        click.echo(f"no NPU: {listing.reason}\n`npu-tensor doctor` says what is missing and how to fix it")
    print_table(
        "arrays",
        ("arch", "columns", "cores", "also called"),
        ((row["arch"], row["columns"], row["cores"], ", ".join(row["names"])) for row in arrays),
    )
    click.echo(f"here: {facts['this_array']}")
    print_settings(settings)
