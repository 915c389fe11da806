"""Ops on rows of numbers between products with quantized weights, computed in the configuration of the products.

A decoder layer alternates between products and norms, residuals and gates of a single row. Each of them takes a few
microseconds, less than a change of configuration before and after it. The planner weighs both.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.dataflow.array import Arch
from npu_tensor.dataflow.checks.limits import WORD
from npu_tensor.dataflow.columns import Step, pipeline
from npu_tensor.dataflow.design import AccessPattern, Design, SequenceBuilder
from npu_tensor.dtypes import bfloat16
from npu_tensor.kernels.block_order import CORES, LANES, BlockFormat, object_bytes
from npu_tensor.kernels.codegen.cycles import function
from npu_tensor.kernels.offer import HostOperand, Offer, Target, padded_shape
from npu_tensor.kernels.quantized.design import (
    CHANNELS,
    IN_FLIGHT,
    MOST_FEATURES,
    ChannelPart,
    configuration,
    divided,
    start,
)
from npu_tensor.kernels.rope import RotationTable, angles_of
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Program
from npu_tensor.ops.layouts import joined
from npu_tensor.task import Input, Output, Task

TABLE_ROWS: Final = 4
"""Rows of a table of rotations."""
UNIT: Final = CORES * LANES
"""Elements that the cores of a channel compute at once."""
ITEM: Final = 2
"""Bytes of an element."""
OPS: Final = ("add", "swiglu", "rms_norm", "rope")
"""Ops in the order of RowOp in nt/quantized.hpp."""
MOST_INSTRUCTIONS: Final = 16
"""Upper bound on the length of programs that are compared with the ops."""
LONGEST: Final = 1024 * LANES
"""Upper bound on the length of a row, which has 10 bits of a word as a number of vectors."""


class RowOp(NamedTuple):
    """An op on two operands of a task.

    Attributes:
        name: Name of the op.
        operands: Numbers of the operands.
        bits: Bits 12 to 30 of the cores' word; see `compute_extents` in nt/quantized.hpp.
        order: Order of the second operand in its host buffer if it is not a row.
    """

    name: str
    operands: tuple[int, int]
    bits: int = 0
    order: RotationTable | None = None


class RowProblem(NamedTuple):
    """A row op on rows of `length` elements in the configuration of products with weights of a format.

    offsets: first elements of both rows in their host buffers.
    """

    arch: Arch
    columns: int
    format: BlockFormat
    name: str
    length: int
    bits: int
    offsets: tuple[int, int]

    @property
    def units(self) -> int:
        """Units of a row."""
        return -(-self.length // UNIT)

    @property
    def parts(self) -> list[ChannelPart]:
        """Parts of the channels. One per column is busy: queueing more transfers takes longer than more units."""
        idle = (ChannelPart(0, 0),) * (CHANNELS - 1)
        return [each for part in divided(self.units, self.columns) for each in (part, *idle)]

    @property
    def object_elements(self) -> int:
        """Elements of a row in an object."""
        return object_bytes(self.format) // ITEM

    def span(self, part: ChannelPart) -> tuple[int, int]:
        """Return the first element of each row that a channel reads, and the objects. Norms and rotations read all."""
        first, count = (0, self.length) if self.name in ("rms_norm", "rope") else (part.first * UNIT, part.units * UNIT)
        return first, -(-count // self.object_elements)

    @property
    def read(self) -> int:
        """Elements that are read of each row. The last objects extend beyond it."""
        spans = (self.span(part) for part in self.parts if part.units)
        return max(first + objects * self.object_elements for first, objects in spans)

    @property
    def word(self) -> int:
        """Word of the cores; see `compute_extents` in nt/quantized.hpp."""
        return (self.bits | self.length // LANES << 2 | OPS.index(self.name)) - (1 << 31)

    def extents(self, part: ChannelPart) -> list[int]:
        """Return the words that the cores of a channel compute; see `Extent` in nt/quantized.hpp."""
        _, objects = self.span(part)
        return [2 * objects - 1, 1, 0, part.units, self.word]


def claim(format: BlockFormat, target: Target, task: Task) -> Offer | None:
    """Return an offer for a task that is a row op on bfloat16, in place but for positions."""
    found = rotation(task, format) if task.kind == "data" else row_op(task)
    if found is None:
        return None
    length = math.prod(task.shape)
    a, b = found.operands
    offsets = (task.tensors[a].layout.offset, 0 if found.order else task.tensors[b].layout.offset)
    if task.outputs[0].layout.offset or any(offset * ITEM % WORD for offset in offsets):
        return None
    problem = RowProblem(target.array.arch, target.columns, format, found.name, length, found.bits, offsets)
    most = max(objects for _, objects in map(problem.span, problem.parts))
    if length % LANES or length >= LONGEST or 2 * most * problem.object_elements > MOST_FEATURES:
        return None
    reads = [
        HostOperand(number, False, Layout((offset + length,), (1,)), (offset + problem.read,), "bfloat16", None)
        for number, offset in zip(found.operands, offsets, strict=True)
    ]
    if found.order:
        words = (problem.read * ITEM // WORD,)
        reads[1] = HostOperand(b, False, Layout((1,), (1,)), words, "int32", None, order=found.order)
    row = Layout((length,), (1,))
    result = HostOperand(0, True, row, padded_shape(row.shape, problem.units * UNIT), "bfloat16")
    reason = f"{found.name} of a row of {length} in the configuration of products with blocks of {format}"
    return Offer("quantized", reason, partial(design, problem), (*reads, result))


def row_op(task: Task) -> RowOp | None:
    """Return the op of a task with two contiguous rows of bfloat16, or None for other tasks."""
    tensors = (*task.inputs, *task.outputs)
    if task.kind not in ("map", "row") or (len(task.inputs), len(task.outputs)) != (2, 1):
        return None
    if len(task.program.instructions) > MOST_INSTRUCTIONS:
        return None  # A tree of them could be exponentially large.
    if not all(each.dtype is bfloat16 and _is_row(each, math.prod(task.shape)) for each in tensors):
        return None
    if task.kind == "row" and math.prod(task.shape[: -task.rows]) != 1:
        return None
    numbers = [step.value for step in task.program.instructions if step.primitive == "constant" and step.value != 1]
    found, one = _tree(task.program, task.program.outputs[0]), ("constant", 1.0)
    for a, b in ((0, 1), (1, 0)):
        x, y = ("load", a), ("load", b)
        silu = ("div", x, ("add", one, ("exp", ("neg", x))))
        if found == ("add", x, y):
            return RowOp("add", (a, b))
        if found in (("mul", silu, y), ("mul", y, silu)):
            return RowOp("swiglu", (a, b))
        for epsilon in numbers[:1]:
            mean = ("div", ("row_sum", ("mul", x, x)), ("scalar", -1))
            inverse = ("div", one, ("sqrt", ("add", mean, ("constant", epsilon))))
            if found == ("mul", ("mul", x, inverse), y) and epsilon > 0:
                # Half a unit of what the bits leave out is added.
                bits = int(np.float32(epsilon).view(np.int32)) + (1 << 11)
                return RowOp("rms_norm", (a, b), bits & ~0xFFF)
    return None


def _is_row(operand: Input | Output, length: int) -> bool:
    """Return True if an operand consists of contiguous elements."""
    return operand.layout is not None and joined(operand.layout)[:2] == ((length,), (1,))


def rotation(task: Task, format: BlockFormat) -> RowOp | None:
    """Return the op of a task that rotates all features of heads of bfloat16 by one position, or None for others."""
    if task.ops != ("rotate",) or len(task.inputs) != 2:
        return None
    x, position = task.tensors
    *_, heads, features = x.layout.shape
    contiguous = all(_is_row(each, heads * features) for each in (x, task.outputs[0]))
    # Vectors of a head and of its half begin at multiples of the lanes, and a mask finds their places in the table.
    aligned = features & (features - 1) == 0 and UNIT <= features == task.attributes["n_dims"]
    fits = TABLE_ROWS * features * ITEM <= object_bytes(format)
    angles = angles_of(task.attributes, False)
    if angles is None or x.dtype is not bfloat16 or not (contiguous and aligned and fits):
        return None
    bits = features - 1 << 13 | angles.neighbours << 12
    return RowOp("rope", (0, 1), bits, RotationTable(angles, position.layout.offset))


def _tree(program: Program, number: int) -> Any:
    """Return an instruction as a nested tuple of its primitive and its operands, or its value."""
    step = program.instructions[number]
    if not step.operands:
        return step.primitive, step.value
    return step.primitive, *(_tree(program, operand) for operand in step.operands)


def design(problem: RowProblem) -> Design:
    """Build the design. Its host buffers are the two rows and the result, as words."""
    sequence = SequenceBuilder(configuration(problem.arch, problem.columns, problem.format, "bfloat16"))
    rows = [
        sequence.host_buffer(name, "int32", (offset + problem.read) * ITEM // WORD)
        for name, offset in zip(("a", "b"), problem.offsets, strict=True)
    ]
    result = sequence.host_buffer("result", "int32", problem.units * UNIT * ITEM // WORD)
    steps = []
    for objects, results, part in start(sequence, problem.word, problem.parts, problem.extents):
        first, count = problem.span(part)
        pattern = AccessPattern.linear(count * object_bytes(problem.format) // WORD, first * ITEM // WORD)
        for row, offset in zip(rows, problem.offsets, strict=True):
            steps.append(Step(objects, row, pattern.moved(offset * ITEM // WORD)))
        unit = UNIT * ITEM // WORD
        steps.append(Step(results, result, AccessPattern.linear(part.units * unit, part.first * unit)))
    pipeline(sequence, [steps], IN_FLIGHT)
    keep, leave = (
        function(f"quantized_{name}", problem.arch) for name in (f"keep {problem.format}", f"row {problem.name}")
    )
    cycles = leave.loop(1)
    if problem.name == "rms_norm":
        most = max(part.units for part in problem.parts)
        cycles += function("quantized_row squares", problem.arch).loop(-(-problem.length // (2 * LANES))) // most
    return sequence.build({"nt_keep": keep.loop(problem.object_elements // problem.format.block), "nt_leave": cycles})
