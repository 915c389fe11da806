"""Gradients of the inputs of convolutions, computed as convolutions.

A convolution is a product with overlapping windows of its input. Adding the gradients of all windows to the input
touches each element once per window that contains it. With stride 1, a product with windows of the gradient computes
the same sums.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npu_tensor import ops
from npu_tensor.autograd.structured import Recording
from npu_tensor.functions.convolution import Framed, windows_of
from npu_tensor.functions.shape import pad
from npu_tensor.graph.nodes import Node
from npu_tensor.tensor import Tensor

__all__ = ["gradient_of_image"]

LEAD = 3
"""Leading dimensions of an image: batch, groups and channels."""


@dataclass(frozen=True, slots=True)
class _Windows:
    """An image, its zero padding before and after each spatial dimension, and extents and dilations of its windows."""

    image: Node
    padding: list[tuple[int, int]]
    sizes: list[int]
    gaps: list[int]


def gradient_of_image(
    of: Recording, number: int, through: Mapping[Node, Sequence[Any]], targets: Collection[Node]
) -> tuple[Node, Tensor] | None:
    """Return the image of a product with windows, and its gradient; None unless the windows have stride 1.

    Args:
        of: Any recorded op.
        number: Number of an operand.
        through: Nodes and inputs as in `transforms._gradients_of`.
        targets: Nodes whose gradients are wanted. None of them may be the windows themselves.
    """
    if of.call.op is not ops.contract.op or number == 0 or of.operands[0].ndim != LEAD:
        return None
    windows = _windows(of.operands[1]._node, through, targets)
    if windows is None:
        return None
    image, sizes, gaps = windows.image, windows.sizes, windows.gaps
    weight, spec = of.operands[0], image.spec
    groups, outputs, depth = weight.shape
    extents, channels = spec.shape[LEAD:], spec.shape[2]
    columns = of.operands[1].shape
    if groups != spec.shape[1] or columns[:2] != spec.shape[:2] or depth != channels * math.prod(sizes):
        return None  # The windows are not ordered as in a convolution.
    counts = [
        extent + before + after - gap * (size - 1)
        for extent, (before, after), size, gap in zip(extents, windows.padding, sizes, gaps, strict=True)
    ]
    gradient = of.gradient.to(spec.dtype).reshape(spec.shape[0], groups, outputs, *counts)
    widths: list[int] = []
    for (before, after), size, gap in zip(windows.padding, sizes, gaps, strict=True):
        widths = [gap * (size - 1) - before, gap * (size - 1) - after, *widths]
    framed = Framed(pad(gradient, widths) if any(widths) else gradient, extents)
    patches = windows_of(framed, sizes, [1] * len(sizes), gaps)
    patches = patches.reshape(spec.shape[0], groups, outputs * math.prod(sizes), math.prod(extents))
    flipped = weight.reshape(groups, outputs, channels, *sizes).flip(tuple(range(LEAD, LEAD + len(sizes))))
    flipped = flipped.swapaxes(1, 2).reshape(groups, channels, outputs * math.prod(sizes))
    return image, ops.contract(flipped, patches, spec.dtype).reshape(*spec.shape)


def _windows(columns: Node, through: Mapping[Node, Sequence[Any]], targets: Collection[Node]) -> _Windows | None:
    """Match the ops by which `functions.convolution` makes the columns of a convolution."""

    def before(node: Node, op: Any) -> Node | None:
        """Return the operand of a node if that is a call of this op."""
        is_one = node.call is not None and node.call.op is op and node not in targets
        return next(iter(through.get(node, ())), None) if is_one else None

    def attributes(node: Node) -> Mapping[str, Any]:
        assert node.call is not None
        return node.call.attributes

    view = before(columns, ops.reshape.op)
    image = None if view is None else before(view, ops.permute.op)
    if view is None or image is None or len(columns.spec.shape) != LEAD + 1 or len(view.spec.shape) <= LEAD:
        return None
    places = (len(view.spec.shape) - LEAD) // 2
    dims = range(len(view.spec.shape))
    if attributes(view)["dims"] != (*dims[:LEAD], *dims[LEAD + places :], *dims[LEAD : LEAD + places]):
        return None
    sizes, gaps = list[int](), list[int]()
    for dim in reversed(range(LEAD, LEAD + places)):
        source = before(image, ops.windows.op)
        if source is None or attributes(image)["dim"] != dim or attributes(image)["step"] != 1:
            return None
        sizes, gaps = [attributes(image)["size"], *sizes], [attributes(image)["gap"], *gaps]
        if attributes(image)["count"] != source.spec.shape[dim] - gaps[0] * (sizes[0] - 1):
            return None
        image = source
    source, padding = before(image, ops.pad_widths.op), [(0, 0)] * places
    if source is not None and attributes(image)["mode"] == "constant":
        widths = attributes(image)["widths"]
        if any(map(any, widths[:LEAD])) or min(map(min, widths)) < 0:
            return None
        image, padding = source, list(widths[LEAD:])
    return _Windows(image, padding, sizes, gaps)
