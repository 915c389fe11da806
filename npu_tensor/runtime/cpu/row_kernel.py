"""Forms of loops with reductions: rows, whose lanes are neighbours in a row, and columns, whose lanes are rows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from npu_tensor.ops.analysis import PER_ELEMENT, PER_ROW, Stage, needed, stages, worth_keeping
from npu_tensor.ops.expression import Instruction
from npu_tensor.runtime.cpu.ir_emitter import BEGIN, END, Emitter
from npu_tensor.runtime.cpu.map_kernel import EXPENSIVE, NUMBERS, LoopBase, LoopOperand, Place, unrolling
from npu_tensor.runtime.cpu.primitive_ir import apply
from npu_tensor.runtime.cpu.values import BITS, REGISTER_ELEMENT, Value, is_signed

Index = Callable[[], Value]

_OPERATIONS: Final[Mapping[str, str]] = {
    "row_sum": "add",
    "row_prod": "mul",
    "row_max": "maximum",
    "row_min": "minimum",
}


class Reduction:
    """Reduction of a row with accumulators per lane, in two levels.

    A loop over some thousand elements starts with `empty` accumulators and applies `step` to each vector;
    then `widen` and `join` add them to the totals of the row. `finish` gives the value of the instruction, of
    totals or, for rows of a few elements, of accumulators.

    float32 elements are added up in float32 and these sums in float64, about as exact as pairwise.
    """

    def __init__(self, emitter: Emitter, primitive: str, dtype: str) -> None:
        self.emitter = emitter
        self.primitive = primitive
        self.dtype = dtype
        self.element = REGISTER_ELEMENT[dtype]

    def identity(self) -> float | int:
        """Return the result of an empty row."""
        if self.primitive in ("row_sum", "row_prod"):
            return int(self.primitive == "row_prod")
        is_maximum = self.primitive in ("row_max", "row_argmax")
        if self.dtype.startswith("float"):
            return -math.inf if is_maximum else math.inf
        width = BITS[self.element]
        if not is_signed(self.dtype):
            return 0 if is_maximum else (1 << width) - 1
        return -(1 << (width - 1)) if is_maximum else (1 << (width - 1)) - 1

    def empty(self, index: Index) -> list[Value]:
        """Return accumulators before the first element; `index()` returns the positions of the first vector's lanes."""
        return [self.emitter.constant(self.identity(), self.emitter.vector(self.element))]

    def step(self, accumulators: list[Value], value: Value, index: Index) -> list[Value]:
        return self.join(accumulators, [value])

    def join(self, left: list[Value], right: list[Value]) -> list[Value]:
        if left[0].element != self.element:
            return [self.emitter.add(left[0], right[0])]
        # `maximum` tests its left operand for NaN: the new element, so that the accumulator need not wait for it.
        instruction = Instruction(_OPERATIONS[self.primitive], (), self.dtype)
        return [apply(self.emitter, instruction, [right[0], left[0]], [self.dtype])]

    @property
    def widens(self) -> bool:
        """True if the totals have another type than the accumulators."""
        return self.primitive == "row_sum" and self.dtype == "float32"

    def widen(self, accumulators: list[Value]) -> list[Value]:
        return [self.emitter.convert("fpext", accumulators[0], "double")] if self.widens else accumulators

    def finish(self, totals: list[Value], across: bool) -> Value:
        total = self.reduced(totals, across)[0]
        return total if total.element == self.element else self.emitter.convert("fptrunc", total, self.element)

    def reduced(self, totals: list[Value], across: bool) -> list[Value]:
        """Return the totals of a row: of all lanes together if they are `across` lanes."""
        return self.emitter.across_lanes(totals, self.join) if across else totals


class _Position(Reduction):
    """Accumulators are the best values and their positions. The first NaN is better than any number."""

    def empty(self, index: Index) -> list[Value]:
        return [*super().empty(index), index()]

    def better(self, new: Value, old: Value) -> Value:
        """Return the condition that a new value is better than an old one, whatever their positions."""
        e = self.emitter
        order = "gt" if self.primitive == "row_argmax" else "lt"
        if not self.dtype.startswith("float"):
            return e.compare(("s" if is_signed(self.dtype) else "u") + order, new, old)
        return e.op("and", e.compare("u" + order, new, old), e.compare("ord", old, old))

    def step(self, accumulators: list[Value], value: Value, index: Index) -> list[Value]:
        e = self.emitter
        better = self.better(value, accumulators[0])
        return [e.select(better, value, accumulators[0]), e.select(better, index(), accumulators[1])]

    def join(self, left: list[Value], right: list[Value]) -> list[Value]:
        e = self.emitter
        first = e.compare("slt", right[1], left[1])
        worse = self.better(left[0], right[0])
        tie_or_better = e.op("xor", worse, e.constant(1, worse.type))
        take = e.op("or", self.better(right[0], left[0]), e.op("and", tie_or_better, first))
        return [e.select(take, new, old) for new, old in zip(right, left, strict=True)]

    def finish(self, totals: list[Value], across: bool) -> Value:
        return self.reduced(totals, across)[1]


REDUCTIONS: Final[Mapping[str, type[Reduction]]] = {
    **dict.fromkeys(_OPERATIONS, Reduction),
    "row_argmax": _Position,
    "row_argmin": _Position,
}


# float32 sums go over to float64 after this many additions in each lane.
SUM_BLOCK = 32
# Upper bound on intermediate values that are kept, each in a scratch row.
SCRATCH_ROWS = 2
# An intermediate value is kept for a later stage rather than computed again from this many flops on.
SCRATCH_FLOPS = 12


class VectorRange(NamedTuple):
    """Positions from `begin` in steps up to `end` along the inner dimension, and the vectors handled at each.

    A range that is not `long` has a few positions only.
    """

    begin: Value
    end: Value
    step: int
    places: Callable[[Value], list[Place]]
    long: bool


class ReducingBase(LoopBase):
    """Base of row programs, independent of the meaning of the lanes of a vector."""

    across: bool
    """True if the lanes of a vector belong to one row and are reduced in the end."""

    def stages(self, with_scratch: bool) -> list[Stage]:
        plan = stages(self.program, self.outputs(per_row=False))
        if not with_scratch:
            return plan
        fixed = [number for number, frequency in enumerate(self.frequency) if frequency != PER_ELEMENT]
        kept_by: dict[int, int] = {}  # The first stage that has the value.
        computed: dict[int, int] = {}
        reused: list[list[int]] = []
        for number, stage in enumerate(plan):
            values = set(needed(self.program, stage.roots, fixed)).difference(fixed)
            again = [value for value in values.intersection(computed) if self.flops([value]) >= SCRATCH_FLOPS]
            keep = worth_keeping(self.program, stage.roots, again)
            for value in keep:
                if value in kept_by or len(kept_by) < SCRATCH_ROWS:
                    kept_by[value] = computed[value]
            reused.append([value for value in keep if value in kept_by])
            for value in values.intersection(needed(self.program, stage.roots, [*fixed, *reused[-1]])):
                computed.setdefault(value, number)
        return [
            replace(stage, kept=tuple(value for value, first in kept_by.items() if first == number), reused=tuple(own))
            for number, (stage, own) in enumerate(zip(plan, reused, strict=True))
        ]

    def outputs(self, per_row: bool) -> list[int]:
        """Return the outputs that are stored once for each row, or the others."""
        return [output for output in range(len(self.program.outputs)) if self.stored_per_row(output) == per_row]

    def stored_per_row(self, output: int) -> bool:
        raise NotImplementedError

    def reduction(self, number: int) -> Reduction:
        instruction = self.program.instructions[number]
        operand_dtype = self.program.instructions[instruction.operands[0]].dtype
        return REDUCTIONS[instruction.primitive](self.emitter, instruction.primitive, operand_dtype)

    def with_or_without_scratch(
        self, available: int, width: int, body: Callable[[list[Stage], dict[int, Value]], None]
    ) -> None:
        """Emit body(stages, scratch rows): one that keeps values of `width` rows, if they fit, or one without.

        Both are needed unless the longest row is known.
        """
        e = self.emitter
        stages = self.stages(with_scratch=True)
        kept = [number for stage in stages for number in stage.kept]
        fits = available // width
        scratch: dict[int, Value] = {}

        def keeping() -> None:
            body(stages, scratch)

        def computing_again() -> None:
            body(self.stages(with_scratch=False), {})

        if not kept or (self.spec.length is not None and self.spec.length > fits):
            computing_again()
            return
        length = available + e.lanes
        for number in kept:
            scratch[number] = e.assign("ptr", f"alloca float, i64 {length}, align 64")
        if self.spec.length is None:
            e.branch(e.compare("sle", self.inner, fits), keeping, computing_again)
        else:
            keeping()

    def evaluate_stage(
        self, stage: Stage, places: list[Place], known: list[dict[int, Value]], scratch: dict[int, Value]
    ) -> list[list[Value]]:
        """Return the values of a stage's roots at each place, from and to the scratch rows."""
        e = self.emitter
        results = []
        for place, own in zip(places, known, strict=True):
            values = dict(own)
            for number in stage.reused:
                values[number] = e.load("float32", e.address(scratch[number], place.scratch, "float32"))
            results.append(self.evaluate(stage.roots, values, place))
            for number in stage.kept:
                # Lanes outside the mask are stored as well: scratch rows have room for a vector more than a row.
                e.store("float32", values[number], e.address(scratch[number], place.scratch, "float32"))
        return results

    def reduce(
        self,
        stage: Stage,
        span: VectorRange,
        known: list[dict[int, Value]],
        scratch: dict[int, Value],
        totals: list[list[Value]],
    ) -> list[list[Value]]:
        """Go over positions and add their values to the totals.

        `known` has one dictionary for each of the range's vectors. `totals` are one for each reduction, or, if
        lanes are rows, one for each reduction and vector.
        """
        e = self.emitter
        widens = any(self.reduction(number).widens for number in stage.reductions)
        if not (widens and span.long):
            return self.reduce_block(stage, span, known, scratch, totals)
        length = span.step * SUM_BLOCK

        def block(start: Value, carried: list[Value]) -> list[Value]:
            part = span._replace(begin=start, end=e.smaller(e.add(start, length), span.end))
            return flat(self.reduce_block(stage, part, known, scratch, grouped(carried, totals)))

        return grouped(e.loop(span.begin, span.end, length, flat(totals), block), totals)

    def reduce_block(
        self,
        stage: Stage,
        span: VectorRange,
        known: list[dict[int, Value]],
        scratch: dict[int, Value],
        totals: list[list[Value]],
    ) -> list[list[Value]]:
        """Reduce with a single level of accumulators."""
        e = self.emitter
        reductions = [self.reduction(number) for number in stage.reductions]
        first_indices = [self.index_at(place) for place in span.places(span.begin)]
        slots = len(first_indices)
        empty = [reduction.empty(index) for reduction in reductions for index in first_indices]

        def vectors(position: Value, carried: list[Value]) -> list[Value]:
            accumulators = grouped(carried, empty)
            places = span.places(position)
            values = self.evaluate_stage(stage, places, known, scratch)
            result = []
            for number, reduction in enumerate(reductions):
                for slot, place in enumerate(places):
                    value = values[slot][number]
                    if place.mask is not None and self.across:
                        value = e.select(place.mask, value, reduction.identity())
                    old = accumulators[number * slots + slot]
                    result.append(reduction.step(old, value, self.index_at(place)))
            return flat(result)

        accumulators = grouped(e.loop(span.begin, span.end, span.step, flat(empty), vectors), empty)
        result = list(totals)
        for number, reduction in enumerate(reductions):
            for slot in range(slots):
                target = number if self.across else number * slots + slot
                new = reduction.widen(accumulators[number * slots + slot])
                result[target] = reduction.join(result[target], new)
        return result

    def store_outputs(
        self, stage: Stage, span: VectorRange, known: list[dict[int, Value]], scratch: dict[int, Value]
    ) -> None:
        def vectors(position: Value, _: list[Value]) -> None:
            places = span.places(position)
            results = self.evaluate_stage(stage, places, known, scratch)
            for number, output in enumerate(stage.outputs):
                self.store(output, [result[number] for result in results], places)

        self.emitter.loop(span.begin, span.end, span.step, [], vectors)

    def index_at(self, place: Place) -> Index:
        return lambda: self.index(place)

    def empty_totals(self, stage: Stage, places: list[Place]) -> list[list[Value]]:
        indices = [self.index_at(place) for place in places]
        reductions = [self.reduction(number) for number in stage.reductions]
        return [reduction.widen(reduction.empty(index)) for reduction in reductions for index in indices]


def flat(groups: list[list[Value]]) -> list[Value]:
    """Return accumulators or totals, as a loop carries them."""
    return [value for group in groups for value in group]


def grouped(values: Sequence[Value], like: list[list[Value]]) -> list[list[Value]]:
    """Undo `flat`."""
    remaining = iter(values)
    return [[next(remaining) for _ in group] for group in like]


# The longest row (in elements) of which intermediate values are kept, on the stack, 64 KiB for each.
SCRATCH_LENGTH = 16384
# Rows of up to this many vectors are kept in registers. On a Zen 3, rows between 4 and 8 vectors are faster so too.
SHORT_VECTORS = 8


class RowKernel(ReducingBase):
    """Kernel for rows one after the other, with lanes along the row. Unevenly spaced rows are computed run by run."""

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

            self.emitter.loop(BEGIN, END, 1, [], row)

        if self.spec.runs:
            rows(self.stages(with_scratch=False), {})
        else:
            self.with_or_without_scratch(SCRATCH_LENGTH, 1, rows)

    def row(self, number: Value, stages: list[Stage], scratch: dict[int, Value]) -> None:
        e = self.emitter
        runs = self.sizes[self.outer - self.spec.runs :]
        count = functools.reduce(e.mul, runs) if runs else None
        coordinates = self.coordinates(number if count is None else e.mul(number, count))
        pointers = self.pointers(coordinates)
        known = self.known
        for stage in stages:
            known = self.evaluate_fixed(PER_ROW, stage.roots, known, self.origin(pointers))
            totals = []
            if not stage.outputs:
                totals = self.empty_totals(stage, self.places(pointers, e.constant(0, "i64"), 1))
            if count is None:
                totals = self.run(stage, pointers, None, known, scratch, totals)
            else:
                totals = self.runs(stage, coordinates, count, known, totals)
            for reduction, total in zip(stage.reductions, totals, strict=True):
                known[reduction] = self.reduction(reduction).finish(total, across=True)
        self.store_per_row(known, pointers)

    def runs(
        self, stage: Stage, first: list[Value], count: Value, known: dict[int, Value], totals: list[list[Value]]
    ) -> list[list[Value]]:
        """Go over `count` runs from coordinates `first` on: store outputs, or add the elements to the totals."""
        e = self.emitter

        def run(number: Value, carried: list[Value]) -> list[Value]:
            coordinates, own = carried[: self.outer], carried[self.outer :]
            start = e.mul(number, self.inner)
            own = flat(self.run(stage, self.pointers(coordinates), start, known, {}, grouped(own, totals)))
            return [*self.following(coordinates), *own]

        carried = e.loop(0, count, 1, [*first, *flat(totals)], run)
        return grouped(carried[self.outer :], totals)

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
        starts = [e.constant(number * e.lanes, "i64") for number in range(count)]
        masks: list[Value | None] = [None] * count
        if length < count * e.lanes:
            masks[-1] = e.first_lanes(e.sub(self.inner, starts[-1]))

        def row(number: Value, _: list[Value]) -> None:
            pointers = self.row_pointers(number)
            places = [Place(pointers, start, start, start, mask) for start, mask in zip(starts, masks, strict=True)]
            known = self.known
            evaluated: list[dict[int, Value]] = [{} for _ in places]
            for stage in stages:
                known = self.evaluate_fixed(PER_ROW, stage.roots, known, self.origin(pointers))
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

        e.loop(BEGIN, END, 1, [], row)

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
        roots = [self.program.outputs[output] for output in per_row]
        known = self.evaluate_fixed(PER_ROW, roots, known, self.origin(pointers))
        for output in per_row:
            value = self.as_stored(output, known[self.program.outputs[output]])
            self.emitter.store_scalar(self.operands[output].dtype, value, pointers[output])


# The elements of all rows handled at once of which an intermediate value is kept at most, on the stack.
COLUMN_SCRATCH_LENGTH = 65536
# The vectors that are handled at once.
COLUMN_VECTORS = 4


class ColumnKernel(ReducingBase):
    """Neighbouring rows side by side, each lane a row."""

    across = False

    def is_per_row(self, operand: LoopOperand) -> bool:
        return operand.per_row

    def lane_stride(self, number: int) -> Value:
        return self.outer_strides[number][-1]

    def index(self, place: Place) -> Value:
        return self.emitter.splat(place.position)

    def stored_per_row(self, output: int) -> bool:
        return self.frequency[self.program.outputs[output]] != PER_ELEMENT

    def body(self) -> None:
        # Several vectors side by side read neighbouring cache lines together.
        unroll = COLUMN_VECTORS if self.flops(self.program.outputs) < EXPENSIVE else 1
        e = self.emitter
        width = self.sizes[-1]

        def lines(stages: list[Stage], scratch: dict[int, Value]) -> None:
            def line(number: Value, first: Value, last: Value) -> None:
                pointers = self.row_pointers(e.mul(number, width))
                step = unroll * e.lanes
                count = e.sub(last, first)
                stop = e.add(first, e.op("and", count, -step))

                def whole(lane: Value, _: list[Value]) -> None:
                    self.group(pointers, self.lane_starts(lane, unroll), None, stages, scratch)

                def rest(lane: Value, _: list[Value]) -> None:
                    self.group(pointers, [lane], e.first_lanes(e.sub(last, lane)), stages, scratch)

                e.loop(first, stop, step, [], whole)
                e.loop(stop, last, e.lanes, [], rest)

            self.numbered(width, line)

        self.with_or_without_scratch(COLUMN_SCRATCH_LENGTH, unroll * e.lanes, lines)

    def group(
        self,
        pointers: list[Value],
        lanes: list[Value],
        mask: Value | None,
        stages: list[Stage],
        scratch: dict[int, Value],
    ) -> None:
        """Return the rows that start at each of `lanes`, a vector each."""
        e = self.emitter
        zero = e.constant(0, "i64")

        def places(index: Value) -> list[Place]:
            moved = [
                pointer if operand.access in NUMBERS else e.address(pointer, e.mul(index, stride), operand.dtype)
                for operand, pointer, stride in zip(self.operands, pointers, self.inner_strides, strict=True)
            ]
            kept = e.mul(index, len(lanes) * e.lanes)
            return [Place(moved, index, lane, e.add(kept, slot * e.lanes), mask) for slot, lane in enumerate(lanes)]

        span = VectorRange(zero, self.inner, 1, places, long=True)
        starts = places(zero)
        known = [dict(self.known) for _ in lanes]

        def evaluate_per_row(roots: Sequence[int]) -> list[dict[int, Value]]:
            pairs = zip(known, starts, strict=True)
            return [self.evaluate_fixed(PER_ROW, roots, own, place) for own, place in pairs]

        for stage in stages:
            known = evaluate_per_row(stage.roots)
            if stage.outputs:
                self.store_outputs(stage, span, known, scratch)
                continue
            totals = self.reduce(stage, span, known, scratch, self.empty_totals(stage, starts))
            for number, reduction in enumerate(stage.reductions):
                for slot, own in enumerate(known):
                    total = totals[number * len(lanes) + slot]
                    own[reduction] = self.reduction(reduction).finish(total, across=False)
        per_row = self.outputs(per_row=True)
        roots = [self.program.outputs[output] for output in per_row]
        for values, place in zip(evaluate_per_row(roots), starts, strict=True):
            for output, root in zip(per_row, roots, strict=True):
                self.store(output, [values[root]], [place])
