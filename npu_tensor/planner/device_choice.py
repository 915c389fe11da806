"""The stages cuts and placement: cut a graph into tasks, and choose the device of each task and the order.

Each accelerator answers each task with a kernel or a refusal. The choice goes by predicted cost or by preference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from npu_tensor.config import Fallback
from npu_tensor.planner.fuse import Partition, partitions
from npu_tensor.planner.fuse.lower import Lowering
from npu_tensor.planner.measures import MARGIN, MEASURES, Declined, Measure
from npu_tensor.planner.placement import Job, Movement, Option, Overhead, Placement, ordered, place, weight
from npu_tensor.runtime.devices.host import host_devices, host_kernel
from npu_tensor.runtime.rates import too_long
from npu_tensor.task import Accelerator, Cost, Kernel, Refusal, Task

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

    @property
    def constants(self) -> frozenset[int]:
        """Items from outside that no run changes."""
        return (self.persistent or frozenset()) - self.replaced.keys()


class Cut(NamedTuple):
    """A graph cut into tasks, with the answers of the accelerators to each task; no answers if none were asked."""

    partition: Partition
    answers: Sequence[Sequence[Answer]]

    def in_order(self, order: Sequence[int]) -> Cut:
        """Return the cut with its tasks in another order."""
        tasks = [self.partition.tasks[number] for number in order]
        return Cut(self.partition._replace(tasks=tasks), [self.answers[number] for number in order])


def accelerator_cuts(
    lowering: Lowering, accelerators: Sequence[Accelerator], constants: frozenset[int] = frozenset()
) -> list[Cut]:
    """Cut a graph into tasks for the first accelerator. The last cut has most tasks on accelerators.

    Devices may store the items in `constants` in an order of their own, because no run changes them.
    """
    answers: dict[tuple[int, ...], list[Kernel | Refusal]] = {}

    def ask(task: Task) -> list[Kernel | Refusal]:
        if task.items not in answers:
            marked = [each._replace(persistent=each.item in constants or None) for each in task.inputs]
            claimed = task._replace(inputs=tuple(marked))
            answers[task.items] = [device.claim(claimed) for device in accelerators]
        return answers[task.items]

    def has_kernel(task: Task) -> bool:
        return any(not isinstance(answer, Refusal) or answer.pending for answer in ask(task))

    found = partitions(lowering, accelerators[0].fusion, has_kernel)
    return [Cut(partition, [ask(task) for task in partition.tasks]) for partition in found]


def choose_devices(lowering: Lowering, context: PlanningContext) -> Cut:
    """Return the best cut of a graph, with its tasks in the order in which they should run.

    If costs decide, each task has at most one kernel among its answers: that of the chosen device.
    """
    if context.accelerators and context.measure is None:
        cuts = accelerator_cuts(lowering, context.accelerators, context.constants)
        return _in_long_launches(cuts[-1], context.accelerators)
    (partition,) = partitions(lowering, host_devices()[0].fusion)
    on_host = Cut(partition, [()] * len(partition.tasks))
    if context.measure is None:
        return on_host
    return _Comparison(context, context.measure, on_host).best_cut(lowering)


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
    return cut.in_order(min(orders, key=lambda order: weight(jobs, overheads, devices, order)))


def overhead(device: Accelerator, measure: Measure) -> Overhead:
    """Return the costs of a device besides those of its kernels."""
    change = None if device.reconfiguration_cost is None else measure.weigh(device.reconfiguration_cost)
    return Overhead(measure.weigh(device.switch_cost), measure.weigh(device.launch_cost), change)


class _Candidate(NamedTuple):
    """A cut, the processor's kernel and the costs of each task, and the best placement that was found."""

    cut: Cut
    host: list[Kernel]
    jobs: list[Job]
    placement: Placement


class _Comparison:
    """Comparison of the devices of one plan by predicted cost, in the unit of a measure."""

    def __init__(self, context: PlanningContext, measure: Measure, on_host: Cut) -> None:
        self._accelerators = context.accelerators
        self._measure = measure
        self._on_host = on_host
        # With fallback=warn or =error an op that no device has a kernel for must be found, however little it costs.
        self._may_skip_devices = context.fallback == "allow"
        self._persistent = context.persistent or frozenset()
        self._constants = context.constants
        self._once = context.persistent is None
        self._overheads = tuple([overhead(device, measure) for device in context.accelerators])
        self._resident = {
            value.item: (number, measure.weigh(device.fetch_cost(value.nbytes)))
            for value in context.resident
            for number, device in enumerate(context.accelerators)
            if value.home in device.members
        }

    def best_cut(self, lowering: Lowering) -> Cut:
        """Return the cheapest cut of a graph; that of the processor unless another one is cheaper by MARGIN."""
        partition = self._on_host.partition
        host = [host_kernel(task) for task in partition.tasks]
        refusals: list[Answer] = [Refusal("")] * len(self._accelerators)
        jobs = [job(task, refusals, kernel, self._measure) for task, kernel in zip(partition.tasks, host, strict=True)]
        here = self._cost_on(len(self._accelerators), jobs, self._on_host)
        if self._may_skip_devices and here <= min(overhead.launch for overhead in self._overheads):
            too_cheap = [
                Declined(device.uri, self._measure, "launch", overhead.launch, here)
                for device, overhead in zip(self._accelerators, self._overheads, strict=True)
            ]
            return Cut(partition, [too_cheap] * len(host))
        cuts = accelerator_cuts(lowering, self._accelerators, self._constants)
        candidates = [self._candidate(cut) for cut in cuts]
        best = min(candidates, key=lambda candidate: candidate.placement.weight)
        if best.placement.weight * MARGIN <= here:
            return self._chosen(best)
        return Cut(partition, self._declined_graph(host, candidates, here))

    def _cost_on(self, device: int, jobs: Sequence[Job], cut: Cut) -> float:
        """Return the cost of a graph if a device runs all jobs that it does not refuse, and the processor the rest."""
        processor = len(self._accelerators)
        devices = [processor if each.options[device] is None else device for each in jobs]
        return weight(jobs, self._overheads, devices, range(len(jobs)), cut.partition.kept, self._resident)

    def _candidate(self, cut: Cut) -> _Candidate:
        tasks = cut.partition.tasks
        host = [host_kernel(task) for task in tasks]
        cut = cut._replace(answers=[[_launchable(answer) for answer in answers] for answers in cut.answers])
        for number, device in enumerate(self._accelerators):
            offers = [answers[number] for answers in cut.answers]
            kernels = [offer for offer in offers if not isinstance(offer, (Refusal, Declined))]
            device.share_configurations(kernels, once=self._once)
        jobs = [job(*each, self._measure, self._persistent) for each in zip(tasks, cut.answers, host, strict=True)]
        return _Candidate(cut, host, jobs, place(jobs, self._overheads, cut.partition.kept, self._resident))

    def _chosen(self, best: _Candidate) -> Cut:
        """Return the tasks in the order of the placement, with the kernels of all but the chosen devices declined."""
        answers: list[list[Answer]] = []
        for offers, host, device in zip(best.cut.answers, best.host, best.placement.devices, strict=True):
            others = self._declined_kernels(offers, host)
            answers.append([offers[device] if number == device else other for number, other in enumerate(others)])
        return best.cut._replace(answers=answers).in_order(best.placement.order)

    def _declined_graph(
        self, host: Sequence[Kernel], candidates: Sequence[_Candidate], here: float
    ) -> list[list[Answer]]:
        """Return the answers to the tasks of the processor if it runs everything.

        A device that refuses a task but takes all ops of it in smaller tasks has lost it by cost.
        """
        by_graph: list[Declined] = []
        offered_items: list[set[int]] = []
        last = candidates[-1]
        for number, device in enumerate(self._accelerators):
            there = self._cost_on(number, last.jobs, last.cut)
            by_graph.append(Declined(device.uri, self._measure, "graph", there, here))
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
        for task, kernel in zip(self._on_host.partition.tasks, host, strict=True):
            answers: list[Answer] = [device.claim(task) for device in self._accelerators]
            for number, answer in enumerate(answers):
                if isinstance(answer, Refusal) and offered_items[number].issuperset(task.items):
                    answers[number] = by_graph[number]
            declined.append(self._declined_kernels(answers, kernel))
        return declined

    def _declined_kernels(self, answers: Sequence[Answer], host: Kernel) -> list[Answer]:
        """Return the answers to a task with all kernels declined by comparison with that of the processor."""
        weigh = self._measure.weigh
        declined: list[Answer] = []
        for answer, device, own in zip(answers, self._accelerators, self._overheads, strict=True):
            if isinstance(answer, (Refusal, Declined)):
                declined.append(answer)
                continue
            cost = answer.cost
            there, here = weigh(cost.expense) + own.launch, weigh(host.cost.expense)
            copies = sum([weigh(move.expense) for move in (*cost.reads, *cost.writes)])
            declined.append(Declined(device.uri, self._measure, "kernel", there, here, copies, own.switch))
        return declined


def _launchable(answer: Answer) -> Answer:
    reason = too_long(answer.cost) if not isinstance(answer, (Refusal, Declined)) else None
    return answer if reason is None else Refusal(reason)


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
