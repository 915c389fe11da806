"""Design of a product with quantized weights: each shim channel feeds two cores with weight rows of their own.

Both cores receive all objects of their channel: first those with the rows of x, which they keep, then weights, of which
each core uses its part of every object. The number of objects is given by words, so that one configuration serves all
extents.

Cores also have the code of row ops (between_products.py). Then both rows of a channel are kept, no weights follow, and
results are computed as they leave.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from npu_tensor.dataflow.array import Arch, Tile
from npu_tensor.dataflow.checks.limits import QUEUE_DEPTH, WORD
from npu_tensor.dataflow.columns import Step, gather, pipeline
from npu_tensor.dataflow.design import (
    AccessPattern,
    Builder,
    Configuration,
    Design,
    ObjectFifo,
    ObjectType,
    SequenceBuilder,
    Source,
    range_,
)
from npu_tensor.dtypes import as_dtype
from npu_tensor.kernels.block_order import CORES, LANES, OBJECT_FEATURES, BlockFormat, BlockOrder, object_bytes
from npu_tensor.kernels.codegen.cycles import SCALAR_STEP, function
from npu_tensor.kernels.gemm.design import C_TYPES
from npu_tensor.kernels.movement.copies import pattern

MOST_FEATURES: Final = 16384
"""Elements of all rows of x that a core keeps: 32 KiB of its memory."""
MOST_TOKENS: Final = 32
"""Rows of x that a core keeps; the sums of 32 rows of weights for each take 4 KiB."""
PROGRAM_BYTES: Final = 4096
"""Estimated bytes of the machine code."""
ROW_BYTES: Final = 7168
"""Estimated bytes of the machine code of `nt_leave`, most of it row ops. Peano has not compiled it."""
CHANNELS: Final = 2
"""Channels of a shim tile."""
EXTENTS: Final = 5
"""Words that a core computes from its runtime parameter."""
BEGIN_CYCLES: Final = 16 * SCALAR_STEP
"""Cycles to compute them: some 16 dependent steps, among them products in place of divisions."""
MOST_UNITS: Final = (1 << 16) - 1
"""Upper bound on the units of a product, which have 16 bits of the word."""
IN_FLIGHT: Final = QUEUE_DEPTH // 2
"""Turns in flight: each begins with a transfer of x and one of weights in every channel."""


class ChannelPart(NamedTuple):
    """Consecutive units of a channel: the first one, and their number. A channel without a unit is idle."""

    first: int
    units: int


def divided(units: int, channels: int) -> list[ChannelPart]:
    """Divide units among channels."""
    bounds = [units * channel // channels for channel in range(channels + 1)]
    return [ChannelPart(first, end - first) for first, end in itertools.pairwise(bounds)]


class QuantizedProblem(NamedTuple):
    """Product of x (tokens, features), stored as `stored` like the result, with weights (rows, features)."""

    arch: Arch
    columns: int
    weights: str
    stored: str
    rows: int
    features: int
    tokens: int

    @property
    def order(self) -> BlockOrder:
        """Block order of the weights in their host buffer."""
        return BlockOrder(self.weights, self.rows, self.features)

    @property
    def parts(self) -> list[ChannelPart]:
        """Parts of the channels."""
        return divided(self.order.units, CHANNELS * self.columns)

    @property
    def share(self) -> int:
        """Rows of x that the cores keep at a time."""
        return min(self.tokens, MOST_TOKENS, MOST_FEATURES // self.features)

    @property
    def turns(self) -> int:
        """Number of times that all weights are streamed."""
        return -(-self.tokens // self.share)

    @property
    def starts(self) -> list[int]:
        """First rows of x of the turns. The last turn starts earlier if there are not enough rows."""
        return [min(turn * self.share, self.tokens - self.share) for turn in range(self.turns)]

    @property
    def x_objects(self) -> int:
        """Objects that bring the rows of x of one turn."""
        return -(-self.share * self.features * as_dtype(self.stored).itemsize // object_bytes(self.order.format))

    @property
    def x_object_elements(self) -> int:
        """Elements of x in an object."""
        return object_bytes(self.order.format) // as_dtype(self.stored).itemsize

    @property
    def x_elements(self) -> int:
        """Elements of the host buffer of x. The last object extends beyond the rows."""
        return self.starts[-1] * self.features + self.x_objects * self.x_object_elements

    @property
    def padded_rows(self) -> int:
        """Elements from one row of the result to the next in the host buffer."""
        return self.order.units * CORES * LANES

    @property
    def word(self) -> int:
        """Word of the cores; see `compute_extents` in nt/quantized.hpp."""
        return self.order.units << 15 | self.share - 1 << 10 | self.features // self.order.format.block - 1

    def extents(self, part: ChannelPart) -> list[int]:
        """Return the words that the cores of a channel compute; see `Extent` in nt/quantized.hpp."""
        blocks = self.features // self.order.format.block
        return [self.x_objects - 1, part.units, self.order.objects, self.share, blocks]

    def weights_of(self, part: ChannelPart) -> AccessPattern:
        """Return the access pattern for the weights of a part."""
        unit = self.order.objects * object_bytes(self.order.format) // WORD
        return AccessPattern.linear(part.units * unit, part.first * unit)

    def results_of(self, part: ChannelPart) -> AccessPattern | None:
        """Return the destinations of the first turn's results of a part, in the order in which the cores emit them.

        Returns None if they lie too far apart for the DMA.
        """
        width = self.words(CORES * LANES)
        loops = _loops(part.units, self.share, width, self.words(self.padded_rows))
        return loops and loops.moved(part.first * width)

    def words(self, elements: int) -> int:
        """Convert a number of elements of x or of the result to words."""
        return elements * as_dtype(self.stored).itemsize // WORD


@lru_cache(maxsize=64)
def _loops(units: int, rows: int, width: int, row: int) -> AccessPattern | None:
    return pattern(0, [(units, width), (rows, row), (width, 1)], 1)


def _source(format: BlockFormat, stored: str, columns: int) -> Source:
    element, nbytes, most = C_TYPES[stored], object_bytes(format), OBJECT_FEATURES // format.block
    own = nbytes // as_dtype(stored).itemsize
    text = f"""#include <nt/quantized.hpp>

using Format = nt::Blocks<{format.bits}, {format.block}, {str(format.has_minima).lower()}>;

extern "C" void nt_begin(const int32 *word, int32 *extents, int32 channel) {{
    nt::compute_extents<Format, {own}, {OBJECT_FEATURES}, {CHANNELS * columns}>(*word, extents, channel);
}}

extern "C" void nt_keep(const uint8 *object, bfloat16 *x, int32 *cursor, const int32 *extents) {{
    aie::set_rounding(aie::rounding_mode::conv_even);
    const auto *elements = reinterpret_cast<const {element} *>(object);
    const bool row = !extents[nt::UNIT_OBJECTS];
    const unsigned count = row ? (extents[nt::MORE_OBJECTS] + 1) * {own // format.block}
                               : extents[nt::TOKENS] * extents[nt::ROW_BLOCKS];
    nt::keep_blocks<Format, {nbytes}>(elements, x, x + {MOST_FEATURES}, cursor, count, row);
}}

extern "C" void nt_multiply(const uint8 *object, const bfloat16 *x, float *sums, int32 *cursor,
                            const int32 *extents, int32 part) {{
    aie::set_rounding(aie::rounding_mode::conv_even);
    nt::multiply_blocks<Format, {most}>(object + part * {nbytes // CORES}, x, x + {MOST_FEATURES}, sums, cursor,
                                        extents[nt::TOKENS], extents[nt::ROW_BLOCKS], extents[nt::UNIT_OBJECTS]);
}}

extern "C" void nt_leave(float *sums, const bfloat16 *x, {element} *result, int32 *cursor, const int32 *extents,
                         int32 channel, int32 part) {{
    aie::set_rounding(aie::rounding_mode::conv_even);
    const unsigned place = nt::advance(cursor, nt::lanes, extents[nt::TOKENS] * nt::lanes);
    if (extents[nt::UNIT_OBJECTS])
        nt::store(result, aie::load_v<nt::lanes>(sums + place));
    else
        nt::next_of_row<{CHANNELS * columns}>(x, (extents[nt::MORE_OBJECTS] + 1) * {own // 2},
                                              extents[nt::ROW_BLOCKS], channel, part, place, sums, result);
}}
"""
    return Source("quantized", text)


@lru_cache(maxsize=16)
def configuration(arch: Arch, columns: int, format: BlockFormat, stored: str) -> Configuration:
    """Return the configuration that serves products of all extents.

    All cores get the same word, and compute their extents from it; see `compute_extents` in nt/quantized.hpp.
    """
    builder = Builder(f"quantized_{format}_{stored}", arch, columns, arguments=3)
    object_ = ObjectType("uint8", (object_bytes(format),))
    kept = ObjectType("bfloat16", (MOST_FEATURES + 2 * MOST_FEATURES // format.block * format.has_minima,))
    sums, result = ObjectType("float32", (MOST_TOKENS * LANES,)), ObjectType(stored, (LANES,))
    cursor, extents = ObjectType("int32", (1,)), ObjectType("int32", (EXTENTS,))
    code = _source(format, stored, columns)
    begin = builder.function("nt_begin", [cursor, extents, "int32"], code, BEGIN_CYCLES, 512)
    keep = builder.function("nt_keep", [object_, kept, cursor, extents], code, program_bytes=1024)
    multiply = builder.function(
        "nt_multiply", [object_, kept, sums, cursor, extents, "int32"], code, program_bytes=PROGRAM_BYTES
    )
    leave = builder.function("nt_leave", [sums, kept, result, cursor, extents, "int32", "int32"], code, 4, ROW_BYTES)

    def body(
        objects: Any, results: Any, x: Any, sums: Any, counts: Any, token: Any, extents: Any, word: Any, *place: int
    ) -> None:
        more, units, steps, tokens, _ = (extents[number] for number in range(EXTENTS))
        # The word can be read from here on.
        first = objects.acquire(1)
        begin(word, extents, place[0])
        keep(first, x, counts, extents)
        objects.release(1)
        for _ in range_(more):
            keep(objects.acquire(1), x, counts, extents)
            objects.release(1)
        for _ in range_(units):
            for _ in range_(steps):
                multiply(objects.acquire(1), x, sums, counts, extents, place[1])
                objects.release(1)
            for _ in range_(tokens):
                leave(sums, x, results.acquire(1), token, extents, *place)
                results.release(1)

    for column in range(columns):
        for channel in range(CHANNELS):
            tiles = [Tile(column, 2 + channel * CORES + core) for core in range(CORES)]
            stream = builder.fifo(f"objects{channel}_{column}", object_, Tile(column, 0), tiles)
            results = gather(builder, f"result{channel}", result, tiles)
            for part, (tile, own) in enumerate(zip(tiles, results.cores, strict=True)):
                suffix = f"{tile.column}_{tile.row}"
                arguments = [
                    builder.core_buffer(f"x_{suffix}", tile, kept),
                    builder.core_buffer(f"sums_{suffix}", tile, sums),
                    builder.core_buffer(f"counts_{suffix}", tile, cursor, bytes(cursor.nbytes)),
                    builder.core_buffer(f"token_{suffix}", tile, cursor, bytes(cursor.nbytes)),
                    builder.core_buffer(f"extents_{suffix}", tile, extents),
                    builder.parameter(f"word_{suffix}", tile, 1),
                ]
                builder.worker(tile, body, [stream, own, *arguments, CHANNELS * column + channel, part])
    return builder.configuration


def start(
    sequence: SequenceBuilder, word: int, parts: Sequence[ChannelPart], extents: Callable[[ChannelPart], list[int]]
) -> list[tuple[ObjectFifo, ObjectFifo, ChannelPart]]:
    """Write the word of a run to all cores, and state the extents that they compute from it; zeros if they are idle.

    Returns:
        The stream of objects, the results and the part of each busy channel.
    """
    shared = sequence.configuration
    for parameter in shared.parameters:
        sequence.write(parameter, [word])
    buffers = [each for each in shared.core_buffers if each.name.startswith("extents")]
    for number, buffer in enumerate(buffers):
        part = parts[number // CORES]
        sequence.expect(buffer, extents(part) if part.units else [0] * EXTENTS)
    channels = itertools.product(range(shared.columns), range(CHANNELS))
    return [
        (shared.fifo(f"objects{channel}_{column}"), shared.fifo(f"result{channel}_{column}"), part)
        for (column, channel), part in zip(channels, parts, strict=True)
        if part.units
    ]


def design(problem: QuantizedProblem) -> Design:
    """Build the design. Its host buffers are x, the weights in their block order, and the result; as words."""
    shared = configuration(problem.arch, problem.columns, problem.order.format, problem.stored)
    sequence = SequenceBuilder(shared)
    x = sequence.host_buffer("x", "int32", problem.words(problem.x_elements))
    weights = sequence.host_buffer("weights", "int32", problem.order.nbytes // WORD)
    result = sequence.host_buffer("result", "int32", problem.words(problem.tokens * problem.padded_rows))
    streams = []
    for objects, results, part in start(sequence, problem.word, problem.parts, problem.extents):
        stored = problem.results_of(part)
        assert stored is not None
        streams.append((objects, results, problem.weights_of(part), stored))
    row = AccessPattern.linear(problem.x_objects * object_bytes(problem.order.format) // WORD)

    def turn(first: int) -> Iterator[Step]:
        rows = row.moved(first * problem.words(problem.features))
        for objects, results, blocks, stored in streams:
            yield Step(objects, x, rows)
            yield Step(objects, weights, blocks)
            yield Step(results, result, stored.moved(first * problem.words(problem.padded_rows)))

    pipeline(sequence, map(turn, problem.starts), IN_FLIGHT)
    names = (f"{name} {problem.order.format}" for name in ("quantized_keep", "quantized"))
    keep, product = (function(name, problem.arch) for name in names)
    block = problem.order.format.block
    x_blocks = min(problem.x_object_elements, problem.share * problem.features) // block
    multiply = OBJECT_FEATURES // block * problem.share * product.loop(1)
    return sequence.build({"nt_keep": keep.loop(x_blocks), "nt_multiply": multiply})
