"""What simulated and real NPUs have in common: the kernels that they take, and what these are predicted to take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Self
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

from npu_tensor import events
from npu_tensor._util.forks import cached_property, new_lock
from npu_tensor._util.units import quantity, size
from npu_tensor.config import config
from npu_tensor.dataflow.cost import Counters, Prediction, count, predict
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import BuildError, DeviceError
from npu_tensor.kernels import families
from npu_tensor.kernels.offer import FUSION, Offer, Target
from npu_tensor.runtime.memory import Allocator
from npu_tensor.runtime.npu.kernel_name import kernel_name, op_params, tensor_descs
from npu_tensor.runtime.npu.launch_plan import LaunchPlan, alone, launch_plans
from npu_tensor.runtime.npu.npu_cost import NpuCosts
from npu_tensor.runtime.npu.packing import word
from npu_tensor.runtime.rates import too_long
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import Artifact, Request
from npu_tensor.task import Cost, Expense, Kernel, PlannedLaunch, Refusal, Step, Task

__all__ = ["NpuDevice", "NpuKernel", "known_design", "summary"]

_designs: WeakKeyDictionary[Design, ref[Design]] = WeakKeyDictionary()
_lock = new_lock()


def known_design(design: Design) -> Design:
    """The one object that stands for all equal designs: what is found for it is found by identity."""
    with _lock:
        reference = _designs.get(design)
        shared = reference() if reference is not None else None
        if shared is None:
            shared = design
            _designs[design] = ref(design)
        return shared


class _CountedDesign:
    """A design with what it counts, for all kernels whose offers have the same recipe."""

    def __init__(self, design: Design) -> None:
        self.design = known_design(design)

    @cached_property
    def prediction(self) -> tuple[Counters, Prediction]:
        counters = count(self.design)
        return counters, predict(counters, self.design.array)


_counted: WeakValueDictionary[Hashable, _CountedDesign] = WeakValueDictionary()
"""By recipe: the layers of a model have equal ones, and making a design takes milliseconds."""


def _counted_design(recipe: Callable[[], Design]) -> _CountedDesign:
    """The design of an offer."""
    key = (recipe.func, recipe.args) if isinstance(recipe, partial) and not recipe.keywords else recipe
    counted = _counted.get(key)
    if counted is None:
        counted = _counted[key] = _CountedDesign(recipe())
    return counted


class NpuDevice(ABC):
    """A device that runs the kernels of `npu_tensor.kernels`. See `task.Accelerator`."""

    fusion = FUSION

    def __init__(self, uri: str, target: Target, allocator: Allocator) -> None:
        self.uri = uri
        self.target = target
        self.allocator = allocator

    @property
    @abstractmethod
    def costs(self) -> NpuCosts:
        """Of its kernels."""

    @property
    @abstractmethod
    def library(self) -> KernelLibrary:
        """Where its kernels come from. Raises DeviceError if the device cannot be opened."""

    @abstractmethod
    def step(self, plan: LaunchPlan, artifacts: Sequence[Artifact], steps: Sequence[Step]) -> Step:
        """The step of a launch. artifacts: of its kernels. steps: of each kernel by itself, unless it is one.

        Raises BuildError, also where the files of a launch of several kernels are not there.
        """

    def claim(self, task: Task) -> NpuKernel | Refusal:
        """A kernel of one of the families, or what they say against the task."""
        answer = families.claim(task, self.target)
        return answer if isinstance(answer, Refusal) else NpuKernel(self, task, answer)

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Make the designs and compile them."""
        own = [kernel for kernel in kernels if isinstance(kernel, NpuKernel)]
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

    def launches(
        self,
        kernels: Sequence[Kernel],
        steps: Sequence[Step],
        dying: Sequence[Sequence[int]],
        numbers: Mapping[int, Any],
    ) -> list[PlannedLaunch]:
        """See `task.Accelerator`. Kernels are launched one by one where what several of them need is not there."""
        own = [kernel for kernel in kernels if isinstance(kernel, NpuKernel)]
        launches: list[PlannedLaunch] = []
        first = 0
        for plan in launch_plans(own, dying, self.change is not None, numbers):
            count = len(plan.kernels)
            launches += self._launched(plan, steps[first : first + count])
            first += count
        return launches

    def _launched(self, plan: LaunchPlan, steps: Sequence[Step]) -> list[PlannedLaunch]:
        if len(steps) == 1:
            return [PlannedLaunch(1, steps[0])]
        try:
            return [PlannedLaunch(len(steps), self.step(plan, [kernel.artifact for kernel in plan.kernels], steps))]
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


class NpuKernel:
    """An offer of a kernel family, for one device. Its cost is predicted for the real array.

    artifact: its files, once it is bound.
    """

    artifact: Artifact

    def __init__(self, owner: NpuDevice, task: Task, offer: Offer) -> None:
        self.owner = owner
        self.device = owner.uri
        self.task = task
        self.offer = offer
        self.name = offer.family
        self.reason = offer.reason
        self.origin = "none"

    @cached_property
    def _design(self) -> _CountedDesign:
        return _counted_design(self.offer.design)

    @cached_property
    def request(self) -> Request:
        """What the kernel is, for the library."""
        task = self.task
        return Request(kernel_name(task), self._design.design, tensor_descs(task), op_params(task))

    @property
    def prediction(self) -> tuple[Counters, Prediction]:
        """What a run does on the array, and how long it is predicted to take there."""
        return self._design.prediction

    @cached_property
    def cost(self) -> Cost:
        """What a run is predicted to take. The first time, the design is made."""
        counters, prediction = self.prediction
        context = id(self._design.design.configuration)  # There is one context for all designs that share it.
        return self.owner.costs.kernel(self.task, self.offer, counters, prediction, context)

    @property
    def is_too_long(self) -> bool:
        """Whether a launch might run into the watchdog of the driver, so that `bind` raises."""
        return too_long(self.cost) is not None

    def bind(self) -> Step:
        """Find or compile the design and return the step. Raises BuildError, DeviceError."""
        if reason := too_long(self.cost):
            raise BuildError(f"{self.request.name}: {reason}")
        artifact = self.artifact = self._files()
        step = self.owner.step(alone(self), [artifact], ())
        counters, prediction = self.prediction
        self.origin = artifact.origin
        self.reason = f"{self.offer.reason}; {origin(artifact)}; predicted: {summary(counters, prediction)}"
        return step

    def _files(self) -> Artifact:
        """Its files, or those of the fastest other offer that are ready where it has none. Raises BuildError."""
        library, first = self.owner.library, self.offer
        try:
            return library.find(self.request)
        except BuildError as error:
            if not error.pending:
                for make in first.others:
                    other = make()
                    if isinstance(other, Offer):
                        self._take(other)
                        artifact = None if self.is_too_long else library.ready(self.request)
                        if artifact is not None:
                            return artifact
                self._take(first)
            raise

    def _take(self, offer: Offer) -> None:
        """Be the kernel of another offer of its family."""
        self.offer = offer
        for name in ("_design", "request", "cost"):
            self.__dict__.pop(name, None)

    def words(self, values: Sequence[Any] | Mapping[int, Any]) -> list[int]:
        """What a run gives every runtime parameter, from the values of a plan, by item."""
        return [word(values[self.task.inputs[number].item], kind) for number, kind in self.offer.scalars]

    def counted(self, counters: Counters) -> tuple[float, str]:
        """The predicted seconds of a run that was counted, and what limits it."""
        prediction = predict(counters, self.request.design.array)
        return self.owner.costs.kernel(self.task, self.offer, counters, prediction, 0).expense.seconds, prediction.limit


def origin(artifact: Artifact) -> str:
    """Where a kernel came from, in words."""
    if artifact.origin == "precompiled":
        return f"precompiled as {artifact.description['path']}"
    if artifact.origin == "built":
        return f"built in {artifact.description['build_seconds']:.2f} s"
    return f"from the {artifact.origin}" if artifact.origin == "cache" else "in memory"


def summary(counters: Counters, prediction: Prediction) -> str:
    """What a run costs the array, in words."""
    cores = sum(cycles > 0 for cycles in counters.cycles.values())
    busiest = max(counters.cycles.values(), default=0)
    rate = quantity(counters.ddr_bytes / prediction.seconds, "B/s")
    return (
        f"{busiest:,} cycles on {cores} {'core' if cores == 1 else 'cores'}, {size(counters.ddr_bytes)} of host "
        f"memory at {rate}, limited by {prediction.limit}"
    )
