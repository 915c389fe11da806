"""Pictures of graphs as SVG: shapes, positions and colours; all texts stay inside their boxes."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.observe.drawing import Box, Frame, Kind, Picture, svg
from npu_tensor.observe.drawing.picture import COLOURS
from npu_tensor.observe.drawing.svg import MOST_BOXES
from npu_tensor.observe.explanation import Explanation

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '"]>&<script>alert(1)</script>\x00\ud800\n--> %% `é` </svg>'


class Rectangle(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, other: Rectangle) -> bool:
        x, y = self.left < other.left <= other.right < self.right, self.top < other.top <= other.bottom < self.bottom
        return x and y

    def meets(self, other: Rectangle) -> bool:
        return not (
            self.right < other.left or other.right < self.left or self.bottom < other.top or other.bottom < self.top
        )


def rectangle(group: ElementTree.Element) -> Rectangle:
    rect = group.find(f"{SVG}rect")
    x, y, width, height = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
    return Rectangle(x, y, x + width, y + height)


def groups(root: ElementTree.Element, word: str) -> list[ElementTree.Element]:
    return [group for group in root.iter(f"{SVG}g") if word in group.get("class", "").split()]


def items(root: ElementTree.Element) -> dict[int, ElementTree.Element]:
    return {int(group.attrib["data-item"]): group for group in root.iter(f"{SVG}g") if "data-item" in group.attrib}


def edges(root: ElementTree.Element) -> list[tuple[int, int]]:
    paths = [path for path in root.iter(f"{SVG}path") if path.get("class") == "edge"]
    return [tuple(map(int, path.attrib["data-edge"].split())) for path in paths]  # type: ignore[misc]


def title(group: ElementTree.Element) -> str:
    return group.findtext(f"{SVG}title") or ""


def words(group: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in group.findall(f"{SVG}text")]


def network() -> nt.Tensor:
    """Fused kernels, views, twins, numbers, a residual and a value that two kernels read."""
    x, w = nt.ones(16, 32).realize(), nt.ones(32, 32).realize()
    scaled = x / ((x * x).mean(-1, keepdim=True) + 1e-5).sqrt()
    a, b = scaled @ w, scaled @ w
    h = ((a.reshape(16, 4, 8).permute(1, 0, 2) + 1) * 2).cumsum(0)
    return h.permute(1, 0, 2).reshape(16, 32) + x + b.exp() + b.exp()


def check(out: nt.Tensor) -> tuple[Explanation, ElementTree.Element]:
    """Everything of the graph is in the picture once, with its device, its tip and its kernel around it."""
    graph, table = out.graph, nt.explain(out)
    root = ElementTree.fromstring(table.svg())
    drawn = items(root)
    assert set(drawn) == set(graph)
    assert sorted(edges(root)) == sorted(graph.edges)
    ops = [item for item in sorted(graph) if "call" in graph.nodes[item]]
    for item in set(graph) - set(ops):
        assert drawn[item].get("class") == "leaf"
    kernels = groups(root, "kernel")
    assert len(kernels) == sum(row.predicted is not None for row in table)
    around = {}
    for number, (item, row) in enumerate(zip(ops, table, strict=True)):
        assert words(drawn[item])[0] == row.op == graph.nodes[item]["op"]
        assert row.line in title(drawn[item])
        assert f"#{number} {row.op} {row.out}" in title(drawn[item])
        inside = [frame for frame in kernels if rectangle(frame).holds(rectangle(drawn[item]))]
        around[number] = inside
        if row.kernel == "none":
            assert drawn[item].get("class") == "op view"
            assert row.why in title(drawn[item])
            continue
        last = int(row.kernel.partition("#")[2]) if row.kernel.startswith("fused into") else number
        kernel = table[last]
        scheme = row.device.partition(":")[0]
        (frame,) = inside
        assert drawn[item].get("class") == f"op {scheme}"
        assert frame.get("class") == f"kernel {scheme}"
        assert frame is around.setdefault(last, inside)[0]
        for tip in (title(frame), title(drawn[item])):
            assert kernel.why in tip
            assert f"{kernel.kernel} on {kernel.device}" in tip
            assert "predicted" in tip
        assert words(frame)[0].startswith(f"{kernel.kernel}, ")
    places = [rectangle(group) for group in drawn.values()]
    assert not any(a.meets(b) for a, b in combinations(places, 2))
    width, height = (float(root.attrib[name]) for name in ("width", "height"))
    page = Rectangle(0, 0, width, height)
    assert all(page.holds(place) for place in places)
    return table, root


def test_everything_is_drawn_once() -> None:
    out = network()
    table, root = check(out)
    kinds = [row.kernel for row in table]
    assert kinds.count("none") >= 2
    assert any("fused into" in kernel for kernel in kinds)
    assert "computed once" in " ".join(row.why for row in table)
    (legend,) = groups(root, "legend")
    assert words(legend) == [str(table).splitlines()[-1]]
    with table.measure():
        out.realize()
    measured = ElementTree.fromstring(table.svg())
    tips = [title(frame) for frame in groups(measured, "kernel")]
    assert all("measured" in tip for tip in tips)
    assert not any("measured" in title(frame) for frame in groups(root, "kernel"))


@pytest.mark.parametrize("kind", list(COLOURS))
def test_texts_stay_texts(kind: Kind) -> None:
    boxes = {0: Box(kind, HOSTILE, HOSTILE, HOSTILE), 1: Box("leaf", HOSTILE)}
    picture = Picture(boxes, [(1, 0)], [Frame(kind, HOSTILE, (0,), HOSTILE)], [(kind, HOSTILE)], HOSTILE)
    root = ElementTree.fromstring(svg(picture))
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == {"svg", "g", "rect", "text", "title", "path"}
    shown = HOSTILE.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")
    assert title(items(root)[0]) == shown
    for group in [*items(root).values(), *groups(root, "kernel")]:
        assert all(word == shown[:37] + "..." for word in words(group))
    assert all(word == shown for legend in groups(root, "legend") for word in words(legend))


def test_large_graphs_are_reduced_and_say_so() -> None:
    many = MOST_BOXES + 100
    boxes: dict[int, Box] = {item: Box("cpu", f"op{item}") for item in range(many)}
    chain = [(item, item + 1) for item in range(many - 1)]
    pairs = [Frame("cpu", "map", (item, item + 1)) for item in range(0, many, 2)]
    root = ElementTree.fromstring(svg(Picture(boxes, chain, pairs)))
    assert set(items(root)) == set(range(1, many, 2))
    assert sorted(edges(root)) == [(item, item + 2) for item in range(1, many - 2, 2)]
    (note,) = words(groups(root, "legend")[0])
    assert note == f"{many} ops and values: one box per kernel, without values from outside"
    assert "op0, op1" in title(items(root)[1])

    root = ElementTree.fromstring(svg(Picture(boxes, chain)))
    assert set(items(root)) == set(range(100, many))
    assert f"the last {MOST_BOXES} of {many} boxes" in words(groups(root, "legend")[0])[0]


def linear(colour: str) -> np.ndarray:
    """sRGB as "#rrggbb" to light."""
    value = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


# Lack of red, green and blue cones: G. Machado, M. Oliveira, L. Fernandes, "A physiologically-based model for
# simulation of color vision deficiency" (2009), severity 1.0; and full colour vision.
VISIONS = {
    "protan": [(0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)],
    "deutan": [(0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)],
    "tritan": [(1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)],
    "full": [(1, 0, 0), (0, 1, 0), (0, 0, 1)],
}


def lab(light: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear sRGB, white point D65."""
    to_xyz = np.array([(0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505)])
    xyz = to_xyz @ np.clip(light, 0, 1) / (0.95047, 1.0, 1.08883)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array((116 * y - 16, 500 * (x - y), 200 * (y - z)))


@pytest.mark.parametrize("vision", VISIONS)
def test_devices_can_be_told_apart_with_any_colour_vision(vision: str) -> None:
    """A distance of 10 is clear for fields next to each other; 2.3 is just noticeable."""
    seen = np.array(VISIONS[vision])
    for a, b in combinations(("cpu", "npu", "sim"), 2):
        for part in ("fill", "line"):
            colours = [getattr(COLOURS[kind], part) for kind in (a, b)]
            assert np.linalg.norm(lab(seen @ linear(colours[0])) - lab(seen @ linear(colours[1]))) > 10, (a, b, part)
