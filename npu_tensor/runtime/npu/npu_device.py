"""What simulated and real NPUs have in common: all but their driver, their costs and where their kernels come from.

A step of a plan enqueues a launch and returns; its results say so when they are looked at.
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
from npu_tensor.runtime.npu.launch_plan import MOST_CONFIGURATIONS, LaunchPlan, launch_plans
from npu_tensor.runtime.npu.launch_step import LaunchStep
from npu_tensor.runtime.npu.npu_cost import NpuCosts
from npu_tensor.runtime.npu.npu_engine import NpuEngine, lock
from npu_tensor.runtime.npu.npu_kernel import NpuKernel
from npu_tensor.runtime.npu.npu_program import NpuProgram
from npu_tensor.runtime.npu.shared_tiles import share_configurations
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.store import Artifact
from npu_tensor.task import Expense, Kernel, PlannedLaunch, Refusal, Step, Task

__all__ = ["NpuDevice"]


class NpuDevice(ABC):
    """A device that runs the kernels of `npu_tensor.kernels`. See `task.Accelerator` and `task.AsynchronousDevice`.

    on_host: the step that computes a task on the CPU. self_checks: whether first results are compared with the CPU's.
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
        """Of its kernels."""

    @abstractmethod
    def kernels(self) -> KernelLibrary:
        """Where the kernels of all such devices come from."""

    @abstractmethod
    def open_engine(self) -> NpuEngine:
        """What runs on the device. Called once. Raises DeviceError if it cannot be opened."""

    @abstractmethod
    def program(self, plan: LaunchPlan, artifacts: Sequence[Artifact], packed: Sequence[Artifact]) -> NpuProgram:
        """What its driver loads for a launch. artifacts: of its kernels. packed: see `packed`.

        Raises BuildError, also where the files of a launch of several kernels are not there.
        """

    @property
    def engine(self) -> NpuEngine:
        """What runs on the device; begun when the first kernel is bound. Raises DeviceError."""
        if self._engine is None:
            with lock:
                if self._engine is None:
                    self._engine = self.open_engine()
        return self._engine

    @property
    def library(self) -> KernelLibrary:
        """Where its kernels come from. Opens the device first. Raises DeviceError."""
        _ = self.engine  # Before anything is compiled for it.
        return self.kernels()

    @property
    def checked(self) -> CheckedKernels | None:
        """The kernels that are known to be right here, if that is remembered."""
        return None

    @property
    def busy(self) -> int:
        """Launches that have not ended, as far as is known."""
        return 0 if self._engine is None else self._engine.busy

    @property
    def usable(self) -> bool:
        """False while the CPU takes all launches, after faults."""
        return self._engine is None or self._engine.health.state != "resting"

    @property
    def checks_now(self) -> bool:
        """Whether results are compared with the CPU's without a reason."""
        return self.self_checks and config.self_check

    def step(
        self, plan: LaunchPlan, artifacts: Sequence[Artifact], steps: Sequence[Step], packed: Sequence[Artifact] = ()
    ) -> Step:
        """The step of a launch, which enqueues it. steps: of each kernel by itself, unless it is one. See `program`."""
        program = self.engine.known(self.program(plan, artifacts, packed))
        if not self.checks_now or (self.checked is not None and program.key in self.checked):
            program.checked = True
        return LaunchStep(plan, self, program, [step for step in steps if isinstance(step, LaunchStep)])

    def submit(self) -> None:
        """Let what was launched begin."""
        if self._engine is not None:
            self._engine.submit()

    def synchronize(self) -> None:
        """Wait until all that was launched has ended. See `NpuEngine.synchronize`."""
        if self._engine is not None:
            self._engine.synchronize()

    def claim(self, task: Task) -> NpuKernel | Refusal:
        """A kernel of one of the families, or what they say against the task."""
        answer = families.claim(task, self.target)
        return answer if isinstance(answer, Refusal) else NpuKernel(self, task, answer)

    @property
    def can_build(self) -> bool:
        """Whether kernels that have no binary may be built, and there is a compiler."""
        return config.jit != "off" and self.kernels().backend.missing() is None

    def is_ready(self, kernel: NpuKernel) -> bool:
        """Whether its binary is somewhere, so that nothing has to be built."""
        return self.kernels().ready(kernel.request) is not None

    def is_loaded(self, kernel: NpuKernel) -> bool:
        """Whether there is a context for its configuration alone."""
        artifact = None if self._engine is None else self.kernels().ready(kernel.request)
        return artifact is not None and artifact.key in self.engine.contexts

    def settle(self, kernels: Sequence[Kernel], once: bool) -> None:
        """See `task.Accelerator`."""
        share_configurations([kernel for kernel in kernels if isinstance(kernel, NpuKernel)], self, once)

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Make the designs and compile them, if the device can be opened."""
        own = [kernel for kernel in kernels if isinstance(kernel, NpuKernel)]
        with suppress(DeviceError):  # Binding says why.
            self.engine.check_process()
            self.library.prepare([kernel.request for kernel in own if not kernel.is_too_long])

    @property
    def launch(self) -> Expense:
        """What a launch is predicted to take besides its kernels."""
        return self.costs.launch

    @property
    def switch(self) -> Expense:
        """What it is predicted to take besides, if a launch follows one of another context."""
        return self.costs.switch

    @property
    def change(self) -> Expense | None:
        """What another configuration within a launch is predicted to take; None if a launch has one."""
        return self.costs.change if config.launch_milliseconds else None

    @property
    def shared_contexts(self) -> int:
        """How many configurations of a plan fit in one binary, for all its launches. A full ELF serves one launch."""
        return 1 if self.change is None or self.target.array.full_elfs else MOST_CONFIGURATIONS

    def launches(
        self,
        kernels: Sequence[Kernel],
        steps: Sequence[Step],
        dying: Sequence[Sequence[int]],
        numbers: Mapping[int, Any],
        together: Sequence[Kernel],
    ) -> list[PlannedLaunch]:
        """See `task.Accelerator`. Kernels are launched one by one where what several of them need is not there."""
        own = [kernel for kernel in kernels if isinstance(kernel, NpuKernel)]
        packed = self.packed([kernel for kernel in together if isinstance(kernel, NpuKernel)])
        launches: list[PlannedLaunch] = []
        first = 0
        elf_numbers = numbers if self.target.array.full_elfs else None
        for plan in launch_plans(own, dying, self.change is not None, elf_numbers):
            count = len(plan.kernels)
            launches += self._launched(plan, steps[first : first + count], packed)
            first += count
        return launches

    def packed(self, kernels: Sequence[NpuKernel]) -> list[Artifact]:
        """What one binary is made of for all launches of a plan with these kernels: their files, each once.

        Nothing where each launch has a binary of its own, as a full ELF, and where there are too many configurations.
        """
        artifacts = {id(kernel.request.design.configuration): kernel.artifact for kernel in kernels}
        return [*artifacts.values()] if 1 < len(artifacts) <= self.shared_contexts else []

    def _launched(self, plan: LaunchPlan, steps: Sequence[Step], packed: Sequence[Artifact]) -> list[PlannedLaunch]:
        if len(steps) == 1 and not packed:
            return [PlannedLaunch(1, steps[0])]
        try:
            step = self.step(plan, [kernel.artifact for kernel in plan.kernels], steps, packed)
            return [PlannedLaunch(len(steps), step)]
        except (BuildError, DeviceError) as error:
            if events.listeners:
                events.emit(events.LaunchDivided(plan.name, self.uri, str(error)))
            pending = isinstance(error, BuildError) and error.pending
            return [PlannedLaunch(1, step, pending) for step in steps]

    def fetch(self, nbytes: int) -> Expense:
        """What it is predicted to take to bring a value back that lies in its memory only."""
        return self.costs.fetch(nbytes)

    @property
    def members(self) -> tuple[Self]:
        """Itself."""
        return (self,)
