"""The simulated NPU as a device: `sim:npu1`, `sim:npu2`, with options as in `sim:npu2?cols=4&float32=emulate`.

`sim:npu2x2` means two of them as one device.

It takes the tasks that a kernel family of `npu_tensor.kernels` has a design for, and runs that very design.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any, Final
from weakref import WeakValueDictionary

from npu_tensor import events
from npu_tensor._util.forks import cached_property, new_lock
from npu_tensor.dataflow.design import Design
from npu_tensor.kernels.offer import Target
from npu_tensor.runtime.memory import Allocator
from npu_tensor.runtime.npu.launch_plan import LaunchPlan
from npu_tensor.runtime.npu.notices import Notices
from npu_tensor.runtime.npu.npu_cost import NpuCosts
from npu_tensor.runtime.npu.npu_kernel import NpuDevice
from npu_tensor.runtime.npu.packing import check_indexes, flat, pack, unpack
from npu_tensor.runtime.rates import npu_rates, processor_rates
from npu_tensor.runtime.sim import host_backend as host
from npu_tensor.runtime.sim.simulated_array import LoadedConfiguration, LoadedDesign, SimulatedArray
from npu_tensor.runtime.sim.tile_memory import UNDEFINED, DeviceBuffer
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import Artifact
from npu_tensor.task import Step

__all__ = ["SimulatedDevice", "library"]

MOST_LOADED: Final = 16
"""Configurations that stay in an array; each takes some megabytes. One that left is loaded again in milliseconds."""


@cache
def library() -> KernelLibrary:
    """Where the kernels of all simulated NPUs come from."""
    return KernelLibrary(host.HostBackend())


class SimulatedDevice(NpuDevice):
    """One simulated NPU with memory of its own."""

    busy = 0
    usable = True

    def __init__(self, uri: str, target: Target, allocator: Allocator) -> None:
        super().__init__(uri, target, allocator)
        self.lock = new_lock()
        # By identity, as hashing them takes long. A loaded design keeps both alive.
        self._configurations: OrderedDict[int, LoadedConfiguration] = OrderedDict()
        self._designs: WeakValueDictionary[int, LoadedDesign] = WeakValueDictionary()

    @cached_property
    def costs(self) -> NpuCosts:
        """Predicted for the real array: nothing can be measured here."""
        array = self.target.array
        return NpuCosts(npu_rates(array.device), processor_rates(), array.change_seconds)

    @cached_property
    def array(self) -> SimulatedArray:
        """The array, with a thread of its own from the first design on."""
        return SimulatedArray(self.target.array, self.target.columns, self.costs.rates.bytes_per_second)

    @property
    def library(self) -> KernelLibrary:
        """Shared by all simulated NPUs."""
        return library()

    def load(self, design: Design, artifact: Artifact) -> LoadedDesign:
        """A known design with its compiled functions, checked and in the array. Raises BuildError."""
        key = id(design.configuration)
        with self.lock:
            configuration, loaded = self._configurations.get(key), self._designs.get(id(design))
            if loaded is None or loaded.configuration is not configuration:
                entries = host.entries(design, artifact.files, artifact.description) if configuration is None else None
                loaded = self._designs[id(design)] = self.array.load(design, entries=entries, loaded=configuration)
                self._configurations[key] = loaded.configuration
                if len(self._configurations) > MOST_LOADED:
                    self._configurations.popitem(last=False)
            self._configurations.move_to_end(key)
            return loaded

    def step(self, plan: LaunchPlan, artifacts: Sequence[Artifact], steps: Sequence[Step]) -> Step:
        """The step that packs operands, runs the designs on copies in device memory, and unpacks results."""
        buffers = [DeviceBuffer(argument.nbytes) for argument in plan.arguments]
        inputs = [pair for pair in zip(plan.arguments, buffers, strict=True) if not pair[0].output]
        written = [pair for pair in zip(plan.arguments, buffers, strict=True) if pair[0].output]
        results = [(argument.item, argument, buffer) for argument, buffer in written if argument.item is not None]
        memory_of_runs = [
            [
                buffers[argument].device[offset : offset + host.type.nbytes]
                for (argument, offset), host in zip(run.slices, run.design.host_buffers, strict=True)
            ]
            for run in plan.program.runs
        ]
        designs = [run.design for run in plan.program.runs]
        runs = [*zip(plan.kernels, designs, artifacts, memory_of_runs, strict=True)]
        # A reference, so that what the step needs stays in the array.
        loaded = [self.load(design, artifact) for _, design, artifact, _ in runs]

        def run(values: list[Any]) -> None:
            words = [kernel.words(values) for kernel in plan.kernels]
            if plan.words is not None:
                if tuple(chain.from_iterable(words)) != plan.words:
                    for step in steps:
                        step(values)
                    return
                words = [[] for _ in words]
            notices, since = Notices(self.uri), time.perf_counter()
            memory = [self.allocator.allocate(argument.result_bytes) for _, argument, _ in results]
            with self.lock:
                since = notices.add_phase("dispatch", since)  # until the array was free
                for argument, buffer in inputs:
                    assert argument.item is not None
                    assert argument.dtype is not None
                    elements = flat(values[argument.item], argument.dtype)
                    check_indexes(argument.host, elements, argument.call)
                    pack(argument.host, elements, buffer.bytes)
                since = notices.add_phase("convert", since)
                for _, buffer in inputs:
                    buffer.to_device()
                for _, buffer in written:
                    buffer.device[:] = UNDEFINED  # What no kernel of this launch writes must not look right.
                since = notices.add_phase("sync", since)
                simulated = []
                for number, (kernel, design, artifact, slices) in enumerate(runs):
                    loaded[number] = self.load(design, artifact)
                    counters = loaded[number].run(slices, words[number])
                    since = notices.add_phase("run", since)
                    simulated.append((kernel, counters, loaded[number].timeline, since))
                for _, _, buffer in results:
                    buffer.from_device()
                since = notices.add_phase("sync", since)
                for (_, argument, buffer), result in zip(results, memory, strict=True):
                    assert argument.dtype is not None
                    unpack(argument.host, buffer.bytes, flat(result, argument.dtype))
                since = notices.add_phase("convert", since)
            for (item, _, _), result in zip(results, memory, strict=True):
                values[item] = result
            notices.emit()
            if events.listeners:
                for kernel, counters, timeline, end in simulated:
                    cycles = max(counters.cycles.values(), default=0)
                    stream_bytes = max(counters.stream_bytes.values(), default=0)
                    counts = cycles, stream_bytes, counters.ddr_bytes, *kernel.counted(counters), timeline
                    events.emit_part(events.KernelSimulated(kernel.task.name, self.uri, *counts, when=end))

        return run
