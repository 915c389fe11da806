"""What kernels are written with: the builder, its access to memory, and operations of several instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npu_tensor.runtime.cpu.memory_access import MemoryAccess
from npu_tensor.runtime.cpu.values import Number, Value, ValueOrNumber

__all__ = ["TABLE_SIZE", "Emitter"]

# Elements of the tables of `lookup`: what fits into one AVX512 register.
TABLE_SIZE = 16


class Emitter(MemoryAccess):
    """A builder with the operations that take several instructions, or different ones on different targets."""

    def polynomial(self, x: Value, coefficients: Sequence[ValueOrNumber]) -> Value:
        """Horner's rule, highest power first."""
        result = coefficients[0]
        for coefficient in coefficients[1:]:
            result = self.fma(result, x, coefficient)
        return self.operand(result, x.type)

    def at_most(self, x: Value, bound: Number) -> Value:
        """min(x, bound); NaN stays NaN. The order of operands is that of the x86 instruction."""
        return self.select(self.compare("ogt", x, bound), bound, x)

    def at_least(self, x: Value, bound: Number) -> Value:
        """max(x, bound); NaN stays NaN."""
        return self.select(self.compare("olt", x, bound), bound, x)

    def larger(self, left: ValueOrNumber, right: ValueOrNumber) -> Value:
        """The maximum of two signed integers."""
        return self.select(self.compare("sgt", left, right), left, right)

    def smaller(self, left: ValueOrNumber, right: ValueOrNumber) -> Value:
        """The minimum of two signed integers."""
        return self.select(self.compare("slt", left, right), left, right)

    def transpose(self, rows: Sequence[Value]) -> list[Value]:
        """The columns of a square matrix given by its rows, whose number is a power of two.

        log2(rows) perfect shuffles of the upper with the lower half.
        """
        count = len(rows)
        half = count // 2
        orders = [[start + i // 2 + (i % 2) * count for i in range(count)] for start in (0, half)]
        current = list(rows)
        for _ in range(count.bit_length() - 1):
            current = [self.shuffle(current[i], order, current[i + half]) for i in range(half) for order in orders]
        return current

    def lookup(self, table: Sequence[float], index: Value) -> Value:
        """float32 elements of a table of `TABLE_SIZE`; the low bits of the i32 lanes of `index` choose them."""
        if self.target.has_avx512:
            return self.intrinsic("llvm.x86.avx512.permvar.sf.512", self.literals(table), index, overloads=())
        if "avx2" in self.target.features:
            # The instruction reads three bits of the index; the fourth chooses between its two results.
            name = "llvm.x86.avx2.permps"
            halves = (self.literals(half) for half in (table[:8], table[8:]))
            low, high = (self.intrinsic(name, half, index, overloads=()) for half in halves)
            return self.select(self.compare("slt", self.op("shl", index, 28), 0), high, low)
        name = self.define_table(table)
        offsets = self.op("and", index, TABLE_SIZE - 1)
        result = Value("poison", self.vector("float"))
        for lane in range(self.lanes):
            offset = self.extract(offsets, lane)
            address = self.assign("ptr", f"getelementptr [{TABLE_SIZE} x float], ptr {name}, i64 0, i32 {offset.name}")
            element = self.assign("float", f"load float, ptr {address.name}")
            text = f"insertelement {result.type} {result.name}, float {element.name}, i64 {lane}"
            result = self.assign(result.type, text)
        return result

    def first_lanes(self, count: Value) -> Value:
        """The mask of the first `count` lanes (an i64, at least 0)."""
        narrow = self.convert("trunc", self.smaller(count, self.lanes), "i32")
        return self.compare("slt", self.lane_numbers("i32"), self.splat(narrow))

    def across_lanes(
        self, values: Sequence[Value], combine: Callable[[list[Value], list[Value]], list[Value]]
    ) -> list[Value]:
        """Reduce all lanes with `combine`, which joins two groups of values; every lane holds the result.

        Vectors are halved down to the smallest register's four lanes of 32 bits.
        """
        current = list(values)
        width = self.lanes
        while width > 4:
            width //= 2
            halves = [range(width), range(width, 2 * width)]
            low, high = ([self.shuffle(value, half) for value in current] for half in halves)
            current = combine(low, high)
        for step in (2, 1):
            order = [lane ^ step for lane in range(4)]
            current = combine(current, [self.shuffle(value, order) for value in current])
        return [self.shuffle(value, [0] * self.lanes) for value in current]

    # ------------------------------------------------------------------ rounding

    def rint(self, x: Value) -> Value:
        """Nearest integral float, half to even."""
        if self.target.has_rounding:
            return self.intrinsic("llvm.roundeven", x)
        # From 2^23 (2^52) on there is no fraction; below, adding that number shifts the fraction out.
        magic = 2.0**23 if x.element == "float" else 2.0**52
        magnitude = self.abs(x)
        rounded = self.sub(self.add(magnitude, magic), magic)
        return self.copysign(self.select(self.compare("olt", magnitude, magic), rounded, magnitude), x)

    def floor(self, x: Value) -> Value:
        if self.target.has_rounding:
            return self.intrinsic("llvm.floor", x)
        nearest = self.rint(x)
        lower = self.select(self.compare("ogt", nearest, x), self.sub(nearest, 1.0), nearest)
        return self.copysign(lower, x)

    def ceil(self, x: Value) -> Value:
        if self.target.has_rounding:
            return self.intrinsic("llvm.ceil", x)
        return self.neg(self.floor(self.neg(x)))

    def trunc(self, x: Value) -> Value:
        if self.target.has_rounding:
            return self.intrinsic("llvm.trunc", x)
        return self.copysign(self.floor(self.abs(x)), x)
