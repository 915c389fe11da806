"""A picture as a Mermaid flowchart, which GitHub, GitLab and Jupyter draw."""

from __future__ import annotations

import re

from npu_tensor.observe.drawing.picture import COLOURS, TEXT, Box, Picture, legible, reduced

MOST_EDGES = 500
MOST_LETTERS = 50_000
"""Default limits of Mermaid: its settings maxEdges and maxTextSize."""

FEWEST_BOXES = 20
"""Lower bound on the boxes of a reduced picture."""


def mermaid(picture: Picture) -> str:
    """Return the source of a flowchart. A picture beyond Mermaid's limits is reduced, with a note."""
    text, most = _flowchart(picture), len(picture.boxes)
    shown = picture
    while (len(shown.edges) > MOST_EDGES or len(text) > MOST_LETTERS) and most > FEWEST_BOXES:
        most = max(min(most * 3 // 4, MOST_EDGES), FEWEST_BOXES)
        shown = reduced(picture, most)
        text = _flowchart(shown)
    return text


def _flowchart(picture: Picture) -> str:
    lines = ["flowchart TD"]
    if picture.note:
        lines.append(f"    note[{_quoted(picture.note)}]:::lazy")
    framed: set[int] = set()
    for number, frame in enumerate(picture.frames):
        lines.append(f"    subgraph kernel{number}[{_quoted(frame.title)}]")
        lines += [f"        {_node(item, picture.boxes[item])}" for item in frame.members]
        lines.append("    end")
        lines.append(f"    class kernel{number} {frame.kind}")
        framed.update(frame.members)
    lines += [f"    {_node(item, box)}" for item, box in picture.boxes.items() if item not in framed]
    lines += [f"    n{source} --> n{reader}" for source, reader in picture.edges]
    for number, (kind, words) in enumerate(picture.legend):
        lines.append(f"    legend{number}[{_quoted(words)}]:::{kind}")
    for kind, colours in COLOURS.items():
        dashed = ",stroke-dasharray:5 3" if kind == "sim" else ""
        lines.append(f"    classDef {kind} fill:{colours.fill},stroke:{colours.line},color:{TEXT}{dashed}")
    return "\n".join(lines) + "\n"


def _node(item: int, box: Box) -> str:
    label = _quoted(*(line for line in (box.name, box.detail) if line))
    return f"n{item}([{label}]):::leaf" if box.kind == "leaf" else f"n{item}[{label}]:::{box.kind}"


_SPECIAL = re.compile(r"[^A-Za-z0-9 _.,:=/()[\]]")


def _quoted(*lines: str) -> str:
    """Return lines as one label, which must not be empty. Mermaid decodes "#", a decimal number and ";"."""
    label = "<br/>".join(_SPECIAL.sub(_entity, legible(line)) for line in lines)
    return f'"{label or " "}"'


def _entity(match: re.Match[str]) -> str:
    return f"#{ord(match[0])};"
