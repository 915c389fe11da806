"""What is known of a kind of devices: how its URIs are read, which devices there are, and how one is opened.

Each kind is a `DeviceKind` in the file `kind.py` of its folder, and a line of `device_uri.KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from npu_tensor.runtime.memory import Allocator
    from npu_tensor.task import Accelerator, Step, Task

__all__ = ["ARRAY_OPTIONS", "DeviceKind", "DeviceUri", "ListedDevice", "Listing"]

ARRAY_OPTIONS = ("cols", "rows", "float32")
"""Options of devices with an array of cores."""


class DeviceUri(NamedTuple):
    """What a URI asks for; its options have been read and are allowed.

    scheme: the first one of its kind. selectors: of the physical NPUs, ordinals, identifiers and PCI addresses as
    given, or nothing for all of them; of simulated ones the name of the array, once per simulated NPU, so that
    `sim:npu2x2` has ("npu2", "npu2"). options: name -> text; `device_option` has the value. text: the URI as given.
    """

    scheme: str
    selectors: tuple[str, ...]
    options: Mapping[str, str]
    text: str


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


class Listing(NamedTuple):
    """Devices; what XRT lists and is not used, a line each; and why there is no NPU, "" if there is one."""

    devices: list[ListedDevice]
    left_out: list[str]
    reason: str


class DeviceKind(NamedTuple):
    """A kind of devices. Heavy modules are imported by the functions, not by the file of the record.

    schemes: what its URIs begin with; the first one is its name. options: names of `device_uri.OPTIONS`.
    selectors: (URI, path of the URI) -> `DeviceUri.selectors`, or DeviceError. list: what this machine has.
    information: versions and names for a report on the device of a URI. open: (URI, memory of the processor, the step
    that computes a task on the CPU) -> device, or DeviceError. close: gives back what drivers have for this process.
    """

    schemes: tuple[str, ...]
    options: tuple[str, ...]
    selectors: Callable[[str, str], tuple[str, ...]]
    list: Callable[[], Listing]
    information: Callable[[DeviceUri], dict[str, str]]
    open: Callable[[DeviceUri, Allocator, Callable[[Task], Step]], Accelerator] | None = None
    close: Callable[[], Any] = lambda: None
