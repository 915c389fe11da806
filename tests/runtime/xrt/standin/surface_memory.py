"""Buffer objects, as far as the runtime uses them: made for a device, mapped, and synced as a whole."""

from __future__ import annotations

from typing import Any

from machine import Fault, driver_error
from npu_memory import Memory, Owner
from pybind_signatures import Signatures, bound
from states import FROM_DEVICE, TO_DEVICE, bo_flags, xclBOSyncDirection

__all__ = ["bo"]


@bound("bo")
class bo:
    """A buffer object."""

    __slots__ = ("__weakref__", "_flags", "_generation", "_machine", "_memory", "_npu", "_owner")
    flags = bo_flags
    normal, cacheable, device_only, host_only, p2p, svm = bo_flags.__members__.values()
    _INIT = Signatures(
        "bo.__init__", "device: pyxrt.device, size: size_t, flags: pyxrt.bo.flags, group: uint32 -> None"
    )
    _SYNC = Signatures("bo.sync", "arg0: pyxrt.xclBOSyncDirection -> None")

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        _, (device, nbytes, flags, group) = self._INIT.match(arguments, keywords)
        npu = device._check("DRM_IOCTL_AMDXDNA_CREATE_BO IOCTL")
        self._machine, self._npu, self._generation, self._flags = device._machine, npu, npu.generation, flags
        what = "DRM_IOCTL_AMDXDNA_CREATE_BO IOCTL failed"
        fault = self._machine.creation_fault(Fault.MEMORY, Fault.BAD_ALLOC)
        if fault is Fault.BAD_ALLOC:
            raise MemoryError("std::bad_alloc")
        full = npu.memory is not None and self._machine.live_bytes + nbytes > npu.memory
        if fault is Fault.MEMORY or full:
            raise driver_error(12, what)
        if nbytes == 0:
            raise driver_error(22, what)
        try:
            self._memory = Memory(nbytes, group >> 16 & 0xFF)
        except (MemoryError, ValueError):
            raise driver_error(12, what) from None
        self._machine.note_allocated(nbytes)
        self._owner = Owner(self._memory, self._machine.freed)

    def sync(self, direction: Any, /) -> None:
        """Flush, and read anew from memory. Asks no driver, as buffer::sync in xdna-driver's src/shim/buffer.cpp."""
        if type(direction) is not xclBOSyncDirection:
            raise self._SYNC.error((self, direction))
        machine, npu = self._machine, self._npu
        if machine.driver_sync and (not npu.present or npu.generation != self._generation):
            raise driver_error(19, "DRM_IOCTL_AMDXDNA_SYNC_BO IOCTL failed")
        if direction is TO_DEVICE:
            next(machine.count_to_device)
            if machine.compute:
                self._memory.to_device()
        elif direction is FROM_DEVICE:
            next(machine.count_from_device)
            if machine.compute:
                self._memory.from_device()
        else:
            raise driver_error(22, "sync of a direction that NPUs do not have")

    def map(self) -> memoryview:
        """The host copy. The view does not keep the buffer object alive."""
        if self._flags is bo_flags.device_only:
            raise RuntimeError("device only buffer has no host buffer: Invalid argument")
        return memoryview(self._memory.host)  # type: ignore[arg-type]


Signatures("bo.map", "-> memoryview")
