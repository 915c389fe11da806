"""Design of a tiled matrix product on `rows` x `columns` cores.

A's rows lie in the memtiles of some columns and go to all cores of a row, B's columns go to all cores of a column, and
the results of a column's cores are joined in its memtile. A core sums one tile over all of K in memory that no DMA
touches, then rounds and stores it a few rows at a time. A core has only two input channels. The operands of the
epilogue therefore follow A and B through their fifos: a number per column of the result after B, a number per row after
A.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import Any, Final

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.checks.limits import QUEUE_DEPTH
from npu_tensor.dataflow.columns import Step, core_tiles, pipeline
from npu_tensor.dataflow.design import (
    AccessPattern,
    Builder,
    Configuration,
    Design,
    KernelFunction,
    ObjectFifo,
    ObjectType,
    SequenceBuilder,
    Source,
    range_,
)
from npu_tensor.kernels.codegen.emitter import REGISTERS
from npu_tensor.kernels.gemm.epilogue import Epilogue
from npu_tensor.kernels.gemm.tiling import (
    LANES,
    GemmProblem,
    Tiling,
    clear_cycles,
    product_cycles,
    separates,
    spread_cycles,
    store_cycles,
    sums_address,
)
from npu_tensor.kernels.offer import Located

C_TYPES: Final = {**REGISTERS, "bfloat16": "bfloat16"}
BLOCK_FLOATS: Final = "#define AIE_API_EMULATE_BFLOAT16_MMUL_WITH_BFP16 1\n"
MULTIPLY_BYTES: Final = 3072
SMALL_BYTES: Final = 256
"""Estimated machine code of the product, and of each function that clears sums or spreads a row; in bytes."""


def store_source(problem: GemmProblem, extents: tuple[int, int, int], store_rows: int, epilogue: Epilogue) -> str:
    """Generate the head of a source, with the type of a core's tile, and the function that stores rows of sums.

    extents: M, K and N of the tile.
    """
    r, s, t, rows, columns = problem.blocks
    operand, result = C_TYPES[problem.stored], C_TYPES[problem.result]
    total = C_TYPES[problem.word]
    names = [f"row{i}" for i in range(problem.row_operands)] + [f"column{i}" for i in range(problem.column_operands)]
    held = "".join(f", const {total} *__restrict {name}" for name in names)
    scalars = ", const int32 *__restrict words" if epilogue.scalars else ""
    lines = "\n".join(f"    {line}" for line in epilogue.hoisted)
    body = "\n".join(f"            {line}" for line in epilogue.body)
    include = "packed_gemm" if problem.packed else "gemm"
    own = f'{problem.product.text}\n#line 1 "nt_gemm"\n' if problem.product else ""
    shape = ", ".join(map(str, (r, s, t, rows, columns, *extents)))
    emulates = problem.operand == "bfp16" and not problem.packed
    return f"""{BLOCK_FLOATS if emulates else ""}{own}#include <aie_api/aie.hpp>

#include "nt/{include}.hpp"
#include "nt/vector_math.hpp"

using Tile = nt::GemmTile<{shape}, {str(problem.transposed).lower()}, {operand}, {total}>;

extern "C" void nt_gemm_store({total} *__restrict sums, int32 *__restrict cursor{held}{scalars},
                              {result} *__restrict result) {{
    aie::set_rounding(aie::rounding_mode::conv_even);
    constexpr unsigned block = Tile::R * Tile::T, rows = {store_rows};
    const unsigned position = nt::advance(cursor, rows * Tile::N, Tile::M * Tile::N);
    sums += position;
    unsigned down = position / Tile::N * Tile::T;
{lines}
    for (unsigned i = 0; i < rows; i += Tile::R, down += block) {{
        {epilogue.hint}
        for (unsigned j = 0; j < Tile::R * Tile::N; j += 16) {{
            [[maybe_unused]] const unsigned across = j / block * 16, within = down + j % block;
{body}
            nt::store(result + j, {epilogue.value});
        }}
        sums += Tile::R * Tile::N;
        result += Tile::R * Tile::N;
    }}
}}
"""


def source(problem: GemmProblem, tiling: Tiling, epilogue: Epilogue) -> Source:
    """Generate the functions of a core."""
    operand, total = C_TYPES[problem.stored], C_TYPES[problem.word]
    right, spread = operand, "spread_row"
    multiply = "nt::multiply<Tile>(a, b, sums, cursor);"
    if problem.packed:
        right, spread, multiply = "uint8", "spread_words", "nt::multiply_packed<Tile>(a, b, sums, cursor);"
    if problem.operand == LANES:
        multiply = "nt::multiply_lanes<Tile>(a, b, sums, cursor);"
    if problem.product:
        multiply = f"{problem.product.name}(a, b, sums + nt::advance(cursor, Tile::slice, Tile::M * Tile::N));"
    text = store_source(problem, (tiling.m, tiling.k, tiling.n), tiling.store_rows(problem.blocks), epilogue)
    text += f"""
extern "C" void nt_gemm_clear({total} *__restrict sums) {{ nt::clear_sums<Tile>(sums); }}

extern "C" void nt_gemm_multiply(const {operand} *__restrict a, const {right} *__restrict b, {total} *__restrict sums,
                                 int32 *__restrict cursor) {{
    {multiply}
}}
"""
    if problem.row_operands:
        text += f"""
extern "C" void nt_gemm_spread_row(const {right} *__restrict object, {total} *__restrict row) {{
    nt::{spread}<Tile>(reinterpret_cast<const int32 *>(object), reinterpret_cast<int32 *>(row));
}}
"""
    if problem.column_operands:
        text += f"""
extern "C" void nt_gemm_spread_column(const {operand} *__restrict slice, {total} *__restrict column,
                                      int32 *__restrict cursor) {{
    nt::spread_column<Tile>(reinterpret_cast<const int32 *>(slice), reinterpret_cast<int32 *>(column), cursor);
}}
"""
    return Source("nt_gemm", text)


def design(
    problem: GemmProblem,
    tiling: Tiling,
    epilogue: Epilogue,
    a: Located,
    b: Located,
    batch: tuple[int, ...] = (),
) -> Design:
    """Build the design of one product.

    The host buffers are A, B, row operands, column operands and C [batch, M, N], with padded extents.
    """
    return _Sequence(problem, tiling, a, b, batch, configuration(problem.unshaped, tiling, epilogue)).build()


def b_objects(problem: GemmProblem, elements: int) -> ObjectType:
    """Return the type of an object with a number of elements of B."""
    if problem.packed:
        return ObjectType("uint8", (problem.b_nbytes(elements),))
    return ObjectType(problem.stored, (elements,))


@lru_cache(maxsize=64)
def configuration(problem: GemmProblem, tiling: Tiling, epilogue: Epilogue) -> Configuration:
    """Return the configuration that serves products of all extents; the problem has none.

    The last word of every core's runtime parameter is the number of steps in K after the first one.
    """
    builder = _ConfigurationBuilder(problem, tiling, epilogue)
    builder.dataflow()
    return builder.builder.configuration


class _ConfigurationBuilder:
    """Builder of a configuration. groups: number of memtiles that serve the cores with A."""

    def __init__(self, problem: GemmProblem, tiling: Tiling, epilogue: Epilogue) -> None:
        self.problem, self.tiling, self.epilogue = problem, tiling, epilogue
        self.groups = tiling.rows // tiling.shared
        word = problem.word
        self.sums = ObjectType(word, (tiling.m * tiling.n,))
        self.row = ObjectType(word, (tiling.n // problem.blocks.t * 16,))
        self.column = ObjectType(word, (tiling.m * problem.blocks.t,))
        self.cursor = ObjectType("int32", (1,))
        self.words = ObjectType("int32", (epilogue.scalars + 1,))
        self.slice_rows = problem.blocks.rows * problem.blocks.r
        self.a_type = ObjectType(problem.stored, (self.slice_rows * tiling.k,))
        self.b_type = b_objects(problem, tiling.k * tiling.n)
        self.c_type = ObjectType(problem.result, (tiling.store_rows(problem.blocks) * tiling.n,))
        name = f"gemm_{problem.operand}_{problem.result}"
        arguments = 3 + problem.row_operands + problem.column_operands
        self.builder = Builder(name, problem.arch, problem.columns, arguments)

    # --- fifos and workers

    def dataflow(self) -> None:
        """Add all fifos and workers."""
        to_cores = [fifo for group in range(self.groups) for fifo in self._a_fifos(group)]
        functions = self._functions()
        for column in range(self.tiling.columns):
            b, results = self._b_fifo(column), self._c_fifos(column)
            for row, result in enumerate(results):
                self._worker(Tile(column, 2 + row), to_cores[row], b, result, functions)

    def _a_fifos(self, group: int) -> list[ObjectFifo]:
        """Add the fifos from the host through one memtile to `shared` rows of cores."""
        d, tiling, s, operand = self.builder, self.tiling, self.problem.blocks.s, self.problem.stored
        column = group * tiling.columns // self.groups
        memtile = Tile(column, 1)
        # A slice arrives row by row and is stored in the core as [k/s][rows][s].
        stored = [(self.slice_rows, s), (tiling.k // s, self.slice_rows * s), (s, 1)]
        parts = []
        for i in range(tiling.shared):
            row = [Tile(column, 2 + group * tiling.shared + i) for column in range(tiling.columns)]
            parts.append(d.fifo(f"a{group}_{i}", self.a_type, memtile, row, dims_from_stream=[stored] * len(row)))
        if tiling.shared > 1:
            whole = ObjectType(operand, (tiling.shared * self.a_type.elements,))
            source = d.fifo(f"a{group}", whole, Tile(column, 0), [memtile])
            d.split(source, parts)
        else:
            # Rows of K/k steps arrive and are stored in the memtile as [K/k][m][k].
            steps = [(tiling.m, tiling.k), (tiling.steps, tiling.m * tiling.k), (tiling.k, 1)]
            whole = ObjectType(operand, (tiling.m * tiling.memtile_k,))
            source = d.fifo(f"a{group}", whole, Tile(column, 0), [memtile], dims_from_stream=[steps])
            d.forward(source, parts[0])
        return parts

    def _b_fifo(self, column: int) -> ObjectFifo:
        """Add the fifo from the host to all cores of a column. The memtile stores the blocks in the core's order."""
        d, tiling, (_, s, t, _, _) = self.builder, self.tiling, self.problem.blocks
        n, k = tiling.n, tiling.memtile_k
        orders = [[(k // s, s * n), (s, t), (n // t, s * t), (t, 1)]]
        if self.problem.packed:
            orders = []
        elif self.problem.transposed:
            orders = [[(n, s), (k // s, n * s), (s, 1)]]
        memtile = Tile(column, 1)
        whole = b_objects(self.problem, k * n)
        source = d.fifo(f"b{column}", whole, Tile(column, 0), [memtile], dims_from_stream=orders)
        result = d.fifo(f"b{column}_0", self.b_type, memtile, core_tiles(column, tiling.rows))
        d.forward(source, result)
        return result

    def _c_fifos(self, column: int) -> list[ObjectFifo]:
        """Add the fifos from the cores of a column through the memtile to the host."""
        d, tiling, (r, _, t, _, _) = self.builder, self.tiling, self.problem.blocks
        rows, n = tiling.store_rows(self.problem.blocks), tiling.n
        whole = ObjectType(self.problem.result, (tiling.rows * rows * n,))
        order = [(rows // r, r * n), (r, t), (n // t, r * t), (t, 1)]
        memtile = Tile(column, 1)
        cores = core_tiles(column, tiling.rows)
        parts = [d.fifo(f"c{column}_{i}", self.c_type, core, [memtile]) for i, core in enumerate(cores)]
        result = d.fifo(f"c{column}", whole, memtile, [Tile(column, 0)], dims_to_stream=order)
        d.join(parts, result)
        return parts

    def _functions(self) -> dict[str, KernelFunction]:
        problem, tiling = self.problem, self.tiling
        code = source(problem, tiling, self.epilogue)
        extra = [self.row] * problem.row_operands + [self.column] * problem.column_operands
        if self.epilogue.scalars:
            extra.append(self.words)
        sums, cursor, stored = self.sums, self.cursor, tiling.store_rows(problem.blocks)
        functions = {
            "clear": ([sums], clear_cycles(problem, tiling.m, tiling.n), SMALL_BYTES),
            "multiply": (
                [self.a_type, self.b_type, sums, cursor],
                problem.product.cycles if problem.product else product_cycles(problem, tiling),
                MULTIPLY_BYTES,
            ),
            "store": (
                [sums, cursor, *extra, self.c_type],
                store_cycles(problem, stored, tiling.n),
                self.epilogue.program_bytes,
            ),
        }
        if problem.row_operands:
            functions["spread_row"] = ([self.b_type, self.row], spread_cycles(tiling.n), SMALL_BYTES)
        if problem.column_operands:
            cycles = spread_cycles(self.slice_rows)
            functions["spread_column"] = ([self.a_type, self.column, cursor], cycles, SMALL_BYTES)
        return {
            name: self.builder.function(f"nt_gemm_{name}", arguments, code, int(cycles), program_bytes)
            for name, (arguments, cycles, program_bytes) in functions.items()
        }

    def _worker(
        self, tile: Tile, a: ObjectFifo, b: ObjectFifo, c: ObjectFifo, functions: dict[str, KernelFunction]
    ) -> None:
        d, problem, tiling = self.builder, self.problem, self.tiling
        name = f"{tile.column}_{tile.row}"
        address = int(sums_address(problem, tiling)) if separates(problem, tiling) else None
        sums = d.core_buffer(f"sums{name}", tile, self.sums, address=address)
        cursor = d.core_buffer(f"cursor{name}", tile, self.cursor, bytes(4))
        rows = [d.core_buffer(f"row{i}_{name}", tile, self.row) for i in range(problem.row_operands)]
        columns = [d.core_buffer(f"column{i}_{name}", tile, self.column) for i in range(problem.column_operands)]
        extra: list[Any] = [*rows, *columns]
        words = d.parameter(f"words{name}", tile, *self.words.shape)
        if self.epilogue.scalars:
            extra.append(words)
        slices = tiling.m // self.slice_rows
        stores = tiling.m // tiling.store_rows(problem.blocks)

        def body(a: Any, b: Any, c: Any) -> None:
            def step() -> None:
                right = b.acquire(1)
                for _ in range_(slices):
                    functions["multiply"](a.acquire(1), right, sums, cursor)
                    a.release(1)
                b.release(1)

            functions["clear"](sums)
            step()  # The words can be read from here on.
            for _ in range_(words[self.epilogue.scalars]):
                step()
            for row in rows:
                functions["spread_row"](b.acquire(1), row)
                b.release(1)
                for _ in range_(tiling.steps - 1):
                    b.acquire(1)
                    b.release(1)
            for column in columns:
                for _ in range_(slices):
                    functions["spread_column"](a.acquire(1), column, cursor)
                    a.release(1)
                for _ in range_((tiling.a_run // tiling.k - 1) * slices):
                    a.acquire(1)
                    a.release(1)
            for _ in range_(stores):
                functions["store"](sums, cursor, *extra, c.acquire(1))
                c.release(1)

        d.worker(tile, body, [a, b, c])


class _Sequence:
    """Transfers of one product. m, n, k: padded extents."""

    def __init__(
        self,
        problem: GemmProblem,
        tiling: Tiling,
        a: Located,
        b: Located,
        batch: tuple[int, ...],
        configuration: Configuration,
    ) -> None:
        self.problem, self.tiling, self.batch = problem, tiling, batch
        self.in_a, self.in_b = a, b
        self.m, self.n, self.k = map(int, tiling.padded(problem))
        self.builder = d = SequenceBuilder(configuration)
        self.a = d.host_buffer("a", problem.stored, a.elements)
        self.b = d.host_buffer("b", "uint8" if problem.packed else problem.stored, b.elements)
        wide, tall = tiling.row_elements(problem), tiling.column_elements(problem)
        self.rows = [d.host_buffer(f"row{i}", problem.word, wide) for i in range(problem.row_operands)]
        self.columns = [d.host_buffer(f"column{i}", problem.word, tall) for i in range(problem.column_operands)]
        self.c = d.host_buffer("c", problem.result, problem.batch * self.m * self.n)
        self.groups = tiling.rows // tiling.shared
        self.a_in = [configuration.fifo(f"a{group}") for group in range(self.groups)]
        self.b_in = [configuration.fifo(f"b{column}") for column in range(tiling.columns)]
        self.c_out = [configuration.fifo(f"c{column}") for column in range(tiling.columns)]

    def build(self) -> Design:
        """Build the design: one array tile after another, with as many in flight as the channel queues hold."""
        for parameter in self.builder.configuration.parameters:
            self.builder.write(parameter, [self.k // self.tiling.k - 1])
        in_flight = QUEUE_DEPTH // (1 + max(self.problem.row_operands, self.problem.column_operands))
        pipeline(self.builder, (self._steps(*tile) for tile in self._array_tiles()), in_flight)
        return self.builder.build()

    def _array_tiles(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield for each array tile the start of A and B, the index of C, and the first row and column."""
        tiling = self.tiling
        height, width = tiling.rows * tiling.m, tiling.columns * tiling.n
        for c, index in enumerate(product(*map(range, self.batch))):
            a, b = self.in_a.at(*index), self.in_b.at(*index)
            for i in range(0, self.problem.m, height):
                for j in range(0, self.problem.n, width):
                    yield a, b, c, min(i, self.m - height), min(j, self.n - width)

    def _steps(self, a: int, b: int, c: int, i: int, j: int) -> Iterator[Step]:
        """Yield the transfers of one array tile."""
        tiling, step, row = self.tiling, self.tiling.a_run, self.in_a.row
        rows = tiling.shared * tiling.m
        for number, fifo in enumerate(self.a_in):
            top = i + number * rows
            yield Step(fifo, self.a, AccessPattern(a + top * row, (1, self.k // step, rows, step), (0, step, row, 1)))
            yield from (Step(fifo, column, self._begin_rows(top, rows, step)) for column in self.columns)
        for number, fifo in enumerate(self.b_in):
            left = j + number * tiling.n
            yield Step(fifo, self.b, self._panel(b, j, number) if self.problem.packed else self._b_pattern(b, left))
            yield from (Step(fifo, row, self._row_pattern(left)) for row in self.rows)
        for column, fifo in enumerate(self.c_out):
            yield Step(fifo, self.c, self._c_pattern(c, i, j + column * tiling.n))

    def _begin_rows(self, first: int, rows: int, elements: int) -> AccessPattern:
        """Return a pattern over rows that each begin with one word of a vector and continue with the words after it.

        The rows match those of A or B.
        """
        return AccessPattern(first, (1, 1, rows, elements * self.problem.sizes[0] // 4), (0, 0, 1, 1))

    def _panel(self, b: int, j: int, column: int) -> AccessPattern:
        """Return the pattern of a panel of packed columns."""
        nbytes, tiling = self.in_b.row, self.tiling
        tile = -(-j // (tiling.columns * tiling.n))
        return AccessPattern.linear(nbytes, b + (tile * tiling.columns + column) * nbytes)

    def _b_pattern(self, b: int, j: int) -> AccessPattern:
        k, n, step, row = self.k, self.tiling.n, self.tiling.memtile_k, self.in_b.row
        if self.problem.transposed:
            return AccessPattern(b + j * row, (1, k // step, n, step), (0, step, row, 1))
        return AccessPattern(b + j, (1, k // step, step, n), (0, step * row, row, 1))

    def _row_pattern(self, j: int) -> AccessPattern:
        """Return the pattern of one object of B's fifo: one word at the start of each row, or consecutive words."""
        elements = self.tiling.memtile_k * self.tiling.n
        if self.problem.transposed and not self.problem.packed:
            return self._begin_rows(j, self.tiling.n, self.tiling.memtile_k)
        return AccessPattern.linear(self.problem.b_nbytes(elements) // 4, j)

    def _c_pattern(self, c: int, i: int, j: int) -> AccessPattern:
        tiling = self.tiling
        rows = tiling.store_rows(self.problem.blocks)
        return AccessPattern(
            (c * self.m + i) * self.n + j,
            (tiling.m // rows, self.groups, tiling.shared * rows, tiling.n),
            (tiling.shared * rows * self.n, tiling.shared * tiling.m * self.n, self.n, 1),
        )
