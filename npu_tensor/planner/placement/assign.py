"""The search for a placement: dynamic programming over an order of the jobs.

Two partial placements have the same future if the devices are in the same contexts and the values that are still to be
read are on the same devices, apart from copies. Of those the cheaper one is kept, and of all kept ones the cheapest
few. The order is then improved for the placement that was found.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from npu_tensor.planner.placement.problem import Job, Overhead, Placement, Search, State, weight

__all__ = ["ordered", "place"]

MOST_KEPT: Final = 6
"""Upper bound on partial placements; more were seldom better by more than 0.1 %."""

ROUNDS: Final = 2
"""Number of orders that are tried: that of the jobs, and the best one for the placement found for it."""


def place(
    jobs: Sequence[Job],
    overheads: Sequence[Overhead],
    results: Collection[int] = (),
    resident: Mapping[int, tuple[int, float]] | None = None,
) -> Placement:
    """Search a placement of low cost. It never costs more than the processor alone.

    Equal arguments give equal placements. See `weight` for the arguments.
    """
    resident = resident or {}
    order: Sequence[int] = range(len(jobs))
    on_processor = (len(overheads),) * len(jobs)
    best = Placement(on_processor, tuple(order), weight(jobs, overheads, on_processor, order, results, resident))
    has_choice = any(option is not None for job in jobs for option in job.options[:-1])
    for _ in range(ROUNDS if has_choice else 0):
        devices = _best_devices(jobs, order, overheads, Search(jobs, overheads, order, results, resident))
        if devices == best.devices:
            break
        for candidate in (order, ordered(jobs, devices, overheads)):
            total = weight(jobs, overheads, devices, candidate, results, resident)
            if total < best.weight * (1 - 1e-12):  # A smaller difference is a rounding error.
                best = Placement(devices, tuple(candidate), total)
            order = candidate
    return best


def _best_devices(
    jobs: Sequence[Job], order: Sequence[int], overheads: Sequence[Overhead], search: Search
) -> tuple[int, ...]:
    """Return the devices of the best placement that is found in an order."""
    states = [search.start]
    for number in order:
        best: dict[Hashable, State] = {}
        for state in states:
            for device in range(len(overheads) + 1):
                if jobs[number].options[device] is not None:
                    added = search.step(state, number, device)
                    contexts = tuple([(usage.first, usage.last) for usage in added.usages])
                    places = frozenset([(value, place.device) for value, place in added.residencies.items()])
                    key = device, contexts, places
                    if key not in best or added.weight < best[key].weight:
                        best[key] = added
        states = sorted(best.values(), key=attrgetter("weight"))[:MOST_KEPT]
    chosen = min(states, key=lambda state: state.closed_weight(overheads)).devices
    devices = [0] * len(jobs)
    for number in reversed(order):
        devices[number], chosen = chosen
    return tuple(devices)


def ordered(jobs: Sequence[Job], devices: Sequence[int], overheads: Sequence[Overhead]) -> list[int]:
    """Return a topological order of jobs on devices with few launches and switches.

    The last device is the processor, which never switches. A job that continues the latest launch goes first, then one
    that needs no switch, on the processor before other devices. If all remaining jobs need a switch, the context with
    the most switches after it goes first; a device whose launches mix contexts continues its launch.
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
        option = job.options[device]
        assert option is not None
        labels.append((device, option.context))
    processor: tuple[int, Hashable] = (len(jobs[0].options) - 1, None)
    waiting: dict[tuple[int, Hashable], list[int]] = {}
    for number, count in enumerate(missing):
        if not count:
            waiting.setdefault(labels[number], []).append(number)
    current = {processor[0]: processor}  # by device: label that needs no switch
    mixed = {number for number, overhead in enumerate(overheads) if overhead.change is not None and overhead.launch}
    heights = _heights(readers, labels, processor)
    order: list[int] = []
    label: tuple[int, Hashable] | None = None
    while waiting:
        continuing = [each for each in waiting if label is not None and each[0] == label[0] and label[0] in mixed]
        label = next((each for each in current.values() if each in waiting), None) if not continuing else None
        if label is None:
            label = max(continuing or waiting, key=lambda each: max([heights[number] for number in waiting[each]]))
            current[label[0]] = label
        for number in (queue := waiting.pop(label)):  # The loop appends to it.
            order.append(number)
            for reader in readers[number]:
                missing[reader] -= 1
                if not missing[reader]:
                    (queue if labels[reader] == label else waiting.setdefault(labels[reader], [])).append(reader)
    return order


def _heights(
    readers: Sequence[Sequence[int]], labels: Sequence[tuple[int, Hashable]], processor: tuple[int, Hashable]
) -> list[int]:
    """Count the label changes of accelerators after each job on the longest path; jobs are in topological order."""
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
