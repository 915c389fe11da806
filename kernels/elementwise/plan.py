"""How an element-wise task is laid over the array: which operands are streamed, which stay in the cores, tile sizes.

The task's shape is collapsed to few dimensions, and its elements, in C order, are cut into tiles of equal size. Tile t
of column c, round by round, goes to core t modulo the cores of that column. An operand is

- streamed: one element for each element of the shape. One that lies differently in memory, or is repeated in a way
  that the other two cannot say, is laid out so by the host.
- a row: the same for every row. The host repeats it over one tile, whose size is a multiple of the row, and each core
  keeps that tile.
- a column: one value for each row of `width` elements. Each core keeps the values of its array column's rows.

Kept operands are sent once, before the stream, on one of its channels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from npu_tensor.dtypes import as_dtype
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import merged

__all__ = ["Operand", "Plan", "carrier", "collapse", "leading_zeros"]


class Operand(NamedTuple):
    """A tensor of the task over the collapsed shape.

    number: which input, or which output. dtype: of its host buffer. strides: in elements of its own memory.
    """

    number: int
    dtype: str
    strides: tuple[int, ...]
    offset: int

    @property
    def itemsize(self) -> int:
        """Bytes of one element in the host buffer."""
        return as_dtype(self.dtype).itemsize


class Plan(NamedTuple):
    """The tiling of a task. Operands are named by their position among the inputs.

    shape: collapsed. pitch: the innermost extent after padding. tile: elements. cores: per array column. rounds: tiles
    per core, for each array column. channels: the streamed inputs of each input channel; several alternate tile by
    tile. block: how many tiles of each of those lie in one object of the memtile. rows, columns: the kept inputs.
    width: elements of a row, of which column inputs have one value each.
    """

    shape: tuple[int, ...]
    pitch: int
    tile: int
    cores: int
    rounds: tuple[int, ...]
    channels: tuple[tuple[int, ...], ...]
    block: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    width: int
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """The inputs that stay in the cores, in the order in which they are sent."""
        return (*self.rows, *self.columns)

    @property
    def spread(self) -> tuple[int, ...]:
        """The streamed inputs that lie differently in memory."""
        streamed = (position for channel in self.channels for position in channel)
        return tuple(position for position in streamed if self.inputs[position].strides != _contiguous(self.shape))

    @property
    def carrier(self) -> int:
        """The channel on which kept inputs are sent."""
        return carrier(self.channels, self.inputs)

    @property
    def elements(self) -> int:
        """Elements of all tiles."""
        return self.tile * self.cores * sum(self.rounds)

    def first(self, column: int) -> int:
        """The first element of an array column's part."""
        return self.tile * self.cores * sum(self.rounds[:column])

    def values(self, column: int) -> int:
        """How many values of a column input one array column needs."""
        return self.tile // self.width * self.cores * self.rounds[column]

    def kept_elements(self, position: int) -> int:
        """Elements of a kept input in the object that brings it."""
        carrier = self.inputs[self.channels[self.carrier][0]]
        return self.tile * carrier.itemsize // self.inputs[position].itemsize

    def extent(self, start: int) -> int:
        """Elements of the dimensions from `start` on, with padding."""
        return math.prod((*self.shape[:-1], self.pitch)[start:])

    def host_operands(self) -> tuple[HostOperand, ...]:
        """How the tensors fill the host buffers: inputs, then outputs."""
        made = []
        for position, operand in enumerate(self.inputs):
            if position in self.rows:
                made.append(self._row(position, operand))
            elif position in self.columns:
                made.append(self._column(position, operand))
            else:
                made.append(self._streamed(operand, output=False))
        return (*made, *(self._streamed(operand, output=True) for operand in self.outputs))

    def _streamed(self, operand: Operand, output: bool) -> HostOperand:
        # The innermost dimension stays apart if it is padded.
        cut = len(self.shape) - (self.pitch != self.shape[-1])
        outer, (steps,) = merged(self.shape[:cut], [operand.strides[:cut]])
        shape = (*(outer or (1,)), *self.shape[cut:])
        strides = (*(steps or (0,)), *operand.strides[cut:])
        return _padded(operand, output, shape, strides, self.pitch if cut < len(self.shape) else None, self.elements)

    def _row(self, position: int, operand: Operand) -> HostOperand:
        start = leading_zeros(operand.strides)
        repeats = self.tile // self.extent(start)
        shape, strides = (repeats, *self.shape[start:]), (0, *operand.strides[start:])
        pitch = self.pitch if start < len(self.shape) else None
        return _padded(operand, False, shape, strides, pitch, self.kept_elements(position))

    def _column(self, position: int, operand: Operand) -> HostOperand:
        start = len(operand.strides) - leading_zeros(operand.strides[::-1])
        shape = (*self.shape[:start], self.extent(start) // self.width)
        strides = (*operand.strides[:start], 0)
        values = self.tile // self.width * self.cores * sum(self.rounds[:-1]) + self.kept_elements(position)
        return _padded(operand, False, shape, strides, None, values)


def _padded(
    operand: Operand,
    output: bool,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    pitch: int | None,
    elements: int,
) -> HostOperand:
    """A host buffer of at least `elements`: the outermost extent grows, the innermost one to `pitch`."""
    inner = (*shape[1:-1], pitch) if pitch is not None and len(shape) > 1 else shape[1:]
    outer = max(shape[0], -(-elements // math.prod(inner)))
    layout = Layout(shape, strides, operand.offset)
    return HostOperand(operand.number, output, layout, (outer, *inner), operand.dtype, padding=None)


def carrier(channels: tuple[tuple[int, ...], ...], inputs: tuple[Operand, ...]) -> int:
    """The channel with the widest elements among those with one operand; -1 if on all of them several alternate."""
    alone = [number for number, channel in enumerate(channels) if len(channel) == 1]
    return max(alone, key=lambda number: inputs[channels[number][0]].itemsize, default=-1)


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def leading_zeros(strides: Sequence[int]) -> int:
    """How many dimensions, from the first on, an operand is repeated along."""
    return next((axis for axis, stride in enumerate(strides) if stride), len(strides))


def collapse(
    shape: tuple[int, ...], layouts: Sequence[Layout]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """The shape with as few dimensions as possible, one at least, and the strides of every layout over it."""
    extents, strides = merged(shape, [layout.strides for layout in layouts])
    return (extents, strides) if extents else ((1,), ((1,),) * len(layouts))
