"""The code of a `Program`'s primitives: a table from each to its function, conversions, whole programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from npu_tensor.ops.analysis import needed
from npu_tensor.ops.expression import Instruction, Program
from npu_tensor.runtime.cpu import float_formats, vector_math
from npu_tensor.runtime.cpu.ir_emitter import Emitter
from npu_tensor.runtime.cpu.values import BITS, REGISTER_ELEMENT, Value, is_signed


class _Step(NamedTuple):
    """Arguments of a primitive's function: the operands and the dtypes of operands and result."""

    operands: list[Value]
    operand_dtype: str
    dtype: str


def _arithmetic(opcode: str, for_bool: str) -> Callable[[Emitter, _Step], Value]:
    def emit(emitter: Emitter, step: _Step) -> Value:
        if step.dtype == "bool":
            return emitter.op(for_bool, *step.operands)
        # Without "contract": a product that LLVM fuses into a sum is not rounded as it is when computed by itself.
        return emitter.op(f"f{opcode}" if step.dtype.startswith("float") else opcode, *step.operands)

    return emit


def _extreme(predicate: str) -> Callable[[Emitter, _Step], Value]:
    """Return the maximum ("gt") or minimum ("lt"); NaN in either operand gives NaN."""

    def emit(emitter: Emitter, step: _Step) -> Value:
        left, right = step.operands
        if not step.dtype.startswith("float"):
            signed = "s" if is_signed(step.dtype) else "u"
            return emitter.select(emitter.compare(signed + predicate, left, right), left, right)
        if _is_number(emitter, right):
            left, right = right, left
        # This select is one x86 instruction, which gives the right operand if either is NaN.
        better = emitter.select(emitter.compare("o" + predicate, left, right), left, right)
        if _is_number(emitter, left):
            return better
        return emitter.select(emitter.compare("uno", left, left), left, better)

    return emit


def _is_number(emitter: Emitter, value: Value) -> bool:
    """Return True for a floating-point literal that is not NaN."""
    return value.is_literal and value != emitter.constant(math.nan, value.type)


def _comparison(predicate: str) -> Callable[[Emitter, _Step], Value]:
    def emit(emitter: Emitter, step: _Step) -> Value:
        if step.operand_dtype.startswith("float"):
            prefix = "u" if predicate == "ne" else "o"
        else:
            prefix = "" if predicate in ("eq", "ne") else "s" if is_signed(step.operand_dtype) else "u"
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
    if not is_signed(step.dtype):
        return emitter.select(emitter.compare("ult", count, width), emitter.op("lshr", value, count), 0)
    bounded = emitter.select(emitter.compare("ult", count, width), count, width - 1)
    return emitter.op("ashr", value, bounded)


def _abs(emitter: Emitter, step: _Step) -> Value:
    return emitter.abs(step.operands[0]) if is_signed(step.operand_dtype) else step.operands[0]


def _rounding(method: Callable[[Emitter, Value], Value]) -> Callable[[Emitter, _Step], Value]:
    def emit(emitter: Emitter, step: _Step) -> Value:
        return method(emitter, step.operands[0]) if step.dtype.startswith("float") else step.operands[0]

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
        return emitter.convert("sitofp" if is_signed(source) else "uitofp", x, element)
    width, new_width = BITS[x.element], BITS[element]
    if new_width < width:
        return emitter.convert("trunc", x, element)
    if new_width == width:
        return x
    return emitter.convert("sext" if is_signed(source) else "zext", x, element)


def _saturated_integer(emitter: Emitter, x: Value, result: str) -> Value:
    limits = np.iinfo(result)
    # The largest integer of as many bits as a float has. LLVM's saturating conversion is not vectorized.
    digits = {"float": 24, "double": 53}[x.element]
    spare = max(limits.bits - is_signed(result) - digits, 0)
    highest = limits.max >> spare << spare
    bounded = emitter.at_most(emitter.at_least(x, float(limits.min)), float(highest))
    number = emitter.select(emitter.compare("ord", x, x), bounded, 0.0)
    element = REGISTER_ELEMENT[result]
    if limits.bits < 32:
        return emitter.convert("trunc", emitter.convert("fptosi", number, "i32"), element)
    whole = emitter.convert("fptosi", number, element)
    return emitter.select(emitter.compare("ogt", x, float(highest)), limits.max, whole) if spare else whole


def _call(function: Callable[..., Value]) -> Callable[[Emitter, _Step], Value]:
    return lambda emitter, step: function(emitter, *step.operands)


ELEMENTWISE: Final[Mapping[str, Callable[[Emitter, _Step], Value]]] = {
    "cast": _cast,
    "round_bfloat16": _call(float_formats.round_bfloat16),
    "round_float16": _call(float_formats.round_float16),
    "add": _arithmetic("add", "or"),
    "sub": _arithmetic("sub", "xor"),
    "mul": _arithmetic("mul", "and"),
    "div": _call(Emitter.div),
    "maximum": _extreme("gt"),
    "minimum": _extreme("lt"),
    "neg": _call(Emitter.neg),
    "abs": _abs,
    "floor": _rounding(Emitter.floor),
    "ceil": _rounding(Emitter.ceil),
    "trunc": _rounding(Emitter.trunc),
    "rint": _rounding(Emitter.rint),
    "sqrt": _call(Emitter.sqrt),
    **{name: _call(function) for name, function in vector_math.FUNCTIONS.items()},
    **{name: _comparison(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: _bitwise(name) for name in ("and", "or", "xor")},
    "not": _not,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "select": _call(Emitter.select),
}
"""The code of a primitive, by its name."""


def apply(emitter: Emitter, instruction: Instruction, operands: list[Value], operand_dtypes: Sequence[str]) -> Value:
    return ELEMENTWISE[instruction.primitive](emitter, _Step(operands, operand_dtypes[0], instruction.dtype))


def emit_program(
    emitter: Emitter,
    program: Program,
    load: Callable[[int], Value],
    scalar: Callable[[int, str], Value],
    index: Callable[[], Value] | None = None,
    known: dict[int, Value] | None = None,
    roots: Iterable[int] | None = None,
) -> list[Value]:
    """Evaluate elementwise instructions and return the values of `roots` (by default the outputs) as full vectors.

    `load(slot)` returns the element of an operand, in the register dtype of its memory dtype; `scalar(slot, dtype)` a
    run-time number; `index()` the i64 positions. `known` has values of instructions that need no evaluation, such as
    results of reductions, by instruction number. Evaluated values are added to it.
    """
    values = {} if known is None else known
    results = list(program.outputs if roots is None else roots)
    for number in needed(program, results, values):
        if number in values:
            continue
        instruction = program.instructions[number]
        if instruction.primitive == "constant":
            values[number] = emitter.constant(instruction.value, emitter.vector(REGISTER_ELEMENT[instruction.dtype]))
        elif instruction.primitive == "load":
            values[number] = load(instruction.value)
        elif instruction.primitive == "scalar":
            values[number] = scalar(instruction.value, instruction.dtype)
        elif instruction.primitive == "index" and index is not None:
            values[number] = index()
        else:
            operands = [values[operand] for operand in instruction.operands]
            dtypes = [program.instructions[operand].dtype for operand in instruction.operands]
            values[number] = apply(emitter, instruction, operands, dtypes)
    return [values[number] for number in results]
