"""The simulated NPU as a device: `sim:npu1`, `sim:npu2`, with options as in `sim:npu2?cols=4&float32=emulate`.

`sim:npu2x2` means two of them as one device.

It takes the tasks that a kernel family of `npu_tensor.kernels` has a design for, and runs that very design.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from npu_tensor import events, kernels
from npu_tensor._util.forks import cached_property, new_lock
from npu_tensor.dataflow.cost import Counters
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import DeviceError
from npu_tensor.kernels.offer import FUSION, Offer, Target
from npu_tensor.runtime.build import simulated as host
from npu_tensor.runtime.devices.device_uri import parse_uri, target
from npu_tensor.runtime.devices.logical import LogicalDevice
from npu_tensor.runtime.memory import Allocator
from npu_tensor.runtime.npu.npu_cost import NpuCosts
from npu_tensor.runtime.npu.npu_kernel import OfferedKernel, OfferingDevice
from npu_tensor.runtime.npu.packing import check_indexes, flat, host_bytes, pack, unpack, word
from npu_tensor.runtime.npu.phases import Phases
from npu_tensor.runtime.rates import npu_rates, processor_rates
from npu_tensor.runtime.sim.array import LoadedDesign, SimulatedArray
from npu_tensor.runtime.sim.kind import SIMULATED
from npu_tensor.runtime.sim.tile_memory import DeviceBuffer
from npu_tensor.runtime.sim.timeline import Timeline
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import Artifact
from npu_tensor.task import Kernel, Refusal, Step, Task

__all__ = ["SimulatedDevice", "parse", "simulated"]

MOST_LOADED: Final = 16
"""Designs that stay in an array; each takes some megabytes. One that had to leave is loaded again in milliseconds."""


def parse(uri: str) -> Target:
    """What the kernels of a simulated NPU, or of several, are claimed for. Raises DeviceError."""
    asked = parse_uri(uri)
    if asked.scheme != "sim":
        raise DeviceError(f"{uri} is not a simulated NPU", code="INVALID_ARGUMENT")
    return target(asked, SIMULATED[asked.selectors[0]])


def simulated(uri: str, allocator: Allocator) -> SimulatedDevice | LogicalDevice:
    """The device at a URI: one simulated NPU, or as many as it says, `sim:npu2x2#0` and `sim:npu2x2#1`.

    Raises DeviceError.
    """
    count = len(parse_uri(uri).selectors)
    if count == 1:
        return SimulatedDevice(uri, allocator)
    return LogicalDevice(uri, [SimulatedDevice(uri, allocator, number) for number in range(count)])


@cache
def library() -> KernelLibrary:
    """Where the kernels of all simulated NPUs come from."""
    return KernelLibrary(host.HostBackend())


class SimulatedDevice(OfferingDevice):
    """One simulated NPU with memory of its own. number: which one, at a URI of several; the name then ends with it."""

    fusion = FUSION
    busy = 0
    usable = True

    def __init__(self, uri: str, allocator: Allocator, number: int | None = None) -> None:
        self.uri = uri if number is None else f"{uri}#{number}"
        self.allocator = allocator
        self.target = parse(uri)
        self.lock = new_lock()
        self._loaded: OrderedDict[int, LoadedDesign] = OrderedDict()

    @cached_property
    def costs(self) -> NpuCosts:
        """Predicted for the real array: nothing can be measured here."""
        return NpuCosts(self.target, npu_rates(self.target.array.device), processor_rates())

    @cached_property
    def array(self) -> SimulatedArray:
        """The array, with a thread of its own from the first design on."""
        return SimulatedArray(self.target.array, self.target.columns, self.costs.bytes_per_second)

    def claim(self, task: Task) -> SimulatedKernel | Refusal:
        """A kernel of one of the families, or what they say against the task."""
        answer = kernels.claim(task, self.target)
        return answer if isinstance(answer, Refusal) else SimulatedKernel(self, task, answer)

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Make the designs, and compile their functions for this machine."""
        own = [kernel for kernel in kernels if isinstance(kernel, SimulatedKernel)]
        library().prepare([kernel.request for kernel in own if not kernel.is_too_long])

    def load(self, design: Design, artifact: Artifact) -> LoadedDesign:
        """A known design with its compiled functions, checked and in the array. Raises BuildError."""
        with self.lock:
            loaded = self._loaded.get(id(design))
            if loaded is None:
                entries = host.entries(design, artifact.files, artifact.description)
                loaded = self._loaded[id(design)] = self.array.load(design, entries=entries)
                if len(self._loaded) > MOST_LOADED:
                    self._loaded.popitem(last=False)
            self._loaded.move_to_end(id(design))
            return loaded


class SimulatedKernel(OfferedKernel):
    """An offer of a kernel family, run by the simulator."""

    def __init__(self, device: SimulatedDevice, task: Task, offer: Offer) -> None:
        super().__init__(device.uri, task, offer, device.costs)
        self.owner = device

    def bind(self) -> Step:
        """Find or compile the design's functions and return the step. Raises BuildError."""
        self.check_length()
        owner, offer, task, design = self.owner, self.offer, self.task, self.request.design
        artifact = library().find(self.request)
        owner.load(design, artifact)
        self.found(artifact)
        buffers = [DeviceBuffer(host_bytes(operand)) for operand in offer.operands]
        held = [
            (operand, operand.number, buffer)
            for operand, buffer in zip(offer.operands, buffers, strict=True)
            if operand.number is not None
        ]
        inputs = [each for each in held if not each[0].output]
        outputs = [each for each in held if each[0].output]

        def run(values: list[Any]) -> None:
            phases = Phases(owner.uri)
            made = [owner.allocator.allocate(output.nbytes) for output in task.outputs]
            with owner.lock:
                phases.ended("dispatch")  # until the array was free
                for operand, number, buffer in inputs:
                    source = task.inputs[number]
                    assert source.dtype is not None
                    elements = flat(values[source.item], source.dtype)
                    check_indexes(operand, elements, task.call)
                    pack(operand, elements, buffer.host)
                phases.ended("convert")
                for _, _, buffer in inputs:
                    buffer.to_device()
                phases.ended("sync")
                words = [word(values[task.inputs[number].item], kind) for number, kind in offer.scalars]
                loaded = owner.load(design, artifact)
                phases.ended("dispatch")
                counted = loaded.run([buffer.device for buffer in buffers], words)
                timeline = loaded.timeline
                phases.ended("run")
                for _, _, buffer in outputs:
                    buffer.from_device()
                phases.ended("sync")
                for operand, number, buffer in outputs:
                    unpack(operand, buffer.host, flat(made[number], task.outputs[number].dtype))
                phases.ended("convert")
            for output, memory in zip(task.outputs, made, strict=True):
                values[output.item] = memory
            phases.tell()
            if events.listeners:
                events.emit_part(_event(task, owner.uri, counted, *self.counted(counted), timeline))

        return run


def _event(
    task: Task, uri: str, counters: Counters, seconds: float, limit: str, timeline: Timeline | None
) -> events.KernelSimulated:
    return events.KernelSimulated(
        task.name,
        uri,
        max(counters.cycles.values(), default=0),
        max(counters.stream_bytes.values(), default=0),
        counters.ddr_bytes,
        seconds,
        limit,
        timeline,
    )
