"""The order in which placed jobs run, so that the devices seldom switch between contexts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from npu_tensor.planner.placement.problem import Job

__all__ = ["ordered"]


def ordered(jobs: Sequence[Job], devices: Sequence[int]) -> list[int]:
    """A topological order of jobs on devices; the last device is the processor, which never switches.

    A job that needs no switch runs as soon as it can, which never costs a switch later. If all that are left need
    one, the context goes first that has the most switches behind it.
    """
    maker = {value: number for number, job in enumerate(jobs) for value in job.outputs}
    readers: list[list[int]] = [[] for _ in jobs]
    missing = []
    for number, job in enumerate(jobs):
        sources = {maker[value] for value in job.inputs if value in maker}
        missing.append(len(sources))
        for source in sources:
            readers[source].append(number)
    labels: list[tuple[int, Hashable]] = []
    for job, device in zip(jobs, devices, strict=True):
        answer = job.answers[device]
        assert answer is not None
        labels.append((device, answer.context))
    processor: tuple[int, Hashable] = (len(jobs[0].answers) - 1, None)
    waiting: dict[tuple[int, Hashable], list[int]] = {}
    for number, count in enumerate(missing):
        if not count:
            waiting.setdefault(labels[number], []).append(number)
    current = {processor[0]: processor}  # by device: what goes on without a switch
    heights = _heights(readers, labels, processor)
    order: list[int] = []
    while waiting:
        label = next((each for each in current.values() if each in waiting), None)
        if label is None:
            label = max(waiting, key=lambda each: max([heights[number] for number in waiting[each]]))
            current[label[0]] = label
        for number in (queue := waiting.pop(label)):  # which grows meanwhile
            order.append(number)
            for reader in readers[number]:
                missing[reader] -= 1
                if not missing[reader]:
                    (queue if labels[reader] == label else waiting.setdefault(labels[reader], [])).append(reader)
    return order


def _heights(
    readers: Sequence[Sequence[int]], labels: Sequence[tuple[int, Hashable]], processor: tuple[int, Hashable]
) -> list[int]:
    """How many changes between labels of accelerators lie behind each job; the numbers are a topological order."""
    heights = [0] * len(labels)
    fronts = list(labels)
    for number in range(len(labels) - 1, -1, -1):
        label = labels[number]
        for reader in readers[number]:
            front = fronts[reader]
            height = heights[reader] + (processor not in (label, front) and label != front)
            if height > heights[number] or fronts[number] == processor:
                heights[number] = height
                fronts[number] = front if label == processor else label
    return heights
