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
from typing import Final, NamedTuple

from npu_tensor.dtypes import as_dtype
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.ops.declare import Layout

__all__ = ["Operand", "Plan", "collapse", "plan"]

CORE_BYTES: Final = 60 * 1024
"""For the buffers of a core, of 64 KB: the rest is for the stack and what the compiler adds."""

COLUMN_BYTES: Final = 4096
"""For the values of one column operand in a core."""

MEMTILE_BYTES: Final = 384 * 1024
"""For objects in which several operands alternate, of 512 KB."""

ALIGNMENT: Final = 64
"""Bytes: of the widest vector, which loads and stores must be aligned to on aie2p."""

WORTHWHILE: Final = 1024
"""Elements for which another core is used, and the smallest tile if there are several: below, locks cost more."""

ROUNDS: Final = 4
"""Tiles per core that make loading, computing and storing overlap."""

WASTE: Final = 1.25
"""How much longer a row may become by padding. Repeating the operand on the host costs one more stream instead."""

DIM: Final = 512
"""Extent of a dimension of a memtile's DMA."""


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
        outer, (steps,) = _merge(self.shape[:cut], [operand.strides[:cut]])
        shape = (*(outer or (1,)), *self.shape[cut:])
        strides = (*(steps or (0,)), *operand.strides[cut:])
        return _padded(operand, output, shape, strides, self.pitch if cut < len(self.shape) else None, self.elements)

    def _row(self, position: int, operand: Operand) -> HostOperand:
        start = _leading_zeros(operand.strides)
        repeats = self.tile // self.extent(start)
        shape, strides = (repeats, *self.shape[start:]), (0, *operand.strides[start:])
        pitch = self.pitch if start < len(self.shape) else None
        return _padded(operand, False, shape, strides, pitch, self.kept_elements(position))

    def _column(self, position: int, operand: Operand) -> HostOperand:
        start = len(operand.strides) - _leading_zeros(operand.strides[::-1])
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
    return HostOperand(operand.number, output, Layout(shape, strides, operand.offset), (outer, *inner), operand.dtype)


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _leading_zeros(strides: Sequence[int]) -> int:
    return next((axis for axis, stride in enumerate(strides) if stride), len(strides))


def _merge(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Without dimensions of extent 1, and with neighbours joined that every operand walks in equal steps."""
    extents: list[int] = []
    steps: list[tuple[int, ...]] = []
    for axis, extent in enumerate(shape):
        step = tuple(own[axis] for own in strides)
        if extent == 1:
            continue
        if extents and all(outer == inner * extent for outer, inner in zip(steps[-1], step, strict=True)):
            extents[-1] *= extent
            steps[-1] = step
        else:
            extents.append(extent)
            steps.append(step)
    return tuple(extents), [tuple(step[number] for step in steps) for number in range(len(strides))]


def collapse(shape: tuple[int, ...], layouts: Sequence[Layout]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The shape with as few dimensions as possible, one at least, and the strides of every layout over it."""
    extents, strides = _merge(shape, [layout.strides for layout in layouts])
    return (extents, strides) if extents else ((1,), [(1,)] * len(layouts))


# --- choosing


class _Again(Exception):
    """The input at this position cannot be kept."""

    def __init__(self, position: int) -> None:
        self.position = position


def plan(
    shape: tuple[int, ...], inputs: tuple[Operand, ...], outputs: tuple[Operand, ...], lanes: int, columns: int
) -> Plan | str:
    """The plan for a collapsed shape on at most `columns` columns, or why there is none.

    lanes: elements per vector.
    """
    if not inputs:
        return "no tensor to stream: the host fills memory faster"
    if len(inputs) + len(outputs) > 5 or len(outputs) > 2:
        return f"{len(inputs)} inputs and {len(outputs)} outputs; a design has 5 host buffers, 2 of them for outputs"
    streamed: set[int] = {position for position, operand in enumerate(inputs) if 0 not in operand.strides}
    while True:
        try:
            return _plan(shape, inputs, outputs, lanes, columns, streamed)
        except _Again as refused:
            streamed.add(refused.position)


def _plan(
    shape: tuple[int, ...],
    inputs: tuple[Operand, ...],
    outputs: tuple[Operand, ...],
    lanes: int,
    columns: int,
    streamed: set[int],
) -> Plan | str:
    kept = [position for position in range(len(inputs)) if position not in streamed]
    if len(kept) == len(inputs):
        raise _Again(max(kept, key=lambda position: sum(map(bool, inputs[position].strides))))
    channels = _channels(sorted(streamed), inputs)
    if channels is None:
        return "more than two element sizes among its streams, and a core has two input channels"
    carrier = _carrier(channels, inputs)
    rows = [position for position in kept if inputs[position].strides[0] == 0]
    by_row = [position for position in kept if inputs[position].strides[-1] == 0 and position not in rows]
    for position in kept:
        fits = carrier >= 0 and inputs[position].itemsize <= inputs[channels[carrier][0]].itemsize
        if not fits or position not in (*rows, *by_row):
            raise _Again(position)

    granule = max(lanes, *(ALIGNMENT // operand.itemsize for operand in (*inputs, *outputs)))
    per_element = sum(2 * inputs[position].itemsize for position in streamed)
    per_element += sum(2 * operand.itemsize for operand in outputs) + sum(inputs[row].itemsize for row in rows)
    most = (CORE_BYTES - COLUMN_BYTES * len(by_row)) // per_element // granule * granule

    pitch, multiple = shape[-1], granule
    if kept:
        pitch, multiple = _pitch(shape, inputs, rows, by_row, lanes, granule, most)
    extent = [math.prod((*shape[:-1], pitch)[axis:]) for axis in range(len(shape) + 1)]
    width = 0
    for position in by_row:
        start = len(shape) - _leading_zeros(inputs[position].strides[::-1])
        width = math.gcd(width, extent[start])
    if width > most:
        width = max((part for part in range(lanes, most + 1, lanes) if width % part == 0), default=0)
    if by_row:
        multiple = math.lcm(multiple, width)

    alternating = max(map(len, channels)) > 1
    if alternating and most > DIM:  # Two dimensions of the memtile's DMA walk one tile.
        multiple = math.lcm(multiple, DIM)
    if kept and multiple > most:
        raise _Again(kept[-1])
    tiling = _tile(extent[0], multiple, most // multiple * multiple, _cores(channels, outputs), columns)
    tile, cores, objects = tiling
    block = 1
    if alternating:
        in_memtile = 2 * tile * sum(inputs[position].itemsize for position in streamed)
        block = max(1, min(MEMTILE_BYTES // in_memtile, -(-objects // columns)))
    used = min(columns, -(-objects // block))
    base, extra = divmod(-(-objects // block), used)
    made = Plan(
        shape,
        pitch,
        tile,
        cores,
        tuple(block * (base + (column < extra)) for column in range(used)),
        channels,
        block,
        tuple(rows),
        tuple(by_row),
        width or tile,
        inputs,
        outputs,
    )
    for position in by_row:
        values = made.values(0)
        if values > made.kept_elements(position) or values * inputs[position].itemsize > COLUMN_BYTES:
            raise _Again(position)
        # Transfers begin at words.
        if len(made.rounds) > 1 and made.first(1) // made.width * inputs[position].itemsize % 4:
            raise _Again(position)
    return made


def _channels(streamed: list[int], inputs: tuple[Operand, ...]) -> tuple[tuple[int, ...], ...] | None:
    """The streamed inputs on at most two channels; those that share one have elements of one size."""
    if len(streamed) <= 2:
        return tuple((position,) for position in streamed)
    sizes = sorted({inputs[position].itemsize for position in streamed})
    if len(sizes) == 1:
        return tuple(streamed[:2]), tuple(streamed[2:])
    if len(sizes) > 2:
        return None
    return tuple(tuple(p for p in streamed if inputs[p].itemsize == size) for size in sizes)


def _carrier(channels: tuple[tuple[int, ...], ...], inputs: tuple[Operand, ...]) -> int:
    """The channel with the widest elements among those with one operand; -1 if on all of them several alternate."""
    alone = [number for number, channel in enumerate(channels) if len(channel) == 1]
    return max(alone, key=lambda number: inputs[channels[number][0]].itemsize, default=-1)


def _cores(channels: tuple[tuple[int, ...], ...], outputs: tuple[Operand, ...]) -> int:
    """Cores of one column that its memtile's 6 input and 6 output channels can serve."""
    if max(map(len, channels)) > 1:
        return 1
    into, out = len(channels), len(outputs)
    return next(cores for cores in (4, 2, 1) if into + cores * out <= 6 and cores * into + out <= 6)


def _pitch(
    shape: tuple[int, ...],
    inputs: tuple[Operand, ...],
    rows: list[int],
    by_row: list[int],
    lanes: int,
    granule: int,
    most: int,
) -> tuple[int, int]:
    """The innermost extent, padded if kept inputs need it, and what the tile must be a multiple of."""

    def multiple(pitch: int) -> int:
        starts = (_leading_zeros(inputs[row].strides) for row in rows)
        return math.lcm(granule, *(math.prod((*shape[:-1], pitch)[start:]) for start in starts))

    if multiple(shape[-1]) <= most and (not by_row or shape[-1] % lanes == 0):
        return shape[-1], multiple(shape[-1])
    pitch = -(-shape[-1] // lanes) * lanes
    if multiple(pitch) > most:
        pitch = -(-shape[-1] // granule) * granule
    if multiple(pitch) > most or pitch > WASTE * shape[-1]:
        largest = min(rows, key=lambda row: _leading_zeros(inputs[row].strides), default=None)
        raise _Again(by_row[0] if largest is None or (multiple(pitch) <= most and by_row) else largest)
    return pitch, multiple(pitch)


def _tile(elements: int, multiple: int, most: int, cores: int, columns: int) -> tuple[int, int, int]:
    """Elements of a tile, cores per column, and how many objects of one tile per core there are."""
    worthwhile = -(-elements // max(WORTHWHILE, multiple))
    cores = max(count for count in (4, 2, 1) if count <= min(cores, max(worthwhile, 1)))
    workers = cores * min(columns, -(-worthwhile // cores))
    wanted = min(most, max(WORTHWHILE, -(-elements // (workers * ROUNDS))))
    rounds = -(-elements // (workers * wanted))
    tile = -(-elements // (workers * rounds * multiple)) * multiple
    if tile > most:
        tile = most
    return tile, cores, -(-elements // (tile * cores))
