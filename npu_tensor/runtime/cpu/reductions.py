"""The reductions of a row, vector by vector."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from npu_tensor.ops.expression import Instruction
from npu_tensor.runtime.cpu.ir_emitter import Emitter
from npu_tensor.runtime.cpu.primitive_ir import apply
from npu_tensor.runtime.cpu.values import BITS, REGISTER_ELEMENT, Value, is_signed

__all__ = ["REDUCTIONS", "Index", "Reduction", "make_reduction"]

Index = Callable[[], Value]


class Reduction:
    """Reduction of a row with accumulators per lane, in two levels.

    A loop over some thousand elements starts with `empty` accumulators and applies `step` to each vector;
    then `widen` and `join` add them to the totals of the row. `finish` gives the value of the instruction, of
    totals or, for rows of a few elements, of accumulators.
    """

    def __init__(self, emitter: Emitter, primitive: str, dtype: str) -> None:
        self.emitter = emitter
        self.primitive = primitive
        self.dtype = dtype
        self.element = REGISTER_ELEMENT[dtype]
        self.type = emitter.vector(self.element)

    def identity(self) -> float | int:
        """Neutral element."""
        raise NotImplementedError

    def empty(self, index: Index) -> list[Value]:
        """Return accumulators before the first element; `index()` returns the positions of the first vector's lanes."""
        return [self.emitter.constant(self.identity(), self.type)]

    def step(self, accumulators: list[Value], value: Value, index: Index) -> list[Value]:
        return self.join(accumulators, [value])

    def join(self, left: list[Value], right: list[Value]) -> list[Value]:
        raise NotImplementedError

    @property
    def widens(self) -> bool:
        """True if the totals have another type than the accumulators."""
        return False

    def widen(self, accumulators: list[Value]) -> list[Value]:
        return accumulators

    def finish(self, totals: list[Value], across: bool) -> Value:
        return (self.emitter.across_lanes(totals, self.join) if across else totals)[0]

    def combine(self, primitive: str, left: Value, right: Value) -> Value:
        return apply(self.emitter, Instruction(primitive, (), self.dtype), [left, right], [self.dtype])


class _Sum(Reduction):
    """float32 elements are added up in float32 and these sums in float64, about as exact as pairwise."""

    def identity(self) -> int:
        return 0

    def join(self, left: list[Value], right: list[Value]) -> list[Value]:
        if left[0].element == "double":
            return [self.emitter.add(left[0], right[0])]
        return [self.combine("add", left[0], right[0])]

    @property
    def widens(self) -> bool:
        return self.dtype == "float32"

    def widen(self, accumulators: list[Value]) -> list[Value]:
        if not self.widens:
            return accumulators
        return [self.emitter.convert("fpext", accumulators[0], "double")]

    def finish(self, totals: list[Value], across: bool) -> Value:
        total = super().finish(totals, across)
        return self.emitter.convert("fptrunc", total, "float") if total.element != self.element else total


class _Product(Reduction):
    def identity(self) -> int:
        return 1

    def join(self, left: list[Value], right: list[Value]) -> list[Value]:
        return [self.combine("mul", left[0], right[0])]


def _worst(dtype: str, for_maximum: bool) -> float | int:
    """Return the number of a dtype that loses every comparison."""
    if dtype.startswith("float"):
        return -math.inf if for_maximum else math.inf
    width = BITS[REGISTER_ELEMENT[dtype]]
    if not is_signed(dtype):
        return 0 if for_maximum else (1 << width) - 1
    return -(1 << (width - 1)) if for_maximum else (1 << (width - 1)) - 1


class _Extreme(Reduction):
    def identity(self) -> float | int:
        return _worst(self.dtype, self.primitive == "row_max")

    def join(self, left: list[Value], right: list[Value]) -> list[Value]:
        # `maximum` tests its left operand for NaN: the new element, so that the accumulator need not wait for
        # it.
        return [self.combine("maximum" if self.primitive == "row_max" else "minimum", right[0], left[0])]


class _Position(Reduction):
    """Accumulators are the best values and their positions. The first NaN is better than any number."""

    def identity(self) -> float | int:
        return _worst(self.dtype, self.primitive == "row_argmax")

    def empty(self, index: Index) -> list[Value]:
        return [self.emitter.constant(self.identity(), self.type), index()]

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
        return (self.emitter.across_lanes(totals, self.join) if across else totals)[1]


REDUCTIONS: Final[Mapping[str, type[Reduction]]] = {
    "row_sum": _Sum,
    "row_prod": _Product,
    "row_max": _Extreme,
    "row_min": _Extreme,
    "row_argmax": _Position,
    "row_argmin": _Position,
}


def make_reduction(emitter: Emitter, primitive: str, dtype: str) -> Reduction:
    """Return the code of a `row_*` primitive over elements of a register dtype."""
    return REDUCTIONS[primitive](emitter, primitive, dtype)
