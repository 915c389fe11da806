"""Products with one row or one column as sums over rows, for kernels that stream rows."""

from __future__ import annotations

from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Instruction, Program, ProgramBuilder
from npu_tensor.task import Task, TensorInput


def is_vector_product(task: Task) -> bool:
    """Return True for a matrix product one of whose operands is a vector. It has no prologues."""
    return task.kind == "matmul" and 1 in task.shape[-2:]


def as_sum_over_rows(task: Task) -> Task:
    """Return a product of (..., M, K) and (..., K, N) as a row task over (..., M, N, K)."""
    shape = (*task.shape, task.depth)
    left, right = task.tensors[:2]
    *batch_a, row, inner_a = left.layout.strides
    *batch_b, inner_b, column = right.layout.strides

    def per_row(layout: Layout) -> Layout:
        return Layout(shape, (*layout.strides, 0), layout.offset)

    inputs = (
        left._replace(layout=Layout(shape, (*batch_a, row, 0, inner_a), left.layout.offset)),
        right._replace(layout=Layout(shape, (*batch_b, 0, column, inner_b), right.layout.offset)),
        *(
            source if source.layout is None else source._replace(layout=per_row(source.layout))
            for source in task.inputs[2:]
        ),
    )
    return task._replace(
        kind="row",
        inputs=inputs,
        outputs=tuple(output._replace(layout=per_row(output.layout)) for output in task.outputs),
        shape=shape,
        rows=1,
        program=_with_sum(task, left, right),
        call=None,
    )


def _with_sum(task: Task, left: TensorInput, right: TensorInput) -> Program:
    """Return the epilogue with the sum of products in place of its slot 0, and its other slots after A and B."""
    assert task.call is not None
    register = str(task.call.registers[0])
    builder = ProgramBuilder()
    a = builder.load(0, left.dtype.register).astype(register)
    b = builder.load(1, right.dtype.register).astype(register)
    products = builder.emit("mul", (a, b))
    sums = builder.program([builder.emit("row_sum", (products,))])
    instructions: list[Instruction] = list(sums.instructions)
    place: list[int] = []
    for step in task.program.instructions:
        if step.primitive == "load" and step.value == 0:
            place.append(sums.outputs[0])
            continue
        value = step.value + 1 if step.primitive in ("load", "scalar") else step.value
        place.append(len(instructions))
        operands = tuple(place[operand] for operand in step.operands)
        instructions.append(step._replace(operands=operands, value=value))
    return Program(tuple(instructions), tuple(place[output] for output in task.program.outputs))
