"""How an element-wise task is laid over the array: which operands are streamed, which stay in the cores, tile sizes.

The task's shape is collapsed to few dimensions, and its elements, in C order, are cut into tiles of equal size. Tile t
of column c, round by round, goes to core t modulo the cores of that column. An operand is

- streamed: one element for each element of the shape. One that lies differently in memory, or is repeated in a way
  that the other two cannot say, is laid out so by the host.
- a row: the same for every row. The host repeats it over one tile, whose size is a multiple of the row, and each core
  keeps that tile.
- a column: one value for each row of `width` elements. Each core keeps the values of its array column's rows.

Rows and columns are resident: they are sent once, before the stream, on one of its channels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from npu_tensor.dataflow.array import Array
from npu_tensor.dataflow.checks.limits import QUEUE_DEPTH, WORD
from npu_tensor.dataflow.columns import cores_per_column
from npu_tensor.dtypes import as_dtype
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import merged
from npu_tensor.spec import contiguous_strides

__all__ = ["RUN", "ElementwisePlan", "StridedOperand", "collapse", "plan"]

CORE_BYTES: Final = 60 * 1024
"""For the buffers of a core, of 64 KiB: the rest is for the stack and what the compiler adds."""

COLUMN_BYTES: Final = 4096
"""For the values of one column operand in a core."""

MEMTILE_BYTES: Final = 384 * 1024
"""For objects in which several operands alternate, of 512 KiB."""

ALIGNMENT: Final = 64
"""Bytes: of the widest vector, which loads and stores must be aligned to on aie2p."""

WORTHWHILE: Final = 1024
"""Elements for which another core is used, and the smallest tile if there are several: below, locks cost more."""

ROUNDS: Final = 4
"""Tiles per core that make loading, computing and storing overlap."""

WASTE: Final = 1.25
"""How much longer a row may become by padding. Repeating the operand on the host costs one more stream instead."""

RUN: Final = 512
"""Elements of the innermost dimension in which a memtile's DMA reads a tile: the most that a dimension can have."""


class StridedOperand(NamedTuple):
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


class ElementwisePlan(NamedTuple):
    """The tiling of a task. Operands are named by their position (slot) among the inputs.

    shape: collapsed. pitch: the innermost extent after padding. tile: elements. cores: per array column. rounds: tiles
    per core, for each array column. channels: the streamed inputs of each input channel; several alternate tile by
    tile. block: how many tiles of each of those lie in one object of the memtile. rows, columns: the resident inputs.
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
    inputs: tuple[StridedOperand, ...]
    outputs: tuple[StridedOperand, ...]

    @property
    def resident(self) -> tuple[int, ...]:
        """The inputs that stay in the cores, in the order in which they are sent."""
        return (*self.rows, *self.columns)

    @property
    def expanded(self) -> tuple[int, ...]:
        """The streamed inputs that lie differently in memory."""
        streamed = (slot for channel in self.channels for slot in channel)
        return tuple(slot for slot in streamed if self.inputs[slot].strides != contiguous_strides(self.shape))

    @property
    def carrier(self) -> int:
        """The channel on which resident inputs are sent."""
        return _carrier(self.channels, self.inputs)

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

    def resident_elements(self, slot: int) -> int:
        """Elements of a resident input in the object that brings it."""
        carrier = self.inputs[self.channels[self.carrier][0]]
        return self.tile * carrier.itemsize // self.inputs[slot].itemsize

    def extent(self, start: int) -> int:
        """Elements of the dimensions from `start` on, with padding."""
        return math.prod((*self.shape[:-1], self.pitch)[start:])

    def host_operands(self) -> tuple[HostOperand, ...]:
        """How the tensors fill the host buffers: inputs, then outputs."""
        inputs = [
            self._row(slot, operand)
            if slot in self.rows
            else self._column(slot, operand)
            if slot in self.columns
            else self._streamed(operand, output=False)
            for slot, operand in enumerate(self.inputs)
        ]
        return (*inputs, *(self._streamed(operand, output=True) for operand in self.outputs))

    def _streamed(self, operand: StridedOperand, output: bool) -> HostOperand:
        # The innermost dimension stays apart if it is padded.
        cut = len(self.shape) - (self.pitch != self.shape[-1])
        outer, (steps,) = merged(self.shape[:cut], [operand.strides[:cut]])
        shape, strides = (*(outer or (1,)), *self.shape[cut:]), (*(steps or (0,)), *operand.strides[cut:])
        return _padded(operand, output, shape, strides, self.pitch if cut < len(self.shape) else None, self.elements)

    def _row(self, slot: int, operand: StridedOperand) -> HostOperand:
        start = leading_zeros(operand.strides)
        shape, strides = (self.tile // self.extent(start), *self.shape[start:]), (0, *operand.strides[start:])
        pitch = self.pitch if start < len(self.shape) else None
        return _padded(operand, False, shape, strides, pitch, self.resident_elements(slot))

    def _column(self, slot: int, operand: StridedOperand) -> HostOperand:
        start = len(operand.strides) - leading_zeros(operand.strides[::-1])
        shape, strides = (*self.shape[:start], self.extent(start) // self.width), (*operand.strides[:start], 0)
        values = self.tile // self.width * self.cores * sum(self.rounds[:-1]) + self.resident_elements(slot)
        return _padded(operand, False, shape, strides, None, values)


def _padded(
    operand: StridedOperand,
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


def _carrier(channels: tuple[tuple[int, ...], ...], inputs: tuple[StridedOperand, ...]) -> int:
    """The channel with the widest elements among those with one operand; -1 if on all of them several alternate."""
    alone = [number for number, channel in enumerate(channels) if len(channel) == 1]
    return max(alone, key=lambda number: inputs[channels[number][0]].itemsize, default=-1)


def leading_zeros(strides: Sequence[int]) -> int:
    """How many dimensions, from the first on, an operand is repeated along."""
    return next((axis for axis, stride in enumerate(strides) if stride), len(strides))


def collapse(shape: tuple[int, ...], layouts: Sequence[Layout]) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """The shape with as few dimensions as possible, one at least, and the strides of every layout over it."""
    extents, strides = merged(shape, [layout.strides for layout in layouts])
    return (extents, strides) if extents else ((1,), ((1,),) * len(layouts))


# --- choosing a plan


class _MustStream(Exception):
    """The input in this slot cannot be resident."""

    def __init__(self, slot: int) -> None:
        self.slot = slot


def plan(
    shape: tuple[int, ...],
    inputs: tuple[StridedOperand, ...],
    outputs: tuple[StridedOperand, ...],
    lanes: int,
    array: Array,
    columns: int,
) -> ElementwisePlan | str:
    """The plan for a collapsed shape on at most `columns` columns, or why there is none.

    lanes: elements per vector.
    """
    if not inputs:
        return "no tensor to stream: the host fills memory faster"
    if len(inputs) > QUEUE_DEPTH or len(outputs) > 2:
        counts = f"{len(inputs)} inputs and {len(outputs)} outputs"
        return f"{counts}; {QUEUE_DEPTH} transfers can wait for a channel, and a core has two for outputs"
    streamed = {slot for slot, operand in enumerate(inputs) if 0 not in operand.strides}
    while True:
        try:
            return _plan(shape, inputs, outputs, lanes, array, columns, streamed)
        except _MustStream as refused:
            streamed.add(refused.slot)


def _plan(
    shape: tuple[int, ...],
    inputs: tuple[StridedOperand, ...],
    outputs: tuple[StridedOperand, ...],
    lanes: int,
    array: Array,
    columns: int,
    streamed: set[int],
) -> ElementwisePlan | str:
    """The plan in which all inputs but `streamed` are resident. Raises _MustStream."""
    resident = [slot for slot in range(len(inputs)) if slot not in streamed]
    if len(resident) == len(inputs):  # The one that is repeated least becomes the stream.
        raise _MustStream(max(resident, key=lambda slot: sum(map(bool, inputs[slot].strides))))
    channels = _channels(sorted(streamed), inputs)
    if channels is None:
        return "more than two element sizes among its streams, and a core has two input channels"
    rows = tuple(slot for slot in resident if inputs[slot].strides[0] == 0)
    by_row = tuple(slot for slot in resident if inputs[slot].strides[-1] == 0 and slot not in rows)
    carrier = _carrier(channels, inputs)
    for slot in resident:
        fits = carrier >= 0 and inputs[slot].itemsize <= inputs[channels[carrier][0]].itemsize
        if not fits or slot not in (*rows, *by_row):
            raise _MustStream(slot)

    granule = max(lanes, *(ALIGNMENT // operand.itemsize for operand in (*inputs, *outputs)))
    buffered = [*(inputs[slot] for slot in streamed), *outputs]
    per_element = sum(2 * operand.itemsize for operand in buffered) + sum(inputs[row].itemsize for row in rows)
    most = (CORE_BYTES - COLUMN_BYTES * len(by_row)) // per_element // granule * granule
    pitch = _pitch(shape, inputs, rows, by_row, lanes, granule, most)
    padded = (*shape[:-1], pitch)
    width = _width(padded, [inputs[slot] for slot in by_row], lanes, most)
    multiple = math.lcm(granule, width or 1, *_lengths(padded, [inputs[row] for row in rows]))
    alternating = max(map(len, channels)) > 1
    if alternating and most > RUN:
        multiple = math.lcm(multiple, RUN)
    if resident and multiple > most:
        raise _MustStream((*rows, *by_row)[-1])

    most = most // multiple * multiple
    cores = 1 if alternating else cores_per_column(array, len(channels), len(outputs))
    tile, cores = _tile(math.prod(padded), multiple, most, cores, columns)
    objects = -(-math.prod(padded) // (tile * cores))
    block = 1
    if alternating:
        both = 2 * tile * sum(inputs[slot].itemsize for slot in streamed)  # of two buffers
        block = max(1, min(MEMTILE_BYTES // both, -(-objects // columns)))
    blocks = -(-objects // block)
    used = min(columns, blocks)
    rounds = tuple(block * (blocks // used + (column < blocks % used)) for column in range(used))
    tiling = ElementwisePlan(
        shape, pitch, tile, cores, rounds, channels, block, rows, by_row, width or tile, inputs, outputs
    )
    for slot in by_row:
        values, itemsize = tiling.values(0), inputs[slot].itemsize
        unaligned = any(tiling.first(column) // tiling.width * itemsize % WORD for column in range(used))
        if unaligned or values > tiling.resident_elements(slot) or values * itemsize > COLUMN_BYTES:
            raise _MustStream(slot)
    return tiling


def _lengths(shape: tuple[int, ...], rows: Sequence[StridedOperand]) -> list[int]:
    """Elements of each row operand."""
    return [math.prod(shape[leading_zeros(row.strides) :]) for row in rows]


def _width(shape: tuple[int, ...], by_row: Sequence[StridedOperand], lanes: int, most: int) -> int:
    """The longest row of which each column operand has one value and a tile can have whole ones; 0 without any."""
    width = 0
    for operand in by_row:
        width = math.gcd(width, math.prod(shape[len(shape) - leading_zeros(operand.strides[::-1]) :]))
    if width <= most:
        return width
    return max((part for part in range(lanes, most + 1, lanes) if width % part == 0), default=width)


def _channels(streamed: list[int], inputs: tuple[StridedOperand, ...]) -> tuple[tuple[int, ...], ...] | None:
    """The streamed inputs on at most two channels; those that share one have elements of one size."""
    if len(streamed) <= 2:
        return tuple((position,) for position in streamed)
    sizes = sorted({inputs[position].itemsize for position in streamed})
    if len(sizes) == 1:
        return tuple(streamed[:2]), tuple(streamed[2:])
    if len(sizes) > 2:
        return None
    return tuple(tuple(p for p in streamed if inputs[p].itemsize == size) for size in sizes)


def _pitch(
    shape: tuple[int, ...],
    inputs: tuple[StridedOperand, ...],
    rows: tuple[int, ...],
    by_row: tuple[int, ...],
    lanes: int,
    granule: int,
    most: int,
) -> int:
    """The innermost extent, padded if resident inputs need whole rows in a tile, or whole vectors in a row."""

    def fits(pitch: int) -> bool:
        return math.lcm(granule, *_lengths((*shape[:-1], pitch), [inputs[row] for row in rows])) <= most

    extent = shape[-1]
    if fits(extent) and (not by_row or extent % lanes == 0):
        return extent
    pitches = [-(-extent // unit) * unit for unit in (lanes, granule)]
    pitch = next((pitch for pitch in pitches if fits(pitch) and pitch <= WASTE * extent), None)
    if pitch is None:
        longest = min(rows, key=lambda row: leading_zeros(inputs[row].strides), default=None)
        raise _MustStream(by_row[0] if longest is None or (by_row and fits(pitches[0])) else longest)
    return pitch


def _tile(elements: int, multiple: int, most: int, cores: int, columns: int) -> tuple[int, int]:
    """Elements of a tile, and cores per column: as many as have something worthwhile to do."""
    worthwhile = -(-elements // max(WORTHWHILE, multiple))
    cores = max(count for count in (4, 2, 1) if count <= min(cores, worthwhile))
    workers = cores * min(columns, -(-worthwhile // cores))
    size = min(most, max(WORTHWHILE, -(-elements // (workers * ROUNDS))))
    rounds = -(-elements // (workers * size))
    return min(most, -(-elements // (workers * rounds * multiple)) * multiple), cores
