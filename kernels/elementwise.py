"""The element-wise kernel family: fused chains of element-wise ops over operands of any broadcast and stride."""

from __future__ import annotations

from functools import partial
from typing import Final, Literal

from npu_tensor.dtypes import DType, float16, float32
from npu_tensor.kernels import emitter
from npu_tensor.kernels.elementwise_design import cost, design
from npu_tensor.kernels.elementwise_plan import Operand, Plan, collapse, plan
from npu_tensor.kernels.elementwise_source import Formula
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.ops.expression import Program
from npu_tensor.task import Refusal, Task

__all__ = ["claim"]

EXACT: Final = "float32 is exact on the CPU; float32=emulate or float32=bfloat16 computes it here"


def claim(task: Task, target: Target) -> Offer | Refusal:
    """A design for a map task, or why there is none."""
    if task.kind != "map" or task.program is None:
        return Refusal(f"a {task.kind} task is not element-wise")
    reason = _unstorable(task, target) or _unusable_number(task) or emitter.refusal(task.program)
    if reason is not None:
        return Refusal(reason)
    tensors = [number for number, operand in enumerate(task.inputs) if operand.layout is not None]
    numbers = [number for number, operand in enumerate(task.inputs) if operand.layout is None]
    layouts = [layout for operand in task.inputs if (layout := operand.layout) is not None]
    shape, strides = collapse(task.shape, [*layouts, *(output.layout for output in task.outputs)])
    inputs = tuple(
        Operand(number, _stored(task.inputs[number].dtype, target), steps, layout.offset)
        for number, layout, steps in zip(tensors, layouts, strides, strict=False)
    )
    outputs = tuple(
        Operand(number, _stored(output.dtype), steps, output.layout.offset)
        for number, (output, steps) in enumerate(zip(task.outputs, strides[len(tensors) :], strict=True))
    )
    lanes = emitter.lanes(task.program)
    tiling = plan(shape, inputs, outputs, lanes, target.columns)
    if isinstance(tiling, str):
        return Refusal(tiling)
    slots = tuple(
        tensors.index(number) if operand.layout is not None else ~numbers.index(number)
        for number, operand in enumerate(task.inputs)
    )
    formula = Formula(task.name, task.program, slots, lanes, _precision(task, target))
    return Offer(
        "elementwise",
        _reason(task, tiling),
        partial(design, target.array.arch, tiling, formula, cost(tiling, formula, target.array.arch)),
        tiling.host_operands(),
        tuple((number, _word_type(task.program, number)) for number in numbers),
    )


def _stored(dtype: DType | None, target: Target | None = None) -> str:
    """The dtype in a host buffer. Operands of float32 may be rounded, results stay as they are computed."""
    assert dtype is not None
    if dtype is float32 and (target is None or target.float32 == "emulate"):
        return "float32"
    return {"float32": "bfloat16", "float16": "bfloat16", "bool": "uint8"}.get(dtype.name, dtype.name)


def _dtypes(task: Task) -> list[DType]:
    """Of all tensors."""
    inputs = [operand.dtype for operand in task.inputs if operand.dtype is not None]
    return [*inputs, *(output.dtype for output in task.outputs)]


def _unstorable(task: Task, target: Target) -> str | None:
    for dtype in _dtypes(task):
        if dtype is float32 and target.float32 == "exact":
            return EXACT
        if dtype.itemsize == 8:
            return f"{dtype.name} has no kernel"
    return None


def _word_type(program: Program, slot: int) -> Literal["int32", "float32"]:
    """How a number is passed: as the bits of a float unless the program reads it as an integer."""
    read = {step.dtype for step in program.instructions if step.primitive == "scalar" and step.value == slot}
    return "int32" if read and read != {"float32"} else "float32"


def _unusable_number(task: Task) -> str | None:
    assert task.program is not None
    for slot, operand in enumerate(task.inputs):
        read = {s.dtype for s in task.program.instructions if s.primitive == "scalar" and s.value == slot}
        if operand.layout is None and len(read) > 1 and "float32" in read:
            return "a number that is used as a float and as an integer"
    return None


def _precision(task: Task, target: Target) -> emitter.Precision:
    """Half unless a float32 result is asked for that is more exact than its operands."""
    exact = target.float32 == "emulate" and any(output.dtype is float32 for output in task.outputs)
    return "full" if exact else "half"


def _reason(task: Task, tiling: Plan) -> str:
    """For `explain`: cores and tiles, which operands stay in the cores, what the host converts or copies."""
    cores = tiling.cores * len(tiling.rounds)
    parts = [f"{cores} {'core' if cores == 1 else 'cores'}, tiles of {tiling.tile} elements"]
    names = {position: f"input {operand.number}" for position, operand in enumerate(tiling.inputs)}
    if tiling.kept:
        parts.append(f"{' and '.join(names[position] for position in tiling.kept)} kept in the cores")
    spread = [names[position] for position in tiling.spread]
    if spread:
        parts.append(f"the host lays {' and '.join(spread)} out over the shape")
    if tiling.pitch != tiling.shape[-1]:
        parts.append(f"the host pads rows of {tiling.shape[-1]} to {tiling.pitch}")
    if float16 in _dtypes(task):
        parts.append("float16 passes through bfloat16")
    if any(task.inputs[operand.number].dtype is float32 and operand.dtype == "bfloat16" for operand in tiling.inputs):
        parts.append("float32 operands are rounded to bfloat16")
    return "; ".join(parts)
