"""How a matrix product is cut: block shapes of the core, and the search for the tiles with the best predicted time.

An array of `rows` x `columns` cores computes a tile of rows*m x columns*n sums, each core m x n. Every core holds a
block of B, k x n, while slices of its rows of A, block_rows*r x k, pass by. A memtile gathers `stretch` steps in k, so
that the rows that are read from host memory are longer than those in a core.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.dataflow.array import ARRAYS, STREAM_BYTES_PER_CYCLE, Arch
from npu_tensor.dataflow.checks.limits import CORE_RESERVE, ITERATIONS, LIMITS, STATIC_SIZE, WORD
from npu_tensor.dataflow.cost import CALL_CYCLES, LOCK_CYCLES, SHORT_RUN_BYTES

__all__ = [
    "BLOCKS",
    "STACK",
    "Blocks",
    "Problem",
    "Tiling",
    "clear_cycles",
    "multiply_cycles",
    "search",
    "spread_cycles",
    "store_cycles",
]

STACK: Final = 1024
"""Bytes. The published tiles leave as much (arXiv 2512.13282: 64512 bytes of buffers)."""

CORE_BYTES: Final = LIMITS["core"].memory - CORE_RESERVE - STACK

LONGEST_K: Final = 256
STRETCHES: Final = (1, 2, 3, 4, 6, 8)
TIE: Final = 0.01
"""What is searched. The resources that do not limit count a little, which decides between equals."""

LOAD_BYTES: Final[Mapping[Arch, int]] = MappingProxyType({"aie2": 64, "aie2p": 128})
STORE_BYTES: Final[Mapping[Arch, int]] = MappingProxyType({"aie2": 32, "aie2p": 64})
"""Per cycle: two loads and one store of 256 bits (AM020) or 512 bits."""

BLOCK_CYCLES: Final = 11
"""Cycles around one register block: start and end of its software pipeline.

Fitted to two kernels of arXiv 2512.13282 that hold int8 sums, with the block's loads and stores beside its products:
112x112x112 on aie2, 8 products of 4x8x8, 14 steps: 112 + 4 + 8 + 11 cycles, published 212.5 of 256 products a cycle;
144x72x144 on aie2p, 4 products of 8x8x8, 9 steps: 36 + 2 + 4 + 11 cycles, published 343 of 512. It also gives the
3.12 TFLOPS of 96x56x96 bfloat16 on aie2: 112 + 8 + 16 + 11 cycles for 16 products of 4x8x4 and 7 steps.
"""


PART_PRODUCTS: Final = 6
SPLIT_CYCLES: Final = 5
PART_PRODUCT_CYCLES: Final[Mapping[Arch, int]] = MappingProxyType({"aie2": 1, "aie2p": 8})
"""Of float32, see include/nt/gemm.hpp: products of bfloat16 blocks for each block; cycles that make three bfloat16
numbers of each of 16; cycles of a 4x8x4 product, one instruction or aie_api's 8 of 32 lanes, half of them unused."""


class Blocks(NamedTuple):
    """What a core multiplies at once, r x s by s x t, and how many results it keeps in registers, rows x columns."""

    r: int
    s: int
    t: int
    rows: int
    columns: int


# The shapes are those of aie_api for two operands of one type; the sums of one register block fill 8192 bits.
BLOCKS: Final[Mapping[Arch, Mapping[str, Blocks]]] = MappingProxyType(
    {
        "aie2": {
            "bfloat16": Blocks(4, 8, 4, 4, 4),
            "int8": Blocks(4, 8, 8, 4, 2),
            "int16": Blocks(4, 4, 4, 4, 2),
            "float32": Blocks(4, 8, 4, 2, 2),
        },
        "aie2p": {
            "bfloat16": Blocks(4, 8, 8, 4, 2),
            "int8": Blocks(8, 8, 8, 2, 2),
            "int16": Blocks(4, 4, 8, 2, 2),
            "float32": Blocks(4, 8, 4, 2, 2),
        },
    }
)


class Problem(NamedTuple):
    """A batch of products M x K by K x N.

    operand: dtype of A and B on the array. result: dtype of C. transposed: whether B is stored as N x K. row_operands,
    column_operands: vectors of N and of M words that the epilogue reads. vector_cycles: what it takes for 16 results.
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

    @property
    def blocks(self) -> Blocks:
        """The block shape of its operands."""
        return BLOCKS[self.arch][self.operand]

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes of an operand's and of a result's element."""
        return _SIZES[self.operand], _SIZES[self.result]


_SIZES: Final = {"int8": 1, "uint8": 1, "int16": 2, "bfloat16": 2, "int32": 4, "float32": 4}


class Tiling(NamedTuple):
    """Cores used, extents of one core's tile, and the steps in k that a memtile gathers."""

    rows: int
    columns: int
    m: int
    n: int
    k: int
    stretch: int

    @property
    def shared(self) -> int:
        """Rows of cores that one memtile serves with A: 1, where there are as many columns as rows."""
        return int(_shared(self.rows, self.columns))

    def store_rows(self, blocks: Blocks) -> int:
        """Rows of a core's result that go out in one object. Slices of shared memtiles alternate, and stay whole."""
        return blocks.r * (1 if self.shared == 1 else blocks.rows)

    def padded(self, problem: Problem) -> tuple[int, int, int]:
        """Extents M, N, K in whole tiles."""
        return (
            _up(problem.m, self.rows * self.m),
            _up(problem.n, self.columns * self.n),
            _up(problem.k, self.k * self.stretch),
        )

    def transfers(self, problem: Problem) -> int:
        """How many the host starts in a run."""
        m, n, _ = self.padded(problem)
        tiles = problem.batch * (m // (self.rows * self.m)) * (n // (self.columns * self.n))
        a, b = 1 + problem.column_operands, 1 + problem.row_operands
        return tiles * (self.rows // self.shared * a + self.columns * (b + 1))


def _shared(rows: Any, columns: Any) -> Any:
    return np.where(columns >= rows, 1, np.where(columns >= 2, 2, rows))


def _up(value: Any, step: Any) -> Any:
    return -(-value // step) * step


def multiply_cycles(problem: Problem, n: Any, k: Any) -> Any:
    """Cycles of one call of the product: a slice of A, rows*r x k, by k x n. Numbers or arrays, as all below.

    The sums of a register block are stored while those of the next one are loaded.
    """
    r, s, t, rows, columns = problem.blocks
    size, _ = problem.sizes
    load, store = LOAD_BYTES[problem.arch], STORE_BYTES[problem.arch]
    if problem.operand == "float32":
        products = rows * columns * (PART_PRODUCTS * PART_PRODUCT_CYCLES[problem.arch] + r * t / 16)
        products += (rows * r + columns * t) * s / 16 * SPLIT_CYCLES
    else:
        products = rows * columns * r * s * t / ARRAYS[problem.arch].macs_per_cycle[problem.operand]
    operands = (rows * r + columns * t) * s * size / load
    sums = rows * columns * r * t * 4
    block = k // s * max(products, operands) + max(sums / load, sums / store) + BLOCK_CYCLES
    return n // (columns * t) * block


def store_cycles(problem: Problem, rows: Any, n: Any) -> Any:
    """Cycles of one call that rounds and stores `rows` x n sums."""
    return rows * n // 16 * problem.vector_cycles


def clear_cycles(problem: Problem, m: Any, n: Any) -> Any:
    """Cycles of one call that sets m x n sums to zero."""
    return m * n * 4 // STORE_BYTES[problem.arch]


def spread_cycles(words: Any) -> Any:
    """Cycles of one call that repeats the words of a row or column operand: a load and up to 8 stores each. Assumed."""
    return words * 16


class _Tiles(NamedTuple):
    """Tilings for a problem, an entry of every array for each, with what follows from them."""

    m: Any
    n: Any
    k: Any
    stretch: Any
    rows: Any
    columns: Any
    shared: Any
    store_rows: Any
    padded: tuple[Any, Any, Any]

    @property
    def gathered(self) -> Any:
        """Elements of K in an object of a memtile."""
        return self.k * self.stretch

    @property
    def a_run(self) -> Any:
        """Elements of a row of A that the shim reads at once."""
        return np.where(self.shared == 1, self.gathered, self.k)


@lru_cache(maxsize=1024)
def search(problem: Problem) -> Tiling | None:
    """The tiles with the least predicted time (dataflow.cost) within all limits; None if none are."""
    tiles = _tiles(problem)
    fits = np.flatnonzero(_fits(problem, tiles))
    if not len(fits):
        return None
    best = fits[np.argmin(_seconds(problem, tiles)[fits])]
    axes = (tiles.rows, tiles.columns, tiles.m, tiles.n, tiles.k, tiles.stretch)
    return Tiling(*(int(axis[best]) for axis in axes))


def _tiles(problem: Problem) -> _Tiles:
    m, n, k, stretch = _extents(problem.arch, problem.operand)
    # As few rows and columns as hold the problem.
    rows = np.select([m >= problem.m, 2 * m >= problem.m], [1, 2], 4)
    columns = np.minimum(problem.columns, -(-problem.n // n))
    shared = _shared(rows, columns)
    r, _, _, slices, _ = problem.blocks
    padded = _up(problem.m, rows * m), _up(problem.n, columns * n), _up(problem.k, stretch * k)
    return _Tiles(m, n, k, stretch, rows, columns, shared, np.where(shared == 1, r, slices * r), padded)


@lru_cache(maxsize=16)
def _extents(arch: Arch, operand: str) -> tuple[Any, Any, Any, Any]:
    """m, n, k and stretch of all tiles whose sums and operands fit a core, as arrays."""
    r, s, t, rows, columns = BLOCKS[arch][operand]
    grid = np.meshgrid(
        np.arange(rows * r, min(STATIC_SIZE, ITERATIONS * r) + 1, rows * r),
        np.arange(columns * t, STATIC_SIZE + 1, columns * t),
        np.arange(s, LONGEST_K + 1, s),
        STRETCHES,
        indexing="ij",
    )
    m, n, k, stretch = (axis.ravel() for axis in grid)
    fits = 4 * m * n + 2 * _SIZES[operand] * k * (rows * r + n) <= CORE_BYTES
    fits &= k * stretch <= STATIC_SIZE
    return m[fits], n[fits], k[fits], stretch[fits]


def _fits(problem: Problem, tiles: _Tiles) -> Any:
    """Which tiles keep to the memories and to what the DMAs can walk."""
    size, result_size = problem.sizes
    r, _, t, slices, _ = problem.blocks
    m, n, k = tiles.m, tiles.n, tiles.k
    core = 4 * (m * n + 1 + problem.row_operands * n // t * 16 + problem.column_operands * m * t)
    core += 2 * (k * (slices * r + n) * size + tiles.store_rows * n * result_size)
    a = np.where(tiles.shared == 1, tiles.gathered * m, tiles.shared * slices * r * k)
    results = tiles.rows * tiles.store_rows * n
    memtile = 2 * ((a + tiles.gathered * n) * size + results * result_size)
    _, full_n, full_k = tiles.padded
    # The longest strides lead from row to row of A, over a step in K of B, and from core to core of C, or over as many
    # cores as share a memtile.
    b_step = np.where(problem.transposed, full_k, tiles.gathered * full_n)
    c_step = np.where(tiles.rows > tiles.shared, tiles.shared * m, m) * full_n
    stride = np.maximum(np.maximum(full_k, b_step) * size, c_step * result_size)
    shim = LIMITS["shim"]
    fits: Any = (core <= CORE_BYTES) & (memtile <= LIMITS["memtile"].memory)
    return fits & (tiles.shared * m <= shim.wrap) & (stride <= shim.stride * WORD)


def _seconds(problem: Problem, tiles: _Tiles) -> Any:
    """What dataflow.cost predicts of the designs, with a small share of what does not limit."""
    array = ARRAYS[problem.arch]
    size, result_size = problem.sizes
    m, n = tiles.m, tiles.n
    across, down = problem.row_operands, problem.column_operands
    full_m, full_n, full_k = tiles.padded
    slices = m // (problem.blocks.rows * problem.blocks.r)
    locks = 2 * LOCK_CYCLES
    cycles = full_k // tiles.k * (slices * (multiply_cycles(problem, n, tiles.k) + CALL_CYCLES + locks) + locks)
    stores = m // tiles.store_rows
    cycles += stores * (store_cycles(problem, tiles.store_rows, n) + CALL_CYCLES + locks)
    cycles += clear_cycles(problem, m, n) + CALL_CYCLES
    cycles += across * (spread_cycles(n) + CALL_CYCLES + tiles.stretch * locks)
    cycles += down * (spread_cycles(m) + slices * (CALL_CYCLES + tiles.a_run // tiles.k * locks))
    a = tiles.shared * m * (full_k + down * tiles.a_run) * size
    b = n * (full_k + across * tiles.gathered) * size
    stream = np.maximum(np.maximum(a, b), tiles.rows * m * n * result_size) / STREAM_BYTES_PER_CYCLE
    ddr = tiles.rows * m * (full_k // tiles.a_run + down) * _run(tiles.a_run * size)
    if problem.transposed:
        ddr += tiles.columns * n * (full_k // tiles.gathered + across) * _run(tiles.gathered * size)
    else:
        ddr += tiles.columns * (full_k * _run(n * size) + across * tiles.gathered * n * size)
    ddr += tiles.rows * m * tiles.columns * _run(n * result_size)
    parts = (cycles / array.clock_hz, stream / array.clock_hz, ddr / array.ddr_bytes_per_second)
    count = problem.batch * (full_m // (tiles.rows * m)) * (full_n // (tiles.columns * n))
    return count * (np.maximum.reduce(parts) + TIE * sum(parts))


def _run(nbytes: Any) -> Any:
    return np.maximum(nbytes, SHORT_RUN_BYTES)
