"""Jobs on devices: what they and the moves of their values take, and how that changes if one job goes elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from npu_tensor.planner.placement.problem import Answer, Job

__all__ = ["Moves", "Option"]

NOTHING = 1e-12
"""Part of the whole weight: a smaller gain is a rounding error, for which no search must go on."""


class Option(NamedTuple):
    """A device that a job can run on.

    label: a number for device and context; 0 is the processor. reads: values, the copy of each that is needed, and for
    how many of the inputs. writes: values, the copy of each that is there without a move, or -1, and what bringing
    the value back takes. The processor needs no copies and leaves none.
    """

    device: int
    label: int
    weight: float
    reads: tuple[tuple[int, int, int], ...]
    writes: tuple[tuple[int, int, float], ...]


class Moves:
    """Jobs on devices; all on the processor at first.

    placed: the option of each job. home: that of the processor. options: the others. members: by label, the jobs with
    such an option. device_of: by label. alone: what everything takes on the processor. nothing: what is too little to
    be a gain. readers: of each job, the jobs that read its values, once per input. sources:
    the other way round.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        labels: Mapping[tuple[int, Hashable], int],
        wanted: Collection[int],
        resident: Mapping[int, tuple[int, float]],
    ) -> None:
        """labels: the numbers, from 1 on, of the devices and contexts that may be used."""
        processor = len(jobs[0].answers) - 1
        self.device_of = [processor, *(device for device, _ in labels)]
        self.members: list[list[int]] = [[] for _ in self.device_of]
        self.home: list[Option] = []
        self.options: list[list[Option]] = []
        self.readers: list[list[int]] = [[] for _ in jobs]
        self.sources: list[list[int]] = []
        # How many inputs read a value; being wanted counts as one.
        self._readings = readings = dict.fromkeys(wanted, 1)
        # A copy is a value on a device in a form: its number, and what making it takes. The last, -1, stands for none.
        self._copies: dict[tuple[int, int, Hashable], int] = {}
        self._takes: list[float] = []
        maker: dict[int, int] = {}
        stays = Option(processor, 0, 0.0, (), ())
        self._stays = 0.0
        readers, members, home = self.readers, self.members, self.home
        for number, job in enumerate(jobs):
            inputs, outputs, answers = job
            sources = []
            for value in inputs:
                readings[value] = readings.get(value, 0) + 1
                if value in maker:
                    sources.append(maker[value])
                    readers[maker[value]].append(number)
            self.sources.append(sources)
            for value in outputs:
                maker[value] = number
                if value not in readings:
                    readings[value] = 0
            options = []
            for device in range(processor):
                answer = answers[device]
                if answer is not None and (label := labels.get((device, answer.context))):
                    options.append(self._option(job, device, label, answer))
                    members[label].append(number)
            self.options.append(options)
            if options:
                writes = tuple([(value, -1, 0.0) for value in outputs])
                home.append(Option(processor, 0, job.alone, (), writes))
            else:
                home.append(stays)
                self._stays += job.alone
        self.placed = list(self.home)
        # What is there without a move, a copy or -1, and what bringing the value back takes if it is read otherwise.
        self._given = dict.fromkeys(readings, -1)
        self._back = dict.fromkeys(readings, 0.0)
        for value, (device, back) in resident.items():
            readings.setdefault(value, 0)
            self._given[value] = self._there(value, device)
            self._back[value] = back
        # How many inputs need a copy.
        self._uses = [0] * (len(self._takes) + 1)
        self._takes.append(0.0)
        self.alone = self.weight()
        self.nothing = NOTHING * self.alone

    def _option(self, job: Job, device: int, label: int, answer: Answer) -> Option:
        copies, takes = self._copies, self._takes
        reads = []
        for value, (weight, form) in zip(job.inputs, answer.reads, strict=True):
            copy = copies.setdefault((value, device, form), len(takes))
            if copy == len(takes):
                takes.append(weight)
            else:
                takes[copy] = weight
            reads.append((value, copy, 1))
        if len(reads) > 1 and len(set(reads)) < len(reads):
            reads = [(value, copy, reads.count((value, copy, 1))) for value, copy, _ in dict.fromkeys(reads)]
        writes = []
        for value, (weight, form) in zip(job.outputs, answer.writes, strict=True):
            writes.append((value, self._there(value, device) if form is None else -1, weight))
        return Option(device, label, answer.weight, tuple(reads), tuple(writes))

    def _there(self, value: int, device: int) -> int:
        """The copy that is a tensor's own bytes; what it takes is known once a job reads it."""
        copy = self._copies.setdefault((value, device, None), len(self._takes))
        if copy == len(self._takes):
            self._takes.append(0.0)
        return copy

    def weight(self) -> float:
        """What everything takes, without switches."""
        given, uses, readings, takes = self._given, self._uses, self._readings, self._takes
        total = self._stays + sum([option.weight for option in self.placed])
        for (value, _, _), copy in self._copies.items():
            if uses[copy] and given[value] != copy:
                total += takes[copy]
        for value, back in self._back.items():
            if back and readings[value] > uses[given[value]]:
                total += back
        return total

    def change(self, job: int, new: Option) -> float:
        """How much more everything takes, without switches, if a job goes elsewhere."""
        given, uses, readings, takes = self._given, self._uses, self._readings, self._takes
        old = self.placed[job]
        more = new.weight - old.weight
        for value, copy, inputs in old.reads:
            if copy == given[value]:
                if uses[copy] == readings[value]:
                    more += self._back[value]
            elif uses[copy] == inputs:
                more -= takes[copy]
        for value, copy, inputs in new.reads:
            if copy == given[value]:
                if uses[copy] + inputs == readings[value]:
                    more -= self._back[value]
            elif not uses[copy]:
                more += takes[copy]
        for value, copy, back in new.writes:
            before = given[value]
            if readings[value] > uses[before]:
                more -= self._back[value]
            if readings[value] > uses[copy]:
                more += back
            if before != copy:
                if uses[before]:
                    more += takes[before]
                if uses[copy]:
                    more -= takes[copy]
        return more

    def put(self, job: int, new: Option) -> None:
        """Let a job run elsewhere."""
        uses = self._uses
        for _, copy, inputs in self.placed[job].reads:
            uses[copy] -= inputs
        for _, copy, inputs in new.reads:
            uses[copy] += inputs
        for value, copy, back in new.writes:
            self._given[value] = copy
            self._back[value] = back
        self.placed[job] = new

    def put_all(self, placed: Iterable[Option]) -> None:
        """Let every job run where it is said."""
        now = self.placed
        for job, option in enumerate(placed):
            if now[job] is not option:
                self.put(job, option)

    def settle(self, jobs: Iterable[int], labels: Collection[int]) -> float:
        """Let single jobs, these and those around what changes, go to the processor or to one of the labels as long as
        everything takes less then, without switches; returns how much more it takes.
        """
        home, options, placed = self.home, self.options, self.placed
        total = 0.0
        queue = list(jobs)
        queued = set(queue)
        for job in queue:  # which grows meanwhile
            queued.discard(job)
            now = best = placed[job]
            least = -self.nothing
            if now.label:
                more = self.change(job, home[job])
                if more < least:
                    best, least = home[job], more
            for option in options[job]:
                if option is not now and option.label in labels:
                    more = self.change(job, option)
                    if more < least:
                        best, least = option, more
            if best is not now:
                total += least
                self.put(job, best)
                for other in (*self.sources[job], *self.readers[job]):
                    if options[other] and other not in queued:
                        queued.add(other)
                        queue.append(other)
        return total
