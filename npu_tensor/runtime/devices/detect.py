"""Detection of this machine's array. Nothing is guessed: the error lists every source and its answer.

Example:
    detect_arch()           # Detected("aie2p", "pyxrt: NPU Strix")
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from npu_tensor.dataflow.array import Arch, arch_of, configured_arch
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.system import pci_numbers
from npu_tensor.runtime.xrt import bindings


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
    attempts = ["NPU_TENSOR_ARCH: not set"]
    for source, ask in (("pyxrt", _name_in_xrt), ("the kernel", lambda: _accelerators(root))):
        try:
            name = ask()
            return Detected(arch_of(name), f"{source}: {name}")
        except DeviceError as error:
            attempts.append(f"{source}: {error}")
    raise NotDetected("\n  ".join(["no NPU was found. Tried", *attempts]), "NOT_FOUND")


def _name_in_xrt() -> str:
    try:
        return str(bindings.open_device(0).get_info(bindings.pyxrt().xrt_info_device.name))
    except Exception as error:  # A binary module of another version may raise anything.
        raise DeviceError(str(error).replace("\n", "\n  ") or type(error).__name__) from None


def _accelerators(root: Path) -> str:
    """Return PCI vendor and device of the first known accelerator, as "1022:17f0". Raises DeviceError."""
    found = [":".join(pci_numbers(path)[:2]) for path in sorted(root.glob("sys/class/accel/accel*/device"))]
    for numbers in found:
        with suppress(DeviceError):
            arch_of(numbers)
            return numbers
    raise DeviceError(f"names no NPU that is known here: {' '.join(found) or 'no accelerator'}")
