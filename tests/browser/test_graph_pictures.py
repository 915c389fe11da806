"""Pictures of graphs, as Chromium draws them: nothing covers anything, labels are inside, edges join their boxes."""

from __future__ import annotations

import random
from typing import get_args

import pytest
from browser_page import Show
from drawn_graphs import boxes_by_item, check

from npu_tensor.observe import drawing
from npu_tensor.observe.drawing import Frame, Kind, Picture


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
    found = {tuple(item for item in boxes if frame.holds(boxes[item])) for frame in page.boxes("g.kernel > rect")}
    assert found == {frame.members for frame in made.frames}


def test_every_kind_has_its_colour_and_its_entry_in_the_legend(show: Show) -> None:
    kinds = get_args(Kind)
    boxes = {item: drawing.Box(kind, kind) for item, kind in enumerate(kinds)}
    page = show(drawing.svg(Picture(boxes, [], (), [(kind, kind) for kind in kinds])))
    check(page)
    for what in ("g.op", "g.legend"):
        colours = dict(zip(kinds, page.styles(f"{what} > rect", "fill"), strict=False))
        assert len({colours[kind] for kind in ("cpu", "npu", "sim")}) == 3
    assert [box.text for box in page.boxes("g.legend")] == list(kinds)
