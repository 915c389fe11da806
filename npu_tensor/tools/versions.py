"""What a report about a device says of the machine: versions, and what the device is called."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Final

from npu_tensor._util.version import VERSION
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.devices.device_uri import DeviceUri, parse_uri, split_uris
from npu_tensor.runtime.devices.system import driver_version

__all__ = ["machine_information", "single_uri"]

DEPENDENCIES: Final = ("numpy", "ml_dtypes", "llvmlite")


def single_uri(uri: str) -> DeviceUri:
    """What the URI of one device asks for. Raises ArgumentError if there are several, DeviceError if it is none."""
    if len(split_uris(uri)) > 1:
        raise ArgumentError(f"{uri}: one device is tested at a time")
    return parse_uri(uri)


def machine_information(uri: str) -> dict[str, str]:
    """Versions of what the device at a URI works with, and what it is called, by name. Raises DeviceError."""
    asked = single_uri(uri)
    found = {
        "npu_tensor": VERSION,
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        **{name: metadata.version(name) for name in DEPENDENCIES},
    }
    return found | _INFORMATION[asked.scheme](asked)


def _simulator(asked: DeviceUri) -> dict[str, str]:
    from npu_tensor.runtime.sim import host_compiler

    return {"compiler": host_compiler.toolchain()}


def _npu(asked: DeviceUri) -> dict[str, str]:
    from npu_tensor.runtime.build import mlir_aie
    from npu_tensor.runtime.devices.discovery import select
    from npu_tensor.runtime.xrt.bindings import xrt_version

    toolchain = mlir_aie.find()
    return {
        "compiler": toolchain if isinstance(toolchain, str) else toolchain.name,
        "XRT": xrt_version() or "unknown",
        "driver": f"amdxdna {version}" if (version := driver_version()) else "unknown",
        **{
            f"npu:{device.ordinal}": f"{device.name} ({device.arch}), PCI {device.pci or 'unknown'} at {device.bdf}"
            for device in select(asked)
        },
    }


_INFORMATION: Final = {"cpu": lambda asked: {}, "sim": _simulator, "npu": _npu}
