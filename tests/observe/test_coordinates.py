"""Layered layout: boxes apart from each other, edges downwards and past the boxes between, few crossings."""

import random
from collections.abc import Sequence
from itertools import combinations, pairwise

import pytest

from npu_tensor.observe.drawing.coordinates import Coordinates, layered

Edges = list[tuple[int, int]]


def random_graph(seed: int, boxes: int = 40) -> tuple[list[tuple[float, float]], Edges]:
    """Sizes, and edges that lead from lower to higher numbers, most of them not far."""
    rng = random.Random(seed)
    sizes = [(rng.uniform(10, 150), rng.uniform(10, 90)) for _ in range(boxes)]
    edges = [
        (source, reader)
        for reader in range(1, boxes)
        for source in {max(0, reader - rng.choice((1, 1, 2, 3, 5, 20))) for _ in range(rng.randrange(3))}
    ]
    return sizes, edges


def bounds(found: Coordinates, sizes: Sequence[tuple[float, float]], box: int) -> tuple[float, float, float, float]:
    (width, height), x, y = sizes[box], found.centres[box], found.tops[box]
    return x - width / 2, y, x + width / 2, y + height


@pytest.mark.parametrize("seed", range(4))
def test_boxes_are_apart_and_edges_lead_down_between_them(seed: int) -> None:
    sizes, edges = random_graph(seed)
    result = layered(sizes, edges)
    places = [bounds(result, sizes, box) for box in range(len(sizes))]
    for a, b in combinations(places, 2):
        assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]
    assert min(place[0] for place in places) >= -1e-9
    assert max(place[2] for place in places) <= result.width + 1e-9
    assert max(place[3] for place in places) <= result.height + 1e-9
    assert set(result.bends) == set(edges)
    layers = sorted(set(result.tops))
    for (source, reader), bends in result.bends.items():
        assert places[source][3] < places[reader][1]
        assert [top for _, top, _ in bends] == [y for y in layers if result.tops[source] < y < result.tops[reader]]
        for x, top, _ in bends:
            assert not any(y == top and left < x < right for left, y, right, _ in places)


def crossings(found: Coordinates, edges: Edges) -> int:
    """Pairs of edges, as polygons through their bends, that cross between two layers: by looking at all pairs."""
    parts: dict[float, set[tuple[float, float]]] = {}
    for source, reader in edges:
        points = [
            (found.centres[source], found.tops[source]),
            *((x, top) for x, top, _ in found.bends[source, reader]),
            (found.centres[reader], found.tops[reader]),
        ]
        for (x, y), (to, _) in pairwise(points):
            parts.setdefault(y, set()).add((x, to))
    return sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for each in parts.values() for a, b in combinations(each, 2))


@pytest.mark.parametrize("seed", range(3))
def test_two_trees_are_drawn_without_crossings(seed: int) -> None:
    """Their boxes come in any order; a planar drawing exists and is found."""
    numbers = list(range(30))
    random.Random(seed).shuffle(numbers)
    edges = [(numbers[tree + 2 * ((box - 1) // 2)], numbers[tree + 2 * box]) for tree in (0, 1) for box in range(1, 15)]
    assert crossings(layered([(20.0, 10.0)] * 30, edges), edges) == 0
