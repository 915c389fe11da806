"""Kernels whose results were compared with the CPU's, for one version of XRT and the driver; kept in the cache."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Final

from npu_tensor.runtime.store.store import store

_FOLDER: Final = "npu-checked"


class CheckedKernels:
    """Keys of kernels with right results.

    Args:
        driver: Versions of everything but the kernel that its results depend on.
    """

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._known: set[str] = set()

    def __contains__(self, kernel: str) -> bool:
        if kernel not in self._known and store.get(_FOLDER, kernel, self._key(kernel)) is not None:
            self._known.add(kernel)
        return kernel in self._known

    def add(self, kernel: str) -> None:
        """Note that a kernel, given by its key, had the right result."""
        if kernel not in self:
            self._known.add(kernel)
            with suppress(OSError):  # The process still knows it.
                store.put(_FOLDER, kernel, self._key(kernel), {}, {})

    def _key(self, kernel: str) -> str:
        return hashlib.sha256(f"{self._driver}\0{kernel}".encode()).hexdigest()
