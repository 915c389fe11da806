"""A builder of LLVM IR text: one method for each instruction, and for loops and branches.

Every register is a vector of `target.lanes` elements of any type; LLVM splits or widens it to the registers of the
processor. No LLVM optimisation pass runs afterwards, so exactly these instructions are executed. LLVM must not turn any
of them into a call of a C library function, because such a symbol is missing from a module compiled in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import BITS, FLOATS, Number, Value, ValueOrNumber, literal, literal_list, mangled

__all__ = ["SsaBuilder"]


class SsaBuilder:
    """Appends instructions to the body of one function.

    `lines` is the body so far, `block` the label of the current basic block. Intrinsics, helper functions and
    tables that the body uses are collected and written by `module`.
    """

    def __init__(self, target: CpuTarget) -> None:
        self.target = target
        self.lanes = target.lanes
        self.lines: list[str] = []
        self.block = "entry"
        self._names = 0
        self._declarations: dict[str, str] = {}
        self._helpers: dict[str, str] = {}
        # Type and elements of a constant array -> its name.
        self._tables: dict[str, str] = {}

    # ------------------------------------------------------------------ text

    def vector(self, element: str) -> str:
        """Return the LLVM type of a full vector of `element`."""
        return f"<{self.lanes} x {element}>"

    def same_shape(self, value: Value, element: str) -> str:
        """Return the type of `value` with another element type."""
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
        """Return a literal; for a vector type, the same number in every lane."""
        if not type_.startswith("<"):
            return Value(literal(number, type_), type_)
        element = Value("", type_).element
        return Value(f"splat ({element} {literal(number, element)})", type_)

    def literals(self, numbers: Sequence[Number], element: str = "float") -> Value:
        """Return a vector of literals, one for each lane."""
        return Value(f"<{literal_list(numbers, element)}>", f"<{len(numbers)} x {element}>")

    def lane_numbers(self, element: str = "i64") -> Value:
        """Return the vector 0, 1, 2, ..."""
        return self.literals(range(self.lanes), element)

    def define_table(self, numbers: Sequence[Number]) -> str:
        """Give the module a constant array of floats, once however often it is used. Its name."""
        contents = f"[{len(numbers)} x float] [{literal_list(numbers, 'float')}]"
        return self._tables.setdefault(contents, f"@table{len(self._tables)}")

    def define_helper(self, name: str, result: str, argument: str, body: Callable[[Self, Value], Value]) -> str:
        """Give the module the internal function `result name(argument)`, once however often it is called."""
        if name not in self._helpers:
            inner = type(self)(self.target)
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
        """Return the text of a module of these functions and all that they call."""
        tables = [
            f"{name} = private unnamed_addr constant {contents}, align 64" for contents, name in self._tables.items()
        ]
        rest = [*tables, *self._helpers.values(), *self._declarations.values()]
        return "\n".join([*functions, *rest, "!0 = !{i32 1}", ""])

    def function(self, signature: str) -> str:
        """Return the text of the function `signature` with the body written so far; a return is added."""
        head = f"define void {signature} {self.target.function_attributes} {{"
        return "\n".join([head, "entry:", *self.lines, "  ret void", "}"])

    # ------------------------------------------------------------------ operations

    def operand(self, operand: ValueOrNumber, type_: str) -> Value:
        return operand if isinstance(operand, Value) else self.constant(operand, type_)

    def op(self, opcode: str, left: ValueOrNumber, right: ValueOrNumber) -> Value:
        """Emit a two-operand instruction. One operand may be a Python number, of the type of the other."""
        type_ = left.type if isinstance(left, Value) else right.type if isinstance(right, Value) else ""
        a, b = self.operand(left, type_), self.operand(right, type_)
        return self.assign(type_, f"{opcode} {type_} {a.name}, {b.name}")

    def add(self, left: ValueOrNumber, right: ValueOrNumber) -> Value:
        return self.op(self._arithmetic("add", left, right), left, right)

    def sub(self, left: ValueOrNumber, right: ValueOrNumber) -> Value:
        return self.op(self._arithmetic("sub", left, right), left, right)

    def mul(self, left: ValueOrNumber, right: ValueOrNumber) -> Value:
        return self.op(self._arithmetic("mul", left, right), left, right)

    def div(self, left: ValueOrNumber, right: ValueOrNumber) -> Value:
        return self.op("fdiv", left, right)

    def _arithmetic(self, stem: str, left: ValueOrNumber, right: ValueOrNumber) -> str:
        value = left if isinstance(left, Value) else right
        return f"f{stem}" if isinstance(value, Value) and value.element in FLOATS else stem

    def fma(self, a: ValueOrNumber, b: ValueOrNumber, c: ValueOrNumber) -> Value:
        """Return a * b + c, with one rounding if the target has the instruction, else two."""
        type_ = next(operand.type for operand in (a, b, c) if isinstance(operand, Value))
        return self.intrinsic("llvm.fmuladd", *(self.operand(operand, type_) for operand in (a, b, c)))

    def neg(self, x: Value) -> Value:
        return self.assign(x.type, f"fneg {x.type} {x.name}") if x.element in FLOATS else self.op("sub", 0, x)

    def abs(self, x: Value) -> Value:
        if x.element in FLOATS:
            return self.intrinsic("llvm.fabs", x)
        return self.select(self.compare("slt", x, 0), self.neg(x), x)

    def sqrt(self, x: Value) -> Value:
        return self.intrinsic("llvm.sqrt", x)

    def copysign(self, magnitude: Value, sign: Value) -> Value:
        return self.intrinsic("llvm.copysign", magnitude, sign)

    def compare(self, predicate: str, left: ValueOrNumber, right: ValueOrNumber) -> Value:
        """Emit fcmp or icmp; predicates as in LLVM: "olt", "uno", "slt", "ult", "eq", ..."""
        type_ = left.type if isinstance(left, Value) else right.type if isinstance(right, Value) else ""
        a, b = self.operand(left, type_), self.operand(right, type_)
        opcode = "fcmp" if a.element in FLOATS else "icmp"
        return self.assign(self.same_shape(a, "i1"), f"{opcode} {predicate} {type_} {a.name}, {b.name}")

    def select(self, condition: Value, left: ValueOrNumber, right: ValueOrNumber) -> Value:
        type_ = left.type if isinstance(left, Value) else right.type if isinstance(right, Value) else ""
        a, b = self.operand(left, type_), self.operand(right, type_)
        text = f"select {condition.type} {condition.name}, {type_} {a.name}, {type_} {b.name}"
        return self.assign(type_, text)

    def convert(self, opcode: str, x: Value, element: str) -> Value:
        """Emit a conversion (zext, trunc, sitofp, bitcast, ...) to lanes of type `element`."""
        type_ = self.same_shape(x, element)
        return self.assign(type_, f"{opcode} {x.type} {x.name} to {type_}")

    def cast(self, x: Value, type_: str) -> Value:
        """Return the bits of `x` as another type of the same size."""
        return self.assign(type_, f"bitcast {x.type} {x.name} to {type_}")

    def bits(self, x: Value) -> Value:
        """Return the bit pattern of floats as integers of the same width."""
        return self.convert("bitcast", x, f"i{BITS[x.element]}")

    def float_of_bits(self, x: Value) -> Value:
        return self.convert("bitcast", x, {"i32": "float", "i64": "double"}[x.element])

    def intrinsic(
        self,
        name: str,
        *operands: Value,
        result: str = "",
        overloads: Sequence[str] | None = None,
        flags: str = "",
    ) -> Value:
        """Call an LLVM intrinsic, by default overloaded on and returning the type of the first operand.

        Pass `overloads=()` for one that is not overloaded; flags: those of fast arithmetic.
        """
        result = result or operands[0].type
        suffix = "".join(f".{mangled(type_)}" for type_ in ([result] if overloads is None else overloads))
        types = ", ".join(operand.type for operand in operands)
        self._declarations[name + suffix] = f"declare {result} @{name}{suffix}({types})"
        arguments = ", ".join(f"{operand.type} {operand.name}" for operand in operands)
        call = f"call {flags} {result} @{name}{suffix}({arguments})"
        if result == "void":
            self.statement(call)
            return Value("", "void")
        return self.assign(result, call)

    def splat(self, scalar: Value) -> Value:
        """Return a vector with `scalar` in every lane."""
        type_ = self.vector(scalar.type)
        first = self.assign(type_, f"insertelement {type_} poison, {scalar.type} {scalar.name}, i64 0")
        return self.shuffle(first, [0] * self.lanes)

    def shuffle(self, x: Value, lanes: Sequence[int], other: Value | None = None) -> Value:
        """Return lanes of `x`, then of `other`, in the order given."""
        second = other.name if other else "poison"
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        text = f"shufflevector {x.type} {x.name}, {x.type} {second}, <{len(lanes)} x i32> <{mask}>"
        return self.assign(f"<{len(lanes)} x {x.element}>", text)

    def extract(self, x: Value, lane: int = 0) -> Value:
        return self.assign(x.element, f"extractelement {x.type} {x.name}, i64 {lane}")

    def prefetch(self, address: Value) -> None:
        """Begin to bring the cache line of an address into the level-2 cache."""
        numbers = [Value(text, "i32") for text in ("0", "2", "1")]  # of a read, level 2, data
        self.intrinsic("llvm.prefetch", address, *numbers, result="void", overloads=("ptr",))

    def sum_lanes(self, x: Value) -> Value:
        """Return the sum of all lanes, of floats in any order, as a scalar."""
        if x.element not in FLOATS:
            return self.intrinsic("llvm.vector.reduce.add", x, result=x.element, overloads=(x.type,))
        start = self.constant(-0.0, x.element)
        return self.intrinsic(
            "llvm.vector.reduce.fadd", start, x, result=x.element, overloads=(x.type,), flags="reassoc"
        )

    def any(self, mask: Value) -> Value:
        """Return a scalar i1: some lane of a mask is set."""
        bits = self.assign(f"i{self.lanes}", f"bitcast {mask.type} {mask.name} to i{self.lanes}")
        return self.compare("ne", bits, 0)

    # ------------------------------------------------------------------ control flow

    def loop(
        self,
        begin: ValueOrNumber,
        end: ValueOrNumber,
        step: ValueOrNumber,
        carried: Sequence[Value],
        body: Callable[[Value, list[Value]], Sequence[Value] | None],
    ) -> list[Value]:
        """Emit for (i = begin; i < end; i += step) carried = body(i, carried). Returns `carried`; None for none."""
        start, stop = self.operand(begin, "i64"), self.operand(end, "i64")
        head, done, entry = self.fresh("loop"), self.fresh("done"), self.block
        nonempty = self.compare("slt", start, stop)
        self.statement(f"br i1 {nonempty.name}, label %{head}, label %{done}")
        self.label(head)
        phis = len(self.lines)
        index, *current = (Value(f"%{self.fresh()}", value.type) for value in (start, *carried))
        self.lines += [""] * (1 + len(current))
        result = list(body(index, current) or ())
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
        self,
        condition: Value,
        then: Callable[[], Sequence[Value] | None],
        otherwise: Callable[[], Sequence[Value] | None],
    ) -> list[Value]:
        """Emit if (condition) then() else otherwise(); both return values of the same types, or None."""
        yes, no, join = self.fresh("then"), self.fresh("else"), self.fresh("join")
        self.statement(f"br i1 {condition.name}, label %{yes}, label %{no}")
        arms = []
        for label, arm in ((yes, then), (no, otherwise)):
            self.label(label)
            values = list(arm() or ())
            arms.append((values, self.block))
            self.statement(f"br label %{join}")
        self.label(join)
        (left, left_block), (right, right_block) = arms
        return [
            self.assign(a.type, f"phi {a.type} [ {a.name}, %{left_block} ], [ {b.name}, %{right_block} ]")
            for a, b in zip(left, right, strict=True)
        ]
