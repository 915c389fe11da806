"""Kernels of element-wise and row-wise programs as LLVM IR.

A kernel is a function `void name(ptr pointers, ptr meta, i64 begin, i64 end)`. `pointers` is an array of
8-byte slots: addresses of the operands, or the bits of run-time scalars. `meta` is an array of int64: the
inner length, the outer sizes from the outermost on, and for every operand in order its offset, its outer
strides and its inner stride, all in elements (a scalar has these entries too; they are not read). A row is
one run along the inner dimension.

Four forms, all of which can be split between threads by `begin` and `end`:

* map: no instruction reduces. Positions are elements in row-major order.
* tiles: a map some of whose operands are contiguous across rows rather than along them. Positions are square
  tiles of `TILE` rows and elements, in row-major order; `tile_count` gives their number.
* rows: positions are rows; the lanes of a vector are neighbours in the row. The row is walked once for each
  level of reductions that depend on one another, and once more to store what has one value per element.
* columns: the same programs, for operands that are contiguous across rows rather than along them (a sum over
  the first axis). Positions are rows; each lane is a row of its own, so no reduction crosses lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from npu_tensor.ops.expression import PRIMITIVES, Program
from npu_tensor.runtime.cpu.emitter import (
    ELEMENT_SIZE,
    MEMORY_ELEMENT,
    REGISTER_ELEMENT,
    Emitter,
    Value,
    cast,
    emit_program,
    needed_instructions,
    register_dtype,
)
from npu_tensor.runtime.cpu.reductions import Index, Reduction, make_reduction
from npu_tensor.runtime.cpu.target import Target

__all__ = ["TILE", "Operand", "row_kernel", "tile_count"]

# float32 sums go over to float64 after this many additions in each lane.
SUM_BLOCK = 32
# The longest row (in elements) of which intermediate values are kept, on the stack, 64 KiB for each; the same
# for all rows that the column form handles at once; and how many such values there may be.
SCRATCH_LENGTH = 16384
COLUMN_SCRATCH_LENGTH = 65536
SCRATCH_ROWS = 2
# Rows of up to this many vectors are kept in registers.
SHORT_VECTORS = 4
# The vectors that the column form handles at once.
COLUMN_VECTORS = 4
# Rows, and elements of each, that a map with transposed operands handles at once. Their cache lines and pages are
# used several times while they are at hand.
TILE = 64
# Loops are not unrolled whose body has at least this many flops.
EXPENSIVE = 60
# An intermediate value is kept for a later walk rather than computed again from this many flops on.
SCRATCH_FLOPS = 12

# How often an instruction's value changes.
ONCE, PER_ROW, PER_ELEMENT = 0, 1, 2

_ACCESSES = ("contiguous", "row", "strided", "scalar", "reversed", "alternate", "transposed")


class Operand(NamedTuple):
    """How an operand lies in memory.

    `access` says what the inner stride is: "contiguous" (1), "row" (0: one element per row), of inputs also
    "reversed" (-1) and "alternate" (2), or "strided" (any). Run-time numbers are "scalar". In the column form
    the stride meant is the one across rows, along the innermost outer dimension. An input of a map may be
    "transposed": contiguous along that dimension, which has at least as many elements as a vector has lanes.
    """

    dtype: str
    access: str


def row_kernel(
    name: str,
    program: Program,
    operands: tuple[Operand, ...],
    outer: int,
    target: Target,
    nontemporal: bool = False,
    columns: bool = False,
    length: int | None = None,
) -> str:
    """The text of a module with the kernel `name`.

    `operands` are the outputs, then the slots that loads and scalars name. `outer` is the number of outer
    dimensions; without any there is a single row. `nontemporal` lets a map without outer dimensions write
    past the caches, for outputs larger than these. `columns` asks for the column form, which needs `outer` >=
    1; there, outputs with one value per row are stored once and those with one per element along the inner
    dimension. `length` promises the inner length. Rows of a few vectors are then kept in registers; and where
    expensive intermediate values are to be kept for a second walk over a row, the promise spares the code for
    rows that are too long for that, about half of the compilation.

    Raises UnsupportedProgram for what has no vector code, ValueError for operands that contradict the
    program.
    """
    _check(program, operands)
    reduces = any(PRIMITIVES[instruction.primitive].reduces for instruction in program.instructions)
    if columns and outer < 1:
        raise ValueError("the column form needs an outer dimension")
    if columns:
        return _ColumnKernel(name, program, operands, outer, target, length).text()
    if any(operand.access == "transposed" for operand in operands):
        if reduces or outer < 1:
            raise ValueError("transposed operands are those of maps with an outer dimension")
        return _TileKernel(name, program, operands, outer, target, False).text()
    if reduces:
        return _RowKernel(name, program, operands, outer, target, length).text()
    return _MapKernel(name, program, operands, outer, target, nontemporal and outer == 0).text()


def tile_count(outer: Sequence[int], inner: int) -> int:
    """The positions of a map with transposed operands."""
    return math.prod(outer[:-1]) * -(-outer[-1] // TILE) * -(-inner // TILE)


def _check(program: Program, operands: tuple[Operand, ...]) -> None:
    """Raises ValueError unless the operands are what the program loads and stores."""
    slots = {step.value: step for step in program.instructions if step.primitive in ("load", "scalar")}
    if len(operands) < len(program.outputs) + max(slots, default=-1) + 1:
        raise ValueError("a kernel needs an operand for every output and every slot")
    for number, operand in enumerate(operands):
        if operand.dtype not in MEMORY_ELEMENT:
            raise ValueError(f"operand {number} has the unknown dtype {operand.dtype!r}")
        if operand.access not in _ACCESSES:
            raise ValueError(f"operand {number} has the unknown access {operand.access!r}")
    for slot, step in slots.items():
        operand = operands[len(program.outputs) + slot]
        if (step.primitive == "scalar") != (operand.access == "scalar"):
            raise ValueError(f"slot {slot} is a {step.primitive} in the program, its access is {operand.access!r}")
        if step.primitive == "load" and register_dtype(operand.dtype) != step.dtype:
            raise ValueError(f"slot {slot} holds {operand.dtype}, the program loads {step.dtype}")


class _Place(NamedTuple):
    """Where a vector of elements is: pointers to position 0 of every operand, and which elements of these.

    `position` is that along the inner dimension; `lane` is where the vector starts across the lanes'
    dimension, which is the inner one except in the column form; `scratch` is the position in scratch rows.
    """

    pointers: list[Value]
    position: Value
    lane: Value
    scratch: Value
    mask: Value | None


class _Walk(NamedTuple):
    """Positions from `begin` in steps up to `end` along the inner dimension, and the vectors handled at each.

    A walk that is not `long` has a few positions only.
    """

    begin: Value
    end: Value
    step: int
    places: Callable[[Value], list[_Place]]
    long: bool


class _Kernel:
    """What the three forms share: the arguments, addresses, loads and stores."""

    def __init__(self, name: str, program: Program, operands: tuple[Operand, ...], outer: int, target: Target) -> None:
        self.name = name
        self.program = program
        self.operands = operands
        self.outer = outer
        self.emitter = Emitter(target)
        self.frequency = _frequencies(program, operands, self.loads_vary())
        self.known: dict[int, Value] = {}

    def loads_vary(self) -> bool:
        """Whether even operands with "row" access have to be loaded for every element."""
        return False

    def text(self) -> str:
        self.read_arguments()
        self.known = self.evaluate_fixed(ONCE, self.program.outputs, {}, [])
        self.body()
        return self.emitter.module(
            self.emitter.function(f"@{self.name}(ptr %pointers, ptr %meta, i64 %begin, i64 %end)")
        )

    def body(self) -> None:
        raise NotImplementedError

    # ------------------------------------------------------------------ arguments

    def read_arguments(self) -> None:
        e = self.emitter
        self.begin, self.end = Value("%begin", "i64"), Value("%end", "i64")
        self.inner = self.read_meta(0)
        self.sizes = [self.read_meta(1 + axis) for axis in range(self.outer)]
        self.bases: list[Value] = []
        self.outer_strides: list[list[Value]] = []
        self.inner_strides: list[Value] = []
        # For strided operands, the distances of a vector's elements from its first.
        self.lane_offsets: dict[int, Value] = {}
        for number, operand in enumerate(self.operands):
            first = 1 + self.outer + number * (self.outer + 2)
            slot = e.assign("ptr", f"getelementptr ptr, ptr %pointers, i64 {number}")
            if operand.access == "scalar":
                self.bases.append(slot)
                self.outer_strides.append([])
                self.inner_strides.append(e.constant(0, "i64"))
                continue
            pointer = e.assign("ptr", f"load ptr, ptr {slot.name}")
            self.bases.append(e.address(pointer, self.read_meta(first), operand.dtype))
            self.outer_strides.append([self.read_meta(first + 1 + axis) for axis in range(self.outer)])
            self.inner_strides.append(self.read_meta(first + 1 + self.outer))
            if operand.access in ("strided", "alternate"):
                self.lane_offsets[number] = e.mul(e.splat(self.lane_stride(number)), e.lane_numbers())

    def read_meta(self, position: int) -> Value:
        address = self.emitter.assign("ptr", f"getelementptr i64, ptr %meta, i64 {position}")
        return self.emitter.assign("i64", f"load i64, ptr {address.name}")

    def lane_stride(self, number: int) -> Value:
        """The distance in memory between the lanes of a strided operand."""
        return self.inner_strides[number]

    def row_pointers(self, row: Value) -> list[Value]:
        """The addresses of the first element of a row in every operand."""
        if self.outer == 0:
            return self.bases
        e = self.emitter
        coordinates = [row] * self.outer
        for axis in range(self.outer - 1, 0, -1):
            quotient = e.op("udiv", coordinates[axis], self.sizes[axis])
            coordinates[axis] = e.sub(coordinates[axis], e.mul(quotient, self.sizes[axis]))
            coordinates[axis - 1] = quotient
        pointers = []
        for operand, base, strides in zip(self.operands, self.bases, self.outer_strides, strict=True):
            pointer = base
            for coordinate, stride in zip(coordinates, strides, strict=False):
                pointer = e.address(pointer, e.mul(coordinate, stride), operand.dtype)
            pointers.append(pointer)
        return pointers

    def segments(self, width: Value, body: Callable[[Value, Value, Value], None]) -> None:
        """Cut positions from `begin` to `end` into lines of `width`: body(line, first, last) for each."""
        e = self.emitter
        if self.outer == 0:
            body(e.constant(0, "i64"), self.begin, self.end)
            return
        divisor = e.select(e.compare("sgt", width, 1), width, 1)
        first_line = e.op("udiv", self.begin, divisor)
        last_line = e.op("udiv", e.add(self.end, e.sub(divisor, 1)), divisor)
        last_line = e.select(e.compare("slt", self.begin, self.end), last_line, 0)

        def line(number: Value, carried: list[Value]) -> list[Value]:
            start = e.mul(number, divisor)
            first, last = e.sub(self.begin, start), e.sub(self.end, start)
            first = e.select(e.compare("sgt", first, 0), first, 0)
            last = e.select(e.compare("slt", last, width), last, width)
            body(number, first, last)
            return carried

        e.loop(first_line, last_line, 1, [], line)

    # ------------------------------------------------------------------ elements

    def load(self, slot: int, place: _Place) -> Value:
        e = self.emitter
        number = len(self.program.outputs) + slot
        operand, pointer = self.operands[number], place.pointers[number]
        if operand.access == "row":
            return e.load_scalar(operand.dtype, pointer)
        if operand.access == "contiguous":
            return e.load(operand.dtype, e.address(pointer, place.lane, operand.dtype), place.mask)
        start = e.address(pointer, e.mul(place.lane, self.lane_stride(number)), operand.dtype)
        if operand.access == "reversed":
            order = list(range(e.lanes - 1, -1, -1))
            mask = e.shuffle(place.mask, order) if place.mask else None
            first = e.address(start, e.constant(1 - e.lanes, "i64"), operand.dtype)
            return e.from_memory(operand.dtype, e.shuffle(e.load_raw(operand.dtype, first, mask), order))
        if operand.access == "alternate" and place.mask is None:
            # The second vector begins one element early and so ends with the last element that is wanted.
            second = e.address(start, e.constant(e.lanes - 1, "i64"), operand.dtype)
            halves = [e.load_raw(operand.dtype, address) for address in (start, second)]
            order = [*range(0, e.lanes, 2), *range(e.lanes + 1, 2 * e.lanes, 2)]
            return e.from_memory(operand.dtype, e.shuffle(halves[0], order, halves[1]))
        return e.gather(operand.dtype, start, self.lane_offsets[number], place.mask)

    def store(self, output: int, values: Sequence[Value], places: Sequence[_Place]) -> None:
        """Store an output's values at as many places."""
        e = self.emitter
        operand = self.operands[output]
        if operand.access not in ("contiguous", "strided"):
            raise ValueError(f"output {output} has one element per row, but the program one per position")
        stored = e.all_to_memory(operand.dtype, [self.as_stored(output, value) for value in values])
        for raw, place in zip(stored, places, strict=True):
            pointer = place.pointers[output]
            if operand.access == "contiguous":
                e.store_raw(operand.dtype, raw, e.address(pointer, place.lane, operand.dtype), place.mask)
            else:
                start = e.address(pointer, e.mul(place.lane, self.lane_stride(output)), operand.dtype)
                e.scatter_raw(operand.dtype, raw, start, self.lane_offsets[output], place.mask)

    def as_stored(self, output: int, value: Value) -> Value:
        """An output's value in the register dtype of its memory."""
        dtype = self.program.instructions[self.program.outputs[output]].dtype
        return cast(self.emitter, value, dtype, register_dtype(self.operands[output].dtype))

    def scalar(self, slot: int, dtype: str) -> Value:
        e = self.emitter
        slot_address = self.bases[len(self.program.outputs) + slot]
        if dtype.startswith("float"):
            value = e.assign("double", f"load double, ptr {slot_address.name}")
            return e.splat(value if dtype == "float64" else e.convert("fptrunc", value, "float"))
        value = e.assign("i64", f"load i64, ptr {slot_address.name}")
        if dtype == "bool":
            return e.splat(e.compare("ne", value, 0))
        return e.splat(value if dtype == "int64" else e.convert("trunc", value, REGISTER_ELEMENT[dtype]))

    def evaluate(self, roots: Sequence[int], known: dict[int, Value], place: _Place) -> list[Value]:
        """The values of instructions at a place. `known` gains what is evaluated."""
        return emit_program(
            self.emitter,
            self.program,
            load=lambda slot: self.load(slot, place),
            scalar=self.scalar,
            index=lambda: self.index(place),
            known=known,
            roots=roots,
        )

    def index(self, place: _Place) -> Value:
        return self.emitter.add(self.emitter.splat(place.position), self.emitter.lane_numbers())

    def places(self, pointers: list[Value], index: Value, count: int) -> list[_Place]:
        """`count` vectors side by side, the lanes along the inner dimension."""
        e = self.emitter
        positions = [index, *(e.add(index, number * e.lanes) for number in range(1, count))]
        return [_Place(pointers, position, position, position, None) for position in positions]

    def evaluate_fixed(
        self, frequency: int, roots: Sequence[int], known: dict[int, Value], pointers: list[Value]
    ) -> dict[int, Value]:
        """`known` and all that `roots` need which changes no more often than `frequency` says."""
        result = dict(known)
        needed = needed_instructions(self.program, roots, result)
        fixed = [
            number
            for number in needed
            if self.frequency[number] <= frequency
            and not PRIMITIVES[self.program.instructions[number].primitive].reduces
        ]
        zero = self.emitter.constant(0, "i64")
        self.evaluate(fixed, result, _Place(pointers, zero, zero, zero, None))
        return result

    def cost(self, roots: Sequence[int], known: Sequence[int] = ()) -> int:
        """flops per element of evaluating `roots`."""
        needed = needed_instructions(self.program, roots, known)
        return sum(
            PRIMITIVES[self.program.instructions[number].primitive].flops
            for number in needed
            if self.frequency[number] == PER_ELEMENT
        )


def _frequencies(program: Program, operands: tuple[Operand, ...], loads_vary: bool) -> list[int]:
    result: list[int] = []
    for instruction in program.instructions:
        if instruction.primitive == "load":
            access = operands[len(program.outputs) + instruction.value].access
            result.append(PER_ROW if access == "row" and not loads_vary else PER_ELEMENT)
        elif instruction.primitive == "index":
            result.append(PER_ELEMENT)
        elif PRIMITIVES[instruction.primitive].reduces:
            result.append(PER_ROW)
        else:
            result.append(max((result[operand] for operand in instruction.operands), default=ONCE))
    return result


def _unroll(flops: int) -> int:
    """How many vectors a loop handles at once: enough for long latencies, few where there is much code."""
    if flops <= 8:
        return 4
    return 2 if flops < EXPENSIVE else 1


class _MapKernel(_Kernel):
    def __init__(
        self,
        name: str,
        program: Program,
        operands: tuple[Operand, ...],
        outer: int,
        target: Target,
        streaming: bool,
    ) -> None:
        super().__init__(name, program, operands, outer, target)
        self.streaming = streaming and all(
            operand.access == "contiguous" for operand in operands[: len(program.outputs)]
        )

    def body(self) -> None:
        self.segments(self.inner, lambda row, first, last: self.line(self.row_pointers(row), first, last))

    def line(self, pointers: list[Value], first: Value, last: Value) -> None:
        """The elements `first` to `last` of the row that `pointers` point to."""
        e = self.emitter
        known = self.evaluate_fixed(PER_ROW, self.program.outputs, self.known, pointers)
        unroll = _unroll(self.cost(self.program.outputs))
        step = unroll * e.lanes
        whole = e.sub(e.sub(last, first), e.op("and", e.sub(last, first), step - 1))
        stop = e.add(first, e.select(e.compare("slt", first, last), whole, 0))

        def vectors(streaming: bool) -> Callable[[Value, list[Value]], list[Value]]:
            def body(index: Value, carried: list[Value]) -> list[Value]:
                places = self.places(pointers, index, unroll)
                # All loads come before all stores: LLVM cannot exchange them, as operands may overlap.
                results = [self.evaluate(self.program.outputs, dict(known), place) for place in places]
                for output in range(len(self.program.outputs)):
                    values = [result[output] for result in results]
                    if streaming:
                        dtype = self.operands[output].dtype
                        address = e.address(pointers[output], index, dtype)
                        e.store_streaming(dtype, [self.as_stored(output, value) for value in values], address)
                    else:
                        self.store(output, values, places)
                return carried

            return body

        def remainder(index: Value, carried: list[Value]) -> list[Value]:
            place = _Place(pointers, index, index, index, e.first_lanes(e.sub(last, index)))
            for output, value in enumerate(self.evaluate(self.program.outputs, dict(known), place)):
                self.store(output, [value], [place])
            return carried

        def usual() -> list[Value]:
            return e.loop(first, stop, step, [], vectors(False))

        def past_caches() -> list[Value]:
            e.loop(first, stop, step, [], vectors(True))
            if e.target.is_x86:
                e.intrinsic("llvm.x86.sse.sfence", result="void", overloads=())
            return []

        sizes = {ELEMENT_SIZE[operand.dtype] for operand in self.operands[: len(self.program.outputs)]}
        if self.streaming and all(size * unroll >= 4 for size in sizes):
            e.branch(self.aligned(pointers, first), past_caches, usual)
        else:
            usual()
        e.loop(stop, last, e.lanes, [], remainder)

    def aligned(self, pointers: list[Value], first: Value) -> Value:
        """Whether every output starts at a cache line."""
        e = self.emitter
        joined: Value | None = None
        for output in range(len(self.program.outputs)):
            address = e.address(pointers[output], first, self.operands[output].dtype)
            number = e.assign("i64", f"ptrtoint ptr {address.name} to i64")
            joined = number if joined is None else e.op("or", joined, number)
        return e.compare("eq", e.op("and", joined, 63), 0) if joined else e.constant(0, "i1")


class _TileKernel(_MapKernel):
    """Square tiles: of each transposed operand a row-major copy is made first, on the stack."""

    def body(self) -> None:
        e = self.emitter
        height, width = self.sizes[-1], self.inner
        self.copies = {
            number: e.assign("ptr", f"alloca {MEMORY_ELEMENT[operand.dtype]}, i64 {TILE * TILE}, align 64")
            for number, operand in enumerate(self.operands)
            if operand.access == "transposed"
        }
        across, along = (e.op("udiv", e.add(size, TILE - 1), TILE) for size in (height, width))

        def band(number: Value, first: Value, last: Value) -> None:
            matrix = e.op("udiv", number, across)
            row = e.mul(e.sub(number, e.mul(matrix, across)), TILE)
            pointers = self.row_pointers(e.add(e.mul(matrix, height), row))
            rows = e.smaller(e.sub(height, row), TILE)

            def tile(position: Value, carried: list[Value]) -> list[Value]:
                column = e.mul(position, TILE)
                self.tile(pointers, rows, column, e.smaller(e.add(column, TILE), width))
                return carried

            e.loop(first, last, 1, [], tile)

        self.segments(along, band)

    def tile(self, pointers: list[Value], rows: Value, first: Value, last: Value) -> None:
        """The elements `first` to `last` of as many rows as given, the first of which `pointers` point to."""
        e = self.emitter
        copies = {number: self.copy(number, pointers[number], rows, first, last) for number in self.copies}

        def line(row: Value, carried: list[Value]) -> list[Value]:
            moved = list(pointers)
            for number, operand in enumerate(self.operands):
                if number in copies:
                    moved[number] = e.address(copies[number], e.mul(row, TILE), operand.dtype)
                elif operand.access != "scalar":
                    distance = e.mul(row, self.outer_strides[number][-1])
                    moved[number] = e.address(pointers[number], distance, operand.dtype)
            self.line(moved, first, last)
            return carried

        e.loop(0, rows, 1, [], line)

    def copy(self, number: int, source: Value, rows: Value, first: Value, last: Value) -> Value:
        """Copy a tile of a transposed operand, in blocks that are transposed in registers.

        The address at which element 0 of the tile's first row would be, in rows of TILE elements. A block that
        would reach past an edge of the tile lies further back instead; those of a tile smaller than a block
        begin in the neighbouring tile.
        """
        e = self.emitter
        dtype = self.operands[number].dtype
        element, size = MEMORY_ELEMENT[dtype], ELEMENT_SIZE[dtype]
        # Blocks of 64-bit elements are smaller: whole blocks fit in the registers.
        count = e.lanes if size <= 4 else e.lanes // 2
        type_ = f"<{count} x {element}>"
        stride = self.inner_strides[number]
        last_row, last_column = e.sub(rows, count), e.sub(last, count)
        first_row, first_column = e.smaller(last_row, 0), e.smaller(first, last_column)
        origin = e.sub(e.mul(first_row, -TILE), first_column)
        copy = e.address(self.copies[number], origin, dtype)

        def column(position: Value, carried: list[Value]) -> list[Value]:
            position = e.smaller(position, last_column)
            start = e.address(source, e.mul(position, stride), dtype)

            def block(row: Value, carried: list[Value]) -> list[Value]:
                row = e.smaller(row, last_row)
                place = e.address(start, row, dtype)
                columns = []
                for _ in range(count):
                    columns.append(e.assign(type_, f"load {type_}, ptr {place.name}, align {size}"))
                    place = e.address(place, stride, dtype)
                destination = e.address(copy, e.add(e.mul(row, TILE), position), dtype)
                for number, line in enumerate(e.transpose(columns)):
                    place = e.address(destination, e.constant(number * TILE, "i64"), dtype)
                    e.store_raw(dtype, line, place)
                return carried

            return e.loop(first_row, rows, count, carried, block)

        e.loop(first_column, last, count, [], column)
        return copy

    def load(self, slot: int, place: _Place) -> Value:
        number = len(self.program.outputs) + slot
        if number not in self.copies:
            return super().load(slot, place)
        dtype = self.operands[number].dtype
        return self.emitter.load(dtype, self.emitter.address(place.pointers[number], place.lane, dtype), place.mask)


class _Stage(NamedTuple):
    """One walk over a row: what it reduces or stores, and what it puts in and takes from scratch rows."""

    reductions: tuple[int, ...]
    outputs: tuple[int, ...]
    roots: tuple[int, ...]
    kept: tuple[int, ...]
    found: tuple[int, ...]


class _ReducingKernel(_Kernel):
    """The part of a row program that does not depend on what the lanes of a vector are."""

    def __init__(
        self,
        name: str,
        program: Program,
        operands: tuple[Operand, ...],
        outer: int,
        target: Target,
        length: int | None,
    ) -> None:
        super().__init__(name, program, operands, outer, target)
        self.length = length

    def stages(self, with_scratch: bool) -> list[_Stage]:
        """The walks over a row, in order."""
        instructions = self.program.instructions
        levels: list[int] = []
        for instruction in instructions:
            level = max((levels[operand] for operand in instruction.operands), default=0)
            levels.append(level + PRIMITIVES[instruction.primitive].reduces)
        needed = needed_instructions(self.program, self.program.outputs)
        reductions = [number for number in needed if PRIMITIVES[instructions[number].primitive].reduces]
        groups: list[tuple[list[int], list[int], list[int]]] = []
        for level in range(1, max((levels[number] for number in reductions), default=0) + 1):
            group = [number for number in reductions if levels[number] == level]
            groups.append((group, [], [instructions[number].operands[0] for number in group]))
        outputs = [output for output in range(len(self.program.outputs)) if not self.stored_per_row(output)]
        if outputs:
            groups.append(([], outputs, [self.program.outputs[output] for output in outputs]))

        scratch: dict[int, int] = {}
        evaluated: list[set[int]] = []
        found: list[list[int]] = []
        for _, _, roots in groups:
            before = set().union(*evaluated) if with_scratch else set()
            kept = list(self.worth_keeping(roots, before))
            for number in kept:
                first = next(stage for stage, members in enumerate(evaluated) if number in members)
                if number in scratch or len(scratch) < SCRATCH_ROWS:
                    scratch.setdefault(number, first)
            found.append([number for number in kept if number in scratch])
            fixed = [number for number in needed if self.frequency[number] != PER_ELEMENT]
            evaluated.append(set(needed_instructions(self.program, roots, [*fixed, *found[-1]])))
        return [
            _Stage(
                reductions=tuple(group),
                outputs=tuple(stored),
                roots=tuple(roots),
                kept=tuple(number for number, first in scratch.items() if first == stage),
                found=tuple(found[stage]),
            )
            for stage, (group, stored, roots) in enumerate(groups)
        ]

    def worth_keeping(self, roots: Sequence[int], evaluated: set[int]) -> list[int]:
        """The values that `roots` need, an earlier walk had, and which cost much to compute again."""
        found: list[int] = []
        pending, seen = list(roots), set()
        while pending:
            number = pending.pop()
            if number in seen or self.frequency[number] != PER_ELEMENT:
                continue
            seen.add(number)
            instruction = self.program.instructions[number]
            if number in evaluated and instruction.dtype == "float32" and self.cost([number]) >= SCRATCH_FLOPS:
                found.append(number)
            else:
                pending.extend(instruction.operands)
        return found

    def stored_per_row(self, output: int) -> bool:
        """Whether an output is stored once for each row."""
        raise NotImplementedError

    @property
    def across(self) -> bool:
        """Whether the lanes of a vector belong to one row and are reduced in the end."""
        raise NotImplementedError

    def reduction(self, number: int) -> Reduction:
        instruction = self.program.instructions[number]
        operand_dtype = self.program.instructions[instruction.operands[0]].dtype
        return make_reduction(self.emitter, instruction.primitive, operand_dtype)

    def with_or_without_scratch(
        self, available: int, width: int, body: Callable[[list[_Stage], dict[int, Value]], None]
    ) -> None:
        """Emit body(stages, scratch rows): one that keeps values of `width` rows, if they fit, or one without.

        Both are needed unless the longest row is known.
        """
        e = self.emitter
        stages = self.stages(with_scratch=True)
        kept = [number for stage in stages for number in stage.kept]
        fits = available // width
        scratch: dict[int, Value] = {}

        def keeping() -> list[Value]:
            body(stages, scratch)
            return []

        def computing_again() -> list[Value]:
            body(self.stages(with_scratch=False), {})
            return []

        if not kept or (self.length is not None and self.length > fits):
            computing_again()
            return
        length = available + e.lanes
        for number in kept:
            scratch[number] = e.assign("ptr", f"alloca float, i64 {length}, align 64")
        # A promise is not trusted with the stack: should it be broken, the kernel does nothing.
        otherwise = computing_again if self.length is None else list
        e.branch(e.compare("sle", self.inner, fits), keeping, otherwise)

    def evaluate_stage(
        self, stage: _Stage, place: _Place, known: dict[int, Value], scratch: dict[int, Value]
    ) -> list[Value]:
        """The values of a stage's roots at a place, from and to the scratch rows."""
        e = self.emitter
        values = dict(known)
        for number in stage.found:
            values[number] = e.load("float32", e.address(scratch[number], place.scratch, "float32"))
        result = self.evaluate(stage.roots, values, place)
        for number in stage.kept:
            # Lanes outside the mask are stored as well: scratch rows have room for a vector more than a row.
            e.store("float32", values[number], e.address(scratch[number], place.scratch, "float32"))
        return result

    def reduce(
        self,
        stage: _Stage,
        walk: _Walk,
        known: list[dict[int, Value]],
        scratch: dict[int, Value],
        totals: list[list[Value]],
    ) -> list[list[Value]]:
        """Walk over positions and take them into the totals.

        `known` has one dictionary for each of the walk's vectors. `totals` are one for each reduction, or, if
        lanes are rows, one for each reduction and vector.
        """
        e = self.emitter
        sums = any(self.reduction(number).widens for number in stage.reductions)
        if not (sums and walk.long):
            return self.reduce_block(stage, walk, known, scratch, totals)
        length = walk.step * SUM_BLOCK

        def block(start: Value, carried: list[Value]) -> list[Value]:
            limit = e.add(start, length)
            stop = e.select(e.compare("slt", limit, walk.end), limit, walk.end)
            part = walk._replace(begin=start, end=stop)
            return _flat(self.reduce_block(stage, part, known, scratch, _grouped(carried, totals)))

        return _grouped(e.loop(walk.begin, walk.end, length, _flat(totals), block), totals)

    def reduce_block(
        self,
        stage: _Stage,
        walk: _Walk,
        known: list[dict[int, Value]],
        scratch: dict[int, Value],
        totals: list[list[Value]],
    ) -> list[list[Value]]:
        """`reduce` with a single level of accumulators."""
        e = self.emitter
        reductions = [self.reduction(number) for number in stage.reductions]
        first_indices = [self.index_at(place) for place in walk.places(walk.begin)]
        slots = len(first_indices)
        empty = [reduction.empty(index) for reduction in reductions for index in first_indices]

        def vectors(position: Value, carried: list[Value]) -> list[Value]:
            accumulators = _grouped(carried, empty)
            places = walk.places(position)
            values = [self.evaluate_stage(stage, place, own, scratch) for place, own in zip(places, known, strict=True)]
            result = []
            for number, reduction in enumerate(reductions):
                for slot, place in enumerate(places):
                    value = values[slot][number]
                    if place.mask is not None and self.across:
                        value = e.select(place.mask, value, reduction.identity())
                    old = accumulators[number * slots + slot]
                    result.append(reduction.step(old, value, self.index_at(place)))
            return _flat(result)

        accumulators = _grouped(e.loop(walk.begin, walk.end, walk.step, _flat(empty), vectors), empty)
        result = list(totals)
        for number, reduction in enumerate(reductions):
            for slot in range(slots):
                target = number if self.across else number * slots + slot
                new = reduction.widen(accumulators[number * slots + slot])
                result[target] = reduction.join(result[target], new)
        return result

    def store_outputs(
        self, stage: _Stage, walk: _Walk, known: list[dict[int, Value]], scratch: dict[int, Value]
    ) -> None:
        def vectors(position: Value, carried: list[Value]) -> list[Value]:
            places = walk.places(position)
            results = [
                self.evaluate_stage(stage, place, own, scratch) for place, own in zip(places, known, strict=True)
            ]
            for number, output in enumerate(stage.outputs):
                self.store(output, [result[number] for result in results], places)
            return carried

        self.emitter.loop(walk.begin, walk.end, walk.step, [], vectors)

    def index_at(self, place: _Place) -> Index:
        return lambda: self.index(place)

    def empty_totals(self, stage: _Stage, places: list[_Place]) -> list[list[Value]]:
        indices = [self.index_at(place) for place in places]
        reductions = [self.reduction(number) for number in stage.reductions]
        return [reduction.widen(reduction.empty(index)) for reduction in reductions for index in indices]


def _flat(groups: list[list[Value]]) -> list[Value]:
    return [value for group in groups for value in group]


def _grouped(values: Sequence[Value], like: list[list[Value]]) -> list[list[Value]]:
    remaining = iter(values)
    return [[next(remaining) for _ in group] for group in like]


class _RowKernel(_ReducingKernel):
    """Rows one after the other, lanes along the row."""

    @property
    def across(self) -> bool:
        return True

    def stored_per_row(self, output: int) -> bool:
        if self.operands[output].access != "row":
            return False
        if self.frequency[self.program.outputs[output]] == PER_ELEMENT:
            raise ValueError(f"output {output} has one element per row, but the program one per position")
        return True

    def body(self) -> None:
        if self.length is not None and self.length <= SHORT_VECTORS * self.emitter.lanes:
            self.short_rows(self.length)
            return

        def rows(stages: list[_Stage], scratch: dict[int, Value]) -> None:
            def row(number: Value, carried: list[Value]) -> list[Value]:
                self.row(number, stages, scratch)
                return carried

            self.emitter.loop(self.begin, self.end, 1, [], row)

        self.with_or_without_scratch(SCRATCH_LENGTH, 1, rows)

    def row(self, number: Value, stages: list[_Stage], scratch: dict[int, Value]) -> None:
        e = self.emitter
        pointers = self.row_pointers(number)
        known = self.known
        zero = e.constant(0, "i64")
        for stage in stages:
            known = self.evaluate_fixed(PER_ROW, stage.roots, known, pointers)
            unroll = _unroll(self.cost(stage.roots, stage.found))
            stop = e.op("and", self.inner, -unroll * e.lanes)
            main = _Walk(zero, stop, unroll * e.lanes, self.whole_vectors(pointers, unroll), long=True)
            rest = _Walk(stop, self.inner, e.lanes, self.masked_vector(pointers), long=False)
            if stage.outputs:
                self.store_outputs(stage, main, [known] * unroll, scratch)
                self.store_outputs(stage, rest, [known], scratch)
                continue
            totals = self.empty_totals(stage, self.whole_vectors(pointers, 1)(zero))
            totals = self.reduce(stage, main, [known] * unroll, scratch, totals)
            totals = self.reduce(stage, rest, [known], scratch, totals)
            for reduction, total in zip(stage.reductions, totals, strict=True):
                known[reduction] = self.reduction(reduction).finish(total, across=True)
        self.store_per_row(known, pointers)

    def short_rows(self, length: int) -> None:
        """Rows of a few vectors, each loaded and evaluated once, without branches.

        The code is the same for all lengths that end in the same vector without filling it.
        """
        e = self.emitter
        stages = self.stages(with_scratch=False)
        count = max(1, -(-length // e.lanes))
        full, rest = count * e.lanes, e.sub(self.inner, (count - 1) * e.lanes)
        starts = [e.constant(number * e.lanes, "i64") for number in range(count)]
        masks = [None] * (count - 1) + [None if length == full else e.first_lanes(rest)]

        def row(number: Value, carried: list[Value]) -> list[Value]:
            pointers = self.row_pointers(number)
            places = [_Place(pointers, start, start, start, mask) for start, mask in zip(starts, masks, strict=True)]
            known = self.known
            evaluated: list[dict[int, Value]] = [{} for _ in places]
            for stage in stages:
                known = self.evaluate_fixed(PER_ROW, stage.roots, known, pointers)
                results = []
                for place, own in zip(places, evaluated, strict=True):
                    own.update(known)
                    results.append(self.evaluate(stage.roots, own, place))
                for position, output in enumerate(stage.outputs):
                    self.store(output, [result[position] for result in results], places)
                for position, instruction in enumerate(stage.reductions):
                    values = [result[position] for result in results]
                    known[instruction] = self.reduce_vectors(self.reduction(instruction), values, places)
            self.store_per_row(known, pointers)
            return carried

        # The promised length is not trusted: should it be another, the kernel does nothing.
        promised = e.compare("eq", self.inner, full) if length == full else e.compare("ult", rest, e.lanes)
        e.loop(self.begin, e.select(promised, self.end, self.begin), 1, [], row)

    def reduce_vectors(self, reduction: Reduction, values: list[Value], places: list[_Place]) -> Value:
        """The reduction of a whole row, whose few elements need no wider type."""
        e = self.emitter
        totals = reduction.empty(self.index_at(places[0]))
        for value, place in zip(values, places, strict=True):
            inside = e.select(place.mask, value, reduction.identity()) if place.mask else value
            totals = reduction.step(totals, inside, self.index_at(place))
        return reduction.finish(totals, across=True)

    def store_per_row(self, known: dict[int, Value], pointers: list[Value]) -> None:
        per_row = [output for output in range(len(self.program.outputs)) if self.stored_per_row(output)]
        known = self.evaluate_fixed(PER_ROW, [self.program.outputs[output] for output in per_row], known, pointers)
        for output in per_row:
            value = self.as_stored(output, known[self.program.outputs[output]])
            self.emitter.store_scalar(self.operands[output].dtype, value, pointers[output])

    def whole_vectors(self, pointers: list[Value], count: int) -> Callable[[Value], list[_Place]]:
        return lambda position: self.places(pointers, position, count)

    def masked_vector(self, pointers: list[Value]) -> Callable[[Value], list[_Place]]:
        def places(position: Value) -> list[_Place]:
            mask = self.emitter.first_lanes(self.emitter.sub(self.inner, position))
            return [_Place(pointers, position, position, position, mask)]

        return places


class _ColumnKernel(_ReducingKernel):
    """Neighbouring rows side by side, each lane a row."""

    @property
    def across(self) -> bool:
        return False

    def loads_vary(self) -> bool:
        return True

    def lane_stride(self, number: int) -> Value:
        return self.outer_strides[number][-1]

    def index(self, place: _Place) -> Value:
        return self.emitter.splat(place.position)

    def stored_per_row(self, output: int) -> bool:
        return self.frequency[self.program.outputs[output]] != PER_ELEMENT

    def body(self) -> None:
        # Several vectors side by side read neighbouring cache lines together.
        unroll = COLUMN_VECTORS if self.cost(self.program.outputs) < EXPENSIVE else 1
        e = self.emitter
        width = self.sizes[-1]

        def lines(stages: list[_Stage], scratch: dict[int, Value]) -> None:
            def line(number: Value, first: Value, last: Value) -> None:
                pointers = self.row_pointers(e.mul(number, width))
                step = unroll * e.lanes
                count = e.sub(last, first)
                stop = e.add(first, e.op("and", count, -step))

                def whole(lane: Value, carried: list[Value]) -> list[Value]:
                    lanes = [lane, *(e.add(lane, number * e.lanes) for number in range(1, unroll))]
                    self.group(pointers, lanes, None, stages, scratch)
                    return carried

                def rest(lane: Value, carried: list[Value]) -> list[Value]:
                    self.group(pointers, [lane], e.first_lanes(e.sub(last, lane)), stages, scratch)
                    return carried

                e.loop(first, stop, step, [], whole)
                e.loop(stop, last, e.lanes, [], rest)

            self.segments(width, line)

        self.with_or_without_scratch(COLUMN_SCRATCH_LENGTH, unroll * e.lanes, lines)

    def group(
        self,
        pointers: list[Value],
        lanes: list[Value],
        mask: Value | None,
        stages: list[_Stage],
        scratch: dict[int, Value],
    ) -> None:
        """The rows that start at each of `lanes`, a vector each."""
        e = self.emitter
        zero = e.constant(0, "i64")

        def places(index: Value) -> list[_Place]:
            moved = [
                pointer if operand.access == "scalar" else e.address(pointer, e.mul(index, stride), operand.dtype)
                for operand, pointer, stride in zip(self.operands, pointers, self.inner_strides, strict=True)
            ]
            kept = e.mul(index, len(lanes) * e.lanes)
            return [_Place(moved, index, lane, e.add(kept, slot * e.lanes), mask) for slot, lane in enumerate(lanes)]

        walk = _Walk(zero, self.inner, 1, places, long=True)
        known = [dict(self.known) for _ in lanes]
        for stage in stages:
            known = [self.evaluate_fixed(PER_ROW, stage.roots, own, pointers) for own in known]
            if stage.outputs:
                self.store_outputs(stage, walk, known, scratch)
                continue
            totals = self.reduce(stage, walk, known, scratch, self.empty_totals(stage, places(zero)))
            for number, reduction in enumerate(stage.reductions):
                for slot, own in enumerate(known):
                    total = totals[number * len(lanes) + slot]
                    own[reduction] = self.reduction(reduction).finish(total, across=False)
        per_row = [output for output in range(len(self.program.outputs)) if self.stored_per_row(output)]
        roots = [self.program.outputs[output] for output in per_row]
        for own, place in zip(known, places(zero), strict=True):
            values = self.evaluate_fixed(PER_ROW, roots, own, pointers)
            for output, root in zip(per_row, roots, strict=True):
                self.store(output, [values[root]], [place])
