"""The search for a placement: dynamic programming over an order of the jobs.

What is still to come takes the same for all placements so far that have left the devices in the same contexts and the
values that are still read on the same devices, but for copies that these have. So of those the one that takes least is
kept, of all of them the best few, and the order is made anew for the placement that was found.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from npu_tensor.planner.placement.problem import Job, Overhead, Placement, weight

__all__ = ["ordered", "place"]

MOST_KEPT: Final = 6
"""Partial placements that go on from one job to the next; more were seldom better by more than 0.1 %."""

ROUNDS: Final = 2
"""Orders that are tried: that of the jobs, and the one that suits the placement which was found for it."""

Contexts = tuple[Hashable, ...]


class _Lies(NamedTuple):
    """Where a value lies that is still to be read, if not only in the processor's memory.

    device: that has left it. own: whether as the tensor's own bytes, which need no move to be read there. back: what
    bringing it back takes, 0 once it is there. copies: devices and forms of its copies.
    """

    device: int
    own: bool
    back: float
    copies: tuple[tuple[int, Hashable], ...] = ()


class _Partial(NamedTuple):
    """The first jobs of an order on devices.

    chosen: the last device and those before it, as a linked list. first, last: the contexts that devices were in.
    """

    weight: float
    chosen: Any
    first: Contexts
    last: Contexts
    lies: dict[int, _Lies]


def place(
    jobs: Sequence[Job],
    overheads: Sequence[Overhead],
    results: Collection[int] = (),
    resident: Mapping[int, tuple[int, float]] | None = None,
) -> Placement:
    """A placement of little weight; see `weight` for the arguments. It never takes more than the processor alone.

    The order keeps every job behind those whose values it reads. Equal arguments give equal placements.
    """
    resident = resident or {}
    order: Sequence[int] = range(len(jobs))
    alone = (len(overheads),) * len(jobs)
    best = Placement(alone, tuple(order), weight(jobs, overheads, alone, order, results, resident))
    elsewhere = any(answer is not None for job in jobs for answer in job.answers[:-1])
    for _ in range(ROUNDS if elsewhere else 0):
        devices = _on_devices(jobs, order, overheads, frozenset(results), resident)
        if devices == best.devices:
            break
        for each in (order, ordered(jobs, devices, overheads)):
            total = weight(jobs, overheads, devices, each, results, resident)
            if total < best.weight * (1 - 1e-12):  # or it is a rounding error
                best = Placement(devices, tuple(each), total)
            order = each
    return best


def _on_devices(
    jobs: Sequence[Job],
    order: Sequence[int],
    overheads: Sequence[Overhead],
    results: frozenset[int],
    resident: Mapping[int, tuple[int, float]],
) -> tuple[int, ...]:
    """The devices of the best placement that is found in an order."""
    last_read = {value: number for number in order for value in jobs[number].inputs}
    nothing: Contexts = (None,) * len(overheads)
    lies = {value: _Lies(device, True, back) for value, (device, back) in resident.items()}
    kept = [_Partial(0.0, None, nothing, nothing, lies)]
    for number in order:
        longer: dict[Hashable, _Partial] = {}
        for partial in kept:
            for device in range(len(overheads) + 1):
                if jobs[number].answers[device] is not None:
                    added = _with(partial, number, jobs[number], device, overheads, results, last_read)
                    places = frozenset([(value, place.device) for value, place in added.lies.items()])
                    key = device, added.first, added.last, places
                    if key not in longer or added.weight < longer[key].weight:
                        longer[key] = added
        kept = sorted(longer.values(), key=itemgetter(0))[:MOST_KEPT]
    totals = [  # The first job follows the last one.
        (partial.weight + sum([_closing(o) for o, a, b in zip(overheads, *partial[2:4], strict=True) if a != b]), at)
        for at, partial in enumerate(kept)
    ]
    chosen = kept[min(totals)[1]].chosen
    devices = [0] * len(jobs)
    for number in reversed(order):
        devices[number], chosen = chosen
    return tuple(devices)


def _closing(overhead: Overhead) -> float:
    """From the last job to the first one of another context, as if there were one launch."""
    return overhead.switch if overhead.change is None else overhead.change


def _with(
    partial: _Partial,
    number: int,
    job: Job,
    device: int,
    overheads: Sequence[Overhead],
    results: frozenset[int],
    last_read: Mapping[int, int],
) -> _Partial:
    """One more job on a device, as `weight` counts it."""
    inputs, outputs, answers = job
    answer, processor = answers[device], len(answers) - 1
    assert answer is not None
    total, lies = partial.weight + answer.weight, partial.lies
    changes: dict[int, _Lies] = {}
    first, last = partial.first, partial.last
    if device != processor:
        overhead, same = overheads[device], last[device] == answer.context
        goes_on = partial.chosen is not None and partial.chosen[0] == device and (same or overhead.change is not None)
        if not goes_on:
            total += overhead.launch
        if last[device] is None:
            first = (*first[:device], answer.context, *first[device + 1 :])
        elif not same:
            total += (overhead.change or 0.0) if goes_on else overhead.switch
        last = (*last[:device], answer.context, *last[device + 1 :])
    for slot, value in enumerate(inputs):
        place = changes.get(value) or lies.get(value)
        if device != processor:
            moved, form = answer.reads[slot]
            if place is None:
                place = _Lies(processor, False, 0.0)
            if place.device != device or not place.own or form is not None:
                total += place.back
                if (device, form) not in place.copies:
                    total += moved
                changes[value] = _Lies(place.device, place.own, 0.0, (*place.copies, (device, form)))
        elif place is not None and place.back:
            total += place.back
            changes[value] = _Lies(place.device, place.own, 0.0, place.copies)
    for slot, value in enumerate(outputs if device != processor else ()):
        moved, form = answer.writes[slot]
        if value in results:
            total += moved
            moved = 0.0
        if value in last_read:
            changes[value] = _Lies(device, form is None, moved)
    dead = [value for value in inputs if last_read[value] == number]
    if changes or not lies.keys().isdisjoint(dead):
        lies = {value: place for value, place in {**lies, **changes}.items() if value not in dead}
    return _Partial(total, (device, partial.chosen), first, last, lies)


def ordered(jobs: Sequence[Job], devices: Sequence[int], overheads: Sequence[Overhead]) -> list[int]:
    """A topological order of jobs on devices; the last device is the processor, which never switches.

    A job that continues the launch before it goes first, then one that needs no switch, which never costs one later,
    on the processor before others. If all that are left need one, the context goes first that has the most switches
    behind it; of a device whose launches take several contexts, it goes on with the launch.
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
    mixed = {number for number, overhead in enumerate(overheads) if overhead.change is not None and overhead.launch}
    heights = _heights(readers, labels, processor)
    order: list[int] = []
    label: tuple[int, Hashable] | None = None
    while waiting:
        going_on = [each for each in waiting if label is not None and each[0] == label[0] and label[0] in mixed]
        label = next((each for each in current.values() if each in waiting), None) if not going_on else None
        if label is None:
            label = max(going_on or waiting, key=lambda each: max([heights[number] for number in waiting[each]]))
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
