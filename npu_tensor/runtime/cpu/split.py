"""Reductions of few, long rows: the rows are cut into parts that run in parallel, whose results are reduced again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from npu_tensor.dtypes import as_dtype
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Instruction, Program, as_parameter
from npu_tensor.ops.primitives import PRIMITIVES
from npu_tensor.ops.rows import ROW_LENGTH_SLOT
from npu_tensor.runtime.cpu.collapse import collapse
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Input, Output, Task, TensorInput

# With this many rows or more, the rows themselves keep all cores busy; shorter ones are not worth a second loop.
FEW_ROWS = 8
LONG_ROW = 64 << 10
MOST_PARTS = 64
LEAST_PARTS = 4

_SPLITTABLE = frozenset({"row_sum", "row_prod", "row_max", "row_min"})


def split_rows(task: Task, inputs: Sequence[Input]) -> tuple[Task, Task] | None:
    """Return two tasks that together do the same as `task`: rows to partial results, and these to the outputs.

    Return None unless the task is a single reduction of few long rows, which divide evenly, to one element per row.
    Neighbouring dimensions with one step in all inputs are joined first, and the longest dimension is divided. `inputs`
    replace those of the task.
    """
    program = task.program
    cut = len(task.shape) - task.rows
    outer, length = task.shape[:cut], math.prod(task.shape[cut:])
    reductions = [n for n, i in enumerate(program.instructions) if PRIMITIVES[i.primitive].reduces]
    if not 0 < math.prod(outer) < FEW_ROWS or length < LONG_ROW or len(reductions) != 1:
        return None
    divided = _divided(task, inputs)
    if divided is None:
        return None
    (reduction,) = reductions
    program = _with_constant_length(program, length)
    finish = _after(program, reduction, len(inputs))
    per_row = all(not any(output.layout.strides[cut:]) for output in task.outputs)
    if finish is None or not per_row or program.instructions[reduction].primitive not in _SPLITTABLE:
        return None
    part_shape, operands = divided
    partial_shape = part_shape[: cut + 1]
    item = 1 + max([source.item for source in inputs] + [output.item for output in task.outputs])
    dtype = as_dtype(program.instructions[reduction].dtype)
    nbytes = math.prod(partial_shape) * dtype.itemsize
    strides = contiguous_strides(partial_shape)
    first = Task(
        "row",
        task.items,
        task.ops,
        operands,
        (Output(item, dtype, Layout(part_shape, (*strides, *(0 for _ in part_shape[cut + 1 :]))), nbytes),),
        part_shape,
        len(part_shape) - len(partial_shape),
        Program(program.instructions[: reduction + 1], (reduction,)),
    )
    numbers = [
        source if source.layout is None else source._replace(layout=Layout(partial_shape, (0,) * len(partial_shape)))
        for source in inputs
    ]
    second = Task(
        "row",
        task.items,
        task.ops,
        (*numbers, TensorInput(item, dtype, Layout(partial_shape, strides))),
        tuple(o._replace(layout=Layout(partial_shape, (*o.layout.strides[:cut], 0))) for o in task.outputs),
        partial_shape,
        1,
        finish,
    )
    return first, second


def _with_constant_length(program: Program, length: int) -> Program:
    """Replace the row length by a number, because the parts have another length."""
    return program._replace(
        instructions=tuple(
            Instruction("constant", (), i.dtype, as_parameter(float(length) if i.dtype.startswith("float") else length))
            if i.primitive == "scalar" and i.value == ROW_LENGTH_SLOT
            else i
            for i in program.instructions
        )
    )


def _after(program: Program, reduction: int, slot: int) -> Program | None:
    """Return the reduction of partial results in `slot` and all ops after it; None if they read elements of the row."""
    instructions = [Instruction("load", (), program.instructions[reduction].dtype, slot)]
    position: dict[int, int] = {}
    for number, instruction in enumerate(program.instructions):
        if number == reduction:
            instruction = instruction._replace(operands=(0,))
        elif instruction.primitive in ("constant", "scalar"):
            pass
        elif instruction.operands and all(operand in position for operand in instruction.operands):
            instruction = instruction._replace(operands=tuple(position[o] for o in instruction.operands))
        else:
            continue
        position[number] = len(instructions)
        instructions.append(instruction)
    if not all(output in position for output in program.outputs):
        return None
    return Program(tuple(instructions), tuple(position[output] for output in program.outputs))


def _divided(task: Task, inputs: Sequence[Input]) -> tuple[tuple[int, ...], tuple[Input, ...]] | None:
    """Return the shape (..., parts, dimensions of the row within a part), and the inputs over it.

    None if the longest dimension of a row cannot be divided.
    """
    cut = len(task.shape) - task.rows
    layouts = [source.layout for source in inputs if source.layout is not None]
    rows = tuple([Layout(task.shape[cut:], layout.strides[cut:]) for layout in layouts])
    row = collapse(task.shape[cut:], rows, task.rows)
    extents = [*row.outer, row.inner]
    axis = extents.index(max(extents))
    parts = next((parts for parts in range(MOST_PARTS, LEAST_PARTS - 1, -1) if extents[axis] % parts == 0), None)
    if parts is None:
        return None
    extents[axis] //= parts
    shape = (*task.shape[:cut], parts, *extents)
    over = []
    for layout, outer, inner in zip(layouts, row.outer_strides, row.inner_strides, strict=True):
        within = (*outer, inner)
        strides = (*layout.strides[:cut], within[axis] * extents[axis], *within)
        over.append(Layout(shape, strides, layout.offset))
    divided = iter(over)
    return shape, tuple(source if source.layout is None else source._replace(layout=next(divided)) for source in inputs)
