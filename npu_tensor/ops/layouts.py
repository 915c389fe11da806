"""Iteration domains and layouts with merged or split dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from npu_tensor._util.cache_sizes import LAYOUTS
from npu_tensor.ops.declare import Layout
from npu_tensor.spec import contiguous_strides


def merged(
    extents: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Merge dimensions of an iteration domain.

    Drops extents of 1, and joins a dimension with its inner neighbour if in all operands its stride is the length of
    the neighbour.

    Args:
        extents: Extents of the domain.
        strides: Strides of each operand over the domain.

    Returns:
        The new extents, and the strides of each operand over them.
    """
    shape: list[int] = []
    steps: list[tuple[int, ...]] = []
    for extent, *step in zip(extents, *strides, strict=True):
        if extent == 1:
            continue
        if shape and all(outer == inner * extent for outer, inner in zip(steps[-1], step, strict=True)):
            shape[-1] *= extent
            steps[-1] = tuple(step)
        else:
            shape.append(extent)
            steps.append(tuple(step))
    return tuple(shape), tuple(tuple(step[operand] for step in steps) for operand in range(len(strides)))


def joined(layout: Layout) -> Layout:
    """Return the same elements in the same order with as few dimensions as possible, at least one."""
    shape, (strides,) = merged(layout.shape, [layout.strides])
    return Layout(shape, strides, layout.offset) if shape else Layout((1,), (1,), layout.offset)


@lru_cache(maxsize=LAYOUTS)
def reshaped(layout: Layout, shape: tuple[int, ...]) -> Layout | None:
    """Return the layout of a new shape over the same memory, or None if elements would have to move.

    Splits both shapes into the smallest groups of dimensions with equal products. Each group needs evenly spaced
    memory.
    """
    if math.prod(shape) == 0:
        return Layout(shape, contiguous_strides(shape), layout.offset)
    old = [(extent, stride) for extent, stride in zip(layout.shape, layout.strides, strict=True) if extent != 1]
    strides = [0] * len(shape)
    position = len(old) - 1
    axis = len(shape) - 1
    while axis >= 0:
        if shape[axis] == 1:
            axis -= 1
            continue
        extent, stride = old[position]
        covered = extent
        position -= 1
        filled = 1
        while True:
            while covered < filled * shape[axis]:
                outer_extent, outer_stride = old[position]
                if outer_stride != stride * covered:
                    return None
                covered *= outer_extent
                position -= 1
            strides[axis] = stride * filled
            filled *= shape[axis]
            axis -= 1
            while axis >= 0 and shape[axis] == 1:
                axis -= 1
            if filled == covered:
                break
    return Layout(shape, tuple(strides), layout.offset)


def factored(layout: Layout, shape: Sequence[int]) -> list[Layout]:
    """Split a layout into one layout per extent of `shape`.

    Each covers neighbouring dimensions of `layout` whose product is the extent, in as few dimensions as possible, and
    has no offset.
    """
    dims = iter([pair for pair in zip(layout.shape, layout.strides, strict=True) if pair[0] != 1])
    parts = []
    for extent in shape:
        part: list[tuple[int, int]] = []
        while math.prod(size for size, _ in part) != extent:
            part.append(next(dims))
        extents, (strides,) = merged([size for size, _ in part], [[stride for _, stride in part]])
        parts.append(Layout(extents, strides))
    return parts
