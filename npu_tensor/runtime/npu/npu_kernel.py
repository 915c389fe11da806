"""What devices for NPU kernels have in common: kernels that a family offers, and what they are predicted to take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from functools import partial
from typing import Self
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

from npu_tensor._util.forks import cached_property, new_lock
from npu_tensor._util.units import size
from npu_tensor.dataflow.cost import Counters, Prediction, count, predict
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import BuildError
from npu_tensor.kernels.offer import Offer
from npu_tensor.runtime.npu.kernel_name import kernel_name, op_params, tensor_descs
from npu_tensor.runtime.npu.npu_cost import NpuCosts
from npu_tensor.runtime.rates import too_long
from npu_tensor.runtime.store.requests import Artifact, Request
from npu_tensor.task import Cost, Expense, Task

__all__ = ["OfferedKernel", "OfferingDevice", "known_design", "summary"]

_designs: WeakKeyDictionary[Design, ref[Design]] = WeakKeyDictionary()
_lock = new_lock()


def known_design(design: Design) -> Design:
    """The one object that stands for all equal designs: what is found for it is found by identity."""
    with _lock:
        reference = _designs.get(design)
        known = reference() if reference is not None else None
        if known is None:
            known = design
            _designs[design] = ref(design)
        return known


class _Made:
    """A design that was made, and what it counts: for all kernels whose offers make it from the same."""

    def __init__(self, design: Design) -> None:
        self.design = known_design(design)

    @cached_property
    def prediction(self) -> tuple[Counters, Prediction]:
        counters = count(self.design)
        return counters, predict(counters, self.design.array)


_made: WeakValueDictionary[Hashable, _Made] = WeakValueDictionary()


def _make(recipe: Callable[[], Design]) -> _Made:
    """The design of an offer. The layers of a model have equal recipes, and making a design takes milliseconds."""
    key = (recipe.func, recipe.args) if isinstance(recipe, partial) and not recipe.keywords else recipe
    found = _made.get(key)
    if found is None:
        found = _made[key] = _Made(recipe())
    return found


class OfferingDevice(ABC):
    """What a device with kernels like these is predicted to take. See `task.Accelerator`."""

    @property
    @abstractmethod
    def costs(self) -> NpuCosts:
        """Of its kernels."""

    @property
    def launch(self) -> Expense:
        """What the smallest kernel is predicted to take."""
        return self.costs.launch

    @property
    def switch(self) -> Expense:
        """What it is predicted to take besides, if a kernel follows one of another context."""
        return self.costs.switch

    def fetch(self, nbytes: int) -> Expense:
        """What it is predicted to take to bring a value back that lies in its memory only."""
        return self.costs.fetch(nbytes)

    @property
    def members(self) -> tuple[Self]:
        """Itself."""
        return (self,)


class OfferedKernel:
    """The fields of a Kernel that do not depend on what runs it. costs: of the device, predicted for the real array."""

    def __init__(self, device: str, task: Task, offer: Offer, costs: NpuCosts) -> None:
        self.device = device
        self.task = task
        self.offer = offer
        self.name = offer.family
        self.reason = offer.reason
        self.origin = "none"
        self._costs = costs

    @cached_property
    def _design(self) -> _Made:
        return _make(self.offer.design)

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
        # Equal designs are one program, which has one context.
        return self._costs.kernel(self.task, self.offer, counters, prediction, context=id(self._design.design))

    @property
    def is_too_long(self) -> bool:
        """Whether a launch might run into the watchdog of the driver, so that `bind` fails."""
        return too_long(self.cost) is not None

    def check_length(self) -> None:
        """Raise BuildError if a launch is too long."""
        if reason := too_long(self.cost):
            raise BuildError(f"{self.request.name}: {reason}")

    def counted(self, counters: Counters) -> tuple[float, str]:
        """The predicted seconds of a run that was counted, and what limits it."""
        prediction = predict(counters, self.request.design.array)
        return self._costs.kernel(self.task, self.offer, counters, prediction, 0).expense.seconds, prediction.limit

    def found(self, artifact: Artifact) -> None:
        """Note where the files came from, for `explain`."""
        counters, prediction = self.prediction
        self.origin = artifact.origin
        self.reason = f"{self.offer.reason}; {origin(artifact)}; predicted: {summary(counters, prediction)}"


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
    return (
        f"{busiest:,} cycles on {cores} {'core' if cores == 1 else 'cores'}, {size(counters.ddr_bytes)} of host "
        f"memory, limited by {prediction.limit}"
    )
