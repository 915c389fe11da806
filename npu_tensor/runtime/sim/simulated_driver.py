"""Simulated NPU as the runtime's driver: memory with a copy for each side, and launches in the array's own thread."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from npu_tensor import events
from npu_tensor.dataflow.array_program import HostSlice
from npu_tensor.dataflow.cost import Counters
from npu_tensor.errors import message_of
from npu_tensor.runtime.npu.driver import DriverError, NpuProgram, RunRequest
from npu_tensor.runtime.npu.npu_kernel import NpuKernel
from npu_tensor.runtime.sim.simulated_array import LoadedDesign, SimulatedArray
from npu_tensor.runtime.sim.tile_memory import UNDEFINED, DeviceBuffer

LEAST_WAIT: Final = 1e-2
"""Minimum time of a wait in seconds. Every poll of a waiting thread interrupts the array's thread."""


class KernelRun(NamedTuple):
    """Kernel of a launch: its design, and the locations of its host buffers."""

    kernel: NpuKernel
    loaded: LoadedDesign
    slices: tuple[HostSlice, ...]


@dataclass(eq=False, kw_only=True)
class SimulatedProgram(NpuProgram):
    """Kernels that run one after another. written: for each argument True if the array writes it first."""

    runs: Sequence[KernelRun]
    written: Sequence[bool]


class SimulatedRun(NamedTuple):
    """Prepared run, see `driver.Run`."""

    context: SimulatedContext
    program: SimulatedProgram


class _Observed(NamedTuple):
    """Completed run of a kernel. counts: fields of `KernelSimulated`. end: time by time.perf_counter."""

    kernel: NpuKernel
    counts: tuple[Any, ...]
    end: float


class SimulatedSubmission:
    """Launches submitted together, see `driver.Submission`."""

    def __init__(self, array: SimulatedArray, requests: Sequence[RunRequest]) -> None:
        self._array = array
        self._requests = requests
        self._end: Future[None] | None = None
        self._asked = 0.0
        self._observed: list[tuple[float, list[_Observed]]] = []
        self._parts: dict[int, list[events.Part]] = {}
        self._abandoned = False

    def start(self) -> None:
        """Start the launches, see `driver.Submission`."""
        self._end = self._array.thread.submit(self._run)
        self._asked = time.perf_counter()

    def _run(self) -> None:
        """Run the launches in the array's thread."""
        for run, memories, words in self._requests:
            assert isinstance(run, SimulatedRun)
            arguments = [cast(DeviceBuffer, memory).device for memory in memories]
            for contents, written in zip(arguments, run.program.written, strict=True):
                if written:  # Results that no kernel of this launch writes must be visibly wrong.
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
        """Return True if the launches have ended, see `driver.Submission`."""
        return self._end is not None and self._end.done()

    def wait(self, seconds: float) -> None:
        """Wait until the launches have ended or time is up, which is at least LEAST_WAIT."""
        assert self._end is not None
        wait([self._end], max(seconds, LEAST_WAIT))

    def check(self) -> None:
        """Raise DriverError for any failure of a design: it is a fault of the launch, as on a real array."""
        assert self._end is not None
        error = self._end.exception()
        if error is not None:
            raise DriverError(message_of(error)) from error

    def observed(self, number: int) -> Sequence[events.Part]:
        """Return the duration and counters of each kernel. The very last one ran until its end was observed."""
        if number in self._parts:
            return self._parts[number]
        parts = self._parts[number] = []
        if number >= len(self._observed):
            return parts
        start, kernels = self._observed[number]
        ready = self._asked
        if number and self._observed[number - 1][1]:  # It waited for the previous launch.
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
        """Abandon the launches: no other kernel begins. The array's thread keeps the memory in use alive."""
        self._abandoned = True


def _largest(counters: Counters) -> tuple[int, int, int]:
    """Return the cycles of the busiest core, the bytes of the busiest channel, and the bytes of host memory."""
    cycles, stream_bytes = (max(each.values(), default=0) for each in (counters.cycles, counters.stream_bytes))
    return cycles, stream_bytes, counters.ddr_bytes


class SimulatedContext:
    """Context of a program, see `driver.Context`. Closing it resets its configurations, as losing a context does."""

    def __init__(self, array: SimulatedArray, program: SimulatedProgram) -> None:
        self.program = program
        self._array = array

    def run(self, program: NpuProgram) -> SimulatedRun:
        """Return a run of a program, see `driver.Context`."""
        assert isinstance(program, SimulatedProgram)
        return SimulatedRun(self, program)

    def prepare(self, requests: Sequence[RunRequest]) -> SimulatedSubmission:
        """Prepare launches, see `driver.Context`. The array always runs one launch after another."""
        return SimulatedSubmission(self._array, requests)

    def close(self) -> None:
        """Close the context, see `driver.Context`."""
        for each in self.program.runs:
            self._array.thread.post(each.loaded.configuration.reset)


class SimulatedDriver:
    """Driver of a simulated NPU, see `driver.Driver`. There is no time limit: the array detects deadlocks itself."""

    launch_seconds = math.inf

    def __init__(self, array: SimulatedArray) -> None:
        self.array = array

    def open(self) -> None:
        """Open the device, which is always available."""

    def close(self, lost: bool) -> None:
        """Close the device, which shares nothing with others."""

    def allocate(self, nbytes: int) -> DeviceBuffer:
        """Allocate a buffer, see `driver.Driver`."""
        try:
            return DeviceBuffer(nbytes)
        except MemoryError as error:
            raise DriverError(str(error), blameless=True) from error

    def load(self, program: NpuProgram) -> SimulatedContext:
        """Load a program, see `driver.Driver`."""
        assert isinstance(program, SimulatedProgram)
        return SimulatedContext(self.array, program)
