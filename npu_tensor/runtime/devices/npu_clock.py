"""Clock of an NPU, from the driver amdxdna."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from pathlib import Path
from typing import Final

GET_INFO: Final = 0xC0106447
"""Request number of DRM_IOCTL_AMDXDNA_GET_INFO in Linux's include/uapi/drm/amdxdna_accel.h, with 16 bytes."""

QUERY_CLOCKS: Final = 3
"""Number of DRM_AMDXDNA_QUERY_CLOCK_METADATA."""

CLOCKS: Final = struct.Struct("16sII16sII")
"""Name, MHz and padding of the controller's clock, then of the array's."""


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
