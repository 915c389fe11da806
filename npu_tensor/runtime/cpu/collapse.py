"""Iteration spaces with as few dimensions as possible, so that most kernels run as one flat loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from npu_tensor.ops.declare import Layout

__all__ = ["Space", "collapse"]


class Space(NamedTuple):
    """Outer extents (outermost first) and the inner one; per operand its offset, outer strides and inner stride.

    runs: how many of the last outer dimensions belong to the row, which then consists of several evenly spaced runs.
    """

    outer: tuple[int, ...]
    inner: int
    offsets: tuple[int, ...]
    outer_strides: tuple[tuple[int, ...], ...]
    inner_strides: tuple[int, ...]
    runs: int = 0

    @property
    def rows(self) -> int:
        """The number of rows."""
        return math.prod(self.outer[: len(self.outer) - self.runs])

    @property
    def row_length(self) -> int:
        """The elements of a row."""
        return math.prod(self.outer[len(self.outer) - self.runs :]) * self.inner


def _merge(extents: list[int], strides: list[tuple[int, ...]]) -> tuple[list[int], list[tuple[int, ...]]]:
    """Drop dimensions of extent 1 and join neighbours that every operand walks with one step.

    `strides` has, per dimension, the stride of every operand.
    """
    merged_extents: list[int] = []
    merged_strides: list[tuple[int, ...]] = []
    for extent, step in zip(extents, strides, strict=True):
        if extent == 1:
            continue
        if merged_extents and all(
            outer == inner * extent for outer, inner in zip(merged_strides[-1], step, strict=True)
        ):
            merged_extents[-1] *= extent
            merged_strides[-1] = step
        else:
            merged_extents.append(extent)
            merged_strides.append(step)
    return merged_extents, merged_strides


def collapse(shape: tuple[int, ...], layouts: Sequence[Layout], rows: int) -> Space:
    """The space of `shape` over which all layouts are walked; the last `rows` dimensions are one row.

    With rows = 0 the inner dimension is the innermost one left.
    """
    strides = [tuple(layout.strides[axis] for layout in layouts) for axis in range(len(shape))]
    offsets = tuple(layout.offset for layout in layouts)
    cut = len(shape) - rows
    outer, outer_strides = _merge(list(shape[:cut]), strides[:cut])
    inner, inner_strides = _merge(list(shape[cut:]), strides[cut:])
    if not rows and outer:
        inner, inner_strides = [outer.pop()], [outer_strides.pop()]
    if 0 in inner:
        inner, inner_strides = [0], inner_strides[-1:]
    runs = max(0, len(inner) - 1)
    outer, outer_strides = outer + inner[:runs], outer_strides + inner_strides[:runs]
    inner, inner_strides = inner[runs:], inner_strides[runs:]
    return Space(
        tuple(outer),
        inner[0] if inner else 1,
        offsets,
        tuple(tuple(step[number] for step in outer_strides) for number in range(len(layouts))),
        inner_strides[0] if inner else (1,) * len(layouts),
        runs,
    )
