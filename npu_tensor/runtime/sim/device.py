"""The simulated NPU as a device: `sim:npu1`, `sim:npu2`, with options as in `sim:npu2?cols=4&float32=emulate`.

It takes the tasks that a kernel family of `npu_tensor.kernels` has a design for, and runs that very design.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, Final, get_args
from urllib.parse import parse_qsl
from weakref import WeakKeyDictionary, WeakSet, ref

import numpy as np

from npu_tensor import events, kernels
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.dataflow.cost import Counters, Prediction, count, predict
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import DeviceError
from npu_tensor.kernels.offer import FUSION, Float32, Offer, Target
from npu_tensor.runtime.artifact import Artifact, Request
from npu_tensor.runtime.build import host
from npu_tensor.runtime.kernel_name import kernel_name, op_params, tensor_descs
from npu_tensor.runtime.library import KernelLibrary
from npu_tensor.runtime.memory import Allocator
from npu_tensor.runtime.operands import check_indexes, flat, host_bytes, pack, unpack, word
from npu_tensor.runtime.sim.array import LoadedDesign, SimulatedArray
from npu_tensor.runtime.sim.memory import DeviceBuffer
from npu_tensor.task import Kernel, Refusal, Step, Task

__all__ = ["SimulatedDevice", "parse"]

Array = np.ndarray[Any, Any]

DEVICES: Final = {array.device: array for array in ARRAYS.values()}
MOST_LOADED: Final = 16
"""Designs that stay in an array; each takes some megabytes. One that had to leave is loaded again in milliseconds."""


def parse(uri: str) -> Target:
    """What a URI of a simulated NPU asks for. Raises DeviceError."""
    name, _, query = uri.partition(":")[2].partition("?")
    if name not in DEVICES:
        raise DeviceError(f"{uri}: there is no simulated {name or 'device without a name'}; there are {_known()}")
    array = DEVICES[name]
    options = dict(parse_qsl(query, keep_blank_values=True))
    columns = options.pop("cols", str(array.columns))
    float32 = options.pop("float32", "exact")
    if options:
        raise DeviceError(f"{uri}: unknown option {', '.join(options)}; there are cols and float32")
    if not (columns.isdecimal() and 1 <= int(columns) <= array.columns):
        raise DeviceError(f"{uri}: cols must be 1 to {array.columns}, not {columns!r}")
    if float32 not in get_args(Float32):
        raise DeviceError(f"{uri}: float32 must be one of {', '.join(get_args(Float32))}, not {float32!r}")
    return Target(array, int(columns), float32)  # type: ignore[arg-type]


def _known() -> str:
    return ", ".join(f"sim:{name}" for name in DEVICES)


@cache
def library() -> KernelLibrary:
    """Where the kernels of all simulated NPUs come from."""
    return KernelLibrary(host.HostBackend())


class SimulatedDevice:
    """One simulated NPU with memory of its own."""

    fusion = FUSION

    def __init__(self, uri: str, allocator: Allocator) -> None:
        self.uri = uri
        self.allocator = allocator
        self.target = parse(uri)
        self.array = SimulatedArray(self.target.array, self.target.columns)
        self.lock = threading.RLock()
        _devices.add(self)
        self._designs: WeakKeyDictionary[Design, ref[Design]] = WeakKeyDictionary()
        self._loaded: OrderedDict[int, LoadedDesign] = OrderedDict()

    def claim(self, task: Task) -> SimulatedKernel | Refusal:
        """A kernel of one of the families, or what they say against the task."""
        answer = kernels.claim(task, self.target)
        return answer if isinstance(answer, Refusal) else SimulatedKernel(self, task, answer)

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Make the designs, and compile their functions for this machine."""
        library().prepare([kernel.request for kernel in kernels if isinstance(kernel, SimulatedKernel)])

    def known(self, design: Design) -> Design:
        """The one object that stands for all equal designs."""
        with self.lock:
            reference = self._designs.get(design)
            known = reference() if reference is not None else None
            if known is None:
                known = design
                self._designs[design] = ref(design)
            return known

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


_devices: WeakSet[SimulatedDevice] = WeakSet()


def _in_child() -> None:
    """Threads that held a lock do not exist in a forked process."""
    for device in _devices:
        device.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class SimulatedKernel:
    """An offer of a kernel family, run by the simulator. `seconds` is predicted for the real array."""

    def __init__(self, device: SimulatedDevice, task: Task, offer: Offer) -> None:
        self.owner = device
        self.task = task
        self.offer = offer
        self.device = device.uri
        self.name = offer.family
        self.seconds = 0.0
        self.reason = offer.reason

    @cached_property
    def request(self) -> Request:
        """What the kernel is, for the library."""
        task = self.task
        design = self.owner.known(self.offer.design())
        return Request(kernel_name(task), design, tensor_descs(task), op_params(task))

    def bind(self) -> Step:
        """Find or compile the design's functions and return the step. Raises BuildError."""
        owner, offer, task, design = self.owner, self.offer, self.task, self.request.design
        artifact = library().find(self.request)
        owner.load(design, artifact)
        counters = count(design)
        prediction = predict(counters, design.array)
        self.seconds = prediction.seconds
        self.reason = f"{offer.reason}; {_origin(artifact)}; simulated: {summary(counters, prediction)}"
        buffers = [DeviceBuffer(host_bytes(operand)) for operand in offer.operands]

        def run(values: list[Any]) -> None:
            made = [owner.allocator.allocate(output.nbytes) for output in task.outputs]
            with owner.lock:
                for operand, buffer in zip(offer.operands, buffers, strict=True):
                    if operand.number is not None and not operand.output:
                        source = task.inputs[operand.number]
                        assert source.dtype is not None
                        elements = flat(values[source.item], source.dtype)
                        check_indexes(operand, elements, task.call)
                        pack(operand, elements, buffer.host)
                        buffer.to_device()
                words = [word(values[task.inputs[number].item], kind) for number, kind in offer.scalars]
                counted = owner.load(design, artifact).run([buffer.device for buffer in buffers], words)
                for operand, buffer in zip(offer.operands, buffers, strict=True):
                    if operand.number is not None and operand.output:
                        buffer.from_device()
                        result = task.outputs[operand.number]
                        unpack(operand, buffer.host, flat(made[operand.number], result.dtype))
            for output, memory in zip(task.outputs, made, strict=True):
                values[output.item] = memory
            if events.listeners:
                events.emit(_event(task, owner.uri, counted, prediction))

        return run


def _origin(artifact: Artifact) -> str:
    """Where a kernel came from, for `explain`."""
    if artifact.origin == "precompiled":
        return f"precompiled as {artifact.description['path']}"
    if artifact.origin == "built":
        return f"built in {artifact.description['build_seconds']:.2f} s"
    return f"from the {artifact.origin}" if artifact.origin == "cache" else "in memory"


def summary(counters: Counters, prediction: Prediction) -> str:
    """What a run costs the array, in words."""
    cores = sum(cycles > 0 for cycles in counters.cycles.values())
    busiest = max(counters.cycles.values(), default=0)
    return (
        f"{busiest:,} cycles on {cores} {'core' if cores == 1 else 'cores'}, {counters.ddr_bytes / 1e6:,.3g} MB of "
        f"host memory, limited by {prediction.limit}"
    )


def _event(task: Task, uri: str, counters: Counters, prediction: Prediction) -> events.KernelSimulated:
    return events.KernelSimulated(
        task.name,
        uri,
        max(counters.cycles.values(), default=0),
        max(counters.stream_bytes.values(), default=0),
        counters.ddr_bytes,
        prediction.seconds,
        prediction.limit,
    )
