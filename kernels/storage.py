"""What the elements of tensors become in the host buffers of a design."""

from __future__ import annotations

from typing import Final

from npu_tensor.kernels.offer import Target
from npu_tensor.task import Refusal, Task

__all__ = ["EXACT", "host_dtypes"]

EXACT: Final = "float32 is exact on the CPU; float32=emulate or float32=bfloat16 computes it here"

# A result of int64 is computed in int32 where it cannot overflow; that is for the families to see to.
_AS: Final = {"float16": "bfloat16", "bool": "uint8"}
_RESULT_AS: Final = {**_AS, "int64": "int32"}


def host_dtypes(task: Task, target: Target) -> tuple[str | None, ...] | Refusal:
    """The dtype of every tensor of a map or row task in its host buffer, inputs first; None for numbers.

    With float32=exact a float32 operand is taken, as it is, where all results are rounded to bfloat16, also if they are
    then widened, and a float32 result where nothing is computed, as in a conversion from bfloat16, or where products of
    bfloat16 are summed, as in the matrix products of another family.
    """
    results = [output.dtype for output in task.outputs]
    operands = {operand.dtype.name for operand in task.inputs if operand.dtype is not None}
    if _shows_rounding(task):
        return Refusal("float16 passes through bfloat16, which an integer or bool result would show")
    has_float32 = "float32" in operands | {dtype.name for dtype in results}
    takes = target.float32 != "exact" or _is_rounded(task) or _only_moves(task) or _sums_products(task)
    if has_float32 and not takes:
        return Refusal(EXACT)
    found: list[str | None] = []
    for operand in task.inputs:
        if operand.dtype is None:
            found.append(None)
        elif operand.dtype.name == "float32" and target.float32 == "bfloat16":
            found.append("bfloat16")
        else:
            found.append(_AS.get(operand.dtype.name, operand.dtype.name))
    found += [_RESULT_AS.get(dtype.name, dtype.name) for dtype in results]
    for name in found:
        if name in ("int64", "float64"):
            return Refusal(f"{name} has no kernel")
    return tuple(found)


def _shows_rounding(task: Task) -> bool:
    """Whether an integer or bool result follows from a float16 operand, which loses three bits in a host buffer."""
    assert task.program is not None
    rounded: list[bool] = []
    for primitive, operands, _, slot in task.program.instructions:
        if primitive == "load":
            dtype = task.inputs[slot].dtype
            rounded.append(dtype is not None and dtype.name == "float16")
        else:
            rounded.append(any(rounded[operand] for operand in operands))
    outputs = zip(task.outputs, task.program.outputs, strict=True)
    return any(rounded[number] and not output.dtype.is_floating_point for output, number in outputs)


def _is_rounded(task: Task) -> bool:
    assert task.program is not None
    return all(
        output.dtype.name in ("bfloat16", "float16")
        or (output.dtype.name == "float32" and task.program.instructions[number].primitive == "round_bfloat16")
        for output, number in zip(task.outputs, task.program.outputs, strict=True)
    )


def _only_moves(task: Task) -> bool:
    """Whether nothing is computed, and no operand is rounded on its way into a host buffer."""
    assert task.program is not None
    rounded = any(operand.dtype is not None and operand.dtype.name == "float16" for operand in task.inputs)
    return not rounded and all(step.primitive == "load" for step in task.program.instructions)


def _sums_products(task: Task) -> bool:
    """Whether it is the product of a matrix and a vector of operands whose products float32 holds exactly."""
    assert task.program is not None
    if any(i.dtype is not None and i.dtype.name in ("float32", "float16") for i in task.inputs):
        return False
    return {step.primitive for step in task.program.instructions} == {"load", "mul", "row_sum"}
