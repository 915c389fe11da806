"""Base of all forms of loops, and the forms without reductions: maps, and maps in tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from npu_tensor.ops.analysis import ONCE, PER_ELEMENT, PER_ROW, frequencies, needed, reduces
from npu_tensor.ops.expression import Program
from npu_tensor.ops.primitives import PRIMITIVES
from npu_tensor.runtime.cpu.ir_emitter import BEGIN, END, META, POINTERS, Emitter
from npu_tensor.runtime.cpu.primitive_ir import cast, emit_program
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import ELEMENT_SIZE, MEMORY_ELEMENT, Value, register_dtype

# Loops are not unrolled whose body has at least this many flops.
EXPENSIVE = 60

# Accesses of numbers, which are not in memory.
NUMBERS = frozenset({"scalar", "fixed"})


class LoopOperand(NamedTuple):
    """Access of a loop to an operand.

    Attributes:
        access: Name of the inner stride: "contiguous" (1), "row" (0: one element per row), "strided" (any); for inputs
            also "run" (0, but another element in the next run of the row), "reversed" (-1) and "alternate" (2).
            Run-time numbers are "scalar", or "fixed" if they are in `meta` in place of the offset. In the column form
            it is the stride across rows, along the innermost outer dimension. An input of a map may be "transposed":
            contiguous along that dimension, which has at least as many elements as a vector has lanes.
        per_row: True in the column form if all elements of a row are one element.
    """

    dtype: str
    access: str
    per_row: bool = False


class LoopSpec(NamedTuple):
    """Parameters of a loop kernel. See `loop_kernel` for the forms."""

    program: Program
    operands: tuple[LoopOperand, ...]  # the outputs, then the slots that loads and scalars name
    outer: int  # the number of outer dimensions; without any there is a single row
    # A map without outer dimensions may write past the caches, for outputs larger than these.
    nontemporal: bool = False
    # The column form, which needs outer dimensions: outputs with one value per row are stored once.
    columns: bool = False
    # The inner length, promised: rows of a few vectors are kept in registers, and code for rows that are too long for
    # scratch memory is left out.
    length: int | None = None
    runs: int = 0  # the number of outer dimensions that belong to the row, in the form of rows, without a length


class Place(NamedTuple):
    """Position of a vector: pointers to position 0 of every operand, and the elements."""

    pointers: list[Value]
    position: Value  # in the row, or along the inner dimension of a map
    lane: Value  # where the vector starts across the lanes' dimension: the inner one except in the column form
    scratch: Value  # the position in scratch rows
    mask: Value | None


class LoopBase:
    """A kernel of one form. Subclasses emit in `body` the loops over positions."""

    def __init__(self, spec: LoopSpec, target: CpuTarget) -> None:
        self.spec = spec
        self.program = spec.program
        self.operands = spec.operands
        self.outer = spec.outer
        self.emitter = Emitter(target)
        inputs = spec.operands[len(spec.program.outputs) :]
        row_slots = {slot for slot, operand in enumerate(inputs) if self.is_per_row(operand)}
        self.frequency = frequencies(spec.program, row_slots)
        self.known: dict[int, Value] = {}

    def is_per_row(self, operand: LoopOperand) -> bool:
        """Return True if an input is loaded once for each row."""
        return operand.access == "row"

    def flops(self, roots: Iterable[int], known: Collection[int] = ()) -> int:
        """Count the floating-point operations per element that evaluate `roots`."""
        instructions = self.program.instructions
        return sum(
            PRIMITIVES[instructions[number].primitive].flops
            for number in needed(self.program, roots, known)
            if self.frequency[number] == PER_ELEMENT and number not in known
        )

    def text(self) -> str:
        self.read_arguments()
        self.known = self.evaluate_fixed(ONCE, self.program.outputs, {}, self.origin([]))
        self.body()
        return self.emitter.kernel()

    def body(self) -> None:
        raise NotImplementedError

    # ------------------------------------------------------------------ arguments

    def read_arguments(self) -> None:
        e = self.emitter
        self.inner = self.read_meta(0)
        self.sizes = [self.read_meta(1 + axis) for axis in range(self.outer)]
        self.bases: list[Value] = []
        self.outer_strides: list[list[Value]] = []
        self.inner_strides: list[Value] = []
        # For strided operands, the distances of a vector's elements from its first.
        self.lane_offsets: dict[int, Value] = {}
        for number, operand in enumerate(self.operands):
            first = self.first_entry(number)
            if operand.access in NUMBERS:
                self.bases.append(POINTERS)  # not read
                self.outer_strides.append([])
                self.inner_strides.append(e.constant(0, "i64"))
                continue
            self.bases.append(e.address(e.load_value("ptr", POINTERS, number), self.read_meta(first), operand.dtype))
            self.outer_strides.append([self.read_meta(first + 1 + axis) for axis in range(self.outer)])
            self.inner_strides.append(self.read_meta(first + 1 + self.outer))
            if operand.access in ("strided", "alternate"):
                self.lane_offsets[number] = e.mul(e.splat(self.lane_stride(number)), e.lane_numbers())

    def read_meta(self, position: int) -> Value:
        return self.emitter.load_value("i64", META, position)

    def first_entry(self, number: int) -> int:
        """Return the position of the entries of an operand in `meta`."""
        return 1 + self.outer + number * (self.outer + 2)

    def lane_stride(self, number: int) -> Value:
        return self.inner_strides[number]

    def row_pointers(self, row: Value) -> list[Value]:
        return self.pointers(self.coordinates(row))

    def coordinates(self, row: Value) -> list[Value]:
        e = self.emitter
        coordinates = [row] * self.outer
        for axis in range(self.outer - 1, 0, -1):
            size = e.larger(self.sizes[axis], 1)
            quotient = e.op("udiv", coordinates[axis], size)
            coordinates[axis] = e.sub(coordinates[axis], e.mul(quotient, size))
            coordinates[axis - 1] = quotient
        return coordinates

    def following(self, coordinates: list[Value]) -> list[Value]:
        """Return the coordinates of the next row without a division, which costs several vectors of elements."""
        e = self.emitter
        result = list(coordinates)
        carry = one = e.constant(1, "i64")
        for axis in range(self.outer - 1, -1, -1):
            moved = e.add(coordinates[axis], carry)
            at_end = e.compare("eq", moved, self.sizes[axis])
            result[axis] = e.select(at_end, 0, moved) if axis else moved
            carry = e.select(at_end, one, 0)
        return result

    def pointers(self, coordinates: list[Value]) -> list[Value]:
        """Return the addresses of the first element of the row at these coordinates in every operand."""
        if self.outer == 0:
            return self.bases
        e = self.emitter
        pointers = []
        for operand, base, strides in zip(self.operands, self.bases, self.outer_strides, strict=True):
            pointer = base
            for coordinate, stride in zip(coordinates, strides, strict=False):
                pointer = e.address(pointer, e.mul(coordinate, stride), operand.dtype)
            pointers.append(pointer)
        return pointers

    def segments(
        self,
        width: Value,
        start: Callable[[Value], list[Value]],
        body: Callable[[list[Value], Value, Value], list[Value]],
    ) -> None:
        """Cut positions from `begin` to `end` into lines of `width`: body(state, first, last) for each.

        start(line): the state of the first line. body returns that of the next one.
        """
        e = self.emitter
        if self.outer == 0:
            body(start(e.constant(0, "i64")), BEGIN, END)
            return
        divisor = e.larger(width, 1)
        first_line = e.op("udiv", BEGIN, divisor)
        last_line = e.op("udiv", e.add(END, e.sub(divisor, 1)), divisor)
        last_line = e.select(e.compare("slt", BEGIN, END), last_line, 0)

        def line(number: Value, state: list[Value]) -> list[Value]:
            before = e.mul(number, divisor)
            first, last = e.sub(BEGIN, before), e.sub(END, before)
            first = e.larger(first, 0)
            last = e.smaller(last, width)
            return body(state, first, last)

        e.loop(first_line, last_line, 1, start(first_line), line)

    def numbered(self, width: Value, body: Callable[[Value, Value, Value], None]) -> None:
        """Emit `segments` with the number of the line in place of a state."""

        def line(state: list[Value], first: Value, last: Value) -> list[Value]:
            (number,) = state
            body(number, first, last)
            return [self.emitter.add(number, 1)]

        self.segments(width, lambda number: [number], line)

    # ------------------------------------------------------------------ elements

    def load(self, slot: int, place: Place) -> Value:
        e = self.emitter
        number = len(self.program.outputs) + slot
        operand, pointer = self.operands[number], place.pointers[number]
        if operand.access in ("row", "run"):
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

    def store(self, output: int, values: Sequence[Value], places: Sequence[Place]) -> None:
        e = self.emitter
        operand = self.operands[output]
        stored = e.all_to_memory(operand.dtype, [self.as_stored(output, value) for value in values])
        for raw, place in zip(stored, places, strict=True):
            pointer = place.pointers[output]
            if operand.access == "contiguous":
                e.store_raw(operand.dtype, raw, e.address(pointer, place.lane, operand.dtype), place.mask)
            else:
                start = e.address(pointer, e.mul(place.lane, self.lane_stride(output)), operand.dtype)
                e.scatter_raw(operand.dtype, raw, start, self.lane_offsets[output], place.mask)

    def as_stored(self, output: int, value: Value) -> Value:
        dtype = self.program.instructions[self.program.outputs[output]].dtype
        return cast(self.emitter, value, dtype, register_dtype(self.operands[output].dtype))

    def scalar(self, slot: int, dtype: str) -> Value:
        number = len(self.program.outputs) + slot
        if self.operands[number].access == "fixed":
            return self.emitter.load_number(META, self.first_entry(number), dtype)
        return self.emitter.load_number(POINTERS, number, dtype)

    def evaluate(self, roots: Sequence[int], known: dict[int, Value], place: Place) -> list[Value]:
        """Return the values of instructions at a place. Evaluated values are added to `known`."""
        return emit_program(
            self.emitter,
            self.program,
            load=lambda slot: self.load(slot, place),
            scalar=self.scalar,
            index=lambda: self.index(place),
            known=known,
            roots=roots,
        )

    def index(self, place: Place) -> Value:
        return self.emitter.add(self.emitter.splat(place.position), self.emitter.lane_numbers())

    def places(self, pointers: list[Value], index: Value, count: int) -> list[Place]:
        """Return `count` vectors side by side, with the lanes along the inner dimension."""
        return [Place(pointers, position, position, position, None) for position in self.lane_starts(index, count)]

    def lane_starts(self, first: Value, count: int) -> list[Value]:
        """Return the start of each of `count` neighbouring vectors."""
        e = self.emitter
        return [first, *(e.add(first, number * e.lanes) for number in range(1, count))]

    def origin(self, pointers: list[Value]) -> Place:
        zero = self.emitter.constant(0, "i64")
        return Place(pointers, zero, zero, zero, None)

    def evaluate_fixed(
        self, frequency: int, roots: Sequence[int], known: dict[int, Value], place: Place
    ) -> dict[int, Value]:
        """Return `known` and all values needed by `roots` that change at most at the given frequency."""
        result = dict(known)
        fixed = [
            number
            for number in needed(self.program, roots, result)
            if number not in result
            and self.frequency[number] <= frequency
            and not reduces(self.program.instructions[number])
        ]
        self.evaluate(fixed, result, place)
        return result


def unrolling(flops: int) -> int:
    """Return the number of vectors per iteration: enough to hide latencies, few if there is much code."""
    if flops <= 8:
        return 4
    return 2 if flops < EXPENSIVE else 1


class MapKernel(LoopBase):
    """Form that handles each row, or a part of it, in vectors. Stores may bypass the caches."""

    def body(self) -> None:
        def line(coordinates: list[Value], first: Value, last: Value) -> list[Value]:
            self.line(self.pointers(coordinates), first, last)
            return self.following(coordinates)

        self.segments(self.inner, self.coordinates, line)

    def line(self, pointers: list[Value], first: Value, last: Value) -> None:
        """Handle the elements `first` to `last` of the row that `pointers` point to."""
        e = self.emitter
        known = self.evaluate_fixed(PER_ROW, self.program.outputs, self.known, self.origin(pointers))
        unroll = unrolling(self.flops(self.program.outputs))
        count = e.select(e.compare("slt", first, last), e.sub(last, first), 0)
        step = unroll * e.lanes
        stop, stop_of_single = (e.add(first, e.op("and", count, -size)) for size in (step, e.lanes))

        def vectors(count: int, streaming: bool = False) -> Callable[[Value, list[Value]], None]:
            def body(index: Value, _: list[Value]) -> None:
                places = self.places(pointers, index, count)
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

            return body

        def place_at(index: Value, mask: Value | None) -> Place:
            return Place(pointers, index, index, index, mask)

        def store_at(place: Place, results: Sequence[Value]) -> None:
            for output, value in enumerate(results):
                self.store(output, [value], [place])

        def remainder(index: Value, _: list[Value]) -> None:
            place = place_at(index, e.first_lanes(e.sub(last, index)))
            store_at(place, self.evaluate(self.program.outputs, dict(known), place))

        def usual() -> list[Value]:
            return e.loop(first, stop, step, [], vectors(unroll))

        def past_caches() -> None:
            e.loop(first, stop, step, [], vectors(unroll, streaming=True))
            if e.target.is_x86:
                e.intrinsic("llvm.x86.sse.sfence", result="void", overloads=())

        def short() -> None:
            usual()
            e.loop(stop, stop_of_single, e.lanes, [], vectors(1))
            e.loop(stop_of_single, last, e.lanes, [], remainder)

        def overlapping() -> None:
            """Return the last vector, which ends with the row, before any store can overwrite an operand."""
            place = place_at(e.sub(last, e.lanes), None)
            results = self.evaluate(self.program.outputs, dict(known), place)
            usual()
            e.loop(stop, stop_of_single, e.lanes, [], vectors(1))
            store_at(place, results)

        if self.outer and unroll > 1:  # Parts of vectors are a large share of short rows, and their stores are slow.
            partial = e.compare("slt", stop_of_single, last)
            e.branch(e.op("and", partial, e.compare("sge", count, e.lanes)), overlapping, short)
            return
        if self.spec.nontemporal and self.outer == 0 and self.streams(unroll):
            e.branch(self.aligned(pointers, first), past_caches, usual)
        else:
            usual()
        e.loop(stop, last, e.lanes, [], remainder)

    def streams(self, unroll: int) -> bool:
        """Return True if `unroll` vectors of every output are contiguous and at least one whole register."""
        outputs = self.operands[: len(self.program.outputs)]
        return all(output.access == "contiguous" and ELEMENT_SIZE[output.dtype] * unroll >= 4 for output in outputs)

    def aligned(self, pointers: list[Value], first: Value) -> Value:
        """Return a condition: every output starts at a cache line."""
        e = self.emitter
        joined: Value | None = None
        for output in range(len(self.program.outputs)):
            address = e.address(pointers[output], first, self.operands[output].dtype)
            number = e.assign("i64", f"ptrtoint ptr {address.name} to i64")
            joined = number if joined is None else e.op("or", joined, number)
        return e.compare("eq", e.op("and", joined, 63), 0) if joined else e.constant(0, "i1")


# Rows and elements of each that are handled at once. Their cache lines and pages are used several times while
# they are at hand.
TILE = 64


def tile_count(outer: Sequence[int], inner: int) -> int:
    return math.prod(outer[:-1]) * -(-outer[-1] // TILE) * -(-inner // TILE)


class TileKernel(MapKernel):
    """Form that handles square tiles, with a row-major copy of each transposed operand on the stack."""

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

            def tile(position: Value, _: list[Value]) -> None:
                column = e.mul(position, TILE)
                self.tile(pointers, rows, column, e.smaller(e.add(column, TILE), width))

            e.loop(first, last, 1, [], tile)

        self.numbered(along, band)

    def tile(self, pointers: list[Value], rows: Value, first: Value, last: Value) -> None:
        """Handle the elements `first` to `last` of some rows; `pointers` point to the first row."""
        e = self.emitter
        copies = {number: self.copy(number, pointers[number], rows, first, last) for number in self.copies}

        def line(row: Value, _: list[Value]) -> None:
            moved = list(pointers)
            for number, operand in enumerate(self.operands):
                if number in copies:
                    moved[number] = e.address(copies[number], e.mul(row, TILE), operand.dtype)
                elif operand.access not in NUMBERS:
                    distance = e.mul(row, self.outer_strides[number][-1])
                    moved[number] = e.address(pointers[number], distance, operand.dtype)
            self.line(moved, first, last)

        e.loop(0, rows, 1, [], line)

    def copy(self, number: int, source: Value, rows: Value, first: Value, last: Value) -> Value:
        """Copy a tile of a transposed operand, in blocks that are transposed in registers.

        Returns the address of element 0 of the tile's first row, in rows of TILE elements. A block that would reach
        past an edge of the tile starts earlier; those of a tile smaller than a block
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

        def column(position: Value, _: list[Value]) -> None:
            position = e.smaller(position, last_column)
            start = e.address(source, e.mul(position, stride), dtype)

            def block(row: Value, _: list[Value]) -> None:
                row = e.smaller(row, last_row)
                place = e.address(start, row, dtype)
                columns = []
                for _line in range(count):
                    columns.append(e.assign(type_, f"load {type_}, ptr {place.name}, align {size}"))
                    place = e.address(place, stride, dtype)
                destination = e.address(copy, e.add(e.mul(row, TILE), position), dtype)
                for number, line in enumerate(e.transpose(columns)):
                    place = e.address(destination, e.constant(number * TILE, "i64"), dtype)
                    e.store_raw(dtype, line, place)

            e.loop(first_row, rows, count, [], block)

        e.loop(first_column, last, count, [], column)
        return copy

    def load(self, slot: int, place: Place) -> Value:
        number = len(self.program.outputs) + slot
        if number not in self.copies:
            return super().load(slot, place)
        dtype = self.operands[number].dtype
        return self.emitter.load(dtype, self.emitter.address(place.pointers[number], place.lane, dtype), place.mask)
