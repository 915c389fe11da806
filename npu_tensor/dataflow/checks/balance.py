"""Balance of a run: every fifo must be emptied of exactly the objects that were put in.

Remaining objects stay in the array and become the beginning of the next run's data. Missing ones are waited for until
the host gives up. The iterations of all loops are known in a run, so the counts follow from the fills.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from fractions import Fraction

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.checks.index import Index, Violation, walk
from npu_tensor.dataflow.design import Link, Release, Worker


def balance(index: Index) -> Iterator[Violation]:
    """Check that fills, links, workers and drains agree on the number of objects of every fifo."""
    yield from Flow(index).violations


class Flow:
    """Data movement of one run: objects of each fifo, and rounds of each worker's body.

    Attributes:
        objects: Number of objects by fifo, with the origin of this number.
        rounds: Number of rounds by tile, with the fifo that determines it.
        violations: Contradictions.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        self.objects: dict[str, tuple[Fraction, str]] = {}
        self.rounds: dict[Tile, tuple[Fraction, str]] = {}
        self.pending: deque[str] = deque()
        self.violations: dict[Violation, None] = {}
        self.workers: dict[str, list[Worker]] = defaultdict(list)
        self.links: dict[str, list[Link]] = defaultdict(list)
        self.released: dict[Tile, dict[str, int]] = {}
        for worker in index.design.workers:
            released = dict.fromkeys(worker.fifos, 0)
            for statement, repeats in walk(worker.body, index.words):
                if isinstance(statement, Release):
                    released[statement.fifo] += statement.objects * repeats
            self.released[worker.tile] = released
            for name in worker.fifos:
                self.workers[name].append(worker)
        for link in index.design.links:
            for name in (*link.inputs, *link.outputs):
                self.links[name].append(link)
        # A fifo without a transfer, of a channel that is idle in the run, has no objects.
        moved = dict.fromkeys(index.design.shim_ends, 0)
        for transfer in index.transfers:
            itemsize = index.host_buffers[transfer.buffer].type.itemsize
            moved[transfer.fifo] += transfer.pattern.elements * itemsize
        # Drains are compared with the objects that arrive. They determine the counts only of fifos that no fill
        # reaches.
        for verb, direction in (("fills bring", "out"), ("drains take", "in")):
            for name, nbytes in moved.items():
                if index.design.shim_ends[name].direction == direction:
                    self._transferred(name, nbytes, verb)
            self._spread()

    def _transferred(self, name: str, nbytes: int, verb: str) -> None:
        object_size = self.index.fifos[name].type.nbytes
        if nbytes % object_size:
            message = (
                f"the {verb} {nbytes} bytes of fifo {name} in a run, no whole number of its objects of {object_size} "
                "bytes; the rest would be waited for."
            )
            self._report("whole objects", name, message)
        else:
            self._learn(name, Fraction(nbytes, object_size), f"the {verb}")

    def _spread(self) -> None:
        while self.pending:
            name = self.pending.popleft()
            for link in self.links[name]:
                self._through_link(name, link)
            for worker in self.workers[name]:
                self._through_worker(name, worker)

    def _learn(self, name: str, objects: Fraction, source: str) -> None:
        known = self.objects.get(name)
        if objects.denominator > 1:
            message = f"fifo {name}: {source} {objects} objects in every run, which is no whole number."
            self._report("whole objects", name, message)
        elif known is None:
            self.objects[name] = (objects, source)
            self.pending.append(name)
        elif known[0] != objects:
            message = f"fifo {name}: {known[1]} {known[0]} objects in every run, {source} {objects}; they must agree."
            self._report("balance", name, message)

    def _through_link(self, name: str, link: Link) -> None:
        objects = self.objects[name][0]
        nbytes = self.index.fifos[name].type.nbytes
        for other in (*link.inputs, *link.outputs):
            # Two known sides are compared once, from the inputs.
            if other not in self.objects or (name in link.inputs and other in link.outputs):
                same = link.kind == "forward"
                ratio = Fraction(nbytes, self.index.fifos[other].type.nbytes) if same else Fraction(1)
                self._learn(other, objects * ratio, f"the {link.kind} of {link.tile} passes")

    def _through_worker(self, name: str, worker: Worker) -> None:
        objects, source = self.objects[name]
        released = self.released[worker.tile]
        if not released[name]:
            if not objects:
                return
            message = f"fifo {name}: {source} {objects} objects in every run, {worker.tile} releases none."
            self._report("balance", name, message)
            return
        rounds = objects / released[name]
        if rounds.denominator > 1:
            message = (
                f"{worker.tile} uses {released[name]} objects of fifo {name} in each round of its body, and {source} "
                f"{objects} in a run, no whole number of rounds."
            )
            self._report("balance", str(worker.tile), message)
            return
        known = self.rounds.setdefault(worker.tile, (rounds, name))
        if known[0] != rounds:
            message = (
                f"{worker.tile}: fifo {known[1]} is enough for {known[0]} rounds of its body in a run, "
                f"fifo {name} for {rounds}; they must agree."
            )
            self._report("balance", str(worker.tile), message)
            return
        for other, count in released.items():
            if other not in self.objects:  # otherwise that fifo determines the rounds later, and they are compared
                verb = "takes" if self.index.consumes(worker, other) else "puts in"
                self._learn(other, rounds * count, f"{worker.tile} {verb}")

    def _report(self, rule: str, where: str, message: str) -> None:
        self.violations[Violation(rule, where, message)] = None
