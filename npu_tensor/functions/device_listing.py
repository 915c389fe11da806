"""Which devices there are, for `nt.list_devices` and `npu-tensor devices`."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, NamedTuple

from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.errors import DeviceError

if TYPE_CHECKING:
    from npu_tensor.runtime.devices.discovery import PhysicalDevice

__all__ = ["Inventory", "ListedDevice", "inventory", "list_devices"]


class ListedDevice(NamedTuple):
    """A device and the URI that `nt.set_default_device` takes for it.

    id, pci_address: of an NPU, else "". ordinal: N of npu:N, else None. arch: generation of the array, or the
    processor's architecture. columns: of the array, 0 for the CPU.
    """

    uri: str
    id: str
    ordinal: int | None
    pci_address: str
    name: str
    arch: str
    columns: int


class Inventory(NamedTuple):
    """All devices; what XRT lists and is not used, a line each; and why there is no NPU, "" if there is one."""

    devices: list[ListedDevice]
    left_out: list[str]
    reason: str


def list_devices() -> list[ListedDevice]:
    """The devices of this machine that NPU_TENSOR_BACKEND allows: if it has NPUs, `npu`, which is all compatible ones
    together, then each of them; the CPU; the simulated NPUs. Opens every NPU.
    """
    return inventory().devices


def inventory() -> Inventory:
    """`list_devices`, and why devices are missing. Raises ArgumentError for a value of NPU_VISIBLE_DEVICES."""
    from npu_tensor.runtime.devices.backends import not_allowed
    from npu_tensor.runtime.devices.device_uri import SIMULATED
    from npu_tensor.runtime.devices.discovery import discover

    simulated = {} if not_allowed("sim") else SIMULATED
    here = [
        ListedDevice("cpu", "", None, "", "this machine's processor", platform.machine(), 0),
        *(
            ListedDevice(f"sim:{name}", "", None, "", f"simulated {name}", array.arch, array.columns)
            for name, array in simulated.items()
        ),
    ]
    if reason := not_allowed("npu"):
        return Inventory(here, [], reason)
    try:
        found = discover()
    except DeviceError as error:
        return Inventory(here, [], str(error))
    left_out = [str(device) for device in found.left_out]
    if not found.devices:
        return Inventory(here, left_out, "XRT lists no NPU that can be used")
    return Inventory([*_npus(found.devices), *here], left_out, "")


def _npus(found: list[PhysicalDevice]) -> list[ListedDevice]:
    """`npu` and then each NPU."""
    from npu_tensor.runtime.devices.discovery import compatible

    first = found[0]
    together = sum(compatible(device, first) for device in found)
    columns = ARRAYS[first.arch].columns
    return [
        ListedDevice("npu", "", None, "", f"{together} x {first.name}", first.arch, columns),
        *(
            ListedDevice(
                f"npu://{device.id}",
                device.id,
                device.ordinal,
                device.bdf,
                device.name,
                device.arch,
                ARRAYS[device.arch].columns,
            )
            for device in found
        ),
    ]
