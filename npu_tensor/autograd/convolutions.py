"""The gradient of the input of a convolution is a convolution too.

A convolution is a product with windows of its input, and the windows overlap. Adding the gradients of all windows to
where they came from moves each element as often as it is in a window. Where windows begin at each place, the sum of
what an element gets is a product with windows of the gradient instead.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from npu_tensor import ops
from npu_tensor.autograd.structured import Recording
from npu_tensor.functions.convolution import Framed, windows_of
from npu_tensor.functions.shape import pad
from npu_tensor.graph.nodes import Node
from npu_tensor.tensor import Tensor

__all__ = ["gradient_of_image"]

LEAD = 3
"""Dimensions of what windows are cut from, before the places: batch, groups and channels."""


class _Windows(NamedTuple):
    """What windows were cut from, zeros before and after each of its places, and extents and gaps of the windows."""

    image: Node
    around: list[tuple[int, int]]
    sizes: list[int]
    gaps: list[int]


def gradient_of_image(
    of: Recording, number: int, through: Mapping[Node, Sequence[Any]], targets: Collection[Node]
) -> tuple[Node, Tensor] | None:
    """What a product with windows was computed from, and its gradient; None unless the windows begin at each place.

    number: of an operand of any op. through, targets: as of `gradients_of`; no gradient of the windows themselves may
    be wanted.
    """
    if of.call.op is not ops.contract.op or number == 0 or of.operands[0].ndim != LEAD:
        return None
    windows = _windows(of.operands[1]._node, through, targets)
    if windows is None:
        return None
    image, around, sizes, gaps = windows
    weight, spec = of.operands[0], image.spec
    groups, outputs, depth = weight.shape
    extents, channels = spec.shape[LEAD:], spec.shape[2]
    columns = of.operands[1].shape
    if groups != spec.shape[1] or columns[:2] != spec.shape[:2] or depth != channels * math.prod(sizes):
        return None  # Windows in another order than a convolution has them.
    counts = [
        extent + before + after - gap * (size - 1)
        for extent, (before, after), size, gap in zip(extents, around, sizes, gaps, strict=True)
    ]
    gradient = of.gradient.to(spec.dtype).reshape(spec.shape[0], groups, outputs, *counts)
    widths: list[int] = []
    for (before, after), size, gap in zip(around, sizes, gaps, strict=True):
        widths = [gap * (size - 1) - before, gap * (size - 1) - after, *widths]
    framed = Framed(pad(gradient, widths) if any(widths) else gradient, extents)
    patches = windows_of(framed, sizes, [1] * len(sizes), gaps)
    patches = patches.reshape(spec.shape[0], groups, outputs * math.prod(sizes), math.prod(extents))
    flipped = weight.reshape(groups, outputs, channels, *sizes).flip(tuple(range(LEAD, LEAD + len(sizes))))
    flipped = flipped.swapaxes(1, 2).reshape(groups, channels, outputs * math.prod(sizes))
    return image, ops.contract(flipped, patches, spec.dtype).reshape(*spec.shape)


def _windows(columns: Node, through: Mapping[Node, Sequence[Any]], targets: Collection[Node]) -> _Windows | None:
    """How the columns of a convolution were made, as `functions.convolution` makes them."""

    def before(node: Node, op: Any) -> Node | None:
        """The operand of a node that is a call of this op."""
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
    source, around = before(image, ops.pad_widths.op), [(0, 0)] * places
    if source is not None and attributes(image)["mode"] == "constant":
        widths = attributes(image)["widths"]
        if any(map(any, widths[:LEAD])) or min(map(min, widths)) < 0:
            return None
        image, around = source, list(widths[LEAD:])
    return _Windows(image, around, sizes, gaps)
