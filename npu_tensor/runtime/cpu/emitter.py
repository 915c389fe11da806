"""A builder of LLVM IR text over SIMD vectors, and the translation of a `Program` into it.

Every register is a vector of `target.lanes` elements, whatever its element type; LLVM splits or widens it to
what the processor has. No LLVM optimisation pass runs afterwards, so what is written here is what is
executed, and nothing may be written that LLVM would turn into a call of a C library function on that target:
such a symbol is missing from a module that is compiled in memory.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from npu_tensor.errors import BuildError
from npu_tensor.ops.expression import Instruction, Program
from npu_tensor.runtime.cpu import vector_math
from npu_tensor.runtime.cpu.target import Target
from npu_tensor.runtime.cpu.vector_math import TABLE_SIZE

__all__ = ["ELEMENT_SIZE", "Emitter", "UnsupportedProgram", "Value", "emit_program", "register_dtype"]


class UnsupportedProgram(BuildError):
    """A program that has no vector code on this device."""


class Value(NamedTuple):
    """An SSA value or a literal: its spelling and its LLVM type, such as `<16 x float>` or `i64`."""

    name: str
    type: str

    @property
    def element(self) -> str:
        """The type of one lane; the type itself if this is no vector."""
        return self.type.split(" x ")[1][:-1] if self.type.startswith("<") else self.type


Number = int | float
Operand = Value | Number

# dtype of a register -> LLVM type of a lane. LLVM integers have no sign; the operations have.
REGISTER_ELEMENT = {
    "float32": "float",
    "float64": "double",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "i8",
    "bool": "i1",
}
# dtype in memory -> LLVM type that is loaded and stored.
MEMORY_ELEMENT = REGISTER_ELEMENT | {"bool": "i8", "bfloat16": "i16", "float16": "i16"}
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "float": 32, "double": 64, "half": 16, "bfloat": 16}
ELEMENT_SIZE = {dtype: BITS[element] // 8 for dtype, element in MEMORY_ELEMENT.items()}
"""Bytes of an element in memory, by dtype."""
FLOATS = ("float", "double")


def register_dtype(memory_dtype: str) -> str:
    """The dtype of a register that holds elements of `memory_dtype`."""
    return "float32" if memory_dtype in ("bfloat16", "float16") else memory_dtype


class Emitter:
    """Appends instructions to the body of one function.

    `lines` is the body so far, `block` the label of the current basic block. Intrinsics and helper functions
    that the body calls are collected and written by `module`.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.lanes = target.lanes
        self.lines: list[str] = []
        self.block = "entry"
        self._names = 0
        self._declarations: dict[str, str] = {}
        self._helpers: dict[str, str] = {}
        # Elements of a table as text -> the name of the constant.
        self._tables: dict[str, str] = {}

    # ------------------------------------------------------------------ text

    def vector(self, element: str) -> str:
        """The LLVM type of a full vector of `element`."""
        return f"<{self.lanes} x {element}>"

    def same_shape(self, value: Value, element: str) -> str:
        """The type of `value` with another element type."""
        return value.type.replace(value.element, element) if value.type.startswith("<") else element

    def fresh(self, stem: str = "v") -> str:
        self._names += 1
        return f"{stem}{self._names}"

    def assign(self, type_: str, text: str) -> Value:
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        return Value(name, type_)

    def statement(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def constant(self, number: Number, type_: str) -> Value:
        """A literal; the same number in every lane of a vector type."""
        if not type_.startswith("<"):
            return Value(_literal(number, type_), type_)
        element = Value("", type_).element
        return Value(f"splat ({element} {_literal(number, element)})", type_)

    def literals(self, numbers: Sequence[Number], element: str = "float") -> Value:
        """A vector of literals, one for each lane."""
        return Value(f"<{_list(numbers, element)}>", f"<{len(numbers)} x {element}>")

    def lane_numbers(self, element: str = "i64") -> Value:
        """The vector 0, 1, 2, ..."""
        return self.literals(range(self.lanes), element)

    def define_helper(self, name: str, result: str, argument: str, body: Callable[[Emitter, Value], Value]) -> str:
        """Give the module the internal function `result name(argument)`, once however often it is called."""
        if name not in self._helpers:
            inner = Emitter(self.target)
            inner._helpers = self._helpers
            inner._declarations = self._declarations
            inner._tables = self._tables
            self._helpers[name] = ""
            value = body(inner, Value("%argument", argument))
            signature = f"{result} @{name}({argument} %argument)"
            head = f"define internal {signature} noinline {self.target.function_attributes} {{"
            self._helpers[name] = "\n".join([head, "entry:", *inner.lines, f"  ret {value.type} {value.name}", "}"])
        return name

    def module(self, *functions: str) -> str:
        """The text of a module of these functions and all that they call."""
        tables = [
            f"{name} = private unnamed_addr constant [{TABLE_SIZE} x float] [{elements}], align 64"
            for elements, name in self._tables.items()
        ]
        rest = [*tables, *self._helpers.values(), *self._declarations.values()]
        return "\n".join([*functions, *rest, "!0 = !{i32 1}", ""])

    def function(self, signature: str) -> str:
        """The text of the function `signature` with the body written so far; a return is added."""
        head = f"define void {signature} {self.target.function_attributes} {{"
        return "\n".join([head, "entry:", *self.lines, "  ret void", "}"])

    # ------------------------------------------------------------------ operations

    def operand(self, operand: Operand, type_: str) -> Value:
        return operand if isinstance(operand, Value) else self.constant(operand, type_)

    def op(self, opcode: str, left: Operand, right: Operand) -> Value:
        """A two-operand instruction. One operand may be a Python number, of the type of the other."""
        type_ = left.type if isinstance(left, Value) else right.type if isinstance(right, Value) else ""
        a, b = self.operand(left, type_), self.operand(right, type_)
        return self.assign(type_, f"{opcode} {type_} {a.name}, {b.name}")

    def add(self, left: Operand, right: Operand) -> Value:
        return self.op(self._arithmetic("add", left, right), left, right)

    def sub(self, left: Operand, right: Operand) -> Value:
        return self.op(self._arithmetic("sub", left, right), left, right)

    def mul(self, left: Operand, right: Operand) -> Value:
        return self.op(self._arithmetic("mul", left, right), left, right)

    def div(self, left: Operand, right: Operand) -> Value:
        return self.op("fdiv", left, right)

    def _arithmetic(self, stem: str, left: Operand, right: Operand) -> str:
        value = left if isinstance(left, Value) else right
        return f"f{stem}" if isinstance(value, Value) and value.element in FLOATS else stem

    def fma(self, a: Operand, b: Operand, c: Operand) -> Value:
        """a * b + c: one rounding where the target has the instruction, else two."""
        type_ = next(operand.type for operand in (a, b, c) if isinstance(operand, Value))
        return self.intrinsic("llvm.fmuladd", *(self.operand(operand, type_) for operand in (a, b, c)))

    def polynomial(self, x: Value, coefficients: Sequence[Operand]) -> Value:
        """Horner's rule, highest power first."""
        result = coefficients[0]
        for coefficient in coefficients[1:]:
            result = self.fma(result, x, coefficient)
        return self.operand(result, x.type)

    def neg(self, x: Value) -> Value:
        return self.assign(x.type, f"fneg {x.type} {x.name}") if x.element in FLOATS else self.op("sub", 0, x)

    def abs(self, x: Value) -> Value:
        if x.element in FLOATS:
            return self.intrinsic("llvm.fabs", x)
        return self.select(self.compare("slt", x, 0), self.neg(x), x)

    def compare(self, predicate: str, left: Operand, right: Operand) -> Value:
        """fcmp or icmp; predicates as in LLVM: "olt", "uno", "slt", "ult", "eq", ..."""
        type_ = left.type if isinstance(left, Value) else right.type if isinstance(right, Value) else ""
        a, b = self.operand(left, type_), self.operand(right, type_)
        opcode = "fcmp" if a.element in FLOATS else "icmp"
        return self.assign(self.same_shape(a, "i1"), f"{opcode} {predicate} {type_} {a.name}, {b.name}")

    def select(self, condition: Value, left: Operand, right: Operand) -> Value:
        type_ = left.type if isinstance(left, Value) else right.type if isinstance(right, Value) else ""
        a, b = self.operand(left, type_), self.operand(right, type_)
        text = f"select {condition.type} {condition.name}, {type_} {a.name}, {type_} {b.name}"
        return self.assign(type_, text)

    def at_most(self, x: Value, bound: Number) -> Value:
        """min(x, bound); NaN stays NaN. The order of operands is that of the x86 instruction."""
        return self.select(self.compare("ogt", x, bound), bound, x)

    def at_least(self, x: Value, bound: Number) -> Value:
        """max(x, bound); NaN stays NaN."""
        return self.select(self.compare("olt", x, bound), bound, x)

    def smaller(self, left: Operand, right: Operand) -> Value:
        """The minimum of two signed integers."""
        return self.select(self.compare("slt", left, right), left, right)

    def convert(self, opcode: str, x: Value, element: str) -> Value:
        """A conversion instruction (zext, trunc, sitofp, bitcast, ...) to lanes of type `element`."""
        type_ = self.same_shape(x, element)
        return self.assign(type_, f"{opcode} {x.type} {x.name} to {type_}")

    def bits(self, x: Value) -> Value:
        """The bit pattern of floats as integers of the same width."""
        return self.convert("bitcast", x, f"i{BITS[x.element]}")

    def float_of_bits(self, x: Value) -> Value:
        return self.convert("bitcast", x, {"i32": "float", "i64": "double"}[x.element])

    def intrinsic(self, name: str, *operands: Value, result: str = "", overloads: Sequence[str] | None = None) -> Value:
        """A call of an LLVM intrinsic, by default overloaded on and returning the type of the first operand.

        Pass `overloads=()` for one that is not overloaded.
        """
        result = result or operands[0].type
        mangled = "".join(f".{_mangled(type_)}" for type_ in ([result] if overloads is None else overloads))
        types = ", ".join(operand.type for operand in operands)
        self._declarations[name + mangled] = f"declare {result} @{name}{mangled}({types})"
        arguments = ", ".join(f"{operand.type} {operand.name}" for operand in operands)
        call = f"call {result} @{name}{mangled}({arguments})"
        if result == "void":
            self.statement(call)
            return Value("", "void")
        return self.assign(result, call)

    def splat(self, scalar: Value) -> Value:
        """A vector with `scalar` in every lane."""
        type_ = self.vector(scalar.type)
        first = self.assign(type_, f"insertelement {type_} poison, {scalar.type} {scalar.name}, i64 0")
        return self.shuffle(first, [0] * self.lanes)

    def shuffle(self, x: Value, lanes: Sequence[int], other: Value | None = None) -> Value:
        """Lanes of `x`, then of `other`, in the order given."""
        second = other.name if other else "poison"
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        text = f"shufflevector {x.type} {x.name}, {x.type} {second}, <{len(lanes)} x i32> <{mask}>"
        return self.assign(f"<{len(lanes)} x {x.element}>", text)

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
        array = f"[{TABLE_SIZE} x float]"
        name = self._tables.setdefault(_list(table, "float"), f"@table{len(self._tables)}")
        offsets = self.op("and", index, TABLE_SIZE - 1)
        result = Value("poison", self.vector("float"))
        for lane in range(self.lanes):
            offset = self.extract(offsets, lane)
            address = self.assign("ptr", f"getelementptr {array}, ptr {name}, i64 0, i32 {offset.name}")
            element = self.assign("float", f"load float, ptr {address.name}")
            text = f"insertelement {result.type} {result.name}, float {element.name}, i64 {lane}"
            result = self.assign(result.type, text)
        return result

    def extract(self, x: Value, lane: int = 0) -> Value:
        return self.assign(x.element, f"extractelement {x.type} {x.name}, i64 {lane}")

    def any(self, mask: Value) -> Value:
        """Whether some lane of a mask is set, as a scalar i1."""
        bits = self.assign(f"i{self.lanes}", f"bitcast {mask.type} {mask.name} to i{self.lanes}")
        return self.compare("ne", bits, 0)

    def first_lanes(self, count: Value) -> Value:
        """The mask of the first `count` lanes (an i64, at least 0)."""
        bounded = self.select(self.compare("slt", count, self.lanes), count, self.lanes)
        narrow = self.convert("trunc", bounded, "i32")
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

    # ------------------------------------------------------------------ control flow

    def loop(
        self,
        begin: Operand,
        end: Operand,
        step: int,
        carried: Sequence[Value],
        body: Callable[[Value, list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """for (i = begin; i < end; i += step) carried = body(i, carried). Returns `carried`."""
        start, stop = self.operand(begin, "i64"), self.operand(end, "i64")
        head, done, entry = self.fresh("loop"), self.fresh("done"), self.block
        nonempty = self.compare("slt", start, stop)
        self.statement(f"br i1 {nonempty.name}, label %{head}, label %{done}")
        self.label(head)
        phis = len(self.lines)
        index, *current = (Value(f"%{self.fresh()}", value.type) for value in (start, *carried))
        self.lines += [""] * (1 + len(current))
        result = list(body(index, current))
        following = self.add(index, step)
        latch = self.block
        again = self.compare("slt", following, stop)
        self.statement(f"br i1 {again.name}, label %{head}, label %{done}")
        rows = zip((index, *current), (start, *carried), (following, *result), strict=True)
        for position, (phi, first, later) in enumerate(rows, phis):
            self.lines[position] = (
                f"  {phi.name} = phi {phi.type} [ {first.name}, %{entry} ], [ {later.name}, %{latch} ]"
            )
        self.label(done)
        return [
            self.assign(value.type, f"phi {value.type} [ {first.name}, %{entry} ], [ {value.name}, %{latch} ]")
            for first, value in zip(carried, result, strict=True)
        ]

    def branch(
        self, condition: Value, then: Callable[[], Sequence[Value]], otherwise: Callable[[], Sequence[Value]]
    ) -> list[Value]:
        """if (condition) then() else otherwise(); both give values of the same types."""
        yes, no, join = self.fresh("then"), self.fresh("else"), self.fresh("join")
        self.statement(f"br i1 {condition.name}, label %{yes}, label %{no}")
        arms = []
        for label, arm in ((yes, then), (no, otherwise)):
            self.label(label)
            values = list(arm())
            arms.append((values, self.block))
            self.statement(f"br label %{join}")
        self.label(join)
        (left, left_block), (right, right_block) = arms
        return [
            self.assign(a.type, f"phi {a.type} [ {a.name}, %{left_block} ], [ {b.name}, %{right_block} ]")
            for a, b in zip(left, right, strict=True)
        ]

    # ------------------------------------------------------------------ memory

    def address(self, pointer: Value, index: Value, memory_dtype: str) -> Value:
        """The address of element `index` (an i64, or a vector of them) of an array."""
        type_ = f"<{self.lanes} x ptr>" if index.type.startswith("<") else "ptr"
        element = MEMORY_ELEMENT[memory_dtype]
        return self.assign(type_, f"getelementptr {element}, ptr {pointer.name}, {index.type} {index.name}")

    def load(self, memory_dtype: str, address: Value, mask: Value | None = None) -> Value:
        """Consecutive elements, converted to the register dtype.

        Lanes outside `mask` are 0 and not accessed.
        """
        return self.from_memory(memory_dtype, self.load_raw(memory_dtype, address, mask))

    def load_raw(self, memory_dtype: str, address: Value, mask: Value | None = None) -> Value:
        """`load` without the conversion."""
        element, size = MEMORY_ELEMENT[memory_dtype], ELEMENT_SIZE[memory_dtype]
        type_ = self.vector(element)
        if mask is None:
            return self.assign(type_, f"load {type_}, ptr {address.name}, align {size}")
        return self.intrinsic(
            "llvm.masked.load",
            address,
            Value(str(size), "i32"),
            mask,
            Value("zeroinitializer", type_),
            result=type_,
            overloads=(type_, "ptr"),
        )

    def load_scalar(self, memory_dtype: str, address: Value) -> Value:
        """One element, converted to the register dtype, in every lane."""
        element, size = MEMORY_ELEMENT[memory_dtype], ELEMENT_SIZE[memory_dtype]
        raw = self.assign(element, f"load {element}, ptr {address.name}, align {size}")
        return self.from_memory(memory_dtype, self.splat(raw))

    def gather(self, memory_dtype: str, pointer: Value, offsets: Value, mask: Value | None = None) -> Value:
        """Elements at the offsets (i64 lanes, in elements).

        Lanes outside `mask` hold some element of the others.
        """
        if mask is not None:
            # The first lane is always inside: reading it again needs no branch where gathers are emulated.
            offsets = self.select(mask, offsets, self.splat(self.extract(offsets)))
        addresses = self.address(pointer, offsets, memory_dtype)
        type_ = self.vector(MEMORY_ELEMENT[memory_dtype])
        raw = self.intrinsic(
            "llvm.masked.gather",
            addresses,
            Value(str(ELEMENT_SIZE[memory_dtype]), "i32"),
            self.constant(1, self.vector("i1")),
            Value("zeroinitializer", type_),
            result=type_,
            overloads=(type_, addresses.type),
        )
        return self.from_memory(memory_dtype, raw)

    def store(self, memory_dtype: str, value: Value, address: Value, mask: Value | None = None) -> None:
        """Convert and store consecutive elements; only the lanes of `mask` if there is one."""
        self.store_raw(memory_dtype, self.to_memory(memory_dtype, value), address, mask)

    def store_raw(self, memory_dtype: str, raw: Value, address: Value, mask: Value | None = None) -> None:
        """Store what `to_memory` gave."""
        size = ELEMENT_SIZE[memory_dtype]
        if mask is None:
            self.statement(f"store {raw.type} {raw.name}, ptr {address.name}, align {size}")
        else:
            self.intrinsic(
                "llvm.masked.store",
                raw,
                address,
                Value(str(size), "i32"),
                mask,
                result="void",
                overloads=(raw.type, "ptr"),
            )

    def store_scalar(self, memory_dtype: str, value: Value, address: Value) -> None:
        """Convert and store the first lane."""
        raw = self.extract(self.to_memory(memory_dtype, value))
        self.statement(f"store {raw.type} {raw.name}, ptr {address.name}, align {ELEMENT_SIZE[memory_dtype]}")

    def scatter(
        self, memory_dtype: str, value: Value, pointer: Value, offsets: Value, mask: Value | None = None
    ) -> None:
        """Convert and store elements at the offsets (i64 lanes, in elements)."""
        self.scatter_raw(memory_dtype, self.to_memory(memory_dtype, value), pointer, offsets, mask)

    def scatter_raw(
        self, memory_dtype: str, raw: Value, pointer: Value, offsets: Value, mask: Value | None = None
    ) -> None:
        """Scatter what `to_memory` gave."""
        addresses = self.address(pointer, offsets, memory_dtype)
        self.intrinsic(
            "llvm.masked.scatter",
            raw,
            addresses,
            Value(str(ELEMENT_SIZE[memory_dtype]), "i32"),
            mask or self.constant(1, self.vector("i1")),
            result="void",
            overloads=(raw.type, addresses.type),
        )

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
        if memory_dtype == "bfloat16":
            return self.float_of_bits(self.op("shl", self.convert("zext", raw, "i32"), 16))
        if memory_dtype == "float16":
            if self.target.has_float16:
                return self.convert("fpext", self.convert("bitcast", raw, "half"), "float")
            return self._widen_float16(raw)
        if memory_dtype == "bool":
            return self.compare("ne", raw, 0)
        return raw

    def to_memory(self, memory_dtype: str, value: Value) -> Value:
        return self.all_to_memory(memory_dtype, [value])[0]

    def all_to_memory(self, memory_dtype: str, values: Sequence[Value]) -> list[Value]:
        """The lanes of each vector as they are stored.

        Several at once take fewer branches than one by one.
        """
        if memory_dtype == "bfloat16":
            return self._narrow_bfloat16(values)
        return [self._to_memory(memory_dtype, value) for value in values]

    def _to_memory(self, memory_dtype: str, value: Value) -> Value:
        if memory_dtype == "float16":
            if self.target.has_float16:
                return self.convert("bitcast", self.convert("fptrunc", value, "half"), "i16")
            return self._narrow_float16(value)
        if memory_dtype == "bool":
            return self.convert("zext", value, "i8")
        return value

    # ------------------------------------------------------------------ 16-bit floats

    def round_bfloat16(self, x: Value) -> Value:
        """float32 lanes rounded to bfloat16 precision, half to even.

        Subnormals are kept, NaN becomes quiet.
        """
        return self.float_of_bits(self.op("and", self._rounded_bfloat16_bits(x), -65536))

    def round_float16(self, x: Value) -> Value:
        return self.from_memory("float16", self.to_memory("float16", x))

    def _rounded_bfloat16_bits(self, x: Value) -> Value:
        """Bits of `x` whose upper half is `x` in bfloat16; the lower half is of no use."""
        bits = self.bits(x)
        last_kept = self.op("and", self.op("lshr", bits, 16), 1)
        rounded = self.add(self.add(bits, last_kept), 0x7FFF)
        return self.select(self.compare("uno", x, x), self.op("or", bits, 0x00400000), rounded)

    def _narrow_bfloat16(self, vectors: Sequence[Value]) -> list[Value]:
        def by_integers() -> list[Value]:
            return [self.convert("trunc", self.op("lshr", self._rounded_bfloat16_bits(x), 16), "i16") for x in vectors]

        if not self.target.has_bfloat16:
            return by_integers()

        # The instruction flushes subnormals to zero: vectors that have one (rare) take the other branch.
        def by_instruction() -> list[Value]:
            return [self.convert("bitcast", self.convert("fptrunc", x, "bfloat"), "i16") for x in vectors]

        subnormal_class = Value("32", "i32")
        masks = [
            self.intrinsic("llvm.x86.avx512.fpclass.ps.512", x, subnormal_class, result=self.vector("i1"), overloads=())
            for x in vectors
        ]
        subnormal = masks[0]
        for mask in masks[1:]:
            subnormal = self.op("or", subnormal, mask)
        return self.branch(self.any(subnormal), by_integers, by_instruction)

    def _narrow_float16(self, x: Value) -> Value:
        bits = self.bits(x)
        sign = self.op("and", self.op("lshr", bits, 16), 0x8000)
        magnitude = self.op("and", bits, 0x7FFFFFFF)
        # Normal numbers: move the exponent bias from 127 to 15 and round half to even at bit 13.
        last_kept = self.op("and", self.op("lshr", magnitude, 13), 1)
        rebiased = self.add(self.add(magnitude, 0xFFF - (112 << 23)), last_kept)
        result = self.op("lshr", rebiased, 13)
        # From 65520 on, halfway to the first number too large: infinity.
        result = self.select(self.compare("uge", magnitude, 0x477FF000), 0x7C00, result)
        # Below 2^-14: adding 0.5 rounds to a multiple of 2^-24, float16's smallest number, and leaves it in
        # the low bits of the sum.
        shifted = self.sub(self.bits(self.add(self.float_of_bits(magnitude), 0.5)), 0x3F000000)
        result = self.select(self.compare("ult", magnitude, 0x38800000), shifted, result)
        quiet = self.op("or", self.op("lshr", self.op("and", magnitude, 0x7FFFFF), 13), 0x7E00)
        result = self.select(self.compare("ugt", magnitude, 0x7F800000), quiet, result)
        return self.convert("trunc", self.op("or", result, sign), "i16")

    def _widen_float16(self, raw: Value) -> Value:
        wide = self.convert("zext", raw, "i32")
        sign = self.op("shl", self.op("and", wide, 0x8000), 16)
        magnitude = self.op("shl", self.op("and", wide, 0x7FFF), 13)
        normal = self.add(magnitude, 112 << 23)
        not_finite = self.add(magnitude, 224 << 23)
        quiet = self.op("or", not_finite, 0x00400000)
        # Subnormals: put the bits behind the implied one of 2^-14 and take that away again.
        subnormal = self.bits(self.sub(self.float_of_bits(self.add(magnitude, 113 << 23)), 2.0**-14))
        result = self.select(self.compare("ult", magnitude, 1 << 23), subnormal, normal)
        result = self.select(self.compare("uge", magnitude, 0x7C00 << 13), not_finite, result)
        result = self.select(self.compare("ugt", magnitude, 0x7C00 << 13), quiet, result)
        return self.float_of_bits(self.op("or", result, sign))

    # ------------------------------------------------------------------ float instructions or their like

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

    def sqrt(self, x: Value) -> Value:
        return self.intrinsic("llvm.sqrt", x)

    def copysign(self, magnitude: Value, sign: Value) -> Value:
        return self.intrinsic("llvm.copysign", magnitude, sign)


def _literal(number: Number, type_: str) -> str:
    if type_ in FLOATS:
        with np.errstate(over="ignore"):
            value = float(np.float32(number)) if type_ == "float" else float(number)
        if math.isnan(value):
            return "0x7FF8000000000000"
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if type_ == "i1":
        return "true" if number else "false"
    return str(int(number))


def _list(numbers: Sequence[Number], type_: str) -> str:
    return ", ".join(f"{type_} {_literal(number, type_)}" for number in numbers)


def _mangled(type_: str) -> str:
    if type_ == "ptr":
        return "p0"
    if type_.startswith("<"):
        count, element = type_[1:-1].split(" x ")
        return f"v{count}{_mangled(element)}"
    return {"float": "f32", "double": "f64"}.get(type_, type_)


# ---------------------------------------------------------------------- programs


class _Step(NamedTuple):
    """What a primitive's function gets to know: the operands and the dtypes of operands and result."""

    operands: list[Value]
    operand_dtype: str
    dtype: str


def _signed(dtype: str) -> bool:
    return dtype not in ("uint8", "bool")


def _arithmetic(opcode: str, for_bool: str) -> Callable[[Emitter, _Step], Value]:
    def emit(emitter: Emitter, step: _Step) -> Value:
        if step.dtype == "bool":
            return emitter.op(for_bool, *step.operands)
        # "contract" lets LLVM fuse a product into a following sum, where the target has that instruction.
        name = f"f{opcode} contract" if step.dtype.startswith("float") else opcode
        return emitter.op(name, *step.operands)

    return emit


def _extreme(predicate: str) -> Callable[[Emitter, _Step], Value]:
    """maximum ("gt") or minimum ("lt"); NaN in either operand gives NaN."""

    def emit(emitter: Emitter, step: _Step) -> Value:
        left, right = step.operands
        if not step.dtype.startswith("float"):
            signed = "s" if _signed(step.dtype) else "u"
            return emitter.select(emitter.compare(signed + predicate, left, right), left, right)
        # The inner select is one x86 instruction, which gives the right operand if either is NaN.
        better = emitter.select(emitter.compare("o" + predicate, left, right), left, right)
        return emitter.select(emitter.compare("uno", left, left), left, better)

    return emit


def _comparison(predicate: str) -> Callable[[Emitter, _Step], Value]:
    def emit(emitter: Emitter, step: _Step) -> Value:
        if step.operand_dtype.startswith("float"):
            prefix = "u" if predicate == "ne" else "o"
        else:
            prefix = "" if predicate in ("eq", "ne") else "s" if _signed(step.operand_dtype) else "u"
        return emitter.compare(prefix + predicate, *step.operands)

    return emit


def _bitwise(opcode: str) -> Callable[[Emitter, _Step], Value]:
    return lambda emitter, step: emitter.op(opcode, *step.operands)


def _not(emitter: Emitter, step: _Step) -> Value:
    return emitter.op("xor", step.operands[0], 1 if step.dtype == "bool" else -1)


def _shift_left(emitter: Emitter, step: _Step) -> Value:
    value, count = step.operands
    return emitter.select(emitter.compare("ult", count, BITS[value.element]), emitter.op("shl", value, count), 0)


def _shift_right(emitter: Emitter, step: _Step) -> Value:
    value, count = step.operands
    width = BITS[value.element]
    if not _signed(step.dtype):
        return emitter.select(emitter.compare("ult", count, width), emitter.op("lshr", value, count), 0)
    bounded = emitter.select(emitter.compare("ult", count, width), count, width - 1)
    return emitter.op("ashr", value, bounded)


def _neg(emitter: Emitter, step: _Step) -> Value:
    return emitter.neg(step.operands[0])


def _abs(emitter: Emitter, step: _Step) -> Value:
    return emitter.abs(step.operands[0]) if _signed(step.operand_dtype) else step.operands[0]


def _rounding(method: Callable[[Emitter, Value], Value]) -> Callable[[Emitter, _Step], Value]:
    def emit(emitter: Emitter, step: _Step) -> Value:
        return method(emitter, step.operands[0]) if step.dtype.startswith("float") else step.operands[0]

    return emit


def _floats_only(function: Callable[..., Value], name: str) -> Callable[[Emitter, _Step], Value]:
    def emit(emitter: Emitter, step: _Step) -> Value:
        if not step.dtype.startswith("float"):
            raise UnsupportedProgram(f"{name} of {step.dtype} is not defined")
        return function(emitter, *step.operands)

    return emit


def _cast(emitter: Emitter, step: _Step) -> Value:
    return cast(emitter, step.operands[0], step.operand_dtype, step.dtype)


def cast(emitter: Emitter, x: Value, source: str, result: str) -> Value:
    """Convert lanes of register dtype `source` to `result`.

    Floats to integers: toward zero, saturated, NaN is 0.
    """
    element = REGISTER_ELEMENT[result]
    if source == result:
        return x
    if result == "bool":
        return emitter.compare("une" if source.startswith("float") else "ne", x, 0)
    if source == "bool":
        type_ = emitter.same_shape(x, element)
        return emitter.select(x, emitter.constant(1, type_), emitter.constant(0, type_))
    if source.startswith("float"):
        if result.startswith("float"):
            return emitter.convert("fpext" if result == "float64" else "fptrunc", x, element)
        return _saturated_integer(emitter, x, result)
    if result.startswith("float"):
        return emitter.convert("sitofp" if _signed(source) else "uitofp", x, element)
    width, new_width = BITS[x.element], BITS[element]
    if new_width < width:
        return emitter.convert("trunc", x, element)
    if new_width == width:
        return x
    return emitter.convert("sext" if _signed(source) else "zext", x, element)


def _saturated_integer(emitter: Emitter, x: Value, result: str) -> Value:
    element = REGISTER_ELEMENT[result]
    name = "llvm.fptosi.sat" if _signed(result) else "llvm.fptoui.sat"
    type_ = emitter.same_shape(x, element)
    return emitter.intrinsic(name, x, result=type_, overloads=(type_, x.type))


def _float32_only(function: Callable[..., Value], name: str) -> Callable[[Emitter, _Step], Value]:
    def emit(emitter: Emitter, step: _Step) -> Value:
        if step.dtype != "float32":
            raise UnsupportedProgram(f"{name} of {step.dtype} has no vector code")
        return function(emitter, *step.operands)

    return emit


_PRIMITIVES: dict[str, Callable[[Emitter, _Step], Value]] = {
    "cast": _cast,
    "round_bfloat16": _float32_only(Emitter.round_bfloat16, "round_bfloat16"),
    "round_float16": _float32_only(Emitter.round_float16, "round_float16"),
    "add": _arithmetic("add", "or"),
    "sub": _arithmetic("sub", "xor"),
    "mul": _arithmetic("mul", "and"),
    "div": _floats_only(Emitter.div, "div"),
    "maximum": _extreme("gt"),
    "minimum": _extreme("lt"),
    "neg": _neg,
    "abs": _abs,
    "floor": _rounding(Emitter.floor),
    "ceil": _rounding(Emitter.ceil),
    "trunc": _rounding(Emitter.trunc),
    "rint": _rounding(Emitter.rint),
    "sqrt": _floats_only(Emitter.sqrt, "sqrt"),
    **{name: _float32_only(function, name) for name, function in vector_math.FUNCTIONS.items()},
    **{name: _comparison(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: _bitwise(name) for name in ("and", "or", "xor")},
    "not": _not,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "select": lambda emitter, step: emitter.select(*step.operands),
}


def apply(emitter: Emitter, instruction: Instruction, operands: list[Value], operand_dtypes: Sequence[str]) -> Value:
    """Emit one elementwise instruction. Raises UnsupportedProgram if it has no vector code."""
    function = _PRIMITIVES.get(instruction.primitive)
    if function is None:
        raise UnsupportedProgram(f"{instruction.primitive} is not an elementwise primitive")
    return function(emitter, _Step(operands, operand_dtypes[0], instruction.dtype))


def emit_program(
    emitter: Emitter,
    program: Program,
    load: Callable[[int], Value],
    scalar: Callable[[int, str], Value] | None = None,
    index: Callable[[], Value] | None = None,
    known: dict[int, Value] | None = None,
    roots: Iterable[int] | None = None,
) -> list[Value]:
    """Evaluate elementwise instructions; the values of `roots` (by default the outputs), as full vectors.

    `load(slot)` gives the element of an operand, in the register dtype of its memory dtype; `scalar(slot,
    dtype)` a run-time number; `index()` the i64 positions. `known` holds values of instructions that need no
    evaluation, such as results of reductions, by instruction number; what is evaluated is added to it.
    """
    values = {} if known is None else known
    wanted = list(program.outputs if roots is None else roots)
    for number in needed_instructions(program, wanted, values):
        values[number] = _evaluate(emitter, program, number, values, load, scalar, index)
    return [values[number] for number in wanted]


def needed_instructions(program: Program, roots: Iterable[int], known: Iterable[int] = ()) -> list[int]:
    """The instructions that `roots` depend on, in order, without those in `known` and what only they need."""
    found: set[int] = set()
    stops = set(known)
    pending = list(roots)
    while pending:
        number = pending.pop()
        if number not in found and number not in stops:
            found.add(number)
            pending.extend(program.instructions[number].operands)
    return sorted(found)


def _evaluate(
    emitter: Emitter,
    program: Program,
    number: int,
    values: dict[int, Value],
    load: Callable[[int], Value],
    scalar: Callable[[int, str], Value] | None,
    index: Callable[[], Value] | None,
) -> Value:
    instruction = program.instructions[number]
    if instruction.primitive == "constant":
        return emitter.constant(instruction.value, emitter.vector(REGISTER_ELEMENT[instruction.dtype]))
    if instruction.primitive == "load":
        return load(instruction.value)
    if instruction.primitive == "scalar" and scalar is not None:
        return scalar(instruction.value, instruction.dtype)
    if instruction.primitive == "index" and index is not None:
        return index()
    operands = [values[operand] for operand in instruction.operands]
    dtypes = [program.instructions[operand].dtype for operand in instruction.operands]
    return apply(emitter, instruction, operands, dtypes)
