"""Boxes of captured graphs."""

from __future__ import annotations

from npu_tensor.graph.nodes import Node
from npu_tensor.graph.structure import Structure
from npu_tensor.observe.drawing.picture import Box
from npu_tensor.spec import Spec

__all__ = ["brief", "leaves"]


def brief(spec: Spec) -> str:
    """Dtype and shape in few letters, as in "f32[64, 128]"."""
    return f"{spec.dtype.short}{list(spec.shape)}"


def leaves(found: Structure) -> dict[int, Box]:
    """Boxes of the values that a graph starts from: data and numbers."""
    boxes = {}
    for item, leaf in found.leaves:
        if isinstance(leaf, Node):
            boxes[item] = Box("leaf", brief(leaf.spec), tip="a value from outside")
        else:
            boxes[item] = Box("leaf", str(leaf), tip="a number")
    return boxes
