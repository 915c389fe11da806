"""Dtypes of tensor elements in the host buffers of a design."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from npu_tensor.dtypes import DType
from npu_tensor.kernels.offer import Float32, Target
from npu_tensor.task import Refusal, Task

EXACT: Final = {
    "float32": "float32 is exact on the CPU; float32=emulate or float32=bfloat16 leaves it to the NPU",
    "float16": "float16 is exact on the CPU; float32=emulate or float32=bfloat16 leaves it to the NPU as bfloat16",
}
"""Reason why a dtype is left to the CPU with float32=exact."""

_AS: Final[Mapping[Float32, Mapping[str, str]]] = {
    "exact": {"float16": "float32", "bool": "uint8"},
    "emulate": {"float16": "bfloat16", "bool": "uint8"},
    "bfloat16": {"float16": "bfloat16", "bool": "uint8", "float32": "bfloat16"},
}
# float32 results are not rounded. An int64 result is computed in int32 if it cannot overflow; the families check that.
_RESULT_AS: Final = {"float32": "float32", "int64": "int32"}


def rounding_refusal(family: str, dtype: DType, target: Target) -> Refusal | None:
    """Return the reason why a family that computes with bfloat16 may not round an operand to it, or None."""
    policies = {"bfloat16": (target.float32,), "float16": ("bfloat16", "emulate"), "float32": ("bfloat16",)}
    if dtype.name not in policies:
        return Refusal(f"{family}: no kernel for {dtype.name}")
    if target.float32 not in policies[dtype.name]:
        return Refusal(f"{family}: rounds {dtype.name} to bfloat16, the policy for float32 is {target.float32}")
    return None


def host_dtypes(task: Task, target: Target) -> tuple[str | None, ...] | Refusal:
    """Return the dtype of every tensor of a map or row task in its host buffer, inputs first; None for numbers.

    With float32=exact, float32 and float16 operands are stored as float32. They are accepted if all results are rounded
    to bfloat16, even if those are then widened. Such results are accepted if nothing is computed, as in a conversion
    from bfloat16, or if products of bfloat16 are summed, as in the matrix products of another family.
    """
    operands = [None if operand.dtype is None else operand.dtype.name for operand in task.inputs]
    results = [output.dtype.name for output in task.outputs]
    if target.float32 == "exact":
        reason = next((EXACT[name] for name in EXACT if name in (*operands, *results)), None)
        if reason is not None and not (is_rounded(task) or _only_moves(task) or _sums_products(task)):
            return Refusal(reason)
    elif _shows_rounding(task):
        return Refusal("float16 passes through bfloat16, which an integer or bool result would show")
    stored = _AS[target.float32]
    dtypes = [name and stored.get(name, name) for name in operands]
    dtypes += [_RESULT_AS.get(name) or stored.get(name, name) for name in results]
    for name in dtypes:
        if name in ("int64", "float64"):
            return Refusal(f"{name} has no kernel")
    return tuple(dtypes)


def _shows_rounding(task: Task) -> bool:
    """Return True if an integer or bool result depends on a float16 operand, which is rounded to bfloat16."""
    rounded: list[bool] = []
    for primitive, operands, _, slot in task.program.instructions:
        if primitive == "load":
            dtype = task.inputs[slot].dtype
            rounded.append(dtype is not None and dtype.name == "float16")
        else:
            rounded.append(any(rounded[operand] for operand in operands))
    outputs = zip(task.outputs, task.program.outputs, strict=True)
    return any(rounded[number] and not output.dtype.is_floating_point for output, number in outputs)


def is_rounded(task: Task) -> bool:
    """Return True if all results are rounded to bfloat16, even if some are then widened."""
    return all(
        output.dtype.name == "bfloat16"
        or (output.dtype.name in EXACT and task.program.instructions[number].primitive == "round_bfloat16")
        for output, number in zip(task.outputs, task.program.outputs, strict=True)
    )


def _only_moves(task: Task) -> bool:
    """Return True if the task computes nothing."""
    return all(step.primitive == "load" for step in task.program.instructions)


def _sums_products(task: Task) -> bool:
    """Return True for a matrix-vector product of operands whose products are exact in float32."""
    if any(i.dtype is not None and i.dtype.name in EXACT for i in task.inputs):
        return False
    return {step.primitive for step in task.program.instructions} == {"load", "mul", "row_sum"}
