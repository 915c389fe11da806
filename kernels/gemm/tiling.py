"""Tiling of a matrix product: block shapes of the core, and the choice of tiles with the least predicted time.

The size of a tile is part of the binary; M, N, K and the batch are not. Few sizes therefore serve all products.

An array of `rows` x `columns` cores computes a tile of rows*m x columns*n sums, each core m x n. Every core holds a
block of B, k x n, while slices of its rows of A, block_rows*r x k, pass by. An object of a memtile has several `steps`
in k, so that the rows read from host memory are longer than those in a core.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.dataflow.array import ARRAYS, STREAM_BYTES_PER_CYCLE, Arch, Blocks
from npu_tensor.dataflow.checks.limits import ALIGNMENT, CORE_RESERVE, ITERATIONS, LIMITS, STATIC_SIZE, WORD
from npu_tensor.dataflow.core_memory import BANK_BYTES
from npu_tensor.dataflow.cost import CALL_CYCLES, LOCK_CYCLES, RUN_BYTES
from npu_tensor.dataflow.design import DEFAULT_STACK
from npu_tensor.kernels.block_floats import BLOCK, BLOCK_BYTES
from npu_tensor.kernels.offer import Word

CONSTANTS: Final = 512
"""Bytes for the .data and .rodata of a core: the series of an epilogue's functions, unless they are in the code.

They must fit one gap between buffers; otherwise the linker reports an error (AIETargetLdScript.cpp).
"""

CORE_BYTES: Final = LIMITS["core"].memory - CORE_RESERVE - DEFAULT_STACK - CONSTANTS

LONGEST_K: Final = 256
STEPS: Final = (1, 2, 3, 4, 6, 8)
TIE: Final = 0.01
"""Search space of the tiling, and weight of the resources that are not the bottleneck, which breaks ties."""

WHOLE_WORDS: Final = 4
"""Number of elements of which result rows are a multiple, so that each row begins at a word for every dtype."""

PACK_SECONDS: Final = 1e-9
"""Cost per element, in seconds, of padding A to whole tiles of K or of unpacking a result from whole tiles on the host.

Equal to the cost of other conversions (priors.json).
"""

BLOCK_CYCLES: Final = 11
"""Cycles around one register block: start and end of its software pipeline.

Fitted to two kernels of arXiv 2512.13282 that hold int8 sums, with the block's loads and stores in parallel to its
products: 112x112x112 on aie2, 8 products of 4x8x8, 14 steps: 112 + 4 + 8 + 11 cycles, published 212.5 of 256 products a
cycle; 144x72x144 on aie2p, 4 products of 8x8x8, 9 steps: 36 + 2 + 4 + 11 cycles, published 343 of 512. It also gives
the 3.12 TFLOPS of 96x56x96 bfloat16 on aie2: 112 + 8 + 16 + 11 cycles for 16 products of 4x8x4 and 7 steps.
"""

PART_PRODUCTS: Final = 6
SPLIT_CYCLES: Final = 5
"""Emulation cost of float32, see include/nt/gemm.hpp.

Each block product takes several bfloat16 block products. Splitting 16 numbers into three bfloat16 numbers each takes
some cycles.
"""


LANES: Final = "bfloat16_lanes"
"""Operand of bfloat16 numbers that are multiplied lane by lane; see nt::multiply_lanes."""

WIDE: Final = 64
"""Columns of a register block of lanes. With half as many, moves take longer than products: 18 cycles for 16."""


class OwnProduct(NamedTuple):
    """C++ function of a user that multiplies a slice of A by a block of B.

    Attributes:
        name: Name of the function; it takes A, B and the sums of the slice's rows, and adds to the sums.
        text: C++ that defines it.
        cycles: Predicted cycles of a call.
    """

    name: str
    text: str
    cycles: int


class GemmProblem(NamedTuple):
    """Batch of products M x K by K x N.

    Attributes:
        arch: Generation of the array.
        columns: Upper bound on the columns used.
        operand: Dtype in which A and B are multiplied on the array, or LANES, or "bfp16" for bfloat16 numbers of which
            8 along K share an exponent during the multiplication.
        result: Dtype of C.
        m: Rows of A.
        n: Columns of B.
        k: Columns of A.
        batch: Number of products.
        transposed: True if B is stored as N x K.
        row_operands: Number of vectors of N words that the epilogue reads.
        column_operands: Number of vectors of M words that the epilogue reads.
        vector_cycles: Cycles of the epilogue for 16 results.
        packed: True if the host stores B as blocks of bfp16, in the order in which the cores read them.
        product: Function that multiplies in place of `nt::multiply`.
    """

    arch: Arch
    columns: int
    operand: str
    result: str
    m: int
    n: int
    k: int
    batch: int = 1
    transposed: bool = True
    row_operands: int = 0
    column_operands: int = 0
    vector_cycles: int = 4
    packed: bool = False
    product: OwnProduct | None = None

    @property
    def unshaped(self) -> GemmProblem:
        """Problem without its extents, on which no binary depends."""
        return self._replace(m=0, n=0, k=0, batch=0)

    @property
    def blocks(self) -> Blocks:
        """Block shape of the operands."""
        return ARRAYS[self.arch].blocks[self.operand]

    @property
    def stored(self) -> str:
        """Dtype of A and B in memory."""
        return "bfloat16" if self.operand in ("bfp16", LANES) else self.operand

    @property
    def word(self) -> Word:
        """Dtype of the sums."""
        return SUMS[self.operand]

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes per element of an operand and of a result."""
        return _SIZES[self.operand], _SIZES[self.result]

    def b_nbytes(self, elements: Any) -> Any:
        """Return the bytes of `elements` of B, a multiple of 8 for blocks."""
        return elements // BLOCK * BLOCK_BYTES if self.packed else elements * self.sizes[0]


SUMS: Final[dict[str, Word]] = {
    "bfloat16": "float32",
    "bfp16": "float32",
    LANES: "float32",
    "float32": "float32",
    "int8": "int32",
    "int16": "int32",
}
"""Dtype of the sums, by dtype of the operands on the array."""

PACKED_MACS: Final = 512
"""Multiply-accumulates per cycle with blocks of bfp16. Those of A come from bfloat16 that the loads widen."""

_SIZES: Final = {"int8": 1, "uint8": 1, "int16": 2, "bfloat16": 2, "bfp16": 2, LANES: 2, "int32": 4, "float32": 4}


class Tiling(NamedTuple):
    """Cores used, extents of one core's tile, and steps in k per memtile object.

    Each is a number, or during the search an array with an entry for every candidate.
    """

    rows: Any
    columns: Any
    m: Any
    n: Any
    k: Any
    steps: Any

    @property
    def shared(self) -> Any:
        """Rows of cores that one memtile serves with A: 1 if there are at least as many columns as rows."""
        return _where(self.columns >= self.rows, 1, _where(self.columns >= 2, 2, self.rows))

    @property
    def memtile_k(self) -> Any:
        """Elements of K in an object of a memtile."""
        return self.k * self.steps

    @property
    def a_run(self) -> Any:
        """Elements of a row of A that the shim reads at once."""
        return _where(self.shared == 1, self.memtile_k, self.k)

    def store_rows(self, blocks: Blocks) -> Any:
        """Return the rows of a core's result in one object: a whole register block if memtiles share rows of A."""
        return _where(self.shared == 1, blocks.r, blocks.r * blocks.rows)

    def padded(self, problem: GemmProblem) -> tuple[Any, Any, Any]:
        """Return the extents M, N, K of the host buffers: at least one tile of M and N, and whole tiles of K.

        An incomplete last tile of M or N starts earlier instead and overlaps its predecessor. The overlap is computed
        twice.
        """
        return (
            np.maximum(problem.m, self.rows * self.m),
            np.maximum(_up(problem.n, WHOLE_WORDS), self.columns * self.n),
            _up(problem.k, self.memtile_k),
        )

    def tiles(self, problem: GemmProblem) -> Any:
        """Count the tiles that the array computes."""
        return problem.batch * -(-problem.m // (self.rows * self.m)) * -(-problem.n // (self.columns * self.n))

    def lefts(self, problem: GemmProblem) -> list[int]:
        """Return the first column of each tile that the array computes."""
        width = self.columns * self.n
        last = int(self.padded(problem)[1]) - width
        return [min(left, last) for left in range(0, problem.n, width)]

    def row_elements(self, problem: GemmProblem) -> int:
        """Return the words of a row operand's host buffer. Every object of B's fifo extends beyond its first words."""
        return int(self.padded(problem)[1] + problem.b_nbytes(self.memtile_k * self.n) // 4)

    def column_elements(self, problem: GemmProblem) -> int:
        """Return the words of a column operand's host buffer.

        Every row of A in an object extends beyond its first word.
        """
        return int(self.padded(problem)[0] + self.memtile_k * problem.sizes[0] // 4)

    def transfers(self, problem: GemmProblem) -> int:
        """Count the transfers that the host starts in a run."""
        a, b = 1 + problem.column_operands, 1 + problem.row_operands
        return int(self.tiles(problem) * (self.rows // self.shared * a + self.columns * (b + 1)))


def _where(condition: Any, one: Any, other: Any) -> Any:
    """Select between two values, for numbers or arrays."""
    chosen = np.where(condition, one, other)
    return chosen if chosen.ndim else int(chosen)


def _up(value: Any, step: Any) -> Any:
    return -(-value // step) * step


def multiply_cycles(problem: GemmProblem, n: Any, k: Any, conflicts: Any = 1.0) -> Any:
    """Predict the cycles of one call of the product: a slice of A, rows*r x k, by k x n.

    Accepts numbers or arrays, like all functions below. The sums of a register block are stored while those of the next
    one are loaded. A and B are loaded in the same cycle. `conflicts` is the share of these pairs of loads that stall
    the core for a cycle, because both are in one bank of its memory.
    """
    r, s, t, rows, columns = problem.blocks
    size, _ = problem.sizes
    array = ARRAYS[problem.arch]
    products: Any
    if problem.operand == "float32":
        products = rows * columns * (PART_PRODUCTS * array.block_cycles + r * t / 16)
        products += (rows * r + columns * t) * s / 16 * SPLIT_CYCLES
    else:
        macs = PACKED_MACS if problem.packed else array.macs_per_cycle[problem.operand]
        products = rows * columns * r * s * t / macs
    loads = pairs = (rows * r + columns * t) * s * size / array.load_bytes
    if problem.packed:  # Only one of the two load units widens A, and the other one loads B.
        loads = 2 * rows * r * s * size / array.load_bytes
        pairs = 2 * problem.b_nbytes(columns * t * s) / array.load_bytes
    sums = rows * columns * r * t * 4
    around = sums / min(array.load_bytes, array.store_bytes) + BLOCK_CYCLES
    if problem.operand == LANES:  # Two register blocks. Each loads B, and its sums after the last ones are stored.
        products *= np.where(n % WIDE, 9 / 8, 1)
        pairs = 4 * columns * t * s * size / array.load_bytes
        around += sums / array.load_bytes + BLOCK_CYCLES
    return n // (columns * t) * (k // s * (np.maximum(products, loads) + conflicts * pairs) + around)


def product_cycles(problem: GemmProblem, tiles: Tiling) -> Any:
    """Predict the cycles of one call of the product, with the conflicts between the buffers of a core."""
    return multiply_cycles(problem, tiles.n, tiles.k, bank_conflicts(problem, tiles))


def sums_address(problem: GemmProblem, tiles: Tiling) -> Any:
    """Return the address of the sums in a core's memory: after both buffers of B, which are the first ones."""
    return DEFAULT_STACK + 2 * _up(problem.b_nbytes(tiles.k * tiles.n), ALIGNMENT)


def separates(problem: GemmProblem, tiles: Tiling) -> Any:
    """Return True if the sums separate B from A: B has the largest objects, which the allocator places first."""
    rows, columns = _vectors(problem, tiles)
    a, b, c = _objects(problem, tiles)
    return b > np.maximum.reduce(np.broadcast_arrays(a, c, rows, columns))


def _objects(problem: GemmProblem, tiles: Tiling) -> tuple[Any, Any, Any]:
    """Return the bytes of an object of A, B and C in a core."""
    size, result_size = problem.sizes
    a = problem.blocks.rows * problem.blocks.r * tiles.k * size
    return a, problem.b_nbytes(tiles.k * tiles.n), tiles.store_rows(problem.blocks) * tiles.n * result_size


def _vectors(problem: GemmProblem, tiles: Tiling) -> tuple[Any, Any]:
    """Return the bytes that all row operands, and all column operands, take in a core."""
    t = problem.blocks.t
    return 4 * problem.row_operands * tiles.n // t * 16, 4 * problem.column_operands * tiles.m * t


def bank_conflicts(problem: GemmProblem, tiles: Tiling) -> Any:
    """Return the share of pairs of loads of A and B that are in one bank; all of them if the sums are elsewhere."""
    end = sums_address(problem, tiles)
    bank = (end + 4 * tiles.m * tiles.n) // BANK_BYTES * BANK_BYTES
    share = np.clip((end - bank) / (end - DEFAULT_STACK), 0.0, 1.0)
    return np.where(separates(problem, tiles), share, 1.0)


def store_cycles(problem: GemmProblem, rows: Any, n: Any) -> Any:
    """Predict the cycles of one call that rounds and stores `rows` x n sums."""
    return rows * n // 16 * problem.vector_cycles


def clear_cycles(problem: GemmProblem, m: Any, n: Any) -> Any:
    """Predict the cycles of one call that sets m x n sums to zero."""
    return m * n * 4 // ARRAYS[problem.arch].store_bytes


def spread_cycles(words: Any) -> Any:
    """Estimate the cycles of one call that repeats the words of a row or column operand.

    Assumed: a load and up to 8 stores per word.
    """
    return words * 16


MODELS: Final = (
    (128, 256, 256),
    (32, 64, 64),
    (512, 2048, 2048),
    (32, 256, 256),
    (512, 256, 256),
    (128, 1024, 1024),
    (128, 512, 32),
    (512, 64, 512),
    (128, 576, 576),
)
"""Extents M, N, K of the products whose best power-of-two tiles serve all others. A binary has tiles of one size.

Powers of two divide many extents, which then need no padding. The first ones were selected greedily from 49 candidates
for the least predicted time of 70 others, with M from 8 to 2048, N and K from 64 to 5632, of bfloat16, int8 and
float32, on both arrays. The last three serve K that is only a multiple of 32, narrow results such as those of
attention, and K that is an odd multiple of 64. With individual tiles, random products whose N and K are multiples of
64 are predicted to be 1.7 times as fast in the geometric mean, mostly because the host pads their K.
"""

LARGE: Final = ((2048, 2048, 2048), (2048, 512, 2048))
"""Extents of products whose best tiles may have any number of rows. Tall tiles read B fewer times from host memory."""


def ranked(problem: GemmProblem) -> list[Tiling]:
    """Return the predefined tiles that fit, sorted by predicted time (dataflow.cost), fastest first."""
    few = _tilings(problem.unshaped)
    if few is None:
        return []
    fits = np.flatnonzero(_fits(problem, few))
    return [_tiling(few, number) for number in fits[np.argsort(_seconds(problem, few)[fits], kind="stable")]]


@lru_cache(maxsize=256)
def _tilings(problem: GemmProblem) -> Tiling | None:
    """Return the best tiles of `MODELS` for the operands of a problem."""
    extents = _extents(problem.arch, problem.operand, problem.packed)
    short = np.logical_and.reduce([axis & axis - 1 == 0 for axis in extents[1:]])
    powers = short & (extents[0] & extents[0] - 1 == 0)
    models = [(model, powers) for model in MODELS] + [(model, short) for model in LARGE]
    tiles = []
    for (m, n, k), allowed in models:
        model = problem._replace(m=m, n=n, k=k, batch=1)
        tiles.append(_fastest(model, _on_cores(model, *(axis[allowed] for axis in extents))))
    unique = list(dict.fromkeys(each for each in tiles if each is not None))
    return Tiling(*(np.array(axis) for axis in zip(*unique, strict=True))) if unique else None


def search(problem: GemmProblem) -> Tiling | None:
    """Search all tiles within the limits for the least predicted time; return None if there are none."""
    return _fastest(problem, _on_cores(problem, *_extents(problem.arch, problem.operand, problem.packed)))


def _on_cores(problem: GemmProblem, m: Any, n: Any, k: Any, steps: Any) -> Tiling:
    """Assign tiles to as few rows and columns as hold the problem, in powers of two."""
    array = ARRAYS[problem.arch]
    rows = np.select([m >= problem.m, 2 * m >= problem.m], [1, 2], array.core_rows)
    columns = 1 << np.ceil(np.log2(np.maximum(problem.n / n, 1))).astype(int)
    return Tiling(rows, np.minimum(problem.columns, columns), m, n, k, steps)


def _fastest(problem: GemmProblem, tiles: Tiling) -> Tiling | None:
    fits = np.flatnonzero(_fits(problem, tiles))
    return _tiling(tiles, fits[np.argmin(_seconds(problem, tiles)[fits])]) if len(fits) else None


def _tiling(tiles: Tiling, number: int) -> Tiling:
    return Tiling(*(int(axis[number]) for axis in tiles))


@lru_cache(maxsize=16)
def _extents(arch: Arch, operand: str, packed: bool) -> tuple[Any, Any, Any, Any]:
    """Return m, n, k and steps of all tiles whose sums and operands fit a core, as arrays."""
    r, s, t, rows, columns = ARRAYS[arch].blocks[operand]
    grid = np.meshgrid(
        np.arange(rows * r, min(STATIC_SIZE, ITERATIONS * r) + 1, rows * r),
        np.arange(columns * t, STATIC_SIZE + 1, columns * t),
        np.arange(s, LONGEST_K + 1, s),
        STEPS,
        indexing="ij",
    )
    m, n, k, steps = (axis.ravel() for axis in grid)
    b = k * n // BLOCK * BLOCK_BYTES if packed else k * n * _SIZES[operand]
    fits = 4 * m * n + 2 * (k * rows * r * _SIZES[operand] + b) <= CORE_BYTES
    fits &= k * steps <= STATIC_SIZE
    return m[fits], n[fits], k[fits], steps[fits]


def _fits(problem: GemmProblem, tiles: Tiling) -> Any:
    """Return a mask of the tiles that fit the memories and the access patterns of the DMAs."""
    size, result_size = problem.sizes
    m, n, shared = tiles.m, tiles.n, tiles.shared
    a, b, c = _objects(problem, tiles)
    core = 4 * (m * n + 1) + sum(_vectors(problem, tiles)) + 2 * (a + b + c)
    memtile_a = np.where(shared == 1, tiles.memtile_k * m * size, shared * a)
    memtile = 2 * (memtile_a + problem.b_nbytes(tiles.memtile_k * n) + tiles.rows * c)
    _, full_n, full_k = tiles.padded(problem)
    # The longest strides lead from row to row of A, over a step in K of B, and from core to core of C or over all cores
    # that share a memtile.
    b_step = 0 if problem.packed else np.where(problem.transposed, full_k, tiles.memtile_k * full_n)
    c_step = np.where(tiles.rows > shared, shared * m, m) * full_n
    stride = np.maximum(np.maximum(full_k, b_step) * size, c_step * result_size)
    shim = LIMITS["shim"]
    fits: Any = (core <= CORE_BYTES) & (memtile <= LIMITS["memtile"].memory)
    return fits & (shared * m <= shim.wrap) & (stride <= shim.stride * WORD)


def _seconds(problem: GemmProblem, tiles: Tiling) -> Any:
    """Predict the time as dataflow.cost does for the designs, with a small weight on non-limiting resources."""
    array = ARRAYS[problem.arch]
    size, result_size = problem.sizes
    m, n = tiles.m, tiles.n
    across, down = problem.row_operands, problem.column_operands
    full_m, full_n, full_k = tiles.padded(problem)
    a_run, store_rows = tiles.a_run, tiles.store_rows(problem.blocks)
    slices = m // (problem.blocks.rows * problem.blocks.r)
    locks = 2 * LOCK_CYCLES
    cycles = full_k // tiles.k * (slices * (product_cycles(problem, tiles) + CALL_CYCLES + locks) + locks)
    stores = m // store_rows
    cycles += stores * (store_cycles(problem, store_rows, n) + CALL_CYCLES + locks)
    cycles += clear_cycles(problem, m, n) + CALL_CYCLES
    cycles += across * (spread_cycles(n) + CALL_CYCLES + tiles.steps * locks)
    cycles += down * (spread_cycles(m) + slices * (CALL_CYCLES + a_run // tiles.k * locks))
    a = tiles.shared * m * (full_k + down * a_run) * size
    b = problem.b_nbytes(n * (full_k + across * tiles.memtile_k))
    stream = np.maximum(np.maximum(a, b), tiles.rows * m * n * result_size) / STREAM_BYTES_PER_CYCLE
    ddr = tiles.rows * m * (full_k // a_run + down) * _run(a_run * size)
    if problem.packed:
        ddr += tiles.columns * b
    elif problem.transposed:
        ddr += tiles.columns * n * (full_k // tiles.memtile_k + across) * _run(tiles.memtile_k * size)
    else:
        ddr += tiles.columns * (full_k * _run(n * size) + across * tiles.memtile_k * n * size)
    ddr += tiles.rows * m * tiles.columns * _run(n * result_size)
    parts = (cycles / array.clock_hz, stream / array.clock_hz, ddr / array.ddr_bytes_per_second)
    whole_results = (full_n == problem.n) & ((full_m == problem.m) | (problem.batch == 1))
    packing = np.where(full_k == problem.k, 0.0, problem.k) + np.where(whole_results, 0.0, problem.n)
    packing *= problem.batch * problem.m * PACK_SECONDS
    return tiles.tiles(problem) * (np.maximum.reduce(parts) + TIE * sum(parts)) + packing


def _run(nbytes: Any) -> Any:
    return nbytes + RUN_BYTES
