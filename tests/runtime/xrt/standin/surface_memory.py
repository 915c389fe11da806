"""Buffer objects: the classes of pyxrt for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from machine import Fault, current, driver_error
from npu_memory import Memory, Owner, Region
from pybind_signatures import Signatures, bound
from states import FROM_DEVICE, TO_DEVICE, bo_flags, xclBOSyncDirection
from surface_device import hw_context

__all__ = ["bo", "ext_bo"]


@bound("bo")
class bo:
    """A buffer object, or a part of one."""

    __slots__ = ("__weakref__", "_flags", "_generation", "_holds", "_machine", "_memory", "_npu", "_owner", "_region")
    flags = bo_flags
    normal, cacheable, device_only, host_only, p2p, svm = bo_flags.__members__.values()
    _INIT = Signatures(
        "bo.__init__",
        "device: pyxrt.device, size: size_t, flags: pyxrt.bo.flags, group: uint32 -> None",
        "hwctx: pyxrt.hw_context, size: size_t, flags: pyxrt.bo.flags, group: uint32 -> None",
        "hwctx: pyxrt.hw_context, size: size_t, group: uint32 -> None",
        "arg0: pyxrt.bo, arg1: size_t, arg2: size_t -> None",
    )
    _WRITE = Signatures("bo.write", "arg0: Buffer, arg1: size_t -> None")
    _READ = Signatures("bo.read", "arg0: size_t, arg1: size_t -> numpy.typing.NDArray[numpy.int8]")
    _SYNC = Signatures(
        "bo.sync",
        "arg0: pyxrt.xclBOSyncDirection, arg1: size_t, arg2: size_t -> None",
        "arg0: pyxrt.xclBOSyncDirection -> None",
    )

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        overload, values = self._INIT.match(arguments, keywords)
        if overload == 3:
            self._part(*values)
        else:
            flags = self.normal if overload == 2 else values[2]
            self._allocate(values[0], values[1], flags, values[-1])

    def _allocate(self, parent: Any, nbytes: int, flags: Any, group: int) -> None:
        made_on = parent._device if isinstance(parent, hw_context) else parent
        if made_on is None:
            raise current().crash("a buffer object of an empty context")
        npu = made_on._check("DRM_IOCTL_AMDXDNA_CREATE_BO IOCTL")
        self._machine, self._npu, self._generation, self._flags = made_on._machine, npu, npu.generation, flags
        # Its context lives as long as it does.
        self._holds = parent._core if isinstance(parent, hw_context) else None
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
        self._region = Region(self._memory, 0, nbytes)

    def _part(self, parent: bo, nbytes: int, start: int) -> None:
        self._machine, self._npu, self._generation = parent._machine, parent._npu, parent._generation
        self._memory, self._owner, self._holds = parent._memory, parent._owner, parent._holds
        self._flags = parent._flags
        if parent._region.start or parent._region.nbytes != parent._memory.nbytes:
            # buffer_sub::get_address adds its own offset to the address of the whole buffer.
            raise self._machine.crash("a part of a part of a buffer object: the NPU would get another address")
        if start + nbytes > parent._memory.nbytes:
            raise RuntimeError("sub buffer size and offset: Invalid argument")
        self._region = Region(parent._memory, start, nbytes)

    def write(self, *arguments: Any) -> None:
        """Copy into the host copy."""
        _, (data, seek) = self._WRITE.match(arguments, {})
        content = np.frombuffer(data.tobytes(), np.uint8)
        region = self._region
        if seek + content.size > region.nbytes:
            raise RuntimeError("attempting to write past buffer size: Invalid argument")
        region.host[seek : seek + content.size] = content
        region.memory.touch(region.start + seek, region.start + seek + content.size)

    def read(self, *arguments: Any) -> np.ndarray[Any, np.dtype[np.int8]]:
        """Copy out of the host copy."""
        _, (size, skip) = self._READ.match(arguments, {})
        if skip + size > self._region.nbytes:
            raise RuntimeError("attempting to read past buffer size: Invalid argument")
        return self._region.host[skip : skip + size].copy().view(np.int8)

    def sync(self, direction: Any, *span: Any) -> None:
        """Flush, and read anew from memory. Asks no driver, as buffer::sync in xdna-driver's src/shim/buffer.cpp."""
        region = self._region
        start, nbytes = 0, region.nbytes
        if span or type(direction) is not xclBOSyncDirection:
            overload, values = self._SYNC.match((direction, *span), {})
            if overload == 0:
                nbytes, start = values[1:]
                if start + nbytes > region.nbytes:
                    raise driver_error(22, f"Invalid BO offset and size for sync'ing: {start}, {nbytes}")
        machine, npu = self._machine, self._npu
        if machine.driver_sync and (not npu.present or npu.generation != self._generation):
            raise driver_error(19, "DRM_IOCTL_AMDXDNA_SYNC_BO IOCTL failed")
        if direction is TO_DEVICE:
            next(machine.count_to_device)
            if machine.compute:
                region.memory.to_device(region.start + start, region.start + start + nbytes)
        elif direction is FROM_DEVICE:
            next(machine.count_from_device)
            if machine.compute:
                region.memory.from_device(region.start + start, region.start + start + nbytes)
        else:
            raise driver_error(22, "sync of a direction that NPUs do not have")

    def map(self) -> memoryview:
        """The host copy. The view does not keep the buffer object alive."""
        if self._flags is bo_flags.device_only:
            raise RuntimeError("device only buffer has no host buffer: Invalid argument")
        return memoryview(self._region.host)  # type: ignore[arg-type]

    def size(self) -> int:
        """Bytes."""
        return self._region.nbytes

    def address(self) -> int:
        """On the device."""
        return self._memory.address + self._region.start


Signatures("bo.map", "-> memoryview")
Signatures("bo.size", "-> int")
Signatures("bo.address", "-> int")


@bound("ext.bo")
class ext_bo(bo):
    """A buffer object without flags and group."""

    __slots__ = ()
    _EXT = Signatures(
        "ext.bo.__init__",
        "device: pyxrt.device, userptr: types.CapsuleType, size: size_t, access: pyxrt.ext.access_mode -> None",
        "device: pyxrt.device, userptr: types.CapsuleType, size: size_t -> None",
        "device: pyxrt.device, size: size_t, access: pyxrt.ext.access_mode -> None",
        "device: pyxrt.device, size: size_t -> None",
        "device: pyxrt.device, pid: xrt::pid_type, export_handle: int32 -> None",
        "hwctx: pyxrt.hw_context, size: size_t, access: pyxrt.ext.access_mode -> None",
        "hwctx: pyxrt.hw_context, size: size_t -> None",
        "hwctx: pyxrt.hw_context, pid: xrt::pid_type, export_handle: int32 -> None",
    )

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        _, values = self._EXT.match(arguments, keywords)
        self._allocate(values[0], values[1], bo_flags.normal, 0)
