"""Layered graph layout: layers from top to bottom, sorted by barycentres to reduce edge crossings.

The method of K. Sugiyama, S. Tagawa, M. Toda, "Methods for visual understanding of hierarchical system structures"
(1981). `networkx.multipartite_layout` gives neither different widths nor a way for edges past the boxes between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise, repeat
from typing import NamedTuple

GAP = 18.0
"""Minimum distance between two boxes of a layer, in pixels."""

LAYER_GAP = 34.0
"""Distance between two layers, in pixels, which holds the curves."""

BEND_WIDTH = 6.0
"""Width reserved for an edge that passes a layer, in pixels."""

MOST_BENDS = 30
"""Maximum number of layers that an edge passes without crossing boxes. It bounds the time of the layout."""

UNTIED = 0.1
"""Weight of the position of a box without neighbours on the side of a sweep, relative to one neighbour."""

SWEEPS = 12
"""Number of sweeps, downwards and upwards in turn."""


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
    """Place boxes of (width, height) above the boxes that edges (upper, lower), without cycles, lead to."""
    boxes = len(sizes)
    links = sorted(set(edges))
    rank = _ranks(boxes, links)
    paths = _paths(links, rank)
    layers: list[list[int]] = [[] for _ in range(max(rank, default=-1) + 1)]
    for box, layer in enumerate(rank):
        layers[layer].append(box)
    above: list[list[int]] = [[] for _ in rank]
    below: list[list[int]] = [[] for _ in rank]
    for upper, lower in sorted({part for path in paths.values() for part in pairwise(path)}):
        above[lower].append(upper)
        below[upper].append(lower)
    for _ in range(SWEEPS // 2):
        _sort(layers, above)
        _sort(layers[::-1], below)
    _sort(layers, above)
    widths = [width for width, _ in sizes] + [BEND_WIDTH] * (len(rank) - boxes)
    centres = _centres(layers, widths, above, below)
    heights = [max((sizes[box][1] for box in layer if box < boxes), default=0.0) for layer in layers]
    ends = [end - LAYER_GAP for end in accumulate(height + LAYER_GAP for height in heights)]
    bottoms = [ends[layer] for layer in rank]
    tops = [ends[layer] - heights[layer] for layer in rank]
    bends = {edge: [(centres[bend], tops[bend], bottoms[bend]) for bend in path[1:-1]] for edge, path in paths.items()}
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


def _paths(links: Sequence[tuple[int, int]], rank: list[int]) -> dict[tuple[int, int], list[int]]:
    """Return each edge as a path of boxes and bends. Edges of one source share bends; their ranks extend `rank`."""
    bends: dict[tuple[int, int], int] = {}
    paths = {}
    for source, reader in links:
        between = range(rank[source] + 1, rank[reader])
        path = [source]
        for layer in between if len(between) <= MOST_BENDS else ():
            if (source, layer) not in bends:
                bends[source, layer] = len(rank)
                rank.append(layer)
            path.append(bends[source, layer])
        paths[source, reader] = [*path, reader]
    return paths


def _sort(layers: Sequence[list[int]], before: Sequence[list[int]]) -> None:
    """Sort every layer by the mean position of the neighbours in layers before it."""
    place: dict[int, float] = {}
    for layer in layers:
        means = {}
        for position, box in enumerate(layer):
            known = [place[other] for other in before[box] if other in place]
            means[box] = sum(known) / len(known) if known else position / len(layer)
        layer.sort(key=means.__getitem__)
        place |= {box: (position + 0.5) / len(layer) for position, box in enumerate(layer)}


def _centres(
    layers: Sequence[list[int]], widths: Sequence[float], above: Sequence[list[int]], below: Sequence[list[int]]
) -> list[float]:
    """Return the x coordinate of every box: near its neighbours, in layer order and without overlap."""
    centres = [0.0] * len(widths)
    offsets = []
    for layer in layers:
        distances = ((widths[a] + widths[b]) / 2 + GAP for a, b in pairwise(layer))
        offsets.append(list(accumulate(distances, initial=0.0)))
    both = [upper + lower for upper, lower in zip(above, below, strict=True)]
    for sweep in range(2 * SWEEPS):
        neighbours = both if sweep >= SWEEPS else (above, below)[sweep % 2]
        for number in range(len(layers)) if sweep % 2 == 0 else reversed(range(len(layers))):
            targets, weights = [], []
            for box, offset in zip(layers[number], offsets[number], strict=True):
                near = neighbours[box]
                targets.append(sum(centres[other] for other in near or [box]) / len(near or [box]) - offset)
                weights.append(len(near) or UNTIED)
            for box, offset, place in zip(layers[number], offsets[number], _increasing(targets, weights), strict=True):
                centres[box] = place + offset
    left = min((centre - width / 2 for centre, width in zip(centres, widths, strict=True)), default=0.0)
    return [centre - left for centre in centres]


def _increasing(targets: Sequence[float], weights: Sequence[float]) -> Iterator[float]:
    """Yield the increasing sequence nearest to the targets, by pooling adjacent violators."""
    pools: list[tuple[float, float, int]] = []  # weighted sum, weight and length
    for target, weight in zip(targets, weights, strict=True):
        pool = (target * weight, weight, 1)
        while pools and pools[-1][0] / pools[-1][1] > pool[0] / pool[1]:
            last = pools.pop()
            pool = (last[0] + pool[0], last[1] + pool[1], last[2] + pool[2])
        pools.append(pool)
    for total, weight, length in pools:
        yield from repeat(total / weight, length)
