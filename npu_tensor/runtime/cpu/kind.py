"""The kind of device `cpu`: this machine's processor, which is never opened and runs every task."""

from __future__ import annotations

import platform
from typing import Final

from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.device_kind import DeviceKind, ListedDevice, Listing


def _selectors(uri: str, path: str) -> tuple[str, ...]:
    if path:
        raise DeviceError(f"{uri}: there is one CPU device, cpu", code="INVALID_ARGUMENT")
    return ()


def _list() -> Listing:
    return Listing([ListedDevice("cpu", "", None, "", "this machine's processor", platform.machine(), 0)], [], "")


CPU: Final = DeviceKind(("cpu",), (), _selectors, _list, lambda uri: {})
