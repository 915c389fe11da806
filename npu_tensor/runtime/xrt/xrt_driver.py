"""A real NPU as the runtime's driver: XRT's buffer objects, hardware contexts and runs. See `npu.driver`.

Runs are started one by one, and XRT's queue keeps their order. Runlists are not used because some firmware rejects
lists of two and more (iree-amd-aie#1404). Polling the state of the last run lets other Python threads run, unlike XRT's
own wait. XRT ends the process if a run is dropped that was started and was not seen to have ended, and the NPU may
write into its buffers until then.

All functions are called with the lock of the NPUs. Written to XRT's documented interface; not run on an NPU.
"""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast
from weakref import WeakKeyDictionary, WeakSet, ref

import numpy as np

from npu_tensor.dataflow.checks.limits import HOST_BUFFERS
from npu_tensor.errors import BuildError
from npu_tensor.runtime.build.mlir_aie import ELF_KERNEL
from npu_tensor.runtime.npu.driver import DriverError, NpuProgram, RunRequest
from npu_tensor.runtime.xrt import bindings
from npu_tensor.runtime.xrt.xrt_program import ProgramPart, XrtProgram

HOST_MEMORY: Final = 0
"""Memory group of buffers: bank 0, without the slot of a context in the upper bits, so that all contexts share them."""

OPCODE: Final = 3
"""Opcode of a run with a stream of instructions."""

COMPLETED: Final = 4
PENDING: Final = frozenset({1, 2, 3, 7})
"""Values of XRT's ert_cmd_state: new, queued, running (unnamed in pyxrt), submitted."""

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


# --- submissions


@dataclass(eq=False, slots=True)
class RunObject:
    """A run object of XRT and the current values of its arguments.

    Attributes:
        run: The object; None before it is created and after the context is closed.
        words: Runtime parameters in its instructions.
    """

    run: Any = None
    arguments: list[ref[XrtMemory] | None] = field(default_factory=list)
    instructions: XrtMemory | None = None
    words: Sequence[int] | None = None


class XrtSubmission:
    """See `driver.Submission`."""

    def __init__(self, context: XrtContext, run_objects: Sequence[RunObject]) -> None:
        self._context = context
        self._run_objects = run_objects
        self._runs: list[Any] = []
        self._starting = False
        self._used: tuple[object, ...] = ()

    def start(self) -> None:
        """Start the runs. Each is recorded before it is started because an interrupt may come between any two lines."""
        try:
            for run_object in self._run_objects:
                self._starting = True
                self._runs.append(run_object.run)
                try:
                    run_object.run.start()
                except RuntimeError:
                    self._runs.pop()
                    raise
                finally:
                    self._starting = False
        except (RuntimeError, MemoryError) as error:
            raise driver_error(error) from None

    def ended(self) -> bool:
        """See `driver.Submission`."""
        if not self._runs:
            return True  # The end was seen before an interrupt.
        try:
            return int(self._runs[-1].state()) not in PENDING
        except RuntimeError as error:
            raise driver_error(error) from None

    def wait(self, seconds: float) -> None:
        """Sleep: during XRT's own wait no other Python thread runs."""
        time.sleep(seconds)

    def check(self) -> None:
        """See `driver.Submission`."""
        try:
            for run in self._runs:
                state = run.state()
                if int(state) != COMPLETED:
                    raise DriverError(f"the launch ended in state {str(state).rpartition('STATE_')[2]}")
        except RuntimeError as error:
            raise driver_error(error) from None
        self._runs = []  # They keep a context alive, and waiting threads may hold this submission.

    def observed(self, number: int) -> Sequence[Any]:
        """Return nothing: XRT provides no counters."""
        return ()

    def abandon(self, *used: object) -> None:
        """Keep started runs and their objects until they have ended. Called before the context is closed."""
        if not self._runs:
            return
        self._used = (*used, [run_object.instructions for run_object in self._run_objects])
        if self._starting:  # An interrupt came: without a start, the state is that of an earlier launch.
            with suppress(RuntimeError):
                self._runs[-1].start()
        _unended.append(self)
        release()

    def has_ended(self) -> bool:
        """Return True if XRT has finished with an abandoned submission."""
        try:  # The last one first. Each must be polled before it is dropped.
            return not any(int(run.state()) in PENDING for run in reversed(self._runs))
        except RuntimeError:
            return False


_unended: Final[list[XrtSubmission]] = []
"""Abandoned submissions that were not seen to have ended."""


def release() -> None:
    """Drop ended submissions and thereby their contexts."""
    _unended[:] = [submission for submission in _unended if not submission.has_ended()]


def keep_forever(poll: bool = True) -> None:
    """Keep pending submissions beyond the end of the interpreter. Without `poll`, keep all abandoned ones."""
    if poll:
        release()
    for submission in _unended:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(submission))


# --- contexts


class XrtRun:
    """See `driver.Run`. Each part has a run object, created on first use."""

    __slots__ = ("__weakref__", "context", "program", "run_objects")

    def __init__(self, context: XrtContext, program: XrtProgram) -> None:
        self.context = context
        self.program = program
        self.run_objects = [RunObject() for _ in program.parts]

    def close(self) -> None:
        """Drop XRT's objects."""
        for run_object in self.run_objects:
            run_object.run = run_object.instructions = run_object.words = None
            run_object.arguments = []


class XrtContext:
    """See `driver.Context`.

    Args:
        driver: The module pyxrt.
        device: Device of pyxrt.
    """

    def __init__(self, program: XrtProgram, driver: Any, device: Any) -> None:
        self.program = program
        self._driver = driver
        self._device = device
        self._first = 0 if program.is_elf else 3
        """Number of the first buffer among the arguments of a run."""
        self.runs: WeakSet[XrtRun] = WeakSet()
        self._shared: WeakKeyDictionary[NpuProgram, dict[int, XrtMemory]] = WeakKeyDictionary()
        self._kernels: dict[str | None, Any] = {}
        try:
            if program.is_elf:
                self._image = driver.elf(str(program.path))
                self._handle = driver.hw_context(device, self._image)
                self.kernel = driver.ext.kernel(self._handle, ELF_KERNEL)
                most = HOST_BUFFERS  # An ELF does not declare its number.
            else:
                self._image = driver.xclbin(str(program.path))
                device.register_xclbin(self._image)
                self._handle = driver.hw_context(device, self._image.get_uuid())
                described = self._image.get_kernels()
                self._kernels = {each.get_name(): driver.kernel(self._handle, each.get_name()) for each in described}
                self.kernel = self._kernels[described[0].get_name()]
                most = min(each.get_num_args() for each in described) - 3
        except (RuntimeError, MemoryError) as error:
            raise driver_error(error) from None
        self._kernels[None] = self.kernel
        if len(program.sizes) > most:
            raise BuildError(f"{program.name} has {len(program.sizes)} host buffers, and its file declares {most}")

    def run(self, program: NpuProgram) -> XrtRun:
        """See `driver.Context`."""
        assert isinstance(program, XrtProgram)
        run = XrtRun(self, program)
        self.runs.add(run)  # Before its run objects exist: `close` must find each, even after an interrupt.
        return run

    def prepare(self, requests: Sequence[RunRequest]) -> XrtSubmission:
        """See `driver.Context`."""
        started: list[RunObject] = []
        try:
            for request in requests:
                run, words = cast(XrtRun, request.run), request.words
                for place, (run_object, part) in enumerate(zip(run.run_objects, run.program.parts, strict=True)):
                    if run_object.run is None:
                        self._make(run_object, run.program, place)
                    own, words = words[: len(part.parameters)], words[len(part.parameters) :]
                    self._set(run_object, part, request.memories, own)
                    started.append(run_object)
                assert not words
        except (RuntimeError, MemoryError) as error:
            raise driver_error(error) from None
        return XrtSubmission(self, started)

    def _make(self, run_object: RunObject, program: XrtProgram, place: int) -> None:
        """Create the run object of a part with its constant arguments."""
        part = program.parts[place]
        run = self._driver.run(self._kernels[part.kernel])
        run_object.arguments = [None] * len(program.sizes)
        run_object.words = None
        if part.instructions is not None:
            run_object.instructions = self._instructions(program, place, part.instructions)
            run.set_arg(0, OPCODE)
            run.set_arg(1, run_object.instructions.bo)
            run.set_arg(2, part.instructions.nbytes)
        run_object.run = run

    def _set(self, run_object: RunObject, part: ProgramPart, memories: Sequence[Any], words: Sequence[int]) -> None:
        """Set the arguments that differ from the previous run.

        Records of old arguments are dropped before new ones are set: an interrupt may come between any two lines.
        """
        assert len(words) == len(part.parameters)
        if words and run_object.words != words:
            run_object.words = None
            assert run_object.instructions is not None
            _write(run_object.instructions, part.patched(words))
            run_object.words = words
        arguments = run_object.arguments
        for number, memory in enumerate(memories):
            last = arguments[number]
            if last is None or last() is not memory:
                arguments[number] = None
                run_object.run.set_arg(self._first + number, memory.bo)
                arguments[number] = ref(memory)

    def _instructions(self, program: XrtProgram, place: int, words: np.ndarray[Any, np.dtype[np.uint32]]) -> XrtMemory:
        """Return a buffer with the instructions, shared by all runs of a part unless runs change them."""
        shared = self._shared.setdefault(program, {})
        if place in shared:
            return shared[place]
        flags, group = self._driver.bo.flags.cacheable, self.kernel.group_id(1)
        memory = XrtMemory(self._driver, self._device, words.nbytes, flags, group)
        _write(memory, words)
        if not program.parts[place].parameters:
            shared[place] = memory
        return memory

    def close(self) -> None:
        """Release the context and its dependent objects, in the order that XRT requires."""
        for run in list(self.runs):
            run.close()
        self._shared.clear()
        self._kernels.clear()
        self.kernel = self._handle = self._image = self._device = None


def _write(memory: XrtMemory, words: np.ndarray[Any, np.dtype[np.uint32]]) -> None:
    """Write instructions for the NPU's controller."""
    memory.bytes[: words.nbytes] = words.view(np.uint8)
    memory.to_device()


class XrtDriver:
    """See `driver.Driver`."""

    launch_seconds: float = 10
    """Time limit of a launch. The driver itself ends launches after 2 s."""

    def __init__(self, index: int) -> None:
        self.index = index
        self._pyxrt: Any = None
        self._device: Any = None

    def open(self) -> None:
        """See `driver.Driver`."""
        self._pyxrt = bindings.pyxrt()
        self._device = bindings.open_device(self.index)

    def close(self, lost: bool) -> None:
        """See `driver.Driver`. XRT keeps a device open for this process unless it is lost."""
        self._device = None
        if lost:
            bindings.forget_device(self.index)

    def allocate(self, nbytes: int) -> XrtMemory:
        """See `driver.Driver`."""
        return XrtMemory(self._pyxrt, self._device, nbytes, self._pyxrt.bo.flags.host_only, HOST_MEMORY)

    def load(self, program: NpuProgram) -> XrtContext:
        """See `driver.Driver`."""
        assert isinstance(program, XrtProgram)
        release()  # Ended submissions release their contexts.
        return XrtContext(program, self._pyxrt, self._device)
