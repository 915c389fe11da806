"""The form of columns: neighbouring rows side by side, and each lane of a vector is a row of its own."""

from __future__ import annotations

from collections.abc import Sequence

from npu_tensor.ops.analysis import PER_ELEMENT, PER_ROW, Stage
from npu_tensor.runtime.cpu.loop_base import EXPENSIVE, NUMBERS, LoopOperand, Place
from npu_tensor.runtime.cpu.reducing_base import ReducingBase, VectorRange
from npu_tensor.runtime.cpu.values import Value

__all__ = ["ColumnKernel"]

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
            return [self.evaluate_fixed_at(PER_ROW, roots, own, place) for own, place in pairs]

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
