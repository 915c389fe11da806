"""NPUs, what is loaded into them, and their memory: the classes of pyxrt for these."""

from __future__ import annotations

import json
import os
import uuid as uuids
from pathlib import Path
from typing import Any

import npu_images
from machine import Machine, Npu, current, driver_error
from npu_contexts import BufferMemory, Core
from npu_faults import Fault
from pybind_signatures import Signatures, bound
from states import FROM_DEVICE, TO_DEVICE, bo_flags, xclBOSyncDirection, xrt_info_device

__all__ = ["bo", "device", "elf", "hw_context", "uuid", "xclbin"]


@bound("uuid")
class uuid:
    """Names an xclbin. Equal ones are not equal in Python."""

    __slots__ = ("__weakref__", "_text")
    _INIT = Signatures("uuid.__init__", "arg0: str -> None")

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        _, (self._text,) = self._INIT.match(arguments, keywords)

    def to_string(self) -> str:
        """36 characters, whatever it was made of."""
        digits = "".join(character for character in self._text.lower() if character in "0123456789abcdef")
        return str(uuids.UUID(digits[:32].ljust(32, "0")))


Signatures("uuid.to_string", "-> str")


@bound("xclbin")
class xclbin:
    """A file for the NPU, not yet on a device."""

    __slots__ = ("__weakref__", "_image")
    _INIT = Signatures("xclbin.__init__", "-> None", "arg0: str -> None")

    @bound("xclbin.xclbinkernel")
    class xclbinkernel:
        """One kernel of an xclbin."""

        __slots__ = ("__weakref__", "_arguments", "_kernel")

        def __init__(self) -> None:
            self._kernel, self._arguments = "", 0

        def get_name(self) -> str:
            """What pyxrt.kernel wants."""
            return self._kernel

        def get_num_args(self) -> int:
            """Opcode, instructions, their number, and the buffers."""
            return self._arguments

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        overload, values = self._INIT.match(arguments, keywords)
        self._image: npu_images.Image | None = None
        if overload:
            self._image = _read_xclbin(values[0])

    def get_kernels(self) -> list[xclbinkernel]:
        """In the order of the file."""
        kernels = []
        for name in self._image.kernels if self._image else ():
            kernel = self.xclbinkernel()
            kernel._kernel, kernel._arguments = name, self._image.arguments
            kernels.append(kernel)
        return kernels

    def get_uuid(self) -> uuid:
        """Of the contents."""
        return uuid(self._image.uuid if self._image else "")


Signatures("xclbin.get_kernels", "-> list[pyxrt.xclbin.xclbinkernel]")
Signatures("xclbin.get_uuid", "-> pyxrt.uuid")
Signatures("xclbin.xclbinkernel.__init__", "-> None")
Signatures("xclbin.xclbinkernel.get_name", "-> str")
Signatures("xclbin.xclbinkernel.get_num_args", "-> int")


def _read_xclbin(path: str) -> npu_images.Image:
    if not path:
        raise RuntimeError("No xclbin specified")
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
    _INIT = Signatures("elf.__init__", "arg0: str -> None")

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        _, (path,) = self._INIT.match(arguments, keywords)
        try:
            self._image = npu_images.read(Path(path))
        except (OSError, ValueError):
            raise RuntimeError(f"{path} is not found or is not a valid ELF file") from None
        if self._image.format != "elf":
            raise RuntimeError(f"{path} is not found or is not a valid ELF file")


@bound("device")
class device:
    """An NPU that was opened."""

    __slots__ = ("__weakref__", "_generation", "_machine", "_npu", "_registered")
    _INIT = Signatures("device.__init__", "-> None", "index: uint32 -> None")
    _REGISTER = Signatures("device.register_xclbin", "xclbin: pyxrt.xclbin -> pyxrt.uuid")
    _INFO = Signatures("device.get_info", "arg0: pyxrt.xrt_info_device -> str")

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        overload, values = self._INIT.match(arguments, keywords)
        self._machine = current()
        self._npu: Npu | None = None
        self._registered: dict[str, npu_images.Image] = {}
        if overload:
            self._npu = _find(self._machine, values[0])
            self._generation = self._npu.generation

    def _check(self, what: str) -> Npu:
        """The NPU. Raises if there is none behind this object, or if it is gone."""
        npu = self._npu
        if npu is None:
            raise self._machine.crash(f"{what} of an empty device")
        if not npu.present or npu.generation != self._generation:
            raise driver_error(19, f"{what} failed")
        return npu

    def register_xclbin(self, *arguments: Any, **keywords: Any) -> uuid:
        """Makes no context yet."""
        _, (file,) = self._REGISTER.match(arguments, keywords)
        self._check("register_xclbin")
        if file._image is None:
            raise self._machine.crash("register_xclbin of an empty xclbin")
        self._registered[file._image.uuid] = file._image
        return uuid(file._image.uuid)

    def get_info(self, *arguments: Any) -> str:
        """A property as text."""
        _, (key,) = self._INFO.match(arguments, {})
        npu = self._check("DRM_IOCTL_AMDXDNA_GET_INFO IOCTL")
        wanted = next(name for name, member in xrt_info_device.__members__.items() if member == key)
        known = {"name": npu.name, "bdf": npu.bdf, "pcie_info": json.dumps({"bdf": npu.bdf}), "offline": "0"}
        return known.get(wanted, "0")


def _find(machine: Machine, number: int) -> Npu:
    present = [npu for npu in machine.devices if npu.present]
    if number >= len(present):
        raise RuntimeError(f" No such device with index '{number}'")
    return present[number]


@bound("hw_context")
class hw_context:
    """Columns of an NPU with a program in them."""

    __slots__ = ("__weakref__", "_core")
    _INIT = Signatures(
        "hw_context.__init__",
        "-> None",
        "device: pyxrt.device, uuid: pyxrt.uuid -> None",
        "device: pyxrt.device, elf: pyxrt.elf -> None",
    )

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        overload, values = self._INIT.match(arguments, keywords)
        self._core: Core | None = None
        if overload == 0:
            return
        opened = values[0]
        npu = opened._check("DRM_IOCTL_AMDXDNA_CREATE_HWCTX IOCTL")
        if isinstance(values[1], uuid):
            image = opened._registered.get(values[1].to_string())
            if image is None:
                raise RuntimeError("No such xclbin")
        else:
            image = values[1]._image
        self._core = Core(opened._machine, npu, image)

    def _check(self, what: str) -> Core:
        if self._core is None:
            raise current().crash(f"{what} of an empty context")
        return self._core


@bound("bo")
class bo:
    """A buffer object."""

    __slots__ = ("__weakref__", "_flags", "_machine", "_memory")
    flags = bo_flags
    normal, cacheable, device_only, host_only, p2p, svm = bo_flags.__members__.values()
    _INIT = Signatures(
        "bo.__init__", "device: pyxrt.device, size: size_t, flags: pyxrt.bo.flags, group: uint32 -> None"
    )
    _SYNC = Signatures("bo.sync", "arg0: pyxrt.xclBOSyncDirection -> None")

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        _, (device, nbytes, flags, group) = self._INIT.match(arguments, keywords)
        device._check("DRM_IOCTL_AMDXDNA_CREATE_BO IOCTL")
        self._machine, self._flags = device._machine, flags
        what = "DRM_IOCTL_AMDXDNA_CREATE_BO IOCTL failed"
        fault = self._machine.due(Fault.MEMORY, Fault.BAD_ALLOC)
        if fault is Fault.BAD_ALLOC:
            raise MemoryError("std::bad_alloc")
        if fault is Fault.MEMORY:
            raise driver_error(12, what)
        if nbytes == 0:
            raise driver_error(22, what)
        try:
            self._memory = BufferMemory(nbytes, self._machine.memories, group >> 16 & 0xFF)
        except (MemoryError, ValueError):
            raise driver_error(12, what) from None

    def sync(self, direction: Any, /) -> None:
        """Flush, and read anew from memory. Asks no driver, as buffer::sync in xdna-driver's src/shim/buffer.cpp."""
        if type(direction) is not xclBOSyncDirection:
            raise self._SYNC.error((self, direction))
        machine = self._machine
        if direction not in (TO_DEVICE, FROM_DEVICE):
            raise driver_error(22, "sync of a direction that NPUs do not have")
        machine.syncs += 1
        if machine.compute:
            self._memory.to_device() if direction is TO_DEVICE else self._memory.from_device()

    def map(self) -> memoryview:
        """The host copy. The view does not keep the buffer object alive."""
        if self._flags is bo_flags.device_only:
            raise RuntimeError("device only buffer has no host buffer: Invalid argument")
        return memoryview(self._memory.bytes)  # type: ignore[arg-type]


Signatures("bo.map", "-> memoryview")
