"""Layered layout: boxes apart from each other, edges downwards, few crossings."""

import random
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest

from npu_tensor.observe.drawing import coordinates
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


@pytest.mark.parametrize("seed", range(10))
def test_boxes_are_apart_and_edges_lead_down(seed: int) -> None:
    sizes, edges = random_graph(seed)
    result = layered(sizes, edges)
    places = [bounds(result, sizes, box) for box in range(len(sizes))]
    for a, b in combinations(places, 2):
        assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]
    for source, reader in edges:
        assert places[source][3] < places[reader][1]
    assert min(place[0] for place in places) >= -1e-9
    assert max(place[2] for place in places) <= result.width + 1e-9
    assert max(place[3] for place in places) <= result.height + 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_edges_pass_layers_between_boxes(seed: int) -> None:
    sizes, edges = random_graph(seed)
    result = layered(sizes, edges)
    assert set(result.bends) == set(edges)
    layers = sorted(set(result.tops))
    for (source, reader), bends in result.bends.items():
        passed = [top for top in layers if result.tops[source] < top < result.tops[reader]]
        assert [top for _, top, _ in bends] == passed
        for x, top, bottom in bends:
            for box in range(len(sizes)):
                left, y, right, _ = bounds(result, sizes, box)
                assert y != top or not left < x < right
                assert y != top or result.bottoms[box] == bottom


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


def test_sorting_layers_removes_most_crossings(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = [random_graph(seed, 60) for seed in range(8)]
    sorted_ = sum(crossings(layered(*each), each[1]) for each in graphs)
    monkeypatch.setattr(coordinates, "SWEEPS", 0)
    unsorted = sum(crossings(layered(*each), each[1]) for each in graphs)
    assert sorted_ < unsorted / 2


@pytest.mark.parametrize("seed", range(5))
def test_two_trees_can_be_drawn_without_crossings(seed: int) -> None:
    """Their boxes come in any order; a planar drawing exists and is found."""
    numbers = list(range(30))
    random.Random(seed).shuffle(numbers)
    edges = [(numbers[tree + 2 * ((box - 1) // 2)], numbers[tree + 2 * box]) for tree in (0, 1) for box in range(1, 15)]
    assert crossings(layered([(20.0, 10.0)] * 30, edges), edges) == 0


def test_a_chain_is_straight_and_values_lie_above_their_first_reader() -> None:
    edges = [(0, 1), (1, 2), (2, 3), (4, 3)]
    result = layered([(50.0, 20.0)] * 5, edges)
    assert result.tops[4] == result.tops[2]
    assert np.ptp(result.centres[:3]) < 1


@pytest.mark.parametrize("seed", range(30))
def test_no_other_places_of_a_layer_are_nearer_to_the_wanted_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    widths = rng.uniform(5, 60, 8)
    wanted = list(zip(rng.normal(0, 80, 8).tolist(), rng.uniform(0.1, 8, 8).tolist(), strict=True))
    centres = [0.0] * 8
    coordinates._spread(range(8), list(widths), centres, wanted)
    least = (widths[1:] + widths[:-1]) / 2 + coordinates.GAP

    def distance(places: np.ndarray) -> float:
        return float(sum(weight * (x - centre) ** 2 for x, (centre, weight) in zip(places, wanted, strict=True)))

    result = np.array(centres)
    assert np.all(np.diff(result) >= least - 1e-9)
    best = distance(result)
    for _ in range(500):
        other = result + rng.normal(0, rng.choice((0.01, 1, 20)), 8)
        for number in range(1, 8):  # separate nodes that are too close
            other[number] = max(other[number], other[number - 1] + least[number - 1])
        assert distance(other) >= best - 1e-6


def test_long_edges_do_not_make_the_drawing_quadratic() -> None:
    boxes = 400
    edges = [(box, box + 1) for box in range(boxes - 1)] + [(box, boxes - 1) for box in range(boxes - 2)]
    result = layered([(50.0, 20.0)] * boxes, edges)
    assert len({point for bends in result.bends.values() for point in bends}) <= coordinates.BENDS_PER_BOX * boxes


def test_nothing_and_one() -> None:
    assert layered([], []) == Coordinates([], [], [], {}, 0.0, 0.0)
    assert layered([(30.0, 20.0)], []) == Coordinates([15.0], [0.0], [20.0], {}, 30.0, 20.0)
