"""What the elements of tensors become in the host buffers of a design."""

from __future__ import annotations

from typing import Final

from npu_tensor.dtypes import DType
from npu_tensor.kernels.offer import Target
from npu_tensor.task import Refusal, Task

__all__ = ["EXACT", "host_dtypes"]

EXACT: Final = "float32 is exact on the CPU; float32=emulate or float32=bfloat16 computes it here"

# A result of int64 is computed in int32 where it cannot overflow; that is for the families to see to.
_AS: Final = {"float16": "bfloat16", "bool": "uint8"}
_RESULT_AS: Final = {**_AS, "int64": "int32"}


def host_dtypes(task: Task, target: Target) -> tuple[str | None, ...] | Refusal:
    """The dtype of every tensor of a map or row task in its host buffer, inputs first; None for numbers.

    With float32=exact a float32 operand is taken, as it is, where all results are rounded to bfloat16, and a float32
    result where nothing is computed, as in a conversion from bfloat16, or where products of bfloat16 are summed, as in
    the matrix products of another family.
    """
    results = [output.dtype for output in task.outputs]
    exact = target.float32 == "exact"
    if exact and not (_is_rounded(results) or _only_moves(task) or _sums_products(task)):
        tensors = [*results, *(operand.dtype for operand in task.inputs)]
        if any(dtype is not None and dtype.name == "float32" for dtype in tensors):
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


def _is_rounded(results: list[DType]) -> bool:
    return all(dtype.name in ("bfloat16", "float16") for dtype in results)


def _only_moves(task: Task) -> bool:
    return task.program is not None and all(step.primitive == "load" for step in task.program.instructions)


def _sums_products(task: Task) -> bool:
    """Whether it is the product of a matrix and a vector of operands whose products float32 holds exactly."""
    if task.program is None or any(i.dtype is not None and i.dtype.name == "float32" for i in task.inputs):
        return False
    return {step.primitive for step in task.program.instructions} == {"load", "mul", "row_sum"}
