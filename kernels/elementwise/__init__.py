"""Element-wise kernel family: fused chains of element-wise ops over operands of any broadcast and stride."""

from __future__ import annotations

from functools import partial

from npu_tensor.dtypes import float16, float32
from npu_tensor.kernels.codegen import emitter
from npu_tensor.kernels.codegen.storage import host_dtypes, is_rounded
from npu_tensor.kernels.elementwise.design import PROGRAM_BYTES, cost, cycles, design
from npu_tensor.kernels.elementwise.source import Formula
from npu_tensor.kernels.elementwise.tiling import ElementwisePlan, StridedOperand, collapse, plans
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.ops.analysis import Precision
from npu_tensor.task import Refusal, Task

__all__ = ["claim"]


def claim(task: Task, target: Target) -> Offer | Refusal:
    """Return a design for a map task, or the reason why there is none."""
    stored = host_dtypes(task, target)
    if isinstance(stored, Refusal):
        return stored
    reason = emitter.refusal(task.program)
    if reason is not None:
        return Refusal(reason)
    tensors = [number for number, operand in enumerate(task.inputs) if operand.layout is not None]
    numbers = [number for number, operand in enumerate(task.inputs) if operand.layout is None]
    words = [(number, emitter.word_dtype(task.program, number)) for number in numbers]
    if any(dtype is None for _, dtype in words):
        return Refusal("a number that is used as a float and as an integer")
    layouts = [layout for operand in task.inputs if (layout := operand.layout) is not None]
    shape, strides = collapse(task.shape, [*layouts, *(output.layout for output in task.outputs)])
    inputs = tuple(
        StridedOperand(number, str(stored[number]), steps, layout.offset)
        for number, layout, steps in zip(tensors, layouts, strides, strict=False)
    )
    outputs = tuple(
        StridedOperand(number, str(stored[len(task.inputs) + number]), steps, output.layout.offset)
        for number, (output, steps) in enumerate(zip(task.outputs, strides[len(tensors) :], strict=True))
    )
    lanes = emitter.lanes(task.program)
    tilings = plans(shape, inputs, outputs, lanes, target.array, target.columns)
    if isinstance(tilings, str):
        return Refusal(tilings)
    slots = tuple(
        tensors.index(number) if operand.layout is not None else ~numbers.index(number)
        for number, operand in enumerate(task.inputs)
    )
    arch, is_approximate = target.array.arch, _is_approximate(task, target)
    approximate = arch if is_approximate else None
    formula = Formula(task.name, task.program, slots, lanes, _precision(task, target), approximate)
    tiling, predicted = min(((each, cost(each, formula, arch)) for each in tilings), key=lambda pair: cycles(*pair))
    if predicted.program_bytes > PROGRAM_BYTES:
        return Refusal(f"about {predicted.program_bytes} bytes of machine code, and a core has {PROGRAM_BYTES} for it")
    return Offer(
        "elementwise",
        _reason(task, tiling) + "; approximate functions" * is_approximate,
        partial(design, arch, tiling, formula, predicted),
        tiling.host_operands(),
        tuple((number, dtype) for number, dtype in words if dtype),
        coarse=is_approximate,
    )


def _precision(task: Task, target: Target) -> Precision:
    """Return half precision unless a float32 result must be more exact than its operands."""
    exact = target.float32 == "emulate" and any(output.dtype is float32 for output in task.outputs)
    return "full" if exact else "half"


def _is_approximate(task: Task, target: Target) -> bool:
    """Return True if functions may be approximate, and the program has some for the array."""
    order = range(len(task.program.instructions))
    return (
        target.functions == "approximate"
        and is_rounded(task)
        and bool(emitter.approximate_forms(task.program, order, target.array.arch))
    )


def _reason(task: Task, tiling: ElementwisePlan) -> str:
    """Describe the tiling for `explain`: cores, tiles, resident operands, and conversions or copies on the host."""
    form = tiling.form
    cores = form.cores * form.array_columns
    parts = [f"{cores} {'core' if cores == 1 else 'cores'}, tiles of {form.tile} elements"]
    names = [f"input {operand.number}" for operand in tiling.inputs]
    if form.resident:
        parts.append(f"{' and '.join(names[slot] for slot in form.resident)} kept in the cores")
    alternating = [" and ".join(names[slot] for slot in channel) for channel in form.channels if channel[1:]]
    parts += [f"{operands} alternate on one channel" for operands in alternating]
    if tiling.expanded:
        parts.append(f"the host lays {' and '.join(names[slot] for slot in tiling.expanded)} out over the shape")
    if tiling.pitch != tiling.shape[-1]:
        parts.append(f"the host pads rows of {tiling.shape[-1]} to {tiling.pitch}")
    rounded = [task.inputs[operand.number].dtype for operand in tiling.inputs if operand.dtype == "bfloat16"]
    rounded += [task.outputs[operand.number].dtype for operand in tiling.outputs if operand.dtype == "bfloat16"]
    if float16 in rounded:
        parts.append("float16 passes through bfloat16")
    if float32 in rounded:
        parts.append("float32 operands are rounded to bfloat16")
    return "; ".join(parts)
