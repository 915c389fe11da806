"""Row-wise kernel family: any program that reduces rows, and element-wise ops before, between and after.

Examples are softmax with scale and mask, norms with weights, sums, arg-max and products of a matrix and a vector.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final

from npu_tensor.dataflow.checks.limits import HOST_BUFFERS
from npu_tensor.kernels.codegen import emitter
from npu_tensor.kernels.codegen.cycles import has_code
from npu_tensor.kernels.codegen.storage import host_dtypes
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.kernels.rowwise.cost import code_bytes
from npu_tensor.kernels.rowwise.design import design
from npu_tensor.kernels.rowwise.program import Access, RowOperand, RowProgram, narrow, varying
from npu_tensor.kernels.rowwise.row_layout import RowLayout, row_layout
from npu_tensor.kernels.rowwise.tiling import FUNCTION_BYTES, RowTask, plan_rows
from npu_tensor.kernels.vector_product import as_sum_over_rows, is_vector_product
from npu_tensor.ops.analysis import reduces
from npu_tensor.ops.expression import Program
from npu_tensor.task import Refusal, Task

__all__ = ["claim"]

WASTE: Final = 4
"""Maximum ratio by which padding may lengthen a row of SMALL elements or more."""

SMALL: Final = 256
"""Elements of a small row, which does not keep the array busy anyway."""


def claim(task: Task, target: Target) -> Offer | Refusal:
    """Return a design for a row task or a product with a vector, or the reason why there is none."""
    if is_vector_product(task):
        task = as_sum_over_rows(task)
    if task.kind != "row":
        return Refusal(f"{task.kind} tasks have no rows")
    cut = len(task.shape) - task.rows
    rows, length = math.prod(task.shape[:cut]), math.prod(task.shape[cut:])
    if not rows * length:
        return Refusal("no elements to compute")
    program = narrow(task.program, length)
    if isinstance(program, str):
        return Refusal(program)
    stored = host_dtypes(task, target)
    if isinstance(stored, Refusal):
        return stored
    why_not = _unable(program)
    if why_not is not None:
        return Refusal(why_not)
    dtypes = [name or emitter.word_dtype(program, number) for number, name in enumerate(stored)]
    layouts = tuple(None if i.layout is None else row_layout(i.layout, task.rows) for i in task.inputs)
    results = tuple(row_layout(output.layout, task.rows) for output in task.outputs)
    access = _input_access(layouts)
    inputs = tuple(RowOperand(kind, str(dtype)) for kind, dtype in zip(access, dtypes, strict=False))
    row = RowProgram(program, inputs, ())
    varies = varying(row)
    for number, layout, dtype in zip(program.outputs, results, dtypes[len(inputs) :], strict=True):
        if varies[number] and layout.inside.repeats and length > 1:
            return Refusal("an output has one element per row, and its value differs along the row")
        kind: Access = "full" if varies[number] or not layout.inside.repeats else "row"
        row = row._replace(outputs=(*row.outputs, RowOperand(kind, str(dtype))))
    return _offer(RowTask(task.name, row, layouts, results, rows, length), target)


def _offer(task: RowTask, target: Target) -> Offer | Refusal:
    row = task.row
    streams = len(row.streams)
    tensors = len(row.inputs) - len(row.numbers)
    if not tensors:
        return Refusal("no tensor to stream: the host computes it faster")
    if streams > 2 or len(row.outputs) > 2:
        counts = f"{streams} inputs and {len(row.outputs)} outputs that differ from row to row"
        return Refusal(f"{counts}; a core has two channels for each")
    if tensors + len(row.outputs) > HOST_BUFFERS:
        return Refusal(f"{tensors} inputs and {len(row.outputs)} outputs; a design has {HOST_BUFFERS} host buffers")
    pitch = _pitch(task)
    longest = WASTE * max(task.length, SMALL)
    plans = plan_rows(task, pitch, target.array, target.columns)
    plan = next((plan for plan in plans if plan.pitch <= longest), None)
    if plan is None:
        return Refusal(_obstacle(row, task.length, pitch, longest))
    scalars = tuple((slot, emitter.word_dtype(row.program, slot) or "float32") for slot in row.numbers)
    return Offer("rowwise", plan.reason(), partial(design, plan, target.array.arch), plan.operands(), scalars)


def _obstacle(row: RowProgram, length: int, pitch: int, longest: int) -> str:
    """Explain why there is no plan."""
    code = code_bytes(row)
    if code > FUNCTION_BYTES:
        return f"about {code} bytes of machine code, and a core has {FUNCTION_BYTES} for it"
    if pitch > longest:
        return f"rows of {length} elements that would have to be padded to {pitch}"
    return f"rows of {length} elements, all operands and about {code} bytes of machine code do not fit into a core"


def _unable(program: Program) -> str | None:
    """Return the operation that a core cannot compute, or None."""
    inputs = []
    for number, instruction in enumerate(program.instructions):
        if reduces(instruction):
            operand = program.instructions[instruction.operands[0]].dtype
            summed = "int32" if operand == "bool" and instruction.dtype != "bool" else operand
            if not has_code(instruction.primitive, summed):
                return f"{instruction.primitive} of {operand} is left to the CPU"
        if reduces(instruction) or instruction.primitive in ("load", "scalar", "index"):
            inputs.append(number)
    if any(
        i.primitive == "scalar" and i.value >= 0 and not emitter.word_dtype(program, i.value)
        for i in program.instructions
    ):
        return "a number is used as a float and as an integer"
    reason = emitter.refusal(program, inputs, range(len(program.instructions)))
    return reason and f"{reason} is left to the CPU"


def _input_access(layouts: tuple[RowLayout | None, ...]) -> list[Access]:
    """Return how the inputs vary along rows and from row to row. At least one is streamed."""
    access: list[Access] = []
    for layout in layouts:
        if layout is None:
            access.append("number")
        elif layout.inside.repeats:
            access.append("row")
        else:
            access.append("same" if layout.rows.repeats else "full")
    if "full" not in access and "same" in access:
        access[access.index("same")] = "full"
    return access


def _pitch(task: RowTask) -> int:
    """Return the elements from one row to the next in all host buffers of rows that are whole in a core."""
    multiple = task.row.lanes
    operands = (*task.row.inputs, *task.row.outputs)
    for operand, layout in zip(operands, (*task.layouts, *task.outputs), strict=True):
        if layout is not None and operand.access != "row":
            multiple = math.lcm(multiple, operand.vector, layout.inner)
    return -(-task.length // multiple) * multiple
