"""Where the boxes of a drawing lie: in layers from top to bottom, ordered so that few edges cross.

The method is that of K. Sugiyama, S. Tagawa, M. Toda, "Methods for visual understanding of hierarchical system
structures" (1981): layers, points where long edges pass the layers between, an order within each layer by barycentres.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise, repeat
from typing import NamedTuple

__all__ = ["GAP", "Layout", "layered"]

GAP = 18.0
"""Least distance of two boxes of a layer, in pixels."""

LAYER_GAP = 34.0
"""Distance of two layers: room for the curves between them."""

BEND_WIDTH = 6.0
"""Width of the place that a passing edge takes in a layer."""

BENDS_PER_BOX = 4
"""Bends that a drawing may have on average. Without a bound they would be quadratic in the boxes."""

STRAIGHT = (1.0, 2.0, 8.0)
"""How much it matters that a part of an edge is straight, by how many of its ends are bends."""

UNTIED = 0.1
"""How much it matters that a box without neighbours on the side looked at stays where it is."""

SWEEPS = 6
"""Times that the layers are ordered downwards and upwards; more hardly ever find anything better."""


class Layout(NamedTuple):
    """In pixels. centres, tops: of the boxes. bottoms: of the layers of the boxes, where there may be taller ones.

    bends: by edge, the points (x, top, bottom) where it passes layers.
    """

    centres: list[float]
    tops: list[float]
    bottoms: list[float]
    bends: dict[tuple[int, int], list[tuple[float, float, float]]]
    width: float
    height: float


def layered(sizes: Sequence[tuple[float, float]], edges: Iterable[tuple[int, int]]) -> Layout:
    """Place boxes of the given (width, height), numbered from 0, above the boxes that their edges lead to.

    Edges have no cycle. The work is about linear in boxes and edges: long edges may share the points where they pass
    a layer, and where those would be many more than the boxes, the longest edges get none and run straight.
    """
    links = sorted(set(edges))
    rank = _ranks(len(sizes), links)
    widths = [width for width, _ in sizes]
    layers: list[list[int]] = [[] for _ in range(max(rank, default=-1) + 1)]
    for box, layer in enumerate(rank):
        layers[layer].append(box)
    passing = _with_bends(links, rank, layers, widths)
    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    parts = {part for path in passing.values() for part in pairwise(path)}
    for upper, lower in sorted(parts):
        if rank[lower] == rank[upper] + 1:
            above[lower].append(upper)
            below[upper].append(lower)
    _order(layers, above, below)
    centres = _centres(layers, widths, above, below)
    tops, bottoms, y = [0.0] * len(widths), [0.0] * len(widths), 0.0
    for layer_boxes in layers:
        height = max((sizes[box][1] for box in layer_boxes if box < len(sizes)), default=0.0)
        for box in layer_boxes:
            tops[box], bottoms[box] = y, y + height
        y += height + LAYER_GAP
    bends = {
        edge: [(centres[bend], tops[bend], bottoms[bend]) for bend in path[1:-1]] for edge, path in passing.items()
    }
    left = min((c - w / 2 for c, w in zip(centres, widths, strict=True)), default=0.0)
    right = max((c + w / 2 for c, w in zip(centres, widths, strict=True)), default=0.0)
    moved = {edge: [(x - left, top, bottom) for x, top, bottom in points] for edge, points in bends.items()}
    boxes = len(sizes)
    height = max(y - LAYER_GAP, 0.0)
    return Layout([c - left for c in centres[:boxes]], tops[:boxes], bottoms[:boxes], moved, right - left, height)


def _ranks(boxes: int, links: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: as high as its operands allow, but what has none lies just above its first reader."""
    import networkx as nx

    graph = nx.DiGraph(links)
    graph.add_nodes_from(range(boxes))
    rank = [0] * boxes
    for layer, members in enumerate(nx.topological_generations(graph)):
        for box in members:
            rank[box] = layer
    for box in range(boxes):
        if graph.in_degree(box) == 0 and graph.out_degree(box) > 0:
            rank[box] = min(rank[reader] for reader in graph.successors(box)) - 1
    return rank


def _with_bends(
    links: Sequence[tuple[int, int]], rank: list[int], layers: list[list[int]], widths: list[float]
) -> dict[tuple[int, int], list[int]]:
    """Each edge as a path of boxes and of new, narrow ones in the layers between; edges of one source share them."""
    budget = BENDS_PER_BOX * len(rank)
    last: dict[int, int] = {}
    for source, reader in links:
        last[source] = max(last.get(source, 0), rank[reader])
    chains: dict[int, list[int]] = {}
    for source in sorted(last, key=lambda box: last[box] - rank[box]):
        between = range(rank[source] + 1, last[source])
        chains[source] = list(range(len(rank), len(rank) + len(between))) if len(between) <= budget else []
        for bend, layer in zip(chains[source], between, strict=False):
            layers[layer].append(bend)
            rank.append(layer)
            widths.append(BEND_WIDTH)
        budget -= len(chains[source])
    return {(a, b): [a, *chains[a][: rank[b] - rank[a] - 1], b] for a, b in links}


def _order(layers: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Sort every layer so that few edges cross: by the mean place of neighbours, downwards and upwards in turn."""
    best, least = [list(layer) for layer in layers], _crossings(layers, above)
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        neighbours = above if downwards else below
        sequence = range(1, len(layers)) if downwards else range(len(layers) - 2, -1, -1)
        for number in sequence:
            fixed = layers[number - 1 if downwards else number + 1]
            place = {box: position for position, box in enumerate(fixed)}
            own = {box: position for position, box in enumerate(layers[number])}
            layers[number].sort(key=_barycentre(neighbours, place, own))
        crossings = _crossings(layers, above)
        if crossings < least:
            best, least = [list(layer) for layer in layers], crossings
        if not least:
            break
    layers[:] = best


def _barycentre(neighbours: list[list[int]], place: dict[int, int], own: dict[int, int]) -> Callable[[int], float]:
    """Sort key: mean place of a box's neighbours in the fixed layer; a box without any stays where it is."""

    def key(box: int) -> float:
        places = [place[other] for other in neighbours[box]]
        return sum(places) / len(places) if places else own[box] * len(place) / max(len(own), 1)

    return key


def _crossings(layers: Sequence[Sequence[int]], above: Sequence[Sequence[int]]) -> int:
    """Pairs of edges between neighbouring layers that cross."""
    total = 0
    for upper, lower in pairwise(layers):
        place = {box: position for position, box in enumerate(upper)}
        seen: list[int] = []
        for box in lower:
            places = [place[other] for other in above[box]]
            # Edges that began further left end further right than all that lie behind them in `seen`.
            total += sum(len(seen) - bisect_left(seen, position + 1) for position in places)
            for position in places:
                insort(seen, position)
    return total


def _centres(
    layers: Sequence[Sequence[int]], widths: Sequence[float], above: list[list[int]], below: list[list[int]]
) -> list[float]:
    """x of every box: near its neighbours, in the layer's order and without overlap."""
    centres = [0.0] * len(widths)
    for layer in layers:
        _spread(layer, widths, centres, [(0.0, 1.0)] * len(layer))
    both = [upper + lower for upper, lower in zip(above, below, strict=True)]
    for sweep in range(2 * SWEEPS):
        neighbours = both if sweep >= 2 * SWEEPS - 2 else (above, below)[sweep % 2]
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = []
            for box in layer:
                bent = widths[box] == BEND_WIDTH
                total = weight = 0.0
                for other in neighbours[box]:
                    part = STRAIGHT[bent + (widths[other] == BEND_WIDTH)]
                    total += centres[other] * part
                    weight += part
                wanted.append((total / weight, weight) if weight else (centres[box], UNTIED))
            _spread(layer, widths, centres, wanted)
    return centres


def _spread(
    layer: Sequence[int], widths: Sequence[float], centres: list[float], wanted: Sequence[tuple[float, float]]
) -> None:
    """Set the centres of a layer: of all without overlap those with the least squared distance from the wanted ones.

    With the least distances taken off this is isotonic regression, solved by pooling neighbours that are out of order.
    wanted: centres with weights.
    """
    offsets, x = [], 0.0
    for number, box in enumerate(layer):
        if number:
            x += (widths[layer[number - 1]] + widths[box]) / 2 + GAP
        offsets.append(x)
    pools: list[tuple[float, float, int]] = []  # mean, weight and number of boxes
    for (centre, weight), offset in zip(wanted, offsets, strict=True):
        mean, boxes = centre - offset, 1
        while pools and pools[-1][0] > mean:
            other, more, others = pools.pop()
            mean = (mean * weight + other * more) / (weight + more)
            weight, boxes = weight + more, boxes + others
        pools.append((mean, weight, boxes))
    means = chain.from_iterable(repeat(mean, boxes) for mean, _, boxes in pools)
    for box, mean, offset in zip(layer, means, offsets, strict=True):
        centres[box] = mean + offset
