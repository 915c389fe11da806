"""A tensor in a notebook: its text, and a picture of what was recorded for it. Nothing here computes."""

from __future__ import annotations

from npu_tensor.graph.nodes import Node
from npu_tensor.graph.structure import Structure, digraph, structure_of
from npu_tensor.observe.drawing import page
from npu_tensor.observe.drawing.picture import Box, Picture, brief, leaves
from npu_tensor.observe.drawing.svg import svg

__all__ = ["MOST_DRAWN", "card", "graph"]

MOST_DRAWN = 200
"""Ops of the largest graph that is drawn."""


def card(text: str, caption: str, graph: str) -> str:
    """HTML for a tensor. text: its value, or why there is none. caption: in plain words. graph: as of `graph`."""
    return f"<div>{page.preformatted(text)}{page.paragraph(caption) if caption else ''}{graph}</div>"


def graph(node: Node) -> str:
    """HTML of the ops that are recorded for a node without a value: how many, and a picture of them, folded up."""
    many = _pending(node)
    if many > MOST_DRAWN:
        return page.paragraph(f"more than {MOST_DRAWN} ops recorded")
    return page.details(f"{many} op{'s' if many > 1 else ''} recorded", svg(_picture(structure_of([node]))))


def _pending(node: Node) -> int:
    """How many ops are recorded for a node; counting stops when there are more than are drawn."""
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
