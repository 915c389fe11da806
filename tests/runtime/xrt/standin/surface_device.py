"""NPUs, what is loaded into them, and their memory: the classes of pyxrt for these."""

from __future__ import annotations

import os
from pathlib import Path

import npu_images
from machine import Npu, current, driver_error
from npu_contexts import BufferMemory, Core
from npu_faults import Fault
from pybind import bound, size_t, uint32
from states import TO_DEVICE, bo_flags, xclBOSyncDirection, xrt_info_device

__all__ = ["bo", "device", "elf", "hw_context", "uuid", "xclbin"]


@bound("uuid")
class uuid:
    """Names an xclbin. Equal ones are not equal in Python."""

    __slots__ = ("__weakref__", "_text")

    def __init__(self, arg0: str) -> None:
        self._text = arg0


@bound("xclbin.xclbinkernel")
class xclbinkernel:
    """One kernel of an xclbin."""

    __slots__ = ("__weakref__", "_arguments", "_name")

    def get_name(self) -> str:
        """What pyxrt.kernel wants."""
        return self._name

    def get_num_args(self) -> int:
        """Opcode, instructions, their number, and the buffers."""
        return self._arguments


@bound("xclbin")
class xclbin:
    """A file for the NPU, not yet on a device."""

    __slots__ = ("__weakref__", "_image")
    xclbinkernel = xclbinkernel

    def __init__(self, arg0: str) -> None:
        self._image = _read_xclbin(arg0)

    def get_kernels(self) -> list[xclbinkernel]:
        """In the order of the file."""
        kernels = []
        for name in self._image.kernels:
            kernel = xclbinkernel()
            kernel._name, kernel._arguments = name, self._image.arguments
            kernels.append(kernel)
        return kernels

    def get_uuid(self) -> uuid:
        """Of the contents."""
        return uuid(self._image.uuid)


def _read_xclbin(path: str) -> npu_images.Image:
    if os.path.isdir(path):
        raise MemoryError("std::bad_alloc")
    try:
        image = npu_images.read(Path(path))
    except OSError:
        raise RuntimeError(f"No such file '{path}'") from None
    except ValueError:
        empty = os.path.getsize(path) == 0
        raise RuntimeError("xclbin: buffer too small to contain header" if empty else "Invalid xclbin") from None
    if image.format != "xclbin":
        raise RuntimeError("Invalid xclbin")
    return image


@bound("elf")
class elf:
    """A full ELF."""

    __slots__ = ("__weakref__", "_image")

    def __init__(self, arg0: str) -> None:
        try:
            self._image = npu_images.read(Path(arg0))
        except (OSError, ValueError):
            raise RuntimeError(f"{arg0} is not found or is not a valid ELF file") from None


@bound("device")
class device:
    """An NPU that was opened."""

    __slots__ = ("__weakref__", "_generation", "_machine", "_npu", "_registered")

    def __init__(self, index: uint32) -> None:
        self._machine = current()
        present = [npu for npu in self._machine.devices if npu.present]
        if index >= len(present):
            raise RuntimeError(f" No such device with index '{index}'")
        self._npu = present[index]
        self._generation = self._npu.generation
        self._registered: dict[str, npu_images.Image] = {}

    def _check(self, what: str) -> Npu:
        """The NPU. Raises if it is gone."""
        if not self._npu.present or self._npu.generation != self._generation:
            raise driver_error(19, f"{what} failed")
        return self._npu

    def register_xclbin(self, xclbin: xclbin) -> uuid:
        """Makes no context yet."""
        self._check("register_xclbin")
        self._registered[xclbin._image.uuid] = xclbin._image
        return xclbin.get_uuid()

    def get_info(self, arg0: xrt_info_device) -> str:
        """A property as text."""
        npu = self._check("DRM_IOCTL_AMDXDNA_GET_INFO IOCTL")
        return npu.name if arg0 is xrt_info_device.name else npu.bdf


@bound("hw_context")
class hw_context:
    """Columns of an NPU with a program in them."""

    __slots__ = ("__weakref__", "_core")

    def __init__(self, device: device, uuid_or_elf: uuid | elf) -> None:
        npu = device._check("DRM_IOCTL_AMDXDNA_CREATE_HWCTX IOCTL")
        image = uuid_or_elf._image if isinstance(uuid_or_elf, elf) else device._registered[uuid_or_elf._text]
        self._core = Core(device._machine, npu, image)


@bound("bo")
class bo:
    """A buffer object."""

    __slots__ = ("__weakref__", "_machine", "_memory")
    flags = bo_flags

    def __init__(self, device: device, size: size_t, flags: bo_flags, group: uint32) -> None:
        device._check("DRM_IOCTL_AMDXDNA_CREATE_BO IOCTL")
        self._machine = device._machine
        fault = self._machine.due(Fault.MEMORY, Fault.BAD_ALLOC)
        if fault is Fault.BAD_ALLOC:
            raise MemoryError("std::bad_alloc")
        if fault is Fault.MEMORY or not size:
            raise driver_error(22 if size == 0 else 12, "DRM_IOCTL_AMDXDNA_CREATE_BO IOCTL failed")
        self._memory = BufferMemory(size, self._machine.memories, group >> 16 & 0xFF)

    def sync(self, arg0: xclBOSyncDirection) -> None:
        """Flush, and read anew from memory. Asks no driver, as buffer::sync in xdna-driver's src/shim/buffer.cpp."""
        self._machine.syncs += 1
        if self._machine.compute:
            self._memory.to_device() if arg0 is TO_DEVICE else self._memory.from_device()

    def map(self) -> memoryview:
        """The host copy. The view does not keep the buffer object alive."""
        return memoryview(self._memory.bytes)  # type: ignore[arg-type]
