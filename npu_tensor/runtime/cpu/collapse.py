"""Iteration spaces with as few dimensions as possible, so that most kernels run as one flat loop."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from npu_tensor._util.cache_sizes import LAYOUTS
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import merged


class Space(NamedTuple):
    """Outer extents (outermost first) and the inner one; per operand its offset, outer strides and inner stride.

    Attributes:
        runs: Number of outer dimensions that belong to the row, which then consists of evenly spaced runs.
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


@lru_cache(maxsize=LAYOUTS)
def collapse(shape: tuple[int, ...], layouts: tuple[Layout, ...], rows: int) -> Space:
    """Return the space of `shape` over which all layouts are walked; the last `rows` dimensions are one row.

    With rows = 0 the inner dimension is the innermost one left.
    """
    cut = len(shape) - rows
    outer, outer_strides = merged(shape[:cut], [layout.strides[:cut] for layout in layouts])
    inner, inner_strides = merged(shape[cut:], [layout.strides[cut:] for layout in layouts])
    if not rows:
        outer, inner = outer[:-1], outer[-1:]
        outer_strides, inner_strides = _cut(outer_strides, slice(-1)), _cut(outer_strides, slice(-1, None))
    if 0 in inner:
        inner, inner_strides = (0,), _cut(inner_strides, slice(-1, None))
    runs = max(0, len(inner) - 1)
    return Space(
        (*outer, *inner[:runs]),
        inner[runs] if inner else 1,
        tuple(layout.offset for layout in layouts),
        tuple((*steps, *within[:runs]) for steps, within in zip(outer_strides, inner_strides, strict=True)),
        tuple(within[runs] if inner else 1 for within in inner_strides),
        runs,
    )


def _cut(strides: tuple[tuple[int, ...], ...], part: slice) -> tuple[tuple[int, ...], ...]:
    return tuple(steps[part] for steps in strides)
