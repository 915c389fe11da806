"""The kernel that multiplies, tile by tile, and applies the epilogue to each tile of the result.

The sums of a tile have six forms, which differ in how the operands are read:

packed     panels of A and B, whose units stand in the order in which the steps read them
outer      A by single units and B by vectors of columns, both where they are: for B with neighbouring columns
inner      A and B by vectors along K, both where they are, for one group of columns after the other; the lanes of each
           accumulator are added at the end: for A and B whose elements along K are neighbours
windows    A by single units where it is, and packed panels of B: a row of A is what a kernel covers of an image, one
           run of channels per place of the kernel, at the offsets in a table
streamed   A by single units and B by whole rows, some at a time; the sums are in memory. For few rows and a large B,
           which is then read in the order of its memory
depthwise  like windows, but a column of the result is the sum of its own column of A, weighted by its column of B

Outer and inner read each element of an operand once for every tile that it is in, and in no better order than the
operand has, so they are for small products and for those of few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

from npu_tensor.ops.expression import Program
from npu_tensor.ops.primitives import PRIMITIVES
from npu_tensor.runtime.cpu.gemm_micro import (
    Elements,
    Operand,
    Unit,
    emit_products,
    first_of,
    in_order,
    multiply_add,
    sum_each,
    unit_lanes,
    unpack,
)
from npu_tensor.runtime.cpu.ir_emitter import META, POINTERS, Emitter
from npu_tensor.runtime.cpu.primitive_ir import emit_program
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import ELEMENT_SIZE, Value

Form = Literal["packed", "outer", "inner", "streamed", "windows", "depthwise"]

# int8_quad multiplies unsigned elements of A, which are 128 too large, by signed ones of B. The products of a row of A
# that is all 128 are subtracted.
_QUAD_OF_128 = -0x7F7F7F80
_FLIP_SIGNS = -0x7F7F7F80

_CACHE_LINE = 64


class Line(NamedTuple):
    """Line of a depthwise kernel, along the last dimension of the image.

    Attributes:
        size: Number of elements.
        step: Distance between positions, in places.
        gap: Distance between elements, in places.
        is_shared: True if all rows of a tile are neighbouring positions of one line, which share places.
    """

    size: int
    step: int
    gap: int
    is_shared: bool

    def readers(self, rows: int) -> list[list[tuple[int, int]]]:
        """Return the row of the tile and the element of the line that read each place."""
        places: dict[object, list[tuple[int, int]]] = {}
        for row in range(rows):
            for element in range(self.size):
                place = row * self.step + element * self.gap if self.is_shared else (row, element)
                places.setdefault(place, []).append((row, element))
        return [*places.values()]


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
    is_inside: bool = False  # no window reaches outside the image
    line: Line | None = None  # of the depthwise form

    @property
    def shifted(self) -> bool:
        """True if A is multiplied as unsigned."""
        return self.unit.name == "int8_quad"


class _Place(NamedTuple):
    """Position of a tile: matrices of its product, panels, first row and column, and the part of K.

    Attributes:
        start: First step, or first run of windows, of the part.
        length: Number of steps or runs.
        sums: Sums of earlier parts.
        runs_at: Function from the number of a run to its addresses, one for each row of the tile.
        addresses: Table of the addresses that `Line.readers` needs, for each line of a depthwise kernel.
    """

    a: Value
    b: Value
    a_panel: Value
    b_panel: Value
    first_row: Value
    first_column: Value
    start: Value
    length: Value
    sums: Sequence[Value]
    runs_at: Callable[[Value], list[Value]] | None
    addresses: Value | None


def _packed(emitter: Emitter, tile: TileSpec, meta: Mapping[str, Value], place: _Place) -> list[Value]:
    """Return the sums of packed operands. With int8_quad, B has the initial value of each column before its units."""
    unit, lanes = tile.unit, unit_lanes(tile.unit, emitter.target)
    vectors, vector_bytes = tile.columns // lanes, lanes * unit.bytes
    type_ = f"<{lanes} x {unit.accumulator}>"

    def load_a(pointer: Value) -> Iterator[Value]:
        for row in range(tile.rows):
            yield emitter.broadcast(emitter.load_value(unit.accumulator, pointer, row, align=unit.bytes), lanes)

    def load_b(pointer: Value) -> list[Value]:
        return [emitter.load_value(type_, pointer, j, align=vector_bytes) for j in range(vectors)]

    a = emitter.byte_offset(place.a, emitter.mul(place.a_panel, meta["a_panel_bytes"]))
    b = emitter.byte_offset(place.b, emitter.mul(place.b_panel, meta["b_panel_bytes"]))
    sums = place.sums
    if tile.shifted:
        at_first = emitter.compare("eq", place.start, 0)
        sums = emitter.branch(at_first, lambda: load_b(b) * tile.rows, lambda: place.sums)
        b = emitter.byte_offset(b, vectors * vector_bytes)
    a_bytes, b_bytes = tile.rows * unit.bytes, vectors * vector_bytes
    from_a = Operand(tile.rows, emitter.byte_offset(a, emitter.mul(place.start, a_bytes)), a_bytes, load_a)
    from_b = Operand(vectors, emitter.byte_offset(b, emitter.mul(place.start, b_bytes)), b_bytes, load_b)
    return emit_products(emitter, unit, from_a, from_b, place.length, sums)


def _lines(emitter: Emitter, first: Value, count: int, end: Value, stride: Value) -> list[Value]:
    """Return byte offsets of lines."""
    return [emitter.mul(line, stride) for line in emitter.up_to(first, count, end)]


def _without_shift(emitter: Emitter, totals: Sequence[Value], columns: int) -> list[Value]:
    """Return the sums of all rows of A but the last, which is that of `_QUAD_OF_128`."""
    *rows, correction = (totals[i : i + columns] for i in range(0, len(totals), columns))
    return [emitter.sub(total, extra) for row in rows for total, extra in zip(row, correction, strict=True)]


def _outer(emitter: Emitter, tile: TileSpec, meta: Mapping[str, Value], place: _Place) -> list[Value]:
    unit, lanes = tile.unit, unit_lanes(tile.unit, emitter.target)
    vectors = tile.columns // lanes
    elements_a, elements_b = Elements(emitter, unit, tile.dtype_a), Elements(emitter, unit, tile.dtype_b)
    rows = _lines(emitter, place.first_row, tile.rows, meta["m"], meta["a_line_bytes"])
    size = ELEMENT_SIZE[tile.dtype_b]
    left = emitter.sub(meta["n"], place.first_column)
    type_ = f"<{lanes} x {unit.accumulator}>"

    def load_a(pointer: Value) -> Iterator[Value]:
        for offset in rows:
            address = emitter.byte_offset(pointer, offset)
            if unit.count == 1:
                yield emitter.broadcast(elements_a.load(1, address), lanes)
                continue
            units = emitter.broadcast(emitter.load_value(unit.bits, address, align=1), lanes)
            yield emitter.op("xor", units, _FLIP_SIGNS) if tile.shifted else units
        if tile.shifted:
            yield emitter.constant(_QUAD_OF_128, type_)

    # Vectors are read in groups of as many as a unit has elements, so that whole registers are interleaved.
    per_group = unit.count * lanes

    def products(masks: Sequence[Value | None]) -> list[Value]:
        def load_b(pointer: Value) -> Iterator[Value]:
            steps = [emitter.byte_offset(pointer, emitter.mul(meta["b_line_bytes"], i)) for i in range(unit.count)]
            for step in steps:
                ahead = emitter.byte_offset(step, emitter.mul(meta["b_line_bytes"], tile.ahead * unit.count))
                for column in range(0, tile.columns * size, _CACHE_LINE):
                    emitter.prefetch(emitter.byte_offset(ahead, column))
            for j, mask in enumerate(masks):
                places = [emitter.byte_offset(step, j * per_group * size) for step in steps]
                yield from unpack(emitter, unit, [elements_b.load(per_group, each, mask) for each in places])

        from_a = Operand(tile.rows + tile.shifted, place.a, meta["a_step_bytes"], load_a)
        start = emitter.byte_offset(place.b, emitter.mul(place.first_column, size))
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
    unit, lanes = tile.unit, unit_lanes(tile.unit, emitter.target)
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
                    value = of.load(elements, emitter.byte_offset(pointer, line))
                    zero = Value("zeroinitializer", value.type)
                    yield of.units(emitter.select(omitted, zero, value) if omitted else value)

            def load_a(pointer: Value) -> Iterator[Value]:
                yield from load(of_a, rows, pointer)
                if tile.shifted:
                    yield emitter.constant(_QUAD_OF_128, type_)

            def load_b(pointer: Value) -> Iterator[Value]:
                if tile.ahead:
                    later = emitter.byte_offset(pointer, ahead)
                    for line in columns:
                        emitter.prefetch(emitter.byte_offset(later, line))
                yield from load(of_b, columns, pointer)

            def operand(count: int, of: Elements, start: Value, load: Callable[[Value], Iterable[Value]]) -> Operand:
                size = ELEMENT_SIZE[of.dtype]
                return Operand(count, emitter.byte_offset(start, emitter.mul(first, size)), elements * size, load)

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


def _windows(emitter: Emitter, tile: TileSpec, meta: Mapping[str, Value], place: _Place) -> list[Value]:
    unit, lanes = tile.unit, unit_lanes(tile.unit, emitter.target)
    vectors, vector_bytes = tile.columns // lanes, lanes * unit.bytes
    elements, unit_bytes = Elements(emitter, unit, tile.dtype_a), unit.count * ELEMENT_SIZE[tile.dtype_a]
    type_, runs_at = f"<{lanes} x {unit.accumulator}>", place.runs_at
    assert runs_at is not None

    def add_run(run: Value, carried: list[Value]) -> list[Value]:
        rows = runs_at(run)

        def step(index: Value, carried: list[Value]) -> Sequence[Value]:
            from_b, *sums = carried
            columns = [emitter.load_value(type_, from_b, j, align=vector_bytes) for j in range(vectors)]
            offset = emitter.mul(index, unit_bytes)
            for number, row in enumerate(rows):
                address = emitter.byte_offset(row, offset)
                one = elements.load(1, address) if unit.count == 1 else emitter.load_value(unit.bits, address, align=1)
                value = emitter.broadcast(one, lanes)
                for j, column in enumerate(columns, number * vectors):
                    sums[j] = multiply_add(emitter, unit, sums[j], value, column)
            return emitter.byte_offset(from_b, vectors * vector_bytes), *sums

        return emitter.loop(0, meta["steps"], 1, carried, step)

    b = emitter.byte_offset(place.b, emitter.mul(place.b_panel, meta["b_panel_bytes"]))
    b = emitter.byte_offset(b, emitter.mul(emitter.mul(place.start, meta["steps"]), vectors * vector_bytes))
    return emitter.loop(place.start, emitter.add(place.start, place.length), 1, [b, *place.sums], add_run)[1:]


def _depthwise(emitter: Emitter, tile: TileSpec, meta: Mapping[str, Value], place: _Place) -> list[Value]:
    unit, lanes = tile.unit, unit_lanes(tile.unit, emitter.target)
    elements, type_ = Elements(emitter, unit, tile.dtype_a), f"<{lanes} x {unit.accumulator}>"
    line, addresses = tile.line, place.addresses
    assert line is not None
    assert addresses is not None
    readers, offset = line.readers(tile.rows), emitter.mul(place.first_column, ELEMENT_SIZE[tile.dtype_a])
    b = emitter.byte_offset(place.b, emitter.mul(place.b_panel, meta["b_panel_bytes"]))

    def sums(mask: Value | None) -> list[Value]:
        def add_line(start: Value, carried: Sequence[Value]) -> list[Value]:
            from_b, from_addresses, *sums = carried
            weights = [emitter.load_value(type_, from_b, i, align=lanes * unit.bytes) for i in range(line.size)]
            for number, pairs in enumerate(readers):
                address = emitter.load_value("ptr", from_addresses, number)
                value = elements.load(lanes, emitter.byte_offset(address, offset), mask)
                for row, element in pairs:
                    sums[row] = multiply_add(emitter, unit, sums[row], value, weights[element])
            next_b = emitter.byte_offset(from_b, line.size * lanes * unit.bytes)
            return [next_b, emitter.byte_offset(from_addresses, 8 * len(readers)), *sums]

        return emitter.loop(0, meta["runs"], line.size, [b, addresses, *place.sums], add_line)[2:]

    def edge() -> list[Value]:
        return sums(first_of(emitter, left, lanes))

    left = emitter.sub(meta["n"], place.first_column)
    # Without AVX512, LLVM makes a branch per element of most masked loads.
    if emitter.target.has_avx512:
        return edge()
    return emitter.branch(emitter.compare("sge", left, lanes), lambda: sums(None), edge)


_FORMS: Final[Mapping[Form, Callable[[Emitter, TileSpec, Mapping[str, Value], _Place], list[Value]]]] = {
    "packed": _packed,
    "outer": _outer,
    "inner": _inner,
    "windows": _windows,
    "depthwise": _depthwise,
}


# The leading int64 numbers of the multiply kernel's meta array. Then follow the row strides of outputs and tensor
# operands, and for every product of the batch the offsets of A, B, outputs and tensor operands. All sizes, strides and
# offsets of memory are in bytes. Panels are the rows of A and the columns of B that a tile reads. The sizes of panels
# are for packed operands. For others there are the strides of lines (rows of A, columns of B; in the outer form one
# element along K of B) and of the steps of A; in the inner form, `rest` elements along K are left after the steps.
# Windows are `runs` of channels per row. If all are inside the image, `table` has the offset of each row and `others`
# that of each run from it, as int64. Else `table` has int32 (rows, runs), and -1 means zeros at `others`. Steps are
# those of a run, and the offsets of every product end with the line of the table to begin at. A strip is a block of
# panels of A and a group of panels of B. A part has `part` steps or runs. Each tile prefetches `ahead_bytes`,
# which are `ahead_offset` after the end of its part.
MULTIPLY_META = (
    *("m", "n", "steps", "rest", "a_panels", "b_panels", "block_panels", "blocks", "group_panels", "groups"),
    *("a_panel_bytes", "b_panel_bytes", "a_line_bytes", "b_line_bytes", "a_step_bytes"),
    *("pack", "pack_meta"),  # of a product that packs B panel by panel: see `_pack`
    *("runs", "table", "others", "part", "ahead_offset", "ahead_bytes"),
)

# Operations of the longest epilogue that is written once for each vector of a tile.
_SHORT_PROGRAM = 12


class GemmSpec(NamedTuple):
    """Parameters of the kernel that multiplies.

    The epilogue is elementwise: load slot 0 is the sum, slot i the operand i - 1. An operand's access is "row"
    (consecutive columns), "vector" (the same for all rows), "column" (one element for all columns) or "number" (a
    run-time scalar).
    """

    tile: TileSpec
    outputs: tuple[str, ...]  # memory dtypes
    epilogue: Program
    operands: tuple[tuple[str, str], ...]  # (memory dtype, access)
    strips: bool = False  # panels of B are packed when they are needed


class _MultiplyWriter:
    """Writes the multiply kernel. A work item is a strip of the result: a block of panels of A by a group of B's.

    The packed form and windows multiply part after part of K, so that the part of B stays in L1 for all tiles of the
    strip. The sums of the tiles are on the stack meanwhile. A group has several panels only if all of K is one part.
    """

    def __init__(self, spec: GemmSpec, target: CpuTarget) -> None:
        self.spec = spec
        self.shape = spec.tile
        self.unit = spec.tile.unit
        self.emitter = Emitter(target)
        self.meta = self.emitter.named_numbers(MULTIPLY_META)
        # Slots of tensors, in the order of the row strides and the offsets of the meta array.
        tensors = [i for i, (_, access) in enumerate(spec.operands) if access != "number"]
        first_operand = 2 + len(spec.outputs)
        slots = [*range(2, first_operand), *(first_operand + i for i in tensors)]
        self.memory = {slot: position for position, slot in enumerate(slots)}
        self.has_lines = spec.tile.form in ("windows", "depthwise")
        self.has_parts = spec.tile.form in ("windows", "packed")
        self.lanes = unit_lanes(self.unit, target)
        self.vector_type = f"<{self.lanes} x {self.unit.accumulator}>"
        self.tile_bytes = spec.tile.rows * spec.tile.columns * self.unit.bytes
        self.row_strides = self.emitter.byte_offset(META, 8 * len(MULTIPLY_META))
        self.offsets = self.emitter.byte_offset(self.row_strides, 8 * len(slots))

    def text(self) -> str:
        emitter, tile, meta = self.emitter, self.shape, self.meta
        # Columns of the sums in memory, which are read by whole vectors even if a tile has fewer columns.
        self.row_bytes = max(tile.columns, emitter.lanes) * self.unit.bytes
        self.sums = emitter.assign("ptr", f"alloca [{tile.rows * self.row_bytes} x i8], align 64")
        self.matrices = emitter.addresses(2)
        if self.has_parts:
            nbytes = emitter.mul(meta["block_panels"], self.tile_bytes)
            self.kept = emitter.assign("ptr", f"alloca i8, i64 {nbytes.name}, align 64")
        if tile.line is not None:
            nbytes = emitter.mul(meta["runs"], 8 * tile.rows)
            self.addresses = emitter.assign("ptr", f"alloca i8, i64 {nbytes.name}, align 8")
        if self.spec.strips:
            nbytes = meta["b_panel_bytes"]
            self.panel = emitter.assign("ptr", f"alloca i8, i64 {nbytes.name}, align 64")
            self.pack_pointers = emitter.assign("ptr", "alloca [2 x ptr], align 8")
            emitter.statement(
                f"store ptr {self.matrices[1].name}, ptr {emitter.byte_offset(self.pack_pointers, 8).name}"
            )
        return emitter.kernel_of_items(self._compute_strip)

    def _compute_strip(self, strip: Value, _: list[Value]) -> None:
        emitter, tile, meta = self.emitter, self.shape, self.meta
        rest, group = self._divide(strip, "groups")
        product, block = self._divide(rest, "blocks")
        offsets = 2 + len(self.memory)
        self.table = emitter.byte_offset(self.offsets, emitter.mul(product, 8 * (offsets + self.has_lines)))
        first_line = emitter.load_value("i64", self.table, offsets) if self.has_lines else None
        of_a, of_b = (emitter.load_value("i64", self.table, position) for position in range(2))
        a = emitter.byte_offset(self.matrices[0], of_a)
        b = self._pack(of_b, group) if self.spec.strips else emitter.byte_offset(self.matrices[1], of_b)
        first, first_b = emitter.mul(block, meta["block_panels"]), emitter.mul(group, meta["group_panels"])
        last = emitter.smaller(emitter.add(first, meta["block_panels"]), meta["a_panels"])
        last_b = emitter.smaller(emitter.add(first_b, meta["group_panels"]), meta["b_panels"])
        steps = meta["runs" if self.has_lines else "steps"]

        def compute_part(start: Value, count: Value) -> None:
            def compute_row(a_panel: Value, _: list[Value]) -> None:
                first_row = emitter.mul(a_panel, tile.rows)
                runs_at = None if first_line is None else self._runs(a, first_row, first_line)
                addresses = None if runs_at is None or tile.line is None else self._addresses(runs_at)

                def compute_tile(b_panel: Value, _: list[Value]) -> None:
                    first_column = emitter.mul(b_panel, tile.columns)
                    zeros = [Value("zeroinitializer", self.vector_type)] * (tile.rows * tile.columns // self.lanes)
                    place = _Place(
                        a, b, a_panel, b_panel, first_row, first_column, start, count, zeros, runs_at, addresses
                    )
                    if self.has_parts:
                        self._add_part(place, emitter.sub(a_panel, first), steps)
                    elif tile.form == "streamed":
                        self._stream(a, b, first_column)
                        self._store_tile(None, first_row, first_column)
                    else:
                        self._store_tile(_FORMS[tile.form](emitter, tile, meta, place), first_row, first_column)

                emitter.loop(first_b, last_b, 1, (), compute_tile)

            emitter.loop(first, last, 1, (), compute_row)

        def compute_next_part(start: Value, _: list[Value]) -> None:
            compute_part(start, emitter.smaller(emitter.sub(steps, start), meta["part"]))

        if self.has_parts:
            emitter.loop(0, steps, meta["part"], (), compute_next_part)
        else:
            compute_part(emitter.constant(0, "i64"), steps)

    def _runs(self, image: Value, first_row: Value, first_line: Value) -> Callable[[Value], list[Value]]:
        """Return the function from the number of a run to its addresses in the rows of a tile.

        Runs outside the image are zeros.
        """
        emitter, tile, meta = self.emitter, self.shape, self.meta
        table, others = (
            emitter.assign("ptr", f"inttoptr i64 {meta[name].name} to ptr") for name in ("table", "others")
        )
        numbers = [emitter.add(row, first_line) for row in emitter.up_to(first_row, tile.rows, meta["m"])]

        def entry(array: Value, number: Value) -> Value:
            return emitter.load_value("i64", emitter.byte_offset(array, emitter.mul(number, 8)))

        def inside(run: Value) -> list[Value]:
            offset = entry(others, run)
            return [emitter.byte_offset(first, offset) for first in firsts]

        def of_line(line: Value, run: Value) -> Value:
            at = emitter.byte_offset(table, emitter.mul(emitter.add(line, run), 4))
            offset = emitter.convert("sext", emitter.load_value("i32", at, align=4), "i64")
            return emitter.select(emitter.compare("sge", offset, 0), emitter.byte_offset(image, offset), others)

        if tile.is_inside:
            firsts = [emitter.byte_offset(image, entry(table, number)) for number in numbers]
            return inside
        lines = [emitter.mul(number, meta["runs"]) for number in numbers]
        return lambda run: [of_line(line, run) for line in lines]

    def _addresses(self, runs_at: Callable[[Value], list[Value]]) -> Value:
        """Store the addresses that `Line.readers` needs for each line of a depthwise kernel, for all channels."""
        emitter, tile, line = self.emitter, self.shape, self.shape.line
        assert line is not None
        readers = line.readers(tile.rows)

        def store(first_run: Value, to: Sequence[Value]) -> list[Value]:
            found = [runs_at(emitter.add(first_run, element)) for element in range(line.size)]
            for number, ((row, element), *_) in enumerate(readers):
                emitter.store_value(found[element][row], emitter.byte_offset(to[0], 8 * number), align=8)
            return [emitter.byte_offset(to[0], 8 * len(readers))]

        emitter.loop(0, self.meta["runs"], line.size, [self.addresses], store)
        return self.addresses

    def _add_part(self, place: _Place, number: Value, steps: Value) -> None:
        """Add a part of the products to the sums of a tile, which is `number` in its strip; store it after the last."""
        emitter, tile = self.emitter, self.shape
        kept = emitter.byte_offset(self.kept, emitter.mul(number, self.tile_bytes))
        nbytes = self.lanes * self.unit.bytes
        end = emitter.add(place.start, place.length)

        def load() -> list[Value]:
            return [emitter.load_value(self.vector_type, kept, i, align=nbytes) for i in range(len(place.sums))]

        def keep() -> None:
            for i, value in enumerate(sums):
                emitter.store_value(value, emitter.byte_offset(kept, i * nbytes), nbytes)

        self._prefetch(place, end, number)
        self._prefetch_operands(place)
        earlier = emitter.branch(emitter.compare("eq", place.start, 0), lambda: place.sums, load)
        sums = _FORMS[tile.form](emitter, tile, self.meta, place._replace(sums=earlier))
        is_last = emitter.compare("eq", end, steps)
        emitter.branch(is_last, lambda: self._store_tile(sums, place.first_row, place.first_column), keep)

    def _prefetch(self, place: _Place, end: Value, number: Value) -> None:
        """Prefetch a share of the next part of B, or of the next panel's first part, with each tile of a strip."""
        emitter, meta = self.emitter, self.meta
        if self.spec.strips:
            return
        step = emitter.mul(end, meta["steps"]) if self.has_lines else end
        panel = emitter.byte_offset(place.b, emitter.mul(place.b_panel, meta["b_panel_bytes"]))
        part = emitter.byte_offset(panel, emitter.mul(step, self.shape.columns * self.unit.bytes))
        offset = emitter.add(meta["ahead_offset"], emitter.mul(number, meta["ahead_bytes"]))
        share = emitter.byte_offset(part, offset)

        def prefetch(offset: Value, _: list[Value]) -> None:
            emitter.prefetch(emitter.byte_offset(share, offset))

        emitter.loop(0, meta["ahead_bytes"], _CACHE_LINE, (), prefetch)

    def _prefetch_operands(self, place: _Place) -> None:
        """Prefetch the elements of operands that the epilogue of a tile reads row by row, such as another image."""
        emitter, first_operand = self.emitter, 2 + len(self.spec.outputs)
        for slot, position in self.memory.items():
            if slot < first_operand or self.spec.operands[slot - first_operand][1] != "row":
                continue
            size = ELEMENT_SIZE[self.spec.operands[slot - first_operand][0]]
            base, stride = self._matrix(slot, position)
            first = emitter.byte_offset(base, emitter.mul(place.first_column, size))
            for i in range(self.shape.rows):
                row = emitter.byte_offset(first, emitter.mul(emitter.add(place.first_row, i), stride))
                for column in range(0, self.shape.columns * size, _CACHE_LINE):
                    emitter.prefetch(emitter.byte_offset(row, column))

    def _pack(self, offset: Value, b_panel: Value) -> Value:
        """Pack a panel of B on the stack. Return the address of packed B if all of it were packed."""
        emitter, panel_bytes = self.emitter, self.meta["b_panel_bytes"]
        numbers = (self.meta["pack"], self.meta["pack_meta"])
        kernel, meta = (emitter.assign("ptr", f"inttoptr i64 {number.name} to ptr") for number in numbers)
        number = emitter.add(emitter.op("udiv", offset, panel_bytes), b_panel)
        packed = emitter.byte_offset(self.panel, emitter.sub(0, emitter.mul(number, panel_bytes)))
        emitter.statement(f"store ptr {packed.name}, ptr {self.pack_pointers.name}")
        items = f"i64 {number.name}, i64 {emitter.add(number, 1).name}"
        emitter.statement(f"call void {kernel.name}(ptr {self.pack_pointers.name}, ptr {meta.name}, {items})")
        return emitter.byte_offset(packed, offset)

    def _divide(self, index: Value, field: str) -> tuple[Value, Value]:
        quotient = self.emitter.op("udiv", index, self.meta[field])
        return quotient, self.emitter.sub(index, self.emitter.mul(quotient, self.meta[field]))

    def _stream(self, a: Value, b: Value, first_column: Value) -> None:
        """Add the products of A with some rows of B after the other to the sums in memory."""
        emitter, tile, meta = self.emitter, self.shape, self.meta
        lanes, accumulate = unit_lanes(self.unit, emitter.target), self.unit.accumulate
        of_a, of_b = Elements(emitter, self.unit, tile.dtype_a), Elements(emitter, self.unit, tile.dtype_b)
        size, type_ = ELEMENT_SIZE[tile.dtype_b], f"<{lanes} x {self.unit.accumulator}>"
        columns = emitter.smaller(emitter.sub(meta["n"], first_column), tile.columns)
        whole = emitter.sub(columns, emitter.op("urem", columns, lanes))
        start = emitter.byte_offset(b, emitter.mul(first_column, size))
        lines = [emitter.byte_offset(a, emitter.mul(meta["a_line_bytes"], row)) for row in range(tile.rows)]
        sums = [emitter.byte_offset(self.sums, row * self.row_bytes) for row in range(tile.rows)]

        def clear(column: Value, _: list[Value]) -> None:
            zero, align = Value("zeroinitializer", type_), lanes * self.unit.bytes
            for total in sums:
                emitter.store_value(zero, emitter.address(total, column, accumulate), align)

        def factor(line: Value, k: Value) -> Value:
            element = of_a.load(1, emitter.byte_offset(line, emitter.mul(k, meta["a_step_bytes"])))
            return emitter.broadcast(element, lanes)

        def add_rows(first: Value, count: int) -> None:
            numbers = [emitter.add(first, i) for i in range(count)]
            factors = [[factor(line, k) for k in numbers] for line in lines]
            rows = [emitter.byte_offset(start, emitter.mul(k, meta["b_line_bytes"])) for k in numbers]

            def add_vectors(column: Value, mask: Value | None) -> None:
                vectors = [of_b.load(lanes, emitter.byte_offset(row, emitter.mul(column, size)), mask) for row in rows]
                for total, own in zip(sums, factors, strict=True):
                    address = emitter.address(total, column, accumulate)
                    value = emitter.load_value(type_, address, align=lanes * self.unit.bytes)
                    for each, vector in zip(own, vectors, strict=True):
                        value = multiply_add(emitter, self.unit, value, each, vector)
                    emitter.store_value(value, address, align=lanes * self.unit.bytes)

            def add_rest() -> None:
                add_vectors(whole, first_of(emitter, emitter.sub(columns, whole), lanes))

            emitter.loop(0, whole, lanes, (), lambda column, _: add_vectors(column, None))
            emitter.branch(emitter.compare("slt", whole, columns), add_rest, lambda: ())

        together = max(1, emitter.target.vector_registers // 2 // tile.rows)
        most = emitter.sub(meta["steps"], emitter.op("urem", meta["steps"], together))
        emitter.loop(0, columns, lanes, (), clear)
        emitter.loop(0, most, together, (), lambda k, _: add_rows(k, together))
        emitter.loop(most, meta["steps"], 1, (), lambda k, _: add_rows(k, 1))

    def _store_tile(self, sums: list[Value] | None, first_row: Value, first_column: Value) -> None:
        """Apply the epilogue to the part of the tile that exists. The sums are in memory if they are None."""
        emitter = self.emitter
        matrices = {slot: self._matrix(slot, position) for slot, position in self.memory.items()}

        def starts(row: Value) -> dict[int, Value]:
            matrix_row = emitter.add(first_row, row)
            return {
                slot: emitter.byte_offset(base, emitter.mul(matrix_row, stride))
                for slot, (base, stride) in matrices.items()
            }

        rows_left = emitter.sub(self.meta["m"], first_row)
        columns_left = emitter.sub(self.meta["n"], first_column)

        def from_memory() -> None:
            if sums is not None:
                self._keep_sums(sums)
            rows = emitter.smaller(rows_left, self.shape.rows)
            columns = emitter.smaller(columns_left, self.shape.columns)

            def store_row(row: Value, _: list[Value]) -> None:
                places, kept = starts(row), emitter.byte_offset(self.sums, emitter.mul(row, self.row_bytes))

                def store_vector(column: Value, _: list[Value]) -> None:
                    left = emitter.sub(columns, column)
                    full = emitter.compare("sge", left, emitter.lanes)
                    at = emitter.add(first_column, column)
                    address = emitter.address(kept, column, self.unit.accumulate)

                    def store(mask: Value | None) -> None:
                        self._store_vector(places, emitter.load(self.unit.accumulate, address), at, mask)

                    emitter.branch(full, lambda: store(None), lambda: store(emitter.first_lanes(left)))

                emitter.loop(0, columns, emitter.lanes, (), store_vector)

            emitter.loop(0, rows, 1, (), store_row)

        def from_registers() -> None:
            assert sums is not None
            vectors = self.shape.columns // emitter.lanes
            shared: list[dict[int, Value]] = [{} for _ in range(vectors)]
            places = starts(emitter.constant(0, "i64"))
            for row in range(self.shape.rows):
                if row:
                    places = {slot: emitter.byte_offset(places[slot], stride) for slot, (_, stride) in matrices.items()}
                for j in range(vectors):
                    at = emitter.add(first_column, j * emitter.lanes)
                    self._store_vector(places, sums[row * vectors + j], at, None, shared[j])

        length = sum(PRIMITIVES[step.primitive].flops for step in self.spec.epilogue.instructions)
        if sums is None or self.unit.bytes != 4 or length > _SHORT_PROGRAM:
            from_memory()
            return
        whole = emitter.op(
            "and",
            emitter.compare("sge", rows_left, self.shape.rows),
            emitter.compare("sge", columns_left, self.shape.columns),
        )
        emitter.branch(whole, from_registers, from_memory)

    def _keep_sums(self, sums: list[Value]) -> None:
        per_row = len(sums) // self.shape.rows
        for number, value in enumerate(sums):
            row, position = divmod(number, per_row)
            bytes_ = self.unit.bytes * (self.shape.columns // per_row)
            address = self.emitter.byte_offset(self.sums, row * self.row_bytes + position * bytes_)
            self.emitter.statement(f"store {value.type} {value.name}, ptr {address.name}, align {bytes_}")

    def _matrix(self, slot: int, position: int) -> tuple[Value, Value]:
        """Return address and row stride of an output or tensor operand of the current product."""
        base = self.emitter.load_value("ptr", POINTERS, slot)
        offset = self.emitter.load_value("i64", self.table, 2 + position)
        return self.emitter.byte_offset(base, offset), self.emitter.load_value("i64", self.row_strides, position)

    def _store_vector(
        self,
        starts: dict[int, Value],
        sums: Value,
        matrix_column: Value,
        mask: Value | None,
        shared: dict[int, Value] | None = None,
    ) -> None:
        """Apply the epilogue to a vector of sums. `shared` keeps operands that are the same for all rows."""
        emitter, outputs = self.emitter, self.spec.outputs
        first_operand = 2 + len(outputs)

        def load(slot: int) -> Value:
            if slot == 0:
                return sums
            dtype, access = self.spec.operands[slot - 1]
            start = starts[first_operand + slot - 1]
            if access == "column":
                return emitter.load_scalar(dtype, start)
            if access == "vector" and shared is not None and slot in shared:
                return shared[slot]
            value = emitter.load(dtype, emitter.address(start, matrix_column, dtype), mask)
            if shared is not None:
                shared[slot] = value
            return value

        def scalar(slot: int, dtype: str) -> Value:
            return emitter.load_number(POINTERS, first_operand + slot - 1, dtype)

        for output, value in enumerate(emit_program(emitter, self.spec.epilogue, load, scalar)):
            address = emitter.address(starts[2 + output], matrix_column, outputs[output])
            emitter.store(outputs[output], value, address, mask)


def multiply_module(spec: GemmSpec, target: CpuTarget) -> str:
    """Return the module of a kernel that computes tiles.

    pointers  [A, B, outputs..., epilogue operands...]; A and B are packed or not; with strips, B is not
    meta      `MULTIPLY_META` and the fields in its comment
    """
    return _MultiplyWriter(spec, target).text()
