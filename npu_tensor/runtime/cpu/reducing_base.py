"""Base of the forms with reductions: passes over rows, accumulators, and values kept between passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from npu_tensor.ops.analysis import PER_ELEMENT, Stage, needed, stages, worth_keeping
from npu_tensor.runtime.cpu.loop_base import LoopBase, Place
from npu_tensor.runtime.cpu.reductions import Index, Reduction, make_reduction
from npu_tensor.runtime.cpu.values import Value

__all__ = ["ReducingBase", "VectorRange", "flat", "grouped"]

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
        """Return the passes over a row, in order."""
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
        """Return True if an output is stored once for each row."""
        raise NotImplementedError

    def reduction(self, number: int) -> Reduction:
        instruction = self.program.instructions[number]
        operand_dtype = self.program.instructions[instruction.operands[0]].dtype
        return make_reduction(self.emitter, instruction.primitive, operand_dtype)

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
        # A promise is not trusted with the stack: should it be broken, the kernel does nothing.
        otherwise = computing_again if self.spec.length is None else list
        e.branch(e.compare("sle", self.inner, fits), keeping, otherwise)

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
