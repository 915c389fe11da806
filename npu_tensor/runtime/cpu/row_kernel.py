"""The form of rows: positions are rows, and the lanes of a vector are neighbours in the row."""

from __future__ import annotations

from collections.abc import Callable

from npu_tensor.runtime.cpu.loop_base import Place, unrolling
from npu_tensor.runtime.cpu.program_analysis import PER_ELEMENT, PER_ROW
from npu_tensor.runtime.cpu.reducing_base import ReducingBase, Walk
from npu_tensor.runtime.cpu.reductions import Reduction
from npu_tensor.runtime.cpu.stages import Stage
from npu_tensor.runtime.cpu.values import Value

__all__ = ["SCRATCH_LENGTH", "SHORT_VECTORS", "RowKernel"]

# The longest row (in elements) of which intermediate values are kept, on the stack, 64 KiB for each.
SCRATCH_LENGTH = 16384
# Rows of up to this many vectors are kept in registers.
SHORT_VECTORS = 4


class RowKernel(ReducingBase):
    """Rows one after the other, lanes along the row."""

    @property
    def across(self) -> bool:
        return True

    def stored_per_row(self, output: int) -> bool:
        if self.operands[output].access != "row":
            return False
        if self.analysis.frequency[self.program.outputs[output]] == PER_ELEMENT:
            raise ValueError(f"output {output} has one element per row, but the program one per position")
        return True

    def body(self) -> None:
        if self.spec.length is not None and self.spec.length <= SHORT_VECTORS * self.emitter.lanes:
            self.short_rows(self.spec.length)
            return

        def rows(stages: list[Stage], scratch: dict[int, Value]) -> None:
            def row(number: Value, carried: list[Value]) -> list[Value]:
                self.row(number, stages, scratch)
                return carried

            self.emitter.loop(self.begin, self.end, 1, [], row)

        self.with_or_without_scratch(SCRATCH_LENGTH, 1, rows)

    def row(self, number: Value, stages: list[Stage], scratch: dict[int, Value]) -> None:
        e = self.emitter
        pointers = self.row_pointers(number)
        known = self.known
        zero = e.constant(0, "i64")
        for stage in stages:
            known = self.evaluate_fixed(PER_ROW, stage.roots, known, pointers)
            unroll = unrolling(self.analysis.cost(stage.roots, stage.found))
            stop = e.op("and", self.inner, -unroll * e.lanes)
            main = Walk(zero, stop, unroll * e.lanes, self.whole_vectors(pointers, unroll), long=True)
            rest = Walk(stop, self.inner, e.lanes, self.masked_vector(pointers), long=False)
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
            places = [Place(pointers, start, start, start, mask) for start, mask in zip(starts, masks, strict=True)]
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

    def reduce_vectors(self, reduction: Reduction, values: list[Value], places: list[Place]) -> Value:
        """The reduction of a whole row, whose few elements need no wider type."""
        e = self.emitter
        totals = reduction.empty(self.index_at(places[0]))
        for value, place in zip(values, places, strict=True):
            inside = e.select(place.mask, value, reduction.identity()) if place.mask else value
            totals = reduction.step(totals, inside, self.index_at(place))
        return reduction.finish(totals, across=True)

    def store_per_row(self, known: dict[int, Value], pointers: list[Value]) -> None:
        per_row = self.outputs(per_row=True)
        known = self.evaluate_fixed(PER_ROW, [self.program.outputs[output] for output in per_row], known, pointers)
        for output in per_row:
            value = self.as_stored(output, known[self.program.outputs[output]])
            self.emitter.store_scalar(self.operands[output].dtype, value, pointers[output])

    def whole_vectors(self, pointers: list[Value], count: int) -> Callable[[Value], list[Place]]:
        return lambda position: self.places(pointers, position, count)

    def masked_vector(self, pointers: list[Value]) -> Callable[[Value], list[Place]]:
        def places(position: Value) -> list[Place]:
            mask = self.emitter.first_lanes(self.emitter.sub(self.inner, position))
            return [Place(pointers, position, position, position, mask)]

        return places
