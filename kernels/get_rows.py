"""GGML's GET_ROWS: rows of a table at indices that are data.

Access patterns cannot depend on data. The table therefore streams through the array, and every core keeps the rows
selected by its indices. A row is cut into slices whose length in words is a power of two. A unit of work is one slice
of a block of result rows, which the cores of a column share. The table is read once for each block of rows that the
array holds. All objects have the same size for every table: one configuration serves all, and its words give the number
of rows per object.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

from npu_tensor.dataflow.array import Arch, Tile
from npu_tensor.dataflow.columns import Step, core_tiles, gather, pipeline, scatter
from npu_tensor.dataflow.cost import RUN_BYTES
from npu_tensor.dataflow.design import (
    AccessPattern,
    Builder,
    Configuration,
    Design,
    ObjectType,
    SequenceBuilder,
    Source,
    range_,
)
from npu_tensor.kernels.codegen.cycles import SCALAR_STEP, function
from npu_tensor.kernels.movement.copies import pattern
from npu_tensor.kernels.offer import HostOperand, Offer, Target
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import joined
from npu_tensor.task import Refusal, Task

TABLE_WORDS: Final = 2048
"""Words of one object of the table; a core holds two objects."""
RESULT_WORDS: Final = 8192
"""Words of the result rows that a core collects."""
OBJECT_WORDS: Final = 128
"""Words of a result object."""
MOST_INDICES: Final = 256
"""Indices per object; a core uses only the first ones."""
SHORTEST_SLICE: Final = 64
"""Words of a row that are read in one piece. Shorter reads of host memory are slow."""
MOST_WASTE: Final = 32
"""Upper bound on streamed table bytes per byte of the result."""
SMALL_TABLE: Final = 1 << 20
"""Streamed table bytes that are always allowed."""
MOST_UNITS: Final = 512
"""Upper bound on units; each takes four transfers."""
IN_FLIGHT: Final = 2
"""Units of a column in flight: 8 buffer descriptors of a shim tile."""

SOURCE: Final = f"""#include <nt/get_rows.hpp>

extern "C" void nt_start(int32 *position) {{ position[0] = position[1] = 0; }}

extern "C" void nt_get_rows(const int32 *table, const int32 *indices, int32 *rows, int32 *position, int32 words,
                            int32 chunk, int32 count, int32 last) {{
    nt::get_rows(table, indices, rows, position, words, chunk, count, last);
}}

extern "C" void nt_leave(const int32 *rows, int32 *result, int32 *position) {{
    nt::copy_words(rows + position[1], result, {OBJECT_WORDS});
    position[1] += {OBJECT_WORDS};
}}
"""


class GetRowsPlan(NamedTuple):
    """Extents of the table and division of the work.

    Attributes:
        rows: Rows of the table; at least the rows of an object.
        words: Words of 32 bits per row of the table.
        results: Result rows, including those that only fill up the last block.
        width: Words of a slice.
        share: Result rows of one core in one unit.
        cores: Cores of a column.
    """

    rows: int
    words: int
    results: int
    width: int
    share: int
    cores: int

    @property
    def chunk(self) -> int:
        """Table rows of an object."""
        return TABLE_WORDS // self.width

    @property
    def indices(self) -> int:
        """Indices in the host buffer. Objects of the last cores extend beyond their share."""
        return self.results - self.share + MOST_INDICES

    @property
    def block(self) -> int:
        """Result rows of a unit."""
        return self.cores * self.share

    @property
    def starts(self) -> list[int]:
        """First words of the slices. The last one overlaps if the row is not a multiple of the width."""
        return [min(start, self.words - self.width) for start in range(0, self.words, self.width)]

    @property
    def passes(self) -> int:
        """Number of times the whole table is streamed."""
        return self.results // self.block

    @property
    def streamed(self) -> int:
        """Total bytes of the table that are read."""
        return 4 * self.passes * len(self.starts) * self.width * self.rows

    def slice(self, word: int, row: int, rows: int) -> AccessPattern:
        """Return the access pattern for the words of a slice in some rows of the table."""
        words = pattern(row * self.words + word, [(rows, self.words), (self.width, 1)], 1)
        assert words is not None
        return words

    def taken(self, word: int, row: int) -> AccessPattern | None:
        """Return the pattern of a slice in a block of result rows, in the order in which the cores emit the words."""
        run = min(self.width, OBJECT_WORDS)
        rows = OBJECT_WORDS // run
        objects = [(self.share // rows, rows * self.words), (self.width // run, run)]
        cores = (self.cores, self.share * self.words)
        return pattern(row * self.words + word, [*objects, cores, (rows, self.words), (run, 1)], 1)


def claim(task: Task, target: Target) -> Offer | Refusal:
    """Return an offer for `take` along the first dimension, or the reason why there is none."""
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
    if pattern(0, [(plan.rows, words), (plan.width, 1)], 1) is None or plan.taken(0, 0) is None:
        return Refusal(f"get_rows: rows of {words} words are too far apart for a DMA")
    # No index selects the padding rows after the table.
    table = table._replace(padded=(plan.rows, table.padded[1]), padding=None)
    index = index._replace(padded=(plan.indices,))
    result = result._replace(padded=(plan.results, table.padded[1]))
    slices = f"passes over the table: {plan.passes}, in slices of {plan.width} words"
    reason = f"{slices}; result rows per core: {plan.share}"
    return Offer(
        "get_rows", reason, partial(_design, task.name, target.array.arch, target.columns, plan), (table, index, result)
    )


def _operands(task: Task) -> tuple[HostOperand, HostOperand, HostOperand] | str:
    """Return table, indices and result as (rows, elements), (n,) and (n, elements), or the reason for refusing."""
    table, indices = task.tensors
    dtype, layout = table.dtype, table.layout
    if dtype.is_quantized:
        return f"rows of {dtype.name} are not read"
    dim = task.attributes["dim"]
    if math.prod(layout.shape[:dim]) != 1:
        return f"indices along dimension {dim}, not the first"
    extent = layout.shape[dim]
    if not extent:
        return "the table has no rows"
    row = joined(Layout(layout.shape[dim + 1 :], layout.strides[dim + 1 :]))
    if row.strides != (1,):
        return "the elements of a row are not neighbours in memory"
    picks = joined(indices.layout)
    if len(picks.shape) > 1:
        return "the indices are not evenly spaced in memory"
    (elements,), (number,) = row.shape, picks.shape
    per_word = max(4 // dtype.itemsize, 1)
    padded = -(-elements // per_word) * per_word
    rows = Layout((extent, elements), (layout.strides[dim], 1), layout.offset)
    result = Layout((number, elements), (elements, 1), task.outputs[0].layout.offset)
    bounds = (task.attributes["name"], extent)
    return (
        HostOperand(0, False, rows, (extent, padded), dtype.name),
        HostOperand(1, False, picks, picks.shape, "int32", -1, bounds),
        HostOperand(0, True, result, (number, padded), dtype.name),
    )


def _plan(rows: int, words: int, results: int, target: Target) -> GetRowsPlan:
    """Choose slices that occupy all columns and let a core hold its part of all result rows, if possible."""
    cores = target.array.core_rows
    slices = max(target.columns, -(-words * -(-results // cores) // RESULT_WORDS))
    longest = min(max(words // slices, SHORTEST_SLICE), words, TABLE_WORDS)
    widths = [1 << bits for bits in range(longest.bit_length())]
    # The last slice overlaps its predecessor, and short runs of host memory cost more.
    width = min(reversed(widths), key=lambda width: -(-words // width) * (4 * width + RUN_BYTES))
    together = max(OBJECT_WORDS // width, 1)
    most = min(RESULT_WORDS // width, MOST_INDICES)
    passes = -(-results // (cores * most))
    share = -(-results // (cores * passes * together)) * together
    return GetRowsPlan(max(rows, TABLE_WORDS // width), words, passes * cores * share, width, share, cores)


def _design(name: str, arch: Arch, columns: int, plan: GetRowsPlan) -> Design:
    units = [(word, row) for word in plan.starts for row in range(0, plan.results, plan.block)]
    apart = [unit for unit in units if unit[0] % plan.width == 0]
    # The overlapping slice rewrites words of its neighbour and waits for it.
    overlapping = [unit for unit in units if unit[0] % plan.width]
    # No column may be idle. A power of two keeps the number of configurations small.
    columns = min(columns, 1 << len(apart).bit_length() - 1)
    configuration = _configuration(name, arch, columns, plan.cores)
    sequence = SequenceBuilder(configuration)
    table = sequence.host_buffer("table", "int32", plan.rows * plan.words)
    indices = sequence.host_buffer("indices", "int32", plan.indices)
    result = sequence.host_buffer("result", "int32", plan.results * plan.words)
    chunks = -(-plan.rows // plan.chunk)
    objects = plan.share * plan.width // OBJECT_WORDS
    for parameter in configuration.parameters:
        sequence.write(parameter, [plan.width, plan.chunk, plan.share, plan.rows - plan.chunk, chunks, objects])
    names = ("indices", "table", "result")
    streams = [[configuration.fifo(f"{fifo}_{column}") for fifo in names] for column in range(columns)]
    whole = plan.rows // plan.chunk * plan.chunk

    def transfers(units: list[tuple[int, int]]) -> list[Step]:
        steps = []
        for (picks, rows, results), (word, row) in zip(streams, units, strict=False):
            looked_for = pattern(row, [(plan.cores, plan.share), (MOST_INDICES, 1)], 1)
            taken = plan.taken(word, row)
            assert looked_for is not None
            assert taken is not None
            steps.append(Step(picks, indices, looked_for))
            steps.append(Step(rows, table, plan.slice(word, 0, whole)))
            if whole != plan.rows:
                steps.append(Step(rows, table, plan.slice(word, plan.rows - plan.chunk, plan.chunk)))
            steps.append(Step(results, result, taken))
        return steps

    for part in (apart, overlapping):
        starts = range(0, len(part), len(streams))
        pipeline(sequence, (transfers(part[start : start + len(streams)]) for start in starts), IN_FLIGHT)
    copied = plan.share * function("copy", arch).loop(-(-plan.width // 16))
    return sequence.build({"nt_get_rows": plan.share * SCALAR_STEP + -(-copied // chunks)})


@lru_cache
def _configuration(name: str, arch: Arch, columns: int, cores: int) -> Configuration:
    """Return the configuration that serves all tables."""
    builder = Builder(name, arch, columns, arguments=3)
    table, indices, rows, result, position = (
        ObjectType("int32", (size,)) for size in (TABLE_WORDS, MOST_INDICES, RESULT_WORDS, OBJECT_WORDS, 2)
    )
    source = Source("get_rows", SOURCE)
    start = builder.function("nt_start", [position], source, 2)
    take = builder.function("nt_get_rows", [table, indices, rows, position, *["int32"] * 4], source)
    leave = builder.function(
        "nt_leave", [rows, result, position], source, function("copy", arch).loop(OBJECT_WORDS // 16)
    )

    def body(table: Any, indices: Any, result: Any, rows: Any, position: Any, words: Any) -> None:
        own = indices.acquire(1)
        start(position)
        width, chunk, share, last, chunks, objects = (words[number] for number in range(6))
        for _ in range_(chunks):
            take(table.acquire(1), own, rows, position, width, chunk, share, last)
            table.release(1)
        for _ in range_(objects):
            leave(rows, result.acquire(1), position)
            result.release(1)
        indices.release(1)

    for column in range(columns):
        tiles = core_tiles(column, cores)
        # The cores of a column receive the same rows of the table and use indices of their own.
        stream = builder.fifo(f"table_{column}", table, Tile(column, 0), tiles)
        picks, results = scatter(builder, "indices", indices, tiles), gather(builder, "result", result, tiles)
        for tile, own, collected in zip(tiles, picks.cores, results.cores, strict=True):
            suffix = f"{tile.column}_{tile.row}"
            memory = builder.core_buffer(f"rows_{suffix}", tile, rows)
            place = builder.core_buffer(f"position_{suffix}", tile, position)
            words = builder.parameter(f"extents_{suffix}", tile, 6)
            builder.worker(tile, body, [stream, own, collected, memory, place, words])
    return builder.configuration
