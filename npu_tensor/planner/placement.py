"""Placement of a graph: the device of each task and the order of the tasks, at the lowest total cost.

    there = Option(3e-3, "gemm", reads=(Movement(1e-4),), writes=(Movement(1e-4),))
    jobs = [Job((0,), (1,), (there, Option(9e-3)))]
    place(jobs, overheads=(Overhead(switch=2.6e-3, launch=3e-4),))

Devices are numbers; the last one is the processor, which takes every job. All weights have one unit, chosen by a
policy: seconds, processor seconds or joules.

The search is dynamic programming over an order of the jobs. Two partial placements have the same future if the devices
are in the same contexts and the values that are still to be read are on the same devices, apart from copies. Of those
the cheaper one is kept, and of all kept ones the cheapest few. The order is then improved for the placement that was
found.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple

MOST_KEPT: Final = 6
"""Upper bound on partial placements; more were seldom better by more than 0.1 %."""

ROUNDS: Final = 2
"""Number of orders that are tried: that of the jobs, and the best one for the placement found for it."""


class Overhead(NamedTuple):
    """Costs of a device that is not the processor, besides its jobs.

    Attributes:
        switch: Cost of a launch whose context differs from that of the previous launch.
        launch: Cost of a launch: jobs that follow each other on the device with no job of another device between them.
        change: Cost of a change of the context within a launch; None if a launch has one context.
    """

    switch: float
    launch: float = 0.0
    change: float | None = None


class Movement(NamedTuple):
    """Conversion of a value between the processor's memory and a form that a kernel reads or writes.

    Attributes:
        weight: Cost of the conversion. It is the same for all jobs that use one form of a value on one device.
        form: Form on the device, see `task.Move`. None stands for the tensor's own bytes.
    """

    weight: float
    form: Hashable = None


class Option(NamedTuple):
    """Cost of a job on one device.

    Attributes:
        weight: Cost of the job itself.
        context: Equal for jobs that can follow each other on the device without a switch.
        reads: One movement per input of the job; empty on the processor.
        writes: One movement per output of the job; empty on the processor.
    """

    weight: float
    context: Hashable = None
    reads: tuple[Movement, ...] = ()
    writes: tuple[Movement, ...] = ()


class Job(NamedTuple):
    """A task with its costs. Jobs are listed in an order in which they could run.

    Attributes:
        inputs: Values that the job reads.
        outputs: Values that the job makes.
        options: One per device, the processor last; None for a device that refuses the job.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: tuple[Option | None, ...]


class Placement(NamedTuple):
    """Devices and order of jobs.

    Attributes:
        devices: Device of each job.
        order: Numbers of the jobs in the order in which they run.
        weight: Cost of the whole placement.
    """

    devices: tuple[int, ...]
    order: tuple[int, ...]
    weight: float


class Usage(NamedTuple):
    """Launches of one device so far.

    Attributes:
        first: Context of the first job.
        last: Context of the latest job.
        launches: Number of launches.
        changes: Number of context changes within launches.
        switches: Number of context changes between launches.
    """

    first: Hashable = None
    last: Hashable = None
    launches: int = 0
    changes: int = 0
    switches: int = 0

    def add(self, context: Hashable, joins: bool) -> Usage:
        """Return the usage after one more job, which `joins` the latest launch or begins another one."""
        if not self.launches:
            return Usage(context, context, 1)
        if context == self.last:
            return self if joins else Usage(self.first, context, self.launches + 1, self.changes, self.switches)
        if joins:
            return Usage(self.first, context, self.launches, self.changes + 1, self.switches)
        return Usage(self.first, context, self.launches + 1, self.changes, self.switches + 1)

    def closed(self, can_change: bool) -> Usage:
        """Return the usage of one run among many: the first job follows the last one of the previous run.

        A single launch stays active between runs, so its contexts change within it if `can_change` is set.
        """
        return self.add(self.first, joins=can_change and self.launches == 1)._replace(launches=self.launches)

    def weight(self, overhead: Overhead) -> float:
        """Return the cost of the launches and of all changes of the context."""
        changes = self.changes * (overhead.change or 0.0)
        return self.launches * overhead.launch + changes + self.switches * overhead.switch


class Residency(NamedTuple):
    """Location of a value that is not only in the processor's memory.

    Attributes:
        device: Device that made the value.
        own: True if the value is there as the tensor's own bytes, which other jobs of the device read without a move.
        back: Cost of bringing the value to the processor's memory; 0 if it is there.
        copies: Devices and forms of copies.
    """

    device: int
    own: bool
    back: float
    copies: tuple[tuple[int, Hashable], ...] = ()


@dataclass(slots=True)
class State:
    """State after the first jobs of an order. Not frozen, because the search makes many of them.

    Attributes:
        moved: Cost of the jobs and of moving values, without launches.
        weight: Cost so far, including launches.
        devices: Linked list of devices: that of the latest job, and the list before it.
        usages: Launches by device, without the processor.
        residencies: Values that are not only in the processor's memory and are still to be read.
    """

    moved: float
    weight: float
    devices: Any
    usages: tuple[Usage, ...]
    residencies: Mapping[int, Residency]

    def closed_weight(self, overheads: Sequence[Overhead]) -> float:
        """Return the cost of a run among many, if no more jobs follow."""
        used = [(usage, overhead) for usage, overhead in zip(self.usages, overheads, strict=True) if usage.launches]
        return self.moved + sum([usage.closed(o.change is not None).weight(o) for usage, o in used])


class Search:
    """The states that an order of jobs passes through, and the cost of each step.

    - Each job costs the weight of its option, and each launch and change of the context its overhead. The first job of
      a run follows the last one of the run before.
    - Each form of a value that a device reads is made once. A value left on a device in form None is read there as it
      is.
    - A value left on a device is brought back once if another device reads it, if its device reads another form of it,
      or if it is a result.

    Args:
        jobs: The jobs.
        overheads: Overheads by device, without the processor.
        order: Numbers of the jobs in the order in which they run.
        results: Values that are read after the run.
        resident: Values from outside in the memory of a device in form None, and the cost of bringing them back.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        overheads: Sequence[Overhead],
        order: Sequence[int],
        results: Collection[int],
        resident: Mapping[int, tuple[int, float]],
    ) -> None:
        self._jobs = jobs
        self._overheads = overheads
        self._results = frozenset(results)
        self._last_read = {value: number for number in order for value in jobs[number].inputs}
        back = sum([cost for value, (_, cost) in resident.items() if value in self._results])
        residencies = {
            value: Residency(device, True, 0.0 if value in self._results else cost)
            for value, (device, cost) in resident.items()
        }
        self.start = State(back, back, None, (Usage(),) * len(overheads), residencies)

    def step(self, state: State, number: int, device: int) -> State:
        """Return the state after one more job. Raises ValueError if the device has refused it."""
        job = self._jobs[number]
        option = job.options[device]
        if option is None:
            raise ValueError(f"device {device} has refused job {number}")
        on_processor = device == len(self._overheads)
        moved, found = state.moved + option.weight, state.residencies
        changed: dict[int, Residency] = {}
        for slot, value in enumerate(job.inputs):
            place = changed.get(value) or found.get(value)
            if not on_processor:
                movement = option.reads[slot]
                if place is None:
                    place = Residency(len(self._overheads), False, 0.0)
                if place.device != device or not place.own or movement.form is not None:
                    copy = device, movement.form
                    moved += place.back + (0.0 if copy in place.copies else movement.weight)
                    changed[value] = Residency(place.device, place.own, 0.0, (*place.copies, copy))
            elif place is not None and place.back:
                moved += place.back
                changed[value] = Residency(place.device, place.own, 0.0, place.copies)
        if not on_processor:
            for value, movement in zip(job.outputs, option.writes, strict=True):
                is_result = value in self._results
                moved += movement.weight if is_result else 0.0
                if value in self._last_read:
                    back = 0.0 if is_result else movement.weight
                    changed[value] = Residency(device, movement.form is None, back)
        unread = [value for value in job.inputs if self._last_read[value] == number]
        if changed or not found.keys().isdisjoint(unread):
            found = {value: place for value, place in {**found, **changed}.items() if value not in unread}
        usages, total = state.usages, state.weight + (moved - state.moved)
        if not on_processor:
            usage, overhead = usages[device], self._overheads[device]
            follows = state.devices is not None and state.devices[0] == device
            joins = follows and (usage.last == option.context or overhead.change is not None)
            used = usage.add(option.context, joins)
            total += used.weight(overhead) - usage.weight(overhead)
            usages = (*usages[:device], used, *usages[device + 1 :])
        return State(moved, total, (device, state.devices), usages, found)


def weight(
    jobs: Sequence[Job],
    overheads: Sequence[Overhead],
    devices: Sequence[int],
    order: Sequence[int],
    results: Collection[int] = (),
    resident: Mapping[int, tuple[int, float]] | None = None,
) -> float:
    """Return the cost of a placement in a plan that runs again and again. See `Search` for the arguments.

    The processor is device `len(overheads)`. Raises ValueError if a job is on a device that has refused it.
    """
    search = Search(jobs, overheads, order, results, resident or {})
    state = search.start
    for number in order:
        state = search.step(state, number, devices[number])
    return state.closed_weight(overheads)


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
