"""A stand-in for XRT's Python module, with state: machine.py describes the machine behind it.

It has what the driver calls of pyxrt 2.25, with its argument checks; a test compares both where the real one is
installed. What the real one answers with a crash raises Crash here.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from machine import current
from pybind import function
from states import ert_cmd_state, xclBOSyncDirection, xrt_info_device
from surface_device import bo, device, elf, hw_context, uuid, xclbin
from surface_runs import ext_kernel, kernel, run, runlist

__all__ = [
    "bo",
    "device",
    "elf",
    "enumerate_devices",
    "ert_cmd_state",
    "ext",
    "hw_context",
    "kernel",
    "run",
    "runlist",
    "uuid",
    "xclBOSyncDirection",
    "xclbin",
    "xrt_info_device",
]


@function("enumerate_devices")
def enumerate_devices() -> int:
    """How many NPUs there are."""
    return sum(npu.present for npu in current().devices)


ext: Any = ModuleType("pyxrt.ext", "What full ELFs need.")
ext.kernel = ext_kernel
