"""Pictures as SVG. Styles are attributes, because style sheets and identifiers would affect the surrounding page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from npu_tensor.observe.drawing.coordinates import layered
from npu_tensor.observe.drawing.page import escaped
from npu_tensor.observe.drawing.picture import COLOURS, TEXT, Box, Frame, Kind, Picture, reduced

MOST_BOXES = 600
"""Maximum number of boxes in a picture that is not reduced."""

EDGE: Final = "#868686"
"""Grey of edges, with a contrast above 3 on white and on dark notebook pages."""

MARGIN = 8.0
LETTER = 6.7
"""Width of a letter of the monospaced font at 11 pixels."""
LINE = 14.0
PADDING = 6.0
GUTTER = 12.0
"""Width of the strips left and right of a frame's boxes, where edges pass them, in pixels."""
MEMBER_GAP = 12.0
LONGEST = 40
"""Maximum length of a line in characters. The tooltip has the full text."""

DASHED: Final = {"sim": ' stroke-dasharray="5 3"', "view": ' stroke-dasharray="2 2"'}


class _Block(NamedTuple):
    """Unit of the layout: a frame with its boxes, or a single box, whose `frame` is None."""

    frame: Frame | None
    members: tuple[int, ...]
    width: float
    height: float


class _Place(NamedTuple):
    """Position of a box. `left`, `right` and `top` belong to its block, `bottom` to the layer.

    `first` and `last` are True if it is the first or last box of the block.
    """

    x: float
    y: float
    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    first: bool = True
    last: bool = True


def svg(picture: Picture) -> str:
    """Return an SVG document. Pictures of more than `MOST_BOXES` boxes show one box per kernel, with a note."""
    shown = reduced(picture, MOST_BOXES)
    blocks = _blocks(shown)
    block_of = {item: number for number, block in enumerate(blocks) for item in block.members}
    links = {(block_of[a], block_of[b]) for a, b in shown.edges if block_of[a] != block_of[b]}
    layout = layered([(block.width, block.height) for block in blocks], links)
    header = list(shown.legend)
    if shown.note:
        header.insert(0, ("lazy", shown.note))
    top = MARGIN + (LINE + 12) * bool(header)
    places: dict[int, _Place] = {}
    for block, centre, y, bottom in zip(blocks, layout.centres, layout.tops, layout.bottoms, strict=True):
        places.update(_places(block, shown, MARGIN + centre - block.width / 2, top + y, top + bottom))
    bends = {
        edge: [(MARGIN + x, top + upper, top + lower) for x, upper, lower in points]
        for edge, points in layout.bends.items()
    }
    body: list[str] = []
    width = max(layout.width + 2 * MARGIN, _header(header, body))
    body += _frames(blocks, places)
    body += _edges(shown, places, block_of, bends)
    body += _boxes(shown, places)
    height = top + layout.height + MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" font-family="ui-monospace, Menlo, Consolas, monospace" '
        f'font-size="11">{"".join(body)}</svg>\n'
    )


def _blocks(picture: Picture) -> list[_Block]:
    """Return frames and single boxes in order of their first box. Boxes between boxes of a frame join it."""
    import networkx as nx

    number_of = {item: number for number, frame in enumerate(picture.frames) for item in frame.members}
    owner = {item: number_of.get(item, -1 - item) for item in picture.boxes}
    # A kernel's second op may read a view of its first result. Separate blocks would form a cycle.
    graph = nx.DiGraph((owner[a], owner[b]) for a, b in picture.edges if owner[a] != owner[b])
    for component in nx.strongly_connected_components(graph):
        if len(component) > 1:
            whole = max(component)
            owner.update({item: whole for item, number in owner.items() if number in component})
    members: dict[int, list[int]] = {}
    for item in sorted(picture.boxes):
        members.setdefault(owner[item], []).append(item)
    blocks = []
    for number, items in members.items():
        sizes = [_size(picture.boxes[item]) for item in items]
        width, height = max(width for width, _ in sizes), sum(height for _, height in sizes)
        frame = picture.frames[number] if number >= 0 else None
        if frame is not None:
            height += LINE + 2 * PADDING + MEMBER_GAP * (len(items) - 1)
            width = max(width + 2 * GUTTER, len(_cut(frame.title)) * LETTER + 2 * GUTTER)
        blocks.append(_Block(frame, tuple(items), width, height))
    return blocks


def _lines(box: Box) -> list[str]:
    return [_cut(line) for line in (box.name, box.detail) if line]


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def _size(box: Box) -> tuple[float, float]:
    lines = _lines(box)
    return max(map(len, lines), default=1) * LETTER + 2 * PADDING, len(lines) * LINE + 6


def _places(block: _Block, picture: Picture, left: float, top: float, bottom: float) -> Iterator[tuple[int, _Place]]:
    right = left + block.width
    y = top + (LINE + PADDING if block.frame is not None else 0.0)
    for number, item in enumerate(block.members):
        width, height = _size(picture.boxes[item])
        ends = (number == 0, number == len(block.members) - 1)
        yield item, _Place((left + right - width) / 2, y, width, height, left, right, top, bottom, *ends)
        y += height + MEMBER_GAP


def _text(x: float, y: float, line: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{TEXT}"{more}>{escaped(line)}</text>'


def _rectangle(x: float, y: float, width: float, height: float, kind: Kind, more: str = "") -> str:
    colours = COLOURS[kind]
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" fill="{colours.fill}" '
        f'stroke="{colours.line}"{DASHED.get(kind, "")}{more}/>'
    )


def _tip(text: str) -> str:
    return f"<title>{escaped(text)}</title>" if text else ""


def _header(entries: Sequence[tuple[Kind, str]], body: list[str]) -> float:
    """Draw the note and the legend. Return their right edge."""
    x = MARGIN
    for kind, words in entries:
        width = len(words) * LETTER + 2 * PADDING
        body.append(f'<g class="legend {kind}">{_rectangle(x, MARGIN, width, LINE + 4, kind)}')
        body.append(f"{_text(x + PADDING, MARGIN + LINE - 1, words)}</g>")
        x += width + MARGIN
    return x


def _frames(blocks: Sequence[_Block], places: dict[int, _Place]) -> Iterator[str]:
    for block in blocks:
        frame = block.frame
        if frame is not None:
            place = places[block.members[0]]
            yield f'<g class="kernel {frame.kind}">{_tip(frame.tip)}'
            yield _rectangle(place.left, place.top, block.width, block.height, frame.kind, ' stroke-width="1.5"')
            yield f"{_text(place.left + GUTTER, place.top + LINE, _cut(frame.title))}</g>"


def _boxes(picture: Picture, places: dict[int, _Place]) -> Iterator[str]:
    for item, box in picture.boxes.items():
        place, is_leaf = places[item], box.kind == "leaf"
        classes = box.kind if is_leaf else f"op {box.kind}"
        yield f'<g class="{classes}" data-item="{item}">{_tip(box.tip)}'
        yield _rectangle(place.x, place.y, place.width, place.height, box.kind)
        for number, line in enumerate(_lines(box)):
            bold = "" if number or is_leaf else ' font-weight="bold"'
            middle, baseline = place.x + place.width / 2, place.y + LINE * (number + 1) - 1
            yield _text(middle, baseline, line, f' text-anchor="middle"{bold}')
        yield "</g>"


def _edges(
    picture: Picture,
    places: dict[int, _Place],
    block_of: dict[int, int],
    bends: dict[tuple[int, int], list[tuple[float, float, float]]],
) -> Iterator[str]:
    yield f'<g class="edges" fill="none" stroke="{EDGE}" stroke-width="1.3">'
    for source, reader in picture.edges:
        points = bends.get((block_of[source], block_of[reader]), [])
        inside = block_of[source] == block_of[reader]
        path = _path(places[source], places[reader], points, inside)
        yield f'<path class="edge" data-edge="{source} {reader}" d="{path}"/>'
    yield "</g>"


def _path(a: _Place, b: _Place, bends: Sequence[tuple[float, float, float]], inside: bool) -> str:
    """Return a curve from below `a` to above `b`, with an arrow head.

    Edges leave inner boxes of a frame through its right gutter and enter them through its left gutter.
    """
    x, y, end = a.x + a.width / 2, a.y + a.height, b.x + b.width / 2
    if inside:
        if b.y - y <= MEMBER_GAP + 1:
            return f"M{x:.1f} {y:.1f}L{end:.1f} {b.y:.1f}{_HEAD}"
        gutter, level = a.right - GUTTER / 2, b.y + b.height / 2
        return (
            f"M{a.x + a.width:.1f} {a.y + a.height / 2:.1f}H{gutter:.1f}V{level:.1f}"
            f"H{b.x + b.width:.1f}m4 -2.5l-4 2.5l4 2.5"
        )
    if a.last:
        path = f"M{x:.1f} {y:.1f}V{a.bottom:.1f}"
    else:
        x = a.right - GUTTER / 2
        path = f"M{a.x + a.width:.1f} {a.y + a.height / 2:.1f}H{x:.1f}V{a.bottom:.1f}"
    y = a.bottom
    end = end if b.first else b.left + GUTTER / 2
    for bend, upper, lower in bends:
        path += f"{_curve(x, y, bend, upper)}V{lower:.1f}"
        x, y = bend, lower
    path += _curve(x, y, end, b.top)
    if b.first:
        return f"{path}{_HEAD}"
    return f"{path}V{b.y + b.height / 2:.1f}H{b.x:.1f}m-4 -2.5l4 2.5l-4 2.5"


_HEAD = "m-2.5 -4l2.5 4l2.5 -4"


def _curve(x: float, y: float, end: float, bottom: float) -> str:
    middle = (y + bottom) / 2
    return f"C{x:.1f} {middle:.1f} {end:.1f} {middle:.1f} {end:.1f} {bottom:.1f}"
