"""A simulated NPU as the runtime's driver: memory with a copy for each side, and launches in the array's own thread."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from npu_tensor import events
from npu_tensor.dataflow.array_program import HostSlice
from npu_tensor.dataflow.cost import Counters
from npu_tensor.errors import NpuTensorError
from npu_tensor.runtime.npu.driver import DriverError, RunRequest
from npu_tensor.runtime.npu.npu_kernel import NpuKernel
from npu_tensor.runtime.npu.npu_program import NpuProgram
from npu_tensor.runtime.sim.simulated_array import LoadedDesign, SimulatedArray
from npu_tensor.runtime.sim.tile_memory import UNDEFINED, DeviceBuffer

__all__ = ["KernelRun", "SimulatedDriver", "SimulatedProgram", "SimulatedSubmission"]

LEAST_WAIT: Final = 1e-2
"""Seconds. Who waits for the array's thread keeps it from running each time that it looks."""


class KernelRun(NamedTuple):
    """A kernel of a launch: its design, and where its host buffers lie."""

    kernel: NpuKernel
    loaded: LoadedDesign
    slices: tuple[HostSlice, ...]


@dataclass(eq=False, kw_only=True)
class SimulatedProgram(NpuProgram):
    """The kernels that run one after another. written: for each argument whether the array writes it first."""

    runs: Sequence[KernelRun]
    written: Sequence[bool]


class SimulatedRun(NamedTuple):
    """See `driver.Run`."""

    context: SimulatedContext
    program: SimulatedProgram


class _Observed(NamedTuple):
    """A run of a kernel that ended then, by time.perf_counter. counts: for `KernelSimulated`."""

    kernel: NpuKernel
    counts: tuple[Any, ...]
    end: float


class SimulatedSubmission:
    """See `driver.Submission`."""

    def __init__(self, array: SimulatedArray, requests: Sequence[RunRequest]) -> None:
        self._array = array
        self._requests = requests
        self._end: Future[None] | None = None
        self._asked = 0.0
        self._observed: list[tuple[float, list[_Observed]]] = []
        self._parts: dict[int, list[events.Part]] = {}
        self._abandoned = False

    def start(self) -> None:
        """See `driver.Submission`."""
        self._end = self._array.thread.submit(self._run)
        self._asked = time.perf_counter()

    def _run(self) -> None:
        """In the array's thread."""
        for run, memories, words in self._requests:
            assert isinstance(run, SimulatedRun)
            arguments = [cast(DeviceBuffer, memory).device for memory in memories]
            for contents, written in zip(arguments, run.program.written, strict=True):
                if written:  # What no kernel of this launch writes must not look right.
                    contents[:] = UNDEFINED
            kernels: list[_Observed] = []
            self._observed.append((time.perf_counter(), kernels))
            first = 0
            for kernel, loaded, slices in run.program.runs:
                if self._abandoned:
                    return
                buffers = [
                    arguments[argument][offset : offset + host.type.nbytes]
                    for (argument, offset), host in zip(slices, loaded.design.host_buffers, strict=True)
                ]
                last = first + loaded.design.run_words
                counters = loaded.run_here(buffers, words[first:last])
                first = last
                if events.listeners:
                    counts = *_largest(counters), *kernel.counted(counters), loaded.timeline
                    kernels.append(_Observed(kernel, counts, time.perf_counter()))

    def ended(self) -> bool:
        """See `driver.Submission`."""
        return self._end is not None and self._end.done()

    def wait(self, seconds: float) -> None:
        """Returns as soon as the launches have ended, or after LEAST_WAIT at the earliest."""
        assert self._end is not None
        wait([self._end], max(seconds, LEAST_WAIT))

    def check(self) -> None:
        """What a design does wrong is a fault of the launch, as on a real array."""
        assert self._end is not None
        error = self._end.exception()
        if error is not None:
            text = str(error) if isinstance(error, NpuTensorError) else f"{type(error).__name__}: {error}"
            raise DriverError(text) from error

    def observed(self, number: int) -> Sequence[events.Part]:
        """Of each kernel, how long it ran and what the array has counted. The very last ran until its end was seen."""
        if number in self._parts:
            return self._parts[number]
        parts = self._parts[number] = []
        if number >= len(self._observed):
            return parts
        start, kernels = self._observed[number]
        ready = self._asked
        if number and self._observed[number - 1][1]:  # It waited for the launch before.
            ready = self._observed[number - 1][1][-1].end
        ends = [each.end for each in kernels]
        if kernels and number == len(self._requests) - 1:
            ends[-1] = time.perf_counter()
        for (kernel, counts, _), end in zip(kernels, ends, strict=True):
            if not parts:
                parts.append(events.Phase("dispatch", kernel.device, max(0.0, start - ready), when=start))
            parts.append(events.Phase("run", kernel.device, end - start, when=end))
            parts.append(events.KernelSimulated(kernel.task.name, kernel.device, *counts, when=end))
            start = end
        return parts

    def abandon(self, *used: object) -> None:
        """The array's thread holds what it uses, and begins with no other kernel."""
        self._abandoned = True


def _largest(counters: Counters) -> tuple[int, int, int]:
    """Cycles of the busiest core, bytes through the busiest channel, and bytes of host memory."""
    cycles, stream_bytes = (max(each.values(), default=0) for each in (counters.cycles, counters.stream_bytes))
    return cycles, stream_bytes, counters.ddr_bytes


class SimulatedContext:
    """See `driver.Context`. Closing it resets the configurations of its program, as losing a context does."""

    def __init__(self, array: SimulatedArray, program: SimulatedProgram) -> None:
        self.program = program
        self._array = array

    def run(self, program: NpuProgram) -> SimulatedRun:
        """See `driver.Context`."""
        assert isinstance(program, SimulatedProgram)
        return SimulatedRun(self, program)

    def prepare(self, requests: Sequence[RunRequest], chain: bool) -> SimulatedSubmission:
        """See `driver.Context`. The array runs one launch after another in any case."""
        return SimulatedSubmission(self._array, requests)

    def close(self) -> None:
        """See `driver.Context`."""
        for each in self.program.runs:
            self._array.thread.post(each.loaded.configuration.reset)


class SimulatedDriver:
    """See `driver.Driver`. The array takes as long as the simulator needs, and knows by itself what never ends."""

    launch_seconds = math.inf

    def __init__(self, array: SimulatedArray) -> None:
        self.array = array

    def open(self) -> None:
        """It is always there."""

    def close(self, lost: bool) -> None:
        """Nothing of it is shared with others."""

    def allocate(self, nbytes: int) -> DeviceBuffer:
        """See `driver.Driver`."""
        try:
            return DeviceBuffer(nbytes)
        except MemoryError as error:
            raise DriverError(str(error), blameless=True) from error

    def load(self, program: NpuProgram, release_memory: Callable[[], object]) -> SimulatedContext:
        """See `driver.Driver`."""
        assert isinstance(program, SimulatedProgram)
        return SimulatedContext(self.array, program)
