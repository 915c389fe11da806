"""The register-blocked inner loop of a matrix product, and the packed form of the operands it reads.

Both operands are packed in panels: of some rows of A, or of some columns of B. A panel is a sequence of
steps; a step holds one *unit* per row or column, and a unit holds `Unit.count` consecutive elements along
K. A unit has the size of an accumulator, so that one vector of B, one broadcast unit of A and one vector of
accumulators match lane by lane, and one instruction multiplies and adds whole units.

The bfloat16 instruction (VDPBF16PS) treats subnormal inputs and results as zero. That is accepted in a dot
product, where it only shows when all products are of that size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from npu_tensor.errors import DTypeError
from npu_tensor.runtime.cpu.ir_emitter import Emitter
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import Value

__all__ = [
    "LEAST_ROWS",
    "THROUGHPUT_VECTORS",
    "UNITS",
    "Blocking",
    "Unit",
    "blockings",
    "byte_offset",
    "choose_unit",
    "emit_tile",
    "load_number",
    "load_value",
    "throughput_module",
    "unit_lanes",
    "usual_blocking",
]


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
        """The LLVM integer of a unit's size."""
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
    """How products are computed: in which unit, and in tiles of at most how many rows and of how many columns."""

    unit: Unit
    rows: int
    columns: int


def choose_unit(dtype_a: str, dtype_b: str, target: CpuTarget) -> Unit:
    """The densest unit that holds the elements of both operands exactly.

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
    """Units in one vector register."""
    return target.lanes * 4 // unit.bytes


def usual_blocking(unit: Unit, target: CpuTarget) -> Blocking:
    """Tiles that are good on every processor with the instructions of the target, of two vectors of columns."""
    columns = 2 * unit_lanes(unit, target)
    if target.has_avx512:
        return Blocking(unit, 14, columns)
    if target.is_aarch64:
        return Blocking(unit, 8, columns)
    return Blocking(unit, 6 if target.has_fma else 4, columns)


def blockings(unit: Unit, target: CpuTarget) -> list[Blocking]:
    """The usual one, and others of which one may be faster on some processor: large tiles that stay in registers.

    One register holds a broadcast unit of A and one each vector of B. Without FMA each product needs one as well.
    """
    registers = 32 if target.has_avx512 or target.is_aarch64 else 16
    found = [usual_blocking(unit, target)]
    for vectors in range(1, _MOST_VECTORS + 1):
        most = (registers - vectors - (1 if target.has_fma else 2)) // vectors
        found += [Blocking(unit, rows, vectors * unit_lanes(unit, target)) for rows in (most, most - 1)]
    return [blocking for blocking in dict.fromkeys(found) if blocking.rows >= LEAST_ROWS]


def byte_offset(emitter: Emitter, pointer: Value, offset: Value | int) -> Value:
    """`pointer` moved by a number of bytes."""
    return emitter.address(pointer, emitter.operand(offset, "i64"), "int8")


def load_value(emitter: Emitter, type_: str, pointer: Value, index: int = 0, align: int = 8) -> Value:
    """The value of any LLVM type at `index` in an array of them."""
    address = emitter.assign("ptr", f"getelementptr {type_}, ptr {pointer.name}, i64 {index}")
    return emitter.assign(type_, f"load {type_}, ptr {address.name}, align {align}")


def load_number(emitter: Emitter, pointers: Value, slot: int, dtype: str) -> Value:
    """A run-time number in every lane: a float64 or int64 stands in the pointer slot itself."""
    return emitter.number(dtype, lambda type_: load_value(emitter, type_, pointers, slot))


def _broadcast(emitter: Emitter, scalar: Value, lanes: int) -> Value:
    type_ = f"<{lanes} x {scalar.type}>"
    first = emitter.assign(type_, f"insertelement {type_} poison, {scalar.type} {scalar.name}, i64 0")
    return emitter.shuffle(first, [0] * lanes)


def _multiply_add(emitter: Emitter, unit: Unit, total: Value, a: Value, b: Value) -> Value:
    """total + the products of a and b, vectors of units."""
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
    """Units of 32 bits as a vector of their 16-bit elements."""
    type_ = f"<{2 * emitter.lanes} x {element}>"
    return emitter.assign(type_, f"bitcast {units.type} {units.name} to {type_}")


def emit_tile(emitter: Emitter, blocking: Blocking, a: Value, b: Value, steps: Value, tile: Value) -> None:
    """Multiply one panel of A by one panel of B and store the rows x columns accumulators.

    a      panel of A, `rows` units per step
    b      panel of B, `columns` units per step, aligned to 64 bytes; for int8_quad the initial value of every
           column's accumulators stands before them
    steps  i64
    tile   row-major, aligned to 64 bytes
    """
    unit, rows, columns = blocking
    lanes = unit_lanes(unit, emitter.target)
    vectors = columns // lanes
    type_ = f"<{lanes} x {unit.accumulator}>"
    vector_bytes = lanes * unit.bytes
    initial = [Value("zeroinitializer", type_)] * vectors
    if unit.name == "int8_quad":
        initial = [load_value(emitter, type_, b, j, align=vector_bytes) for j in range(vectors)]
        b = byte_offset(emitter, b, vectors * vector_bytes)

    def step(_: Value, carried: list[Value]) -> Sequence[Value]:
        from_a, from_b, *totals = carried
        loaded = [load_value(emitter, type_, from_b, j, align=vector_bytes) for j in range(vectors)]
        following = []
        for row in range(rows):
            scalar = load_value(emitter, unit.accumulator, from_a, row, align=unit.bytes)
            broadcast = _broadcast(emitter, scalar, lanes)
            for j, column in enumerate(loaded):
                total = totals[row * vectors + j]
                following.append(_multiply_add(emitter, unit, total, broadcast, column))
        next_a = byte_offset(emitter, from_a, rows * unit.bytes)
        next_b = byte_offset(emitter, from_b, vectors * vector_bytes)
        return next_a, next_b, *following

    _, _, *totals = emitter.loop(0, steps, 1, [a, b, *(initial * rows)], step)
    for position, total in enumerate(totals):
        address = byte_offset(emitter, tile, position * vector_bytes)
        emitter.statement(f"store {total.type} {total.name}, ptr {address.name}, align {vector_bytes}")


_TOTALS = 24
THROUGHPUT_VECTORS = 2 + _TOTALS


def throughput_module(name: str, unit: Unit, target: CpuTarget) -> str:
    """The module of `void name(ptr vectors, i64 steps)`: as many multiply-adds as the processor can do at a time.

    vectors: of units; the products of the first two are added in every step to each of the others, which are stored.
    """
    emitter = Emitter(target)
    type_ = f"<{unit_lanes(unit, target)} x {unit.accumulator}>"
    vectors, steps = Value("%vectors", "ptr"), Value("%steps", "i64")
    a, b, *totals = (load_value(emitter, type_, vectors, i, align=unit.bytes) for i in range(THROUGHPUT_VECTORS))

    def step(_: Value, carried: list[Value]) -> Sequence[Value]:
        return [_multiply_add(emitter, unit, total, a, b) for total in carried]

    for position, total in enumerate(emitter.loop(0, steps, 1, totals, step), 2):
        address = emitter.assign("ptr", f"getelementptr {type_}, ptr {vectors.name}, i64 {position}")
        emitter.statement(f"store {type_} {total.name}, ptr {address.name}, align {unit.bytes}")
    return emitter.module(emitter.function(f"@{name}(ptr %vectors, i64 %steps)"))
