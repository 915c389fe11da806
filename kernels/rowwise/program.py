"""What a program over rows reads and stores, how often it walks over a row, and its integers in 32 bits.

A program is cut into walks: a reduction is complete after the walk that feeds it, and whatever uses it belongs to a
later one. Values that several walks need are computed again in each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np

from npu_tensor.kernels.codegen import emitter
from npu_tensor.ops.expression import PRIMITIVES, Instruction, Program
from npu_tensor.ops.rows import ROW_LENGTH_SLOT

__all__ = [
    "VECTOR_BYTES",
    "Access",
    "Operand",
    "RowProgram",
    "Walk",
    "narrow",
    "reduces",
    "rough_values",
    "row_values",
    "short_loads",
    "varying",
    "walk_roots",
    "walks",
]

Access = Literal["full", "same", "row", "number"]
"""full: an element of its own for each position. same: one row for all rows. row: one element for each row.
number: one for all."""


VECTOR_BYTES: Final = 64
"""The widest access to memory. Objects in memory, and rows in them, begin at multiples of it."""


class Operand(NamedTuple):
    """An input or an output of a program as a core sees it. dtype: of its elements in memory."""

    access: Access
    dtype: str

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    @property
    def vector(self) -> int:
        """Elements in the widest access to memory, which an input with one element per row fills with it."""
        return VECTOR_BYTES // self.itemsize


class RowProgram(NamedTuple):
    """A program without 64-bit registers, and its inputs and outputs by slot. Hashable."""

    program: Program
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]

    @property
    def lanes(self) -> int:
        """Elements per vector."""
        return emitter.lanes(self.program)

    @property
    def streams(self) -> list[int]:
        """The slots of inputs that are streamed."""
        return [slot for slot, operand in enumerate(self.inputs) if operand.access in ("full", "row")]

    @property
    def kept(self) -> list[int]:
        """The slots of inputs that stay in the cores."""
        return [slot for slot, operand in enumerate(self.inputs) if operand.access == "same"]

    @property
    def numbers(self) -> list[int]:
        """The slots of inputs that are numbers."""
        return [slot for slot, operand in enumerate(self.inputs) if operand.access == "number"]


class Walk(NamedTuple):
    """One walk over a row: the reductions that it feeds, the outputs that it stores, the input slots that it loads."""

    reductions: tuple[int, ...]
    outputs: tuple[int, ...]
    inputs: tuple[int, ...]


def reduces(instruction: Instruction) -> bool:
    """Whether an instruction reduces a row."""
    return PRIMITIVES[instruction.primitive].reduces


def levels(row: RowProgram) -> list[int]:
    """Of every instruction, how many reductions it needs one after the other."""
    found: list[int] = []
    for instruction in row.program.instructions:
        found.append(max((found[operand] for operand in instruction.operands), default=0) + reduces(instruction))
    return found


@lru_cache(maxsize=1024)
def walks(row: RowProgram) -> tuple[Walk, ...]:
    """The walks over a row, in order; the last one stores the outputs that have an element for each position."""
    program = row.program
    found = levels(row)
    reductions = [number for number, instruction in enumerate(program.instructions) if reduces(instruction)]
    groups: list[tuple[list[int], list[int]]] = [
        ([number for number in reductions if found[number] == level], [])
        for level in range(1, max(found, default=0) + 1)
    ]
    stored = [number for number, output in enumerate(row.outputs) if output.access == "full"]
    if stored:
        groups.append(([], stored))
    return tuple(
        Walk(tuple(group), tuple(outputs), _loaded(row, walk_roots(program, group, outputs), reductions))
        for group, outputs in groups
    )


@lru_cache(maxsize=1024)
def row_values(row: RowProgram) -> tuple[tuple[int, ...], ...]:
    """Of every walk: the values of a row, its reductions among them, that are known then and needed afterwards."""
    found, varies = levels(row), varying(row)
    needed: set[int] = set(row.program.outputs)
    for number, instruction in enumerate(row.program.instructions):
        needed.update(o for o in instruction.operands if varies[number] or found[o] < found[number])
    numbers = range(len(varies))
    return tuple(
        tuple(n for n in numbers if found[n] == level and not varies[n] and n in needed)
        for level in range(1, len(walks(row)) + 1)
    )


def walk_roots(program: Program, reductions: Sequence[int], outputs: Sequence[int]) -> list[int]:
    """What a walk computes for each position: the operands of its reductions, and its outputs."""
    return [program.instructions[number].operands[0] for number in reductions] + [
        program.outputs[number] for number in outputs
    ]


def _loaded(row: RowProgram, roots: Sequence[int], reductions: Sequence[int]) -> tuple[int, ...]:
    instructions = row.program.instructions
    needed = emitter.needed(row.program, roots, reductions)
    return tuple(
        dict.fromkeys(instructions[number].value for number in needed if instructions[number].primitive == "load")
    )


def varying(row: RowProgram) -> list[bool]:
    """Of every instruction, whether its value differs along a row."""
    varies: list[bool] = []
    for instruction in row.program.instructions:
        primitive, operands, _, value = instruction
        if primitive == "load":
            varies.append(row.inputs[value].access in ("full", "same"))
        elif primitive == "index":
            varies.append(True)
        else:
            varies.append(not reduces(instruction) and any(varies[operand] for operand in operands))
    return varies


# --- precision


def short_loads(row: RowProgram) -> set[int]:
    """The loads whose floats are exact in bfloat16."""
    return {
        number
        for number, instruction in enumerate(row.program.instructions)
        if instruction.primitive == "load" and row.inputs[instruction.value].dtype == "bfloat16"
    }


@lru_cache(maxsize=1024)
def rough_values(row: RowProgram) -> frozenset[int]:
    """The instructions whose small relative errors vanish when the outputs are rounded to bfloat16."""
    program = row.program
    if any(output.dtype != "bfloat16" for output in row.outputs):
        return frozenset()
    positive: set[int] = set()
    steps = []
    for number, step in enumerate(program.instructions):
        if _is_positive(step, positive):
            positive.add(number)
        # To the analysis of element-wise programs a reduction that keeps relative errors is a sign that is dropped.
        keeps = step.primitive in ("row_max", "row_min") or (
            step.primitive == "row_sum" and positive.issuperset(step.operands)
        )
        steps.append(step._replace(primitive="abs") if keeps else step)
    order = range(len(steps))
    wanted = emitter.needed_precisions(program._replace(instructions=tuple(steps)), order, "half", short_loads(row))
    return frozenset(number for number in order if wanted[number] == "half")


def _is_positive(step: Instruction, positive: Collection[int]) -> bool:
    """Whether a value is never below zero, for operands of which some are known not to be."""
    primitive, operands, _, value = step
    if primitive == "constant":
        return bool(value >= 0)
    if primitive in ("exp", "abs", "sqrt") or (primitive == "mul" and operands[0] == operands[1]):
        return True
    kept = ("add", "mul", "div", "maximum", "minimum", "row_sum", "row_max", "row_min")
    return primitive in kept and all(operand in positive for operand in operands)


# --- 64-bit integers

INT32: Final = (-(2**31), 2**31 - 1)
Bounds = tuple[int, int]


def narrow(program: Program, length: int) -> Program | str:
    """The program with int32 in place of int64 registers, or why some value might not fit.

    length: elements of a row. Bounds follow from the types of what is loaded.
    """
    if not any(instruction.dtype == "int64" for instruction in program.instructions):
        return program
    bounds: list[Bounds | None] = []
    for instruction in program.instructions:
        found = _bounds(instruction, [bounds[operand] for operand in instruction.operands], length)
        if instruction.dtype == "int64" and (found is None or found[0] < INT32[0] or found[1] > INT32[1]):
            return (
                f"{instruction.primitive} of int64 over {length} elements may need more than the 32 bits of the array"
            )
        bounds.append(found)
    return program._replace(
        instructions=tuple(
            instruction._replace(dtype="int32") if instruction.dtype == "int64" else instruction
            for instruction in program.instructions
        )
    )


def _bounds(instruction: Instruction, operands: list[Bounds | None], length: int) -> Bounds | None:
    """Of the value of an instruction, or None for floats and what is not known."""
    primitive, _, dtype, value = instruction
    if dtype == "bool":
        return 0, 1
    if dtype.startswith("float"):
        return None
    own = None if dtype == "int64" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    if primitive == "constant":
        return value, value
    if primitive == "scalar" and value == ROW_LENGTH_SLOT:
        return length, length
    if primitive in ("index", "row_argmax", "row_argmin"):
        return 0, length - 1
    if primitive == "load" or any(operand is None for operand in operands):
        return own
    found = _combined(primitive, [operand for operand in operands if operand is not None], length)
    if own is not None and (found is None or found[0] < own[0] or found[1] > own[1]):
        return own
    return found


def _combined(primitive: str, operands: list[Bounds], length: int) -> Bounds | None:
    """Of a value computed from integers within `operands` without wrapping around, or None if it is not known."""
    largest = max((max(-low, high) for low, high in operands), default=0)
    low, high = (min(low for low, _ in operands), max(high for _, high in operands)) if operands else (0, 0)
    if primitive == "row_sum":
        return min(low, 0) * length, max(high, 0) * length
    if primitive == "row_prod":
        power = largest ** min(length, 64) if largest > 1 else 1
        return -power, power
    if primitive in ("cast", "row_max", "row_min", "maximum", "minimum"):
        return low, high
    if primitive == "select":
        return min(low for low, _ in operands[1:]), max(high for _, high in operands[1:])
    if primitive in ("neg", "abs"):
        return -largest, largest
    if primitive in ("add", "sub"):
        return -2 * largest, 2 * largest
    if primitive == "mul":
        return -(largest**2), largest**2
    return None
