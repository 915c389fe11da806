"""A tensor in a notebook, from what is known without computing or waiting for anything."""

from __future__ import annotations

from npu_tensor.drawing import page
from npu_tensor.drawing.boxes import brief, leaves
from npu_tensor.drawing.picture import Box, Picture
from npu_tensor.drawing.svg import svg
from npu_tensor.graph import Capture, Node, capture, digraph

__all__ = ["MOST_DRAWN", "lazy_card", "value_card"]

MOST_DRAWN = 200
"""Pending ops of the largest graph that is drawn."""


def value_card(title: str, text: str) -> str:
    """HTML for a computed tensor. text: its value, or where that lies."""
    return f"<div>{page.paragraph(title)}{page.preformatted(text)}</div>"


def lazy_card(title: str, node: Node) -> str:
    """HTML for a tensor to be computed: how many ops that takes, and a picture of them, folded up."""
    many = _pending(node)
    if many > MOST_DRAWN:
        return f"<div>{page.paragraph(title)}{page.paragraph(f'more than {MOST_DRAWN} ops to run')}</div>"
    graph = page.details("1 op to run" if many == 1 else f"{many} ops to run", svg(_picture(capture([node]))))
    return f"<div>{page.paragraph(title)}{graph}</div>"


def _pending(node: Node) -> int:
    """How many ops are to be run for a node; counting stops when there are more than are drawn."""
    found, stack = {node}, [node]
    while stack and len(found) <= MOST_DRAWN:
        for operand in stack.pop().inputs:
            if isinstance(operand, Node) and operand.value is None and operand not in found:
                found.add(operand)
                stack.append(operand)
    return len(found)


def _picture(found: Capture) -> Picture:
    boxes = leaves(found)
    for item, node in found.nodes:
        assert node.call is not None
        tip = "\n".join(filter(None, (f"{node.call.op.name} {brief(node.spec)}", node.line)))
        boxes[item] = Box("lazy", node.call.op.name, brief(node.spec), tip)
    return Picture(boxes, list(digraph(found).edges))
