"""Kernels of element-wise and row-wise programs as LLVM IR.

A kernel is a function `void kernel(ptr pointers, ptr meta, i64 begin, i64 end)`. `pointers` is an array of
8-byte slots: addresses of the operands, or the bits of run-time scalars. `meta` is an array of int64: the
inner length, the outer sizes from the outermost on, and for every operand in order its offset, its outer
strides and its inner stride, all in elements (a number has these entries too; they are not read, but for the
first one, which holds the bits of a fixed number). A row is one run along the inner dimension.

Four forms, all of which can be split between threads by `begin` and `end`:

* map: no instruction reduces. Positions are elements in row-major order.
* tiles: a map some of whose operands are contiguous across rows rather than along them. Positions are square
  tiles of `map_kernel.TILE` rows and elements, in row-major order; `tile_count` gives their number.
* rows: positions are rows; the lanes of a vector are neighbours in the row. The row is walked once for each
  level of reductions that depend on one another, and once more to store values per element. The
  last outer dimensions may belong to the row, which then consists of several runs.
* columns: the same programs, for operands that are contiguous across rows rather than along them (a sum over
  the first axis). Positions are rows; each lane is a row of its own, so no reduction crosses lanes.
"""

from __future__ import annotations

from typing import Final

from npu_tensor.ops.analysis import reduces
from npu_tensor.ops.expression import Program
from npu_tensor.runtime.cpu.map_kernel import LoopSpec, MapKernel, TileKernel
from npu_tensor.runtime.cpu.primitive_ir import ELEMENTWISE
from npu_tensor.runtime.cpu.row_kernel import REDUCTIONS, SHORT_VECTORS, ColumnKernel, RowKernel
from npu_tensor.runtime.cpu.target import CpuTarget

_COMPILED: Final = frozenset((*ELEMENTWISE, *REDUCTIONS, "load", "scalar", "constant", "index"))


def refusal(program: Program) -> str | None:
    """Return the reason why a program has no compiled form, or None."""
    for primitive, _, dtype, _ in program.instructions:
        if primitive not in _COMPILED:
            return f"{primitive} has no compiled form"
        if primitive == "pow" and dtype != "float32":
            return f"{primitive} of {dtype} has no compiled form"
    return None


def length_class(program: Program, length: int, lanes: int, columns: bool = False) -> int | None:
    """Return the longest inner length that gives `loop_kernel` the same text as `length`; None if no length matters.

    Rows of a few vectors have code for their number of vectors, and for whether the last one is full, unless the lanes
    run across rows. For longer ones it matters whether they fit into scratch memory, which holds a power of two of
    elements.
    """
    if not any(map(reduces, program.instructions)):
        return None
    if columns:
        length = max(length, SHORT_VECTORS * lanes)
    elif length <= SHORT_VECTORS * lanes:
        full = max(1, -(-length // lanes)) * lanes
        return full if length == full else full - 1
    return 1 << (length - 1).bit_length()


def loop_kernel(spec: LoopSpec, target: CpuTarget) -> str:
    """Return the text of a module with the function `kernel`."""
    has_rows = any(map(reduces, spec.program.instructions))
    transposed = any(operand.access == "transposed" for operand in spec.operands)
    form = ColumnKernel if spec.columns else TileKernel if transposed else RowKernel if has_rows else MapKernel
    return form(spec, target).text()
