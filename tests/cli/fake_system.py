"""Machine seen by the doctor: files below a directory, and attributes. All checks pass until a test changes it."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from npu_tensor.cli.doctor import System
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.build.mlir_aie import Toolchain
from npu_tensor.runtime.devices.discovery import Discovery, LeftOut, PhysicalDevice
from npu_tensor.runtime.devices.shared_libraries import HSA, XRT, RuntimeLibrary

# By names that the system's loader does not know, whatever this machine has.
FAKE_XRT = XRT._replace(names=("libnt_fake_xrt.so.2",))
FAKE_HSA = HSA._replace(names=("libnt_fake_hsa.so.1",))

BDF = "0000:c6:00.1"
PCI = f"sys/bus/pci/devices/{BDF}"
NPU = PhysicalDevice(0, 0, "AIE-0123456789abcdef", BDF, "NPU Strix", "aie2p", "1022:17f0:10")
KERNEL = "6.14.0-15-generic"

FILES = {
    "etc/os-release": 'PRETTY_NAME="Ubuntu 25.04"\nNAME="Ubuntu"\nVERSION_ID="25.04"\n',
    "etc/group": "video:x:44:\nrender:x:992:robin\n",
    "proc/sys/kernel/osrelease": f"{KERNEL}\n",
    "proc/self/status": "Name:\tpython\nCapEff:\t0000000000000000\n",
    f"lib/modules/{KERNEL}/modules.dep": "kernel/drivers/accel/amdxdna/amdxdna.ko.zst: kernel/drivers/x.ko.zst\n",
    "sys/module/amdxdna/version": "2.25.0_20260915,e56379dd493ebdc3b74228fa8404439ce0395263\n",
    "sys/module/amdxdna/taint": "OE\n",
    "sys/class/power_supply/BAT0/status": "Not charging\n",
    "sys/class/power_supply/hidpp_battery_0/status": "Discharging\n",
    "sys/class/power_supply/hidpp_battery_0/scope": "Device\n",
    "sys/firmware/acpi/platform_profile": "performance\n",
    f"{PCI}/vendor": "0x1022\n",
    f"{PCI}/device": "0x17f0\n",
    f"{PCI}/revision": "0x10\n",
    f"{PCI}/fw_version": "1.1.2.65\n",
    f"{PCI}/power/control": "on\n",
    f"{PCI}/accel/accel0/dev": "261:0\n",
    f"{PCI}/iommu_group/type": "DMA\n",
    "dev/accel/accel0": "",
    "usr/lib/firmware/amdnpu/17f0_10/npu.sbin.zst": "",
    "sys/bus/pci/devices/0000:00:00.0/vendor": "0x1022\n",
    "sys/bus/pci/devices/0000:00:00.0/device": "0x14e8\n",
    "sys/bus/pci/devices/0000:00:00.0/revision": "0x00\n",
}


def library(path: Path, source: str, *flags: str) -> Path:
    """Compile C into a shared library."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path), *flags]
    subprocess.run(command, input=source, text=True, check=True)
    return path


def source_of(wanted: RuntimeLibrary, **numbers: int) -> str:
    """Return C source of a library with the wanted symbols, and functions that return numbers."""
    functions = dict.fromkeys(wanted.symbols, 0) | numbers
    return "\n".join(f"unsigned {name}(void) {{ return {number}; }}" for name, number in functions.items())


class Machine:
    """Fake machine. Tests change its attributes and the files below `root`."""

    def __init__(self, root: Path, libraries: Path) -> None:
        self.root = root
        self.xrt = FAKE_XRT._replace(search_paths=(libraries,))
        self.hsa = FAKE_HSA._replace(search_paths=(libraries,))
        self.memlock = (-1, -1)
        self.usable = True
        self.group = "render"
        self.memberships = {"robin", "render"}
        self.pyxrt: Any = SimpleNamespace(__file__="/usr/lib/python3/dist-packages/pyxrt.so")
        self.npus: list[PhysicalDevice] = [NPU]
        self.left_out: list[LeftOut] = []
        self.tools = {
            "journalctl": f"amdxdna {BDF}: enabling device (0000 -> 0002)\nusb 1-1: new device\n",
            "xrt-smi": f"[{BDF}] : NPU Strix\nPlatform\n  Power Mode             : default \n",
        }
        self.toolchain: Toolchain | str = Toolchain("1.4.5", "21.0.0.2026080301", Path("bin"))
        self.no_kernels: str | None = None
        self.compiler: str | None = "no C++ compiler"
        for file, text in FILES.items():
            self.write(file, text)

    def write(self, file: str, text: str) -> None:
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def import_pyxrt(self, _library: RuntimeLibrary) -> Any:
        if isinstance(self.pyxrt, str):
            raise DeviceError(self.pyxrt, "NOT_FOUND")
        return self.pyxrt

    def tool(self, name: str, *_arguments: str) -> str:
        if name not in self.tools:
            raise DeviceError(f"No such file or directory: {name!r}")
        return self.tools[name]

    def discover(self, _root: Path) -> Discovery:
        self.import_pyxrt(self.xrt)
        hidden = [device for device in self.left_out if device.reason.startswith("hidden")]
        return Discovery(self.npus, self.left_out, len(self.npus) + len(hidden))

    def system(self) -> System:
        return System(
            xrt=self.xrt,
            hsa=self.hsa,
            memlock=lambda: self.memlock,
            usable=lambda _path: self.usable,
            user=lambda: "robin",
            group_of=lambda _path: self.group,
            memberships=lambda: self.memberships,
            pyxrt=self.import_pyxrt,
            discover=self.discover,
            tool=self.tool,
            toolchain=lambda: self.toolchain,
            no_kernels=lambda arch: self.no_kernels and self.no_kernels.format(arch=arch),
            compiler=lambda: self.compiler,
        )
