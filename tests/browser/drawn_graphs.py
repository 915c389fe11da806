"""What holds for every picture of a graph, as Chromium draws it."""

from __future__ import annotations

from typing import Any

import numpy as np
from browser_page import READABLE, Box, Page, overlaps

__all__ = ["boxes_by_item", "check"]

# How far two strokes may be apart that are seen as touching, and how far a font may be wider than was reckoned.
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


# Of every labelled rectangle, its box and those of its lines of text.
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
    found: Points = np.where(inside <= 0, inside, np.hypot(*np.maximum(outside, 0).T))
    return found


def boxes_by_item(page: Page) -> dict[int, Box]:
    items = page.attributes("g[data-item]", "data-item")
    return {int(item or -1): box for item, box in zip(items, page.boxes("g[data-item] > rect"), strict=True)}


def check(page: Page) -> None:
    """What holds for every picture."""
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
    for (source, reader), found in page.run(EDGE_POINTS):
        points, seen = np.array(found)[:, :2], np.array(found)[:, 2].astype(bool)
        # An edge may leave and reach the kernel in place of its last and first op.
        starts, ends = ([boxes[item], *(f for f in frames if f.holds(boxes[item]))] for item in (source, reader))
        for outlines, part in ((starts, points[:1]), (ends, points[-HEAD:])):
            assert min(np.abs(distances(box, part)).min() for box in outlines) <= TOUCHING, (source, reader)
        hidden = points[~seen]
        assert (np.min([np.abs(distances(box, hidden)) for box in (*starts, *ends)], axis=0) <= TOUCHING).all()
        for item in boxes.keys() - {source, reader}:
            assert distances(boxes[item], points).min() >= -TOUCHING, (source, reader, item)
    assert min(ratio for ratio, _ in page.text_contrasts("svg")) >= READABLE
