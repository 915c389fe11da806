"""How often rows are walked over: the levels of reductions, and the values kept from one walk for a later one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from npu_tensor.runtime.cpu.program_analysis import PER_ELEMENT, ProgramAnalysis, needed_instructions

__all__ = ["Stage", "plan_stages"]

# How many intermediate values are kept at most, each in a scratch row.
SCRATCH_ROWS = 2
# An intermediate value is kept for a later walk rather than computed again from this many flops on.
SCRATCH_FLOPS = 12


class Stage(NamedTuple):
    """One walk over a row: what it reduces or stores, and what it puts in and takes from scratch rows."""

    reductions: tuple[int, ...]
    outputs: tuple[int, ...]
    roots: tuple[int, ...]
    kept: tuple[int, ...]
    found: tuple[int, ...]


def plan_stages(analysis: ProgramAnalysis, outputs: Sequence[int], with_scratch: bool) -> list[Stage]:
    """The walks over a row, in order. The last one stores `outputs`, which have one value per element."""
    program = analysis.program
    instructions = program.instructions
    levels: list[int] = []
    for number, instruction in enumerate(instructions):
        level = max((levels[operand] for operand in instruction.operands), default=0)
        levels.append(level + analysis.reduces(number))
    needed = needed_instructions(program, program.outputs)
    reductions = [number for number in needed if analysis.reduces(number)]
    groups: list[tuple[list[int], list[int], list[int]]] = []
    for level in range(1, max((levels[number] for number in reductions), default=0) + 1):
        group = [number for number in reductions if levels[number] == level]
        groups.append((group, [], [instructions[number].operands[0] for number in group]))
    if outputs:
        groups.append(([], list(outputs), [program.outputs[output] for output in outputs]))

    scratch: dict[int, int] = {}
    evaluated: list[set[int]] = []
    found: list[list[int]] = []
    for _, _, roots in groups:
        before = set().union(*evaluated) if with_scratch else set()
        kept = _worth_keeping(analysis, roots, before)
        for number in kept:
            first = next(stage for stage, members in enumerate(evaluated) if number in members)
            if number in scratch or len(scratch) < SCRATCH_ROWS:
                scratch.setdefault(number, first)
        found.append([number for number in kept if number in scratch])
        fixed = [number for number in needed if analysis.frequency[number] != PER_ELEMENT]
        evaluated.append(set(needed_instructions(program, roots, [*fixed, *found[-1]])))
    return [
        Stage(
            reductions=tuple(group),
            outputs=tuple(stored),
            roots=tuple(roots),
            kept=tuple(number for number, first in scratch.items() if first == stage),
            found=tuple(found[stage]),
        )
        for stage, (group, stored, roots) in enumerate(groups)
    ]


def _worth_keeping(analysis: ProgramAnalysis, roots: Sequence[int], evaluated: set[int]) -> list[int]:
    """The values that `roots` need, an earlier walk had, and which cost much to compute again."""
    found: list[int] = []
    pending, seen = list(roots), set()
    while pending:
        number = pending.pop()
        if number in seen or analysis.frequency[number] != PER_ELEMENT:
            continue
        seen.add(number)
        instruction = analysis.program.instructions[number]
        if number in evaluated and instruction.dtype == "float32" and analysis.cost([number]) >= SCRATCH_FLOPS:
            found.append(number)
        else:
            pending.extend(instruction.operands)
    return found
