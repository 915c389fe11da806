"""Devices by URI, other than the processor itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from npu_tensor._util.interrupts import import_whole
from npu_tensor.config import config
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.device_uri import DeviceUri, Scheme, device_option, parse_uri, split_uris, target
from npu_tensor.runtime.memory import Allocator
from npu_tensor.task import Accelerator, Step, Task

if TYPE_CHECKING:
    from npu_tensor.runtime.xrt.xrt_device import XrtDevice

__all__ = ["close_devices", "not_allowed", "open_device", "preferred_uris"]


def preferred_uris(uris: str) -> list[DeviceUri]:
    """The devices of a list of URIs that come before the host, which takes everything. Raises DeviceError."""
    found = []
    for text in split_uris(uris):
        uri = parse_uri(text)
        if uri.scheme == "cpu":
            break
        found.append(uri)
    return found


def not_allowed(scheme: Scheme) -> str | None:
    """Which setting forbids devices of a kind, in words; None if none does."""
    if {"auto", scheme} & set(config.backend):
        return None
    return f"{config.origin('backend')} allows no devices of the kind {scheme}"


def open_device(uri: DeviceUri, allocator: Allocator, on_host: Callable[[Task], Step]) -> Accelerator:
    """The device at a URI. on_host: the step that computes a task on the CPU. Raises DeviceError."""
    if reason := not_allowed(uri.scheme):
        raise DeviceError(f"{uri.text}: {reason}")
    if uri.scheme == "sim":
        import_whole("npu_tensor.runtime.sim.simulated_device")  # which imports greenlet
        from npu_tensor.runtime.sim.simulated_device import simulated

        return simulated(uri.text, allocator)
    return _npus(uri, allocator, on_host)


_opened: dict[tuple[int, int, str], XrtDevice] = {}
"""One object per NPU and target, whatever URIs name it: what one of them has computed lies there for all."""


def _npus(uri: DeviceUri, allocator: Allocator, on_host: Callable[[Task], Step]) -> Accelerator:
    import_whole("npu_tensor.runtime.xrt.xrt_device")
    from npu_tensor.runtime.devices.discovery import select
    from npu_tensor.runtime.devices.logical import LogicalDevice
    from npu_tensor.runtime.store.builtin import no_kernels
    from npu_tensor.runtime.xrt.xrt_device import XrtDevice, library

    selected = select(uri)
    reason = no_kernels(selected[0].arch, library().backend)
    if reason is not None and (config.strict or config.fallback == "error"):
        raise DeviceError(f"{uri.text}: {reason}", "NOT_FOUND")
    members = []
    for npu in selected:
        wanted = target(uri, ARRAYS[npu.arch])
        key = (npu.index, wanted.columns, wanted.float32)
        member = _opened.get(key)
        if member is None:
            name = uri.text if len(selected) == 1 else f"npu://{npu.id}"
            member = _opened[key] = XrtDevice(name, npu, wanted, allocator, on_host)
        member.keep_awake(device_option(uri, "keepalive"))
        if (power := device_option(uri, "power")) != "default":
            member.set_power(power)
        members.append(member)
    return LogicalDevice(uri.text, members) if len(members) > 1 else members[0]


def close_devices() -> None:
    """Give everything back that drivers have for this process. Values that only an NPU holds stay readable."""
    from npu_tensor.runtime.xrt.engines import close_engines

    _opened.clear()
    close_engines()
