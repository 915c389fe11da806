"""The third stage: which device runs each task, and in which order; by predicted cost, or the first that takes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from npu_tensor.planner.cuts import Answer, Conditions, Cut
from npu_tensor.planner.measures import MARGIN, MEASURES, Declined, Measure
from npu_tensor.planner.placement import Answer as Option
from npu_tensor.planner.placement import Job, Movement, Overhead, Placement, ordered, place, weight
from npu_tensor.runtime.devices.host import host_kernel
from npu_tensor.runtime.rates import too_long
from npu_tensor.task import Accelerator, Cost, Kernel, Refusal, Task

__all__ = ["job", "overhead", "placed_tasks"]


def placed_tasks(cuts: Iterator[Cut], conditions: Conditions) -> Cut:
    """The cut that is best, its tasks in the order in which they should run.

    If costs count, at most one answer to each task is a kernel: that of the device which should run it.
    """
    if conditions.measure is None or not conditions.accelerators:
        *_, last = cuts
        return _in_long_launches(last, conditions.accelerators)
    scale = _scale(conditions, conditions.measure)
    alone = next(cuts)
    host = [host_kernel(task) for task in alone.tasks.tasks]
    here = _on_processor(alone, host, scale)
    # With fallback=warn or =error an op that no device has a kernel for must be found, however little it costs.
    if conditions.fallback == "allow" and here <= min(overhead.launch for overhead in scale.overheads):
        too_little = [
            Declined(device.uri, scale.measure, "launch", overhead.launch, here)
            for device, overhead in zip(scale.accelerators, scale.overheads, strict=True)
        ]
        return alone._replace(answers=[too_little] * len(host))
    weighed = [_weighed(cut, scale) for cut in cuts]
    best = min(weighed, key=lambda each: each.placement.weight)
    if best.placement.weight * MARGIN <= here:
        return _chosen(best, scale)
    return alone._replace(answers=_declined(alone, host, weighed, here, scale))


def _in_long_launches(cut: Cut, accelerators: Sequence[Accelerator]) -> Cut:
    """Its tasks, each for the first device that takes it, in an order with few launches and few switches."""
    if not accelerators or not cut.tasks.tasks:
        return cut
    measure, tasks = MEASURES["latency"], cut.tasks.tasks
    overheads = [overhead(device, measure) for device in accelerators]
    devices, jobs = [], []
    for task, answers in zip(tasks, cut.answers, strict=True):
        takers = [number for number, answer in enumerate(answers) if not isinstance(answer, (Refusal, Declined))]
        devices.append(takers[0] if takers else len(accelerators))
        options: list[Option | None] = [None] * len(accelerators)
        if takers:
            kernel = answers[takers[0]]
            assert not isinstance(kernel, (Refusal, Declined))
            options[takers[0]] = _option(task, kernel.cost, measure, frozenset())
        jobs.append(Job(_operand_items(task), _result_items(task), (*options, Option(0.0))))
    orders = [range(len(jobs)), ordered(jobs, devices, overheads)]
    best = min(orders, key=lambda order: weight(jobs, overheads, devices, order))
    return Cut(cut.tasks._replace(tasks=[tasks[number] for number in best]), [cut.answers[number] for number in best])


class _Scale(NamedTuple):
    """How tasks and placements are weighed: the conditions of a plan in the unit of its measure.

    overheads: by accelerator. resident: by item, the number of the accelerator that holds it and what fetching
    it takes.
    """

    accelerators: Sequence[Accelerator]
    measure: Measure
    overheads: tuple[Overhead, ...]
    resident: dict[int, tuple[int, float]]
    persistent: frozenset[int]


def _scale(conditions: Conditions, measure: Measure) -> _Scale:
    accelerators, weigh = conditions.accelerators, measure.weigh
    resident = {
        value.item: (number, weigh(device.fetch_cost(value.nbytes)))
        for value in conditions.resident
        for number, device in enumerate(accelerators)
        if value.home in device.members
    }
    overheads = tuple([overhead(device, measure) for device in accelerators])
    return _Scale(accelerators, measure, overheads, resident, conditions.persistent or frozenset())


def overhead(device: Accelerator, measure: Measure) -> Overhead:
    """What a device takes besides its kernels."""
    change = None if device.reconfiguration_cost is None else measure.weigh(device.reconfiguration_cost)
    return Overhead(measure.weigh(device.switch_cost), measure.weigh(device.launch_cost), change)


def _on_processor(cut: Cut, host: Sequence[Kernel], scale: _Scale) -> float:
    """What a cut weighs if the processor does everything."""
    last = len(scale.accelerators)
    nowhere: list[Answer] = [Refusal("")] * last
    jobs = [job(task, nowhere, kernel, scale.measure) for task, kernel in zip(cut.tasks.tasks, host, strict=True)]
    return weight(jobs, scale.overheads, [last] * len(jobs), range(len(jobs)), cut.tasks.kept, scale.resident)


class _Weighed(NamedTuple):
    """A cut, the processor's kernels for its tasks, what its tasks weigh where, and the best placement."""

    cut: Cut
    host: list[Kernel]
    jobs: list[Job]
    placement: Placement


def _weighed(cut: Cut, scale: _Scale) -> _Weighed:
    tasks = cut.tasks.tasks
    host = [host_kernel(task) for task in tasks]
    cut = cut._replace(answers=[[_launchable(answer) for answer in answers] for answers in cut.answers])
    jobs = [job(*each, scale.measure, scale.persistent) for each in zip(tasks, cut.answers, host, strict=True)]
    return _Weighed(cut, host, jobs, place(jobs, scale.overheads, cut.tasks.kept, scale.resident))


def _launchable(answer: Answer) -> Answer:
    reason = too_long(answer.cost) if not isinstance(answer, (Refusal, Declined)) else None
    return answer if reason is None else Refusal(reason)


def _chosen(best: _Weighed, scale: _Scale) -> Cut:
    """The tasks in the order of the placement, with the answers of other devices than the chosen ones declined."""
    tasks, answers = [], []
    for number in best.placement.order:
        device, offers = best.placement.devices[number], best.cut.answers[number]
        others = _by_kernel(offers, best.host[number], scale)
        tasks.append(best.cut.tasks.tasks[number])
        answers.append([offers[device] if each == device else other for each, other in enumerate(others)])
    return Cut(best.cut.tasks._replace(tasks=tasks), answers)


def _declined(
    alone: Cut, host: Sequence[Kernel], weighed: Sequence[_Weighed], here: float, scale: _Scale
) -> list[list[Answer]]:
    """The answers to the processor's tasks if it runs everything.

    A device that refuses a task but takes all ops of it in smaller ones has lost it by cost.
    """
    by_graph: list[Declined] = []
    items_taken: list[set[int]] = []
    last = len(scale.accelerators)
    _, _, jobs, _ = weighed[-1]
    for number, device in enumerate(scale.accelerators):
        devices = [last if each.answers[number] is None else number for each in jobs]
        kept = weighed[-1].cut.tasks.kept
        there = weight(jobs, scale.overheads, devices, range(len(jobs)), kept, scale.resident)
        by_graph.append(Declined(device.uri, scale.measure, "graph", there, here))
        items_taken.append(
            {
                item
                for each in weighed
                for task, answers in zip(each.cut.tasks.tasks, each.cut.answers, strict=True)
                if not isinstance(answers[number], Refusal)
                for item in task.items
            }
        )
    declined: list[list[Answer]] = []
    for task, kernel in zip(alone.tasks.tasks, host, strict=True):
        answers: list[Answer] = [device.claim(task) for device in scale.accelerators]
        for number, answer in enumerate(answers):
            if isinstance(answer, Refusal) and items_taken[number].issuperset(task.items):
                answers[number] = by_graph[number]
        declined.append(_by_kernel(answers, kernel, scale))
    return declined


def _by_kernel(answers: Sequence[Answer], host: Kernel, scale: _Scale) -> list[Answer]:
    """The answers to a task with kernels declined, by comparison with that of the processor."""
    measure, weigh = scale.measure, scale.measure.weigh
    declined: list[Answer] = []
    for number, answer in enumerate(answers):
        if isinstance(answer, (Refusal, Declined)):
            declined.append(answer)
            continue
        cost = answer.cost
        besides = scale.overheads[number]
        there, here = weigh(cost.expense) + besides.launch, weigh(host.cost.expense)
        copies = sum([weigh(move.expense) for move in (*cost.reads, *cost.writes)])
        device = scale.accelerators[number].uri
        declined.append(Declined(device, measure, "kernel", there, here, copies, besides.switch))
    return declined


def job(
    task: Task, answers: Sequence[Answer], host: Kernel, measure: Measure, persistent: frozenset[int] = frozenset()
) -> Job:
    """A task as `placement` knows it: what it weighs on each accelerator that takes it, and on the processor."""
    options = [
        None if isinstance(each, (Refusal, Declined)) else _option(task, each.cost, measure, persistent)
        for each in answers
    ]
    return Job(_operand_items(task), _result_items(task), (*options, Option(measure.weigh(host.cost.expense))))


def _operand_items(task: Task) -> tuple[int, ...]:
    return tuple([operand.item for operand in task.inputs])


def _result_items(task: Task) -> tuple[int, ...]:
    return tuple([output.item for output in task.outputs])


def _option(task: Task, cost: Cost, measure: Measure, persistent: frozenset[int]) -> Option:
    weigh = measure.weigh
    reads = [
        Movement(0.0 if operand.item in persistent else weigh(move.expense), move.form)
        for operand, move in zip(task.inputs, cost.reads, strict=True)
    ]
    writes = [Movement(weigh(move.expense), move.form) for move in cost.writes]
    return Option(weigh(cost.expense), cost.context, tuple(reads), tuple(writes))
