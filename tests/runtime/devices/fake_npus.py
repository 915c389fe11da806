"""Fake machine for the discovery of NPUs: contents of pyxrt, /sys and /etc."""

from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from npu_tensor.errors import DeviceError

MACHINE_ID = "0123456789abcdef0123456789abcdef"


class Slot(NamedTuple):
    """A device of XRT. pci: vendor, device and revision in /sys, or "" if that does not tell."""

    bdf: str
    name: str
    pci: str = "1022:17f0:10"
    broken: str = ""


STRIX = Slot("0000:c6:00.1", "NPU Strix")
PHOENIX = Slot("0000:c5:00.1", "NPU Phoenix", "1022:1502:00")
MORE_STRIX = Slot("0001:c4:00.1", "NPU Strix"), Slot("0000:e6:00.1", "NPU Strix")


class Machine:
    """Module pyxrt with the devices in `slots`, in XRT's order."""

    xrt_info_device = SimpleNamespace(bdf="bdf", name="name")

    def __init__(self, root: Path) -> None:
        self.root = root
        self.slots: list[Slot] = []

    def has(self, *slots: Slot, machine_id: str = MACHINE_ID) -> None:
        self.slots = list(slots)
        (self.root / "etc").mkdir(exist_ok=True)
        (self.root / "etc/machine-id").write_text(f"{machine_id}\n")
        for slot in filter(lambda slot: slot.pci, slots):
            directory = self.root / "sys/bus/pci/devices" / slot.bdf
            directory.mkdir(parents=True, exist_ok=True)
            for file, number in zip(("vendor", "device", "revision"), slot.pci.split(":"), strict=True):
                (directory / file).write_text(f"0x{number}\n")

    def enumerate_devices(self) -> int:
        return len(self.slots)

    def open_device(self, index: int) -> SimpleNamespace:
        slot = self.slots[index]
        if slot.broken:
            raise DeviceError(slot.broken)
        return SimpleNamespace(get_info=slot._asdict().__getitem__)
