"""Matrix products with a fused epilogue: C[...] = epilogue(A[...] @ B[...]).

Small products, and those of few rows, read A and B in place, in one loop; see `direct_tile`. Others pack A and then
either pack and multiply one panel of B after another, or pack all of B, which is cached for the next product
with it. A and B may be `Computed`: element-wise expressions that are evaluated while they are packed.

A thread computes strips: a panel of B times a block of panels of A, or a group of panels if they are small. Long panels
are multiplied in parts that L1 holds, while the next part is prefetched. Sums are rounded once, after the epilogue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Instruction, Program
from npu_tensor.runtime.cpu.division import even_grain
from npu_tensor.runtime.cpu.engine import Address, Engine, Module
from npu_tensor.runtime.cpu.gemm_micro import LEAST_ROWS, UNITS, Blocking, Unit, unit_lanes, usual_blocking
from npu_tensor.runtime.cpu.gemm_multiply import MULTIPLY_META, Form, GemmSpec, Line, TileSpec, multiply_module
from npu_tensor.runtime.cpu.gemm_pack import PackPrologue, PackSpec, neighbours, pack_module, panel_bytes
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import ELEMENT_SIZE, register_dtype
from npu_tensor.runtime.cpu.windows import Places, Windows, strided_offsets, window_offsets
from npu_tensor.runtime.memory import Buffer

Launch = Callable[..., None]

# Upper bounds on the panels of A in a strip: their bytes, which L3 should hold for each thread, and their number, since
# sums are kept. Measured on a Zen 3: 128x3072x768 takes 1.4 times as long with blocks of 384 KiB.
_BLOCK_BYTES, _BLOCK_PANELS = 4 << 20, 64
# Part of a panel of B that L1 holds for all tiles of a strip, beside the sums and the current panel of A.
_PART_BYTES = 16 << 10
# A piece of work that a thread claims: long against the claim (0.1 us), short against the whole product.
_PIECE_CYCLES = 15_000
_PIECE_BYTES = 32 << 10
# Overhead of a tile besides its steps: decoding, storing, the epilogue.
_OVERHEAD_CYCLES = 500
# Overhead of a tile in rows: with 60 rows, tiles of 4 take 1 % longer than tiles of 6 (Zen 3, 60x512x784).
_OVERHEAD_ROWS = 0.2
# Overhead of a strip, and cycles per byte of its panel of B, which is packed or comes from another cache.
_STRIP_CYCLES, _PACKED_CYCLES, _READ_CYCLES = 300, 0.5, 0.1
# Blocks per thread that are tried beyond the fewest.
_MORE_BLOCKS = 4
# Panels of A per thread from which a convolution divides its rows among threads, if image and result are larger than
# the weight: the next one then reads what the same core wrote. Fewer cannot be divided as evenly as columns.
_HALVED_PANELS = 8
# Neighbours along K that are packed run by run: without masks at least a vector of units.
_LEAST_RUN = 8
# Upper bounds for products that read their operands in place: rows, and multiplications of units. Measured on a Zen 4:
# beyond them, packing pays off even if it is repeated (rows), or if one operand stays packed (multiplications). Without
# AVX512, whose masks make ends of rows cheap, the bound holds for a whole batch; measured on a Zen 3.
_THIN_ROWS = 8
_SMALL_PRODUCT = 128**3
# Products with few columns also read their operands in place: most of a packed tile would stay empty. Their rows must
# have enough vectors to make adding the lanes cheap. Measured on a Zen 3: packing was faster with 16 columns, and with
# 8 columns whose rows are 8 vectors long.
_THIN_COLUMNS, _LONG_ROWS = 12, 16
# By the vector registers of the processor. Columns of a group of the inner form, by the rows of its tile. Of the outer
# form: the most rows, vectors and accumulators; eight vectors were slower on a Zen 4.
_INNER_GROUPS = {32: (8, 8, 8, 4), 16: (8, 4, 4, 2)}
_OUTER_TILES = {32: (8, 6, 24), 16: (4, 6, 12)}
# Products of few rows read B in the order of its memory if it is larger than the caches of a core. A part has columns
# enough for a stream that the processor foresees, and few enough for the sums to stay in L1.
_STREAMED_BYTES, _STREAMED_ROWS, _STREAMED_COLUMNS = 512 << 10, 4, (128, 4096)
# Lines of B that are read ahead, and their maximum bytes in the inner form: with short ones, most of what a tile needs
# is on other pages, which no processor foresees; long ones would leave L2 before they are needed. Measured on a Zen 3,
# with keys of 64 float16 beyond L2: 2.5 times as fast.
_AHEAD, _SHORT_LINE_BYTES = 32, 1024
# Rows of a tile of windows, whose addresses need a register each, and of a depthwise convolution, whose sums do.
_WINDOW_ROWS, _LINE_ROWS = 12, 8
_CACHE_LINE = 64
# Largest panel of B that a thread packs on its stack, beside the sums of a strip: row kernels use 256 KiB of stack.
_STRIP_BYTES = 144 << 10
# The largest packed A that is read for each such panel: L3 has to hold it. Windows, of which B would be many times the
# image, are always packed so.
_STRIPPED_BYTES = 4 << 20


class Matrix(NamedTuple):
    """A matrix in memory, or a number (`strides` is None)."""

    dtype: str
    strides: tuple[int, ...] | None = None  # in elements: per batch dimension (0 repeats a matrix), of rows, of columns


class Scattered(NamedTuple):
    """A matrix in memory whose lines and elements of K may be several dimensions each, as windows of images are."""

    dtype: str
    batch: tuple[Layout, ...]  # one for each batch dimension
    rows: Layout
    columns: Layout


class Computed(NamedTuple):
    """A matrix that is computed element by element while it is packed, as if it had been stored.

    The column strides of all its matrices are 0 or 1, or the row strides of all are.
    """

    dtype: str  # to which the result of the program is rounded
    program: Program  # elementwise, load and scalar slot i is input i; one result
    inputs: tuple[Matrix, ...]  # numbers, and at least one matrix


class _Problem(NamedTuple):
    """Parameters of a product."""

    shape: tuple[int, int, int]
    batch: tuple[int, ...]
    a: Matrix | Computed | Scattered | Windows
    b: Matrix | Computed | Scattered
    outputs: tuple[Matrix, ...]
    operands: tuple[Matrix, ...]

    @property
    def empty(self) -> bool:
        """True if no output has an element."""
        return 0 in (*self.batch, *self.shape[:2])

    @property
    def tensors(self) -> list[Matrix]:
        """Outputs and epilogue operands that are matrices."""
        return [*self.outputs, *(operand for operand in self.operands if operand.strides is not None)]

    def with_batch_as_rows(self) -> _Problem:
        """Return the same product with batch dimensions as rows, if B is shared and the row strides are regular.

        A stack of small products with the same weights becomes one with full tiles.
        """
        problem = self
        while problem.batch and isinstance(problem.a, Matrix | Computed) and not isinstance(problem.b, Scattered):
            m, n, k = problem.shape
            size = problem.batch[-1]
            followed = [_strides(operand) for operand in (*_matrices(problem.a), *problem.tensors)]
            if size != 1 and any(_strides(operand)[-3] != 0 for operand in _matrices(problem.b)):
                break
            if size != 1 and m != 1 and any(strides[-3] != m * strides[-2] for strides in followed):
                break
            if size != 1 and m == 1 and isinstance(problem.a, Computed):
                break  # The distance between rows could become one that vectors cannot follow.
            # A matrix of one row has no distance between rows: that of the batch replaces it.
            keep = -3 if m == 1 and size != 1 else -2
            problem = problem._replace(
                shape=(m * size, n, k),
                batch=problem.batch[:-1],
                a=_without_batch(problem.a, keep),
                b=_without_batch(problem.b, -2),
                outputs=tuple(_matrix_without_batch(output, keep) for output in problem.outputs),
                operands=tuple(_matrix_without_batch(operand, keep) for operand in problem.operands),
            )
        return problem


def tile_rows(m: int, most: int) -> int:
    """Return the rows of a tile, all of which have the same size, such that few rows are computed in vain."""
    sizes = range(max(LEAST_ROWS, most), max(LEAST_ROWS - 1, most // 2), -1)
    return min(sizes, key=lambda rows: -(-m // rows) * (rows + _OVERHEAD_ROWS))


def _even(count: int, most: int) -> int:
    """Return the size of parts of at most `most`, as few and as equal as possible."""
    return max(1, -(-count // max(1, -(-count // most))))


def _whole(count: int, most: int) -> int:
    """Return the size of parts such that all are whole, if they are not much smaller than `most`."""
    most = min(count, most)
    return next((size for size in range(most, most // 2, -1) if count % size == 0), most)


def _strides(operand: Matrix) -> tuple[int, ...]:
    assert operand.strides is not None
    return operand.strides


def _matrices(operand: Matrix | Computed) -> list[Matrix]:
    inputs = operand.inputs if isinstance(operand, Computed) else (operand,)
    return [x for x in inputs if x.strides is not None]


def _access(operand: Matrix, columns: int) -> str:
    """Return the access of `GemmSpec` to an operand of the epilogue."""
    if operand.strides is None:
        return "number"
    if columns > 1 and operand.strides[-1] == 0:
        return "column"
    return "row" if operand.strides[-2] else "vector"


def _matrix_without_batch(operand: Matrix, keep: int) -> Matrix:
    """Return the operand with the innermost batch dimension and its rows made one dimension of stride `keep`."""
    if operand.strides is None:
        return operand
    *outer, _, _, column = operand.strides
    return Matrix(operand.dtype, (*outer, operand.strides[keep], column))


def _without_batch(operand: Matrix | Computed, keep: int) -> Matrix | Computed:
    if isinstance(operand, Matrix):
        return _matrix_without_batch(operand, keep)
    return operand._replace(inputs=tuple(_matrix_without_batch(x, keep) for x in operand.inputs))


def _vector_access(operand: Matrix, axis: int, extent: int) -> str:
    """Return the access of vectors along an axis to an input of a prologue; "" if they cannot read it."""
    if operand.strides is None:
        return "number"
    return {0: "splat", 1: "vector"}.get(operand.strides[axis] if extent > 1 else 1, "")


def _lines_and_k(operand: Scattered, k_axis: int) -> tuple[Layout, Layout]:
    return (operand.rows, operand.columns) if k_axis == -1 else (operand.columns, operand.rows)


def _has_runs(operand: Scattered, k_axis: int, unit: Unit, target: CpuTarget) -> bool:
    """Return True if there are more neighbours along K than lines that are packed as a vector."""
    lines, k = _lines_and_k(operand, k_axis)
    run = k.shape[-1] if k.strides[-1:] == (1,) and k.shape[-1] % unit.count == 0 else 0
    least = _LEAST_RUN if target.has_avx512 else max(_LEAST_RUN, unit_lanes(unit, target) * unit.count)
    return run >= least and run > (lines.shape[-1] if lines.strides[-1:] == (1,) else 1)


def _pack_spec(
    operand: Matrix | Computed | Scattered,
    unit: Unit,
    width: int,
    k_axis: int,
    k: int,
    lines: int,
    target: CpuTarget,
) -> PackSpec:
    line_axis = -3 - k_axis
    if isinstance(operand, Scattered) and _has_runs(operand, k_axis, unit, target):
        return PackSpec(operand.dtype, unit, "runs", width)
    if isinstance(operand, Scattered):
        return PackSpec(operand.dtype, unit, "scattered", width, rest=k % unit.count)
    if isinstance(operand, Computed):
        along_k = all(_vector_access(x, k_axis, k) for x in operand.inputs)
        axis, extent = (k_axis, k) if along_k else (line_axis, lines)
        prologue = PackPrologue(
            operand.program, tuple((x.dtype, _vector_access(x, axis, extent)) for x in operand.inputs)
        )
        layout = "along_k" if along_k else "across_lines"
        return PackSpec(operand.dtype, unit, layout, width, prologue=prologue)
    strides = _strides(operand)
    if strides[k_axis] == 1 and k > 1:
        layout = "along_k"
    else:
        layout = "across_lines" if strides[line_axis] == 1 or lines == 1 else "strided"
    return PackSpec(operand.dtype, unit, layout, width)


def direct_tile(
    shape: tuple[int, int, int],
    a: Matrix | Computed | Scattered | Windows,
    b: Matrix | Computed | Scattered,
    unit: Unit,
    target: CpuTarget,
    products: int,
    threads: int,
) -> tuple[TileSpec, dict[str, int]] | None:
    """Return the tile and the sizes of products that read A and B in place; None if they should pack them."""
    m, n, k = shape
    if not isinstance(a, Matrix) or not isinstance(b, Matrix):
        return None
    (a_line, a_k), (b_k, b_line) = _strides(a)[-2:], _strides(b)[-2:]
    size_a, size_b = ELEMENT_SIZE[a.dtype], ELEMENT_SIZE[b.dtype]
    sizes = {"a_line_bytes": a_line * size_a}
    lanes, thin = unit_lanes(unit, target), m <= _THIN_ROWS
    least = lanes * unit.count if thin else _LONG_ROWS * lanes
    if (thin or n <= _THIN_COLUMNS) and a_k == 1 == b_k and k >= least:
        groups = _INNER_GROUPS[target.vector_registers]
        rows = _even(m, len(groups))
        group = groups[rows - 1]
        steps, rest = divmod(k, lanes * unit.count)
        sizes |= {"b_line_bytes": b_line * size_b, "steps": steps, "rest": rest}
        ahead = _AHEAD if k * size_b <= _SHORT_LINE_BYTES else 0
        return TileSpec(unit, "inner", rows, max(lanes, group), a.dtype, b.dtype, ahead, group), sizes
    if not thin and m * n * k * unit.count * (1 if target.has_avx512 else products) > _SMALL_PRODUCT:
        return None
    in_units = unit.count == 1 or (a_k == 1 and k % unit.count == 0 and size_a * unit.count == unit.bytes)
    if (b_line != 1 and n > 1) or not in_units:
        return None
    sizes |= {"b_line_bytes": b_k * size_b, "a_step_bytes": a_k * size_a * unit.count, "steps": k // unit.count}
    if thin and unit.count == 1 and k * n * size_b >= _STREAMED_BYTES:
        if m > _STREAMED_ROWS:
            return None
        least, most = _STREAMED_COLUMNS
        columns = min(max(-(-n // threads), least), most // m)
        return TileSpec(unit, "streamed", m, 1 << (columns.bit_length() - 1), a.dtype, b.dtype), sizes
    most_rows, vectors, accumulators = _OUTER_TILES[target.vector_registers]
    # Vectors come in groups of `unit.count`, and int8_quad has a row of accumulators more.
    rows = _even(m, min(most_rows, accumulators // unit.count - (unit.count == 4)))
    # Fewer rows than vectors are held while the vectors come one by one, two of them at a time.
    one_by_one = max(rows, (target.vector_registers - rows - 2) // rows)
    vectors = _whole(-(-n // lanes), min(vectors, accumulators // rows, one_by_one))
    vectors = max(1, vectors // unit.count) * unit.count
    return TileSpec(unit, "outer", rows, vectors * lanes, a.dtype, b.dtype, _AHEAD), sizes


def _store_sum(accumulate: str, outputs: Sequence[Matrix]) -> Program:
    casts = [Instruction("cast", (0,), register_dtype(output.dtype)) for output in outputs]
    return Program((Instruction("load", (), accumulate, 0), *casts), tuple(range(1, 1 + len(casts))))


def _offsets(dtype: str, *layouts: Layout) -> NDArray[np.int64]:
    """Return the byte offsets of all elements of several dimensions, in row-major order."""
    return strided_offsets(*layouts) * ELEMENT_SIZE[dtype]


def _batch_offsets(batch: tuple[int, ...], operand: Matrix | Scattered) -> NDArray[np.int64]:
    """Return the byte offset of the operand's matrix in every product of the batch."""
    layouts = operand.batch if isinstance(operand, Scattered) else [Layout(batch, _strides(operand))]
    return _offsets(operand.dtype, *layouts)


def _blocks(a_panels: int, b_panels: int, least: int, tile_cycles: int, strip_cycles: int, threads: int) -> int:
    """Return the number of blocks of panels of A with which the busiest thread ends first.

    Args:
        a_panels: Panels of A.
        b_panels: Panels of B, of all products.
        least: Lower bound on the number of blocks.
        tile_cycles: Cycles of a tile.
        strip_cycles: Further cycles of a strip, such as those for reading its panel of B.
        threads: Number of threads.
    """

    def longest(blocks: int) -> int:
        return -(-blocks * b_panels // threads) * (-(-a_panels // blocks) * tile_cycles + strip_cycles)

    return min(range(least, min(a_panels, least + _MORE_BLOCKS * threads) + 1), key=longest)


def _part_steps(unit: Unit, columns: int) -> int:
    """Return the steps of a part of a panel of B."""
    return max(1, _PART_BYTES // (columns * unit.bytes))


def _divided(run: int, places: tuple[Places, ...], most: int, unit: int) -> tuple[int, tuple[Places, ...]]:
    """Return runs of at most `most` elements, in whole units, if a few equal pieces of each run are that short."""
    least = -(-run // most)
    pieces = next((count for count in range(least, 2 * least) if run % (count * unit) == 0), 1)
    return run // pieces, (*places, Places(pieces, run // pieces, 1, pieces, 1, 1, 0)) if pieces > 1 else places


class LaunchedLoop(NamedTuple):
    """A kernel bound to its meta array: the leading arguments of `launch`."""

    kernel: Address | None
    meta_address: int
    items: int
    grain: int


class Packs(Protocol):
    """Object that packs an operand.

    Attributes:
        key: Equal for objects with equal results from the same memory; None for operands that are not matrices.
        loop: Loop that packs.
    """

    @property
    def key(self) -> Hashable: ...

    @property
    def loop(self) -> LaunchedLoop: ...

    def run(self, launch: Launch, allocate: Callable[[int], Buffer], sources: Sequence[int | float]) -> Buffer:
        """Pack the operand at the first of the addresses."""


class Packing(NamedTuple):
    """Packing of an operand.

    Attributes:
        matrices: Number of the packed matrix of every product of the batch.
        key: Equal for packings with equal results from the same memory; None for operands that are not matrices.
    """

    key: Hashable
    loop: LaunchedLoop
    matrices: NDArray[np.int64]
    panels: int
    panel_bytes: int

    @property
    def bytes(self) -> int:
        return self.loop.items * self.panel_bytes

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Offset of the packed matrix of every product."""
        return self.matrices * (self.panels * self.panel_bytes)

    def run(self, launch: Launch, allocate: Callable[[int], Buffer], sources: Sequence[int | float]) -> Buffer:
        """Pack an operand. `allocate` aligns to `memory.ALIGNMENT`."""
        packed = allocate(self.bytes)
        launch(*self.loop, packed.address, *sources)
        return packed


class Gemm:
    """A matrix product bound to shapes and strides, ready to be called on addresses.

    engine    compiles the kernels
    target    of the engine
    blocking  in which the products are computed, for the dtypes of a and b
    shape     (m, n, k) of every product
    a, b      m x k and k x n matrices with any strides, or `Scattered` or `Computed` ones; A may be `Windows`.
              float32, bfloat16 and float16, mixed or not, are summed in float32; int8, uint8, int16 and int32 in int32
              (wrapping); float64 and int64 in their own dtype
    outputs   m x n matrices whose column stride is 1. Sums are cast to a dtype unless the epilogue does it
    epilogue  elementwise program: load slot 0 is the sum, slot i the operand i - 1, one result per output
    operands  of the epilogue: m x n matrices with any row stride and a column stride of 0 or 1, and numbers
    batch     sizes of the batch dimensions that the strides of all matrices begin with
    threads   that will work on it
    strips    whether panels of B should be packed when they are needed

    empty     whether there is nothing to compute
    packings  how A and B are packed before; with `Windows`, only B is packed; empty if they are read where they are
    strips    whether the loop that multiplies packs B itself: not if B is `Computed`, or its panels are too large
    multiply  the loop whose arguments are A and B, packed or not, the outputs and the operands
    """

    def __init__(
        self,
        engine: Engine,
        target: CpuTarget,
        blocking: Blocking,
        shape: tuple[int, int, int],
        *,
        a: Matrix | Computed | Scattered | Windows,
        b: Matrix | Computed | Scattered,
        outputs: Sequence[Matrix],
        epilogue: Program | None = None,
        operands: Sequence[Matrix] = (),
        batch: tuple[int, ...] = (),
        threads: int = 1,
        strips: bool = False,
    ) -> None:
        problem = _Problem(shape, batch, a, b, tuple(outputs), tuple(operands))
        self._engine = engine
        self._target = target
        self._threads = threads
        self._metas: list[NDArray[Any]] = []  # keeps the arrays alive whose addresses the loops hold
        self.empty = problem.empty
        self.packings: tuple[Packing, ...] = ()
        self.strips = strips and not problem.empty
        self.multiply = LaunchedLoop(None, 0, 0, 1)
        if not problem.empty:
            self._bind(problem.with_batch_as_rows(), blocking, epilogue, threads)

    def _bind(self, problem: _Problem, blocking: Blocking, epilogue: Program | None, threads: int) -> None:
        unit = blocking.unit
        products = math.prod(problem.batch)
        direct = direct_tile(problem.shape, problem.a, problem.b, unit, self._target, products, threads)
        self.strips = self.strips and direct is None
        if isinstance(problem.a, Windows):
            tile, sizes, offsets = self._windows(problem, problem.a, blocking)
        elif direct is None:
            tile, sizes, offsets = self._packed(problem, blocking)
        else:
            tile, sizes = direct
            offsets = [
                _batch_offsets(problem.batch, matrix) for matrix in (problem.a, problem.b) if isinstance(matrix, Matrix)
            ]
        m, n, _ = problem.shape
        a_panels, b_panels = -(-m // tile.rows), -(-n // tile.columns)
        runs, step_bytes = sizes.get("runs", 1), tile.columns * unit.bytes
        run_steps = max(1, sizes["steps"])  # 0 if windows have no channels.
        steps = run_steps * runs
        tile_cycles = _OVERHEAD_CYCLES + steps * tile.rows * tile.columns // unit_lanes(tile.unit, self._target)
        part, group = _part_steps(unit, tile.columns), 1
        if tile.form == "depthwise":  # Channels that share addresses are split if there are few rows.
            group = -(-b_panels // -(-_MORE_BLOCKS * threads // (products * a_panels)))
        elif tile.form in ("packed", "windows") and not self.strips:
            group = min(b_panels, max(1, part // steps))
        groups = -(-b_panels // group)
        group = -(-b_panels // groups)
        most = min(_BLOCK_PANELS, _BLOCK_BYTES // max(1, sizes.get("a_panel_bytes", 0)))
        read = steps * group * step_bytes * (_PACKED_CYCLES if self.strips else _READ_CYCLES)
        count, strip_cycles = len(offsets[0]) * groups, int(_STRIP_CYCLES + read)
        least = -(-a_panels // max(1, most))
        k = steps * unit.count
        if tile.form == "windows" and products == 1 and a_panels >= _HALVED_PANELS * threads and m * (k + n) > k * n:
            least = min(a_panels, -(-least // threads) * threads)
        blocks = _blocks(a_panels, count, least, group * tile_cycles, strip_cycles, threads)
        block_panels = -(-a_panels // blocks)
        blocks = -(-a_panels // block_panels)
        if part < steps:
            part = max(1, part // run_steps) * run_steps if "runs" in sizes else _even(steps, part + part // 10)
        sizes["part"] = part // run_steps if "runs" in sizes else part
        lines = -(-min(part, steps) * step_bytes // _CACHE_LINE) if part < steps or groups > 1 else 0
        sizes["ahead_bytes"] = -(-lines // block_panels) * _CACHE_LINE
        piece = max(1, _PIECE_CYCLES // (group * tile_cycles * block_panels))
        if part >= steps:
            # Threads that claim single strips take turns in each half of them, see `pool.c`. So the next strip of a
            # thread is half as many groups on.
            turns = (threads + 1) // 2 if piece == 1 else 1
            sizes["ahead_offset"] = (group * turns - 1) * sizes.get("b_panel_bytes", 0)
        sizes |= {"m": m, "n": n, "a_panels": a_panels, "b_panels": b_panels}
        sizes |= {"block_panels": block_panels, "blocks": blocks, "group_panels": group, "groups": groups}
        header = [sizes.get(field, 0) for field in MULTIPLY_META]
        header += [_strides(tensor)[-2] * ELEMENT_SIZE[tensor.dtype] for tensor in problem.tensors]
        offsets += [_batch_offsets(problem.batch, tensor) for tensor in problem.tensors]
        if isinstance(problem.a, Windows):
            offsets.append(_offsets("int8", Layout(problem.batch, problem.a.lines)))
        spec = GemmSpec(
            tile,
            tuple(output.dtype for output in problem.outputs),
            epilogue or _store_sum(unit.accumulate, problem.outputs),
            tuple((operand.dtype, _access(operand, n)) for operand in problem.operands),
            self.strips,
        )
        self.multiply = self._loop(
            multiply_module,
            spec,
            np.concatenate([np.array(header, np.int64), np.stack(offsets, axis=1).ravel()]),
            count * blocks,
            piece,
        )

    def _packed(
        self, problem: _Problem, blocking: Blocking
    ) -> tuple[TileSpec, dict[str, int], list[NDArray[np.int64]]]:
        """Return the tile, the sizes and the offsets of A and B of a product that packs them."""
        m, n, k = problem.shape
        assert not isinstance(problem.a, Windows)
        unit, most_rows, columns = blocking
        rows, steps, quads = tile_rows(m, most_rows), max(1, -(-k // unit.count)), unit.name == "int8_quad"
        spec_a = _pack_spec(problem.a, unit, rows, -1, k, m, self._target)._replace(flip_sign=quads)
        spec_b = _pack_spec(problem.b, unit, columns, -2, k, n, self._target)._replace(correct=quads)
        pack_a = self._packing(spec_a, problem.a, problem.batch, k, steps, m, k_axis=-1)
        pack_b = self._packing(spec_b, problem.b, problem.batch, k, steps, n, k_axis=-2)
        sizes = {"steps": steps, "a_panel_bytes": pack_a.panel_bytes, "b_panel_bytes": pack_b.panel_bytes}
        tile = TileSpec(unit, "packed", rows, columns)
        offsets = [pack_a.offsets, pack_b.offsets]
        self.packings = (pack_a, pack_b)
        self.strips &= not isinstance(problem.b, Computed) and pack_b.panel_bytes <= _STRIP_BYTES
        self.strips &= isinstance(problem.b, Scattered) or pack_a.panels * pack_a.panel_bytes <= _STRIPPED_BYTES
        if self.strips:
            sizes |= {"pack": int(pack_b.loop.kernel or 0), "pack_meta": pack_b.loop.meta_address}
        return tile, sizes, offsets

    def _windows(
        self, problem: _Problem, a: Windows, blocking: Blocking
    ) -> tuple[TileSpec, dict[str, int], list[NDArray[np.int64]]]:
        """Return the tile, the sizes and the offsets of A and B of a product that reads A through a table."""
        m, n, _ = problem.shape
        unit, most_rows, columns = self._window_blocking(a, n, blocking)
        rows, size = tile_rows(m, most_rows), ELEMENT_SIZE[a.dtype]
        (run, places), is_inside = a.runs(), a.is_inside
        if not a.depthwise:
            run, places = _divided(run, places, _part_steps(unit, columns) * unit.count, unit.count)
        steps = 1 if a.depthwise else run // unit.count
        spec_b = _pack_spec(problem.b, unit, columns, -2, a.taps * a.channels, n, self._target)
        k = a.taps * (1 if a.depthwise else a.channels)
        pack_b = self._packing(spec_b, problem.b, problem.batch, k, max(1, k // unit.count), n, k_axis=-2)
        self.packings = (pack_b,)
        if is_inside:
            first = sum(each.start * each.distance for each in places)
            positions = [Layout((each.positions,), (each.step * each.distance,)) for each in places]
            taps = [Layout((each.size,), (each.gap * each.distance,)) for each in places]
            lines, others = (strided_offsets(*positions) + first) * size, strided_offsets(*taps) * size
            runs = others.size
        else:
            entries = window_offsets(places)
            lines = np.where(entries < 0, -1, entries * size).astype(np.int32)
            others, runs = np.zeros((max(run, n if a.depthwise else 0) + columns) * size, np.int8), lines.shape[1]
        self._metas += [lines, others]
        sizes = {"steps": steps, "runs": runs, "table": lines.ctypes.data, "others": others.ctypes.data}
        sizes |= {"a_panel_bytes": rows * run * size, "b_panel_bytes": pack_b.panel_bytes}
        form: Form = "depthwise" if a.depthwise else "windows"
        tile = TileSpec(unit, form, rows, columns, a.dtype, is_inside=is_inside)
        if a.depthwise:
            last = places[-1]
            tile = tile._replace(line=Line(last.size, last.step, last.gap, last.positions % rows == 0))
        return tile, sizes, [_offsets(a.dtype, Layout(problem.batch, a.batch)), pack_b.offsets]

    def _window_blocking(self, a: Windows, n: int, blocking: Blocking) -> Blocking:
        """Return a blocking whose units do not straddle runs, and whose columns are few if there are few."""
        unit, rows, columns = blocking
        is_whole = a.channels % unit.count == 0 and ELEMENT_SIZE[a.dtype] * unit.count == unit.bytes
        if unit.count > 1 and (a.depthwise or not is_whole or unit.name == "int8_quad"):
            unit, rows, columns = usual_blocking(UNITS[unit.accumulate], self._target)
        lanes, registers = unit_lanes(unit, self._target), self._target.vector_registers
        vectors = -(-n // lanes)
        if a.depthwise:
            last = a.places[-1]
            most = max(LEAST_ROWS, min(_LINE_ROWS, registers - 2 - last.size))
            whole = [rows for rows in range(most, LEAST_ROWS - 1, -1) if last.positions % rows == 0]
            return Blocking(unit, whole[0] if whole else most, lanes)
        width = min((2, 3, 1), key=lambda width: -(-vectors // width) * width * (1.1 if width == 1 else 1))
        if width * lanes != columns:
            rows = (registers - 1 - width) // width
        return Blocking(unit, min(rows, _WINDOW_ROWS), width * lanes)

    def _packing(
        self,
        spec: PackSpec,
        operand: Matrix | Computed | Scattered,
        batch: tuple[int, ...],
        k: int,
        steps: int,
        lines: int,
        *,
        k_axis: int,
    ) -> Packing:
        line_axis = -3 - k_axis
        matrices = [] if isinstance(operand, Scattered) else _matrices(operand)
        # Products that read the same matrices share a packed one.
        sources = [operand] if isinstance(operand, Scattered) else matrices
        every = np.stack([_batch_offsets(batch, source) for source in sources], axis=1)
        offsets, index = every, np.zeros(1, np.int64)
        if len(every) > 1:
            offsets, index = np.unique(every, axis=0, return_inverse=True)
        panels = -(-lines // spec.width)
        bytes_ = panel_bytes(spec, steps, self._target)
        if isinstance(operand, Computed):
            across = line_axis if spec.layout == "along_k" else k_axis
            strides, outer = [0, 0], [_strides(x)[across] * ELEMENT_SIZE[x.dtype] for x in matrices]
        elif isinstance(operand, Scattered):
            along_lines, along_k = _lines_and_k(operand, k_axis)
            k_offsets, line_offsets = (_offsets(operand.dtype, layout) for layout in (along_k, along_lines))
            tables: list[NDArray[Any]] = [k_offsets, line_offsets]
            if spec.layout == "runs":
                rest = [along_k.shape[-1]]
            else:
                tables, rest = [*tables, neighbours(line_offsets, spec, self._target)], []
            self._metas += tables
            strides, outer = [0, 0], [*(table.ctypes.data for table in tables), *rest]
        else:
            size = ELEMENT_SIZE[operand.dtype]
            strides, outer = [_strides(operand)[axis] * size for axis in (line_axis, k_axis)], []
        meta = np.array([k, steps, lines, panels, *strides, bytes_, *outer, *offsets.ravel()], np.int64)
        loop = self._loop(pack_module, spec, meta, panels * len(offsets), max(1, _PIECE_BYTES // bytes_))
        key: Hashable = (spec, meta.tobytes()) if isinstance(operand, Matrix) else None
        if isinstance(operand, Scattered):
            key = (spec, operand, batch, k, lines)
        return Packing(key, loop, index.ravel(), panels, bytes_)

    def _loop(self, module: Module, spec: Any, meta: NDArray[np.int64], items: int, grain: int) -> LaunchedLoop:
        self._metas.append(meta)
        kernel = self._engine.generated(module, spec, self._target)
        return LaunchedLoop(kernel, meta.ctypes.data, items, even_grain(items, grain, self._threads))

    def __call__(
        self,
        launch: Launch,
        outputs: Sequence[int],
        a: Sequence[int | float],
        b: Sequence[int | float],
        *operands: int | float,
    ) -> None:
        """Compute the product of operands that are addresses and numbers.

        If there are `packings`, a and b are the addresses of their results, but with `strips` b is the operand itself.
        An output may be the memory of an operand of the epilogue with the same strides.
        """
        if not self.empty:
            launch(*self.multiply, *a, *b, *outputs, *operands)
