"""Numbers that are known when a kernel is bound. Compiled code takes them as operands: others need no other code.

They are the attributes of ops, such as alpha and eps, and the row length. What Python numbers a task has as operands
is known only when it runs.
"""

from __future__ import annotations

from typing import Final

from npu_tensor.ops.expression import Instruction, Parameter, Program
from npu_tensor.ops.rows import ROW_LENGTH_SLOT

__all__ = ["with_fixed_numbers"]

_LARGEST: Final = (1 << 63) - 1


def with_fixed_numbers(
    program: Program, first: int, most: int = _LARGEST, row_length: int | None = None
) -> tuple[Program, list[int | float]]:
    """The program with these numbers as scalars in slots from `first` on, and the numbers.

    most: of these slots; further numbers stay constants. row_length: of a program that may ask for it.
    """
    numbers: list[int | float] = []
    instructions: list[Instruction] = []
    for step in program.instructions:
        number: int | float | None = None
        if step.primitive == "scalar" and step.value == ROW_LENGTH_SLOT:
            number = row_length
        elif isinstance(step.value, Parameter) and len(numbers) < most:
            number = step.value  # type: ignore[assignment]  # a Parameter is a float or an int
        if number is not None and (step.dtype.startswith("float") or -_LARGEST <= number <= _LARGEST):
            step = Instruction("scalar", (), step.dtype, first + len(numbers))
            numbers.append(float(number) if step.dtype.startswith("float") else int(number))
        instructions.append(step)
    return program._replace(instructions=tuple(instructions)), numbers
