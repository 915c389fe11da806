"""Which kernels gave right results here: each is compared with the CPU first, with one version of XRT and the driver.

The list is a file of keys in the cache, one per driver, with what was found out of the driver itself. Where that can
only be read, the list goes on in the temporary directory of this user; see `store_directories`.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from npu_tensor.config import config
from npu_tensor.runtime.devices.discovery import PhysicalDevice
from npu_tensor.runtime.devices.system import driver_version, file_text
from npu_tensor.runtime.store.directories import existing, writable
from npu_tensor.runtime.store.files import read_file

__all__ = ["CheckedKernels", "driver_identity"]


def driver_identity(npu: PhysicalDevice, xrt: str, root: Path = Path("/")) -> str:
    """What the results of a kernel depend on besides the kernel: NPU, XRT, driver and firmware, as one line.

    xrt: version. The versions of driver and firmware are read below `root`/sys; what is not there is left out.
    """
    files = (root / "sys/module/amdxdna/srcversion", root / f"sys/bus/pci/devices/{npu.bdf}/fw_version")
    return " ".join([npu.name, xrt, *filter(None, [driver_version(root), *map(file_text, files)])])


class CheckedKernels:
    """The keys of checked kernels, and findings: words by name. driver: what `driver_identity` says."""

    def __init__(self, driver: str) -> None:
        self._root = config.cache_dir.absolute()
        self._name = f"checked-{hashlib.sha256(driver.encode()).hexdigest()[:16]}.txt"
        self._keys: set[str] = set()
        self.findings: dict[str, str] = {}
        for directory in existing(self._root):
            with suppress(OSError, UnicodeDecodeError):
                lines = read_file(directory / self._name).decode("ascii").split()
                self._keys.update(line for line in lines if "=" not in line)
                self.findings |= dict(line.split("=", 1) for line in lines if "=" in line)  # The latest holds.

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, key: str) -> None:
        """Note that a kernel gave the right result."""
        if key not in self._keys:
            self._keys.add(key)
            self._append(key)

    def note(self, name: str, finding: str) -> None:
        """Note something of the driver, in place of what was known. Both are words without "=" and spaces."""
        if self.findings.get(name) != finding:
            self.findings[name] = finding
            self._append(f"{name}={finding}")

    def _append(self, line: str) -> None:
        with suppress(OSError):
            path = writable(self._root) / self._name
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)
            try:
                os.write(descriptor, f"{line}\n".encode())  # One call: processes that append do not mix their lines.
            finally:
                os.close(descriptor)
