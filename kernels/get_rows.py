"""GGML's GET_ROWS: rows of a table at indices that are data.

Access patterns cannot depend on data, so the table streams through the array and every core keeps the rows that its
indices name. A row is cut into slices of words; a unit of work is one slice of a block of result rows, which the four
cores of a column share. The table is read once for each block of rows, however many there are on the array.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import (
    AccessPattern,
    Builder,
    Design,
    HostBuffer,
    KernelFunction,
    ObjectFifo,
    ObjectType,
    Source,
    range_,
)
from npu_tensor.kernels.movement.copies import pattern
from npu_tensor.kernels.offer import HostOperand, Offer, Target
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import joined
from npu_tensor.task import Refusal, Task

__all__ = ["claim"]

CORES: Final = 4
"""Cores of a column."""
TABLE_WORDS: Final = 2048
"""Words of one object of the table, of which a core holds two."""
RESULT_WORDS: Final = 8192
"""Words of the result rows that a core collects."""
MOST_INDICES: Final = 1024
"""Indices that a core looks for, twice; with the above and the stack they fill its memory."""
SHORTEST_SLICE: Final = 64
"""Words of a row that are read in one piece: host memory is slow with less."""
MOST_WASTE: Final = 32
"""Bytes of the table that may stream by for each byte of the result."""
SMALL_TABLE: Final = 1 << 20
"""Bytes that may stream by in any case."""
MOST_UNITS: Final = 512
"""Each is four transfers."""
GROUPS_IN_FLIGHT: Final = 2
"""Units of a column that are started before the first is waited for: 8 of a shim tile's 15 buffer descriptors."""

# Assumed: comparing one index; copying one row, and 16 words of it.
INDEX_CYCLES: Final = 6
ROW_CYCLES: Final = 12
VECTOR_CYCLES: Final = 4


class Plan(NamedTuple):
    """Extents of the table and how the work is cut.

    rows, words: of the table, in 32-bit words. taken: result rows with those that only fill up the last block. width:
    words of a slice. chunk: table rows of an object. share: result rows of one core in one unit.
    """

    rows: int
    words: int
    taken: int
    width: int
    chunk: int
    share: int

    @property
    def block(self) -> int:
        """Result rows of a unit."""
        return CORES * self.share

    @property
    def starts(self) -> list[int]:
        """First words of the slices. The last one overlaps where they do not fit."""
        return [min(start, self.words - self.width) for start in range(0, self.words, self.width)]

    @property
    def passes(self) -> int:
        """How often the whole table streams by."""
        return self.taken // self.block

    @property
    def streamed(self) -> int:
        """Bytes of the table that are read in all."""
        return 4 * self.passes * len(self.starts) * self.width * self.rows


def claim(task: Task, target: Target) -> Offer | Refusal:
    """An offer for `take` along the first dimension."""
    found = _operands(task)
    if isinstance(found, str):
        return Refusal(f"get_rows: {found}")
    table, index, result = found
    words = math.prod(table.padded) * task.outputs[0].dtype.itemsize // 4 // table.padded[0]
    plan = _plan(table.padded[0], words, index.layout.shape[0], target.columns)
    wasted = MOST_WASTE * 4 * index.layout.shape[0] * words
    if plan.streamed > max(wasted, SMALL_TABLE):
        return Refusal(f"get_rows: {plan.streamed} bytes would stream by for {wasted // MOST_WASTE} bytes of rows")
    if plan.passes * len(plan.starts) > MOST_UNITS:
        return Refusal(f"get_rows: {plan.passes * len(plan.starts)} slices of blocks, more than {MOST_UNITS}")
    if pattern(0, [(max(plan.rows, plan.block), words), (plan.width, 1)], 1) is None:
        return Refusal(f"get_rows: rows of {words} words are too far apart for a DMA")
    index = index._replace(padded=(plan.taken,))
    result = result._replace(padded=(plan.taken, table.padded[1]))
    reason = (
        f"passes over the table: {plan.passes}, in slices of {plan.width} words; result rows per core: {plan.share}"
    )

    def design() -> Design:
        return _design(task.name, target, plan)

    return Offer("get_rows", reason, design, (table, index, result))


def _operands(task: Task) -> tuple[HostOperand, HostOperand, HostOperand] | str:
    """Table, indices and result as (rows, elements), (n,) and (n, elements); or what does not fit."""
    assert task.call is not None
    source, indices = task.inputs
    assert source.layout is not None
    assert source.dtype is not None
    dim, dtype = task.call.attributes["dim"], source.dtype
    if math.prod(source.layout.shape[:dim]) != 1:
        return f"indices along dimension {dim}, not the first"
    extent = source.layout.shape[dim]
    if not extent:
        return "the table has no rows"
    inner = joined(Layout(source.layout.shape[dim + 1 :], source.layout.strides[dim + 1 :]))
    if inner.strides != (1,):
        return "the elements of a row are not neighbours in memory"
    assert indices.layout is not None
    picks = joined(indices.layout)
    if len(picks.shape) > 1:
        return "the indices are not evenly spaced in memory"
    (elements,), (taken,) = inner.shape, picks.shape
    per_word = max(4 // dtype.itemsize, 1)
    padded = -(-elements // per_word) * per_word
    rows = Layout((extent, elements), (source.layout.strides[dim], 1), source.layout.offset)
    result = Layout((taken, elements), (elements, 1), task.outputs[0].layout.offset)
    bounds = (task.call.attributes["name"], extent)
    return (
        HostOperand(0, False, rows, (extent, padded), dtype.name),
        HostOperand(1, False, picks, picks.shape, "int32", -1, bounds),
        HostOperand(0, True, result, (taken, padded), dtype.name),
    )


def _plan(rows: int, words: int, taken: int, columns: int) -> Plan:
    """Slices for all columns, and short enough for a core to hold its part of all result rows, if rows allow both."""
    wanted = max(columns, -(-words * -(-taken // CORES) // RESULT_WORDS))
    slices = max(-(-words // TABLE_WORDS), min(wanted, words // SHORTEST_SLICE), 1)
    most = min(2 * slices - 1, max(words // SHORTEST_SLICE, slices))
    even = (number for number in range(slices, most + 1) if words % number == 0)
    width = -(-words // next(even, slices))
    share = min(-(-taken // CORES), RESULT_WORDS // width, MOST_INDICES)
    passes = -(-taken // (CORES * share))
    share = -(-taken // (CORES * passes))
    return Plan(rows, words, passes * CORES * share, width, min(rows, TABLE_WORDS // width), share)


class _Ends(NamedTuple):
    """The fifos of a column that the host fills and drains."""

    table: ObjectFifo
    indices: ObjectFifo
    result: ObjectFifo


SOURCE: Final = """#include <nt/get_rows.hpp>

extern "C" void nt_start(int32 *position) { *position = 0; }

extern "C" void nt_get_rows(const int32 *table, const int32 *indices, int32 *result, int32 *position, int32 words,
                            int32 rows, int32 count, int32 last) {
    nt::get_rows(table, indices, result, position, words, rows, count, last);
}
"""


class _Unit(NamedTuple):
    """One slice of one block of result rows, by its first word and first row."""

    word: int
    row: int


def _design(name: str, target: Target, plan: Plan) -> Design:
    builder = Builder(name, target.array.arch, target.columns)
    table = builder.host_buffer("table", "int32", plan.rows * plan.words)
    indices = builder.host_buffer("indices", "int32", plan.taken)
    result = builder.host_buffer("result", "int32", plan.taken * plan.words)
    rows = range(0, plan.taken, plan.block)
    whole = [_Unit(word, row) for word in plan.starts if word % plan.width == 0 for row in rows]
    # The overlapping slice writes words of its neighbour again and waits for it.
    last = [_Unit(word, row) for word in plan.starts if word % plan.width for row in rows]
    start, take = _functions(builder, plan)
    columns = [_column(builder, column, plan, start, take) for column in range(min(target.columns, len(whole)))]
    for units in (whole, last):
        groups: list[int] = []
        for turn in range(-(-len(units) // len(columns))):
            if turn >= GROUPS_IN_FLIGHT:
                builder.finish(groups[turn - GROUPS_IN_FLIGHT])
            groups.append(builder.group())
            for ends, unit in zip(columns, units[turn * len(columns) : (turn + 1) * len(columns)], strict=False):
                _transfers(builder, ends, unit, plan, (table, indices, result), groups[-1])
        for group in groups[-GROUPS_IN_FLIGHT:]:
            builder.finish(group)
    return builder.build()


def _functions(builder: Builder, plan: Plan) -> tuple[KernelFunction, KernelFunction]:
    """What begins a unit, and what picks rows from one object of the table."""
    source = Source("get_rows", SOURCE)
    table, indices, result = (
        ObjectType("int32", (size,)) for size in (plan.chunk * plan.width, plan.share, plan.share * plan.width)
    )
    copied = plan.share * (ROW_CYCLES + VECTOR_CYCLES * -(-plan.width // 16))
    cycles = plan.share * INDEX_CYCLES + -(-copied // -(-plan.rows // plan.chunk))
    position = ObjectType("int32", (1,))
    return (
        builder.function("nt_start", [position], source, 2),
        builder.function("nt_get_rows", [table, indices, result, position, *["int32"] * 4], source, cycles),
    )


def _column(builder: Builder, column: int, plan: Plan, start: KernelFunction, take: KernelFunction) -> _Ends:
    """Four cores that see the same rows of the table and look for indices of their own."""
    table, indices, result, position = (part for part in take.arguments if isinstance(part, ObjectType))
    shim, memtile = Tile(column, 0), Tile(column, 1)
    cores = [Tile(column, 2 + row) for row in range(CORES)]
    ends = _Ends(
        builder.fifo(f"table_{column}", table, shim, cores),
        builder.fifo(f"indices_{column}", ObjectType("int32", (plan.block,)), shim, [memtile]),
        builder.fifo(f"result_{column}", ObjectType("int32", (plan.block * plan.width,)), memtile, [shim]),
    )
    wanted = [builder.fifo(f"indices_{tile.column}_{tile.row}", indices, memtile, [tile]) for tile in cores]
    found = [builder.fifo(f"result_{tile.column}_{tile.row}", result, tile, [memtile], depth=1) for tile in cores]
    builder.split(ends.indices, wanted)
    builder.join(found, ends.result)

    def body(table: Any, indices: Any, result: Any, position: Any) -> None:
        own, rows = indices.acquire(1), result.acquire(1)
        start(position)
        for _ in range_(-(-plan.rows // plan.chunk)):
            take(table.acquire(1), own, rows, position, plan.width, plan.chunk, plan.share, plan.rows - plan.chunk)
            table.release(1)
        indices.release(1)
        result.release(1)

    for tile, own, rows in zip(cores, wanted, found, strict=True):
        counter = builder.core_buffer(f"position_{tile.column}_{tile.row}", tile, position)
        builder.worker(tile, body, [ends.table, own, rows, counter])
    return ends


def _transfers(
    builder: Builder,
    ends: _Ends,
    unit: _Unit,
    plan: Plan,
    buffers: tuple[HostBuffer, HostBuffer, HostBuffer],
    group: int,
) -> None:
    """What one unit reads and writes."""
    table, indices, result = buffers
    builder.fill(ends.indices, indices, AccessPattern.linear(plan.block, unit.row), group)
    whole = plan.rows // plan.chunk * plan.chunk
    builder.fill(ends.table, table, _slice(plan, unit.word, 0, whole), group)
    if whole != plan.rows:
        builder.fill(ends.table, table, _slice(plan, unit.word, plan.rows - plan.chunk, plan.chunk), group)
    builder.drain(ends.result, result, _slice(plan, unit.word, unit.row, plan.block), group)


def _slice(plan: Plan, word: int, row: int, rows: int) -> AccessPattern:
    """The words of a slice in some rows of the table or the result."""
    found = pattern(row * plan.words + word, [(rows, plan.words), (plan.width, 1)], 1)
    assert found is not None
    return found
