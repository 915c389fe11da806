"""Analyses of programs that the code generators of all targets share.

A program over rows runs in stages. Each stage walks over the row once. A reduction is complete after the stage that
feeds it, and its users belong to a later one. Values that several stages need are recomputed in each, or kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from npu_tensor.dtypes import bfloat16
from npu_tensor.ops.expression import Instruction, Program
from npu_tensor.ops.primitives import PRIMITIVES, Bounds
from npu_tensor.ops.rows import ROW_LENGTH_SLOT


def needed(program: Program, roots: Iterable[int], known: Collection[int] = ()) -> list[int]:
    """Return the instructions that `roots` depend on, ascending, without the dependencies of those in `known`."""
    seen: set[int] = set()
    pending = list(roots)
    while pending:
        number = pending.pop()
        if number not in seen:
            seen.add(number)
            if number not in known:
                pending.extend(program.instructions[number].operands)
    return sorted(seen)


def reduces(instruction: Instruction) -> bool:
    """Return True if an instruction reduces a row."""
    return PRIMITIVES[instruction.primitive].reduces


# --- frequency and order

ONCE, PER_ROW, PER_ELEMENT = 0, 1, 2
"""Frequencies with which a value changes."""


def frequencies(program: Program, row_slots: Collection[int] = ()) -> list[int]:
    """Return how often the value of every instruction changes. Operands at `row_slots` have one element per row."""
    result: list[int] = []
    for instruction in program.instructions:
        if instruction.primitive == "load":
            frequency = PER_ROW if instruction.value in row_slots else PER_ELEMENT
        elif instruction.primitive == "index":
            frequency = PER_ELEMENT
        elif reduces(instruction):
            frequency = PER_ROW
        else:
            frequency = max((result[operand] for operand in instruction.operands), default=ONCE)
        result.append(frequency)
    return result


def levels(program: Program) -> list[int]:
    """Return the length of the longest chain of reductions that each instruction ends, itself included."""
    result: list[int] = []
    for instruction in program.instructions:
        result.append(max((result[operand] for operand in instruction.operands), default=0) + reduces(instruction))
    return result


@dataclass(frozen=True, slots=True)
class Stage:
    """One walk over a row.

    Attributes:
        reductions: Instructions that it completes.
        outputs: Positions, among the program's outputs, of those that it stores.
        roots: Per-element values that reductions and outputs read.
        kept: Per-element values that it stores for later stages.
        reused: Per-element values that earlier stages have stored and it loads.
    """

    reductions: tuple[int, ...]
    outputs: tuple[int, ...]
    roots: tuple[int, ...]
    kept: tuple[int, ...] = ()
    reused: tuple[int, ...] = ()


def stages(program: Program, outputs: Sequence[int]) -> list[Stage]:
    """Return the stages in order. The last one stores `outputs`, which have one value per element."""
    level = levels(program)
    reductions = [n for n in needed(program, program.outputs) if reduces(program.instructions[n])]
    result = []
    for current in sorted({level[number] for number in reductions}):
        group = tuple(number for number in reductions if level[number] == current)
        result.append(Stage(group, (), tuple(program.instructions[number].operands[0] for number in group)))
    if outputs:
        result.append(Stage((), tuple(outputs), tuple(program.outputs[output] for output in outputs)))
    return result


def worth_keeping(program: Program, roots: Sequence[int], candidates: Collection[int]) -> list[int]:
    """Return the float32 values among `candidates` that a stage with `roots` should load instead of recomputing.

    Candidates are values of an earlier stage. One that only other chosen values need is not chosen.
    """
    values: list[int] = []
    pending, seen = list(roots), set[int]()
    while pending:
        number = pending.pop()
        if number in seen:
            continue
        seen.add(number)
        if number in candidates and program.instructions[number].dtype == "float32":
            values.append(number)
        else:
            pending.extend(program.instructions[number].operands)
    return values


# --- signs, bounds and precision

Precision = Literal["half", "full"]
"""half: a relative error of 2^-13, at most 2^-11, which a bfloat16 result hardly shows. full: 4 ulps of float32."""


def nonnegative(program: Program, order: Iterable[int]) -> set[int]:
    """Return the instructions in `order` whose results are never negative, so that sums of them do not cancel."""
    result: set[int] = set()
    for number in order:
        primitive, operands, dtype, value = program.instructions[number]
        sign = PRIMITIVES[primitive].sign
        if primitive == "constant":
            is_nonnegative = value >= 0
        elif primitive == "scalar":
            is_nonnegative = value == ROW_LENGTH_SLOT
        elif primitive == "cast":
            is_nonnegative = dtype == "float32" and result.issuperset(operands)
        elif sign == "nonnegative of nonnegative":
            is_square = primitive == "mul" and _is_square(program, operands, result)
            is_nonnegative = is_square or result.issuperset(operands)
        else:
            is_nonnegative = sign == "nonnegative"
        if is_nonnegative:
            result.add(number)
    return result


def _is_square(program: Program, factors: Sequence[int], positive: Collection[int]) -> bool:
    """Return True if the factors are x and x, or c x and x with a nonnegative c."""
    first, second = factors
    primitive, operands, _, _ = program.instructions[first]
    if primitive == "mul" and second in operands:
        return operands[operands[0] == second] in positive
    return first == second


def exact_in_bfloat16(program: Program, order: Iterable[int], known: Collection[int] = ()) -> set[int]:
    """Return the float instructions in `order` with at most 8 significant bits, including `known` ones."""
    result: set[int] = set(known)
    for number in order:
        primitive, operands, dtype, value = program.instructions[number]
        if dtype != "float32" or number in result:
            continue
        if primitive == "constant":
            with np.errstate(over="ignore"):
                is_exact = bool(np.float32(value) == np.float32(value).astype(bfloat16.numpy))
        elif primitive == "cast":
            is_exact = program.instructions[operands[0]].dtype in ("bool", "int8", "uint8")
        elif primitive == "select":
            is_exact = result.issuperset(operands[1:])
        elif PRIMITIVES[primitive].error == "chosen" and not PRIMITIVES[primitive].reduces:
            is_exact = result.issuperset(operands)
        else:
            is_exact = primitive == "round_bfloat16"
        if is_exact:
            result.add(number)
    return result


def precisions(
    program: Program,
    order: Sequence[int],
    precision: Precision,
    short: Collection[int] = (),
    tolerant: Collection[int] = (),
) -> dict[int, Precision]:
    """Return the precision that each instruction needs so that the results have `precision`.

    An instruction may be less exact only if its error does not grow on the way to a result. Operands come first in
    `order`, `short` instructions are exact in bfloat16, and `tolerant` ones never need full operands.
    """
    result: dict[int, Precision] = dict.fromkeys(order, precision)
    positive = nonnegative(program, order)
    for number in reversed(order):
        operands = program.instructions[number].operands
        if number not in tolerant and (result[number] == "full" or not _keeps_errors(program, number, positive)):
            result.update(dict.fromkeys(operands, "full"))
    exact = exact_in_bfloat16(program, order, short)
    for number in order:
        primitive, operands, _, _ = program.instructions[number]
        if primitive == "mul" and exact.issuperset(operands):
            result[number] = "half"  # Products of 8-bit factors lose nothing.
    return result


def roundable(program: Program, order: Sequence[int], tolerant: Collection[int]) -> set[int]:
    """Return the instructions that only `tolerant` ones depend on, with relative errors that do not grow on the way."""
    read = set(program.outputs)
    positive = nonnegative(program, order)
    for number in reversed(order):
        if number not in tolerant and (number in read or not _keeps_errors(program, number, positive)):
            read.update(program.instructions[number].operands)
    return set(order) - read


def _keeps_errors(program: Program, number: int, positive: set[int]) -> bool:
    """Return True if the relative error of an instruction is no larger than that of its operands."""
    primitive, operands, _, _ = program.instructions[number]
    error = PRIMITIVES[primitive].error
    return error in ("kept", "chosen") or (error == "kept of nonnegative" and positive.issuperset(operands))


def takes_steps_on_inexact(program: Program, inexact_slots: Collection[int] = ()) -> bool:
    """Return True if a result jumps at a float that devices may compute, or have loaded from a slot, differently."""
    inexact: set[int] = set()
    for number, (primitive, operands, dtype, value) in enumerate(program.instructions):
        description = PRIMITIVES[primitive]
        differs = not inexact.isdisjoint(operands)
        if primitive == "load":
            differs = value in inexact_slots and dtype.startswith("float")
        elif differs and description.error == "step" and (primitive != "cast" or "int" in dtype):
            return True
        elif operands and dtype.startswith("float"):
            is_rounding = description.error == "kept" and not description.inexact
            differs = differs or not (is_rounding or description.error in ("chosen", "step"))
        if differs:
            inexact.add(number)
    return False


def bounds(program: Program, length: int) -> list[Bounds | None]:
    """Return the bounds of every instruction's value over rows of a length; None for floats and unknown values.

    The bounds follow from the types of the operands and assume that int64 does not wrap around.
    """
    result: list[Bounds | None] = []
    for instruction in program.instructions:
        result.append(_bounds(instruction, [result[operand] for operand in instruction.operands], length))
    return result


def _bounds(instruction: Instruction, operands: list[Bounds | None], length: int) -> Bounds | None:
    primitive, _, dtype, value = instruction
    description = PRIMITIVES[primitive]
    if dtype == "bool":
        return 0, 1
    if dtype.startswith("float"):
        return None
    if primitive == "constant":
        return value, value
    if primitive == "scalar" and value == ROW_LENGTH_SLOT:
        return length, length
    if description.result == "position":
        return 0, length - 1
    of_type = None if dtype == "int64" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    known = [operand for operand in operands if operand is not None]
    if description.bounds is None or len(known) < len(operands):
        return of_type
    low, high = description.bounds(known, length)
    if of_type is not None and (low < of_type[0] or high > of_type[1]):
        return of_type
    return low, high
