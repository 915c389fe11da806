"""Kernels whose results were compared with the CPU's, for one version of XRT and the driver; kept in the cache."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Any, Final

from npu_tensor.runtime.store.store import store

__all__ = ["CheckedKernels"]

_FOLDER: Final = "npu-checked"
_FINDINGS: Final = "findings"


class CheckedKernels:
    """Keys of kernels with right results, and findings about the driver.

    Args:
        driver: Versions of everything but the kernel that its results depend on.
    """

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._known: set[str] = set()
        self.findings: dict[str, str] = dict(self._load(_FINDINGS) or {})
        """Findings by name."""

    def __contains__(self, kernel: str) -> bool:
        if kernel not in self._known and self._load(kernel) is not None:
            self._known.add(kernel)
        return kernel in self._known

    def add(self, kernel: str) -> None:
        """Note that a kernel, given by its key, had the right result."""
        if kernel not in self:
            self._known.add(kernel)
            self._store(kernel, {})

    def note(self, name: str, finding: str) -> None:
        """Set a finding about the driver."""
        if self.findings.get(name) != finding:
            self.findings[name] = finding
            self._store(_FINDINGS, self.findings)

    def _key(self, name: str) -> str:
        return hashlib.sha256(f"{self._driver}\0{name}".encode()).hexdigest()

    def _load(self, name: str) -> dict[str, Any] | None:
        entry = store.get(_FOLDER, name, self._key(name))
        return None if entry is None else entry.description["made_from"]

    def _store(self, name: str, fields: dict[str, str]) -> None:
        with suppress(OSError):  # The process still knows it.
            store.put(_FOLDER, name, self._key(name), {}, fields)
