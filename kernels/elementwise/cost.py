"""Predicted cycles and machine code of the function that computes a tile."""

from __future__ import annotations

from typing import Final, NamedTuple

from npu_tensor.dataflow.array import Arch
from npu_tensor.kernels.codegen import cycles, emitter
from npu_tensor.kernels.elementwise.source import Formula, short_loads
from npu_tensor.kernels.elementwise.tiling import ElementwisePlan
from npu_tensor.ops.analysis import precisions

__all__ = ["PROGRAM_BYTES", "CallCost", "cost"]

PROGRAM_BYTES: Final = 12 * 1024
"""For the function, of 16 KiB: the rest is for those that keep operands and for the loops around the calls."""

LOOP_CYCLES: Final = 20
"""To start and end a loop over vectors: filling and emptying its pipeline. An assumption."""


class CallCost(NamedTuple):
    """Predicted cycles of one call, estimated bytes of machine code."""

    cycles: int
    program_bytes: int


def cost(plan: ElementwisePlan, formula: Formula, arch: Arch) -> CallCost:
    """Of the function for a tile: one step per vector, a loop per row if there are column operands."""
    program, order = formula.program, range(len(formula.program.instructions))
    short = short_loads(plan, formula)
    precision_of = precisions(program, order, formula.precision, short)
    forms = emitter.cheaper(program, order, precision_of, short)
    step = size = 0
    for precision in ("half", "full"):
        numbers = [number for number in order if precision_of[number] == precision]
        step += cycles.cycles(program, arch, formula.lanes, precision, numbers, forms)
        size += cycles.program_bytes(program, precision, numbers, forms)
    loops = plan.tile // plan.width if plan.columns else 1
    return CallCost(plan.tile // formula.lanes * step + loops * LOOP_CYCLES, size)
