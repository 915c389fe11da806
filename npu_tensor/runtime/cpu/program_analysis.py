"""What a program's instructions need, how often their values change, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable

from npu_tensor.ops.expression import PRIMITIVES, Program

__all__ = ["ONCE", "PER_ELEMENT", "PER_ROW", "ProgramAnalysis", "needed_instructions"]

# How often an instruction's value changes.
ONCE, PER_ROW, PER_ELEMENT = 0, 1, 2


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


class ProgramAnalysis:
    """A program whose operands of the slots `row_slots` have one element per row. The others' differ along it."""

    def __init__(self, program: Program, row_slots: frozenset[int]) -> None:
        self.program = program
        # Of every instruction.
        self.frequency: list[int] = []
        for number, instruction in enumerate(program.instructions):
            if instruction.primitive == "load":
                frequency = PER_ROW if instruction.value in row_slots else PER_ELEMENT
            elif instruction.primitive == "index":
                frequency = PER_ELEMENT
            elif self.reduces(number):
                frequency = PER_ROW
            else:
                frequency = max((self.frequency[operand] for operand in instruction.operands), default=ONCE)
            self.frequency.append(frequency)

    def reduces(self, number: int) -> bool:
        """Whether an instruction reduces rows."""
        return PRIMITIVES[self.program.instructions[number].primitive].reduces

    def cost(self, roots: Iterable[int], known: Iterable[int] = ()) -> int:
        """flops per element of evaluating `roots`."""
        needed = needed_instructions(self.program, roots, known)
        return sum(
            PRIMITIVES[self.program.instructions[number].primitive].flops
            for number in needed
            if self.frequency[number] == PER_ELEMENT
        )
