"""Design of a convolution: the cores of a column receive boxes of the image and weights, and compute parts of a box.

Both streams go through the memtile to all cores of a column. The columns share the groups of outputs and the boxes. A
core fills a strip from each object of pixels, with zeros outside of the image, and adds the products of an object of
weights (nt/conv.hpp). After the last channels, it rounds and stores the sums. If another image is added, its pixels
follow those of the box, and the core combines them with its results. A box that would begin after the last one in the
image is moved, so that boxes overlap.

Vectors of the epilogue, and extents and places, precede the weights of the first object. Only the iterations of loops
are runtime parameters, because the host writes each of them to every core.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.dataflow.checks.limits import QUEUE_DEPTH, WORD
from npu_tensor.dataflow.columns import Step, core_tiles, gather, multicast, pipeline
from npu_tensor.dataflow.design import (
    AccessPattern,
    Builder,
    Configuration,
    Design,
    KernelFunction,
    ObjectType,
    SequenceBuilder,
    Source,
    range_,
)
from npu_tensor.kernels.conv.residual import Residual
from npu_tensor.kernels.conv.tiling import (
    CORES,
    HEAD_WORDS,
    ConvProblem,
    ConvTiling,
    beginning_cycles,
    combining_cycles,
    filling_cycles,
    finishing_cycles,
    multiplying_cycles,
    shares,
    starting_cycles,
)
from npu_tensor.kernels.gemm.design import C_TYPES, MULTIPLY_BYTES, SMALL_BYTES, store_source
from npu_tensor.kernels.gemm.epilogue import Epilogue
from npu_tensor.kernels.offer import Located

WORDS: Final = 2
"""Words of a core after the scalars of the epilogue: numbers of further objects of channels, and of further boxes."""
FILL_BYTES: Final = 1536
"""Estimated machine code of the functions that start a tile and fill a strip, in bytes."""


PLACE: Final = 6
"""Position of the core's number in its column, and of the column's number, among the words of a core's state."""


class Code(NamedTuple):
    """Code for the sums of a convolution, and for the sum with another image if there is one."""

    epilogue: Epilogue
    residual: Residual | None

    @property
    def scalars(self) -> int:
        """Number of words that both read."""
        return self.epilogue.scalars + (len(self.residual.scalars) if self.residual else 0)


def _source(problem: ConvProblem, tiling: ConvTiling, code: Code) -> Source:
    epilogue, residual = code
    product = problem.product
    rows, columns = tiling.tile(problem)
    extents = (rows * columns, problem.taps * tiling.channels, tiling.outputs)
    shape = (tiling.lane_rows, tiling.width, *problem.kernel, *problem.stride, *problem.dilation, *tiling.box(problem))
    operand, total = C_TYPES[product.stored], C_TYPES[product.word]
    head = problem.row_operands * tiling.outputs + HEAD_WORDS
    rows_text = "".join(f", {total} *__restrict row{i}" for i in range(problem.row_operands))
    spreads = "".join(
        f"    nt::spread_words<Tile>(words + {i * tiling.outputs}, reinterpret_cast<int32 *>(row{i}));\n"
        for i in range(problem.row_operands)
    )
    text = f"""{store_source(product, extents, rows * columns, epilogue)}
#include "nt/conv.hpp"

using Windows = nt::ConvTile<Tile, {", ".join(map(str, shape))}>;

extern "C" void nt_conv_begin(const {operand} *__restrict object, int32 *__restrict state{rows_text}) {{
    const auto *words = reinterpret_cast<const int32 *>(object);
{spreads}    nt::keep_head(words + {head - HEAD_WORDS}, state);
}}

extern "C" void nt_conv_start({total} *__restrict sums, int32 *__restrict state, int32 is_first) {{
    nt::start_tile<Windows>(sums, state, is_first);
}}

extern "C" void nt_conv_fill(const {operand} *__restrict box, const {operand} *__restrict zeros,
                             {operand} *__restrict strip, const int32 *__restrict state) {{
    nt::fill_strip<Windows>(box, zeros, strip, state);
}}

extern "C" void nt_conv_multiply(const {operand} *__restrict strip, const {operand} *__restrict object,
                                 {total} *__restrict sums) {{
    nt::multiply_windows<Windows>(strip, object + {head * WORD // product.sizes[0]}, sums);
}}
"""
    if residual:
        result = C_TYPES[problem.result]
        hoisted = "\n".join(f"    {line}" for line in residual.hoisted)
        body = "\n".join(f"        {line}" for line in residual.body)
        text += f"""
extern "C" void nt_conv_combine(const {operand} *__restrict box, const int32 *__restrict state, int32 first,
                                const int32 *__restrict words, {result} *__restrict results) {{
    aie::set_rounding(aie::rounding_mode::conv_even);
{hoisted}
    const auto combine = [&](const auto &image, {result} *results) {{
{body}
        nt::store(results, {residual.value});
    }};
    nt::combine_image<Windows>(box, results, state, first, combine);
}}
"""
    return Source("nt_conv", text)


@lru_cache(maxsize=64)
def configuration(problem: ConvProblem, tiling: ConvTiling, code: Code, columns: int, resident: bool) -> Configuration:
    """Return the configuration that serves images of all extents; the problem has none.

    resident: True if one object has all weights of a group of outputs, so that the cores keep them for all boxes.
    """
    name = f"conv_{'x'.join(map(str, problem.kernel))}_{problem.operand}_{problem.result}"
    has_residual, epilogue = code.residual is not None, code.epilogue
    builder = Builder(name, problem.arch, columns, 3 + problem.row_operands + has_residual)
    types = _types(problem, tiling, code.scalars)
    functions = _functions(builder, problem, tiling, code, types)
    rows = [f"row{i}" for i in range(problem.row_operands)]
    scalars = ["words"] * bool(epilogue.scalars)

    def body(image: Any, kernel: Any, out: Any, memory: dict[str, Any]) -> None:
        def run(name: str, *arguments: Any) -> None:
            functions[name](*(memory[each] if isinstance(each, str) else each for each in arguments))

        def add_channels(start: int | None = None) -> None:
            box, weights = image.acquire(1), kernel.acquire(1)
            if start:
                run("begin", weights, "state", *rows)
            if start is not None:
                run("start", "sums", "state", start)
            run("fill", box, "zeros", "strip", "state")
            image.release(1)
            run("multiply", "strip", weights, "sums")
            if not resident:
                kernel.release(1)

        def compute_box(is_first: bool) -> None:
            add_channels(int(is_first))
            for _ in range_(words[0]):
                add_channels()
            results = out.acquire(1)
            run("store", "sums", "cursor", *rows, *scalars, results)
            for first in range(0, tiling.residual_objects(problem) * problem.read, tiling.channels):
                box = image.acquire(1)
                if first < tiling.outputs:
                    run("combine", box, "state", first, "words", results)
                image.release(1)
            out.release(1)

        words = [memory["words"][code.scalars + number] for number in range(WORDS)]
        compute_box(True)  # The words can be read once its pixels are there.
        for _ in range_(words[1]):
            compute_box(False)
        if resident:
            kernel.release(1)

    for column in range(columns):
        cores = core_tiles(column, CORES)
        (tall, wide), read, piece = tiling.pixels(problem), problem.read, problem.piece
        # Pixels arrive row by row with all channels of an object, and are stored by pieces of channels.
        order = [(tall, wide * piece), (wide, piece), (read // piece, tall * wide * piece), (piece, 1)]
        image = multicast(builder, "x", types["pixels"], cores, types["read"], order)
        kernel = multicast(builder, "w", types["weights"], cores)
        # The memtile sends the results of a core row by row.
        r, _, t, _, _ = problem.product.blocks
        rows_of_results = [(r, t), (tiling.lane_rows * tiling.width * tiling.outputs // t, r * t), (t, 1)]
        results = gather(builder, "y", types["result"], cores, dims_to_stream=rows_of_results)
        for core, *ends in zip(cores, image.cores, kernel.cores, results.cores, strict=True):
            suffix = f"{column}_{core.row}"
            memory: dict[str, Any] = {"words": builder.parameter(f"words{suffix}", core, types["words"].elements)}
            for each in ("sums", "strip", *rows):
                memory[each] = builder.core_buffer(f"{each}{suffix}", core, types[each])
            for each in ("zeros", "cursor"):
                memory[each] = builder.core_buffer(f"{each}{suffix}", core, types[each], bytes(types[each].nbytes))
            state = np.zeros(types["state"].elements, np.int32)
            state[PLACE : PLACE + 2] = core.row - cores[0].row, column
            memory["state"] = builder.core_buffer(f"state{suffix}", core, types["state"], state.tobytes())
            builder.worker(core, body, [*ends, memory])
    return builder.configuration


def _types(problem: ConvProblem, tiling: ConvTiling, scalars: int) -> dict[str, ObjectType]:
    """Return the types of objects and of the memory of a core."""
    stored, word, (r, _, t, _, _) = problem.product.stored, problem.product.word, problem.product.blocks
    pixels, strip = math.prod(tiling.pixels(problem)), tiling.strip(problem)
    results = math.prod(tiling.tile(problem)) * tiling.outputs
    return {
        "read": ObjectType(stored, (pixels * problem.read,)),
        "pixels": ObjectType(stored, (pixels * tiling.channels,)),
        "weights": ObjectType(stored, (tiling.weight_bytes(problem) // problem.product.sizes[0],)),
        "result": ObjectType(problem.result, (results,)),
        "sums": ObjectType(word, (results,)),
        "strip": ObjectType(stored, (math.prod(strip) * r * tiling.channels,)),
        "zeros": ObjectType(stored, (-(-strip[1] // 4) * 4 * problem.piece,)),
        "state": ObjectType("int32", (16,)),
        "cursor": ObjectType("int32", (1,)),
        "words": ObjectType("int32", (scalars + WORDS,)),
        **{f"row{i}": ObjectType(word, (tiling.outputs // t * 16,)) for i in range(problem.row_operands)},
    }


def _functions(
    builder: Builder, problem: ConvProblem, tiling: ConvTiling, code: Code, types: dict[str, ObjectType]
) -> dict[str, KernelFunction]:
    """Declare the functions of a core with their predicted cycles."""
    source, rows = _source(problem, tiling, code), [f"row{i}" for i in range(problem.row_operands)]
    epilogue, residual = code
    ends = [*rows, *["words"] * bool(epilogue.scalars), "result"]
    declared: dict[str, tuple[list[str], Any, int]] = {
        "nt_conv_begin": (["weights", "state", *rows], beginning_cycles(problem, tiling), SMALL_BYTES),
        "nt_conv_start": (["sums", "state", "int32"], starting_cycles(problem, tiling), FILL_BYTES // 2),
        "nt_conv_fill": (["pixels", "zeros", "strip", "state"], filling_cycles(problem, tiling), FILL_BYTES),
        "nt_conv_multiply": (["strip", "weights", "sums"], multiplying_cycles(problem, tiling), MULTIPLY_BYTES),
        "nt_gemm_store": (["sums", "cursor", *ends], finishing_cycles(problem, tiling), epilogue.program_bytes),
    }
    if residual:
        names, size = ["pixels", "state", "int32", "words", "result"], residual.program_bytes + SMALL_BYTES
        declared["nt_conv_combine"] = (names, combining_cycles(problem, tiling), size)
    return {
        symbol.rpartition("_")[2]: builder.function(
            symbol, [types.get(each, each) for each in names], source, int(cycles), size
        )
        for symbol, (names, cycles, size) in declared.items()
    }


def design(problem: ConvProblem, tiling: ConvTiling, code: Code, image: Located, residual: Located | None) -> Design:
    """Build the design of one convolution.

    The host buffers are the image, the weights in blocks, row operands, the image that is added and the result.

    Args:
        problem: The convolution.
        tiling: Extents of a core's part.
        code: Code that is applied to the sums.
        image: Location of the images.
        residual: Location of the images that are added.
    """
    return _Sequence(problem, tiling, code, image, residual).build()


class _Sequence:
    """Transfers of one run.

    Attributes:
        places: Rows, columns and channels of the result in its host buffer.
        last: Row and column of the result where the last boxes begin.
        boxes: Image, first row and first column of each box before it is moved, in the order of the cores.
    """

    def __init__(
        self, problem: ConvProblem, tiling: ConvTiling, code: Code, image: Located, residual: Located | None
    ) -> None:
        self.problem, self.tiling, self.image, self.residual = problem, tiling, image, residual
        self.shares = shares(problem, tiling)
        self.resident = problem.channels == tiling.channels
        shared = configuration(problem.unshaped, tiling, code, math.prod(self.shares), self.resident)
        types = _types(problem, tiling, code.scalars)
        self.object, stored = types["weights"], problem.product.stored
        self.places = tiling.padded(problem)
        self.last = tiling.last(problem)
        self.groups, _ = tiling.work(problem)
        self.chunks = problem.channels // tiling.channels
        self.boxes = list(self._boxes())
        self.builder = d = SequenceBuilder(shared)
        self.x = d.host_buffer("image", stored, image.elements)
        self.w = d.host_buffer("weights", stored, self.groups * self.chunks * self.object.elements)
        word = problem.product.word
        self.rows = [d.host_buffer(f"row{i}", word, self.places[2]) for i in range(problem.row_operands)]
        self.z = d.host_buffer("residual", stored, residual.elements) if residual else None
        self.y = d.host_buffer("result", problem.result, problem.batch * math.prod(self.places))

    def build(self) -> Design:
        """Build the design."""
        for number, parameter in enumerate(self.builder.configuration.parameters):
            boxes = self.boxes[number // CORES % self.shares[1] :: self.shares[1]]
            self.builder.write(parameter, [self.chunks - 1, len(boxes) - 1])
        columns = [self._column(column) for column in range(math.prod(self.shares))]
        rounds = itertools.zip_longest(*columns, fillvalue=())
        pipeline(self.builder, ([step for group in each for step in group] for each in rounds), QUEUE_DEPTH)
        return self.builder.build()

    def _boxes(self) -> Iterator[tuple[int, int, int]]:
        rows, columns = self.tiling.box(self.problem)
        tall, wide = self.problem.places
        for image, column, row in itertools.product(
            range(self.problem.batch), range(0, wide, columns), range(0, tall, rows)
        ):
            yield image, row, column

    def _column(self, column: int) -> Iterator[list[Step]]:
        """Yield the transfers of a column, box by box."""
        x, w, y = (self.builder.configuration.fifo(f"{name}_{column}") for name in "xwy")
        group_columns, box_columns = self.shares
        first, own = divmod(column, box_columns)
        objects = self.chunks * self.object.elements
        rows = self.problem.row_operands * self.tiling.outputs
        gap = rows * WORD // self.problem.product.sizes[0]
        for group in range(first, self.groups, group_columns):
            output = min(group * self.tiling.outputs, self.places[2] - self.tiling.outputs)
            # The rows take the place of a gap before the first object.
            weights = [Step(w, vector, AccessPattern.linear(self.tiling.outputs, output)) for vector in self.rows]
            weights.append(Step(w, self.w, AccessPattern.linear(objects - gap, group * objects + gap)))
            for image, *place in self.boxes[own::box_columns]:
                row, column = (min(start, last) for start, last in zip(place, self.last, strict=True))
                results = self._stored(image, row, column, output)
                pixels = [Step(x, self.x, self._pixels(image, row, column, output))]
                if self.residual and self.z:
                    pixels.append(Step(x, self.z, self._added(self.residual, image, row, column, output)))
                yield [*weights, *pixels, *[Step(y, self.y, pattern) for pattern in results]]
                weights = [Step(w, self.w, AccessPattern.linear(objects, group * objects))] * (not self.resident)

    def _pixels(self, image: int, row: int, column: int, output: int) -> AccessPattern:
        """Return the box of the image for a box of the result; it is moved into the image where it begins outside.

        It has the channels of the group to which the first output belongs.
        """
        problem, stored = self.problem, self.image
        extents = self.tiling.pixels(problem)
        top, left = (
            max(min(start * stride - padding, extent - size), 0)
            for start, stride, padding, extent, size in zip(
                (row, column), problem.stride, problem.padding, problem.image, extents, strict=True
            )
        )
        offset = stored.at(image, top, left) + output * problem.groups // problem.outputs * problem.channels
        sizes = (problem.channels // problem.read, *extents, problem.read)
        _, next_row, pixel = stored.strides
        return AccessPattern(offset, sizes, (problem.read, next_row, pixel, 1))

    def _added(self, stored: Located, image: int, row: int, column: int, output: int) -> AccessPattern:
        """Return the pixels that are added to a box of the result, in objects as large as those of the image."""
        problem, objects = self.problem, self.tiling.residual_objects(self.problem)
        sizes = (objects, *self.tiling.pixels(problem), problem.read)
        _, next_row, pixel = stored.strides
        return AccessPattern(stored.at(image, row, column) + output, sizes, (problem.read, next_row, pixel, 1))

    def _stored(self, image: int, row: int, column: int, output: int) -> list[AccessPattern]:
        """Return the places of the cores' results, in one pattern if they are equally far apart."""
        tall, wide, channels = self.places
        rows, columns = self.tiling.tile(self.problem)
        starts = [
            ((image * tall + row + down) * wide + column + across) * channels + output
            for down, across in (self.tiling.own(self.problem, core) for core in range(CORES))
        ]
        steps = {b - a for a, b in itertools.pairwise(starts)}
        count = CORES if len(steps) == 1 else CORES // 2
        return [
            AccessPattern(
                starts[first],
                (count, rows, columns, self.tiling.outputs),
                (starts[first + 1] - starts[first], wide * channels, channels, 1),
            )
            for first in range(0, CORES, count)
        ]
