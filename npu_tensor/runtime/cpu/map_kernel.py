"""The form of maps: positions are elements in row-major order."""

from __future__ import annotations

from collections.abc import Callable

from npu_tensor.ops.analysis import PER_ROW
from npu_tensor.runtime.cpu.loop_base import LoopBase, Place, unrolling
from npu_tensor.runtime.cpu.values import ELEMENT_SIZE, Value

__all__ = ["MapKernel"]


class MapKernel(LoopBase):
    """Each row, or the part of it that is asked for, in vectors; stores may go past the caches."""

    def body(self) -> None:
        self.segments(self.inner, lambda row, first, last: self.line(self.row_pointers(row), first, last))

    def line(self, pointers: list[Value], first: Value, last: Value) -> None:
        """The elements `first` to `last` of the row that `pointers` point to."""
        e = self.emitter
        known = self.evaluate_fixed(PER_ROW, self.program.outputs, self.known, pointers)
        unroll = unrolling(self.flops(self.program.outputs))
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
            place = Place(pointers, index, index, index, e.first_lanes(e.sub(last, index)))
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

        if self.spec.nontemporal and self.outer == 0 and self.streams(unroll):
            e.branch(self.aligned(pointers, first), past_caches, usual)
        else:
            usual()
        e.loop(stop, last, e.lanes, [], remainder)

    def streams(self, unroll: int) -> bool:
        """Whether `unroll` vectors of every output are contiguous and at least one whole register."""
        outputs = self.operands[: len(self.program.outputs)]
        return all(output.access == "contiguous" and ELEMENT_SIZE[output.dtype] * unroll >= 4 for output in outputs)

    def aligned(self, pointers: list[Value], first: Value) -> Value:
        """Whether every output starts at a cache line."""
        e = self.emitter
        joined: Value | None = None
        for output in range(len(self.program.outputs)):
            address = e.address(pointers[output], first, self.operands[output].dtype)
            number = e.assign("i64", f"ptrtoint ptr {address.name} to i64")
            joined = number if joined is None else e.op("or", joined, number)
        return e.compare("eq", e.op("and", joined, 63), 0) if joined else e.constant(0, "i1")
