"""Layout of a tensor's rows in its memory, and the host buffers that hold them one after the other."""

from __future__ import annotations

import math
from typing import NamedTuple

from npu_tensor.kernels.offer import HostOperand, padded_shape
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import joined


class Dims(NamedTuple):
    """Minimal dimensions of a part of a tensor: neighbours with equal steps are merged."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def repeats(self) -> bool:
        """True if all positions are the same element."""
        return not any(self.strides)


class RowLayout(NamedTuple):
    """Tensor as rows: the dimensions that count rows, and those inside of one."""

    rows: Dims
    inside: Dims
    offset: int

    @property
    def inner(self) -> int:
        """Number of which the length of a padded row must be a multiple."""
        return math.prod(self.inside.shape[1:])

    @property
    def period(self) -> int:
        """Number of rows after which they repeat; all rows if they do not."""
        skipped = next((axis for axis, stride in enumerate(self.rows.strides) if stride), len(self.rows.shape))
        if 0 in self.rows.strides[skipped:]:
            return math.prod(self.rows.shape)
        return math.prod(self.rows.shape[skipped:])

    def host(self, number: int, output: bool, dtype: str, rows: int, pitch: int) -> HostOperand:
        """Return a host buffer of at least `rows` rows of `pitch` elements.

        If `rows` is smaller than the number of rows of the tensor, it is the tensor's period. The host repeats a row
        shared by all rows.
        """
        shape, strides = self.rows
        if self.rows.repeats and not output:
            shape, strides = (rows,), (0,)
        elif rows < math.prod(shape):
            skipped = next(axis for axis in range(len(shape)) if math.prod(shape[axis:]) == rows)
            shape, strides = shape[skipped:], strides[skipped:]
        padded = (*padded_shape(shape, rows), pitch // self.inner, *self.inside.shape[1:])
        layout = Layout((*shape, *self.inside.shape), (*strides, *self.inside.strides), self.offset)
        return HostOperand(number, output, layout, padded, dtype)

    def host_numbers(self, number: int, output: bool, dtype: str, rows: int, shape: tuple[int, ...]) -> HostOperand:
        """Return a host buffer with a block of `shape` for each row.

        Inputs fill the block with the row's element. A result is the first element of its block.
        """
        filled = (1,) * len(shape) if output else shape
        layout = Layout((*self.rows.shape, *filled), (*self.rows.strides, *(0,) * len(shape)), self.offset)
        return HostOperand(number, output, layout, (*padded_shape(self.rows.shape, rows), *shape), dtype)


def row_layout(layout: Layout, rows: int) -> RowLayout:
    """Return the row layout of a task's shape whose last `rows` dimensions form one row."""
    cut = len(layout.shape) - rows
    return RowLayout(
        _merged(layout.shape[:cut], layout.strides[:cut]),
        _merged(layout.shape[cut:], layout.strides[cut:]),
        layout.offset,
    )


def _merged(shape: tuple[int, ...], strides: tuple[int, ...]) -> Dims:
    merged = joined(Layout(shape, strides))
    return Dims((1,), (0,)) if merged.shape == (1,) else Dims(merged.shape, merged.strides)
