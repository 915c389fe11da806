"""Iteration domains and layouts with as few dimensions as possible."""

from __future__ import annotations

from collections.abc import Sequence

from npu_tensor.ops.declare import Layout

__all__ = ["joined", "merged"]


def merged(
    extents: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Extents of an iteration domain, and strides of every operand over them, without what needs no dimension.

    That is an extent of 1, and a dimension whose every step is in all operands as long as its inner neighbour.
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
    """The same elements in the same order with as few dimensions as possible, one at least."""
    shape, (strides,) = merged(layout.shape, [layout.strides])
    return Layout(shape, strides, layout.offset) if shape else Layout((1,), (1,), layout.offset)
