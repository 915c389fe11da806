"""GGML's GET_ROWS: rows of a table at indices that are data.

Access patterns cannot depend on data, so the table streams through the array and every core keeps the rows that its
indices name. A row is cut into slices of words; a unit of work is one slice of a block of result rows, which the
cores of a column share. The table is read once for each block of rows, however many there are on the array.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final, NamedTuple

from npu_tensor.dataflow.array import Arch, Tile
from npu_tensor.dataflow.columns import Step, core_tiles, gather, pipeline, scatter
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectFifo, ObjectType, Source, range_
from npu_tensor.kernels.movement.copies import pattern
from npu_tensor.kernels.offer import HostOperand, Offer, Target
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import joined
from npu_tensor.task import Refusal, Task

__all__ = ["claim"]

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
IN_FLIGHT: Final = 2
"""Units of a column that are started before the first is waited for: 8 of a shim tile's 15 buffer descriptors."""

# Assumed: comparing one index; copying one row, and 16 words of it.
INDEX_CYCLES: Final = 6
ROW_CYCLES: Final = 12
VECTOR_CYCLES: Final = 4

SOURCE: Final = """#include <nt/get_rows.hpp>

extern "C" void nt_start(int32 *position) { *position = 0; }

extern "C" void nt_get_rows(const int32 *table, const int32 *indices, int32 *result, int32 *position, int32 words,
                            int32 rows, int32 count, int32 last) {
    nt::get_rows(table, indices, result, position, words, rows, count, last);
}
"""


class GetRowsPlan(NamedTuple):
    """Extents of the table and how the work is cut.

    rows, words: of the table, in 32-bit words. results: result rows with those that only fill up the last block.
    width: words of a slice. chunk: table rows of an object. share: result rows of one core in one unit. cores: of a
    column.
    """

    rows: int
    words: int
    results: int
    width: int
    chunk: int
    share: int
    cores: int

    @property
    def block(self) -> int:
        """Result rows of a unit."""
        return self.cores * self.share

    @property
    def starts(self) -> list[int]:
        """First words of the slices. The last one overlaps where they do not fit."""
        return [min(start, self.words - self.width) for start in range(0, self.words, self.width)]

    @property
    def passes(self) -> int:
        """How often the whole table streams by."""
        return self.results // self.block

    @property
    def streamed(self) -> int:
        """Bytes of the table that are read in all."""
        return 4 * self.passes * len(self.starts) * self.width * self.rows

    def slice(self, word: int, row: int, rows: int) -> AccessPattern:
        """The words of a slice in some rows of the table or the result."""
        words = pattern(row * self.words + word, [(rows, self.words), (self.width, 1)], 1)
        assert words is not None
        return words


def claim(task: Task, target: Target) -> Offer | Refusal:
    """An offer for `take` along the first dimension."""
    operands = _operands(task)
    if isinstance(operands, str):
        return Refusal(f"get_rows: {operands}")
    table, index, result = operands
    words = math.prod(table.padded) * task.outputs[0].dtype.itemsize // 4 // table.padded[0]
    plan = _plan(table.padded[0], words, index.layout.shape[0], target)
    useful = 4 * index.layout.shape[0] * words
    if plan.streamed > max(MOST_WASTE * useful, SMALL_TABLE):
        return Refusal(f"get_rows: {plan.streamed} bytes would stream by for {useful} bytes of rows")
    if plan.passes * len(plan.starts) > MOST_UNITS:
        return Refusal(f"get_rows: {plan.passes * len(plan.starts)} slices of blocks, more than {MOST_UNITS}")
    if pattern(0, [(max(plan.rows, plan.block), words), (plan.width, 1)], 1) is None:
        return Refusal(f"get_rows: rows of {words} words are too far apart for a DMA")
    index = index._replace(padded=(plan.results,))
    result = result._replace(padded=(plan.results, table.padded[1]))
    slices = f"passes over the table: {plan.passes}, in slices of {plan.width} words"
    reason = f"{slices}; result rows per core: {plan.share}"
    return Offer(
        "get_rows", reason, partial(_design, task.name, target.array.arch, target.columns, plan), (table, index, result)
    )


def _operands(task: Task) -> tuple[HostOperand, HostOperand, HostOperand] | str:
    """Table, indices and result as (rows, elements), (n,) and (n, elements); or what does not fit."""
    assert task.call is not None
    (_, dtype, layout), (_, _, indices) = task.inputs
    assert layout is not None
    assert indices is not None
    assert dtype is not None
    if dtype.is_quantized:
        return f"rows of {dtype.name} are not read"
    dim = task.call.attributes["dim"]
    if math.prod(layout.shape[:dim]) != 1:
        return f"indices along dimension {dim}, not the first"
    extent = layout.shape[dim]
    if not extent:
        return "the table has no rows"
    row = joined(Layout(layout.shape[dim + 1 :], layout.strides[dim + 1 :]))
    if row.strides != (1,):
        return "the elements of a row are not neighbours in memory"
    picks = joined(indices)
    if len(picks.shape) > 1:
        return "the indices are not evenly spaced in memory"
    (elements,), (number,) = row.shape, picks.shape
    per_word = max(4 // dtype.itemsize, 1)
    padded = -(-elements // per_word) * per_word
    rows = Layout((extent, elements), (layout.strides[dim], 1), layout.offset)
    result = Layout((number, elements), (elements, 1), task.outputs[0].layout.offset)
    bounds = (task.call.attributes["name"], extent)
    return (
        HostOperand(0, False, rows, (extent, padded), dtype.name),
        HostOperand(1, False, picks, picks.shape, "int32", -1, bounds),
        HostOperand(0, True, result, (number, padded), dtype.name),
    )


def _plan(rows: int, words: int, results: int, target: Target) -> GetRowsPlan:
    """Slices for all columns, and short enough for a core to hold its part of all result rows, if rows allow both."""
    cores = target.array.core_rows
    slices = max(target.columns, -(-words * -(-results // cores) // RESULT_WORDS))
    slices = max(-(-words // TABLE_WORDS), min(slices, words // SHORTEST_SLICE), 1)
    most = min(2 * slices - 1, max(words // SHORTEST_SLICE, slices))
    even = (number for number in range(slices, most + 1) if words % number == 0)
    width = -(-words // next(even, slices))
    share = min(-(-results // cores), RESULT_WORDS // width, MOST_INDICES)
    passes = -(-results // (cores * share))
    share = -(-results // (cores * passes))
    return GetRowsPlan(rows, words, passes * cores * share, width, min(rows, TABLE_WORDS // width), share, cores)


class _Streams(NamedTuple):
    """The fifos of a column at the host."""

    table: ObjectFifo
    indices: ObjectFifo
    result: ObjectFifo


def _design(name: str, arch: Arch, columns: int, plan: GetRowsPlan) -> Design:
    builder = Builder(name, arch, columns)
    table = builder.host_buffer("table", "int32", plan.rows * plan.words)
    indices = builder.host_buffer("indices", "int32", plan.results)
    result = builder.host_buffer("result", "int32", plan.results * plan.words)
    units = [(word, row) for word in plan.starts for row in range(0, plan.results, plan.block)]
    apart = [unit for unit in units if unit[0] % plan.width == 0]
    # The overlapping slice writes words of its neighbour again and waits for it.
    overlapping = [unit for unit in units if unit[0] % plan.width]
    streams = [_column(builder, column, plan) for column in range(min(columns, len(apart)))]
    whole = plan.rows // plan.chunk * plan.chunk

    def transfers(units: list[tuple[int, int]]) -> list[Step]:
        steps = []
        for fifos, (word, row) in zip(streams, units, strict=False):
            steps.append(Step(fifos.indices, indices, AccessPattern.linear(plan.block, row)))
            steps.append(Step(fifos.table, table, plan.slice(word, 0, whole)))
            if whole != plan.rows:
                steps.append(Step(fifos.table, table, plan.slice(word, plan.rows - plan.chunk, plan.chunk)))
            steps.append(Step(fifos.result, result, plan.slice(word, row, plan.block)))
        return steps

    for part in (apart, overlapping):
        starts = range(0, len(part), len(streams))
        pipeline(builder, (transfers(part[start : start + len(streams)]) for start in starts), IN_FLIGHT)
    return builder.build()


def _column(builder: Builder, column: int, plan: GetRowsPlan) -> _Streams:
    """Cores that see the same rows of the table and look for indices of their own."""
    table, indices, result, position = (
        ObjectType("int32", (size,)) for size in (plan.chunk * plan.width, plan.share, plan.share * plan.width, 1)
    )
    copied = plan.share * (ROW_CYCLES + VECTOR_CYCLES * -(-plan.width // 16))
    cycles = plan.share * INDEX_CYCLES + -(-copied // -(-plan.rows // plan.chunk))
    source = Source("get_rows", SOURCE)
    start = builder.function("nt_start", [position], source, 2)
    take = builder.function("nt_get_rows", [table, indices, result, position, *["int32"] * 4], source, cycles)
    cores = core_tiles(column, plan.cores)
    rows = builder.fifo(f"table_{column}", table, Tile(column, 0), cores)
    picks = scatter(builder, "indices", indices, cores)
    results = gather(builder, "result", result, cores, depth=1)

    def body(table: Any, indices: Any, result: Any, position: Any) -> None:
        own, rows = indices.acquire(1), result.acquire(1)
        start(position)
        for _ in range_(-(-plan.rows // plan.chunk)):
            take(table.acquire(1), own, rows, position, plan.width, plan.chunk, plan.share, plan.rows - plan.chunk)
            table.release(1)
        indices.release(1)
        result.release(1)

    for tile, own, collected in zip(cores, picks.cores, results.cores, strict=True):
        counter = builder.core_buffer(f"position_{tile.column}_{tile.row}", tile, position)
        builder.worker(tile, body, [rows, own, collected, counter])
    return _Streams(rows, picks.host, results.host)
