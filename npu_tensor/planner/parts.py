"""Parts in which a long graph is planned and run: a loop whose values have not been read, or a deep model.

Planning an op takes far longer than running it, and plans are cached by structure. So each iteration of a loop, or a
few small iterations, become parts of equal structure. An iteration begins where the same line records the same op
again. A graph that does not repeat is cut by size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from math import ceil
from typing import Any, Final

from npu_tensor.graph.nodes import Node

LONGEST: Final = 512
"""Upper bound on the ops of a graph that is planned as one."""

SHORTEST: Final = 32
"""Number of ops that a part should have at least, so that small iterations are fused with each other."""

PLANNING: Final = 10
"""Cost of planning an op, in launches of a part."""

COPIED: Final = 32 << 10
"""Bytes that are copied in the time of a launch, about 3 us."""


def parts(recorded: Mapping[Node, tuple[Any, ...]], roots: Sequence[Node]) -> list[list[Node]]:
    """Return the nodes to compute one part after another: the results that later parts read, and at last `roots`.

    `recorded` nodes must be computed for `roots`; they have their operands and the order of recording.
    """
    if len(recorded) <= LONGEST:
        return [list(roots)]
    # Views take no time and belong to the part that reads them, so that none is copied at a boundary of parts.
    nodes: list[Node] = []
    last_read: list[int] = []
    updated: list[tuple[int, int]] = []  # numbers of the node that an update overwrites, and of the update
    position: dict[Any, int] = {}  # in `nodes`; a view has the position of its base
    for node, operands in recorded.items():
        read = [position[operand] for operand in operands if operand in position]
        if node.call is not None and node.call.op.kind == "view":
            position.update((node, number) for number in read)
            continue
        for number in read:
            last_read[number] = len(nodes)
        if node.call is not None and node.call.op.updates and operands[0] in position:
            updated.append((position[operands[0]], len(nodes)))
        position[node] = len(nodes)
        nodes.append(node)
        last_read.append(0)
    for root in roots:
        if root in position:
            last_read[position[root]] = len(nodes)
    places = [0, *_Cutter(nodes, last_read, updated).cuts(0, len(nodes)), len(nodes)]
    results = [
        [nodes[number] for number in range(begin, end) if last_read[number] >= end]
        for begin, end in pairwise(places[:-1])
    ]
    return [*filter(None, results), list(roots)]


class _Cutter:
    """Finds the numbers of the nodes that begin a part. Nodes are in the order of recording, without views.

    A cut between an overwritten node and its update, as in `updated`, costs a copy.
    """

    def __init__(self, nodes: Sequence[Node], last_read: Sequence[int], updated: Sequence[tuple[int, int]]) -> None:
        self._calls = [node.call for node in nodes]
        # Equal for an op in all iterations, even with other shapes. Code objects are slow to hash.
        self._marks = [(node.call and node.call.op, node.where and node.where[1]) for node in nodes]
        changes = [0] * (len(nodes) + 1)
        for number, last in enumerate(last_read):
            changes[number + 1] += 1
            changes[min(last, len(nodes) - 1) + 1] -= 1
        # Number of values in memory before each node.
        self._crossing = [*accumulate(changes)]
        copies = [0.0] * (len(nodes) + 2)
        for number, update in updated:
            copies[number + 1] += nodes[update].spec.nbytes / COPIED
            copies[update + 1] -= nodes[update].spec.nbytes / COPIED
        # Cost of the copies that a cut before each node causes, in launches.
        self._copies = [*accumulate(copies)]

    def cuts(self, begin: int, end: int) -> list[int]:
        """Return the cuts of a range in ascending order; none if it is short enough for one part."""
        if end - begin <= LONGEST:
            return []
        places = self._between_iterations(begin, end)
        if not places:
            return self._by_size(begin, end)
        inner = (self.cuts(*each) for each in pairwise((begin, *places, end)))
        return sorted([*places, *(place for each in inner for place in each)])

    def _between_iterations(self, begin: int, end: int) -> list[int]:
        """Return the cuts with the lowest cost of planning and launching; none if the parts would not repeat."""
        places: dict[Any, list[int]] = {}
        for number in range(begin + 1, end):
            places.setdefault(self._marks[number], []).append(number)
        # Marks of one loop are about equally frequent. The best of them is the one where fewest values cross.
        best: dict[int, tuple[float, list[int]]] = {}
        for same in places.values():
            if len(same) > 1:
                crossing = sum([self._crossing[number] for number in same]) / len(same)
                frequency = len(same).bit_length()
                if frequency not in best or crossing < best[frequency][0]:
                    best[frequency] = crossing, same
        cheapest: list[int] = []
        least: float = PLANNING * (end - begin) / 2
        for _, same in best.values():
            each = (end - begin) / len(same)
            for step in {1, ceil(SHORTEST / each), max(1, int(LONGEST / each))}:
                cuts = same[::step]
                different = {tuple(self._calls[a:b]) for a, b in pairwise((begin, *cuts, end))}
                cost = PLANNING * sum(map(len, different)) + len(cuts) + sum([self._copies[cut] for cut in cuts])
                if cost < least:
                    cheapest, least = cuts, cost
        return cheapest

    def _by_size(self, begin: int, end: int) -> list[int]:
        """Return cuts where fewest values cross, between parts of at least half the largest size."""
        cuts = []
        while end - begin > LONGEST:
            places = range(begin + LONGEST // 2, begin + LONGEST + 1)
            begin = min(places, key=lambda place: (self._copies[place], self._crossing[place]))
            cuts.append(begin)
        return cuts
