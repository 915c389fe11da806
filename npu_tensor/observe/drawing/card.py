"""Notebook output of a tensor: its text and a picture of the recorded ops. Computes nothing."""

from __future__ import annotations

from npu_tensor.graph.nodes import Node
from npu_tensor.graph.structure import Structure, digraph, structure_of
from npu_tensor.observe.drawing import page
from npu_tensor.observe.drawing.picture import Box, Picture, brief, leaves
from npu_tensor.observe.drawing.svg import svg

__all__ = ["MOST_DRAWN", "card", "graph"]

MOST_DRAWN = 200
"""Maximum number of ops in a graph that is drawn."""


def card(text: str, caption: str, graph: str) -> str:
    """Return the HTML of a tensor.

    Args:
        text: Value of the tensor, or the reason why it is missing.
        caption: Plain text below the value.
        graph: Result of `graph`.
    """
    return f"<div>{page.preformatted(text)}{page.paragraph(caption) if caption else ''}{graph}</div>"


def graph(node: Node) -> str:
    """Return the HTML of a pending node: the number of recorded ops and a folded picture."""
    many = _pending(node)
    if many > MOST_DRAWN:
        return page.paragraph(f"more than {MOST_DRAWN} ops recorded")
    return page.details(f"{many} op{'s' if many > 1 else ''} recorded", svg(_picture(structure_of([node]))))


def _pending(node: Node) -> int:
    """Count the ops recorded for a node, up to one more than are drawn."""
    found, stack = {node}, [node]
    while stack and len(found) <= MOST_DRAWN:
        for operand in stack.pop().inputs:
            if isinstance(operand, Node) and operand.value is None and operand not in found:
                found.add(operand)
                stack.append(operand)
    return len(found)


def _picture(found: Structure) -> Picture:
    boxes = leaves(found)
    for item, node in found.nodes:
        assert node.call is not None
        tip = "\n".join(filter(None, (f"{node.call.op.name} {brief(node.spec)}", node.line)))
        boxes[item] = Box("lazy", node.call.op.name, brief(node.spec), tip)
    return Picture(boxes, list(digraph(found).edges))
