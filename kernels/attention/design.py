"""Design of attention: every core keeps a tile of queries and sums, while keys and values stream by.

The cores of a column compute consecutive tiles of one head. All of them receive the blocks of keys on one channel and
those of values on the other. The queries come before the keys, and each core copies its rows. The addends of a mask
come before the block of keys that they belong to. A round of a column is one tile per core, against all blocks. The
numbers of rounds and blocks are words. With a causal mask, cores skip the blocks that none of their rows attends to.

For few queries, the cores of a column compute one tile, and each uses every fourth block. Their sums go from core to
core, and the last one divides.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from npu_tensor.dataflow.array import STREAM_BYTES_PER_CYCLE, Arch
from npu_tensor.dataflow.checks.limits import QUEUE_DEPTH
from npu_tensor.dataflow.columns import Step, core_tiles, gather, multicast, pipeline
from npu_tensor.dataflow.design import (
    AccessPattern,
    Builder,
    Configuration,
    Design,
    HostBuffer,
    ObjectFifo,
    ObjectType,
    SequenceBuilder,
    Source,
    range_,
)
from npu_tensor.kernels.codegen.cycles import function
from npu_tensor.kernels.gemm.design import BLOCK_FLOATS, C_TYPES, MULTIPLY_BYTES
from npu_tensor.kernels.gemm.tiling import GemmProblem, clear_cycles, multiply_cycles
from npu_tensor.kernels.offer import Located

STRIP: Final = 16
"""Rows of a tile that are multiplied and stored at once."""
CORES: Final = 4
"""Cores of a column."""
ROUNDS, BLOCKS = 0, 1
"""Places of the numbers of rounds and of blocks among the words of a core; see nt/attention.hpp."""
NO_DIAGONAL: Final = 1 << 30
"""Row that attends to all keys."""
WEIGH_BYTES: Final = 3072
"""Estimated machine code of the functions that are not products, in bytes."""
CAP_BYTES, BRIEF_BYTES = 1536, 1024
"""Estimated machine code of a soft cap, and of what is then left out of the rest, in bytes."""


class AttentionTiles(NamedTuple):
    """Part of the binary: types and extents of a core's tile.

    Attributes:
        arch: Generation of the array.
        operand: Type in which products are computed: "bfloat16", or "bfp16" for block floats.
        result: Dtype of the result.
        features: Features of a row.
        rows: Queries of a core.
        keys: Keys of a block.
        masked: True if addends of a mask are streamed.
        capped: True if scores have a soft cap. Addends then come after the keys.
        splits: True if the cores of a column share the keys, and not the queries.
        columns: Columns of the array in use.
    """

    arch: Arch
    operand: str
    result: str
    features: int
    rows: int
    keys: int
    masked: bool
    capped: bool
    splits: bool
    columns: int

    @property
    def round_rows(self) -> int:
        """Queries of the cores of a column."""
        return self.rows if self.splits else CORES * self.rows

    @property
    def round_keys(self) -> int:
        """Keys of the blocks of the cores of a column."""
        return CORES * self.keys if self.splits else self.keys

    @property
    def least_queries(self) -> int:
        """Rows of a buffer of queries: an object has as many as a block of keys."""
        return max(self.round_rows, self.keys)

    @property
    def words(self) -> ObjectType:
        """Type of a core's runtime parameter, whole vectors of 16 bytes; see nt/attention.hpp."""
        return ObjectType("int32", (4 + 4 * (self.masked or self.capped) if self.splits else 12,))

    @property
    def mask_row(self) -> int:
        """Floats of a mask's row in an object, of which the first belong to the block."""
        return self.features // 2

    def product(self, transposed: bool) -> GemmProblem:
        """Return the product of a strip as the matrix products' cost model takes it."""
        return GemmProblem(self.arch, 1, self.operand, "float32", 0, 0, 0, transposed=transposed)


class AttentionProblem(NamedTuple):
    """Attention of one run.

    Attributes:
        tiles: Part of the binary.
        batch: Batch, key heads, and query heads of each of them.
        queries: Queries of a head.
        keys: Keys of a head.
        scale: Factor of the scores.
        is_causal: True if query i attends to keys 0 to i only.
        softcap: c, if not 0: a score becomes c * tanh(score / c).
        unit_columns: Columns among which the heads are divided. The others share the queries.
    """

    tiles: AttentionTiles
    batch: tuple[int, int, int]
    queries: int
    keys: int
    scale: float
    is_causal: bool
    softcap: float
    unit_columns: int

    @property
    def tile_columns(self) -> int:
        """Columns that share the queries of a head."""
        return self.tiles.columns // self.unit_columns

    @property
    def rounds(self) -> int:
        """Rounds of one head."""
        return -(-self.queries // self.tiles.round_rows)

    def units(self, column: int) -> range:
        """Return the heads of a column, counted over the batch."""
        batch, groups, heads = self.batch
        return range(column // self.tile_columns, batch * groups * heads, self.unit_columns)

    def starts(self, column: int) -> list[int]:
        """Return the first queries of a column's rounds of one head."""
        rows = self.tiles.round_rows
        last = max(self.queries - rows, 0)
        return [
            min(number * rows, last) for number in range(column % self.tile_columns, self.rounds, self.tile_columns)
        ]

    @property
    def blocks(self) -> int:
        """Blocks of keys of a round: with a causal mask, those that the last query attends to."""
        keys = min(self.keys, self.queries) if self.is_causal else self.keys
        return -(-keys // self.tiles.round_keys)

    @property
    def attended(self) -> float:
        """Part of the blocks that the last core of a column attends to, in the mean of all rounds."""
        if not self.is_causal:
            return 1.0
        rows = self.tiles.round_rows
        ends = (
            min(-(-min((number + 1) * rows, self.queries) // self.tiles.keys), self.blocks)
            for number in range(self.rounds)
        )
        return sum(ends) / (self.rounds * self.blocks)

    def repeats(self, rows: int) -> bool:
        """Return True if transfers of `rows` rows repeat fewer queries, so that no operand is padded.

        Equal results are written to one place. With masks, rows of a tile attend to different keys.
        """
        return self.queries < rows and not (self.is_causal or self.tiles.masked)

    def repeated(self, rows: int) -> tuple[tuple[int, int, int], int]:
        """Return the sizes of three loops over the queries that give `rows` rows, and the distance of the second.

        `rows` is a power of two, so the first half of the queries alternates with the last, which may overlap it.
        """
        if self.queries == 1:
            return (rows, 1, 1), 0
        half = 1 << (self.queries - 1).bit_length() - 1
        return (rows // (2 * half), 2, half), self.queries - half

    def block_start(self, block: int) -> int:
        """Return the first key of a block. The last one begins earlier if there are not enough keys."""
        return min(block * self.tiles.round_keys, max(self.keys - self.tiles.round_keys, 0))

    @property
    def runs(self) -> list[tuple[int, int]]:
        """First block and number of blocks of each transfer. Blocks with addends of a mask are apart."""
        last = self.blocks - 1
        if self.tiles.masked:
            return [(block, 1) for block in range(self.blocks)]
        if not last or self.block_start(last) == last * self.tiles.round_keys:
            return [(0, self.blocks)]
        return [(0, last), (last, 1)]

    @property
    def transfers(self) -> int:
        """Number of transfers of a run."""
        columns = range(self.tiles.columns)
        rounds = sum(len(self.units(column)) * len(self.starts(column)) for column in columns)
        return len(columns) + rounds * (2 + (2 + self.tiles.masked) * len(self.runs))


def _source(tiles: AttentionTiles) -> Source:
    r, s, t, rows, columns = tiles.product(True).blocks
    result = C_TYPES[tiles.result]
    shape = f"{r}, {s}, {t}, {rows}, {columns}, {tiles.rows}, {tiles.keys}, {tiles.features}"
    begin = "" if tiles.masked and not tiles.capped else "    nt::clear_sums<Tile::Scores>(scores);\n"
    text = f"""{BLOCK_FLOATS if tiles.operand == "bfp16" else ""}#include <aie_api/aie.hpp>

#include "nt/attention.hpp"

using Tile = nt::AttentionTile<{shape}, {str(tiles.splits).lower()}, {str(tiles.capped).lower()}>;

extern "C" void nt_attention_keep(const bfloat16 *object, bfloat16 *queries, int32 first, int32 to) {{
    nt::keep_queries<Tile>(object, queries, first, to);
}}

extern "C" void nt_attention_start(float *mixed, int32 *tops, float *totals, int32 *state,
                                   const int32 *words) {{
    nt::start_rows<Tile>(mixed, tops, totals, state, words);
}}

extern "C" void nt_attention_score(const bfloat16 *queries, const bfloat16 *keys, float *scores, int32 *state,
                                   const int32 *words) {{
    aie::set_rounding(aie::rounding_mode::conv_even);
{begin}    nt::score<Tile>(queries, keys, scores, state, words);
}}

extern "C" void nt_attention_weigh(float *scores, bfloat16 *weights, int32 *tops, float *totals, float *mixed,
                                   int32 *state, const int32 *words, int32 core) {{
    aie::set_rounding(aie::rounding_mode::conv_even);
    nt::weigh_block<Tile>(scores, weights, tops, totals, mixed, state, words, core);
}}

extern "C" void nt_attention_mix(const bfloat16 *weights, const bfloat16 *values, float *mixed,
                                 const int32 *state) {{
    nt::mix<Tile>(weights, values, mixed, state);
}}

extern "C" void nt_attention_finish(const float *mixed, const float *totals, {result} *result, int32 *state) {{
    aie::set_rounding(aie::rounding_mode::conv_even);
    nt::finish_rows<Tile>(mixed, totals, result, state);
}}
"""
    if tiles.splits:
        text += """
extern "C" void nt_attention_leave(const float *mixed, const int32 *tops, const float *totals, float *object) {
    nt::leave_sums<Tile>(mixed, tops, totals, object);
}

extern "C" void nt_attention_merge(const float *object, float *mixed, int32 *tops, float *totals) {
    aie::set_rounding(aie::rounding_mode::conv_even);
    nt::merge<Tile>(object, mixed, tops, totals);
}
"""
    if tiles.masked:
        text += """
extern "C" void nt_attention_mask(const bfloat16 *object, float *scores, const int32 *words, int32 first, int32 to) {
    aie::set_rounding(aie::rounding_mode::conv_even);
    nt::add_mask<Tile>(reinterpret_cast<const float *>(object), scores, words, first, to);
}
"""
    return Source("nt_attention", text)


def buffer_types(tiles: AttentionTiles) -> dict[str, ObjectType]:
    """Return the memory of a core besides the objects of fifos."""
    rows, keys, features = tiles.rows, tiles.keys, tiles.features
    lanes = (rows * tiles.product(True).blocks.t,)
    return {
        "queries": ObjectType("bfloat16", (rows * features,)),
        "mixed": ObjectType("float32", (rows * features,)),
        "scores": ObjectType("float32", (rows * keys,)),
        "weights": ObjectType("bfloat16", (rows * keys,)),
        "tops": ObjectType("int32", lanes),
        "totals": ObjectType("float32", lanes),
        "state": ObjectType("int32", (4,)),
    }


@lru_cache(maxsize=64)
def configuration(tiles: AttentionTiles) -> Configuration:
    """Return the configuration that serves all numbers of heads, queries and keys."""
    builder = Builder(f"attention_{tiles.operand}_{tiles.result}", tiles.arch, tiles.columns, 4 + tiles.masked)
    types, functions = buffer_types(tiles), _functions(builder, tiles)
    zeros = bytes(types["state"].nbytes)
    r, s, t, _, _ = tiles.product(True).blocks
    keys, features = tiles.keys, tiles.features
    block, strip = ObjectType("bfloat16", (keys * features,)), ObjectType(tiles.result, (STRIP * features,))
    orders = {
        "k": [(features // s, s), (keys, features), (s, 1)],
        "v": [(keys // s, s * features), (features // t, t), (s, features), (t, 1)],
        "out": [(STRIP // r, r * features), (r, t), (features // t, r * t), (t, 1)],
    }

    def body(k: Any, v: Any, before: Any, after: Any, out: Any, memory: dict[str, Any], words: Any, core: int) -> None:
        def own_rows(use: Any) -> None:
            """Use the core's rows of the objects with queries or addends, and let the others pass."""
            objects, first = -(-tiles.round_rows // keys), 0 if tiles.splits else core * tiles.rows
            for number in range(objects):
                block = k.acquire(1)
                if first < (number + 1) * keys and number * keys < first + tiles.rows:
                    use(block, max(first - number * keys, 0), max(number * keys - first, 0))
                k.release(1)

        def own_block(end: Any, use: Any) -> None:
            """Use the block of keys, or the core's block if the cores have different ones."""
            for number in range(CORES if tiles.splits else 1):
                block = end.acquire(1)
                if number == core or not tiles.splits:
                    use(block)
                end.release(1)

        def run(name: str, *arguments: Any) -> None:
            functions[name](*(memory[each] if isinstance(each, str) else each for each in arguments))

        def add_mask() -> None:
            if tiles.masked and tiles.splits:
                own_block(k, lambda block: run("mask", block, "scores", words, 0, 0))
            elif tiles.masked:
                own_rows(lambda block, first, to: run("mask", block, "scores", words, first, to))

        v.acquire(1)  # The words can be read from here on.
        v.release(1)
        for _ in range_(words[ROUNDS]):
            own_rows(lambda block, first, to: run("keep", block, "queries", first, to))
            run("start", "mixed", "tops", "totals", "state", words)
            for _ in range_(words[BLOCKS]):
                if not tiles.capped:
                    add_mask()
                own_block(k, lambda block: run("score", "queries", block, "scores", "state", words))
                if tiles.capped:
                    add_mask()
                run("weigh", *list(types)[2:6], "mixed", "state", words, core)
                own_block(v, lambda block: run("mix", "weights", block, "mixed", "state"))
            if before:
                run("merge", before.acquire(1), "mixed", "tops", "totals")
                before.release(1)
            if after:
                run("leave", "mixed", "tops", "totals", after.acquire(1))
                after.release(1)
            if out:
                for _ in range_(tiles.rows // STRIP):
                    run("finish", "mixed", "totals", out.acquire(1), "state")
                    out.release(1)

    for column in range(tiles.columns):
        cores = core_tiles(column, CORES)
        streams = [multicast(builder, name, block, cores, dims_to_stream=orders[name]).cores[0] for name in ("k", "v")]
        results: list[ObjectFifo | None] = [None] * CORES
        writers = cores[-1:] if tiles.splits else cores
        # Results are rare, and two objects of float32 would not fit a core with 64 queries.
        depth = 1 if tiles.result == "float32" else 2
        results[-len(writers) :] = gather(builder, "out", strip, writers, depth, orders["out"]).cores
        chain: list[ObjectFifo | None] = [None] * (CORES + 1)
        if tiles.splits:
            pairs = itertools.pairwise(cores)
            chain[1:CORES] = [builder.fifo(f"sums{column}_{a.row}", _sums_type(tiles), a, [b]) for a, b in pairs]
        for core, place in enumerate(cores):
            suffix = f"{column}_{core}"
            memory = {
                name: builder.core_buffer(f"{name}_{suffix}", place, type_, zeros if name == "state" else None)
                for name, type_ in types.items()
            }
            words = builder.parameter(f"words_{suffix}", place, *tiles.words.shape)
            ends = [*streams, chain[core], chain[core + 1], results[core]]
            builder.worker(place, body, [*ends, memory, words, core])
    return builder.configuration


def _sums_type(tiles: AttentionTiles) -> ObjectType:
    """Return the type of the object with the sums of a core: mixed rows, totals and tops."""
    return ObjectType("float32", (tiles.rows * (tiles.features + 2 * tiles.product(True).blocks.t),))


def _functions(builder: Builder, tiles: AttentionTiles) -> dict[str, Any]:
    types, code, arch = buffer_types(tiles), _source(tiles), tiles.arch
    block = ObjectType("bfloat16", (tiles.keys * tiles.features,))
    words = tiles.words
    result = ObjectType(tiles.result, (STRIP * tiles.features,))
    queries, mixed, scores, weights, tops, totals, state = types.values()
    rows, keys, features, strips = tiles.rows, tiles.keys, tiles.features, tiles.rows // STRIP
    of_keys, of_values = tiles.product(True), tiles.product(False)
    weighing = rows // 4 * function("attention_weigh", arch).loop(keys // 8)
    copied = min(rows, keys) * features * 2 // 32
    finishing = function("attention_finish", arch).loop(-(-features // 64))
    scoring = strips * multiply_cycles(of_keys, keys, features)
    if tiles.capped or not tiles.masked:
        scoring += clear_cycles(of_keys, rows, keys)
    if tiles.capped:
        scoring += function("attention_cap", arch).loop(rows * keys // 16)
    weighing_bytes = WEIGH_BYTES - BRIEF_BYTES * tiles.capped
    declared: dict[str, tuple[list[ObjectType | str], Any, int]] = {
        "keep": ([block, queries, "int32", "int32"], copied, 256),
        "start": ([mixed, tops, totals, state, words], clear_cycles(of_keys, rows, features), 512),
        "score": ([queries, block, scores, state, words], scoring, MULTIPLY_BYTES + CAP_BYTES * tiles.capped),
        "weigh": ([scores, weights, tops, totals, mixed, state, words, "int32"], weighing, weighing_bytes),
        "mix": ([weights, block, mixed, state], strips * multiply_cycles(of_values, features, keys), MULTIPLY_BYTES),
        "finish": ([mixed, totals, result, state], finishing, 1024),
    }
    if tiles.splits:
        sums, lanes = _sums_type(tiles), -(-features // 64)
        merging = strips * function("attention_merge", arch).loop(lanes)
        declared["leave"] = ([mixed, tops, totals, sums], clear_cycles(of_keys, 1, sums.elements), 256)
        declared["merge"] = ([sums, mixed, tops, totals], merging, 768)
    if tiles.masked:
        adding = -(-min(rows, keys) // STRIP) * function("attention_mask", arch).loop(keys // 16)
        declared["mask"] = ([block, scores, words, "int32", "int32"], adding, 1024)
    return {
        name: builder.function(f"nt_attention_{name}", arguments, code, int(cycles), program_bytes)
        for name, (arguments, cycles, program_bytes) in declared.items()
    }


class AttentionOperands(NamedTuple):
    """Locations of the operands over batch, key heads, query heads of each, and rows."""

    query: Located
    key: Located
    value: Located
    mask: Located | None
    result: Located


def design(problem: AttentionProblem, operands: AttentionOperands) -> Design:
    """Build the design. Its host buffers are queries, keys, values, the mask if any, and the result."""
    return _Sequence(problem, operands).build()


def _scales(factor: float) -> int:
    """Return a factor to powers of two as a word: two bfloat16 numbers whose sum it is."""
    scale = np.float32(factor * np.log2(np.e))
    high = ml_dtypes.bfloat16(scale)
    low = ml_dtypes.bfloat16(scale - np.float32(high))
    return int(np.array([low, high]).view(np.int32)[0])


class _Sequence:
    """Transfers of one run."""

    def __init__(self, problem: AttentionProblem, operands: AttentionOperands) -> None:
        self.problem, self.operands = problem, operands
        self.builder = SequenceBuilder(configuration(problem.tiles))
        self.buffers: dict[str, HostBuffer] = {}
        for name, matrices in operands._asdict().items():
            if matrices is not None:
                dtype = {"mask": "float32", "result": problem.tiles.result}.get(name, "bfloat16")
                self.buffers[name] = self.builder.host_buffer(name, dtype, matrices.elements)

    def build(self) -> Design:
        """Build the design."""
        problem = self.problem
        shared = self.builder.configuration
        for number, parameter in enumerate(shared.parameters):
            self.builder.write(parameter, self._words(*divmod(number, CORES)))
        pipeline(self.builder, self._groups(), 1 if problem.tiles.masked or len(problem.runs) > 1 else QUEUE_DEPTH // 2)
        # Blocks that no row of a core attends to pass by at the rate of the stream, and have no weights.
        stream = problem.tiles.keys * problem.tiles.features * 2 // STREAM_BYTES_PER_CYCLE // 2
        passing = {"nt_attention_score": stream, "nt_attention_weigh": 0, "nt_attention_mix": stream}
        cycles = {
            each.symbol: int(problem.attended * each.cycles + (1 - problem.attended) * passing[each.symbol])
            for each in shared.functions
            if each.symbol in passing
        }
        return self.builder.build(cycles)

    def _words(self, column: int, core: int) -> list[int]:
        problem, tiles = self.problem, self.problem.tiles
        starts, first, step, last = problem.starts(column), NO_DIAGONAL, 0, NO_DIAGONAL
        if problem.is_causal:
            first, last = (start + core * tiles.rows for start in (starts[0], starts[-1]))
            step = problem.tile_columns * tiles.round_rows
        factor = 2 * problem.softcap or problem.scale  # Capped scores are halves of hyperbolic tangents.
        inverse = int(np.array(1 / factor, np.float32).view(np.int32))
        cap = _scales(2 * problem.scale / problem.softcap) if problem.softcap else 0
        rounds = len(problem.units(column)) * len(starts)
        words = [rounds, problem.blocks, problem.keys, _scales(factor), inverse, cap, first, step, last, len(starts)]
        return [*words, 0, 0][: tiles.words.elements]

    def _groups(self) -> Iterator[list[Step]]:
        """Yield the transfers of one round after another, of all columns together."""
        for groups in itertools.zip_longest(*map(self._column, range(self.problem.tiles.columns)), fillvalue=()):
            yield [step for group in groups for step in group]

    def _column(self, column: int) -> Iterator[list[Step]]:
        """Yield the groups of transfers of a column."""
        problem, tiles = self.problem, self.problem.tiles
        k, v, out = (self.builder.configuration.fifo(f"{name}_{column}") for name in ("k", "v", "out"))
        width = tiles.features
        rows = tiles.least_queries
        # Cores that share the keys have addends of different columns.
        addends = (1, CORES if tiles.splits else 1, rows, tiles.mask_row)
        # An object that nothing reads comes first: then the words are there.
        group = [self._step(v, "value", 0, 0, (1, 1, tiles.keys, width))]
        for unit, start in itertools.product(problem.units(column), problem.starts(column)):
            sizes, apart = problem.repeated(rows) if problem.repeats(rows) else ((1, 1, rows), 0)
            group.append(self._step(k, "query", unit, start, (*sizes, width), (0, apart)))
            for block, count in problem.runs:
                row, size = problem.block_start(block), (1, count, tiles.round_keys, width)
                steps = [
                    self._step(fifo, name, unit, row, size, (0, tiles.round_keys), wait=tiles.masked)
                    for fifo, name in ((k, "key"), (v, "value"))
                ]
                if tiles.masked:
                    mask = self._step(k, "mask", unit, start, addends, column=row, wait=tiles.capped)
                    steps.insert(tiles.capped, mask)
                group += steps
                if tiles.masked and block + 1 < problem.blocks:
                    yield group
                    group = []
            if problem.repeats(tiles.round_rows):
                sizes, apart = problem.repeated(tiles.round_rows)
                group.append(self._step(out, "result", unit, start, (*sizes, width), (0, apart), wait=True))
            else:
                size = (tiles.rows // STRIP, 1 if tiles.splits else CORES, STRIP, width)
                group.append(self._step(out, "result", unit, start, size, (STRIP, tiles.rows), wait=True))
            yield group
            group = []

    def _step(
        self,
        fifo: ObjectFifo,
        name: str,
        unit: int,
        row: int,
        sizes: tuple[int, int, int, int],
        apart: tuple[int, int] = (0, 0),
        column: int = 0,
        wait: bool = False,
    ) -> Step:
        """Return the transfer of some rows of a head. apart: distances of the outer loops in rows."""
        matrices: Located = getattr(self.operands, name)
        _, groups, heads = self.problem.batch
        index = (unit // (groups * heads), unit // heads % groups, unit % heads)
        strides = (apart[0] * matrices.row, apart[1] * matrices.row, matrices.row, 1)
        if name == "mask":
            strides = (0, self.problem.tiles.keys, matrices.row, 1)
        pattern = AccessPattern(matrices.at(*index, row) + column, sizes, strides)
        return Step(fifo, self.buffers[name], pattern, wait)
