"""What is to be placed, what a placement is, and what it takes."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Answer", "Job", "Movement", "Overhead", "Placement", "weight"]


class Overhead(NamedTuple):
    """What a device that is not the processor takes besides its jobs.

    launch: of jobs that follow each other on the device and on no other between them. change: from a job of one context
    to one of another within a launch; None if a launch has one context. switch: the same between launches.
    """

    switch: float
    launch: float = 0.0
    change: float | None = None


class Movement(NamedTuple):
    """The weight of bringing a value from the processor's memory into a form that a kernel reads, or back from it.

    form: see `task.Move`. All that bring one value into one form on one device have the same weight.
    """

    weight: float
    form: Hashable = None


class Answer(NamedTuple):
    """What a job takes on a device. context: equal for jobs that follow each other there without a switch.

    reads, writes: one per input and output of the job; empty on the processor.
    """

    weight: float
    context: Hashable = None
    reads: tuple[Movement, ...] = ()
    writes: tuple[Movement, ...] = ()


class Job(NamedTuple):
    """A task. inputs, outputs: the values that it reads and makes. answers: by device; None where it is refused.

    Jobs are listed in an order in which they could run: a value is made before it is read.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    answers: tuple[Answer | None, ...]

    @property
    def alone(self) -> float:
        """What it takes on the processor, which refuses nothing."""
        return self.answers[-1].weight  # type: ignore[union-attr]


class Placement(NamedTuple):
    """devices: of each job. order: numbers of the jobs, as they should run. weight: what all of it takes."""

    devices: tuple[int, ...]
    order: tuple[int, ...]
    weight: float


def weight(
    jobs: Sequence[Job],
    overheads: Sequence[Overhead],
    devices: Sequence[int],
    order: Sequence[int],
    results: Collection[int] = (),
    resident: Mapping[int, tuple[int, float]] | None = None,
) -> float:
    """What a placement takes: the one definition of it.

    - Every job what it takes on its device.
    - Every launch: see `Overhead`.
    - Every change and switch between jobs that follow each other on a device, in a plan that is run again and again:
      the first job follows the last one, in the same launch if there is only one.
    - Every copy in a form that a device reads, once per value, device and form. There is none for form None if the
      value was left there in form None.
    - Every value that was left by a device that is not the processor and is read in any other way, also by the
      processor or because it is a result: bringing it back, once.

    overheads: by device, without the processor. results: values that somebody looks at afterwards.
    resident: values from outside that lie in the memory of a device in form None, and what bringing them back takes.

    Raises ValueError for a job on a device that has refused it.
    """
    processor = len(overheads)
    left = {value: (device, Movement(back)) for value, (device, back) in (resident or {}).items()}
    contexts: list[list[Hashable]] = [[] for _ in overheads]
    launches = [0 for _ in overheads]
    before = processor
    copied: set[tuple[int, int, Hashable]] = set()
    back = {value for value in results if value in left}
    total = 0.0
    for number in order:
        job, device = jobs[number], devices[number]
        answer = job.answers[device]
        if answer is None:
            raise ValueError(f"device {device} has refused job {number}")
        total += answer.weight
        before, previous = device, before
        if device == processor:
            back.update(value for value in job.inputs if value in left)
            continue
        used, overhead = contexts[device], overheads[device]
        same = not used or used[-1] == answer.context
        if previous == device and (same or overhead.change is not None):
            total += 0.0 if same else overhead.change or 0.0
        else:
            total += overhead.launch if same else overhead.launch + overhead.switch
            launches[device] += 1
        used.append(answer.context)
        for value, movement in zip(job.inputs, answer.reads, strict=True):
            lies_at, lies_as = left.get(value, (processor, movement))
            if lies_at == device and lies_as.form is None and movement.form is None:
                continue
            if lies_at != processor:
                back.add(value)
            if (value, device, movement.form) not in copied:
                copied.add((value, device, movement.form))
                total += movement.weight
        for value, movement in zip(job.outputs, answer.writes, strict=True):
            left[value] = (device, movement)
            if value in results:
                back.add(value)
    total += sum(left[value][1].weight for value in back)
    for overhead, used, count in zip(overheads, contexts, launches, strict=True):
        if used and used[0] != used[-1]:
            total += overhead.switch if overhead.change is None or count > 1 else overhead.change
    return total
