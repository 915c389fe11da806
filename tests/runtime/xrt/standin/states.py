"""The enumerations of pyxrt 2.25, with the values of XRT's headers (ert.h, xrt_mem.h, xrt_bo.h)."""

from __future__ import annotations

from typing import Any, Final

from pybind_enums import define

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


ert_cmd_state: Any = define(
    "ert_cmd_state", {f"ERT_CMD_STATE_{name}": value for name, value in _STATES}, convertible=True
)
xclBOSyncDirection: Any = define("xclBOSyncDirection", _numbered(_DIRECTIONS, "XCL_BO_SYNC_"), convertible=True)
xrt_info_device: Any = define("xrt_info_device", {**_numbered(_INFO), "dynamic_regions": 17, "vmr": 18})
bo_flags: Any = define(
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

NEW: Final = ert_cmd_state.ERT_CMD_STATE_NEW
COMPLETED: Final = ert_cmd_state.ERT_CMD_STATE_COMPLETED
ERROR: Final = ert_cmd_state.ERT_CMD_STATE_ERROR
ABORT: Final = ert_cmd_state.ERT_CMD_STATE_ABORT
SUBMITTED: Final = ert_cmd_state.ERT_CMD_STATE_SUBMITTED
TIMEOUT: Final = ert_cmd_state.ERT_CMD_STATE_TIMEOUT
TO_DEVICE: Final = xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE
FROM_DEVICE: Final = xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE
