"""The enumerations of pyxrt 2.25, with the values of XRT's headers (ert.h, xrt_mem.h, xrt_bo.h).

They behave as those of pybind11's py::enum_: members have a name and a value, but are no integers. Measured: an unknown
value is accepted and named "???"; members are not ordered, and are equal to an int only where the C++ enumeration is
unscoped.
"""

from __future__ import annotations

import enum
from typing import Any, Final

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
    """With what pybind11 adds to Python's own."""

    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__

    @classmethod
    def _missing_(cls, value: object) -> Any:
        unknown = object.__new__(cls)
        unknown._name_, unknown._value_ = "???", value
        return unknown


class _Unscoped(_Enumeration):
    """Members are equal to their numbers."""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, int) and self.value == other)

    def __hash__(self) -> int:
        return hash(self.value)


_STATES: Final = (
    ("NEW", 1), ("QUEUED", 2), ("COMPLETED", 4), ("ERROR", 5), ("ABORT", 6), ("SUBMITTED", 7), ("TIMEOUT", 8),
    ("NORESPONSE", 9), ("SKERROR", 10), ("SKCRASHED", 11),
)  # fmt: skip
_DIRECTIONS: Final = ("BO_TO_DEVICE", "BO_FROM_DEVICE", "BO_GMIO_TO_AIE", "BO_AIE_TO_GMIO")
_INFO: Final = (
    "bdf", "interface_uuid", "kdma", "max_clock_frequency_mhz", "m2m", "name", "nodma", "offline", "electrical",
    "thermal", "mechanical", "memory", "platform", "pcie_info", "host",
)  # fmt: skip


def _numbered(names: tuple[str, ...], prefix: str = "") -> dict[str, int]:
    return {f"{prefix}{name}": number for number, name in enumerate(names)}


ert_cmd_state: Any = _Unscoped("ert_cmd_state", {f"ERT_CMD_STATE_{name}": value for name, value in _STATES})
xclBOSyncDirection: Any = _Unscoped("xclBOSyncDirection", _numbered(_DIRECTIONS, "XCL_BO_SYNC_"))
xrt_info_device: Any = _Enumeration("xrt_info_device", {**_numbered(_INFO), "dynamic_regions": 17, "vmr": 18})
bo_flags: Any = _Enumeration(
    "flags",
    {
        "normal": 0,
        "cacheable": 1 << 24,
        "device_only": 1 << 28,
        "host_only": 1 << 29,
        "p2p": 1 << 30,
        "svm": 1 << 27,
    },
)
for _enumeration in (ert_cmd_state, xclBOSyncDirection, xrt_info_device, bo_flags):
    _enumeration.__module__ = "pyxrt"

NEW: Final = ert_cmd_state.ERT_CMD_STATE_NEW
COMPLETED: Final = ert_cmd_state.ERT_CMD_STATE_COMPLETED
ERROR: Final = ert_cmd_state.ERT_CMD_STATE_ERROR
ABORT: Final = ert_cmd_state.ERT_CMD_STATE_ABORT
SUBMITTED: Final = ert_cmd_state.ERT_CMD_STATE_SUBMITTED
TIMEOUT: Final = ert_cmd_state.ERT_CMD_STATE_TIMEOUT
TO_DEVICE: Final = xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE
FROM_DEVICE: Final = xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE
