"""The register-blocked inner loop of a matrix product, and the packed form of the operands it reads.

Both operands are packed in panels: of some rows of A, or of some columns of B. A panel is a sequence of
steps; a step holds one *unit* per row or column, and a unit holds `Unit.count` consecutive elements along
K. A unit has the size of an accumulator, so that one vector of B, one broadcast unit of A and one vector of
accumulators match lane by lane, and one instruction multiplies and adds whole units.

The bfloat16 instruction (VDPBF16PS) treats subnormal inputs and results as zero. That is accepted in a dot
product, where it only shows when all products are of that size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from npu_tensor.errors import DTypeError
from npu_tensor.runtime.cpu.ir_emitter import Emitter
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import ELEMENT_SIZE, MEMORY_ELEMENT, Value


@dataclass(frozen=True)
class Unit:
    """One packed unit: `count` elements of the LLVM type `element`."""

    name: str
    element: str
    count: int
    accumulator: str  # LLVM type of the sums
    accumulate: str  # their register dtype

    @property
    def bytes(self) -> int:
        return 8 if self.accumulator in ("double", "i64") else 4

    @property
    def bits(self) -> str:
        return f"i{self.bytes * 8}"


UNITS = {
    unit.name: unit
    for unit in (
        Unit("float32", "float", 1, "float", "float32"),
        Unit("bfloat16_pair", "i16", 2, "float", "float32"),
        Unit("int8_quad", "i8", 4, "i32", "int32"),
        Unit("int16_pair", "i16", 2, "i32", "int32"),
        Unit("int32", "i32", 1, "i32", "int32"),
        Unit("float64", "double", 1, "double", "float64"),
        Unit("int64", "i64", 1, "i64", "int64"),
    )
}

_FLOAT32_INPUTS = {"float32", "bfloat16", "float16"}
_INT16_INPUTS = {"int8", "uint8", "int16"}
_INT32_INPUTS = _INT16_INPUTS | {"int32"}

# int16 pairs -> int32 sum of their two products, by lanes of the result.
_PAIR_PRODUCT = {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd", 4: "llvm.x86.sse2.pmadd.wd"}

# Smaller tiles do not occupy the multipliers and would only add kernels to compile.
LEAST_ROWS = 4
_MOST_VECTORS = 4


class Blocking(NamedTuple):
    """Unit of products, maximum rows of a tile, and columns of a tile."""

    unit: Unit
    rows: int
    columns: int


def choose_unit(dtype_a: str, dtype_b: str, target: CpuTarget) -> Unit:
    """Return the densest unit that holds the elements of both operands exactly.

    Raises DTypeError if there is no product of these dtypes.
    """
    both = {dtype_a, dtype_b}
    if both == {"bfloat16"} and target.has_bfloat16:
        return UNITS["bfloat16_pair"]
    if both == {"int8"} and target.has_vnni:
        return UNITS["int8_quad"]
    if both <= _FLOAT32_INPUTS:
        return UNITS["float32"]
    if both <= _INT16_INPUTS and target.is_x86:
        return UNITS["int16_pair"]
    if both <= _INT32_INPUTS:
        return UNITS["int32"]
    if both in ({"float64"}, {"int64"}):
        return UNITS[dtype_a]
    raise DTypeError(f"there is no matrix product of {dtype_a} and {dtype_b}")


def unit_lanes(unit: Unit, target: CpuTarget) -> int:
    return target.lanes * 4 // unit.bytes


def usual_blocking(unit: Unit, target: CpuTarget) -> Blocking:
    """Return tiles that are good on every processor with the instructions of the target, of two vectors of columns."""
    columns = 2 * unit_lanes(unit, target)
    if target.has_avx512:
        return Blocking(unit, 14, columns)
    if target.is_aarch64:
        return Blocking(unit, 8, columns)
    return Blocking(unit, 6 if target.has_fma else 4, columns)


def blockings(unit: Unit, target: CpuTarget) -> list[Blocking]:
    """Return the usual blocking and others that may be faster on some processor: large tiles that fit in registers.

    One register holds a broadcast unit of A and one each vector of B. Without FMA each product needs one as well.
    """
    tiles = [usual_blocking(unit, target)]
    for vectors in range(1, _MOST_VECTORS + 1):
        most = (target.vector_registers - vectors - (1 if target.has_fma else 2)) // vectors
        tiles += [Blocking(unit, rows, vectors * unit_lanes(unit, target)) for rows in (most, most - 1)]
    return [blocking for blocking in dict.fromkeys(tiles) if blocking.rows >= LEAST_ROWS]


def first_of(emitter: Emitter, count: Value, lanes: int) -> Value:
    """Return the mask of the first `count` lanes; `count` is an i64 and may be below 0 or above `lanes`."""
    limit = emitter.convert("trunc", emitter.larger(emitter.smaller(count, lanes), 0), "i8")
    return emitter.compare("slt", emitter.literals(range(lanes), "i8"), emitter.broadcast(limit, lanes))


class Elements(NamedTuple):
    """Consecutive elements of an operand in memory, converted to the elements of a unit.

    Attributes:
        flip_sign: True to add 128 to int8 elements, as for A of the unsigned x signed product of int8_quad.
    """

    emitter: Emitter
    unit: Unit
    dtype: str
    flip_sign: bool = False

    def load(self, lanes: int, address: Value, mask: Value | None = None) -> Value:
        """Load `lanes` elements; one element is a scalar. Lanes outside `mask` are 0 and not accessed."""
        element, size = MEMORY_ELEMENT[self.dtype], ELEMENT_SIZE[self.dtype]
        type_ = element if lanes == 1 else f"<{lanes} x {element}>"
        if mask is None:
            return self._convert(self.emitter.load_value(type_, address, align=size))
        align, zero = Value(str(size), "i32"), Value("zeroinitializer", type_)
        return self._convert(self.emitter.masked("load", address, align, mask, zero))

    def _convert(self, value: Value) -> Value:
        emitter, element = self.emitter, self.unit.element
        if self.flip_sign:
            return emitter.op("xor", value, -128)
        if value.element == element:
            return value
        if element == "float":
            return emitter.from_memory(self.dtype, value)
        return emitter.convert("zext" if self.dtype == "uint8" else "sext", value, element)

    def units(self, value: Value) -> Value:
        """Return elements that follow one another along K as units."""
        if self.unit.count == 1:
            return value
        return self.emitter.cast(value, f"<{value.lanes // self.unit.count} x {self.unit.bits}>")

    def interleave(self, rows: Sequence[Value]) -> Value:
        """Return units, each made of the elements of one lane in every row; the rows follow one another along K."""
        emitter, bits = self.emitter, self.unit.bits
        if len(rows) == 1:
            return rows[0]
        element_bits = self.unit.bytes * 8 // self.unit.count
        units = emitter.convert("zext", rows[0], bits)
        for position, row in enumerate(rows[1:], start=1):
            shifted = emitter.op("shl", emitter.convert("zext", row, bits), position * element_bits)
            units = emitter.op("or", units, shifted)
        return units


def multiply_add(emitter: Emitter, unit: Unit, total: Value, a: Value, b: Value) -> Value:
    """Return total + a * b, unit by unit."""
    if unit.name in ("float32", "float64"):
        return emitter.fma(a, b, total)
    if unit.name == "int8_quad":
        return emitter.intrinsic("llvm.x86.avx512.vpdpbusd.512", total, a, b, overloads=())
    if unit.name == "bfloat16_pair":
        pairs = [_split(emitter, units, "bfloat") for units in (a, b)]
        return emitter.intrinsic("llvm.x86.avx512bf16.dpbf16ps.512", total, *pairs, overloads=())
    if unit.name == "int16_pair":
        pairs = [_split(emitter, units, "i16") for units in (a, b)]
        name = _PAIR_PRODUCT[emitter.lanes]
        return emitter.add(total, emitter.intrinsic(name, *pairs, result=total.type, overloads=()))
    return emitter.add(total, emitter.mul(a, b))


def _split(emitter: Emitter, units: Value, element: str) -> Value:
    return emitter.cast(units, f"<{2 * emitter.lanes} x {element}>")


def unpack(emitter: Emitter, unit: Unit, rows: Sequence[Value]) -> list[Value]:
    """Return vectors of units from as many rows of elements as a unit has; `in_order` puts their lanes into order.

    The instructions that interleave two vectors do so within each 128 bits.
    """
    groups, bits = [[row] for row in rows], unit.bytes * 8 // unit.count
    while len(groups) > 1:
        count, block = rows[0].lanes * unit.bytes * 8 // unit.count // bits, 128 // bits
        orders = [
            [start + i // 2 + i % 2 * count for start in range(half, count, block) for i in range(block)]
            for half in (0, block // 2)
        ]
        bits *= 2
        type_ = f"<{count // 2} x i{bits}>"
        groups = [
            [emitter.cast(emitter.shuffle(a, order, b), type_) for a, b in zip(*pair, strict=True) for order in orders]
            for pair in zip(groups[::2], groups[1::2], strict=True)
        ]
    return groups[0]


def in_order(emitter: Emitter, vectors: Sequence[Value], lanes: int) -> list[Value]:
    """Return totals of the columns that `unpack` read, in their order."""
    count = len(vectors)
    # Vector j has, in each 128 bits, columns 4 j to 4 j + 3 of a block.
    columns = [4 * (count * block + j) + i for j in range(count) for block in range(lanes // 4) for i in range(4)]
    places = [divmod(columns.index(column), lanes) for column in range(count * lanes)]

    def pick(part: Sequence[tuple[int, int]]) -> Value:
        """Return one vector, picked from pairs of vectors and then from a pair of those."""
        pairs = [
            emitter.shuffle(a, [lane + lanes * (j % 2) if j // 2 == number else 0 for j, lane in part], b)
            for number, (a, b) in enumerate(zip(vectors[::2], vectors[1::2], strict=True))
        ]
        if len(pairs) == 1:
            return pairs[0]
        return emitter.shuffle(pairs[0], [lane + lanes * (j // 2) for lane, (j, _) in enumerate(part)], pairs[1])

    return [pick(places[first : first + lanes]) for first in range(0, count * lanes, lanes)]


def sum_each(emitter: Emitter, vectors: Sequence[Value]) -> Value:
    """Return the sum of the lanes of each vector; vectors are a power of two, at most as many as their lanes.

    Neighbouring lanes are added within each 128 bits, where no shuffle is slow, then neighbouring blocks of 128 bits.
    """
    count, block = len(vectors), 16 // (4 if vectors[0].element in ("float", "i32") else 8)
    parts, current = block, list(vectors)  # parts of the sum of one vector, within a block

    def added(size: int, within: int, a: Value, b: Value | None = None) -> Value:
        """Add pairs of `size` lanes; each group of `within` lanes has those of a, then those of b."""
        firsts = [
            base + start + pair
            for start in range(0, a.lanes, within)
            for base in ((0,) if b is None else (0, a.lanes))
            for pair in range(0, within, 2 * size)
        ]
        halves = [[first + half + i for first in firsts for i in range(size)] for half in (0, size)]
        return emitter.add(*(emitter.shuffle(a, half, b) for half in halves))

    while len(current) > 1:
        sizes = (1, block) if parts > 1 else (block, current[0].lanes)
        current = [added(*sizes, a, b) for a, b in zip(current[::2], current[1::2], strict=True)]
        parts = max(1, parts // 2)
    (total,) = current
    while total.lanes > count:
        total = added(block if total.lanes > block else 1, total.lanes, total)
    return total


class Operand(NamedTuple):
    """Operand of the inner loop: address of a step, distance to the next step in bytes, and vectors of a step.

    Vectors consist of units. Each vector of A is multiplied by all of B, lane by lane.
    """

    vectors: int
    start: Value
    step_bytes: Value | int
    load: Callable[[Value], Iterable[Value]]


def emit_products(
    emitter: Emitter, unit: Unit, a: Operand, b: Operand, steps: Value | int, totals: Sequence[Value]
) -> list[Value]:
    """Add the products of each vector of A and each of B, over all steps, to the accumulators, row by row.

    The fewer vectors are held in registers, while the others come one by one.
    """

    def step(_: Value, carried: list[Value]) -> Sequence[Value]:
        from_a, from_b, *sums = carried
        by_row = a.vectors >= b.vectors
        held, others = ((b, from_b), (a, from_a)) if by_row else ((a, from_a), (b, from_b))
        registers = list(held[0].load(held[1]))
        for j, other in enumerate(others[0].load(others[1])):
            for i, vector in enumerate(registers):
                at, pair = (j * b.vectors + i, (other, vector)) if by_row else (i * b.vectors + j, (vector, other))
                sums[at] = multiply_add(emitter, unit, sums[at], *pair)
        return emitter.byte_offset(from_a, a.step_bytes), emitter.byte_offset(from_b, b.step_bytes), *sums

    return emitter.loop(0, steps, 1, [a.start, b.start, *totals], step)[2:]
