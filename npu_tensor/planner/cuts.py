"""The second stage: ways to cut a graph into tasks, with the answers of the devices to each task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from npu_tensor.config import Fallback
from npu_tensor.planner.fuse import Tasks, cuts
from npu_tensor.planner.fuse.lower import lower
from npu_tensor.planner.measures import Declined, Measure
from npu_tensor.runtime.devices.host import host_devices
from npu_tensor.task import Accelerator, Kernel, Refusal, Task

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Answer", "Conditions", "Cut", "DeviceValue", "candidate_cuts"]

Answer = Kernel | Refusal | Declined
"""What an accelerator says to a task, or what placement has made of it."""


class DeviceValue(NamedTuple):
    """A value from outside in a device's memory. home: that device. nbytes: what the host has not fetched."""

    item: int
    home: Any
    nbytes: int


class Conditions(NamedTuple):
    """What a plan depends on besides the graph; read before planning.

    accelerators: in order of preference, before the processor. measure: what decides between devices; None for the
    first one that takes a task. resident: where values from outside are. persistent: items from outside that stay the
    same from run to run, as what a function under jit reads, so that bringing them to a device does not count; None
    for a plan that is not under jit.
    replaced: items from outside whose old values nobody reads after a run, so that an op may write over them, and the
    items of their new values. numbers: those from outside, as they are now: later runs may have others, and what is
    made for these must notice. uris: what was asked for. without_host: whether the processor may take nothing.
    """

    accelerators: tuple[Accelerator, ...]
    measure: Measure | None
    resident: tuple[DeviceValue, ...]
    persistent: frozenset[int] | None
    replaced: Mapping[int, int]
    numbers: Mapping[int, Any]
    uris: str
    without_host: bool
    fallback: Fallback


class Cut(NamedTuple):
    """A graph cut into tasks, and by task the answers of the accelerators, as far as they were asked."""

    tasks: Tasks
    answers: Sequence[Sequence[Answer]]


def candidate_cuts(graph: nx.DiGraph, conditions: Conditions) -> Iterator[Cut]:
    """The cuts to choose from: if costs count that for the processor, and those for the first accelerator.

    Made one by one, and devices are only asked for those that are looked at. Lowering adds attributes to the graph.
    """
    lowering = lower(graph)
    accelerators = conditions.accelerators
    if conditions.measure is not None or not accelerators:
        alone = next(cuts(lowering, host_devices()[0].fusion))
        yield Cut(alone, [()] * len(alone.tasks))
    if not accelerators:
        return
    answers: dict[tuple[int, ...], list[Kernel | Refusal]] = {}

    def ask(task: Task) -> list[Kernel | Refusal]:
        if task.items not in answers:
            answers[task.items] = [device.claim(task) for device in accelerators]
        return answers[task.items]

    def will_run(task: Task) -> bool:
        return any(not isinstance(answer, Refusal) or answer.pending for answer in ask(task))

    for tasks in cuts(lowering, accelerators[0].fusion, will_run):
        yield Cut(tasks, [ask(task) for task in tasks.tasks])
