"""NPUs of this machine that XRT lists and NPU_VISIBLE_DEVICES does not hide, and their selection by URI.

select(parse_uri("npu"))            # every NPU that is compatible with the first
select(parse_uri("npu://0000:c6:00.1"))
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from npu_tensor.config import as_text, config
from npu_tensor.dataflow.array import Arch, arch_of
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.system import file_text, pci_numbers

if TYPE_CHECKING:
    from npu_tensor.runtime.devices.device_kind import DeviceUri

_ROOT: Final = Path("/")
_ID_PREFIX: Final = re.compile("(?:aie|npu|gpu)-", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PhysicalDevice:
    """An NPU.

    Attributes:
        id: "AIE-" and 16 hexadecimal digits. It stays the same while the NPU is in its slot of this machine.
        bdf: PCI address, "0000:c6:00.1".
        name: Name in XRT, "NPU Strix".
        pci: Vendor, device and revision, "1022:17f0:20", or empty if /sys does not have them.
    """

    index: int
    ordinal: int
    id: str
    bdf: str
    name: str
    arch: Arch
    pci: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A device of XRT that is not used. Unknown names are empty."""

    index: int
    bdf: str
    name: str
    reason: str

    def __str__(self) -> str:
        names = ", ".join(filter(None, (self.name, self.bdf)))
        return f"XRT's device {self.index}{f' ({names})' if names else ''}: {self.reason}"


class Discovery(NamedTuple):
    """Visible NPUs, unused devices, and the number of NPUs including hidden ones."""

    devices: list[PhysicalDevice]
    left_out: list[LeftOut]
    present: int


def discover(root: Path = _ROOT) -> Discovery:
    """Find the NPUs that this process may use. Opens every device and keeps it open.

    Ordinals follow XRT's order, or that of NPU_VISIBLE_DEVICES.

    Args:
        root: Directory with /sys and /etc.

    Raises:
        DeviceError: pyxrt cannot be loaded, or fails.
    """
    from npu_tensor.runtime.xrt.bindings import pyxrt

    module = pyxrt()
    try:
        count = module.enumerate_devices()
    except Exception as error:  # A binary module may raise anything.
        raise DeviceError(f"XRT cannot list its devices: {error}") from None
    npus: list[PhysicalDevice] = []
    left_out: list[LeftOut] = []
    for index in range(count):
        device = _examine(index, len(npus), root)
        if isinstance(device, LeftOut):
            left_out.append(device)
        else:
            npus.append(device)
    visible, hidden = _masked(npus)
    return Discovery(visible, [*left_out, *hidden], len(npus))


def _examine(index: int, ordinal: int, root: Path) -> PhysicalDevice | LeftOut:
    from npu_tensor.runtime.xrt.bindings import open_device, pyxrt

    bdf = name = ""
    keys = pyxrt().xrt_info_device
    try:
        device = open_device(index)
        bdf = str(device.get_info(keys.bdf))
        name = str(device.get_info(keys.name))
    except Exception as error:
        return LeftOut(index, bdf, name, str(error) or type(error).__name__)
    pci = _pci(bdf, root)
    # The driver's names change with processors. A new name is recognized by its PCI numbers.
    for spelling in (name, pci.rpartition(":")[0]):
        try:
            arch = arch_of(spelling)
        except DeviceError:
            continue
        return PhysicalDevice(index, ordinal, _stable_id(bdf, pci, root), bdf, name, arch, pci)
    return LeftOut(index, bdf, name, f"{name!r}, PCI {pci or 'numbers unknown'}, is not a supported NPU")


def _pci(bdf: str, root: Path) -> str:
    numbers = pci_numbers(root / "sys/bus/pci/devices" / bdf)
    return ":".join(numbers) if all(numbers) else ""


def _stable_id(bdf: str, pci: str, root: Path) -> str:
    """Derive an ID in the form of ROCr's "GPU-...". ROCr itself calls every NPU AIE-XX."""
    from hashlib import sha256  # loads OpenSSL

    slot = f"{bdf}\n{pci}\n{_machine_id(root)}"
    return f"AIE-{sha256(slot.encode()).hexdigest()[:16]}"


def _machine_id(root: Path) -> str:
    """Return the machine ID of machine-id(5), which distinguishes equal slots of two machines; may be empty."""
    files = root / "etc/machine-id", root / "var/lib/dbus/machine-id"
    return next(filter(None, map(file_text, files)), "")


def _masked(npus: list[PhysicalDevice]) -> tuple[list[PhysicalDevice], list[LeftOut]]:
    """Apply NPU_VISIBLE_DEVICES. Returns the visible NPUs in its order with new ordinals, and the hidden ones.

    An unknown or repeated entry ends the list, as in ROCr (RvdFilter).
    """
    entries = config.visible_devices
    if entries is None:
        return npus, []
    chosen: list[PhysicalDevice] = []
    end = ""
    for entry in entries:
        device = next((device for device in npus if _means(entry, device)), None)
        if device is None or device in chosen:
            end = f", which ends at {entry}: it names {'no NPU' if device is None else 'the same NPU again'}"
            break
        chosen.append(device)
    reason = f"hidden by {config.origin('visible_devices')}={as_text(entries)}{end}"
    hidden = [LeftOut(device.index, device.bdf, device.name, reason) for device in npus if device not in chosen]
    return [replace(device, ordinal=ordinal) for ordinal, device in enumerate(chosen)], hidden


def _means(selector: str, device: PhysicalDevice) -> bool:
    """Return True if an ordinal, an identifier with any prefix, or a PCI address denotes this NPU."""
    if selector.isdecimal():
        return (selector.lstrip("0") or "0") == str(device.ordinal)
    if ":" in selector:
        return _address(selector) == device.bdf
    return _plain_id(selector) == _plain_id(device.id)


def _address(text: str) -> str:
    """Convert a PCI address to XRT's form."""
    *domain, bus, function = text.casefold().split(":")
    return f"{int(domain[0], 16) if domain else 0:04x}:{bus}:{function}"


def _plain_id(identifier: str) -> str:
    return _ID_PREFIX.sub("", identifier.casefold(), count=1)


def compatible(device: PhysicalDevice, other: PhysicalDevice) -> bool:
    """Return True if both can be parts of one logical device: the same kernels run equally fast on both."""
    return (device.arch, device.name) == (other.arch, other.name)


def select(uri: DeviceUri, root: Path = _ROOT) -> list[PhysicalDevice]:
    """Return the NPUs of an `npu` URI: the named ones in that order, or all that are compatible with the first.

    Raises:
        DeviceError: An ordinal is too large (OUT_OF_RANGE), another selector or any NPU is missing (NOT_FOUND), or the
            named NPUs cannot form one logical device (INCOMPATIBLE).
    """
    discovery = _some(uri, root)
    if not uri.selectors:
        return [device for device in discovery.devices if compatible(device, discovery.devices[0])]
    chosen = list(dict.fromkeys(_named(selector, uri, discovery) for selector in uri.selectors))
    for device in chosen[1:]:
        if not compatible(device, chosen[0]):
            raise DeviceError(
                f"{uri.text}: {chosen[0].name} at {chosen[0].bdf} and {device.name} at {device.bdf} cannot be one "
                "logical device; give each a URI of its own",
                code="INCOMPATIBLE",
            )
    return chosen


def _some(uri: DeviceUri, root: Path) -> Discovery:
    """Find NPUs. Raises DeviceError if there is none."""
    try:
        discovery = discover(root)
        reasons = "; ".join(map(str, discovery.left_out)) or "XRT lists no device"
        code = "NOT_FOUND"
    except DeviceError as error:
        reasons, code = str(error), error.code
    else:
        if discovery.devices:
            return discovery
    raise DeviceError(
        f"{uri.text}: there is no NPU to use; `npu-tensor doctor` says what is missing and how to fix it. {reasons}",
        code=code,
    )


def _named(selector: str, uri: DeviceUri, discovery: Discovery) -> PhysicalDevice:
    is_ordinal = selector.isdecimal()
    for device in discovery.devices:
        if _means(selector, device):
            return device
    if is_ordinal:
        available = len(discovery.devices)
        complaint = f"device ordinal {selector} out of range; {available} NPU devices available"
    elif ":" in selector:
        complaint = f"no NPU at PCI address `{selector}` found"
    else:
        complaint = f"no NPU agent with UUID `{selector}` found"
    there_are = ", ".join(f"npu://{device.id}" for device in discovery.devices)
    left_out = "".join(f"; {device}" for device in discovery.left_out)
    raise DeviceError(
        f"{uri.text}: {complaint}; there are {there_are}{left_out}",
        code="OUT_OF_RANGE" if is_ordinal else "NOT_FOUND",
    )
