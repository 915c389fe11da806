"""Sum of a convolution with another image: the end of a task's program, applied to the results in a core.

The core stores the results of the program's first part. As the pixels of the other image come, it combines them with
those results and stores the rest of the program in their place.
"""

from __future__ import annotations

from typing import NamedTuple

from npu_tensor.dataflow.array import Arch
from npu_tensor.kernels.codegen import cycles, emitter
from npu_tensor.kernels.gemm.epilogue import LANES
from npu_tensor.kernels.offer import Word
from npu_tensor.ops.analysis import Precision, needed
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Program
from npu_tensor.task import Refusal, Task, TensorInput


class Residual(NamedTuple):
    """C++ that combines the 16 results at `results` with the numbers `image`, a register.

    Attributes:
        hoisted: Lines before the loop.
        body: Lines in the loop.
        value: Expression that is stored.
        vector_cycles: Predicted cycles per vector, without those that load and order the numbers.
        program_bytes: Estimated bytes of machine code.
        scalars: Inputs of the task that are numbers, and dtypes of their words, which follow those of the epilogue.
    """

    hoisted: tuple[str, ...]
    body: tuple[str, ...]
    value: str
    vector_cycles: int
    program_bytes: int
    scalars: tuple[tuple[int, Word], ...]


class Split(NamedTuple):
    """Task of a convolution without the sum with another image.

    Attributes:
        task: Task whose program ends before the sum.
        number: Index of the other image among the task's inputs.
        dtype: Dtype of the other image.
        code: Code of the rest.
    """

    task: Task
    number: int
    dtype: str
    code: Residual


def split(task: Task, arch: Arch) -> Split | Refusal | None:
    """Cut a task before the sum with another image, or return None if there is none."""
    images = [
        (number, source.dtype.name)
        for number, source in enumerate(task.inputs)
        if number > 1 and isinstance(source, TensorInput) and _is_image(source.layout)
    ]
    if not images:
        return None
    number, image_dtype = images[0]
    program, (output,), slot = task.program, task.program.outputs, number - 1
    instructions = program.instructions
    loads = {index for index, each in enumerate(instructions) if each.primitive == "load" and each.value == slot}
    later = set(loads)
    for index, each in enumerate(instructions):
        if later.intersection(each.operands):
            later.add(index)
    before = {operand for index in later for operand in instructions[index].operands} - later
    numbers = sorted(index for index in before if instructions[index].primitive == "scalar")
    scalars = [instructions[index] for index in numbers]
    earlier = [index for index in before - {*numbers} if instructions[index].primitive != "constant"]
    if len(images) > 1 or len(earlier) != 1 or output not in later:
        return Refusal("conv_2d: an epilogue that reads more after another image")
    (stored,) = earlier
    if instructions[stored].primitive == "cast" and instructions[instructions[stored].operands[0]].dtype == "int8":
        (stored,) = instructions[stored].operands
    dtype = task.outputs[0].dtype.name
    if not _keeps(dtype, instructions[stored].primitive, instructions[stored].dtype):
        return Refusal(f"conv_2d: another image is added to more digits than {dtype} has")
    first = _until(program, stored)
    own = len({each.value for each in first.instructions if each.primitive == "scalar"})
    given = {
        stored: f"nt::load<{emitter.REGISTERS[instructions[stored].dtype]}, {LANES}>(results)",
        **dict.fromkeys(loads, "image"),
        **{
            index: emitter.broadcast_word("words", own + place, each.dtype, LANES)
            for place, (index, each) in enumerate(zip(numbers, scalars, strict=True))
        },
    }
    reason = emitter.refusal(program, given)
    if reason is not None:
        return Refusal(reason)
    precision: Precision = "half" if dtype == "bfloat16" else "full"
    choice = emitter.choose(program, given, precision, invariant=numbers)
    computed = [index for index in choice.numbers if index != stored]
    code = emitter.statements(choice, given, LANES)
    return Split(
        task._replace(program=first),
        number,
        image_dtype,
        Residual(
            tuple(code.hoisted),
            tuple(code.body),
            code.values[output],
            cycles.work(program, arch, LANES, choice.precision, computed, choice.forms).round,
            cycles.program_bytes(program, choice.precision, computed, choice.forms),
            tuple((each.value + 1, "float32" if each.dtype == "float32" else "int32") for each in scalars),
        ),
    )


def _is_image(layout: Layout) -> bool:
    """Return True if an operand varies along several dimensions of the result."""
    return sum(extent > 1 and stride != 0 for extent, stride in zip(layout.shape, layout.strides, strict=True)) > 1


def _keeps(dtype: str, primitive: str, register: str) -> bool:
    """Return True if a result of a dtype stores the number of an instruction exactly."""
    if dtype == "int8":
        return register == dtype
    return register == "float32" and (dtype == "float32" or (dtype == "bfloat16" and primitive == "round_bfloat16"))


def _until(program: Program, root: int) -> Program:
    """Return the part of a program that computes one instruction."""
    order = needed(program, [root])
    numbers = {old: new for new, old in enumerate(order)}
    steps = (program.instructions[old] for old in order)
    renumbered = [step._replace(operands=tuple([numbers[operand] for operand in step.operands])) for step in steps]
    return Program(tuple(renumbered), (numbers[root],))
