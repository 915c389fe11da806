"""Which kernels gave right results here: each is compared with the CPU first, with one version of XRT and the driver.

The list is a file of keys in the cache, one per driver, with what was found out of the driver itself. Where that can
only be read, the list goes on in the temporary directory of this user; see `store_directories`.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress

from npu_tensor.config import config
from npu_tensor.runtime.store.directories import existing, writable
from npu_tensor.runtime.store.files import read_file

__all__ = ["CheckedKernels"]


class CheckedKernels:
    """The keys of checked kernels, and findings: words by name.

    driver: what the results of a kernel depend on besides the kernel, as one line.
    """

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
