"""Notebook picture of the ops recorded for a tensor."""

from __future__ import annotations

from npu_tensor.graph.nodes import Node
from npu_tensor.graph.structure import item_graph, structure_of
from npu_tensor.observe.drawing import page
from npu_tensor.observe.drawing.picture import Box, Picture, brief, leaves
from npu_tensor.observe.drawing.svg import svg

MOST_DRAWN = 200
"""Maximum number of ops in a graph that is drawn."""


def graph_html(node: Node) -> str:
    """Return the HTML of a pending node: the number of recorded ops and a folded picture. Computes nothing."""
    found, stack = {node}, [node]
    while stack and len(found) <= MOST_DRAWN:
        for operand in stack.pop().inputs:
            if isinstance(operand, Node) and operand.value is None and operand not in found:
                found.add(operand)
                stack.append(operand)
    if len(found) > MOST_DRAWN:
        return page.paragraph(f"more than {MOST_DRAWN} ops recorded")
    structure = structure_of([node])
    boxes = leaves(structure)
    for item, each in structure.numbered:
        assert each.call is not None
        tip = "\n".join(filter(None, (f"{each.call.op.name} {brief(each.spec)}", each.line)))
        boxes[item] = Box("lazy", each.call.op.name, brief(each.spec), tip)
    picture = svg(Picture(boxes, item_graph(structure).edges))
    return page.details(f"{len(found)} op{'s' if len(found) > 1 else ''} recorded", picture)
