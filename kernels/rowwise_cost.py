"""Predicted cycles and machine code of walks over rows."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Final, NamedTuple

from npu_tensor.dataflow.array import Arch
from npu_tensor.kernels import emitter
from npu_tensor.kernels.cycles import CYCLES, cycles, program_bytes
from npu_tensor.kernels.rowwise_program import RowProgram, Walk, rough_values, short_loads, varying, walk_roots, walks

__all__ = ["Cost", "costly_value", "walk_bytes", "walk_cost"]

COSTLY: Final = 30
"""Cycles per vector from which on a value is kept for a later walk and not computed again."""

MASK: Final = 3
"""Cycles that leave the lanes behind the end of a row out of a reduction."""

_LANES: Final = {
    "row_sum": ("sum_lanes",),
    "row_prod": ("mul",) * 4,
    "row_max": ("max_lanes",),
    "row_min": ("min_lanes",),
    "row_argmax": ("max_lanes", "eq"),
    "row_argmin": ("min_lanes", "eq"),
}
"""What combines the lanes of a reduction at the end of a row."""


class Cost(NamedTuple):
    """Of a walk: cycles for each vector of the row, and once for the row."""

    vector: int
    row: int

    def of(self, lanes: int, elements: int) -> int:
        """Cycles for a row, or a part of one, of so many elements."""
        return self.vector * -(-elements // lanes) + self.row


class _Parts(NamedTuple):
    """The instructions of a walk that are done for every vector and those that are done once, with their precision."""

    vector: tuple[int, ...]
    row: tuple[int, ...]
    precision: dict[int, emitter.Precision]


def _parts(row: RowProgram, walk: Walk, found: Collection[int]) -> _Parts:
    program = row.program
    roots = walk_roots(program, walk.reductions, walk.outputs)
    before = [n for other in walks(row)[: walks(row).index(walk)] for n in other.reductions]
    needed = emitter.needed(program, roots, (*before, *found))
    short = short_loads(row)
    precision: emitter.Precision = "half" if rough_values(row).issuperset(roots) else "full"
    precisions = emitter.needed_precisions(program, needed, precision, short)
    varies = varying(row)
    chosen = [n for n in needed if n not in before and n not in found]
    return _Parts(
        (*(n for n in chosen if varies[n]), *walk.reductions), tuple(n for n in chosen if not varies[n]), precisions
    )


def _cycles(row: RowProgram, arch: Arch, numbers: tuple[int, ...], precision: dict[int, emitter.Precision]) -> int:
    full = [number for number in numbers if precision.get(number, "full") == "full"]
    half = [number for number in numbers if precision.get(number, "full") == "half"]
    return cycles(row.program, arch, row.lanes, "full", full) + cycles(row.program, arch, row.lanes, "half", half)


@lru_cache(maxsize=4096)
def walk_cost(row: RowProgram, walk: Walk, arch: Arch, found: tuple[int, ...] = ()) -> Cost:
    """Of one walk; `found` are values that an earlier one kept."""
    parts = _parts(row, walk, found)
    finish = 0
    for number in walk.reductions:
        instruction = row.program.instructions[number]
        dtype = row.program.instructions[instruction.operands[0]].dtype
        dtype = "int32" if dtype == "bool" else dtype
        finish += sum(CYCLES[arch][step, dtype][0] for step in _LANES[instruction.primitive])
    vector = _cycles(row, arch, parts.vector, parts.precision) + len(found) + MASK * len(walk.reductions)
    return Cost(max(vector, 1), _cycles(row, arch, parts.row, parts.precision) + finish)


@lru_cache(maxsize=4096)
def walk_bytes(row: RowProgram, walk: Walk) -> int:
    """An estimate of a walk's machine code, with what is done once for the row."""
    parts = _parts(row, walk, ())
    loop = program_bytes(row.program, "full", ())
    total = loop
    for number in (*parts.vector, *parts.row):
        total += program_bytes(row.program, parts.precision.get(number, "full"), (number,)) - loop
    return total


@lru_cache(maxsize=1024)
def costly_value(row: RowProgram) -> tuple[int, ...]:
    """The float value that costs most to compute again in a later walk, if that is much: one or none."""
    rough = rough_values(row)
    best, found = COSTLY - 1, tuple[int, ...]()
    seen: set[int] = set()
    for walk in walks(row):
        parts = _parts(row, walk, ())
        values = [number for number in parts.vector if number not in walk.reductions]
        for number in values:
            again = [n for n in emitter.needed(row.program, [number]) if n in values]
            cost = _cycles(row, "aie2", tuple(again), parts.precision)
            if number in seen and row.program.instructions[number].dtype == "float32" and cost > best:
                best, found = cost, (number,)
        # What was computed roughly, for this walk only, is not what a later one needs.
        roots = walk_roots(row.program, walk.reductions, walk.outputs)
        seen.update(number for number in values if number in rough or not rough.issuperset(roots))
    return found
