"""The second stage: ways to cut a graph into tasks, with the answers of the devices to each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from npu_tensor.config import Fallback
from npu_tensor.planner.fuse import Partition, partitions
from npu_tensor.planner.fuse.lower import Lowering
from npu_tensor.planner.measures import Declined, Measure
from npu_tensor.runtime.devices.host import host_devices
from npu_tensor.task import Accelerator, Kernel, Refusal, Task

__all__ = ["Answer", "Cut", "DeviceValue", "PlanningContext", "accelerator_cuts", "host_partition"]

Answer = Kernel | Refusal | Declined
"""Answer of an accelerator to a task, or the decision of the placement against its kernel."""


class DeviceValue(NamedTuple):
    """A value from outside in a device's memory.

    Attributes:
        item: Number of the value.
        home: Device that holds it.
        nbytes: Bytes that the host has not fetched.
    """

    item: int
    home: Any
    nbytes: int


class PlanningContext(NamedTuple):
    """Inputs of a plan besides the graph, read before planning.

    Attributes:
        accelerators: Devices in order of preference, without the processor.
        measure: Measure that decides between devices; None for the first device that takes a task.
        resident: Values from outside that are in the memory of a device.
        persistent: Items from outside that stay the same from run to run, such as those a function under jit reads;
            moving them to a device is free. None for a plan that is not under jit.
        replaced: Items from outside whose old values are not read after a run, each with the item of its new value.
            An op may write over the old value.
        numbers: Numbers from outside at the time of planning. Later runs may have others.
        uris: Device URIs that the user asked for.
        without_host: True if the processor must not run tasks.
        fallback: Setting that decides what happens if the processor runs a task of an accelerator.
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
    """A graph cut into tasks, with the answers of the accelerators to each task; no answers if none were asked."""

    partition: Partition
    answers: Sequence[Sequence[Answer]]


def host_partition(lowering: Lowering) -> Partition:
    """Cut a graph into tasks for the processor."""
    return partitions(lowering, host_devices()[0].fusion)[0]


def accelerator_cuts(lowering: Lowering, accelerators: Sequence[Accelerator]) -> list[Cut]:
    """Cut a graph into tasks for the first accelerator. The last cut has most tasks on accelerators."""
    answers: dict[tuple[int, ...], list[Kernel | Refusal]] = {}

    def ask(task: Task) -> list[Kernel | Refusal]:
        if task.items not in answers:
            answers[task.items] = [device.claim(task) for device in accelerators]
        return answers[task.items]

    def is_taken(task: Task) -> bool:
        return any(not isinstance(answer, Refusal) or answer.pending for answer in ask(task))

    found = partitions(lowering, accelerators[0].fusion, is_taken)
    return [Cut(partition, [ask(task) for task in partition.tasks]) for partition in found]
