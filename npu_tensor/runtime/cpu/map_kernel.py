"""The form of maps: positions are elements in row-major order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from npu_tensor.ops.analysis import PER_ROW
from npu_tensor.runtime.cpu.loop_base import NUMBERS, LoopBase, Place, unrolling
from npu_tensor.runtime.cpu.values import ELEMENT_SIZE, MEMORY_ELEMENT, Value

__all__ = ["MapKernel", "TileKernel", "tile_count"]


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
        known = self.evaluate_fixed(PER_ROW, self.program.outputs, self.known, pointers)
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
    """Return the number of positions of a map with transposed operands."""
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
