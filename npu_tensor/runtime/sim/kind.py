"""Device kind `sim`: simulated NPUs, `sim:npu1`, `sim:npu2`, and several as one device, `sim:npu2x2`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from npu_tensor._util.interrupts import import_whole
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.errors import DeviceError
from npu_tensor.kernels.offer import Target
from npu_tensor.runtime.devices.device_kind import ARRAY_OPTIONS, DeviceKind, DeviceUri, ListedDevice, Listing, target
from npu_tensor.runtime.memory import Allocator
from npu_tensor.task import Accelerator, Step, Task

SIMULATED: Final = {array.device: array for array in ARRAYS.values()}
"""Arrays with a simulator, by the names that follow `sim:`."""

MOST_SIMULATED: Final = 16
"""Upper bound on simulated NPUs in one logical device; each takes memory and a thread."""


def _selectors(uri: str, path: str) -> tuple[str, ...]:
    match = re.fullmatch(rf"({'|'.join(SIMULATED)})(?:x([0-9]{{1,3}}))?", path.casefold())
    if match is None:
        known = ", ".join(f"sim:{name}" for name in SIMULATED)
        raise DeviceError(
            f"{uri}: there is no simulated {path or 'device without a name'}; there are {known}, and sim:npu2x2 for "
            "two as one device",
            code="NOT_FOUND",
        )
    count = int(match[2] or 1)
    if not 1 <= count <= MOST_SIMULATED:
        raise DeviceError(f"{uri}: 1 to {MOST_SIMULATED} simulated NPUs make a device", code="OUT_OF_RANGE")
    return (match[1],) * count


def _list() -> Listing:
    devices = [
        ListedDevice(f"sim:{name}", "", None, "", f"simulated {name}", array.arch, array.columns)
        for name, array in SIMULATED.items()
    ]
    return Listing(devices, [], "")


def simulated_target(uri: DeviceUri) -> Target:
    """Return the target of kernels for one or several simulated NPUs. Raises DeviceError."""
    return target(uri, SIMULATED[uri.selectors[0]])


def _information(uri: DeviceUri) -> dict[str, str]:
    from npu_tensor.runtime.sim import host_compiler

    return {"compiler": host_compiler.toolchain()}


def _open(uri: DeviceUri, allocator: Allocator, on_host: Callable[[Task], Step]) -> Accelerator:
    """Open one simulated NPU, or as many as the URI requests, `sim:npu2x2#0` and `sim:npu2x2#1`."""
    import_whole("npu_tensor.runtime.sim.simulated_device")  # which imports greenlet
    from npu_tensor.runtime.devices.logical import LogicalDevice
    from npu_tensor.runtime.sim.simulated_device import SimulatedDevice

    kernels_for = simulated_target(uri)
    count = len(uri.selectors)
    names = [f"{uri.text}#{number}" for number in range(count)] if count > 1 else [uri.text]
    devices = [SimulatedDevice(name, kernels_for, allocator, on_host) for name in names]
    return LogicalDevice(uri.text, devices) if count > 1 else devices[0]


SIM: Final = DeviceKind(("sim",), ARRAY_OPTIONS, _selectors, _list, _information, _open)
