"""Tiling of a convolution: the extents of a core's part, and the choice with the least predicted time.

A core computes `width` columns and R * `lane_rows` rows of the result, with `outputs` channels; R is that of a block
product. The cores of a column lie in a box of results, `down` of them below each other. They receive the same pixels
and weights, `channels` channels at a time.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.dataflow.array import ARRAYS, STREAM_BYTES_PER_CYCLE, Arch
from npu_tensor.dataflow.checks.limits import LIMITS, STATIC_SIZE, WORD
from npu_tensor.dataflow.columns import divide
from npu_tensor.dataflow.cost import CALL_CYCLES, LOCK_CYCLES, RUN_BYTES
from npu_tensor.kernels.codegen.cycles import LOOP_CYCLES, SCALAR_COPY, LoopWork, function
from npu_tensor.kernels.gemm.tiling import (
    CORE_BYTES,
    PACK_SECONDS,
    TIE,
    GemmProblem,
    clear_cycles,
    multiply_cycles,
    spread_cycles,
    store_cycles,
)

CORES: Final = 4
"""Cores of a column."""
DEPTH: Final = 8
"""Channels of a block product."""
MOST_READ: Final = 64
"""Upper bound on the channels in an object of a memtile, for elements of two bytes and more; twice as many of int8.

Runs of host memory are then at least 128 bytes long.
"""
LEAST_OUTPUTS: Final = 16
MOST_OUTPUTS: Final = 64
"""Bounds on the outputs of a core, which are a power of two: those of a register block, and those of its memory."""
ROW_CYCLES: Final = 32
"""Estimated cycles of the scalar instructions that find the rows of the image for a row of the strip."""

HEAD_WORDS: Final = 16
"""Words before the weights of an object, after the row operands; see nt/conv.hpp. Weights begin at 64 bytes."""

Pair = tuple[int, int]
"""Numbers for rows and columns."""


class ConvProblem(NamedTuple):
    """Convolution of a batch of images with channels last.

    Attributes:
        arch: Generation of the array.
        columns: Upper bound on the columns used.
        operand: Dtype in which products are computed, or "bfp16".
        result: Dtype of the result.
        kernel: Extents of the kernel.
        stride: Distance between the windows of adjacent results.
        dilation: Distance between the pixels that adjacent elements of the kernel meet.
        read: Channels of an object of a memtile.
        most_outputs: Upper bound on the outputs of a core.
        row_operands: Vectors with one number per output that the epilogue reads.
        vector_cycles: Cycles of the epilogue for 16 results.
        residual_cycles: Cycles of the sum with another image for 16 results; 0 without one.
        channels: Channels of a group in the host buffer.
        outputs: Output channels in the host buffer.
        groups: Groups of channels, each with as many outputs.
        batch: Number of images.
        image: Extents of an image.
        places: Extents of a result.
        padding: Zeros before the first row and column.
    """

    arch: Arch
    columns: int
    operand: str
    result: str
    kernel: Pair
    stride: Pair
    dilation: Pair
    read: int
    most_outputs: int = MOST_OUTPUTS
    row_operands: int = 0
    vector_cycles: int = 4
    residual_cycles: int = 0
    channels: int = 0
    outputs: int = 0
    groups: int = 1
    batch: int = 0
    image: Pair = (0, 0)
    places: Pair = (0, 0)
    padding: Pair = (0, 0)

    @property
    def unshaped(self) -> ConvProblem:
        """Problem without its extents, on which no binary depends."""
        return self._replace(channels=0, outputs=0, groups=1, batch=0, image=(0, 0), places=(0, 0), padding=(0, 0))

    @property
    def taps(self) -> int:
        """Elements of the kernel."""
        return self.kernel[0] * self.kernel[1]

    @property
    def piece(self) -> int:
        """Channels of a pixel that lie together in a core: those of a block product, and at least 16 bytes."""
        return max(DEPTH, 16 // self.product.sizes[0])

    @property
    def most_read(self) -> int:
        """Upper bound on the channels in an object of a memtile."""
        return MOST_READ * self.piece // DEPTH

    @property
    def product(self) -> GemmProblem:
        """Product of a core as the matrix products' cost model takes it."""
        return GemmProblem(
            self.arch,
            1,
            self.operand,
            self.result,
            0,
            0,
            0,
            transposed=False,
            row_operands=self.row_operands,
            vector_cycles=self.vector_cycles,
        )

    def met(self, axis: int, results: Any) -> Any:
        """Return the extent of the image that adjacent results need."""
        return (results - 1) * self.stride[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1


class ConvTiling(NamedTuple):
    """Extents of a core's part; see the module. Each is a number, or an array during the search."""

    lane_rows: Any
    width: Any
    down: Any
    outputs: Any
    channels: Any

    def tile(self, problem: ConvProblem) -> tuple[Any, Any]:
        """Return the rows and columns of the result that a core computes."""
        return problem.product.blocks.r * self.lane_rows, self.width

    def box(self, problem: ConvProblem) -> tuple[Any, Any]:
        """Return the rows and columns of the result that the cores of a column compute."""
        rows, columns = self.tile(problem)
        return rows * self.down, columns * (CORES // self.down)

    def pixels(self, problem: ConvProblem) -> tuple[Any, Any]:
        """Return the rows and columns of the image that a box needs."""
        rows, columns = self.box(problem)
        return problem.met(0, rows), problem.met(1, columns)

    def strip(self, problem: ConvProblem) -> tuple[Any, Any]:
        """Return the rows and columns of a core's strip."""
        return problem.met(0, self.lane_rows), problem.met(1, self.width)

    def padded(self, problem: ConvProblem) -> tuple[int, int, int]:
        """Return the rows, columns and channels of the result in its host buffer: at least a tile."""
        (rows, columns), (tall, wide) = self.tile(problem), problem.places
        return max(tall, int(rows)), max(wide, int(columns)), max(problem.outputs, int(self.outputs))

    def last(self, problem: ConvProblem) -> Pair:
        """Return the row and column of the result where the last boxes begin."""
        (rows, columns), (tall, wide, _) = self.box(problem), self.padded(problem)
        return max(tall - rows, 0), max(wide - columns, 0)

    def own(self, problem: ConvProblem, core: int) -> Pair:
        """Return the first row and column of a core in a box; cores at its end are moved into the result."""
        across = CORES // self.down
        sizes = zip(divmod(core, across), self.tile(problem), self.padded(problem), strict=False)
        row, column = (min(number * size, max(extent - size, 0)) for number, size, extent in sizes)
        return row, column

    def head(self, problem: ConvProblem) -> list[int]:
        """Return the words of the head of an object of weights; see nt/conv.hpp."""
        last, extents = (upper << 16 | lower for upper, lower in (self.last(problem), problem.image))
        owns = [int.from_bytes((*self.own(problem, core), *problem.padding)) for core in range(CORES)]
        return [shares(problem, self)[1], last, extents, *owns]

    def residual_objects(self, problem: ConvProblem) -> Any:
        """Count the memtile's objects of another image that a box of results needs."""
        return -(-self.outputs // problem.read) * (problem.residual_cycles > 0)

    def weight_bytes(self, problem: ConvProblem) -> Any:
        """Return the bytes of an object of weights, with its row operands and head."""
        words = problem.row_operands * self.outputs + HEAD_WORDS
        return WORD * words + problem.taps * self.channels * self.outputs * problem.product.sizes[0]

    def work(self, problem: ConvProblem) -> tuple[Any, Any]:
        """Count the groups of outputs, and the boxes of all images."""
        rows, columns = self.box(problem)
        boxes = problem.batch * -(-problem.places[0] // rows) * -(-problem.places[1] // columns)
        return -(-problem.outputs // self.outputs), boxes


def shares(problem: ConvProblem, tiling: ConvTiling) -> Pair:
    """Divide the columns of the array among groups of outputs and boxes."""
    groups, boxes = map(int, divide(problem.columns, *tiling.work(problem)))
    return groups, boxes


def multiplying_cycles(problem: ConvProblem, tiling: ConvTiling) -> Any:
    """Predict the cycles of one call that adds the products of a strip."""
    blocks = tiling.lane_rows * tiling.width // problem.product.blocks.rows
    return blocks * multiply_cycles(problem.product, tiling.outputs, problem.taps * tiling.channels)


def _counted(name: str, problem: ConvProblem) -> LoopWork:
    """Return the work of a function that is counted for pieces of 8 and of 16 channels."""
    return function(name if problem.piece == DEPTH else f"{name} int8", problem.arch)


def filling_cycles(problem: ConvProblem, tiling: ConvTiling) -> Any:
    """Predict the cycles of one call that fills a strip."""
    work = _counted("conv_fill", problem)
    rows, columns = tiling.strip(problem)
    row = work.straight + (columns - 1) * work.round + LOOP_CYCLES + ROW_CYCLES
    # A column has R pieces; the count is for 4.
    return tiling.channels // problem.piece * rows * row * (problem.product.blocks.r // 4)


def finishing_cycles(problem: ConvProblem, tiling: ConvTiling) -> Any:
    """Predict the cycles of one call that stores the results."""
    rows, columns = tiling.tile(problem)
    return store_cycles(problem.product, rows * columns, tiling.outputs)


def combining_cycles(problem: ConvProblem, tiling: ConvTiling) -> Any:
    """Predict the cycles of one call that combines an object of another image with the results."""
    work, r = _counted("conv_combine", problem), problem.product.blocks.r
    results = tiling.lane_rows * tiling.width * np.minimum(tiling.channels, tiling.outputs) * r
    loops = tiling.lane_rows * np.minimum(tiling.channels, tiling.outputs) // problem.piece
    # The count is for 4 columns of 4 rows, with one piece of channels, that are only copied.
    each = work.round / problem.piece + problem.residual_cycles
    return results // 16 * each + loops * (work.latency + LOOP_CYCLES)


def beginning_cycles(problem: ConvProblem, tiling: ConvTiling) -> Any:
    """Predict the cycles of one call that keeps the row operands and the head of an object of weights."""
    return problem.row_operands * spread_cycles(tiling.outputs) + HEAD_WORDS * SCALAR_COPY


def starting_cycles(problem: ConvProblem, tiling: ConvTiling) -> Any:
    """Predict the cycles of one call that starts a tile."""
    rows, columns = tiling.tile(problem)
    return clear_cycles(problem.product, rows * columns, tiling.outputs) + ROW_CYCLES


MODELS: Final = ((112, 16), (56, 64), (28, 128), (14, 256), (7, 512))
"""Extents of images, and channels, whose best tiles serve all others. The last four are those of ResNet."""


def ranked(problem: ConvProblem) -> list[ConvTiling]:
    """Return the predefined tiles, sorted by predicted time, fastest first."""
    return sorted(_tilings(problem.unshaped), key=lambda tiling: float(_seconds(problem, tiling)))


@lru_cache(maxsize=64)
def _tilings(problem: ConvProblem) -> tuple[ConvTiling, ...]:
    """Return the best tiles for images of some extents."""
    grid = np.meshgrid(
        (1, 2, 3, 4),
        (2, 4, 8, 12, 16, 28),
        (1, 2, 4),
        (LEAST_OUTPUTS, 32, MOST_OUTPUTS),
        (problem.piece, 2 * problem.piece, 4 * problem.piece, problem.most_read),
        indexing="ij",
    )
    tiles = ConvTiling(*(axis.ravel() for axis in grid))
    fits = np.flatnonzero(_fits(problem, tiles))
    tiles = ConvTiling(*(axis[fits] for axis in tiles))
    if not len(fits):
        return ()
    chosen = []
    for extent, channels in MODELS:
        model = problem._replace(
            channels=max(channels // problem.read, 1) * problem.read
            if problem.read == problem.most_read
            else problem.read,
            outputs=channels,
            batch=1,
            image=(extent * problem.stride[0], extent * problem.stride[1]),
            places=(extent, extent),
        )
        best = np.argmin(_seconds(model, tiles))
        chosen.append(ConvTiling(*(int(axis[best]) for axis in tiles)))
    return tuple(dict.fromkeys(chosen))


def _fits(problem: ConvProblem, tiles: ConvTiling) -> Any:
    """Return a mask of the tiles that fit the memories and the orders of the DMAs."""
    product = problem.product
    size, result_size = product.sizes
    r, _, t, rows, columns = product.blocks
    (tall, wide), (strip_rows, strip_columns) = tiles.pixels(problem), tiles.strip(problem)
    results = r * tiles.lane_rows * tiles.width * tiles.outputs
    weights = tiles.weight_bytes(problem)
    core = 2 * (tall * wide * tiles.channels * size + weights) + 4 * results + 2 * results * result_size
    core += (strip_rows * r * tiles.channels + problem.piece) * strip_columns * size
    core += problem.row_operands * tiles.outputs // t * 64
    memtile = 2 * (tall * wide * problem.read * size + weights) + 2 * CORES * results * result_size
    fits: Any = (core <= CORE_BYTES) & (memtile <= LIMITS["memtile"].memory)
    fits &= (
        (tiles.outputs <= problem.most_outputs)
        & (tiles.channels <= problem.read)
        & (tiles.width % rows == 0)
        & (tiles.outputs % (columns * t) == 0)
    )
    return fits & (tiles.lane_rows * tiles.width * tiles.outputs // t <= STATIC_SIZE) & (wide <= STATIC_SIZE)


def _seconds(problem: ConvProblem, tiles: ConvTiling) -> Any:
    """Predict the time as dataflow.cost does for the designs, with a small weight on non-limiting resources."""
    array, product = ARRAYS[problem.arch], problem.product
    size, result_size = product.sizes
    groups, boxes = tiles.work(problem)
    group_columns, box_columns = divide(problem.columns, groups, boxes)
    own_groups, own_boxes = -(-groups // group_columns), -(-boxes // box_columns)
    chunks, locks = -(-problem.channels // tiles.channels), 2 * LOCK_CYCLES
    cycles = multiplying_cycles(problem, tiles) + filling_cycles(problem, tiles)
    cycles = chunks * (cycles + 2 * (CALL_CYCLES + locks)) + finishing_cycles(problem, tiles) + CALL_CYCLES + locks
    cycles += starting_cycles(problem, tiles) + CALL_CYCLES
    objects = tiles.residual_objects(problem)
    cycles += objects * (problem.read // tiles.channels) * locks
    calls = np.maximum(tiles.outputs // tiles.channels, 1) * (problem.residual_cycles > 0)
    cycles += calls * (combining_cycles(problem, tiles) + CALL_CYCLES)
    cycles = own_boxes * cycles + CALL_CYCLES + beginning_cycles(problem, tiles)
    (tall, wide), (rows, columns) = tiles.pixels(problem), tiles.box(problem)
    image = tall * wide * (problem.channels + objects * problem.read) * size
    # Cores keep weights that come in one object.
    reads = np.where(chunks == 1, 1, own_boxes)
    weights = chunks * reads * tiles.weight_bytes(problem)
    results = rows * columns * tiles.outputs * result_size
    stream = np.maximum(np.maximum(own_boxes * image, weights), own_boxes * results) / STREAM_BYTES_PER_CYCLE
    # Rows of a box are contiguous if an object has all channels.
    runs = tall * (1 if problem.channels == problem.read else wide * (problem.channels // problem.read))
    runs += rows * columns + objects * tall * wide
    ddr = groups * (boxes * (image + results + runs * RUN_BYTES) + box_columns * weights)
    seconds = (own_groups * cycles / array.clock_hz, own_groups * stream / array.clock_hz)
    transfers = groups * (box_columns * problem.row_operands + boxes * (3 + (problem.residual_cycles > 0)))
    parts = (*seconds, ddr / array.ddr_bytes_per_second, transfers * array.queue_cycles / array.clock_hz)
    padded = zip(tiles.tile(problem), problem.places, strict=True)
    unpacked = (problem.outputs < tiles.outputs) | np.logical_or.reduce([size > extent for size, extent in padded])
    unpacking = np.where(unpacked, math.prod(problem.places) * problem.batch * problem.outputs * PACK_SECONDS, 0.0)
    return np.maximum.reduce(parts) + TIE * sum(parts) + unpacking
