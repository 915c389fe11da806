"""The kernels that NPUs take, and what these are predicted to take."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

from npu_tensor._util.forks import cached_property, new_lock
from npu_tensor._util.units import quantity, size
from npu_tensor.dataflow.cost import Counters, Prediction, count, predict
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import BuildError
from npu_tensor.kernels.offer import Offer
from npu_tensor.runtime.npu.kernel_name import kernel_name, op_params, tensor_descs
from npu_tensor.runtime.npu.launch_plan import alone
from npu_tensor.runtime.npu.packing import word
from npu_tensor.runtime.rates import too_long
from npu_tensor.runtime.store.requests import Request
from npu_tensor.runtime.store.store import Artifact
from npu_tensor.task import Cost, Step, Task

if TYPE_CHECKING:
    from npu_tensor.runtime.npu.npu_device import NpuDevice

__all__ = ["NpuKernel", "known_design", "summary"]

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
        self.reason = f"{self.reason}; {origin(artifact)}; predicted: {summary(counters, prediction)}"
        return step

    @property
    def others(self) -> Iterator[NpuKernel]:
        """The same with other configurations, the faster ones first."""
        for make in self.offer.others:
            offer = make()
            if isinstance(offer, Offer):
                kernel = NpuKernel(self.owner, self.task, offer)
                if not kernel.is_too_long:
                    yield kernel

    def become(self, other: NpuKernel, why: str) -> None:
        """Take the configuration of another one for the same task. why: the reason for `explain`."""
        best = self.offer
        offer = other.offer._replace(others=(lambda: best, *best.others))
        self.__dict__ = other.__dict__ | {"offer": offer, "reason": f"{other.reason}; {why}"}

    def _files(self) -> Artifact:
        """Its files, or those of the fastest other offer that are ready where it has none. Raises BuildError."""
        library = self.owner.library
        try:
            return library.find(self.request)
        except BuildError as error:
            if error.pending or error.transient:
                raise
            for other in self.others:
                artifact = library.ready(other.request)
                if artifact is not None:
                    self.become(other, f"better tiles have no binary: {error}")
                    return artifact
            raise

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
