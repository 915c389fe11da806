"""Tensors, explanations, profiles and timelines in a notebook, drawn by Chromium."""

import random
from typing import Any

import numpy as np
import pytest
from browser_page import READABLE, Box, Page, Show, overlaps
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.observe import drawing
from npu_tensor.observe.drawing import Frame, Kind, Picture
from npu_tensor.runtime.sim import timeline


def values(*shape: int) -> nt.Tensor:
    """bfloat16."""
    return nt.from_numpy(np.random.default_rng(0).standard_normal(shape, np.float32)).to(nt.bfloat16).realize()


def check_text(page: Page) -> None:
    """Nothing covers a text, and all can be read."""
    assert overlaps(page.texts()) == []
    assert [text for ratio, text in page.text_contrasts() if ratio < READABLE] == []


@needs_compiler
def test_a_timeline_has_a_row_per_lane_and_spans_as_long_as_they_took(show: Show) -> None:
    x, w = values(64, 128), values(128, 64)
    with nt.default_device("sim:npu2"), timeline.recorded() as result:
        (x @ w).realize()
    (recorded,) = result
    page = show(recorded.svg())
    (paper,) = page.boxes("svg")
    check_text(page)
    assert all(paper.holds(text) for text in page.texts("svg"))
    rows = page.boxes("svg > rect[fill='#eeeeee']")
    lanes = recorded.lanes()
    assert len(rows) == len(lanes)
    assert overlaps(rows) == []
    spans = page.boxes("svg > rect:has(title)")
    assert all(any(row.holds(span) for row in rows) for span in spans)
    assert len(set(page.styles("svg > rect:has(title)", "fill"))) == len({span.kind for span in recorded.spans})
    for row, members in zip(rows, lanes.values(), strict=True):
        drawn = sum(span.width for span in spans if row.holds(span)) / row.width
        assert drawn == pytest.approx(sum(span.cycles for span in members) / recorded.cycles, abs=0.02)


# --- random graphs: nothing covers anything, labels are inside, edges join their boxes


def picture(seed: int, size: int) -> Picture:
    """A random graph of ops that read two of the values before them, in kernels of up to four neighbours."""
    chosen = random.Random(seed)
    kinds: dict[int, Kind] = {0: "leaf", 1: "leaf"}
    frames = []
    while (start := len(kinds)) < size:
        kind: Kind = chosen.choice(["cpu", "npu", "sim"])
        members = tuple(range(start, min(start + chosen.randint(1, 4), size)))
        kinds.update(dict.fromkeys(members, kind))
        frames.append(Frame(kind, f"kernel {start} on {kind}", members, "a tip"))
    names = {item: chosen.choice(["add", "softmax", "contract"]) for item in kinds}
    return Picture(
        {item: drawing.Box(kind, names[item], "bf16[128, 1376]", f"number {item}") for item, kind in kinds.items()},
        [(before, item) for item in range(2, size) for before in chosen.sample(range(max(0, item - 6), item), 2)],
        frames,
        [("cpu", "processor"), ("npu", "NPU"), ("sim", "simulated NPU")],
    )


@pytest.mark.parametrize(("seed", "size"), [(0, 4), (1, 12), (2, 12), (3, 40)])
def test_random_graphs(show: Show, seed: int, size: int) -> None:
    made = picture(seed, size)
    page = show(drawing.svg(made))
    check(page)
    assert boxes_by_item(page).keys() == made.boxes.keys()
    assert len(page.boxes("path.edge")) == len(made.edges)
    boxes = boxes_by_item(page)
    result = {tuple(item for item in boxes if frame.holds(boxes[item])) for frame in page.boxes("g.kernel > rect")}
    assert result == {frame.members for frame in made.frames}


# --- what holds for every picture of a graph


# Largest gap, in pixels, between two strokes that appear to touch. It also bounds the error of estimated text widths.
TOUCHING = 2.0

# The strokes of an arrow head, in points of an edge.
HEAD = 12

# Points along every edge, a pixel apart, in pixels of the document, and whether they are seen or something lies over
# them; the first one is where the edge leaves its box. The window shows the whole picture.
EDGE_POINTS = """
return [...document.querySelectorAll("path.edge")].map((path) => {
  const matrix = path.getScreenCTM(), points = [];
  for (let at = 0; at <= path.getTotalLength(); at += 1) {
    const point = path.getPointAtLength(at).matrixTransform(matrix);
    const seen = document.elementFromPoint(point.x, point.y)?.matches(".edge") ?? false;
    points.push([point.x + scrollX, point.y + scrollY, seen]);
  }
  return [path.dataset.edge.split(" ").map(Number), points];
});
"""


# The box of every labelled rectangle, and the boxes of its lines of text.
LABELLED = """
const box = (e) => {
  const r = e.getBoundingClientRect();
  return [r.left + scrollX, r.top + scrollY, r.right + scrollX, r.bottom + scrollY, e.textContent];
};
return [...document.querySelectorAll("svg g:has(> rect)")].map((group) =>
  [...group.querySelectorAll(":scope > rect, :scope > text")].map(box));
"""


Points = np.ndarray[Any, np.dtype[np.float64]]
"""x and y per row."""


def distances(box: Box, points: Points) -> Points:
    """To the outline of the box; negative inside."""
    outside = np.maximum((box.left, box.top) - points, points - (box.right, box.bottom))
    inside = outside.max(axis=1)
    result: Points = np.where(inside <= 0, inside, np.hypot(*np.maximum(outside, 0).T))
    return result


def boxes_by_item(page: Page) -> dict[int, Box]:
    items = page.attributes("g[data-item]", "data-item")
    return {int(item or -1): box for item, box in zip(items, page.boxes("g[data-item] > rect"), strict=True)}


def check(page: Page) -> None:
    """Check the properties of every picture."""
    boxes = boxes_by_item(page)
    assert overlaps(list(boxes.values())) == []
    frames = page.boxes("g.kernel > rect")
    assert overlaps([*page.boxes("g.legend > rect"), *frames]) == []
    for frame in frames:
        outside = [box for box in boxes.values() if not frame.holds(box)]
        assert len(outside) < len(boxes)
        assert all(not overlaps([frame, box]) for box in outside)
    (paper,) = page.boxes("svg")
    for outline, *labels in page.run(LABELLED):
        box = Box(*outline)
        assert paper.holds(box)
        assert labels
        for label in labels:
            assert box.holds(Box(*label)), label
    assert overlaps(page.texts("svg")) == []
    page.look(height=int(paper.bottom) + 20)
    for (source, reader), result in page.run(EDGE_POINTS):
        points, seen = np.array(result)[:, :2], np.array(result)[:, 2].astype(bool)
        # An edge may leave and reach the kernel in place of its last and first op.
        starts, ends = ([boxes[item], *(f for f in frames if f.holds(boxes[item]))] for item in (source, reader))
        for outlines, part in ((starts, points[:1]), (ends, points[-HEAD:])):
            assert min(np.abs(distances(box, part)).min() for box in outlines) <= TOUCHING, (source, reader)
        hidden = points[~seen]
        assert (np.min([np.abs(distances(box, hidden)) for box in (*starts, *ends)], axis=0) <= TOUCHING).all()
        for item in boxes.keys() - {source, reader}:
            assert distances(boxes[item], points).min() >= -TOUCHING, (source, reader, item)
    assert min(ratio for ratio, _ in page.text_contrasts("svg")) >= READABLE
