"""Operands of a program over rows, its walks over a row, and its integers in 32 bits.

Each stage of the program (see `ops.analysis`) is a walk.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np

from npu_tensor.kernels.codegen import emitter
from npu_tensor.ops.analysis import PER_ELEMENT, bounds, frequencies, levels, needed, precisions, reduces, stages
from npu_tensor.ops.expression import Program

Access = Literal["full", "same", "row", "number"]
"""Access of an operand.

- full: a separate element for each position.
- same: one row shared by all rows.
- row: one element for each row.
- number: a single element.
"""


VECTOR_BYTES: Final = 64
"""Bytes of the widest memory access. Objects in memory, and rows in them, begin at multiples of it."""


class RowOperand(NamedTuple):
    """Input or output of a program in a core. dtype: dtype of its elements in memory."""

    access: Access
    dtype: str

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    @property
    def vector(self) -> int:
        """Elements in the widest memory access. An input with one element per row fills such a vector with it."""
        return VECTOR_BYTES // self.itemsize


class RowProgram(NamedTuple):
    """Program without 64-bit registers, and its inputs and outputs by slot. Hashable."""

    program: Program
    inputs: tuple[RowOperand, ...]
    outputs: tuple[RowOperand, ...]

    @property
    def lanes(self) -> int:
        """Elements per vector."""
        return emitter.lanes(self.program)

    @property
    def streams(self) -> list[int]:
        """Slots of inputs that are streamed."""
        return [slot for slot, operand in enumerate(self.inputs) if operand.access in ("full", "row")]

    @property
    def kept(self) -> list[int]:
        """Slots of inputs that stay in the cores."""
        return [slot for slot, operand in enumerate(self.inputs) if operand.access == "same"]

    @property
    def is_rounded(self) -> bool:
        """True if all outputs are rounded to bfloat16."""
        return all(output.dtype == "bfloat16" for output in self.outputs)

    @property
    def numbers(self) -> list[int]:
        """Slots of inputs that are numbers."""
        return [slot for slot, operand in enumerate(self.inputs) if operand.access == "number"]


class RowWalk(NamedTuple):
    """Stage of the program, and the input slots that it loads. The other fields are those of `analysis.Stage`."""

    reductions: tuple[int, ...]
    outputs: tuple[int, ...]
    roots: tuple[int, ...]
    inputs: tuple[int, ...]


@lru_cache(maxsize=1024)
def walks(row: RowProgram) -> tuple[RowWalk, ...]:
    """Return the walks over a row, in order; the last one stores the outputs that have an element for each position."""
    program = row.program
    reductions = [number for number, instruction in enumerate(program.instructions) if reduces(instruction)]
    stored = [number for number, output in enumerate(row.outputs) if output.access == "full"]
    result = []
    for stage in stages(program, stored):
        read = [program.instructions[number] for number in needed(program, stage.roots, reductions)]
        loaded = dict.fromkeys(instruction.value for instruction in read if instruction.primitive == "load")
        result.append(RowWalk(stage.reductions, stage.outputs, stage.roots, tuple(loaded)))
    return tuple(result)


@lru_cache(maxsize=1024)
def row_values(row: RowProgram) -> tuple[tuple[int, ...], ...]:
    """Return for every walk the row values, including its reductions, that are then known and needed afterwards."""
    level, varies = levels(row.program), varying(row)
    used: set[int] = set(row.program.outputs)
    for number, instruction in enumerate(row.program.instructions):
        used.update(o for o in instruction.operands if varies[number] or level[o] < level[number])
    return tuple(
        tuple(n for n in sorted(used) if level[n] == stage and not varies[n]) for stage in range(1, len(walks(row)) + 1)
    )


def varying(row: RowProgram) -> list[bool]:
    """Return for every instruction True if its value differs along a row."""
    row_slots = [slot for slot, operand in enumerate(row.inputs) if operand.access == "row"]
    return [frequency == PER_ELEMENT for frequency in frequencies(row.program, row_slots)]


# --- precision


def short_loads(row: RowProgram) -> set[int]:
    """Return the loads whose floats are exact in bfloat16."""
    return {
        number
        for number, instruction in enumerate(row.program.instructions)
        if instruction.primitive == "load" and row.inputs[instruction.value].dtype == "bfloat16"
    }


@lru_cache(maxsize=1024)
def rough_values(row: RowProgram) -> frozenset[int]:
    """Return the instructions whose small relative errors vanish when the outputs are rounded to bfloat16."""
    if not row.is_rounded:
        return frozenset()
    order = range(len(row.program.instructions))
    precision_of = precisions(row.program, order, "half", short_loads(row))
    return frozenset(number for number in order if precision_of[number] == "half")


# --- 64-bit integers

INT32: Final = (-(2**31), 2**31 - 1)


def narrow(program: Program, length: int) -> Program | str:
    """Replace int64 registers by int32, or return the reason why some value of a row might not fit."""
    if not any(instruction.dtype == "int64" for instruction in program.instructions):
        return program
    for instruction, within in zip(program.instructions, bounds(program, length), strict=True):
        if instruction.dtype == "int64" and (within is None or within[0] < INT32[0] or within[1] > INT32[1]):
            return (
                f"{instruction.primitive} of int64 over {length} elements may need more than the 32 bits of the array"
            )
    return program._replace(
        instructions=tuple(
            instruction._replace(dtype="int32") if instruction.dtype == "int64" else instruction
            for instruction in program.instructions
        )
    )
