"""Device kind `npu`: NPUs of this machine, through XRT."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from npu_tensor._util.interrupts import import_whole
from npu_tensor.config import config
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices import device_kind
from npu_tensor.runtime.devices.device_kind import DeviceKind, DeviceUri, ListedDevice, Listing, device_option
from npu_tensor.runtime.memory import Allocator
from npu_tensor.task import Accelerator, Step, Task

if TYPE_CHECKING:
    from npu_tensor.kernels.offer import Target
    from npu_tensor.runtime.xrt.xrt_device import XrtDevice

SELECTOR: Final = re.compile(
    r"[0-9]{1,9}"  # ordinal
    r"|(?:aie|npu|gpu)-[0-9a-z]+"  # identifier
    r"|(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]",  # PCI address: [domain:]bus:device.function
    re.IGNORECASE,
)


def _selectors(uri: str, path: str) -> tuple[str, ...]:
    selectors = tuple(map(str.strip, path.split(","))) if path else ()
    for selector in selectors:
        if not SELECTOR.fullmatch(selector):
            raise DeviceError(
                f"{uri}: invalid device specifier `{selector}`; expected an ordinal (`0`) or a device UUID "
                "(`NPU-XX...`) or a PCI address (`0000:c6:00.1`)",
                code="INVALID_ARGUMENT",
            )
    return selectors


def _list() -> Listing:
    """List `npu`, which is all compatible NPUs together, and then each NPU. Opens every NPU."""
    from npu_tensor.runtime.devices.discovery import compatible, discover

    try:
        discovery = discover()
    except DeviceError as error:
        return Listing([], [], str(error))
    left_out = [str(device) for device in discovery.left_out]
    if not discovery.devices:
        return Listing([], left_out, "XRT lists no NPU that can be used")
    first = discovery.devices[0]
    together = sum(compatible(device, first) for device in discovery.devices)
    devices = [
        ListedDevice("npu", "", None, "", f"{together} x {first.name}", first.arch, ARRAYS[first.arch].columns),
        *(
            ListedDevice(f"npu://{npu.id}", npu.id, npu.ordinal, npu.bdf, npu.name, npu.arch, ARRAYS[npu.arch].columns)
            for npu in discovery.devices
        ),
    ]
    return Listing(devices, left_out, "")


def _information(uri: DeviceUri) -> dict[str, str]:
    from npu_tensor.runtime.build import mlir_aie
    from npu_tensor.runtime.devices.discovery import select
    from npu_tensor.runtime.devices.system import driver_version
    from npu_tensor.runtime.xrt.bindings import xrt_version

    toolchain = mlir_aie.find()
    return {
        "compiler": toolchain if isinstance(toolchain, str) else toolchain.name,
        "XRT": xrt_version() or "unknown",
        "driver": f"amdxdna {version}" if (version := driver_version()) else "unknown",
        **{
            f"npu:{device.ordinal}": f"{device.name} ({device.arch}), PCI {device.pci or 'unknown'} at {device.bdf}"
            for device in select(uri)
        },
    }


_opened: dict[tuple[int, Target], XrtDevice] = {}
"""Devices by NPU and target. All URIs of an NPU share its object, and thereby values in its memory."""


def _open(uri: DeviceUri, allocator: Allocator, on_host: Callable[[Task], Step]) -> Accelerator:
    import_whole("npu_tensor.runtime.xrt.xrt_device")
    from npu_tensor.runtime.devices.discovery import select
    from npu_tensor.runtime.devices.logical import LogicalDevice
    from npu_tensor.runtime.store.kernel_directory import no_kernels
    from npu_tensor.runtime.xrt.xrt_device import XrtDevice, library

    selected = select(uri)
    reason = no_kernels(selected[0].arch, library().backend)
    if reason is not None and config.fallback == "error":
        raise DeviceError(f"{uri.text}: {reason}", "NOT_FOUND")
    members = []
    for npu in selected:
        kernels_for = device_kind.target(uri, ARRAYS[npu.arch])
        key = (npu.index, kernels_for)
        member = _opened.get(key)
        if member is None:
            name = uri.text if len(selected) == 1 else f"npu://{npu.id}"
            member = _opened[key] = XrtDevice(name, npu, kernels_for, allocator, on_host)
        if (power := device_option(uri, "power")) != "default":
            member.set_power(power)
        members.append(member)
    return LogicalDevice(uri.text, members) if len(members) > 1 else members[0]


def _close() -> None:
    from npu_tensor.runtime.xrt.engines import close_engines

    _opened.clear()
    close_engines()


NPU: Final = DeviceKind(
    # IREE's driver, Linux's driver, the architecture and ROCm's runtime are aliases.
    schemes=("npu", "amdgpu", "amdxdna", "xdna", "hsa"),
    options=(*device_kind.ARRAY_OPTIONS, "power"),
    selectors=_selectors,
    list=_list,
    information=_information,
    open=_open,
    close=_close,
)
