"""Dimensions of layouts, as few as can be."""

from __future__ import annotations

from collections.abc import Sequence

from npu_tensor.ops.declare import Layout

__all__ = ["joined", "merged"]


def merged(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Without dimensions of extent 1, and with neighbours as one that every one of `strides` steps through evenly."""
    extents: list[int] = []
    steps: list[tuple[int, ...]] = []
    for extent, *step in zip(shape, *strides, strict=True):
        if extent == 1:
            continue
        if extents and all(outer == inner * extent for outer, inner in zip(steps[-1], step, strict=True)):
            extent *= extents.pop()
            steps.pop()
        extents.append(extent)
        steps.append(tuple(step))
    return tuple(extents), tuple(tuple(step[number] for step in steps) for number in range(len(strides)))


def joined(layout: Layout) -> Layout:
    """The same elements in the same order with as few dimensions as possible, one at least."""
    shape, (strides,) = merged(layout.shape, [layout.strides])
    return Layout(shape or (1,), strides or (1,), layout.offset)
