"""The enumerations of pyxrt 2.25, with the values of XRT's headers (ert.h, xrt_mem.h, xrt_bo.h).

They behave as those of pybind11's py::enum_: members have a name and a value, but are no integers. Measured: an unknown
value is accepted and named "???"; members are not ordered, and are equal to an int only where the C++ enumeration is
unscoped.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

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


class _Enumeration:
    """Base of all enumerations here. `convertible` ones are equal to their int."""

    __slots__ = ("__weakref__", "_name", "_value")
    __members__: ClassVar[dict[str, Any]] = {}
    _convertible: ClassVar[bool] = False

    def __init__(self, value: int) -> None:
        self._value = value.__index__()
        known = next((name for name, member in self.__members__.items() if member._value == self._value), "???")
        self._name = known

    @property
    def name(self) -> str:
        """Of the member, without that of the enumeration."""
        return self._name

    @property
    def value(self) -> int:
        """The member as a number."""
        return self._value

    def __int__(self) -> int:
        return self._value

    def __index__(self) -> int:
        return self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is type(self):
            return self._value == other._value
        return self._convertible and isinstance(other, int) and self._value == other

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self._name}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self._name}: {self._value}>"


def _define(name: str, members: dict[str, int], convertible: bool = False) -> Any:
    """An enumeration. A second name for a value gives the member that has it."""
    body = {"__slots__": (), "__members__": {}, "_convertible": convertible, "__module__": "pyxrt"}
    enumeration: Any = type(name, (_Enumeration,), body)
    for member, value in members.items():
        same = [known for known in enumeration.__members__.values() if known._value == value]
        made = same[0] if same else enumeration(value)
        if not same:
            made._name = member
        enumeration.__members__[member] = made
        setattr(enumeration, member, made)
    return enumeration


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


ert_cmd_state: Any = _define(
    "ert_cmd_state", {f"ERT_CMD_STATE_{name}": value for name, value in _STATES}, convertible=True
)
xclBOSyncDirection: Any = _define("xclBOSyncDirection", _numbered(_DIRECTIONS, "XCL_BO_SYNC_"), convertible=True)
xrt_info_device: Any = _define("xrt_info_device", {**_numbered(_INFO), "dynamic_regions": 17, "vmr": 18})
bo_flags: Any = _define(
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
