"""Hardware contexts: which binaries are loaded. The driver allows a few, for all processes together.

A context takes about 35 ms to make and 2.6 ms to switch to, so they are kept, and the one that was used longest ago
goes when the driver refuses another one.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.dataflow.array import Arch
from npu_tensor.dataflow.checks.limits import HOST_BUFFERS
from npu_tensor.errors import BuildError
from npu_tensor.runtime.build.mlir_aie import ELF_KERNEL
from npu_tensor.runtime.npu.notices import Notices
from npu_tensor.runtime.xrt.buffers import SharedBlock
from npu_tensor.runtime.xrt.npu_program import NpuProgram

__all__ = ["Context", "ContextRefused", "Contexts", "RunObject", "write_instructions"]

Words = np.ndarray[Any, np.dtype[np.uint32]]

MOST_CONTEXTS: Final[dict[Arch, int]] = {"aie2": 6, "aie2p": 16}
"""Contexts that are kept unless the driver allows fewer: it counts the contexts of all processes."""

MOST_RUNLISTS: Final = 64
"""Per context. A program runs few sequences of kernels again and again."""

OPCODE: Final = 3
"""Run a stream of instructions."""

_BUSY: Final = re.compile(r"err=-?(28|22)\b")
"""What the driver says where contexts or columns are used up: ENOSPC, or EINVAL in some versions."""

PAUSES: Final = (1e-3, 1e-2, 1e-1)
"""Seconds between attempts once all contexts are given up: a thread that asks for the state of a run holds its context
for some moments more.
"""


class ContextRefused(Exception):
    """The driver makes no context, also after all of this process were given up."""


@dataclass(eq=False, slots=True, weakref_slot=True)
class RunObject:
    """One of XRT's run objects, for one step of a plan, and what its arguments are set to.

    run: None after the context is gone.
    words: of the runtime parameters in its instructions.
    """

    run: Any = None
    arguments: list[SharedBlock | None] = field(default_factory=list)
    instructions: SharedBlock | None = None
    words: Sequence[int] | None = None


class Context:
    """A binary that is loaded, for all programs that have it.

    program: for which it was loaded. latest: the newest batch of launches in it. first: number of its first buffer.
    make_room: gives memory back to the driver.
    """

    def __init__(self, program: NpuProgram, driver: Any, device: Any, make_room: Callable[[], object]) -> None:
        self.program = program
        self.driver = driver
        self.device = device
        self.latest: Any = None
        self._make_room = make_room
        self.first = 0 if program.is_elf else 3
        self.run_objects: WeakSet[RunObject] = WeakSet()
        self.runlists: OrderedDict[tuple[RunObject, ...], Any] = OrderedDict()
        self._shared: WeakKeyDictionary[NpuProgram, SharedBlock] = WeakKeyDictionary()
        if program.is_elf:
            self._image = driver.elf(str(program.path))
            self.handle = driver.hw_context(device, self._image)
            self.kernel = driver.ext.kernel(self.handle, ELF_KERNEL)
            most = HOST_BUFFERS  # It does not say how many it takes.
        else:
            self._image = driver.xclbin(str(program.path))
            device.register_xclbin(self._image)
            self.handle = driver.hw_context(device, self._image.get_uuid())
            described = self._image.get_kernels()[0]
            self.kernel = driver.kernel(self.handle, described.get_name())
            most = described.get_num_args() - 3
        if len(program.sizes) > most:
            raise BuildError(f"{program.name} has {len(program.sizes)} host buffers, and its file declares {most}")

    def make_run(self, run_object: RunObject, program: NpuProgram) -> None:
        """Make the run of a program with its constant arguments."""
        run = self.driver.run(self.kernel)
        run_object.arguments = [None] * len(program.sizes)
        run_object.words = None
        if program.instructions is not None:
            run_object.instructions = self._instructions(program, program.instructions)
            run.set_arg(0, OPCODE)
            run.set_arg(1, run_object.instructions.bo)
            run.set_arg(2, program.instructions.nbytes)
        self.run_objects.add(run_object)  # First: an interrupt may come between, and `close` must find every run.
        run_object.run = run

    def _instructions(self, program: NpuProgram, words: Words) -> SharedBlock:
        """A buffer with the instructions: one for all runs of a program, or one for each if a run changes them."""
        if program in self._shared:
            return self._shared[program]
        try:
            bo = self._buffer(words.nbytes)
        except (RuntimeError, MemoryError):
            self._make_room()
            bo = self._buffer(words.nbytes)
        block = SharedBlock(bo, words.nbytes, [])
        write_instructions(block, words, self.driver)
        if not program.parameters:
            self._shared[program] = block
        return block

    def _buffer(self, nbytes: int) -> Any:
        return self.driver.bo(self.device, nbytes, self.driver.bo.flags.cacheable, self.kernel.group_id(1))

    def runlist(self, run_objects: tuple[RunObject, ...]) -> Any:
        """The runlist of these runs, in this order."""
        runlist = self.runlists.get(run_objects)
        if runlist is None:
            runlist = self.driver.runlist(self.handle)
            for run_object in run_objects:
                runlist.add(run_object.run)
            while len(self.runlists) >= MOST_RUNLISTS:
                self.runlists.popitem(last=False)
            self.runlists[run_objects] = runlist
        else:
            self.runlists.move_to_end(run_objects)
        return runlist

    def forget_arguments(self) -> None:
        """Let go of the buffers that runs were given last; they are given some again before they start."""
        for run_object in list(self.run_objects):
            run_object.arguments = [None] * len(run_object.arguments)

    def close(self) -> None:
        """Give the context up: first what depends on it, in the order that XRT wants."""
        self.runlists.clear()
        for run_object in list(self.run_objects):
            run_object.run = run_object.instructions = run_object.words = None
            run_object.arguments = []
        self._shared.clear()
        self.kernel = self.handle = self._image = None


def write_instructions(block: SharedBlock, words: Words, driver: Any) -> None:
    """Put instructions where the NPU's controller reads them."""
    block.host_dirty = True
    block.bytes[: words.nbytes] = words.view(np.uint8)
    block.bo.sync(driver.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE)
    block.host_dirty = False


class Contexts:
    """The loaded binaries of one NPU, the one used longest ago first.

    load: makes a context; raises RuntimeError if the driver does not. settle: waits until nothing runs in a context.
    notices: of the NPU.
    """

    def __init__(
        self,
        arch: Arch,
        load: Callable[[NpuProgram], Context],
        settle: Callable[[Context], None],
        notices: Notices,
    ) -> None:
        self._arch = arch
        self._load = load
        self._settle = settle
        self._notices = notices
        self._loaded: OrderedDict[str, Context] = OrderedDict()

    def get(self, program: NpuProgram) -> Context:
        """The context of a program's binary, loaded if it is not.

        Raises ContextRefused, BuildError, and what the driver raises if it is not for want of contexts.
        """
        context = self._loaded.get(program.binary)
        if context is not None:
            self._loaded.move_to_end(program.binary)
            return context
        while len(self._loaded) >= (config.max_contexts or MOST_CONTEXTS[self._arch]):
            self._evict()
        pauses = iter(PAUSES)
        while True:
            try:
                context = self._load(program)
            except RuntimeError as error:
                if _BUSY.search(str(error)) is None:
                    raise
                if self._loaded:
                    self._evict()
                    continue
                pause = next(pauses, None)
                if pause is None:
                    raise ContextRefused(f"the driver makes no context: {error}") from None
                time.sleep(pause)
            else:
                self._loaded[program.binary] = context
                self._notices.add(events.ContextOpened(program.name, self._notices.uri, len(self._loaded)))
                return context

    def _evict(self) -> None:
        """Make room: give up one context, on aie2 all. There, those that are left fail once one is gone."""
        for context in list(self._loaded.values())[: None if self._arch == "aie2" else 1]:
            self._settle(context)
            context.close()  # First: an interrupt may come between, and what is left open must be known.
            self._loaded.pop(context.program.binary, None)
            self._notices.add(events.ContextClosed(context.program.name, self._notices.uri, len(self._loaded)))

    def forget_arguments(self) -> None:
        """See `Context.forget_arguments`."""
        for context in self._loaded.values():
            context.forget_arguments()

    @property
    def run_objects(self) -> list[RunObject]:
        """The run objects of all loaded programs."""
        return [run_object for context in self._loaded.values() for run_object in context.run_objects]

    def smallest(self) -> Context | None:
        """The one whose program has the smallest buffers."""
        return min(self._loaded.values(), key=lambda context: sum(context.program.sizes), default=None)

    def close(self) -> None:
        """Give up all contexts, whatever runs in them."""
        for key, context in list(self._loaded.items()):
            context.close()
            self._loaded.pop(key, None)
