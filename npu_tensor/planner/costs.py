"""Placement by predicted cost: what devices answer becomes jobs, and what `place` finds becomes answers again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from npu_tensor._util.units import duration
from npu_tensor.planner.placement import Answer, Job, Movement, place, weight
from npu_tensor.runtime.rates import too_long
from npu_tensor.task import Accelerator, Cost, Expense, Kernel, Move, Refusal, Task

__all__ = ["MARGIN", "MEASURES", "Costs", "DeviceValue", "Measure", "job"]

MARGIN: Final = 1.1
"""A graph leaves the processor if that is predicted to be so much better: predictions are not that exact."""


class Measure(NamedTuple):
    """What counts of an expense, and how to say so much of it."""

    weigh: Callable[[Expense], float]
    text: Callable[[float], str]


MEASURES: Final[Mapping[str, Measure]] = MappingProxyType(
    {
        "latency": Measure(attrgetter("seconds"), duration),
        "cpu_time": Measure(
            attrgetter("processor_seconds"), lambda seconds: f"{duration(seconds)} of processor time"
        ),
        "energy": Measure(attrgetter("joules"), lambda joules: f"{joules * 1e3:.3g} mJ"),
    }
)
"""What each policy makes small. Under the policy "always", a task goes to the first device that takes it."""


class DeviceValue(NamedTuple):
    """A value from outside in a device's memory. home: that device. nbytes: what the host has not fetched."""

    item: int
    home: Any
    nbytes: int


class Costs:
    """How the placements of one graph are compared.

    resident: where values from outside are. persistent: items from outside that stay the same from run to run, as what
    a function under jit reads, so that bringing them to a device does not count.
    """

    def __init__(
        self,
        accelerators: Sequence[Accelerator],
        measure: Measure,
        resident: Sequence[DeviceValue],
        persistent: Collection[int],
    ) -> None:
        self.accelerators = accelerators
        self.measure = measure
        weigh = self.weigh = measure.weigh
        self.switches = tuple(weigh(device.switch) for device in accelerators)
        self.persistent = persistent
        self.resident = {
            value.item: (number, weigh(device.fetch(value.nbytes)))
            for value in resident
            for number, device in enumerate(accelerators)
            if value.home in device.members
        }

    def on_host(self, tasks: Sequence[Task], host: Sequence[Kernel], wanted: Collection[int]) -> float:
        """What it weighs if the processor does everything."""
        nowhere: list[Kernel | Refusal] = [Refusal("")] * len(self.accelerators)
        jobs = [job(task, nowhere, kernel, self.weigh) for task, kernel in zip(tasks, host, strict=True)]
        last = len(self.accelerators)
        return weight(jobs, self.switches, [last] * len(jobs), range(len(jobs)), wanted, self.resident)

    def unasked(self, tasks: int, here: float) -> list[list[Kernel | Refusal]] | None:
        """The answers for a graph that weighs less on the processor than a single launch elsewhere; else None."""
        text = self.measure.text
        launches = [self.weigh(device.launch) for device in self.accelerators]
        if here > min(launches):
            return None
        return [
            [
                Refusal(
                    f"{device.uri} by predicted cost: a launch alone takes {text(launch)} there, the whole graph "
                    f"{text(here)} on the CPU",
                    by_cost=True,
                )
                for device, launch in zip(self.accelerators, launches, strict=True)
            ]
        ] * tasks

    def by_parts(
        self,
        tasks: Sequence[Task],
        answers: Sequence[Sequence[Kernel | Refusal]],
        host: Sequence[Kernel],
        wanted: Collection[int],
        here: float,
    ) -> list[Refusal]:
        """By device, why it gets nothing of a graph that it takes in smaller kernels than the processor.

        here: what the graph weighs on the processor.
        """
        jobs = [job(*each, self.weigh, self.persistent) for each in zip(tasks, answers, host, strict=True)]
        text, last = self.measure.text, len(self.accelerators)
        refusals = []
        for number, device in enumerate(self.accelerators):
            devices = [last if each.answers[number] is None else number for each in jobs]
            there = weight(jobs, self.switches, devices, range(len(jobs)), wanted, self.resident)
            compared = f"{text(there)} with all that it has kernels for there; {text(here)} on the CPU"
            reason = f"{device.uri} by predicted cost: the whole graph takes {compared}"
            refusals.append(Refusal(reason, by_cost=True))
        return refusals

    def declined(self, answers: Sequence[Kernel | Refusal], host: Kernel) -> list[Kernel | Refusal]:
        """The answers for a task that the processor should run."""
        return [
            answer if isinstance(answer, Refusal) else self._comparison(number, answer.cost, host.cost)
            for number, answer in enumerate(answers)
        ]

    def place(
        self,
        tasks: Sequence[Task],
        answers: Sequence[Sequence[Kernel | Refusal]],
        host: Sequence[Kernel],
        wanted: Collection[int],
    ) -> tuple[float, tuple[int, ...], list[list[Kernel | Refusal]]]:
        """The weight of the placement that was found, the order of its tasks, and the answers, by task in that order.

        Of these answers at most one per task is a kernel: that of the device which should run it.
        """
        answers = [[self._launchable(answer) for answer in given] for given in answers]
        jobs = [job(*each, self.weigh, self.persistent) for each in zip(tasks, answers, host, strict=True)]
        found = place(jobs, self.switches, wanted, self.resident)
        chosen = []
        for position in found.order:
            kept = self.declined(answers[position], host[position])
            device = found.devices[position]
            if device < len(self.accelerators):
                kept[device] = answers[position][device]
            chosen.append(kept)
        return found.weight, found.order, chosen

    def _launchable(self, answer: Kernel | Refusal) -> Kernel | Refusal:
        reason = None if isinstance(answer, Refusal) else too_long(answer.cost)
        return answer if reason is None else Refusal(reason)

    def _comparison(self, number: int, there: Cost, here: Cost) -> Refusal:
        """Why a device that could run a task should not."""
        device = self.accelerators[number]
        moves: list[Move] = [*there.reads, *there.writes]
        text, weigh = self.measure.text, self.weigh
        copies = sum(weigh(move.expense) for move in moves)
        return Refusal(
            f"{device.uri} by predicted cost: {text(weigh(there.expense))} there and up to {text(copies)} for copies, "
            f"{text(self.switches[number])} more after a kernel of another kind; "
            f"{text(weigh(here.expense))} on the CPU",
            by_cost=True,
        )


def job(
    task: Task,
    answers: Sequence[Kernel | Refusal],
    host: Kernel,
    weigh: Callable[[Expense], float],
    persistent: Collection[int] = (),
) -> Job:
    """A task as `placement` knows it: what it weighs on each accelerator that takes it, and on the processor.

    persistent: see `Costs`.
    """
    there = (None if isinstance(each, Refusal) else _answer(task, each.cost, weigh, persistent) for each in answers)
    return Job(
        tuple(operand.item for operand in task.inputs),
        tuple(output.item for output in task.outputs),
        (*there, Answer(weigh(host.cost.expense))),
    )


def _answer(task: Task, cost: Cost, weigh: Callable[[Expense], float], persistent: Collection[int]) -> Answer:
    reads = tuple(
        Movement(0.0 if operand.item in persistent else weigh(move.expense), move.form)
        for operand, move in zip(task.inputs, cost.reads, strict=True)
    )
    writes = tuple(Movement(weigh(move.expense), move.form) for move in cost.writes)
    return Answer(weigh(cost.expense), cost.context, reads, writes)
