"""The order in which placed jobs run, so that the devices seldom switch between contexts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["Run", "kept", "ordered", "switched"]

NEVER: tuple[float, Any] = (float("-inf"), None)
"""What is gained by no runs that could be kept, and none of them."""


class Run(NamedTuple):
    """Jobs that follow each other on a device without a switch."""

    label: int
    jobs: list[int]


def ordered(
    readers: Sequence[Sequence[int]],
    sources: Sequence[Sequence[int]],
    labels: Sequence[int],
    device_of: Sequence[int],
) -> tuple[list[int], list[list[Run]]]:
    """A topological order of jobs, and the runs of every device in it. For the arguments see `Moves`.

    A job that needs no switch runs as soon as it can, which never costs a switch later. If all that are left need
    one, the context goes first that has the most switches behind it.
    """
    missing = list(map(len, sources))
    waiting: list[list[int]] = [[] for _ in device_of]
    for job, count in enumerate(missing):
        if not count:
            waiting[labels[job]].append(job)
    order: list[int] = []
    current = {device_of[0]: Run(0, [])}  # by device: what goes on without a switch
    runs: list[list[Run]] = [[] for _ in range(device_of[0])]
    heights: list[int] = []
    while True:
        ran = -1
        while ran < len(order):
            ran = len(order)
            for label, run in current.values():
                queue = waiting[label]
                for job in queue:  # which grows meanwhile
                    for reader in readers[job]:
                        missing[reader] -= 1
                        if not missing[reader]:
                            waiting[labels[reader]].append(reader)
                order += queue
                run.extend(queue)
                queue.clear()
        candidates = [label for label, queue in enumerate(waiting) if queue]
        if not candidates:
            return order, runs
        label = candidates[0]
        if len(candidates) > 1:
            heights = heights or _heights(readers, labels)
            label = max(candidates, key=lambda label: max([heights[job] for job in waiting[label]]))
        device = device_of[label]
        current[device] = Run(label, [])
        runs[device].append(current[device])


def _heights(readers: Sequence[Sequence[int]], labels: Sequence[int]) -> list[int]:
    """How many changes of the label, but for 0, lie behind each job, whose numbers are a topological order."""
    heights = [0] * len(labels)
    fronts = list(labels)
    for job in range(len(labels) - 1, -1, -1):
        label = labels[job]
        for reader in readers[job]:
            front = fronts[reader]
            height = heights[reader] + (0 < label != front > 0)
            if height > heights[job] or not fronts[job]:
                heights[job] = height
                fronts[job] = label or front
    return heights


def switched(runs: Sequence[Run]) -> int:
    """How often a device switches if the first run follows the last one."""
    return len(runs) - (runs[0].label == runs[-1].label) if len(runs) > 1 else 0


def kept(labels: Sequence[int], gains: Sequence[float], switch: float) -> set[int]:
    """The runs to keep so that their gains less the switches between them are most, if the first follows the last.

    labels, gains: by run.
    """
    most, best = 0.0, None
    for first in dict.fromkeys(labels):
        # If this is the label of the first run that is kept: by the label of the last one, what they gain and which
        # they are, as a linked list from the last one on; and the best of these, whatever its label.
        ends: dict[int, tuple[float, Any]] = {first: (0.0, None)}
        top: tuple[float, Any] = (0.0, None)
        for number, (label, gain) in enumerate(zip(labels, gains, strict=True)):
            value, chain = ends.get(label, NEVER)
            if top[0] - switch > value and top[1] is not None:
                value, chain = top[0] - switch, top[1]
            if value + gain > ends.get(label, NEVER)[0]:
                ends[label] = (value + gain, (number, chain))
                top = max(top, ends[label], key=_value)
        for last, (value, chain) in ends.items():
            value -= 0.0 if last == first else switch
            if value > most:
                most, best = value, chain
    numbers = set()
    while best is not None:
        number, best = best
        numbers.add(number)
    return numbers


def _value(end: tuple[float, Any]) -> float:
    return end[0]
