"""Mapping of an element-wise task onto the array: streamed and resident operands, and tile sizes.

The task's shape is collapsed to few dimensions, and its elements, in C order, are cut into tiles of equal size. Tile t
of column c, round by round, goes to core t modulo the cores of that column. An operand is one of:

- streamed: one element for each element of the shape. If its memory layout differs, or if it is repeated in a way that
  is neither a row nor a column, the host lays it out over the shape.
- a row: it repeats with a period. The host repeats it until a tile can begin anywhere in a period, and each core keeps
  the result.
- a column: one value for each row of `width` elements. Each core keeps the values of its array column's rows.

Rows and columns are resident: they are sent once, before the stream, on one of its channels.

A plan has a form, which alone determines the binary: few tile sizes serve all shapes. The number of tiles, the period
and the width are words of runtime parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from npu_tensor.dataflow.array import Array
from npu_tensor.dataflow.checks.limits import QUEUE_DEPTH, WORD
from npu_tensor.dataflow.columns import cores_per_column
from npu_tensor.dtypes import as_dtype
from npu_tensor.kernels.offer import HostOperand, padded_nbytes, padded_shape
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import merged
from npu_tensor.spec import contiguous_strides

CORE_BYTES: Final = 60 * 1024
"""Bytes for the buffers of a core, out of 64 KiB. The rest is for the stack and the compiler's data."""

COLUMN_BYTES: Final = 4096
"""Bytes for the values of one column operand in a core."""

MEMTILE_BYTES: Final = 384 * 1024
"""Memtile bytes for objects in which several operands alternate, out of 512 KiB."""

SMALL_TILE: Final = 1024
"""Elements of a tile if there are few tiles. With smaller ones, locks cost more than is gained."""

KEPT_TILE: Final = 2048
"""Maximum elements of a tile with resident operands, which use the rest of a core's memory."""

WASTE: Final = 1.25
"""Maximum ratio by which padding may lengthen a row. The alternative, repeating the operand on the host, costs one more
stream.
"""

RUN: Final = 512
"""Elements of the innermost dimension in which a memtile's DMA reads a tile: the maximum extent of a dimension."""


class StridedOperand(NamedTuple):
    """Tensor of the task over the collapsed shape.

    Attributes:
        number: Index among the inputs or outputs.
        dtype: Dtype of the host buffer.
        strides: Strides in elements of the tensor's own memory.
        offset: Position of the first element in that memory.
    """

    number: int
    dtype: str
    strides: tuple[int, ...]
    offset: int

    @property
    def itemsize(self) -> int:
        """Bytes of one element in the host buffer."""
        return as_dtype(self.dtype).itemsize


class ElementwiseForm(NamedTuple):
    """Properties of a task that determine its binary. Operands are named by their position (slot) among the inputs.

    Attributes:
        inputs: Dtypes of the host buffers of the inputs.
        outputs: Dtypes of the host buffers of the outputs.
        channels: Streamed inputs of each input channel; several alternate tile by tile.
        rows: Resident inputs that repeat with a period.
        columns: Resident inputs with one value per row.
        tile: Elements of a tile.
        cores: Cores per column of the array.
        array_columns: Columns of the array.
        block: Tiles of each alternating input in one object of the memtile.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    channels: tuple[tuple[int, ...], ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    tile: int
    cores: int
    array_columns: int
    block: int

    @property
    def resident(self) -> tuple[int, ...]:
        """Inputs that stay in the cores, in the order in which they are sent."""
        return (*self.rows, *self.columns)

    @property
    def carrier(self) -> int:
        """Channel that carries the resident inputs: the widest elements among channels with one input; -1 if none."""
        alone = [number for number, channel in enumerate(self.channels) if len(channel) == 1]
        return max(alone, key=lambda number: self.itemsize(self.channels[number][0]), default=-1)

    def itemsize(self, slot: int) -> int:
        """Return the bytes of an input's element."""
        return as_dtype(self.inputs[slot]).itemsize

    @property
    def object_bytes(self) -> int:
        """Bytes of an object that brings resident inputs to a core."""
        return self.tile * self.itemsize(self.channels[self.carrier][0])

    def object_elements(self, slot: int) -> int:
        """Return the elements of a resident input in such an object."""
        return self.object_bytes // self.itemsize(slot)

    def kept_bytes(self, slot: int) -> int:
        """Return the bytes of a resident input in a core: whole objects of a row, or the values of a column."""
        if slot in self.columns:
            return min(COLUMN_BYTES, self.object_bytes)
        free = CORE_BYTES - self.tile * self._streamed_bytes() - COLUMN_BYTES * len(self.columns)
        return max(0, free) // len(self.rows) // self.object_bytes * self.object_bytes

    def _streamed_bytes(self) -> int:
        """Return the bytes of all streams in a core, with two objects each, per element of a tile."""
        streamed = sum(self.itemsize(slot) for channel in self.channels for slot in channel)
        return 2 * (streamed + sum(as_dtype(dtype).itemsize for dtype in self.outputs))


class ElementwisePlan(NamedTuple):
    """Tiling of a task.

    Attributes:
        form: Properties that determine the binary.
        shape: Collapsed shape.
        pitch: Innermost extent after padding.
        rounds: Tiles per core, for each array column.
        period: Elements after which all row inputs repeat.
        width: Elements of a row; column inputs have one value for each row.
        inputs: Inputs over the collapsed shape.
        outputs: Outputs over the collapsed shape.
    """

    form: ElementwiseForm
    shape: tuple[int, ...]
    pitch: int
    rounds: tuple[int, ...]
    period: int
    width: int
    inputs: tuple[StridedOperand, ...]
    outputs: tuple[StridedOperand, ...]

    @property
    def expanded(self) -> tuple[int, ...]:
        """Streamed inputs whose memory layout differs from the shape."""
        streamed = (slot for channel in self.form.channels for slot in channel)
        return tuple(slot for slot in streamed if self.inputs[slot].strides != contiguous_strides(self.shape))

    @property
    def elements(self) -> int:
        """Number of elements in all tiles."""
        return self.first(len(self.rounds))

    def first(self, column: int) -> int:
        """Return the first element of an array column's part."""
        return self.form.tile * self.form.cores * sum(self.rounds[:column])

    def first_value(self, column: int) -> int:
        """Return the first column value for an array column, aligned to a whole word for every dtype."""
        return self.first(column) // self.width // WORD * WORD

    def objects(self, slot: int) -> int:
        """Count the objects that bring a resident input to a core."""
        if slot in self.form.columns:
            return 1
        # The start of a tile is a multiple of gcd(tile, period).
        tile = self.form.tile
        elements = tile + self.period - math.gcd(tile, self.period)
        return -(-elements * self.form.itemsize(slot) // self.form.object_bytes)

    @property
    def has_room(self) -> bool:
        """True if the padding of the last tiles stays inside the buffers that tensors have anyway."""
        elements = math.prod(self.shape)
        sizes = {operand.itemsize for operand in (*self.inputs, *self.outputs)}
        return all(self.elements * itemsize <= padded_nbytes(elements * itemsize) for itemsize in sizes)

    @property
    def fits(self) -> bool:
        """True if resident inputs fit into the cores."""
        form = self.form
        if form.resident and form.carrier < 0:
            return False
        if any(form.itemsize(slot) > form.itemsize(form.channels[form.carrier][0]) for slot in form.resident):
            return False
        if any(self.objects(slot) * form.object_bytes > form.kept_bytes(slot) for slot in form.rows):
            return False
        for slot in form.columns:
            itemsize = form.itemsize(slot)
            for column in range(len(self.rounds)):
                values = (self.first(column + 1) - 1) // self.width - self.first_value(column) + 1
                if values * itemsize > form.kept_bytes(slot):
                    return False
        return True

    def extent(self, start: int) -> int:
        """Return the elements of the dimensions from `start` on, with padding."""
        return math.prod((*self.shape[:-1], self.pitch)[start:])

    def host_operands(self) -> tuple[HostOperand, ...]:
        """Describe how the tensors fill the host buffers: inputs, then outputs."""
        inputs = [
            self._row(slot, operand)
            if slot in self.form.rows
            else self._column(slot, operand)
            if slot in self.form.columns
            else self._streamed(operand, output=False)
            for slot, operand in enumerate(self.inputs)
        ]
        return (*inputs, *(self._streamed(operand, output=True) for operand in self.outputs))

    def _streamed(self, operand: StridedOperand, output: bool) -> HostOperand:
        # The innermost dimension stays separate if it is padded.
        cut = len(self.shape) - (self.pitch != self.shape[-1])
        outer, (steps,) = merged(self.shape[:cut], [operand.strides[:cut]])
        shape, strides = (*(outer or (1,)), *self.shape[cut:]), (*(steps or (0,)), *operand.strides[cut:])
        return _padded(operand, output, shape, strides, self.pitch if cut < len(self.shape) else None, self.elements)

    def _row(self, slot: int, operand: StridedOperand) -> HostOperand:
        start = leading_zeros(operand.strides)
        elements = self.objects(slot) * self.form.object_elements(slot)
        shape, strides = (-(-elements // self.extent(start)), *self.shape[start:]), (0, *operand.strides[start:])
        return _padded(operand, False, shape, strides, self.pitch if start < len(self.shape) else None, elements)

    def _column(self, slot: int, operand: StridedOperand) -> HostOperand:
        start = len(operand.strides) - leading_zeros(operand.strides[::-1])
        shape, strides = (*self.shape[:start], self.extent(start) // self.width), (*operand.strides[:start], 0)
        values = self.first_value(len(self.rounds) - 1) + self.form.object_elements(slot)
        return _padded(operand, False, shape, strides, None, values)


def _padded(
    operand: StridedOperand,
    output: bool,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    pitch: int | None,
    elements: int,
) -> HostOperand:
    """Return a host buffer of at least `elements`: the outermost extent grows, the innermost one becomes `pitch`."""
    full = (*shape[:-1], pitch) if pitch is not None and len(shape) > 1 else shape
    layout = Layout(shape, strides, operand.offset)
    return HostOperand(operand.number, output, layout, padded_shape(full, elements), operand.dtype, padding=None)


def leading_zeros(strides: Sequence[int]) -> int:
    """Count the leading dimensions along which an operand is repeated."""
    return next((axis for axis, stride in enumerate(strides) if stride), len(strides))


def collapse(shape: tuple[int, ...], layouts: Sequence[Layout]) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return the shape with as few dimensions as possible, at least one, and the strides of every layout over it."""
    extents, strides = merged(shape, [layout.strides for layout in layouts])
    return (extents, strides) if extents else ((1,), ((1,),) * len(layouts))


# --- choosing a plan


class _MustStream(Exception):
    """Signal that the input in a slot cannot be resident."""

    def __init__(self, slot: int) -> None:
        self.slot = slot


def plans(
    shape: tuple[int, ...],
    inputs: tuple[StridedOperand, ...],
    outputs: tuple[StridedOperand, ...],
    lanes: int,
    array: Array,
    columns: int,
) -> list[ElementwisePlan] | str:
    """Return the plans for a collapsed shape, one for each tile size, or the reason why there is none."""
    if not inputs:
        return "no tensor to stream: the host fills memory faster"
    if len(inputs) > QUEUE_DEPTH or len(outputs) > 2:
        counts = f"{len(inputs)} inputs and {len(outputs)} outputs"
        return f"{counts}; {QUEUE_DEPTH} transfers can wait for a channel, and a core has two for outputs"
    streamed = {slot for slot, operand in enumerate(inputs) if 0 not in operand.strides}
    while True:
        try:
            return _plans(shape, inputs, outputs, lanes, array, columns, streamed)
        except _MustStream as refused:
            streamed.add(refused.slot)


def _plans(
    shape: tuple[int, ...],
    inputs: tuple[StridedOperand, ...],
    outputs: tuple[StridedOperand, ...],
    lanes: int,
    array: Array,
    columns: int,
    streamed: set[int],
) -> list[ElementwisePlan] | str:
    """Return the plans in which all inputs but `streamed` are resident. Raises _MustStream."""
    resident = [slot for slot in range(len(inputs)) if slot not in streamed]
    if len(resident) == len(inputs):  # The input with the least repetition becomes the stream.
        raise _MustStream(max(resident, key=lambda slot: sum(map(bool, inputs[slot].strides))))
    channels = _channels(sorted(streamed), inputs)
    if channels is None:
        return "more than two element sizes among its streams, and a core has two input channels"
    rows = tuple(slot for slot in resident if inputs[slot].strides[0] == 0)
    by_row = tuple(slot for slot in resident if inputs[slot].strides[-1] == 0 and slot not in rows)
    for slot in resident:
        if slot not in (*rows, *by_row):
            raise _MustStream(slot)
    pitch = shape[-1]
    if resident and pitch % lanes:  # Rows begin with whole vectors.
        pitch = -(-pitch // lanes) * lanes
        if pitch > WASTE * shape[-1]:
            raise _MustStream(resident[-1])
    padded = (*shape[:-1], pitch)
    period = math.lcm(*(math.prod(padded[leading_zeros(inputs[slot].strides) :]) for slot in rows))
    width = math.gcd(*(_repeated(padded, inputs[slot]) for slot in by_row))
    found: list[ElementwisePlan] = []
    for form in _forms(inputs, outputs, channels, rows, by_row, array, columns):
        objects = -(-math.prod(padded) // (form.tile * form.cores))
        blocks = max(columns, -(-objects // form.block))  # Every column has a share, even if that is all padding.
        rounds = tuple(form.block * (blocks // columns + (column < blocks % columns)) for column in range(columns))
        plan = ElementwisePlan(form, shape, pitch, rounds, period, width, inputs, outputs)
        if plan.fits and (plan.has_room or not found):
            found.append(plan)
    if not found and resident:
        raise _MustStream(resident[-1] if by_row else max(rows, key=lambda slot: sum(map(bool, inputs[slot].strides))))
    return found or "its operands do not fit into a core"


def _forms(
    inputs: tuple[StridedOperand, ...],
    outputs: tuple[StridedOperand, ...],
    channels: tuple[tuple[int, ...], ...],
    rows: tuple[int, ...],
    by_row: tuple[int, ...],
    array: Array,
    columns: int,
) -> Iterator[ElementwiseForm]:
    """Yield three forms: small tiles on one core of each column, small tiles on all cores, large tiles on all cores."""
    dtypes = tuple(operand.dtype for operand in inputs), tuple(operand.dtype for operand in outputs)
    streams = [inputs[slot] for channel in channels for slot in channel]
    per_element = 2 * sum(operand.itemsize for operand in (*streams, *outputs))
    # Powers of two divide many extents, which then need no padding.
    large = 1 << (CORE_BYTES // per_element).bit_length() - 1
    if rows or by_row:
        large = min(KEPT_TILE, large // 2)
    small = min(SMALL_TILE, large)
    if len(streams) > len(channels):
        both = 2 * sum(operand.itemsize for operand in streams)  # of two buffers
        yield ElementwiseForm(*dtypes, channels, rows, by_row, small, 1, columns, 1)
        yield ElementwiseForm(*dtypes, channels, rows, by_row, large, 1, columns, MEMTILE_BYTES // (both * large))
        return
    cores = cores_per_column(array, len(channels), len(outputs))
    for tile, number in dict.fromkeys([(small, 1), (small, cores), (large, cores)]):
        yield ElementwiseForm(*dtypes, channels, rows, by_row, tile, number, columns, 1)


def _repeated(shape: tuple[int, ...], operand: StridedOperand) -> int:
    """Return the elements of a row in which an operand has one value."""
    return math.prod(shape[len(shape) - leading_zeros(operand.strides[::-1]) :])


def _channels(streamed: list[int], inputs: tuple[StridedOperand, ...]) -> tuple[tuple[int, ...], ...] | None:
    """Distribute the streamed inputs to at most two channels; inputs that share one have elements of one size."""
    if len(streamed) <= 2:
        return tuple((position,) for position in streamed)
    sizes = sorted({inputs[position].itemsize for position in streamed})
    if len(sizes) == 1:
        return tuple(streamed[:2]), tuple(streamed[2:])
    if len(sizes) > 2:
        return None
    return tuple(tuple(p for p in streamed if inputs[p].itemsize == size) for size in sizes)
