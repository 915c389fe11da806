"""The search for a placement.

Without switches, letting single jobs go where everything takes less comes close to the best: a move is seldom worth
more than a job. What decides are the contexts, as using another one costs switches. So jobs start where a set of
contexts takes them, are settled one by one without switches and ordered, and the runs that are not worth their
switches are given up. The sets are every context alone, all of them, and what was best so far with one more.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

from npu_tensor.planner.placement.moves import Moves, Option
from npu_tensor.planner.placement.order import Run, kept, ordered, switched
from npu_tensor.planner.placement.problem import Job, Placement

__all__ = ["place"]

MAX_ROUNDS = 3
"""How often a set of contexts is ordered, with fewer runs every time; more rounds seldom found anything."""

MAX_VISITS = 1
MORE_VISITS = 100
"""How often each job is ordered, and all jobs together besides, until the search is content: ordering is what takes
its time. With one NPU, searching on made no random graph better by more than 0.3 %.
"""


def place(
    jobs: Sequence[Job],
    switches: Sequence[float],
    wanted: Collection[int] = (),
    resident: Mapping[int, tuple[int, float]] | None = None,
) -> Placement:
    """A placement of little weight; see `weight` for the arguments. It never takes more than the processor alone.

    The order keeps every job behind those whose values it reads. Equal arguments give equal placements.
    """
    resident = resident or {}
    potentials = _potentials(jobs, resident)
    if not jobs or not (potentials or resident):
        alone = sum([job.alone for job in jobs])
        return Placement((len(switches),) * len(jobs), tuple(range(len(jobs))), alone)
    search = _Search(jobs, switches, potentials, wanted, resident)
    search.run()
    return Placement(tuple([option.device for option in search.placed]), tuple(search.order), search.weight)


def _potentials(
    jobs: Sequence[Job], resident: Mapping[int, tuple[int, float]]
) -> dict[tuple[int, Hashable], float]:
    """By device and context, how much less its jobs take there at most, without those that take more."""
    found: dict[tuple[int, Hashable], float] = {}
    for job in jobs:
        alone = job.alone
        for device, answer in enumerate(job.answers[:-1]):
            if answer is None:
                continue
            gain = alone - answer.weight
            if resident:
                gain += sum([resident[v][1] for v in job.inputs if v in resident and resident[v][0] == device])
            if gain > 0:
                key = (device, answer.context)
                found[key] = found.get(key, 0.0) + gain
    return found


class _Search:
    """The best placement found so far: placed, order and weight; own is the weight without switches.

    potentials: by label, see `_potentials`.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        switches: Sequence[float],
        potentials: Mapping[tuple[int, Hashable], float],
        wanted: Collection[int],
        resident: Mapping[int, tuple[int, float]],
    ) -> None:
        labels = {key: label for label, key in enumerate(potentials, 1)}
        self.switches = switches
        self.potentials = [0.0, *potentials.values()]
        self.moves = Moves(jobs, labels, wanted, resident)
        self.own = self.weight = self.moves.alone
        self.placed = self.moves.home
        self.order: Sequence[int] = range(len(jobs))
        self.visits = MAX_VISITS * len(jobs) + MORE_VISITS

    def run(self) -> None:
        """One context alone, then all, then the best of these with one more as long as that helps."""
        moves, potentials = self.moves, self.potentials
        labels = sorted(range(1, len(potentials)), key=lambda label: -potentials[label])
        for label in labels:
            if self.moves.alone - potentials[label] < self.weight:
                self._start(moves.home, self.moves.alone, (label,))
        if len(labels) == 1:
            return
        if self.moves.alone - self._bound() < self.weight:
            self._start(moves.home, self.moves.alone, labels)
        while self.visits > 0 and any(self._add(label) for label in labels):
            pass

    def _bound(self) -> float:
        """What several contexts can gain at most."""
        total = 0.0
        for device, switch in enumerate(self.switches):
            gains = [gain for gain, other in zip(self.potentials, self.moves.device_of, strict=True) if other == device]
            switching = sum([gain - switch for gain in gains if gain > switch])
            # With other devices, there can be several contexts without a switch.
            total += max([switching, *gains]) if len(self.switches) > 1 else switching
        return total

    def _add(self, label: int) -> bool:
        """Whether the best placement gets better if jobs go to one more context."""
        used = {option.label for option in self.placed if option.label}
        if label in used or self.visits <= 0:
            return False
        worth = self.potentials[label] > self._switching(label, used)
        return worth and self._start(self.placed, self.own, (label,), used)

    def _switching(self, label: int, used: Iterable[int]) -> float:
        """What switches take more if a context is used besides others: the first one needs none, the second one two."""
        device_of = self.moves.device_of
        device = device_of[label]
        others = sum([device_of[other] == device for other in used])
        return {0: 0.0, 1: 2.0}.get(others, 1.0) * self.switches[device]

    def _start(self, placed: Sequence[Option], own: float, new: Sequence[int], used: Collection[int] = ()) -> bool:
        """Let all jobs go to the new labels that can, and improve that. Returns whether it gets better than the best.

        placed: where jobs are before. own: what that takes without switches. used: the labels there.
        """
        moves = self.moves
        moves.put_all(placed)
        members = moves.members[new[0]] if len(new) == 1 else sorted({j for label in new for j in moves.members[label]})
        for job in members:
            options = moves.options[job]
            option = options[0] if len(options) == 1 else min([o for o in options if o.label in new], key=_weight)
            own += moves.change(job, option)
            moves.put(job, option)
        labels = (*used, *new)
        own += moves.settle(members, labels)
        better = False
        for rounds_left in reversed(range(MAX_ROUNDS)):
            if own >= self.weight:
                break
            order, runs = self._ordered()
            weight = own + sum([switch * switched(found) for switch, found in zip(self.switches, runs, strict=True)])
            if weight < self.weight - moves.nothing:
                self.weight, self.own, self.placed, self.order = weight, own, moves.placed.copy(), order
                better = True
            improving = rounds_left and self.visits > 0
            for device, found in enumerate(runs):
                more = self._give_up(device, found, labels) if improving and len(found) > 1 else None
                if more is not None:
                    own += more
                    break
            else:
                break
            own += moves.settle([job for job, option in enumerate(moves.placed) if option.label], ())
        return better

    def _ordered(self) -> tuple[Sequence[int], list[list[Run]]]:
        """An order of the jobs where they are now, and the runs of devices, unless none has to switch."""
        moves = self.moves
        labels = [option.label for option in moves.placed]
        used = [moves.device_of[label] for label in set(labels)]
        if len(used) == len(set(used)):
            return range(len(labels)), [[] for _ in self.switches]
        self.visits -= len(labels)
        return ordered(moves.readers, moves.sources, labels, moves.device_of)

    def _give_up(self, device: int, runs: Sequence[Run], labels: Collection[int]) -> float | None:
        """Let the jobs of runs that are not worth their switches go elsewhere; returns how much more everything takes
        then, without switches, or None if all are worth them.
        """
        moves = self.moves
        used = {option.label for option in moves.placed if option.label}
        others = {
            label: 0.0 if label in used else self._switching(label, used)
            for label in labels
            if moves.device_of[label] != device
        }
        free = {label: switching for label, switching in others.items() if not switching}
        losses, elsewhere = [], []
        for _, jobs in runs:
            loss, options = _without(moves, jobs, free)
            if len(free) < len(others):
                loss, options = min((loss, options), _without(moves, jobs, others), key=_first)
            losses.append(loss)
            elsewhere.append(options)
        keep = kept([label for label, _ in runs], losses, self.switches[device])
        if len(keep) == len(runs):
            return None
        more = 0.0
        for number, (_, jobs) in enumerate(runs):
            if number not in keep:
                for job, option in zip(jobs, elsewhere[number], strict=True):
                    more += moves.change(job, option)
                    moves.put(job, option)
        return more


def _without(moves: Moves, jobs: Sequence[int], others: Mapping[int, float]) -> tuple[float, list[Option]]:
    """How much more everything takes if jobs go to the processor or other labels, and where each goes then.

    others: by label, what has to be switched for it.
    """
    loss = 0.0
    before = [moves.placed[job] for job in jobs]
    options = []
    for job in jobs:
        best = moves.home[job]
        least = moves.change(job, best)
        if others:
            for option in moves.options[job]:
                if option.label in others and (more := moves.change(job, option)) < least:
                    best, least = option, more
        loss += least
        options.append(best)
        if len(jobs) > 1:  # those after it depend on where it is
            moves.put(job, best)
    if len(jobs) > 1:
        for job, option in zip(jobs, before, strict=True):
            moves.put(job, option)
    if others:
        loss += sum([others[label] for label in {option.label for option in options} if label])
    return loss, options


def _first(found: tuple[float, list[Option]]) -> float:
    return found[0]


def _weight(option: Option) -> float:
    return option.weight
