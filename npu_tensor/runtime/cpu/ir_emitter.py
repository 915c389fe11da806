"""Emitter of LLVM IR text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npu_tensor.runtime.cpu import float_formats
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import (
    BITS,
    ELEMENT_SIZE,
    FLOATS,
    MEMORY_ELEMENT,
    REGISTER_ELEMENT,
    Number,
    Value,
    ValueOrNumber,
    literal,
    literal_list,
    mangled,
)

POINTERS, META = Value("%pointers", "ptr"), Value("%meta", "ptr")
BEGIN, END = Value("%begin", "i64"), Value("%end", "i64")
"""Arguments of a kernel, see `Emitter.kernel`."""


# Elements of the tables of `lookup`, which fit into one AVX512 register.
TABLE_SIZE = 16


class Emitter:
    """Appends instructions to the body of one function: one method for each, and for loops and branches.

    Every register is a vector of `target.lanes` elements of any type; LLVM splits or widens it to the registers of the
    processor. No LLVM optimization pass runs afterwards, so exactly these instructions are executed. LLVM must not turn
    any of them into a call of a C library function, because such a symbol is missing from a module compiled in memory.

    Elements in memory have the type `memory_dtype`; in registers 16-bit floats are float32 and bool is a mask.
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
        return f"<{self.lanes} x {element}>"

    def same_shape(self, value: Value, element: str) -> str:
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
        return Value(f"<{literal_list(numbers, element)}>", f"<{len(numbers)} x {element}>")

    def lane_numbers(self, element: str = "i64") -> Value:
        return self.literals(range(self.lanes), element)

    def define_table(self, numbers: Sequence[Number], element: str = "float") -> str:
        """Give the module a constant array, once however often it is used. Return its name."""
        contents = f"[{len(numbers)} x {element}] [{literal_list(numbers, element)}]"
        return self._tables.setdefault(contents, f"@table{len(self._tables)}")

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
        tables = [
            f"{name} = private unnamed_addr constant {contents}, align 64" for contents, name in self._tables.items()
        ]
        rest = [*tables, *self._helpers.values(), *self._declarations.values()]
        return "\n".join([*functions, *rest, "!0 = !{i32 1}", ""])

    def function(self, signature: str) -> str:
        """Return the text of the function `signature` with the body written so far; a return is added."""
        head = f"define void {signature} {self.target.function_attributes} {{"
        return "\n".join([head, "entry:", *self.lines, "  ret void", "}"])

    def kernel(self) -> str:
        """Return the module of a kernel with the body written so far.

        The kernel handles the items `begin` to `end` of a loop. `pointers` is an array of addresses and numbers, `meta`
        an array of int64 that is the same in all runs.
        """
        return self.module(self.function("@kernel(ptr noalias %pointers, ptr noalias %meta, i64 %begin, i64 %end)"))

    def kernel_of_items(self, body: Callable[[Value, list[Value]], None]) -> str:
        """Return the module of a kernel that runs `body` for each of its items."""
        self.loop(BEGIN, END, 1, (), body)
        return self.kernel()

    def addresses(self, count: int, first: int = 0) -> list[Value]:
        """Load addresses from the slots of a kernel."""
        return [self.load_value("ptr", POINTERS, slot) for slot in range(first, first + count)]

    def numbers(self, count: int) -> list[Value]:
        """Load the first numbers of the meta array of a kernel."""
        return [self.load_value("i64", META, number) for number in range(count)]

    def named_numbers(self, names: Sequence[str]) -> dict[str, Value]:
        """Load the first numbers of the meta array of a kernel by name."""
        return dict(zip(names, self.numbers(len(names)), strict=True))

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
        return self.broadcast(scalar, self.lanes)

    def broadcast(self, scalar: Value, lanes: int) -> Value:
        """Return a vector of `lanes` lanes with a scalar in each."""
        type_ = f"<{lanes} x {scalar.type}>"
        first = self.assign(type_, f"insertelement {type_} poison, {scalar.type} {scalar.name}, i64 0")
        return self.shuffle(first, [0] * lanes)

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

    def in_blocks(self, begin: Value, end: Value, widths: Sequence[int], body: Callable[[Value, int], None]) -> None:
        """Emit loops over a range: whole blocks of the first width, then of the next one, which the rest may have.

        Widths are powers of two. `body` gets the first number and the width of a block.
        """
        for width in widths:
            whole = end if width == 1 else self.add(begin, self.op("and", self.sub(end, begin), -width))

            def block(first: Value, _: list[Value], width: int = width) -> None:
                body(first, width)

            self.loop(begin, whole, width, (), block)
            begin = whole

    def up_to(self, first: Value, count: int, end: Value) -> list[Value]:
        """Return numbers from `first` on. Those past the end are the last one, whose results do not matter."""
        last = self.sub(end, 1)
        return [self.smaller(self.add(first, number), last) for number in range(count)]

    # ------------------------------------------------------------------ memory

    def address(self, pointer: Value, index: Value, memory_dtype: str) -> Value:
        """Return the address of element `index` (an i64, or a vector of them) of an array."""
        type_ = f"<{self.lanes} x ptr>" if index.type.startswith("<") else "ptr"
        element = MEMORY_ELEMENT[memory_dtype]
        return self.assign(type_, f"getelementptr {element}, ptr {pointer.name}, {index.type} {index.name}")

    def byte_offset(self, pointer: Value, offset: ValueOrNumber) -> Value:
        """Return `pointer` plus a number of bytes."""
        return self.address(pointer, self.operand(offset, "i64"), "int8")

    def load_value(self, type_: str, pointer: Value, index: int = 0, align: int = 8) -> Value:
        """Return the value of any LLVM type at `index` in an array of them."""
        address = self.assign("ptr", f"getelementptr {type_}, ptr {pointer.name}, i64 {index}")
        return self.assign(type_, f"load {type_}, ptr {address.name}, align {align}")

    def store_value(self, value: Value, address: Value, align: int = 1) -> None:
        """Store a value of any LLVM type."""
        self.statement(f"store {value.type} {value.name}, ptr {address.name}, align {align}")

    def load_number(self, pointers: Value, slot: int, dtype: str) -> Value:
        """Return a run-time number of a register dtype in every lane: the slot holds a double or an i64."""
        element = REGISTER_ELEMENT[dtype]
        if element in FLOATS:
            number = self.load_value("double", pointers, slot)
            return self.splat(self.convert("fptrunc", number, element) if element == "float" else number)
        number = self.load_value("i64", pointers, slot)
        if element == "i1":
            return self.splat(self.compare("ne", number, 0))
        return self.splat(number if element == "i64" else self.convert("trunc", number, element))

    def load(self, memory_dtype: str, address: Value, mask: Value | None = None) -> Value:
        """Load consecutive elements in the register dtype. Lanes outside `mask` are 0 and not accessed."""
        return self.from_memory(memory_dtype, self.load_raw(memory_dtype, address, mask))

    def load_raw(self, memory_dtype: str, address: Value, mask: Value | None = None) -> Value:
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

    def load_element(self, memory_dtype: str, address: Value) -> Value:
        """Load one element as a scalar in the register dtype."""
        raw = self.load_value(MEMORY_ELEMENT[memory_dtype], address, align=ELEMENT_SIZE[memory_dtype])
        return self.from_memory(memory_dtype, raw)

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

    def scatter_raw(self, memory_dtype: str, raw: Value, pointer: Value, offsets: Value, mask: Value | None) -> None:
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
        return self.all_to_memory(memory_dtype, [value])[0]

    def all_to_memory(self, memory_dtype: str, values: Sequence[Value]) -> list[Value]:
        """Convert the lanes of several vectors to their memory type, with fewer branches than one by one."""
        if memory_dtype == "bfloat16":
            return float_formats.narrow_bfloat16(self, values)
        if memory_dtype == "float16":
            return [float_formats.narrow_float16(self, value) for value in values]
        if memory_dtype == "bool":
            return [self.convert("zext", value, "i8") for value in values]
        return list(values)

    def polynomial(self, x: Value, coefficients: Sequence[ValueOrNumber]) -> Value:
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
        return self.select(self.compare("sgt", left, right), left, right)

    def smaller(self, left: ValueOrNumber, right: ValueOrNumber) -> Value:
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
