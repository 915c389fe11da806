"""The enumerations of pyxrt 2.25 that the driver uses, with the values of XRT's headers (ert.h, xrt_mem.h, xrt_bo.h).

They behave as those of pybind11's py::enum_: members have a name and a value, but are not integers.
"""

from __future__ import annotations

import enum
from typing import Final

from pybind import bound


class _Enumeration(enum.Enum):
    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__


@bound("ert_cmd_state")
class ert_cmd_state(_Enumeration):
    """State of a command."""

    ERT_CMD_STATE_NEW = 1
    ERT_CMD_STATE_COMPLETED = 4
    ERT_CMD_STATE_ERROR = 5
    ERT_CMD_STATE_ABORT = 6
    ERT_CMD_STATE_SUBMITTED = 7
    ERT_CMD_STATE_TIMEOUT = 8


@bound("xclBOSyncDirection")
class xclBOSyncDirection(_Enumeration):
    """Direction of a sync."""

    XCL_BO_SYNC_BO_TO_DEVICE = 0
    XCL_BO_SYNC_BO_FROM_DEVICE = 1


@bound("xrt_info_device")
class xrt_info_device(_Enumeration):
    """Query of a device."""

    bdf = 0
    name = 5


@bound("bo.flags")
class bo_flags(_Enumeration):
    """Kinds of buffer objects."""

    cacheable = 1 << 24
    host_only = 1 << 29


NEW: Final = ert_cmd_state.ERT_CMD_STATE_NEW
COMPLETED: Final = ert_cmd_state.ERT_CMD_STATE_COMPLETED
ERROR: Final = ert_cmd_state.ERT_CMD_STATE_ERROR
ABORT: Final = ert_cmd_state.ERT_CMD_STATE_ABORT
SUBMITTED: Final = ert_cmd_state.ERT_CMD_STATE_SUBMITTED
TIMEOUT: Final = ert_cmd_state.ERT_CMD_STATE_TIMEOUT
TO_DEVICE: Final = xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE
FROM_DEVICE: Final = xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE
