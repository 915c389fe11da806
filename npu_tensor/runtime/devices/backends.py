"""Listing, opening and closing of devices of all kinds."""

from __future__ import annotations

from collections.abc import Callable

from npu_tensor.config import config
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.device_kind import DeviceUri, ListedDevice, Listing
from npu_tensor.runtime.devices.device_uri import KINDS, parse_uri, split_uris
from npu_tensor.runtime.memory import Allocator
from npu_tensor.task import Accelerator, Step, Task


def preferred_uris(uris: str) -> list[DeviceUri]:
    """Return the devices of a list of URIs up to the CPU, which runs everything. Raises DeviceError."""
    preferred = []
    for text in split_uris(uris):
        uri = parse_uri(text)
        if uri.scheme == "cpu":
            break
        preferred.append(uri)
    return preferred


def not_allowed(scheme: str) -> str | None:
    """Describe the setting that forbids devices of a kind, or return None."""
    if scheme == "cpu" or {"auto", scheme} & set(config.backend):
        return None
    return f"{config.origin('backend')} allows no devices of the kind {scheme}"


def list_devices() -> list[ListedDevice]:
    """List the devices of this machine that NPU_TENSOR_BACKEND allows. Opens every NPU.

    The order is: `npu` for all compatible NPUs together, each NPU, the CPU, the simulated NPUs.
    """
    return inventory().devices


def inventory() -> Listing:
    """List devices and the reasons for missing ones. Raises ArgumentError for an invalid NPU_VISIBLE_DEVICES."""
    reasons = {scheme: not_allowed(scheme) for scheme in KINDS}
    listings = [kind.list() for scheme, kind in KINDS.items() if reasons[scheme] is None]
    return Listing(
        [device for listing in listings for device in listing.devices],
        [line for listing in listings for line in listing.left_out],
        reasons["npu"] or next(filter(None, (listing.reason for listing in listings)), ""),
    )


def open_device(uri: DeviceUri, allocator: Allocator, on_host: Callable[[Task], Step]) -> Accelerator:
    """Open the device of a URI; `on_host` creates the step of a task on the CPU. Raises DeviceError."""
    if reason := not_allowed(uri.scheme):
        raise DeviceError(f"{uri.text}: {reason}")
    opened = KINDS[uri.scheme].open
    assert opened is not None
    return opened(uri, allocator, on_host)


def close_devices() -> None:
    """Release all drivers. Values in the memory of an NPU stay readable."""
    for kind in KINDS.values():
        kind.close()
