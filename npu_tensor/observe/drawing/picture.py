"""Format-independent content of a picture: boxes of ops and values, frames of kernels, edges."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from npu_tensor.graph.nodes import Node
from npu_tensor.graph.structure import Structure
from npu_tensor.spec import Spec

Kind = Literal["cpu", "npu", "sim", "lazy", "view", "leaf"]
"""Kind of a box: a device scheme, "lazy" (op not placed yet), "view" (op without kernel) or "leaf" (input value)."""


class Colours(NamedTuple):
    """Colours of a kernel. `fill` is light, so that dark text is legible on any page; `line` is the border."""

    fill: str
    line: str


COLOURS: Final[Mapping[Kind, Colours]] = MappingProxyType(
    {
        "cpu": Colours("#cfe5f5", "#0072b2"),
        "npu": Colours("#fbc9a6", "#bf4f00"),
        "sim": Colours("#fff3a8", "#c8a800"),
        "lazy": Colours("#e4e4e4", "#6e6e6e"),
        "view": Colours("#f6f6f6", "#8a8a8a"),
        "leaf": Colours("#f6f6f6", "#8a8a8a"),
    }
)
"""Blue, vermilion and yellow of M. Okabe, K. Ito, "Color Universal Design" (2008), distinguishable with any kind of
colour vision. Simulated devices also have dashed borders."""

TEXT: Final = "#1a1a1a"


class Box(NamedTuple):
    """An op or a value. `name` and `detail` are its lines of text, `tip` is the tooltip."""

    kind: Kind
    name: str
    detail: str = ""
    tip: str = ""


class Frame(NamedTuple):
    """A kernel. `members` are the numbers of its boxes in order of computation; `kind` and `tip` are as in Box."""

    kind: Kind
    title: str
    members: tuple[int, ...]
    tip: str = ""


class Picture(NamedTuple):
    """Graph to draw.

    Attributes:
        boxes: Boxes by number.
        edges: Pairs (operand, reader) of box numbers.
        frames: Kernels. A box belongs to at most one.
        legend: Meaning of each colour.
        note: Text about omitted boxes.
    """

    boxes: Mapping[int, Box]
    edges: Sequence[tuple[int, int]]
    frames: Sequence[Frame] = ()
    legend: Sequence[tuple[Kind, str]] = ()
    note: str = ""


def reduced(picture: Picture, most: int) -> Picture:
    """Limit a picture to `most` boxes. A larger one gets one box per kernel, then only the last boxes."""
    if len(picture.boxes) <= most:
        return picture
    box_of = {item: frame.members[-1] for frame in picture.frames for item in frame.members}
    boxes = {item: box for item, box in picture.boxes.items() if box.kind != "leaf" and box_of.get(item, item) == item}
    for frame in picture.frames:
        item = frame.members[-1]
        names = [picture.boxes[member].name for member in frame.members]
        name = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        boxes[item] = boxes[item]._replace(name=name, tip=f"{', '.join(names)}\n{frame.tip}")
    notes = ["one box per kernel, without values from outside"]
    if len(boxes) > most:
        notes.append(f"the last {most} of {len(boxes)} boxes")
        boxes = dict(sorted(boxes.items())[-most:])
    edges = dict.fromkeys((box_of.get(a, a), box_of.get(b, b)) for a, b in picture.edges)
    links = [(a, b) for a, b in edges if a != b and a in boxes and b in boxes]
    frames = [frame._replace(members=frame.members[-1:]) for frame in picture.frames if frame.members[-1] in boxes]
    note = f"{len(picture.boxes)} ops and values: {'; '.join(notes)}"
    return Picture(boxes, links, frames, picture.legend, note)


_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def legible(text: str) -> str:
    """Replace every character that XML 1.0 does not allow, such as a lone surrogate, by U+FFFD."""
    return _NOT_XML.sub("\ufffd", text)


def brief(spec: Spec) -> str:
    """Return dtype and shape in short form, such as "f32[64, 128]"."""
    return f"{spec.dtype.short}{list(spec.shape)}"


def leaves(graph: Structure) -> dict[int, Box]:
    """Return the boxes of a graph's input values: data and numbers."""
    boxes = {}
    readers = [(node.call, inputs) for node, inputs in zip(graph.nodes, graph.operands, strict=True)]
    seeds = {inputs[0] for call, inputs in readers if call is not None and call.op.operands[:1] == ("seed",)}
    for item, leaf in enumerate(graph.leaves):
        if isinstance(leaf, Node):
            boxes[item] = Box("leaf", brief(leaf.spec), tip="a value from outside")
        elif item in seeds:
            boxes[item] = Box("leaf", "seed", tip=f"the seed of random numbers: {leaf}")
        else:
            boxes[item] = Box("leaf", str(leaf), tip="a number")
    return boxes
