"""What a device for NPU kernels answers to a task: the offer of a kernel family, and where its files come from."""

from __future__ import annotations

import os
import threading
from functools import cached_property
from weakref import WeakKeyDictionary, ref

from npu_tensor.dataflow.cost import Counters, Prediction, count, predict
from npu_tensor.dataflow.design import Design
from npu_tensor.kernels.offer import Offer
from npu_tensor.runtime.artifact import Artifact, Request
from npu_tensor.runtime.kernel_name import kernel_name, op_params, tensor_descs
from npu_tensor.task import Task

__all__ = ["OfferedKernel", "known_design", "summary"]

_designs: WeakKeyDictionary[Design, ref[Design]] = WeakKeyDictionary()
_lock = threading.Lock()


def _in_child() -> None:
    """The thread that may have held the lock does not exist in a forked process."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def known_design(design: Design) -> Design:
    """The one object that stands for all equal designs: what is found for it is found by identity."""
    with _lock:
        reference = _designs.get(design)
        known = reference() if reference is not None else None
        if known is None:
            known = design
            _designs[design] = ref(design)
        return known


class OfferedKernel:
    """The fields of a Kernel that do not depend on what runs it. `seconds` is predicted for the real array."""

    def __init__(self, device: str, task: Task, offer: Offer) -> None:
        self.device = device
        self.task = task
        self.offer = offer
        self.name = offer.family
        self.seconds = 0.0
        self.reason = offer.reason

    @cached_property
    def request(self) -> Request:
        """What the kernel is, for the library."""
        task = self.task
        return Request(kernel_name(task), known_design(self.offer.design()), tensor_descs(task), op_params(task))

    @cached_property
    def prediction(self) -> tuple[Counters, Prediction]:
        """What a run does on the array, and how long it is predicted to take there."""
        design = self.request.design
        counters = count(design)
        return counters, predict(counters, design.array)

    def found(self, artifact: Artifact, verb: str) -> None:
        """Note where the files came from, for `explain`. verb: "simulated" or "predicted", which the costs are."""
        counters, prediction = self.prediction
        self.seconds = prediction.seconds
        self.reason = f"{self.offer.reason}; {origin(artifact)}; {verb}: {summary(counters, prediction)}"


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
        f"{busiest:,} cycles on {cores} {'core' if cores == 1 else 'cores'}, {counters.ddr_bytes / 1e6:,.3g} MB of "
        f"host memory, limited by {prediction.limit}"
    )
