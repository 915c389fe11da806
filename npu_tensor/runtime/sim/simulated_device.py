"""The simulated NPU as a device: `sim:npu1`, `sim:npu2`, with options as in `sim:npu2?cols=4&float32=emulate`.

`sim:npu2x2` means two of them as one device.

It takes the tasks that a kernel family of `npu_tensor.kernels` has a design for, and runs that very design.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from functools import cache
from typing import Any, Final
from weakref import WeakValueDictionary

from npu_tensor import events
from npu_tensor._util.forks import cached_property, new_lock
from npu_tensor.dataflow.design import Design
from npu_tensor.kernels.offer import Target
from npu_tensor.runtime.memory import Allocator
from npu_tensor.runtime.npu.notices import Notices
from npu_tensor.runtime.npu.npu_cost import NpuCosts
from npu_tensor.runtime.npu.npu_kernel import NpuDevice, NpuKernel
from npu_tensor.runtime.npu.packing import check_indexes, flat, host_bytes, pack, unpack, word
from npu_tensor.runtime.rates import npu_rates, processor_rates
from npu_tensor.runtime.sim import host_backend as host
from npu_tensor.runtime.sim.simulated_array import LoadedConfiguration, LoadedDesign, SimulatedArray
from npu_tensor.runtime.sim.tile_memory import DeviceBuffer
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
        return NpuCosts(npu_rates(self.target.array.device), processor_rates())

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

    def step(self, kernel: NpuKernel, artifact: Artifact) -> Step:
        """The step that packs operands, runs the design on copies in device memory, and unpacks results."""
        offer, task, design = kernel.offer, kernel.task, kernel.request.design
        loaded = self.load(design, artifact)
        buffers = [DeviceBuffer(host_bytes(operand)) for operand in offer.operands]
        tensors = [
            (operand, operand.number, buffer)
            for operand, buffer in zip(offer.operands, buffers, strict=True)
            if operand.number is not None
        ]
        inputs = [each for each in tensors if not each[0].output]
        outputs = [each for each in tensors if each[0].output]

        def run(values: list[Any]) -> None:
            nonlocal loaded
            notices, since = Notices(self.uri), time.perf_counter()
            results = [self.allocator.allocate(output.nbytes) for output in task.outputs]
            with self.lock:
                since = notices.add_phase("dispatch", since)  # until the array was free
                for operand, number, buffer in inputs:
                    source = task.inputs[number]
                    assert source.dtype is not None
                    elements = flat(values[source.item], source.dtype)
                    check_indexes(operand, elements, task.call)
                    pack(operand, elements, buffer.host)
                since = notices.add_phase("convert", since)
                for _, _, buffer in inputs:
                    buffer.to_device()
                since = notices.add_phase("sync", since)
                words = [word(values[task.inputs[number].item], kind) for number, kind in offer.scalars]
                loaded = self.load(design, artifact)
                since = notices.add_phase("dispatch", since)
                counters = loaded.run([buffer.device for buffer in buffers], words)
                timeline = loaded.timeline
                since = notices.add_phase("run", since)
                for _, _, buffer in outputs:
                    buffer.from_device()
                since = notices.add_phase("sync", since)
                for operand, number, buffer in outputs:
                    unpack(operand, buffer.host, flat(results[number], task.outputs[number].dtype))
                since = notices.add_phase("convert", since)
            for output, memory in zip(task.outputs, results, strict=True):
                values[output.item] = memory
            notices.emit()
            if events.listeners:
                cycles = max(counters.cycles.values(), default=0)
                stream_bytes = max(counters.stream_bytes.values(), default=0)
                counts = cycles, stream_bytes, counters.ddr_bytes, *kernel.counted(counters), timeline
                events.emit_part(events.KernelSimulated(task.name, self.uri, *counts))

        return run
