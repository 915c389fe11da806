"""Detection of this machine's array. Nothing is guessed: the error lists every source and its answer.

Example:
    detect_arch()           # Detected("aie2p", "pyxrt: NPU Strix")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from npu_tensor.dataflow.array import ARRAY_NAMES, Arch, arch_of, configured_arch
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.system import pci_numbers
from npu_tensor.runtime.xrt import bindings

__all__ = ["Detected", "NotDetected", "detect_arch"]


class Detected(NamedTuple):
    """Generation of the array, and the source of this information."""

    arch: Arch
    source: str


class NotDetected(DeviceError):
    """No source knows the array of this machine. The message lists every source, one per line."""


def detect_arch(arch: str = "", root: Path = Path("/")) -> Detected:
    """Return the array given by name, by NPU_TENSOR_ARCH, or by this machine.

    The sources for this machine are pyxrt and the list of accelerators in sysfs.

    Args:
        arch: Name of an array, or empty.
        root: Directory with /sys.

    Raises:
        DeviceError: The name is unknown.
        NotDetected: No source knows the array.
    """
    if arch:
        return Detected(arch_of(arch), f"given as {arch}")
    configured = configured_arch()
    if configured is not None:
        return Detected(configured, "NPU_TENSOR_ARCH")
    sources: dict[str, Callable[[], str]] = {
        "pyxrt": _pyxrt,
        "the kernel": lambda: _accelerators(root),
    }
    attempts = ["NPU_TENSOR_ARCH: not set"]
    for source, ask in sources.items():
        try:
            output = ask()
        except DeviceError as error:
            attempts.append(f"{source}: {error}")
            continue
        for name in _names(output):
            return Detected(arch_of(name), f"{source}: {name}")
        attempts.append(f"{source}: names no NPU that is known here")
    raise NotDetected("\n  ".join(["no NPU was found. Tried", *attempts]), "NOT_FOUND")


_SPELLINGS: Final = re.compile(
    r"RyzenAI-npu\d+|1022:[0-9a-f]{4}|\baie2p?\b|"
    + "|".join(rf"\b{re.escape(name)}\b" for names in ARRAY_NAMES.values() for name in sorted(names, key=len)[::-1]),
    re.IGNORECASE,
)


def _names(text: str) -> Iterator[str]:
    """Find the names of arrays in the output of a tool."""
    for match in _SPELLINGS.finditer(text):
        try:
            arch_of(match[0])
        except DeviceError:
            continue
        yield match[0]


def _pyxrt() -> str:
    try:
        return str(bindings.open_device(0).get_info(bindings.pyxrt().xrt_info_device.name))
    except Exception as error:  # A binary module of another version may raise anything.
        raise DeviceError(str(error).replace("\n", "\n  ") or type(error).__name__) from None


def _accelerators(root: Path) -> str:
    """Return PCI vendor and device of all accelerators, as "1022:17f0". Raises DeviceError if there is none."""
    accelerators = [":".join(pci_numbers(path)[:2]) for path in sorted(root.glob("sys/class/accel/accel*/device"))]
    if not accelerators:
        raise DeviceError("lists no accelerator")
    return " ".join(accelerators)
