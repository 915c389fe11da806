"""Machine information for reports: versions, processor, devices and arrays."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any, Final

from npu_tensor._util.version import VERSION
from npu_tensor.config import config
from npu_tensor.dataflow.array import ARRAY_NAMES, ARRAYS
from npu_tensor.errors import ArgumentError, DeviceError, NpuTensorError
from npu_tensor.functions.resources import get_num_threads
from npu_tensor.runtime.devices.backends import inventory
from npu_tensor.runtime.devices.device_kind import DeviceUri
from npu_tensor.runtime.devices.device_uri import KINDS, parse_uri, split_uris

__all__ = ["arrays", "machine_information", "report", "single_uri", "system"]

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


def versions() -> dict[str, str]:
    """Return versions of the package, Python, the platform and the dependencies, by name."""
    return {
        "npu_tensor": VERSION,
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        **{name: metadata.version(name) for name in DEPENDENCIES},
    }


def machine_information(uri: str) -> dict[str, str]:
    """Return `versions` and the information of the device at a URI. Raises DeviceError."""
    device = single_uri(uri)
    return versions() | KINDS[device.scheme].information(device)


def system() -> dict[str, str]:
    """Return `versions`, the processor with its vector features, the threads and the cache directory."""
    rows = versions()
    try:
        from llvmlite.binding import llvm_version_info

        from npu_tensor.runtime.cpu.target import host_target

        target = host_target(config.cpu_features)
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


def arrays() -> list[dict[str, Any]]:
    """Return the arrays that kernels can be compiled for, independent of this machine."""
    return [
        {
            "arch": arch,
            "columns": array.columns,
            "cores": len(array.tiles(array.columns)),
            "names": ARRAY_NAMES[array.arch][1:],
        }
        for arch, array in ARRAYS.items()
    ]


def this_array() -> str:
    """Return the array of this machine and the source of that information, or why it is unknown."""
    from npu_tensor.runtime.devices.detect import detect_arch

    try:
        arch, source = detect_arch()
    except DeviceError as error:
        return str(error)
    return f"{arch} ({source})"


def report() -> dict[str, Any]:
    """Return all information as JSON-compatible data. Opens every NPU."""
    listing = inventory()
    return {
        "system": system(),
        "devices": [device._asdict() for device in listing.devices],
        "left_out": listing.left_out,
        "reason": listing.reason,
        "arrays": arrays(),
        "this_array": this_array(),
    }
