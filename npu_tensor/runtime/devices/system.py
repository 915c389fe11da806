"""Information about the machine from the operating system and its tools.

Example:
    driver_version()                                            # "2.21.0,ab12cd"
    driver_clock_hz("0000:c6:00.1")                             # 1.8e9
    pci_numbers(Path("/sys/bus/pci/devices/0000:c6:00.1"))      # ("1022", "17f0", "20")
    tool_output("xrt-smi", "examine")
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import struct
from functools import cache
from pathlib import Path
from typing import Final

from npu_tensor.errors import DeviceError

SECONDS: Final = 10
"""Time limit for a tool, in seconds."""

GET_INFO: Final = 0xC0106447
"""Request number of DRM_IOCTL_AMDXDNA_GET_INFO in Linux's include/uapi/drm/amdxdna_accel.h, with 16 bytes."""

QUERY_CLOCKS: Final = 3
"""Number of DRM_AMDXDNA_QUERY_CLOCK_METADATA."""

CLOCKS: Final = struct.Struct("16sII16sII")
"""Name, MHz and padding of the controller's clock, then of the array's."""


def driver_version(root: Path = Path("/")) -> str:
    """Return the version of the driver amdxdna from `root`/sys; empty if it is not loaded or has no version."""
    return file_text(root / "sys/module/amdxdna/version")


def driver_clock_hz(bdf: str, root: Path = Path("/")) -> float | None:
    """Return the current clock of the cores of an NPU, or None if the driver does not report it.

    Args:
        bdf: PCI address of the NPU.
        root: Directory with /sys and /dev.
    """
    clocks = ctypes.create_string_buffer(CLOCKS.size)
    request = struct.pack("IIQ", QUERY_CLOCKS, CLOCKS.size, ctypes.addressof(clocks))
    nodes = sorted((root / "sys/bus/pci/devices" / bdf / "accel").glob("accel*"))
    try:
        descriptor = os.open(root / "dev/accel" / nodes[0].name, os.O_RDWR)
        try:
            fcntl.ioctl(descriptor, GET_INFO, request)
        finally:
            os.close(descriptor)
    except (OSError, IndexError):
        return None
    *_, megahertz, _ = CLOCKS.unpack(clocks.raw)
    return megahertz * 1e6 or None


def pci_numbers(directory: Path) -> tuple[str, str, str]:
    """Return vendor, device and revision from a directory in /sys, without "0x"; empty for missing files."""
    vendor, device, revision = (
        file_text(directory / name).removeprefix("0x") for name in ("vendor", "device", "revision")
    )
    return vendor, device, revision


def file_text(file: Path) -> str:
    """Return the stripped text of a small file; empty if it cannot be read."""
    try:
        return file.read_text("utf-8").strip()
    except (OSError, ValueError):
        return ""


@cache
def processor_fields() -> dict[str, str]:
    """Return the fields of the last processor in /proc/cpuinfo; empty if there is no such file."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def processor_name() -> str:
    """Return the maker's name of the processor, or its architecture."""
    return processor_fields().get("model name") or platform.processor() or platform.machine()


def tool_output(*command: str) -> str:
    """Return the output of a tool. Raises DeviceError if it is missing, fails or takes longer than 10 s."""
    import subprocess  # slow to load, and most programs need none

    try:
        process = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=SECONDS
        )
    except OSError as error:
        raise DeviceError(f"{error.strerror}: {command[0]!r}") from None
    except subprocess.TimeoutExpired:
        raise DeviceError(f"no answer within {SECONDS} s") from None
    if process.returncode:
        lines = (process.stderr.strip() or process.stdout.strip()).splitlines()
        raise DeviceError(": ".join([f"exit code {process.returncode}", *lines[-1:]]))
    return process.stdout
