"""The element-wise kernel family: fused chains of element-wise ops over operands of any broadcast and stride."""

from __future__ import annotations

from functools import partial

from npu_tensor.dtypes import float16, float32
from npu_tensor.kernels.codegen import emitter
from npu_tensor.kernels.codegen.storage import host_dtypes
from npu_tensor.kernels.elementwise.cost import PROGRAM_BYTES, cost
from npu_tensor.kernels.elementwise.design import design
from npu_tensor.kernels.elementwise.plan import Operand, Plan, collapse
from npu_tensor.kernels.elementwise.source import Formula
from npu_tensor.kernels.elementwise.tiling import plan
from npu_tensor.kernels.offer import Offer, Target, Word
from npu_tensor.ops.expression import Program
from npu_tensor.task import Refusal, Task

__all__ = ["claim"]


def claim(task: Task, target: Target) -> Offer | Refusal:
    """A design for a map task, or why there is none."""
    if task.kind != "map" or task.program is None:
        return Refusal(f"a {task.kind} task is not element-wise")
    stored = host_dtypes(task, target)
    if isinstance(stored, Refusal):
        return stored
    reason = emitter.refusal(task.program)
    if reason is not None:
        return Refusal(reason)
    tensors = [number for number, operand in enumerate(task.inputs) if operand.layout is not None]
    numbers = [number for number, operand in enumerate(task.inputs) if operand.layout is None]
    words = _words(task.program, numbers)
    if words is None:
        return Refusal("a number that is used as a float and as an integer")
    layouts = [layout for operand in task.inputs if (layout := operand.layout) is not None]
    shape, strides = collapse(task.shape, [*layouts, *(output.layout for output in task.outputs)])
    inputs = tuple(
        Operand(number, str(stored[number]), steps, layout.offset)
        for number, layout, steps in zip(tensors, layouts, strides, strict=False)
    )
    outputs = tuple(
        Operand(number, str(stored[len(task.inputs) + number]), steps, output.layout.offset)
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
    arch = target.array.arch
    predicted = cost(tiling, formula, arch)
    if predicted.program_bytes > PROGRAM_BYTES:
        return Refusal(f"about {predicted.program_bytes} bytes of machine code, and a core has {PROGRAM_BYTES} for it")
    return Offer(
        "elementwise",
        _reason(task, tiling),
        partial(design, arch, tiling, formula, predicted),
        tiling.host_operands(),
        tuple(words),
    )


def _words(program: Program, numbers: list[int]) -> list[tuple[int, Word]] | None:
    """How each number is passed; None if the program reads one of them in two ways."""
    words: list[tuple[int, Word]] = []
    for number in numbers:
        ways: set[Word] = {
            "float32" if step.dtype == "float32" else "bool" if step.dtype == "bool" else "int32"
            for step in program.instructions
            if step.primitive == "scalar" and step.value == number
        }
        if len(ways) > 1:
            return None
        words.append((number, ways.pop() if ways else "float32"))
    return words


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
    alternating = [" and ".join(names[position] for position in channel) for channel in tiling.channels if channel[1:]]
    parts += [f"{operands} alternate on one channel" for operands in alternating]
    spread = [names[position] for position in tiling.spread]
    if spread:
        parts.append(f"the host lays {' and '.join(spread)} out over the shape")
    if tiling.pitch != tiling.shape[-1]:
        parts.append(f"the host pads rows of {tiling.shape[-1]} to {tiling.pitch}")
    rounded = [task.inputs[operand.number].dtype for operand in tiling.inputs if operand.dtype == "bfloat16"]
    rounded += [task.outputs[operand.number].dtype for operand in tiling.outputs if operand.dtype == "bfloat16"]
    if float16 in rounded:
        parts.append("float16 passes through bfloat16")
    if float32 in rounded:
        parts.append("float32 operands are rounded to bfloat16")
    return "; ".join(parts)
