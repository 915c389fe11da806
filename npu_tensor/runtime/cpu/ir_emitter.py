"""IR emitter of kernels: the builder, access to memory, and operations of several instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npu_tensor.runtime.cpu import float_formats
from npu_tensor.runtime.cpu.ssa import SsaBuilder
from npu_tensor.runtime.cpu.values import (
    BITS,
    ELEMENT_SIZE,
    FLOATS,
    MEMORY_ELEMENT,
    REGISTER_ELEMENT,
    Number,
    Value,
    ValueOrNumber,
)

__all__ = ["TABLE_SIZE", "Emitter"]

# Elements of the tables of `lookup`, which fit into one AVX512 register.
TABLE_SIZE = 16


class Emitter(SsaBuilder):
    """A builder with loads and stores, and operations that take several instructions or differ between targets.

    Elements in memory have the type `memory_dtype`; in registers 16-bit floats are float32 and bool is a mask.
    """

    def address(self, pointer: Value, index: Value, memory_dtype: str) -> Value:
        """Return the address of element `index` (an i64, or a vector of them) of an array."""
        type_ = f"<{self.lanes} x ptr>" if index.type.startswith("<") else "ptr"
        element = MEMORY_ELEMENT[memory_dtype]
        return self.assign(type_, f"getelementptr {element}, ptr {pointer.name}, {index.type} {index.name}")

    def load(self, memory_dtype: str, address: Value, mask: Value | None = None) -> Value:
        """Load consecutive elements in the register dtype. Lanes outside `mask` are 0 and not accessed."""
        return self.from_memory(memory_dtype, self.load_raw(memory_dtype, address, mask))

    def load_raw(self, memory_dtype: str, address: Value, mask: Value | None = None) -> Value:
        """Load elements without the conversion."""
        element, size = MEMORY_ELEMENT[memory_dtype], ELEMENT_SIZE[memory_dtype]
        type_ = self.vector(element)
        if mask is None:
            return self.assign(type_, f"load {type_}, ptr {address.name}, align {size}")
        return self.masked("load", address, Value(str(size), "i32"), mask, Value("zeroinitializer", type_))

    def masked(self, operation: str, *operands: Value) -> Value:
        """Call llvm.masked.load or gather (address, alignment, mask, rest), store or scatter (value, address, ...)."""
        if operation in ("load", "gather"):
            result, overloads = operands[3].type, (operands[3].type, operands[0].type)
        else:
            result, overloads = "void", (operands[0].type, operands[1].type)
        return self.intrinsic(f"llvm.masked.{operation}", *operands, result=result, overloads=overloads)

    def load_scalar(self, memory_dtype: str, address: Value) -> Value:
        """Load one element, converted to the register dtype, into every lane."""
        element, size = MEMORY_ELEMENT[memory_dtype], ELEMENT_SIZE[memory_dtype]
        raw = self.assign(element, f"load {element}, ptr {address.name}, align {size}")
        return self.from_memory(memory_dtype, self.splat(raw))

    def gather(self, memory_dtype: str, pointer: Value, offsets: Value, mask: Value | None = None) -> Value:
        """Load elements at offsets (i64 lanes, in elements). Lanes outside `mask` hold some element of the others."""
        if mask is not None:
            # The first lane is always inside: reading it again needs no branch where gathers are emulated.
            offsets = self.select(mask, offsets, self.splat(self.extract(offsets)))
        addresses = self.address(pointer, offsets, memory_dtype)
        type_ = self.vector(MEMORY_ELEMENT[memory_dtype])
        align, every_lane = Value(str(ELEMENT_SIZE[memory_dtype]), "i32"), self.constant(1, self.vector("i1"))
        raw = self.masked("gather", addresses, align, every_lane, Value("zeroinitializer", type_))
        return self.from_memory(memory_dtype, raw)

    def store(self, memory_dtype: str, value: Value, address: Value, mask: Value | None = None) -> None:
        """Convert and store consecutive elements; only the lanes of `mask` if there is one."""
        self.store_raw(memory_dtype, self.to_memory(memory_dtype, value), address, mask)

    def store_raw(self, memory_dtype: str, raw: Value, address: Value, mask: Value | None = None) -> None:
        """Store a result of `to_memory`."""
        size = ELEMENT_SIZE[memory_dtype]
        if mask is None:
            self.statement(f"store {raw.type} {raw.name}, ptr {address.name}, align {size}")
        else:
            self.masked("store", raw, address, Value(str(size), "i32"), mask)

    def store_scalar(self, memory_dtype: str, value: Value, address: Value) -> None:
        """Convert and store the first lane."""
        raw = self.extract(self.to_memory(memory_dtype, value))
        self.statement(f"store {raw.type} {raw.name}, ptr {address.name}, align {ELEMENT_SIZE[memory_dtype]}")

    def scatter_raw(
        self, memory_dtype: str, raw: Value, pointer: Value, offsets: Value, mask: Value | None = None
    ) -> None:
        """Store a result of `to_memory` at the offsets (i64 lanes, in elements)."""
        addresses = self.address(pointer, offsets, memory_dtype)
        align = Value(str(ELEMENT_SIZE[memory_dtype]), "i32")
        self.masked("scatter", raw, addresses, align, mask or self.constant(1, self.vector("i1")))

    def store_streaming(self, memory_dtype: str, values: Sequence[Value], address: Value) -> None:
        """Store the elements of consecutive vectors past the caches; `address` is aligned to a register.

        Narrow elements are joined to whole registers of i32 first: LLVM has non-temporal stores of few types.
        """
        pieces = self.all_to_memory(memory_dtype, values)
        per_register = max(1, 4 // ELEMENT_SIZE[memory_dtype])
        for start in range(0, len(pieces), per_register):
            group = pieces[start : start + per_register]
            while len(group) > 1:
                count = 2 * int(group[0].type[1:].split()[0])
                group = [self.shuffle(a, range(count), b) for a, b in zip(group[::2], group[1::2], strict=True)]
            joined = group[0]
            if joined.element in ("i8", "i16"):
                words = int(joined.type[1:].split()[0]) * BITS[joined.element] // 32
                joined = self.assign(f"<{words} x i32>", f"bitcast {joined.type} {joined.name} to <{words} x i32>")
            place = self.address(address, self.constant(start * self.lanes, "i64"), memory_dtype)
            size = min(64, self.lanes * 4)
            self.statement(f"store {joined.type} {joined.name}, ptr {place.name}, align {size}, !nontemporal !0")

    def from_memory(self, memory_dtype: str, raw: Value) -> Value:
        """Convert the lanes of a vector from their memory type to the register dtype."""
        if memory_dtype == "bfloat16":
            return float_formats.widen_bfloat16(self, raw)
        if memory_dtype == "float16":
            return float_formats.widen_float16(self, raw)
        if memory_dtype == "bool":
            return self.compare("ne", raw, 0)
        return raw

    def to_memory(self, memory_dtype: str, value: Value) -> Value:
        """Convert the lanes of a vector to their memory type."""
        return self.all_to_memory(memory_dtype, [value])[0]

    def all_to_memory(self, memory_dtype: str, values: Sequence[Value]) -> list[Value]:
        """Convert the lanes of several vectors to their memory type, with fewer branches than one by one."""
        if memory_dtype == "bfloat16":
            return float_formats.narrow_bfloat16(self, values)
        return [self._to_memory(memory_dtype, value) for value in values]

    def _to_memory(self, memory_dtype: str, value: Value) -> Value:
        if memory_dtype == "float16":
            return float_formats.narrow_float16(self, value)
        if memory_dtype == "bool":
            return self.convert("zext", value, "i8")
        return value

    def polynomial(self, x: Value, coefficients: Sequence[ValueOrNumber]) -> Value:
        """Evaluate a polynomial by Horner's rule, highest power first."""
        result = coefficients[0]
        for coefficient in coefficients[1:]:
            result = self.fma(result, x, coefficient)
        return self.operand(result, x.type)

    def at_most(self, x: Value, bound: Number) -> Value:
        """Return min(x, bound); NaN stays NaN. The order of operands is that of the x86 instruction."""
        return self.select(self.compare("ogt", x, bound), bound, x)

    def at_least(self, x: Value, bound: Number) -> Value:
        """Return max(x, bound); NaN stays NaN."""
        return self.select(self.compare("olt", x, bound), bound, x)

    def larger(self, left: ValueOrNumber, right: ValueOrNumber) -> Value:
        """Return the maximum of two signed integers."""
        return self.select(self.compare("sgt", left, right), left, right)

    def smaller(self, left: ValueOrNumber, right: ValueOrNumber) -> Value:
        """Return the minimum of two signed integers."""
        return self.select(self.compare("slt", left, right), left, right)

    def transpose(self, rows: Sequence[Value]) -> list[Value]:
        """Return the columns of a square matrix given by its rows, whose number is a power of two.

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
        """Look up float32 elements of a table of `TABLE_SIZE` by the low bits of the i32 lanes of `index`."""
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

    def number(self, dtype: str, load: Callable[[str], Value]) -> Value:
        """Return a run-time number of a register dtype in every lane. `load` reads it as a double or an i64."""
        element = REGISTER_ELEMENT[dtype]
        if element in FLOATS:
            number = load("double")
            return self.splat(self.convert("fptrunc", number, element) if element == "float" else number)
        number = load("i64")
        if element == "i1":
            return self.splat(self.compare("ne", number, 0))
        return self.splat(number if element == "i64" else self.convert("trunc", number, element))

    def first_lanes(self, count: Value) -> Value:
        """Return the mask of the first `count` lanes (an i64, at least 0)."""
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
        """Round to the nearest integral float, half to even."""
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
