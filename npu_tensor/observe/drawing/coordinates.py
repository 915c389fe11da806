"""Layered graph layout: layers from top to bottom, ordered to minimize edge crossings.

The method is that of K. Sugiyama, S. Tagawa, M. Toda, "Methods for visual understanding of hierarchical system
structures" (1981): layers, bends where long edges pass the layers between, an order within each layer by barycentres.
No maintained package does this for boxes of different widths without an external program: networkx does not reduce
crossings, fast-sugiyama supports one box size only, grandalf has had no release since 2023.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise, repeat
from typing import NamedTuple

import numpy as np

__all__ = ["GAP", "Coordinates", "layered"]

GAP = 18.0
"""Minimum distance between two boxes of a layer, in pixels."""

LAYER_GAP = 34.0
"""Distance between two layers, in pixels, which holds the curves."""

BEND_WIDTH = 6.0
"""Width reserved for an edge that passes a layer, in pixels."""

BENDS_PER_BOX = 4
"""Maximum average number of bends per box. Without a bound, the bends would be quadratic in the boxes."""

STRAIGHT = (1.0, 2.0, 8.0)
"""Weights of straight edge segments, by the number of their ends that are bends."""

UNTIED = 0.1
"""Weight of the current position of a box without neighbours on the side of a sweep."""

SWEEPS = 6
"""Number of ordering sweeps, downwards and upwards in turn. Further sweeps hardly ever find a better order."""


class Coordinates(NamedTuple):
    """Layout in pixels.

    Attributes:
        centres: Horizontal centre of each box.
        tops: Top of each box's layer.
        bottoms: Bottom of each box's layer, which may contain taller boxes.
        bends: Points (x, top, bottom) where an edge passes layers, by edge.
        width: Width of the drawing.
        height: Height of the drawing.
    """

    centres: list[float]
    tops: list[float]
    bottoms: list[float]
    bends: dict[tuple[int, int], list[tuple[float, float, float]]]
    width: float
    height: float


def layered(sizes: Sequence[tuple[float, float]], edges: Iterable[tuple[int, int]]) -> Coordinates:
    """Place boxes above the boxes that their edges lead to.

    The run time is about linear in boxes and edges: long edges of one source share bends, and the longest edges get
    none if there would be too many.

    Args:
        sizes: (width, height) of each box.
        edges: Pairs (upper box, lower box) of indices into `sizes`, without cycles.
    """
    links = sorted(set(edges))
    rank = _ranks(len(sizes), links)
    paths = _with_bends(links, rank)
    layers: list[list[int]] = [[] for _ in range(max(rank, default=-1) + 1)]
    for box, layer in enumerate(rank):
        layers[layer].append(box)
    widths = [width for width, _ in sizes] + [BEND_WIDTH] * (len(rank) - len(sizes))
    above: list[list[int]] = [[] for _ in rank]
    below: list[list[int]] = [[] for _ in rank]
    for upper, lower in sorted({part for path in paths.values() for part in pairwise(path)}):
        if rank[lower] == rank[upper] + 1:
            above[lower].append(upper)
            below[upper].append(lower)
    _order(layers, above, below)
    centres = _centres(layers, widths, above, below)
    heights = [max((sizes[box][1] for box in layer if box < len(sizes)), default=0.0) for layer in layers]
    ends = np.cumsum([height + LAYER_GAP for height in heights]) - LAYER_GAP
    bottoms = [float(ends[layer]) for layer in rank]
    tops = [float(ends[layer]) - heights[layer] for layer in rank]
    bends = {edge: [(centres[bend], tops[bend], bottoms[bend]) for bend in path[1:-1]] for edge, path in paths.items()}
    boxes = len(sizes)
    right = max((centre + width / 2 for centre, width in zip(centres, widths, strict=True)), default=0.0)
    return Coordinates(centres[:boxes], tops[:boxes], bottoms[:boxes], bends, right, max(bottoms, default=0.0))


def _ranks(boxes: int, links: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each box: as high as its operands allow. Inputs lie just above their first reader."""
    import networkx as nx

    graph = nx.DiGraph(links)
    graph.add_nodes_from(range(boxes))
    rank = {box: layer for layer, members in enumerate(nx.topological_generations(graph)) for box in members}
    for box in range(boxes):
        if graph.in_degree(box) == 0 and graph.out_degree(box) > 0:
            rank[box] = min(rank[reader] for reader in graph.successors(box)) - 1
    return [rank[box] for box in range(boxes)]


def _with_bends(links: Sequence[tuple[int, int]], rank: list[int]) -> dict[tuple[int, int], list[int]]:
    """Return each edge as a path of boxes and bends. Edges of one source share bends; their ranks extend `rank`."""
    budget = BENDS_PER_BOX * len(rank)
    last: dict[int, int] = {}
    for source, reader in links:
        last[source] = max(last.get(source, 0), rank[reader])
    bends: dict[int, range] = {}
    for source in sorted(last, key=lambda box: last[box] - rank[box]):
        between = range(rank[source] + 1, last[source])
        between = between if len(between) <= budget else range(0)
        bends[source] = range(len(rank), len(rank) + len(between))
        rank += between
        budget -= len(between)
    return {(a, b): [a, *bends[a][: rank[b] - rank[a] - 1], b] for a, b in links}


def _order(layers: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Sort every layer by the mean position of neighbours, downwards and upwards in turn, to reduce crossings."""
    best, least = [list(layer) for layer in layers], _crossings(layers, above)
    for sweep in range(SWEEPS):
        neighbours, sequence = (below, layers[::-1]) if sweep % 2 else (above, layers)
        for fixed, layer in pairwise(sequence):
            place = {box: position for position, box in enumerate(fixed)}
            means = {}
            for position, box in enumerate(layer):
                # A box without neighbours on this side keeps its position.
                places: list[float] = [place[other] for other in neighbours[box]]
                places = places or [position * len(fixed) / len(layer)]
                means[box] = sum(places) / len(places)
            layer.sort(key=means.__getitem__)
        crossings = _crossings(layers, above)
        if crossings < least:
            best, least = [list(layer) for layer in layers], crossings
        if not least:
            break
    layers[:] = best


def _crossings(layers: Sequence[Sequence[int]], above: Sequence[Sequence[int]]) -> int:
    """Count the crossings of edges between adjacent layers."""
    total = 0
    for upper, lower in pairwise(layers):
        place = {box: position for position, box in enumerate(upper)}
        ends = [(place[other], position) for position, box in enumerate(lower) for other in above[box]]
        x, y = np.array(ends, np.int32).reshape(-1, 2).T
        total += int(np.count_nonzero((x[:, None] - x) * (y[:, None] - y) < 0)) // 2
    return total


def _centres(
    layers: Sequence[Sequence[int]], widths: Sequence[float], above: list[list[int]], below: list[list[int]]
) -> list[float]:
    """Return the x coordinate of every box: near its neighbours, in layer order and without overlap."""
    centres = [0.0] * len(widths)
    for layer in layers:
        _spread(layer, widths, centres, [(0.0, 1.0)] * len(layer))
    both = [upper + lower for upper, lower in zip(above, below, strict=True)]
    for sweep in range(2 * SWEEPS):
        neighbours = both if sweep >= 2 * SWEEPS - 2 else (above, below)[sweep % 2]
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            targets = []
            for box in layer:
                bent = widths[box] == BEND_WIDTH
                total = weight = 0.0
                for other in neighbours[box]:
                    part = STRAIGHT[bent + (widths[other] == BEND_WIDTH)]
                    total += centres[other] * part
                    weight += part
                targets.append((total / weight, weight) if weight else (centres[box], UNTIED))
            _spread(layer, widths, centres, targets)
    left = min((centre - width / 2 for centre, width in zip(centres, widths, strict=True)), default=0.0)
    return [centre - left for centre in centres]


def _spread(
    layer: Sequence[int], widths: Sequence[float], centres: list[float], targets: Sequence[tuple[float, float]]
) -> None:
    """Set the centres of a layer to minimize the squared distance from the targets without overlap.

    After subtracting the minimum distances, this is isotonic regression, solved by pooling adjacent violators.
    `targets` holds pairs (centre, weight).
    """
    offsets, x = [], 0.0
    for number, box in enumerate(layer):
        if number:
            x += (widths[layer[number - 1]] + widths[box]) / 2 + GAP
        offsets.append(x)
    pools: list[tuple[float, float, int]] = []  # mean, weight and number of boxes
    for (centre, weight), offset in zip(targets, offsets, strict=True):
        mean, boxes = centre - offset, 1
        while pools and pools[-1][0] > mean:
            other, more, others = pools.pop()
            mean = (mean * weight + other * more) / (weight + more)
            weight, boxes = weight + more, boxes + others
        pools.append((mean, weight, boxes))
    means = chain.from_iterable(repeat(mean, boxes) for mean, _, boxes in pools)
    for box, mean, offset in zip(layer, means, offsets, strict=True):
        centres[box] = mean + offset
