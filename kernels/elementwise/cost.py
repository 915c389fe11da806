"""Predicted cycles and machine code of the function that computes a tile."""

from __future__ import annotations

from typing import Final, NamedTuple

from npu_tensor.dataflow.array import STREAM_BYTES_PER_CYCLE, Arch
from npu_tensor.dataflow.cost import CALL_CYCLES, LOCK_CYCLES
from npu_tensor.dtypes import as_dtype
from npu_tensor.kernels.codegen import cycles as tables
from npu_tensor.kernels.codegen import emitter
from npu_tensor.kernels.elementwise.source import Formula, short_loads
from npu_tensor.kernels.elementwise.tiling import ElementwisePlan
from npu_tensor.ops.analysis import precisions

__all__ = ["PROGRAM_BYTES", "CallCost", "cost", "cycles"]

PROGRAM_BYTES: Final = 12 * 1024
"""Program memory for the tile function, in bytes, out of 16 KiB. The rest is for the functions that keep operands and
for the loops around the calls.
"""

LOOP_CYCLES: Final = 20
"""Cycles to start and end a loop over vectors, that is to fill and empty its pipeline. An assumption."""


TIE: Final = 0.01


class CallCost(NamedTuple):
    """Predicted cycles of one call, and estimated bytes of machine code."""

    cycles: int
    program_bytes: int


def cost(plan: ElementwisePlan, formula: Formula, arch: Arch) -> CallCost:
    """Compute the cost of the tile function: one step per vector, and a loop per row if there are column operands."""
    program, order = formula.program, range(len(formula.program.instructions))
    short, tile = short_loads(plan.form, formula), plan.form.tile
    precision_of = precisions(program, order, formula.precision, short)
    forms = emitter.cheaper(program, order, precision_of, short)
    step = size = 0
    for precision in ("half", "full"):
        numbers = [number for number in order if precision_of[number] == precision]
        step += tables.cycles(program, arch, formula.lanes, precision, numbers, forms)
        size += tables.program_bytes(program, precision, numbers, forms)
    loops = -(-tile // plan.width) if plan.form.columns else 1
    return CallCost(tile // formula.lanes * step + loops * LOOP_CYCLES, size)


def cycles(plan: ElementwisePlan, call: CallCost) -> float:
    """Predict the cycles of the busiest column: the maximum of its computation and its widest stream.

    The smaller of both counts with a small weight to break ties.
    """
    form, rounds = plan.form, max(plan.rounds)
    ends = len(form.channels) + len(form.outputs)
    widest = max(as_dtype(dtype).itemsize for dtype in (*form.inputs, *form.outputs)) * max(map(len, form.channels))
    stream = form.cores * form.tile * widest / STREAM_BYTES_PER_CYCLE
    compute = call.cycles + CALL_CYCLES + 2 * ends * LOCK_CYCLES
    return rounds * (max(compute, stream) + TIE * (compute + stream))
