"""Memory of a real NPU: XRT buffer objects. Also the conversion of XRT's exceptions."""

from __future__ import annotations

import ctypes
import re
from typing import Any, Final

import numpy as np

from npu_tensor.runtime.npu.driver import DriverError

_LOST: Final = re.compile(r"err=-?19\b|ENODEV|No such device")
_BUSY: Final = re.compile(r"err=-?(28|22)\b")
"""Errors of a driver without free contexts or columns: ENOSPC, or EINVAL in some versions."""

_BLAMELESS: Final = re.compile(r"err=-?(12|28)\b")
"""Errors that other processes cause, which hold memory (ENOMEM) or contexts (ENOSPC)."""


def driver_error(error: Exception) -> DriverError:
    """Convert an exception of pyxrt: a MemoryError, or a RuntimeError with the driver's message."""
    lost, busy, blameless = (kind.search(str(error)) is not None for kind in (_LOST, _BUSY, _BLAMELESS))
    return DriverError(str(error), lost=lost, busy=busy, blameless=blameless)


class XrtMemory:
    """A buffer object with its mapping. `driver` is the module pyxrt."""

    __slots__ = ("__weakref__", "_directions", "address", "bo", "bytes")

    def __init__(self, driver: Any, device: Any, nbytes: int, flags: Any, group: int) -> None:
        try:
            self.bo = driver.bo(device, nbytes, flags, group)
            mapping = self.bo.map()  # The mapping does not keep the buffer object alive.
        except (RuntimeError, MemoryError) as error:
            raise driver_error(error) from None
        self._directions = driver.xclBOSyncDirection
        self.bytes = np.frombuffer(mapping, np.uint8)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))

    def to_device(self) -> None:
        """See `driver.Memory`."""
        self._sync(self._directions.XCL_BO_SYNC_BO_TO_DEVICE)

    def from_device(self) -> None:
        """See `driver.Memory`."""
        self._sync(self._directions.XCL_BO_SYNC_BO_FROM_DEVICE)

    def _sync(self, direction: Any) -> None:
        try:
            self.bo.sync(direction)
        except (RuntimeError, MemoryError) as error:
            raise driver_error(error) from None
