"""Base class of simulated and real NPUs: everything except their driver, their costs and the source of their kernels.

A step of a plan enqueues a launch and returns. Reading a result waits for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.errors import BuildError, DeviceError
from npu_tensor.kernels import families
from npu_tensor.kernels.offer import FUSION, Target
from npu_tensor.runtime.memory import Allocator
from npu_tensor.runtime.npu.checked import CheckedKernels
from npu_tensor.runtime.npu.driver import NpuProgram
from npu_tensor.runtime.npu.launch_plan import MOST_CONFIGURATIONS, LaunchPlan, launch_plans
from npu_tensor.runtime.npu.launch_step import LaunchStep
from npu_tensor.runtime.npu.npu_cost import NpuCosts
from npu_tensor.runtime.npu.npu_engine import NpuEngine, lock
from npu_tensor.runtime.npu.npu_kernel import NpuKernel
from npu_tensor.runtime.npu.shared_tiles import share_configurations
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.store import Artifact
from npu_tensor.task import Expense, Kernel, PlannedLaunch, Refusal, Step, Task


class NpuDevice(ABC):
    """A device that runs the kernels of `npu_tensor.kernels`. See `task.Accelerator` and `task.AsynchronousDevice`.

    Attributes:
        on_host: Function that creates a step for a task on the CPU.
        self_checks: True if first results are compared with the CPU's.
    """

    fusion = FUSION
    self_checks = True

    def __init__(self, uri: str, target: Target, allocator: Allocator, on_host: Callable[[Task], Step]) -> None:
        self.uri = uri
        self.target = target
        self.allocator = allocator
        self.on_host = on_host
        self._engine: NpuEngine | None = None

    @property
    @abstractmethod
    def costs(self) -> NpuCosts:
        """Predicted costs of its kernels."""

    @abstractmethod
    def kernels(self) -> KernelLibrary:
        """Return the kernel library of all devices of this class."""

    @abstractmethod
    def open_engine(self) -> NpuEngine:
        """Open the device. Called once. Raises DeviceError."""

    @abstractmethod
    def program(self, plan: LaunchPlan, artifacts: Sequence[Artifact], packed: Sequence[Artifact]) -> NpuProgram:
        """Create the program that the driver loads for a launch.

        Args:
            plan: The launch.
            artifacts: Files of each of its kernels.
            packed: Files of all kernels in a shared binary, see `packed`.

        Raises:
            BuildError: The files do not fit, or a launch of several kernels cannot be built.
        """

    @property
    def engine(self) -> NpuEngine:
        """Engine of the device, opened on first use. Raises DeviceError."""
        if self._engine is None:
            with lock:
                if self._engine is None:
                    self._engine = self.open_engine()
        return self._engine

    @property
    def library(self) -> KernelLibrary:
        """Kernel library. Opens the device before anything is compiled for it. Raises DeviceError."""
        _ = self.engine
        return self.kernels()

    @property
    def checked(self) -> CheckedKernels | None:
        """Persistent record of kernels that gave correct results here, if the device has one."""
        return None

    @property
    def busy(self) -> int:
        """Number of launches that are not known to have ended."""
        return 0 if self._engine is None else self._engine.busy

    @property
    def usable(self) -> bool:
        """False while the CPU takes all launches, after faults."""
        return self._engine is None or not self._engine.health.resting

    def step(
        self, plan: LaunchPlan, artifacts: Sequence[Artifact], steps: Sequence[Step], packed: Sequence[Artifact] = ()
    ) -> Step:
        """Create the step of a launch; `steps` are those of its kernels one by one. See `program`."""
        program = self.engine.known(self.program(plan, artifacts, packed))
        checks = self.self_checks and config.self_check
        if not checks or (self.checked is not None and program.key in self.checked):
            program.checked = True
        return LaunchStep(plan, self, program, [step for step in steps if isinstance(step, LaunchStep)])

    def submit(self) -> None:
        """Start the queued launches."""
        if self._engine is not None:
            self._engine.submit()

    def synchronize(self) -> None:
        """Wait until all launches have ended. See `NpuEngine.synchronize`."""
        if self._engine is not None:
            self._engine.synchronize()

    def claim(self, task: Task) -> NpuKernel | Refusal:
        """Return a kernel of one of the families, or their reasons against the task."""
        answer = families.claim(task, self.target)
        return answer if isinstance(answer, Refusal) else NpuKernel(self, task, answer)

    @property
    def can_build(self) -> bool:
        """True if kernels without a binary may be built, and a compiler is available."""
        return config.jit != "off" and self.kernels().backend.missing() is None

    def is_ready(self, kernel: NpuKernel) -> bool:
        """Return True if the kernel has a binary, so that nothing must be built."""
        return self.kernels().ready(kernel.request) is not None

    def is_loaded(self, kernel: NpuKernel) -> bool:
        """Return True if a context with only the kernel's configuration is open."""
        artifact = None if self._engine is None else self.kernels().ready(kernel.request)
        return artifact is not None and artifact.key in self.engine.contexts

    def share_configurations(self, kernels: Sequence[Kernel], once: bool) -> None:
        """See `task.Accelerator`."""
        share_configurations([kernel for kernel in kernels if isinstance(kernel, NpuKernel)], self, once)

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Create and compile the designs, if the device can be opened."""
        own = [kernel for kernel in kernels if isinstance(kernel, NpuKernel)]
        with suppress(DeviceError):  # Binding raises it.
            self.engine.check_process()
            self.library.prepare([kernel.request for kernel in own if not kernel.is_too_long])

    @property
    def launch_cost(self) -> Expense:
        """Predicted overhead of a launch, without its kernels."""
        return self.costs.launch_cost

    @property
    def switch_cost(self) -> Expense:
        """Predicted extra cost of a launch that follows one of another hardware context."""
        return self.costs.switch_cost

    @property
    def reconfiguration_cost(self) -> Expense | None:
        """Predicted cost of another configuration within a launch; None if a launch can have only one."""
        return self.costs.reconfiguration_cost if config.launch_milliseconds else None

    @property
    def shared_contexts(self) -> int:
        """Maximum number of configurations that all launches of a plan share. A full ELF serves a single launch."""
        return 1 if self.reconfiguration_cost is None or self.target.array.full_elfs else MOST_CONFIGURATIONS

    def launches(
        self,
        kernels: Sequence[Kernel],
        steps: Sequence[Step],
        dying: Sequence[Sequence[int]],
        numbers: Mapping[int, Any],
        together: Sequence[Kernel],
    ) -> list[PlannedLaunch]:
        """See `task.Accelerator`. Kernels whose joint binary cannot be built are launched one by one."""
        own = [kernel for kernel in kernels if isinstance(kernel, NpuKernel)]
        packed = self.packed([kernel for kernel in together if isinstance(kernel, NpuKernel)])
        launches: list[PlannedLaunch] = []
        first = 0
        elf_numbers = numbers if self.target.array.full_elfs else None
        for plan in launch_plans(own, dying, self.reconfiguration_cost is not None, elf_numbers):
            count = len(plan.kernels)
            launches += self._launched(plan, steps[first : first + count], packed)
            first += count
        return launches

    def packed(self, kernels: Sequence[NpuKernel]) -> list[Artifact]:
        """Return the distinct files of a binary that all launches of a plan with these kernels share.

        The list is empty if each launch has a binary of its own, or if there are too many configurations.
        """
        artifacts = {id(kernel.request.design.configuration): kernel.artifact for kernel in kernels}
        packed = [artifact for artifact in artifacts.values() if artifact is not None]
        return packed if 1 < len(packed) <= self.shared_contexts else []

    def _launched(self, plan: LaunchPlan, steps: Sequence[Step], packed: Sequence[Artifact]) -> list[PlannedLaunch]:
        if len(steps) == 1 and not packed:
            return [PlannedLaunch(1, steps[0])]
        artifacts = [kernel.artifact for kernel in plan.kernels if kernel.artifact is not None]
        try:
            return [PlannedLaunch(len(steps), self.step(plan, artifacts, steps, packed))]
        except (BuildError, DeviceError) as error:
            if events.listeners:
                events.emit(events.LaunchDivided(plan.program.name, self.uri, str(error)))
            pending = isinstance(error, BuildError) and error.pending
            return [PlannedLaunch(1, step, pending) for step in steps]

    def fetch_cost(self, nbytes: int) -> Expense:
        """Return the predicted cost of reading a value of `nbytes` that only its memory holds."""
        return self.costs.fetch_cost(nbytes)

    @property
    def members(self) -> tuple[Self]:
        """The device itself."""
        return (self,)
