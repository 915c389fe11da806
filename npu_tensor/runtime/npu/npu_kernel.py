"""Kernels of NPUs with their predicted costs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from npu_tensor._util.forks import cached_property
from npu_tensor._util.units import quantity, size
from npu_tensor.dataflow.cost import Counters, Prediction, count, predict
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import BuildError
from npu_tensor.kernels.offer import Offer
from npu_tensor.runtime.npu.kernel_name import kernel_name, op_params, tensor_descs
from npu_tensor.runtime.npu.launch_plan import launch_single_kernel
from npu_tensor.runtime.npu.packing import word
from npu_tensor.runtime.rates import too_long
from npu_tensor.runtime.store.requests import Request
from npu_tensor.runtime.store.store import Artifact
from npu_tensor.task import Cost, Step, Task

if TYPE_CHECKING:
    from npu_tensor.runtime.npu.npu_device import NpuDevice


class _CountedDesign:
    """A design with its counters, shared by all kernels whose offers have the same recipe."""

    def __init__(self, design: Design) -> None:
        self.design = design.shared()  # Lookups by identity use it.

    @cached_property
    def prediction(self) -> tuple[Counters, Prediction]:
        counters = count(self.design)
        return counters, predict(counters, self.design.array)


_counted: WeakValueDictionary[Hashable, _CountedDesign] = WeakValueDictionary()
"""Designs by recipe. The layers of a model have equal recipes, and creating a design takes milliseconds."""


def _counted_design(recipe: Callable[[], Design]) -> _CountedDesign:
    """Return the design of a recipe, created once."""
    key = (recipe.func, recipe.args) if isinstance(recipe, partial) and not recipe.keywords else recipe
    counted = _counted.get(key)
    if counted is None:
        counted = _counted[key] = _CountedDesign(recipe())
    return counted


class NpuKernel:
    """An offer of a kernel family, for one device. Its cost is predicted for the real array.

    Attributes:
        artifact: Files of the kernel, once it is bound.
        origin: Source of the files: "none" before it is bound.
    """

    def __init__(self, owner: NpuDevice, task: Task, offer: Offer) -> None:
        self.owner = owner
        self.device = owner.uri
        self.task = task
        self.offer = offer
        self.name = offer.family
        self.reason = offer.reason
        self.origin = "none"
        self.artifact: Artifact | None = None

    @cached_property
    def design(self) -> _CountedDesign:
        """Design of the offer, created on first use."""
        return _counted_design(self.offer.design)

    @cached_property
    def request(self) -> Request:
        """Request for the kernel library."""
        task = self.task
        return Request(kernel_name(task), self.design.design, tensor_descs(task), op_params(task))

    @property
    def prediction(self) -> tuple[Counters, Prediction]:
        """Counters of a run on the array, and its predicted time there."""
        return self.design.prediction

    @cached_property
    def cost(self) -> Cost:
        """Predicted cost of a run."""
        context = id(self.design.design.configuration)  # All designs that share it run in one context.
        return self.owner.costs.kernel(self.task, self.offer, *self.prediction, context)

    @property
    def is_too_long(self) -> bool:
        """True if a launch might exceed the time limit of the driver, so that `bind` raises."""
        return too_long(self.cost) is not None

    def bind(self) -> Step:
        """Find or compile the design and return the step. Raises BuildError, DeviceError."""
        if reason := too_long(self.cost):
            raise BuildError(f"{self.request.name}: {reason}")
        artifact = self.artifact = self._find_files()
        step = self.owner.step(launch_single_kernel(self), [artifact], ())
        counters, prediction = self.prediction
        self.origin = artifact.origin
        self.reason = f"{self.reason}; {origin(artifact)}; predicted: {summary(counters, prediction)}"
        return step

    @property
    def others(self) -> Iterator[NpuKernel]:
        """Kernels for the same task with other configurations, faster ones first."""
        for make in self.offer.others:
            offer = make()
            if isinstance(offer, Offer):
                kernel = NpuKernel(self.owner, self.task, offer)
                if not kernel.is_too_long:
                    yield kernel

    def replace_tiling(self, other: NpuKernel, reason: str) -> None:
        """Adopt the offer of another kernel for the same task. `explain` shows the reason."""
        best = self.offer
        self.offer = other.offer._replace(others=(lambda: best, *best.others))
        self.name = other.name
        self.reason = f"{other.reason}; {reason}" if reason else other.reason
        self.design, self.request, self.cost = other.design, other.request, other.cost

    def _find_files(self) -> Artifact:
        """Find or build the files. If that fails, adopt the fastest other offer that is built. Raises BuildError."""
        library = self.owner.library
        try:
            return library.find(self.request)
        except BuildError as error:
            if error.pending or error.transient:
                raise
            for other in self.others:
                artifact = library.ready(other.request)
                if artifact is not None:
                    self.replace_tiling(other, f"better tiles have no binary: {error}")
                    return artifact
            raise

    def words(self, values: Sequence[Any] | Mapping[int, Any]) -> list[int]:
        """Return the runtime parameters of a run from the values of a plan, by item."""
        return [word(values[self.task.inputs[number].item], kind) for number, kind in self.offer.scalars]

    def counted(self, counters: Counters) -> tuple[float, str]:
        """Return the predicted seconds of a run with these counters, and the limiting resource."""
        prediction = predict(counters, self.request.design.array)
        return self.owner.costs.kernel(self.task, self.offer, counters, prediction, 0).expense.seconds, prediction.limit


def origin(artifact: Artifact) -> str:
    """Describe the source of a kernel's files."""
    if artifact.origin == "precompiled":
        return f"precompiled as {artifact.description['path']}"
    if artifact.origin == "built":
        return f"built in {artifact.description['build_seconds']:.2f} s"
    return f"from the {artifact.origin}" if artifact.origin == "cache" else "in memory"


def summary(counters: Counters, prediction: Prediction) -> str:
    """Describe the work of a run on the array."""
    cores = sum(cycles > 0 for cycles in counters.cycles.values())
    busiest = max(counters.cycles.values(), default=0)
    rate = quantity(counters.ddr_bytes / prediction.seconds, "B/s")
    return (
        f"{busiest:,} cycles on {cores} {'core' if cores == 1 else 'cores'}, {size(counters.ddr_bytes)} of host "
        f"memory at {rate}, limited by {prediction.limit}"
    )
