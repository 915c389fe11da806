"""The sums of one tile of a matrix product, in three forms that differ in how the operands are read.

packed  panels of A and B, whose units stand in the order in which the steps read them
outer   A by single units and B by vectors of columns, both where they are: for B with neighbouring columns
inner   A and B by vectors along K, both where they are, for one group of columns after the other; the lanes of each
        accumulator are added at the end: for A and B whose elements along K are neighbours

The last two read each element of an operand once for every tile that it is in, and in no better order than the operand
has, so they are for small products and for those of few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

from npu_tensor.runtime.cpu.gemm_micro import (
    Elements,
    Operand,
    Unit,
    broadcast,
    byte_offset,
    emit_products,
    first_of,
    in_order,
    load_value,
    sum_each,
    unit_lanes,
    unpack,
)
from npu_tensor.runtime.cpu.ir_emitter import Emitter
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import ELEMENT_SIZE, Value

__all__ = ["Form", "TileSpec", "emit_sums"]

Form = Literal["packed", "outer", "inner"]

# int8_quad multiplies unsigned elements of A, which are 128 too large, by signed ones of B. The products of a row of A
# that is all 128 are subtracted.
_QUAD_OF_128 = -0x7F7F7F80
_FLIP_SIGNS = -0x7F7F7F80

_CACHE_LINE = 64


class TileSpec(NamedTuple):
    """Parameters of the code of a tile."""

    unit: Unit
    form: Form
    rows: int
    columns: int
    dtype_a: str = ""  # in memory; no matter in the packed form
    dtype_b: str = ""
    ahead: int = 0  # lines of B, as MULTIPLY_META has them, that are prefetched so early
    group: int = 0  # columns whose sums are accumulated together in the inner form

    def lanes(self, target: CpuTarget) -> int:
        """Return the number of units of a vector."""
        return unit_lanes(self.unit, target)

    @property
    def shifted(self) -> bool:
        """True if A is multiplied as unsigned."""
        return self.unit.name == "int8_quad"


class _Place(NamedTuple):
    """Position of a tile: matrices of its product, panels, and first row and column."""

    a: Value
    b: Value
    a_panel: Value
    b_panel: Value
    first_row: Value
    first_column: Value


def emit_sums(
    emitter: Emitter, tile: TileSpec, meta: Mapping[str, Value], a: Value, b: Value, a_panel: Value, b_panel: Value
) -> list[Value]:
    """Return the sums row by row, as vectors of columns.

    Args:
        emitter: Emitter of the kernel.
        tile: Parameters of the tile.
        meta: `MULTIPLY_META` of the product.
        a: Address of matrix A, packed or not.
        b: Address of matrix B, packed or not.
        a_panel: Number of the panel of A.
        b_panel: Number of the panel of B.
    """
    rows, columns = emitter.mul(a_panel, tile.rows), emitter.mul(b_panel, tile.columns)
    place = _Place(a, b, a_panel, b_panel, rows, columns)
    if tile.form == "packed":
        return _packed(emitter, tile, meta, place)
    return (_outer if tile.form == "outer" else _inner)(emitter, tile, meta, place)


def _packed(emitter: Emitter, tile: TileSpec, meta: Mapping[str, Value], place: _Place) -> list[Value]:
    """Return the sums of packed operands. With int8_quad, B has the initial value of each column before its units."""
    unit, lanes = tile.unit, tile.lanes(emitter.target)
    vectors, vector_bytes = tile.columns // lanes, lanes * unit.bytes
    type_ = f"<{lanes} x {unit.accumulator}>"

    def load_a(pointer: Value) -> Iterator[Value]:
        for row in range(tile.rows):
            yield broadcast(emitter, load_value(emitter, unit.accumulator, pointer, row, align=unit.bytes), lanes)

    def load_b(pointer: Value) -> list[Value]:
        return [load_value(emitter, type_, pointer, j, align=vector_bytes) for j in range(vectors)]

    a = byte_offset(emitter, place.a, emitter.mul(place.a_panel, meta["a_panel_bytes"]))
    b = byte_offset(emitter, place.b, emitter.mul(place.b_panel, meta["b_panel_bytes"]))
    initial = [Value("zeroinitializer", type_)] * vectors
    if tile.shifted:
        initial, b = load_b(b), byte_offset(emitter, b, vectors * vector_bytes)
    from_a = Operand(tile.rows, a, tile.rows * unit.bytes, load_a)
    from_b = Operand(vectors, b, vectors * vector_bytes, load_b)
    return emit_products(emitter, unit, from_a, from_b, meta["steps"], initial * tile.rows)


def _lines(emitter: Emitter, first: Value, count: int, end: Value, stride: Value) -> list[Value]:
    """Return byte offsets of lines. Lines past the end are the last line, whose products are not read."""
    last = emitter.sub(end, 1)
    return [emitter.mul(emitter.smaller(emitter.add(first, i), last), stride) for i in range(count)]


def _without_shift(emitter: Emitter, totals: Sequence[Value], columns: int) -> list[Value]:
    """Return the sums of all rows of A but the last, which is that of `_QUAD_OF_128`."""
    *rows, correction = (totals[i : i + columns] for i in range(0, len(totals), columns))
    return [emitter.sub(total, extra) for row in rows for total, extra in zip(row, correction, strict=True)]


def _outer(emitter: Emitter, tile: TileSpec, meta: Mapping[str, Value], place: _Place) -> list[Value]:
    unit, lanes = tile.unit, tile.lanes(emitter.target)
    vectors = tile.columns // lanes
    elements_a, elements_b = Elements(emitter, unit, tile.dtype_a), Elements(emitter, unit, tile.dtype_b)
    rows = _lines(emitter, place.first_row, tile.rows, meta["m"], meta["a_line_bytes"])
    size = ELEMENT_SIZE[tile.dtype_b]
    left = emitter.sub(meta["n"], place.first_column)
    type_ = f"<{lanes} x {unit.accumulator}>"

    def load_a(pointer: Value) -> Iterator[Value]:
        for offset in rows:
            address = byte_offset(emitter, pointer, offset)
            if unit.count == 1:
                yield broadcast(emitter, elements_a.load(1, address), lanes)
                continue
            units = broadcast(emitter, load_value(emitter, unit.bits, address, align=1), lanes)
            yield emitter.op("xor", units, _FLIP_SIGNS) if tile.shifted else units
        if tile.shifted:
            yield emitter.constant(_QUAD_OF_128, type_)

    # Vectors are read in groups of as many as a unit has elements, so that whole registers are interleaved.
    per_group = unit.count * lanes

    def products(masks: Sequence[Value | None]) -> list[Value]:
        def load_b(pointer: Value) -> Iterator[Value]:
            steps = [byte_offset(emitter, pointer, emitter.mul(meta["b_line_bytes"], i)) for i in range(unit.count)]
            for step in steps:
                ahead = byte_offset(emitter, step, emitter.mul(meta["b_line_bytes"], tile.ahead * unit.count))
                for column in range(0, tile.columns * size, _CACHE_LINE):
                    emitter.prefetch(byte_offset(emitter, ahead, column))
            for j, mask in enumerate(masks):
                places = [byte_offset(emitter, step, j * per_group * size) for step in steps]
                yield from unpack(emitter, unit, [elements_b.load(per_group, each, mask) for each in places])

        from_a = Operand(tile.rows + tile.shifted, place.a, meta["a_step_bytes"], load_a)
        start = byte_offset(emitter, place.b, emitter.mul(place.first_column, size))
        from_b = Operand(len(masks) * unit.count, start, emitter.mul(meta["b_line_bytes"], unit.count), load_b)
        initial = [Value("zeroinitializer", type_)] * (vectors * (tile.rows + tile.shifted))
        totals = emit_products(emitter, unit, from_a, from_b, meta["steps"], initial)
        if tile.shifted:
            totals = _without_shift(emitter, totals, vectors)
        if unit.count == 1:
            return totals
        groups = [totals[i : i + unit.count] for i in range(0, len(totals), unit.count)]
        return [total for group in groups for total in in_order(emitter, group, lanes)]

    def edge() -> list[Value]:
        lefts = [emitter.sub(left, first) for first in range(0, tile.columns, per_group)]
        return products([first_of(emitter, each, per_group) for each in lefts])

    # Without AVX512, LLVM makes a branch per element of most masked loads.
    if emitter.target.has_avx512:
        return edge()
    whole = emitter.compare("sge", left, tile.columns)
    return emitter.branch(whole, lambda: products([None] * (vectors // unit.count)), edge)


def _inner(emitter: Emitter, tile: TileSpec, meta: Mapping[str, Value], place: _Place) -> list[Value]:
    unit, lanes = tile.unit, tile.lanes(emitter.target)
    elements, type_ = lanes * unit.count, f"<{lanes} x {unit.accumulator}>"
    of_a = Elements(emitter, unit, tile.dtype_a, flip_sign=tile.shifted)
    of_b = Elements(emitter, unit, tile.dtype_b)
    rows = _lines(emitter, place.first_row, tile.rows, meta["m"], meta["a_line_bytes"])
    # The last vector of a line ends with the line. Lanes of it that are in the vector before count as zero.
    overlap = emitter.sub(elements, meta["rest"])
    last, repeated = emitter.sub(emitter.mul(meta["steps"], elements), overlap), first_of(emitter, overlap, elements)
    ahead = emitter.mul(meta["b_line_bytes"], tile.ahead)

    def sums(first_column: Value) -> list[Value]:
        """Return the sums of a group of columns: for each row, vectors of at most as many sums as lanes."""
        columns = _lines(emitter, first_column, tile.group, meta["n"], meta["b_line_bytes"])

        def products(
            first: Value, steps: Value | int, totals: Sequence[Value], omitted: Value | None = None
        ) -> list[Value]:
            def load(of: Elements, lines: Sequence[Value], pointer: Value) -> Iterator[Value]:
                for line in lines:
                    value = of.load(elements, byte_offset(emitter, pointer, line))
                    zero = Value("zeroinitializer", value.type)
                    yield of.units(emitter.select(omitted, zero, value) if omitted else value)

            def load_a(pointer: Value) -> Iterator[Value]:
                yield from load(of_a, rows, pointer)
                if tile.shifted:
                    yield emitter.constant(_QUAD_OF_128, type_)

            def load_b(pointer: Value) -> Iterator[Value]:
                if tile.ahead:
                    later = byte_offset(emitter, pointer, ahead)
                    for line in columns:
                        emitter.prefetch(byte_offset(emitter, later, line))
                yield from load(of_b, columns, pointer)

            def operand(count: int, of: Elements, start: Value, load: Callable[[Value], Iterable[Value]]) -> Operand:
                size = ELEMENT_SIZE[of.dtype]
                return Operand(count, byte_offset(emitter, start, emitter.mul(first, size)), elements * size, load)

            from_a = operand(tile.rows + tile.shifted, of_a, place.a, load_a)
            from_b = operand(tile.group, of_b, place.b, load_b)
            return emit_products(emitter, unit, from_a, from_b, steps, totals)

        initial = [Value("zeroinitializer", type_)] * ((tile.rows + tile.shifted) * tile.group)
        totals = products(emitter.constant(0, "i64"), meta["steps"], initial)
        has_rest = emitter.compare("sgt", meta["rest"], 0)
        totals = emitter.branch(has_rest, lambda: products(last, 1, totals, repeated), lambda: totals)
        if tile.shifted:
            totals = _without_shift(emitter, totals, tile.group)
        size = min(tile.group, lanes)
        return [sum_each(emitter, totals[i : i + size]) for i in range(0, len(totals), size)]

    groups = [sums(place.first_column)]
    none = [Value("zeroinitializer", vector.type) for vector in groups[0]]
    for first in range(tile.group, tile.columns, tile.group):
        column = emitter.add(place.first_column, first)
        exists = emitter.compare("slt", column, meta["n"])
        groups.append(emitter.branch(exists, partial(sums, column), lambda: none))
    while len(groups) > 1:
        order, pairs = range(2 * groups[0][0].lanes), zip(groups[::2], groups[1::2], strict=True)
        groups = [[emitter.shuffle(a, order, b) for a, b in zip(*pair, strict=True)] for pair in pairs]
    return groups[0]
