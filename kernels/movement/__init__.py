"""Copies by DMA, without arithmetic: transpose, permute, contiguous, repeat, slices and concat.

A lane is one of the two pairs of shim channels of a column. Data passes from the fill through the column's memtile,
which can transpose boxes of 32-bit words, and is drained to its destination. Smaller elements are transposed in a core
instead. Elements are moved as raw bytes, so every dtype and every float32 policy is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

from npu_tensor.dataflow.checks.limits import HOST_BUFFERS
from npu_tensor.dtypes import DType
from npu_tensor.kernels.movement.copies import Copy, CopyLoop, collapse, in_words
from npu_tensor.kernels.movement.design import LANES_PER_COLUMN, design
from npu_tensor.kernels.movement.tiling import MOST_MOVES, CopyPlan, plan, plan_subword, used_lanes
from npu_tensor.kernels.offer import HostOperand, Offer, Target
from npu_tensor.ops.declare import Layout
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Refusal, Task, TensorInput

__all__ = ["claim", "claim_concat", "is_copy"]

SPARSEST: Final = 8
"""Upper bound on the ratio between the span of a source and its distinct elements.

A sparser source is not sent to the device.
"""
MOST_SOURCES: Final = HOST_BUFFERS - 1
"""Maximum number of sources; one host buffer is the result."""
SMALLEST_OBJECT: Final = 8
"""Minimum words of an object shared by operands of different shapes."""


def claim(task: Task, target: Target) -> Offer | Refusal:
    """Return an offer for a task that only moves the elements of one operand to a contiguous result."""
    if not is_copy(task):
        return Refusal("movement: the task is not a copy")
    itemsize = task.outputs[0].dtype.itemsize
    operand = task.tensors[0]
    source, result = _span(operand, 0), _result(task)
    if source is None:
        return Refusal(f"movement: less than 1 in {SPARSEST} elements of the source is wanted")
    copy = _copy(operand, source, contiguous_strides(task.shape), 0)
    lanes = LANES_PER_COLUMN * target.columns
    words = in_words(copy, itemsize) or _whole_words(copy, itemsize)
    planned = plan(words, lanes) if words else plan_subword(copy, itemsize, lanes)
    if isinstance(planned, str) and not words:
        padded = _padded(copy, source, result, 4 // itemsize)
        if padded is not None:
            copy, source, result = padded
            planned = plan_subword(copy, itemsize, lanes)
    if isinstance(planned, str):
        return Refusal(f"movement: {planned}")
    return _offer(task, target, [(planned, 0)], [source, result])


def claim_concat(task: Task, target: Target) -> Offer | Refusal:
    """Return an offer for `concat`: one copy for each operand."""
    itemsize = task.outputs[0].dtype.itemsize
    strides, dim = contiguous_strides(task.shape), task.attributes["dim"]
    sources: list[HostOperand] = []
    copies: list[tuple[int, Copy]] = []
    start = 0
    for number, operand in enumerate(task.tensors):
        extent = operand.layout.shape[dim]
        if math.prod(operand.layout.shape):
            source = _span(operand, number)
            if source is None:
                return Refusal(f"movement: less than 1 in {SPARSEST} elements of operand {number} is wanted")
            same = (other for other, known in enumerate(sources) if _shares(task, source, known))
            position = next(same, len(sources))
            if position == len(sources):
                sources.append(source)
            words = in_words(_copy(operand, source, strides, start * strides[dim]), itemsize)
            if words is None:
                return Refusal(f"movement: operand {number} has {itemsize}-byte elements that would leave their words")
            copies.append((position, words))
        start += extent
    if len(sources) > MOST_SOURCES:
        return Refusal(f"movement: {len(sources)} operands, more than {MOST_SOURCES}")
    planned = _plans([copy for _, copy in copies], LANES_PER_COLUMN * target.columns)
    if isinstance(planned, str):
        return Refusal(f"movement: {planned}")
    pieces = [(one, position) for (position, _), one in zip(copies, planned, strict=True)]
    return _offer(task, target, pieces, [*sources, _result(task)])


def is_copy(task: Task) -> bool:
    """Return True if a task only moves the elements of one operand to a contiguous result."""
    if len(task.inputs) != 1 or len(task.outputs) != 1:
        return False
    (source,), (result,) = task.inputs, task.outputs
    instructions = task.program.instructions
    return (
        len(instructions) == 1
        and instructions[0].primitive == "load"
        and task.program.outputs == (0,)
        and source.dtype is result.dtype
        and source.layout is not None
        and result.layout.strides == contiguous_strides(task.shape)
    )


# --- host buffers


def _span(source: TensorInput, number: int) -> HostOperand | None:
    """Return the part of a tensor's buffer that an operand reads, in whole words; None if it is too sparse."""
    first, last = source.layout.bounds
    span = last - first + 1
    pairs = zip(source.layout.shape, source.layout.strides, strict=True)
    distinct = math.prod(extent for extent, stride in pairs if stride)
    if span > SPARSEST * distinct:
        return None
    return HostOperand(number, False, Layout((span,), (1,), first), (_rounded(span, source.dtype),), source.dtype.name)


def _result(task: Task) -> HostOperand:
    """Return the host buffer of the whole result."""
    _, dtype, layout, _, _ = task.outputs[0]
    size = math.prod(layout.shape)
    return HostOperand(0, True, Layout((size,), (1,), layout.offset), (_rounded(size, dtype),), dtype.name)


def _rounded(elements: int, dtype: DType) -> int:
    """Round the number of elements up to whole words."""
    per_word = max(4 // dtype.itemsize, 1)
    return -(-elements // per_word) * per_word


def _shares(task: Task, source: HostOperand, other: HostOperand) -> bool:
    """Return True if two operands are the same part of the same tensor."""
    assert source.number is not None
    assert other.number is not None
    return source.layout == other.layout and task.inputs[source.number].item == task.inputs[other.number].item


def _padded(
    copy: Copy, source: HostOperand, result: HostOperand, per_word: int
) -> tuple[Copy, HostOperand, HostOperand] | None:
    """Return the transpose between host buffers whose rows are padded to whole words; None if not applicable.

    The source must have the same loops as a tensor in memory in another order, with or without gaps.
    """
    ordered = sorted(copy.loops, key=lambda loop: -loop.source)
    inner = zip(ordered, [*ordered[1:], CopyLoop(1, 1, 1)], strict=True)
    if any(loop.source < max(1, later.extent * later.source) for loop, later in inner):
        return None
    column, row = ordered[-1], copy.loops[-1]
    extents = {
        loop: -(-loop.extent // per_word) * per_word if loop in (column, row) else loop.extent for loop in copy.loops
    }

    def filled(operand: HostOperand, loops: Sequence[CopyLoop], strides: tuple[int, ...], offset: int) -> HostOperand:
        layout = Layout(tuple(loop.extent for loop in loops), strides, offset)
        return operand._replace(layout=layout, padded=tuple(extents[loop] for loop in loops))

    begin = source.layout.offset + copy.source
    source = filled(source, ordered, tuple(loop.source for loop in ordered), begin)
    targets = tuple(loop.target for loop in copy.loops)
    result = filled(result, copy.loops, targets, result.layout.offset + copy.target)
    steps = dict(zip(ordered, contiguous_strides(source.padded), strict=True))
    loops = tuple(
        CopyLoop(extents[loop], steps[loop], stride)
        for loop, stride in zip(copy.loops, contiguous_strides(result.padded), strict=True)
    )
    return Copy(loops, 0, 0), source, result


# --- copies


def _copy(source: TensorInput, operand: HostOperand, strides: tuple[int, ...], target: int) -> Copy:
    """Return the copy from an operand's host buffer to a position in the result, whose strides are given."""
    loops = map(CopyLoop, source.layout.shape, source.layout.strides, strides)
    return collapse(Copy(tuple(loops), source.layout.offset - operand.layout.offset, target))


def _whole_words(copy: Copy, itemsize: int) -> Copy | None:
    """Return a contiguous copy to the whole result, including the padding of the last word."""
    if len(copy.loops) > 1 or any(loop.source != 1 for loop in copy.loops):
        return None
    return Copy((CopyLoop(-(-copy.elements * itemsize // 4), 1, 1),), 0, 0)


def _plans(copies: Sequence[Copy], lanes: int) -> list[CopyPlan] | str:
    """Plan several copies at once. Those with the same objects share all lanes."""
    plans: list[CopyPlan] = []
    for copy in copies:
        planned = plan(copy, lanes)
        if isinstance(planned, str):
            return planned
        plans.append(planned)
    moves = sum(one.moves for one in plans)
    if moves > MOST_MOVES:
        return f"it would take {moves} transfers, more than {MOST_MOVES}"
    words = min(one.words for one in plans)
    if words >= SMALLEST_OBJECT and not any(one.dims for one in plans):
        # Objects that are not reordered may be cut anywhere.
        return [one._replace(words=words) for one in plans]
    if len({(one.words, one.dims) for one in plans}) > lanes:
        return f"{len(copies)} operands of different shapes on {lanes} pairs of shim channels"
    return plans


def _offer(task: Task, target: Target, pieces: list[tuple[CopyPlan, int]], operands: list[HostOperand]) -> Offer:
    """Return the offer. pieces: planned copies, each with the index of the host buffer that it reads."""
    lanes = LANES_PER_COLUMN * target.columns
    used = used_lanes(sum(len(planned.lanes) for planned, _ in pieces), lanes)
    box = pieces[0][0].transpose
    how = f"cores transpose boxes of {box.rows} x {box.columns}" if box else "DMA only"
    dtype = task.outputs[0].dtype
    words = tuple(math.prod(operand.padded) * dtype.itemsize // 4 for operand in operands)
    make = partial(design, task.name, target.array.arch, target.columns, tuple(pieces), words, dtype.itemsize)
    return Offer("movement", f"{how}, on {used} of {lanes} pairs of shim channels", make, tuple(operands))
