"""The third stage: choose the device of each task and the order, by predicted cost or by preference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from npu_tensor.planner.cuts import Answer, Cut, PlanningContext, accelerator_cuts, host_partition
from npu_tensor.planner.fuse.lower import Lowering
from npu_tensor.planner.measures import MARGIN, MEASURES, Declined, Measure
from npu_tensor.planner.placement import Job, Movement, Option, Overhead, Placement, ordered, place, weight
from npu_tensor.runtime.devices.host import host_kernel
from npu_tensor.runtime.rates import too_long
from npu_tensor.task import Accelerator, Cost, Kernel, Refusal, Task

__all__ = ["job", "overhead", "place_tasks"]


def place_tasks(lowering: Lowering, context: PlanningContext) -> Cut:
    """Return the best cut of a graph, with its tasks in the order in which they should run.

    If costs decide, each task has at most one kernel among its answers: that of the chosen device.
    """
    if not context.accelerators:
        partition = host_partition(lowering)
        return Cut(partition, [()] * len(partition.tasks))
    if context.measure is None:
        return _in_long_launches(accelerator_cuts(lowering, context.accelerators)[-1], context.accelerators)
    scale = _scale(context, context.measure)
    partition = host_partition(lowering)
    host = [host_kernel(task) for task in partition.tasks]
    here = _host_cost(Cut(partition, [()] * len(host)), host, scale)
    # With fallback=warn or =error an op that no device has a kernel for must be found, however little it costs.
    if context.fallback == "allow" and here <= min(overhead.launch for overhead in scale.overheads):
        too_cheap = [
            Declined(device.uri, scale.measure, "launch", overhead.launch, here)
            for device, overhead in zip(scale.accelerators, scale.overheads, strict=True)
        ]
        return Cut(partition, [too_cheap] * len(host))
    candidates = [_candidate(cut, scale) for cut in accelerator_cuts(lowering, context.accelerators)]
    best = min(candidates, key=lambda candidate: candidate.placement.weight)
    if best.placement.weight * MARGIN <= here:
        return _chosen(best, scale)
    return Cut(partition, _declined(partition.tasks, host, candidates, here, scale))


def _in_long_launches(cut: Cut, accelerators: Sequence[Accelerator]) -> Cut:
    """Order tasks for few launches and few switches, each on the first device that takes it."""
    tasks = cut.partition.tasks
    if not tasks:
        return cut
    measure = MEASURES["latency"]
    overheads = [overhead(device, measure) for device in accelerators]
    devices, jobs = [], []
    for task, answers in zip(tasks, cut.answers, strict=True):
        options: list[Option | None] = [None] * len(accelerators)
        device = len(accelerators)
        for number, answer in enumerate(answers):
            if not isinstance(answer, (Refusal, Declined)):
                device, options[number] = number, _option(task, answer.cost, measure, frozenset())
                break
        devices.append(device)
        jobs.append(_job(task, (*options, Option(0.0))))
    orders = [range(len(jobs)), ordered(jobs, devices, overheads)]
    best = min(orders, key=lambda order: weight(jobs, overheads, devices, order))
    return _reordered(cut, best)


def _reordered(cut: Cut, order: Sequence[int]) -> Cut:
    tasks = [cut.partition.tasks[number] for number in order]
    return Cut(cut.partition._replace(tasks=tasks), [cut.answers[number] for number in order])


class _Scale(NamedTuple):
    """Context of a plan in the unit of its measure.

    Attributes:
        accelerators: Devices in order of preference, without the processor.
        measure: Measure of all costs.
        overheads: Overheads by accelerator.
        resident: By item, the number of the accelerator that holds it and the cost of fetching it.
        persistent: Items that are moved to a device at no cost.
    """

    accelerators: Sequence[Accelerator]
    measure: Measure
    overheads: tuple[Overhead, ...]
    resident: dict[int, tuple[int, float]]
    persistent: frozenset[int]


def _scale(context: PlanningContext, measure: Measure) -> _Scale:
    accelerators, weigh = context.accelerators, measure.weigh
    resident = {
        value.item: (number, weigh(device.fetch_cost(value.nbytes)))
        for value in context.resident
        for number, device in enumerate(accelerators)
        if value.home in device.members
    }
    overheads = tuple([overhead(device, measure) for device in accelerators])
    return _Scale(accelerators, measure, overheads, resident, context.persistent or frozenset())


def overhead(device: Accelerator, measure: Measure) -> Overhead:
    """Return the costs of a device besides those of its kernels."""
    change = None if device.reconfiguration_cost is None else measure.weigh(device.reconfiguration_cost)
    return Overhead(measure.weigh(device.switch_cost), measure.weigh(device.launch_cost), change)


def _host_cost(cut: Cut, host: Sequence[Kernel], scale: _Scale) -> float:
    """Return the cost of a graph on the processor alone."""
    refusals: list[Answer] = [Refusal("")] * len(scale.accelerators)
    jobs = [job(task, refusals, kernel, scale.measure) for task, kernel in zip(cut.partition.tasks, host, strict=True)]
    return _cost_on(len(scale.accelerators), jobs, cut, scale)


def _cost_on(device: int, jobs: Sequence[Job], cut: Cut, scale: _Scale) -> float:
    """Return the cost of a graph if one device runs all jobs that it does not refuse, and the processor the rest."""
    processor = len(scale.accelerators)
    devices = [processor if each.options[device] is None else device for each in jobs]
    return weight(jobs, scale.overheads, devices, range(len(jobs)), cut.partition.kept, scale.resident)


class _Candidate(NamedTuple):
    """A cut and its best placement.

    Attributes:
        cut: Tasks and answers.
        host: Kernel of the processor for each task.
        jobs: Costs of each task.
        placement: Best placement found.
    """

    cut: Cut
    host: list[Kernel]
    jobs: list[Job]
    placement: Placement


def _candidate(cut: Cut, scale: _Scale) -> _Candidate:
    tasks = cut.partition.tasks
    host = [host_kernel(task) for task in tasks]
    cut = cut._replace(answers=[[_launchable(answer) for answer in answers] for answers in cut.answers])
    jobs = [job(*each, scale.measure, scale.persistent) for each in zip(tasks, cut.answers, host, strict=True)]
    return _Candidate(cut, host, jobs, place(jobs, scale.overheads, cut.partition.kept, scale.resident))


def _launchable(answer: Answer) -> Answer:
    reason = too_long(answer.cost) if not isinstance(answer, (Refusal, Declined)) else None
    return answer if reason is None else Refusal(reason)


def _chosen(best: _Candidate, scale: _Scale) -> Cut:
    """Return the tasks in the order of the placement, with the kernels of all but the chosen devices declined."""
    answers: list[list[Answer]] = []
    for offers, host, device in zip(best.cut.answers, best.host, best.placement.devices, strict=True):
        others = _by_kernel(offers, host, scale)
        answers.append([offers[device] if number == device else other for number, other in enumerate(others)])
    return _reordered(best.cut._replace(answers=answers), best.placement.order)


def _declined(
    tasks: Sequence[Task], host: Sequence[Kernel], candidates: Sequence[_Candidate], here: float, scale: _Scale
) -> list[list[Answer]]:
    """Return the answers to the tasks of the processor if it runs everything.

    A device that refuses a task but takes all ops of it in smaller tasks has lost it by cost.
    """
    by_graph: list[Declined] = []
    offered_items: list[set[int]] = []
    last = candidates[-1]
    for number, device in enumerate(scale.accelerators):
        there = _cost_on(number, last.jobs, last.cut, scale)
        by_graph.append(Declined(device.uri, scale.measure, "graph", there, here))
        offered_items.append(
            {
                item
                for candidate in candidates
                for task, answers in zip(candidate.cut.partition.tasks, candidate.cut.answers, strict=True)
                if not isinstance(answers[number], Refusal)
                for item in task.items
            }
        )
    declined: list[list[Answer]] = []
    for task, kernel in zip(tasks, host, strict=True):
        answers: list[Answer] = [device.claim(task) for device in scale.accelerators]
        for number, answer in enumerate(answers):
            if isinstance(answer, Refusal) and offered_items[number].issuperset(task.items):
                answers[number] = by_graph[number]
        declined.append(_by_kernel(answers, kernel, scale))
    return declined


def _by_kernel(answers: Sequence[Answer], host: Kernel, scale: _Scale) -> list[Answer]:
    """Return the answers to a task with all kernels declined by comparison with that of the processor."""
    measure, weigh = scale.measure, scale.measure.weigh
    declined: list[Answer] = []
    for number, answer in enumerate(answers):
        if isinstance(answer, (Refusal, Declined)):
            declined.append(answer)
            continue
        cost = answer.cost
        device_overhead = scale.overheads[number]
        there, here = weigh(cost.expense) + device_overhead.launch, weigh(host.cost.expense)
        copies = sum([weigh(move.expense) for move in (*cost.reads, *cost.writes)])
        device = scale.accelerators[number].uri
        declined.append(Declined(device, measure, "kernel", there, here, copies, device_overhead.switch))
    return declined


def job(
    task: Task, answers: Sequence[Answer], host: Kernel, measure: Measure, persistent: frozenset[int] = frozenset()
) -> Job:
    """Return a task with its cost on each accelerator that takes it, and on the processor."""
    options = [
        None if isinstance(each, (Refusal, Declined)) else _option(task, each.cost, measure, persistent)
        for each in answers
    ]
    return _job(task, (*options, Option(measure.weigh(host.cost.expense))))


def _job(task: Task, options: tuple[Option | None, ...]) -> Job:
    return Job(tuple([source.item for source in task.inputs]), tuple([out.item for out in task.outputs]), options)


def _option(task: Task, cost: Cost, measure: Measure, persistent: frozenset[int]) -> Option:
    weigh = measure.weigh
    reads = [
        Movement(0.0 if operand.item in persistent else weigh(move.expense), move.form)
        for operand, move in zip(task.inputs, cost.reads, strict=True)
    ]
    writes = [Movement(weigh(move.expense), move.form) for move in cost.writes]
    return Option(weigh(cost.expense), cost.context, tuple(reads), tuple(writes))
