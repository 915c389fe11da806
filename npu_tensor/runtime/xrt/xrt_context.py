"""Hardware context of a real NPU: a loaded binary and the run objects of its programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast
from weakref import WeakKeyDictionary, WeakSet, ref

import numpy as np

from npu_tensor.dataflow.checks.limits import HOST_BUFFERS
from npu_tensor.errors import BuildError
from npu_tensor.runtime.build.mlir_aie import ELF_KERNEL
from npu_tensor.runtime.npu.driver import NpuProgram, RunRequest
from npu_tensor.runtime.xrt.xrt_memory import XrtMemory, driver_error
from npu_tensor.runtime.xrt.xrt_program import ProgramPart, XrtProgram
from npu_tensor.runtime.xrt.xrt_submission import RunObject, XrtSubmission

OPCODE: Final = 3
"""Opcode of a run with a stream of instructions."""


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
