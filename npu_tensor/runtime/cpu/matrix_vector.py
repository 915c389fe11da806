"""Products of a vector and a matrix, which the planner hands over as sums of rows, as matrix products of one row."""

from __future__ import annotations

from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Program
from npu_tensor.ops.primitives import PRIMITIVES
from npu_tensor.ops.rows import ROW_LENGTH_SLOT
from npu_tensor.spec import Spec
from npu_tensor.task import Task

__all__ = ["as_product"]


def as_product(task: Task) -> Task | None:
    """Return a row task that multiplies a matrix and a vector as a product of one row.

    None for other tasks, for dot products, and where more is computed of the elements than their product.
    """
    call, program = next((call for call in task.calls if call.op.kind == "matmul"), None), task.program
    if call is None or program is None or task.rows != 1:
        return None
    *batch, m, n, depth = task.shape
    if 1 not in (m, n) or m == n:
        return None
    factors = _factors(program)
    dtypes = {operand.dtype for operand in call.operands if isinstance(operand, Spec)}
    if factors is None or {task.inputs[slot].dtype for slot in factors} != dtypes:
        return None  # Operands that are converted on the way have another precision than the product.
    line, leading = len(batch) + (m == 1), slice(0, len(batch))  # the dimension of the matrix's lines, and the batch
    matrix, vector = sorted(factors, key=lambda slot: not _strides(task, slot)[line])
    epilogue, rest = _after(program)
    if (
        not _strides(task, matrix)[line]
        or _strides(task, vector)[line]
        or ROW_LENGTH_SLOT in rest
        or any(task.inputs[slot].layout and _strides(task, slot)[-1] for slot in rest)
    ):
        return None
    shape = (*batch, 1, m * n)

    def over_lines(layout: Layout | None) -> Layout | None:
        return layout and Layout(shape, (*layout.strides[leading], 0, layout.strides[line]), layout.offset)

    def factor(slot: int, extents: tuple[int, int], *axes: int | None) -> Layout:
        layout = task.inputs[slot].layout
        assert layout is not None
        strides = [0 if axis is None else layout.strides[axis] for axis in axes]
        return Layout((*batch, *extents), (*layout.strides[leading], *strides), layout.offset)

    return task._replace(
        kind="matmul",
        inputs=(
            task.inputs[vector]._replace(layout=factor(vector, (1, depth), None, -1)),
            task.inputs[matrix]._replace(layout=factor(matrix, (depth, m * n), -1, line)),
            *(task.inputs[slot]._replace(layout=over_lines(task.inputs[slot].layout)) for slot in rest),
        ),
        outputs=tuple(output._replace(layout=over_lines(output.layout) or output.layout) for output in task.outputs),
        shape=shape,
        rows=0,
        program=epilogue,
        call=call,
    )


def _strides(task: Task, slot: int) -> tuple[int, ...]:
    layout = task.inputs[slot].layout
    return () if layout is None else layout.strides


def _factors(program: Program) -> tuple[int, ...] | None:
    """Return the inputs whose products the only reduction sums."""
    instructions = program.instructions
    reductions = [step for step in instructions if PRIMITIVES[step.primitive].reduces]
    if [step.primitive for step in reductions] != ["row_sum"]:
        return None
    product = instructions[reductions[0].operands[0]]
    loads = [instructions[operand] for operand in product.operands]
    loads = [instructions[step.operands[0]] if step.primitive == "cast" else step for step in loads]
    if product.primitive != "mul" or any(step.primitive != "load" for step in loads):
        return None
    return tuple(step.value for step in loads)


def _after(program: Program) -> tuple[Program, list[int]]:
    """Return the program after the sum, which is in slot 0, and its other inputs, from slot 1 on."""
    instructions = program.instructions
    needed, todo = set[int](), list(program.outputs)
    while todo:
        number = todo.pop()
        needed.add(number)
        if not PRIMITIVES[instructions[number].primitive].reduces:
            todo += instructions[number].operands
    slots = dict.fromkeys(instructions[n].value for n in needed if instructions[n].primitive in ("load", "scalar"))
    rest, kept = sorted(slots), sorted(needed)
    position = {number: index for index, number in enumerate(kept)}
    steps = []
    for number in kept:
        step = instructions[number]
        if PRIMITIVES[step.primitive].reduces:
            step = step._replace(primitive="load", operands=(), value=0)
        elif step.primitive in ("load", "scalar"):
            step = step._replace(value=1 + rest.index(step.value))
        else:
            step = step._replace(operands=tuple(position[operand] for operand in step.operands))
        steps.append(step)
    return Program(tuple(steps), tuple(position[number] for number in program.outputs)), rest
