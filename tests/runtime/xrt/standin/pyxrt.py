"""A stand-in for XRT's Python module, with state: machine.py describes the machine behind it.

The surface is that of pyxrt 2.25, with its argument checks; a test compares both where the real one is installed. What
the real one answers with a crash raises Crash here. Left out: load from a capsule, memory banks, lists of such objects.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

import states
from machine import current
from pybind_signatures import TYPES, Signatures
from states import ert_cmd_state, xclBOSyncDirection, xrt_info_device, xrt_msg_level
from surface_device import device, hw_context
from surface_files import elf, module, program, uuid, xclbin
from surface_memory import bo, ext_bo
from surface_runs import ext_kernel, kernel, run, runlist

__all__ = [
    "XCL_BO_FLAGS_NONE",
    "bo",
    "device",
    "elf",
    "enumerate_devices",
    "ert_cmd_state",
    "ext",
    "hw_context",
    "kernel",
    "log_message",
    "module",
    "program",
    "run",
    "runlist",
    "uuid",
    "xclBOSyncDirection",
    "xclbin",
    "xrt_info_device",
    "xrt_msg_level",
]

XCL_BO_FLAGS_NONE: Final = 0
emergency, alert, critical, error, warning, notice, info, debug = xrt_msg_level.__members__.values()

TYPES.update(
    {
        "pyxrt.xclBOSyncDirection": xclBOSyncDirection,
        "pyxrt.ert_cmd_state": ert_cmd_state,
        "pyxrt.xrt_info_device": xrt_info_device,
        "pyxrt.xrt_msg_level": xrt_msg_level,
        "pyxrt.hw_context.access_mode": states.context_access_mode,
        "pyxrt.kernel.states.cu_access_mode": states.cu_access_mode,
        "pyxrt.bo.flags": states.bo_flags,
        "pyxrt.ext.access_mode": states.bo_access_mode,
    }
)

_ENUMERATE = Signatures("enumerate_devices", "-> int")
_LOG = Signatures("log_message", "arg0: pyxrt.xrt_msg_level, arg1: str, arg2: str -> None")


def enumerate_devices() -> int:
    """How many NPUs there are."""
    return sum(npu.present for npu in current().devices)


def log_message(*arguments: Any) -> None:
    """Accepts what the real one does, and says nothing."""
    _LOG.match(arguments, {})


ext: Any = ModuleType("pyxrt.ext", "What full ELFs need.")
ext.bo, ext.kernel, ext.access_mode = ext_bo, ext_kernel, states.bo_access_mode
for _name, _member in states.bo_access_mode.__members__.items():
    setattr(ext, _name, _member)
