"""The enumerations of pyxrt 2.25 that the driver uses, with the values of XRT's headers (ert.h, xrt_mem.h, xrt_bo.h).

They behave as those of pybind11's py::enum_: members have a name and a value, but are no integers.
"""

from __future__ import annotations

import enum
from typing import Any, Final

from pybind import bound

__all__ = [
    "ABORT",
    "COMPLETED",
    "ERROR",
    "FROM_DEVICE",
    "NEW",
    "SUBMITTED",
    "TIMEOUT",
    "TO_DEVICE",
    "bo_flags",
    "ert_cmd_state",
    "xclBOSyncDirection",
    "xrt_info_device",
]


class _Enumeration(enum.Enum):
    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__


_STATES: Final = {"NEW": 1, "COMPLETED": 4, "ERROR": 5, "ABORT": 6, "SUBMITTED": 7, "TIMEOUT": 8}

ert_cmd_state: Any = _Enumeration("ert_cmd_state", {f"ERT_CMD_STATE_{name}": value for name, value in _STATES.items()})
xclBOSyncDirection: Any = _Enumeration(
    "xclBOSyncDirection", {"XCL_BO_SYNC_BO_TO_DEVICE": 0, "XCL_BO_SYNC_BO_FROM_DEVICE": 1}
)
xrt_info_device: Any = _Enumeration("xrt_info_device", {"bdf": 0, "name": 5})
bo_flags: Any = _Enumeration("bo_flags", {"cacheable": 1 << 24, "host_only": 1 << 29})

for _name, _enumeration in (
    ("ert_cmd_state", ert_cmd_state),
    ("xclBOSyncDirection", xclBOSyncDirection),
    ("xrt_info_device", xrt_info_device),
    ("bo.flags", bo_flags),
):
    bound(_name)(_enumeration)

NEW: Final = ert_cmd_state.ERT_CMD_STATE_NEW
COMPLETED: Final = ert_cmd_state.ERT_CMD_STATE_COMPLETED
ERROR: Final = ert_cmd_state.ERT_CMD_STATE_ERROR
ABORT: Final = ert_cmd_state.ERT_CMD_STATE_ABORT
SUBMITTED: Final = ert_cmd_state.ERT_CMD_STATE_SUBMITTED
TIMEOUT: Final = ert_cmd_state.ERT_CMD_STATE_TIMEOUT
TO_DEVICE: Final = xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE
FROM_DEVICE: Final = xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE
