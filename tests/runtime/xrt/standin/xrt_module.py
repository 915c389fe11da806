"""A stand-in for XRT's Python module, with state: machine.py describes the simulated machine.

It has the part of pyxrt 2.25 that the driver calls, with its argument checks; a test compares both where the real one
is installed. Calls that crash the real one raise Crash here.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from weakref import ref

import npu_images
from machine import Npu, current, driver_error
from npu_contexts import BufferMemory, Command, Core
from npu_faults import Fault
from pybind import bound, function, int32, size_t, uint32
from states import TO_DEVICE, bo_flags, ert_cmd_state, xclBOSyncDirection, xrt_info_device


@function("enumerate_devices")
def enumerate_devices() -> int:
    """Return the number of NPUs."""
    return sum(npu.present for npu in current().devices)


# --- NPUs, loaded programs, and memory


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
        """Return the name for pyxrt.kernel."""
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
        """Return the UUID of the contents."""
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


# --- kernels, runs and lists of runs


@bound("kernel")
class kernel:
    """A kernel of a context."""

    __slots__ = ("__weakref__", "_core", "_design")
    _format = "xclbin"

    def __init__(self, hw_context: hw_context, name: str) -> None:
        core = hw_context._core
        core.check()
        if core.image.format != self._format:
            raise RuntimeError("Invalid API called for xrt::kernel creation")
        if name not in core.image.kernels:
            raise RuntimeError(f"No such kernel '{name}': Invalid argument")
        self._core, self._design = core, core.image.kernels[name]

    def group_id(self, arg0: int32) -> int:
        """Return the group of an argument's buffer: the bank in bits 0 to 15, the context's number in 16 to 23."""
        image = self._core.image
        if image.format == "elf":
            return 0
        # Instructions are in bank 1, buffers in bank 0; numbers have no bank.
        bank = 1 if arg0 == 1 else 0 if 3 <= arg0 < image.arguments else 0xFFFF
        return self._core.slot << 16 | bank


@bound("ext.kernel")
class ext_kernel(kernel):
    """A kernel of a full ELF."""

    __slots__ = ()
    _format = "elf"

    def __init__(self, hwctx: hw_context, name: str) -> None:
        super().__init__(hwctx, name)


ext = SimpleNamespace(kernel=ext_kernel)


@bound("run")
class run:
    """One execution of a kernel, again and again."""

    __slots__ = ("__weakref__", "_command", "_core", "_in_progress")

    def __init__(self, arg0: kernel) -> None:
        self._core: Core = arg0._core
        self._command = Command(self._core.image.arguments, arg0._design)
        self._in_progress = False

    def __del__(self) -> None:
        # XRT core/common/api/xrt_kernel.cpp, run_impl's destructor: only state() and wait() note that a run has ended.
        if getattr(self, "_in_progress", False):
            crash = "a run is dropped that was started and not seen to have ended: the process would abort"
            self._core.machine.crash(crash)

    def start(self) -> None:
        """Submit it."""
        if self._command.pending:
            raise RuntimeError("bad command state, can't launch")
        self._core.submit(self._command)
        self._in_progress = True

    def set_arg(self, arg0: int32, arg1: bo | int32) -> None:
        """A buffer object or a number for one argument."""
        command, machine = self._command, self._core.machine
        if not 0 <= arg0 < len(command.arguments):
            raise machine.crash(f"set_arg({arg0}) of a kernel with {len(command.arguments)} arguments")
        if command.pending:
            machine.crash(f"set_arg({arg0}) while the run is under way: which value it gets is not defined")
        command.arguments[arg0] = ref(arg1._memory) if isinstance(arg1, bo) else arg1

    def state(self) -> ert_cmd_state:
        """Return the state of the last start."""
        if self._command.pending:
            self._core.check()
            self._core.advance(self._command)
        self._in_progress = self._command.pending
        return self._command.state
