"""The form of rows: positions are rows, and the lanes of a vector are neighbours in the row, or in a run of it."""

from __future__ import annotations

import functools

from npu_tensor.ops.analysis import PER_ROW, Stage
from npu_tensor.runtime.cpu.loop_base import Place, unrolling
from npu_tensor.runtime.cpu.reducing_base import ReducingBase, VectorRange, flat, grouped
from npu_tensor.runtime.cpu.reductions import Reduction
from npu_tensor.runtime.cpu.values import Value

__all__ = ["SCRATCH_LENGTH", "SHORT_VECTORS", "RowKernel"]

# The longest row (in elements) of which intermediate values are kept, on the stack, 64 KiB for each.
SCRATCH_LENGTH = 16384
# Rows of up to this many vectors are kept in registers. On a Zen 3, rows between 4 and 8 vectors are faster so too.
SHORT_VECTORS = 8


class RowKernel(ReducingBase):
    """Rows one after the other, lanes along the row. A row that is not evenly spaced is walked over run by run."""

    across = True

    def stored_per_row(self, output: int) -> bool:
        return self.operands[output].access == "row"

    def body(self) -> None:
        if self.spec.length is not None and self.spec.length <= SHORT_VECTORS * self.emitter.lanes:
            self.short_rows(self.spec.length)
            return

        def rows(stages: list[Stage], scratch: dict[int, Value]) -> None:
            def row(number: Value, _: list[Value]) -> None:
                self.row(number, stages, scratch)

            self.emitter.loop(self.begin, self.end, 1, [], row)

        if self.spec.runs:
            rows(self.stages(with_scratch=False), {})
        else:
            self.with_or_without_scratch(SCRATCH_LENGTH, 1, rows)

    def row(self, number: Value, stages: list[Stage], scratch: dict[int, Value]) -> None:
        e = self.emitter
        runs = self.sizes[self.outer - self.spec.runs :]
        count = functools.reduce(e.mul, runs) if runs else None
        first = number if count is None else e.mul(number, count)
        pointers = self.row_pointers(first)
        known = self.known
        for stage in stages:
            known = self.evaluate_fixed(PER_ROW, stage.roots, known, pointers)
            totals = []
            if not stage.outputs:
                totals = self.empty_totals(stage, self.places(pointers, e.constant(0, "i64"), 1))
            if count is None:
                totals = self.run(stage, pointers, None, known, scratch, totals)
            else:
                totals = self.runs(stage, first, count, known, totals)
            for reduction, total in zip(stage.reductions, totals, strict=True):
                known[reduction] = self.reduction(reduction).finish(total, across=True)
        self.store_per_row(known, pointers)

    def runs(
        self, stage: Stage, first: Value, count: Value, known: dict[int, Value], totals: list[list[Value]]
    ) -> list[list[Value]]:
        """Go over `count` runs from number `first` on: store outputs, or add the elements to the totals."""
        e = self.emitter

        def run(number: Value, carried: list[Value]) -> list[Value]:
            pointers, start = self.row_pointers(e.add(first, number)), e.mul(number, self.inner)
            return flat(self.run(stage, pointers, start, known, {}, grouped(carried, totals)))

        return grouped(e.loop(0, count, 1, flat(totals), run), totals)

    def run(
        self,
        stage: Stage,
        pointers: list[Value],
        start: Value | None,
        known: dict[int, Value],
        scratch: dict[int, Value],
        totals: list[list[Value]],
    ) -> list[list[Value]]:
        """Go over evenly spaced elements; `start` is their first position in the row, None for 0."""
        e = self.emitter
        unroll = unrolling(self.flops(stage.roots, stage.reused))
        stop = e.op("and", self.inner, -unroll * e.lanes)

        def whole(lane: Value) -> list[Place]:
            return [self.place(pointers, start, each, None) for each in self.lane_starts(lane, unroll)]

        def masked(lane: Value) -> list[Place]:
            return [self.place(pointers, start, lane, e.first_lanes(e.sub(self.inner, lane)))]

        main = VectorRange(e.constant(0, "i64"), stop, unroll * e.lanes, whole, long=True)
        rest = VectorRange(stop, self.inner, e.lanes, masked, long=False)
        for span, vectors in ((main, unroll), (rest, 1)):
            if stage.outputs:
                self.store_outputs(stage, span, [known] * vectors, scratch)
            else:
                totals = self.reduce(stage, span, [known] * vectors, scratch, totals)
        return totals

    def place(self, pointers: list[Value], start: Value | None, lane: Value, mask: Value | None) -> Place:
        """Return a vector along a run; `start` is the position of the run in the row, None for 0."""
        return Place(pointers, lane if start is None else self.emitter.add(lane, start), lane, lane, mask)

    def short_rows(self, length: int) -> None:
        """Handle rows of a few vectors, each loaded and evaluated once, without branches.

        The code is the same for all lengths that end in the same vector without filling it.
        """
        e = self.emitter
        stages = self.stages(with_scratch=False)
        count = max(1, -(-length // e.lanes))
        full, rest = count * e.lanes, e.sub(self.inner, (count - 1) * e.lanes)
        starts = [e.constant(number * e.lanes, "i64") for number in range(count)]
        masks = [None] * (count - 1) + [None if length == full else e.first_lanes(rest)]

        def row(number: Value, _: list[Value]) -> None:
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

        # The promised length is not trusted: should it be another, the kernel does nothing.
        promised = e.compare("eq", self.inner, full) if length == full else e.compare("ult", rest, e.lanes)
        e.loop(self.begin, e.select(promised, self.end, self.begin), 1, [], row)

    def reduce_vectors(self, reduction: Reduction, values: list[Value], places: list[Place]) -> Value:
        """Return the reduction of a whole row, whose few elements need no wider type."""
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
