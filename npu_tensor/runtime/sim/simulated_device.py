"""Simulated NPU as a device: `sim:npu1`, `sim:npu2`, with options as in `sim:npu2?cols=4&float32=emulate`.

`sim:npu2x2` combines two of them in one device. The device accepts the tasks for which a kernel family of
`npu_tensor.kernels` has a design, and runs exactly that design.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from weakref import WeakSet, WeakValueDictionary

from npu_tensor._util.forks import cached_property, in_child
from npu_tensor.dataflow.design import Design
from npu_tensor.kernels.offer import Target
from npu_tensor.runtime.memory import Allocator
from npu_tensor.runtime.npu.launch_plan import LaunchPlan
from npu_tensor.runtime.npu.npu_cost import NpuCosts
from npu_tensor.runtime.npu.npu_device import NpuDevice
from npu_tensor.runtime.npu.npu_engine import NpuEngine
from npu_tensor.runtime.rates import npu_rates, processor_rates
from npu_tensor.runtime.sim import host_backend as host
from npu_tensor.runtime.sim.simulated_array import LoadedConfiguration, LoadedDesign, SimulatedArray
from npu_tensor.runtime.sim.simulated_driver import KernelRun, SimulatedDriver, SimulatedProgram
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.store import Artifact
from npu_tensor.task import Step, Task


@cache
def library() -> KernelLibrary:
    """Return the library with the kernels of all simulated NPUs."""
    return KernelLibrary(host.HostBackend())


class SimulatedDevice(NpuDevice):
    """One simulated NPU with memory of its own.

    Its purpose is to show the behaviour of a kernel. A result is therefore not replaced by the CPU's unless a launch
    fails.
    """

    self_checks = False

    def __init__(self, uri: str, target: Target, allocator: Allocator, on_host: Callable[[Task], Step]) -> None:
        super().__init__(uri, target, allocator, on_host)
        # Keyed by identity, because hashing takes long. A loaded design keeps both alive.
        self._configurations: WeakValueDictionary[int, LoadedConfiguration] = WeakValueDictionary()
        self._designs: WeakValueDictionary[int, LoadedDesign] = WeakValueDictionary()

    @cached_property
    def costs(self) -> NpuCosts:
        """Costs predicted for the real array; they cannot be measured here."""
        return NpuCosts(npu_rates(self.target.array.device), processor_rates(), self.target)

    @cached_property
    def array(self) -> SimulatedArray:
        """Simulated array, with a thread of its own."""
        return SimulatedArray(self.target.array, self.target.columns, self.costs.rates.ddr_bytes_per_second)

    def kernels(self) -> KernelLibrary:
        """Return the library shared by all simulated NPUs."""
        return library()

    def open_engine(self) -> NpuEngine:
        """Open an engine, see `NpuDevice.open_engine`."""
        engine = NpuEngine(SimulatedDriver(self.array), self.target.array.arch, self.uri, self.allocator)
        _engines.add(engine)
        return engine

    def load(self, design: Design, artifact: Artifact) -> LoadedDesign:
        """Load a design with its compiled functions, or return the loaded one. Raises BuildError."""
        key = id(design.configuration)
        loaded = self._designs.get(id(design))
        if loaded is None:
            configuration = self._configurations.get(key)
            entries = host.entries(design, artifact.files, artifact.description) if configuration is None else None
            loaded = self._designs[id(design)] = self.array.load(design, entries=entries, loaded=configuration)
            self._configurations[key] = loaded.configuration
        return loaded

    def program(self, plan: LaunchPlan, artifacts: Sequence[Artifact], packed: Sequence[Artifact]) -> SimulatedProgram:
        """Prepare a program, see `NpuDevice.program`."""
        runs = [
            KernelRun(kernel, self.load(run.design, artifact), run.slices)
            for kernel, run, artifact in zip(plan.kernels, plan.program.runs, artifacts, strict=True)
        ]
        return SimulatedProgram(
            name=plan.program.name,
            key=" ".join([f"{kernel.task.name} {id(loaded.design)} {slices}" for kernel, loaded, slices in runs]),
            binary=" ".join(sorted({artifact.key for artifact in packed or artifacts})),
            sizes=plan.program.arguments,
            runs=runs,
            written=[argument.output for argument in plan.arguments],
        )


_engines: WeakSet[NpuEngine] = WeakSet()


def _leave_to_parent() -> None:
    """Abandon all launches in a forked process, where the arrays' threads do not exist. The CPU computes them."""
    for engine in _engines:
        engine.abandon_all()


in_child(_leave_to_parent)
