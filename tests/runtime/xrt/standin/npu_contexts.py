"""Hardware contexts: their queues, and the execution of queued commands on the simulated array.

A submitted command runs when the host polls its state, or that of a later one. The commands of a context run in
order, and those of different contexts in the order in which they are polled. So a host that touches a buffer too
early, or does not wait for another context, gets wrong data here every time.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from machine import Machine, Npu, driver_error
from npu_faults import Fault
from npu_images import Image, addresses
from npu_instructions import StreamError, reach, read_stream, written
from npu_memory import Memory
from states import ABORT, COMPLETED, ERROR, NEW, SUBMITTED, TIMEOUT

from npu_tensor.dataflow.design import Design
from npu_tensor.errors import NpuTensorError
from npu_tensor.runtime.build.iron_program import MARKER, WORDS
from npu_tensor.runtime.sim.simulated_array import LoadedConfiguration, LoadedDesign

OPCODE: Final = 3
"""Run a transaction from an instruction stream."""


class BufferMemory(Memory):
    """Memory of a buffer object. `slot` is that of the context in its group, or 0."""

    def __init__(self, nbytes: int, living: dict[int, int], slot: int) -> None:
        super().__init__(nbytes, living)
        self.slot = slot


Argument = weakref.ref[BufferMemory] | int | None
"""Argument of a run, which does not keep its buffer objects."""


class Command:
    """Arguments and state of a run in the driver.

    Attributes:
        launch: Its number on the machine.
        polls: Polls until it runs.
    """

    __slots__ = ("arguments", "design", "fault", "launch", "pending", "polls", "state")

    def __init__(self, arguments: int, design: Design) -> None:
        self.design = design
        self.arguments: list[Argument] = [None] * arguments
        self.state = NEW
        self.pending = False
        self.fault: Fault | None = None
        self.launch = -1
        self.polls = 0

    def end(self, state: Any) -> None:
        """Set the final state."""
        self.pending = False
        self.state = state


class Core:
    """A context in the driver. slot: its number. image: what is loaded. Closed when nothing refers to it any more."""

    __slots__ = ("__weakref__", "_loaded", "broken", "generation", "image", "machine", "npu", "queue", "slot")

    def __init__(self, machine: Machine, npu: Npu, image: Image) -> None:
        self.queue: deque[Command] = deque()
        self.machine, self.npu, self.image = machine, npu, image
        self.broken = False
        self.generation = npu.generation
        self._loaded: dict[int, LoadedConfiguration] = {}
        with machine.lock:
            wait_for_driver(npu)
            if machine.due(Fault.CONTEXT) is not None or len(npu.cores) >= npu.context_limit:
                raise driver_error(28, "DRM_IOCTL_AMDXDNA_CREATE_HWCTX IOCTL failed")
            if image.design.columns > npu.array.columns:
                raise driver_error(22, "DRM_IOCTL_AMDXDNA_CREATE_HWCTX IOCTL failed")
            self.slot = next(npu.slots)
            machine.contexts_made += 1
            npu.cores.add(weakref.ref(self, npu.closed.append))

    def check(self) -> None:
        """Raise the driver's error if the device is gone."""
        if not self.npu.present or self.generation != self.npu.generation:
            raise driver_error(19, "DRM_IOCTL_AMDXDNA_EXEC_CMD IOCTL failed")

    # Submission.

    def submit(self, command: Command) -> None:
        """Put a command into the queue."""
        machine, npu = self.machine, self.npu
        if npu.closed:
            wait_for_driver(npu)
        self.check()
        if self.broken:
            raise driver_error(2, "DRM_IOCTL_AMDXDNA_EXEC_CMD IOCTL failed")
        machine.submissions += 1
        command.polls = machine.polls
        self._prepare(command)
        command.pending = True
        command.state = SUBMITTED
        self.queue.append(command)

    def _prepare(self, command: Command) -> None:
        machine = self.machine
        if machine.compute:
            self._check_arguments(command)
        command.launch = machine.launches
        command.fault = machine.launch_fault()
        if command.fault is Fault.LOST:
            self.npu.present = False
            self.check()
        if command.fault is Fault.START:
            raise driver_error(5, "DRM_IOCTL_AMDXDNA_EXEC_CMD IOCTL failed")

    def _check_arguments(self, command: Command) -> None:
        """Refuse what would crash the process, or let the NPU read and write beyond buffers."""
        machine, image = self.machine, self.image
        buffers = command.arguments[image.first_buffer :]
        for number, argument in enumerate(buffers):
            name = f"argument {number + image.first_buffer} of {image.design.name}"
            if argument is None and image.format == "xclbin":
                continue  # It declares more than most instructions use.
            region = _memory(argument)
            if region is None:
                gone = isinstance(argument, weakref.ref)
                raise machine.crash(f"{name} is {'a buffer object that was freed' if gone else argument}")
            if region.slot not in (0, self.slot):
                note = f"a buffer object of context {region.slot} is used in another one"
                if note not in machine.complaints:
                    machine.complaints.append(note)
        if image.format == "xclbin":
            stream, size = _memory(command.arguments[1]), command.arguments[2]
            if stream is None:
                raise machine.crash(f"{image.design.name} is started without instructions")
            designs = self._started(command)
            words = len(_words(stream)) // 4
            if designs is None or not isinstance(size, int):
                return  # The controller will stop.
            values = [value for design in designs for _, own in design.values for value in own]
            if any(MARKER <= value < MARKER + WORDS * WORDS for value in values):
                machine.crash(f"{image.design.name}: a runtime parameter was not set")
            if size not in (words, 4 * words):
                raise machine.crash(f"{image.design.name} has {words} words of instructions, not {size}")
            for number, needed in reach(designs).items():
                region = _memory(buffers[number])
                name = image.design.name
                if region is None:
                    raise machine.crash(f"argument {number + 3} of {name} is {buffers[number]}")
                if region.nbytes < needed:
                    raise machine.crash(f"an argument of {name} has {region.nbytes} bytes and needs {needed}")

    # Execution.

    def advance(self, target: Command) -> None:
        """Let the queue run until a command has ended, or until one that takes longer."""
        with self.machine.lock:
            while target.pending and self.queue:
                command = self.queue[0]
                if command.polls > 0:
                    command.polls -= 1
                    return
                if command.fault is Fault.HANG:
                    return
                state = self._run_command(command) if self.machine.compute or command.fault else COMPLETED
                self.queue.popleft().end(state)
                if state is TIMEOUT:
                    # The driver reloads the context and aborts queued commands.
                    self._loaded.clear()
                    while self.queue:
                        self.queue.popleft().end(ABORT)

    def _run_command(self, command: Command) -> Any:
        fault, machine = command.fault, self.machine
        arguments = [each for each in command.arguments[self.image.first_buffer :] if each is not None]
        regions: list[Any] = list(map(_memory, arguments))
        if None in regions:
            machine.complaints.append(f"a buffer object was freed before launch {command.launch} had ended")
            return COMPLETED
        outputs = [regions[number] for number in self.written(command) if number < len(regions)]
        if fault is None:
            state = self._compute(command, regions)
        else:
            state = {Fault.ERROR: ERROR, Fault.TIMEOUT: TIMEOUT}.get(fault, COMPLETED)
        for region in outputs:
            if fault is not None or state is not COMPLETED:
                region.fill_with_garbage(command.launch)
            if region.written_by_npu():
                machine.complaints.append(f"launch {command.launch} wrote a buffer that had dirty lines in the cache")
        return state

    def _compute(self, command: Command, regions: list[BufferMemory]) -> Any:
        image = self.image
        try:
            if image.format == "xclbin":
                designs = self._started(command)
                if designs is None:
                    raise StreamError(f"{image.design.name}: these are not its instructions")
                number = next(n for n, own in enumerate(image.designs) if own is command.design)
                for design in designs:
                    self._load(design, number).run([region.device for region in regions])
            else:
                for run, number in zip(image.program.runs, image.configurations, strict=True):
                    parts = [regions[part.argument].device[part.offset :] for part in run.slices]
                    self._load(run.design, number).run(parts)
        except (NpuTensorError, StreamError) as error:
            self.machine.complaints.append(str(error))
            return TIMEOUT if "Timeout" in type(error).__name__ else ERROR
        return COMPLETED

    def _load(self, design: Design, number: int) -> LoadedDesign:
        """A design in the array. Its configuration, of this number, stays there until the context is loaded anew."""
        loaded = self._loaded.get(number)
        if loaded is None:
            array, entries = self.npu.simulated, self.image.entries
            if number not in entries:  # Its functions are compiled once, and its own design is checked.
                entries[number] = array.load(self.image.designs[number]).configuration._entries
            loaded = self._loaded[number] = LoadedConfiguration(array, design, entries[number])
        return LoadedDesign(loaded, design)

    def written(self, command: Command) -> Sequence[int]:
        """The numbers of the buffers that a command writes."""
        if self.image.format == "xclbin":
            return written(self._started(command) or [self.image.design])
        runs = self.image.program.runs
        return sorted({run.slices[number].argument for run in runs for number in written([run.design])})

    def _started(self, command: Command) -> list[Design] | None:
        """Decode the instructions of a command. Returns None if the controller stops at them."""
        stream = _memory(command.arguments[1])
        if command.arguments[0] != OPCODE or stream is None:
            return None
        sizes = tuple(region.nbytes for region in map(_memory, command.arguments[3:]) if region is not None)
        try:
            return _read(command.design, _words(stream), sizes)
        except StreamError:
            return None


def _memory(argument: Argument) -> BufferMemory | None:
    """Return the memory of a buffer argument, or None if it was freed."""
    return argument() if isinstance(argument, weakref.ref) else None


def _words(stream: Memory) -> bytes:
    """Return the instructions in a buffer, as many as their header declares."""
    if stream.nbytes < 16:
        return b""
    return stream.device[: min(stream.nbytes, int(stream.device[12:16].view("<u4")[0]))].tobytes()


@lru_cache(maxsize=256)
def _read(design: Design, words: bytes, sizes: tuple[int, ...]) -> list[Design]:
    return read_stream(np.frombuffer(words, "<u4"), design.configuration, addresses(design), sizes)


def wait_for_driver(npu: Npu) -> None:
    """Take note of contexts that are gone. On the first generation those that are left fail from then on."""
    with _settling:
        while npu.closed:
            npu.cores.discard(npu.closed.popleft())
            if npu.first_generation:
                for reference in npu.cores:
                    core = reference()
                    if core is not None:
                        core.broken = True


_settling: Final = threading.Lock()
