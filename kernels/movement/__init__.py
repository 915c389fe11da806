"""Copies: transpose, permute, contiguous, repeat, slices and concat, by DMA and without arithmetic.

A lane is one of the two pairs of shim channels of a column. What it fills passes through the column's memtile, which
can turn boxes of 32-bit words on the way, or through a core where smaller elements are transposed, and is drained to
its place. Elements move as the bytes they are, so every dtype and every float32 policy is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.checks.limits import HOST_BUFFERS
from npu_tensor.dataflow.design import (
    Builder,
    CoreBuffer,
    Design,
    HostBuffer,
    KernelFunction,
    ObjectFifo,
    ObjectType,
    Source,
    range_,
)
from npu_tensor.dtypes import DType
from npu_tensor.kernels.movement.copies import Copy, Loop, collapse, in_words
from npu_tensor.kernels.movement.copy_plan import BLOCK, MOST_MOVES, Move, Plan, Turn, plan, plan_subword
from npu_tensor.kernels.offer import HostOperand, Offer, Target
from npu_tensor.ops.declare import Layout
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Input, Refusal, Task

__all__ = ["claim", "claim_concat", "is_copy"]

LANES_PER_COLUMN: Final = 2
SPARSEST: Final = 8
"""A source is not sent to the device if less than one in so many of its elements is wanted."""
GROUPS_IN_FLIGHT: Final = 3
"""Moves of a lane that are started before the first is waited for: 12 of a shim tile's 15 buffer descriptors."""
MOST_SOURCES: Final = HOST_BUFFERS - 1
"""One is the result."""
SMALLEST_OBJECT: Final = 8
"""Words of the objects that operands of different shapes share."""

# Of nt/transpose.hpp: cycles for loading one row of a block and for shuffling it (four rounds of two shuffles, and
# registers that are spilled), and for one element outside of whole blocks; one more for storing each column. Assumed.
LOADS_PER_ROW: Final = 2
SHUFFLES_PER_ROW: Final = 12
SCALAR_CYCLES: Final = 6
PROGRAM_BYTES: Final = 3072
"""Estimate of its machine code, in which all shuffles of a block are unrolled."""
STACK: Final = 4096
"""Bytes for the two blocks that it keeps, should none of them be in registers."""


class Piece(NamedTuple):
    """A planned copy and the number of the host buffer that it reads."""

    plan: Plan
    source: int


def claim(task: Task, target: Target) -> Offer | Refusal:
    """An offer for a task that only moves the elements of one operand to a contiguous result."""
    if not is_copy(task):
        return Refusal("movement: the task is no copy")
    itemsize = task.outputs[0].dtype.itemsize
    source, result = _span(task.inputs[0], 0), _result(task)
    if source is None:
        return Refusal(f"movement: less than 1 in {SPARSEST} elements of the source is wanted")
    copy = _copy(task.inputs[0], source, contiguous_strides(task.shape), 0)
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
    return _offer(task, target, [Piece(planned, 0)], [source, result])


def claim_concat(task: Task, target: Target) -> Offer | Refusal:
    """An offer for `concat`: one copy for each operand."""
    assert task.call is not None
    itemsize = task.outputs[0].dtype.itemsize
    strides, dim = contiguous_strides(task.shape), task.call.attributes["dim"]
    sources: list[HostOperand] = []
    copies: list[tuple[int, Copy]] = []
    start = 0
    for number, operand in enumerate(task.inputs):
        assert operand.layout is not None
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
    pieces = [Piece(one, position) for (position, _), one in zip(copies, planned, strict=True)]
    return _offer(task, target, pieces, [*sources, _result(task)])


def is_copy(task: Task) -> bool:
    """Whether a task only moves the elements of one operand to a contiguous result."""
    if task.program is None or len(task.inputs) != 1 or len(task.outputs) != 1:
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


def _span(source: Input, number: int) -> HostOperand | None:
    """The part of a tensor's buffer that an operand reads, in whole words; None if little of it is wanted."""
    assert source.layout is not None
    assert source.dtype is not None
    shape, strides, offset = source.layout
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    low = offset + sum(step for step in reach if step < 0)
    span = sum(map(abs, reach)) + 1
    wanted = math.prod(extent for extent, stride in zip(shape, strides, strict=True) if stride)
    if span > SPARSEST * wanted:
        return None
    return HostOperand(number, False, Layout((span,), (1,), low), (_rounded(span, source.dtype),), source.dtype.name)


def _result(task: Task) -> HostOperand:
    """The whole result."""
    _, dtype, layout, _, _ = task.outputs[0]
    size = math.prod(layout.shape)
    return HostOperand(0, True, Layout((size,), (1,), layout.offset), (_rounded(size, dtype),), dtype.name)


def _rounded(elements: int, dtype: DType) -> int:
    """Elements that fill whole words."""
    per_word = max(4 // dtype.itemsize, 1)
    return -(-elements // per_word) * per_word


def _shares(task: Task, source: HostOperand, other: HostOperand) -> bool:
    """Whether two operands are the same part of the same tensor."""
    assert source.number is not None
    assert other.number is not None
    return source.layout == other.layout and task.inputs[source.number].item == task.inputs[other.number].item


def _padded(
    copy: Copy, source: HostOperand, result: HostOperand, per_word: int
) -> tuple[Copy, HostOperand, HostOperand] | None:
    """The same transpose between host buffers whose rows are filled up to whole words; None if it has none.

    The source must lie in memory as a tensor of the same loops in another order, with gaps or without.
    """
    ordered = sorted(copy.loops, key=lambda loop: -loop.source)
    inner = zip(ordered, [*ordered[1:], Loop(1, 1, 1)], strict=True)
    if any(loop.source < max(1, later.extent * later.source) for loop, later in inner):
        return None
    column, row = ordered[-1], copy.loops[-1]
    extents = {
        loop: -(-loop.extent // per_word) * per_word if loop in (column, row) else loop.extent for loop in copy.loops
    }

    def filled(operand: HostOperand, loops: Sequence[Loop], strides: tuple[int, ...], offset: int) -> HostOperand:
        layout = Layout(tuple(loop.extent for loop in loops), strides, offset)
        return operand._replace(layout=layout, padded=tuple(extents[loop] for loop in loops))

    begin = source.layout.offset + copy.source
    source = filled(source, ordered, tuple(loop.source for loop in ordered), begin)
    targets = tuple(loop.target for loop in copy.loops)
    result = filled(result, copy.loops, targets, result.layout.offset + copy.target)
    steps = dict(zip(ordered, contiguous_strides(source.padded), strict=True))
    loops = tuple(
        Loop(extents[loop], steps[loop], stride)
        for loop, stride in zip(copy.loops, contiguous_strides(result.padded), strict=True)
    )
    return Copy(loops, 0, 0), source, result


# --- copies


def _copy(source: Input, operand: HostOperand, strides: tuple[int, ...], target: int) -> Copy:
    """From an operand's host buffer to a place in the result's, whose strides are given."""
    assert source.layout is not None
    loops = map(Loop, source.layout.shape, source.layout.strides, strides)
    return collapse(Copy(tuple(loops), source.layout.offset - operand.layout.offset, target))


def _whole_words(copy: Copy, itemsize: int) -> Copy | None:
    """A copy of neighbours to the whole result, with what fills the last word."""
    if len(copy.loops) > 1 or any(loop.source != 1 for loop in copy.loops):
        return None
    return Copy((Loop(-(-copy.elements * itemsize // 4), 1, 1),), 0, 0)


def _plans(copies: Sequence[Copy], lanes: int) -> list[Plan] | str:
    """Plans for several copies at once. Each has lanes of its own, or shares one with others of the same objects."""
    elements = sum(copy.elements for copy in copies)
    spare = lanes - len(copies)
    found: list[Plan] = []
    for copy in copies:
        planned = plan(copy, 1 + spare * copy.elements // elements if spare > 0 else 1)
        if isinstance(planned, str):
            return planned
        found.append(planned)
    moves = sum(one.moves for one in found)
    if moves > MOST_MOVES:
        return f"it would take {moves} transfers, more than {MOST_MOVES}"
    if len({(one.words, one.dims) for one in found}) > lanes:
        # Without an order of their own the objects may be cut anywhere.
        words = math.gcd(*(one.words for one in found))
        if words < SMALLEST_OBJECT or any(one.dims for one in found):
            return f"{len(copies)} operands of different shapes on {lanes} pairs of shim channels"
        found = [one._replace(words=words) for one in found]
    return found


# --- the design


class _Step(NamedTuple):
    """A move, the phase it belongs to and the number of the host buffer that it reads."""

    phase: int
    source: int
    move: Move


class _Lane(NamedTuple):
    """Plan of the objects that pass, and what moves."""

    plan: Plan
    steps: tuple[_Step, ...]


def _lanes(pieces: Sequence[Piece], lanes: int) -> list[_Lane]:
    made = [
        _Lane(piece.plan, tuple(_Step(walk.phase, piece.source, move) for walk in walks for move in walk.moves()))
        for piece in pieces
        for walks in piece.plan.lanes
    ]
    if len(made) <= lanes:
        return made
    alike: dict[tuple[int, tuple[tuple[int, int], ...]], list[_Lane]] = {}
    for lane in made:
        alike.setdefault((lane.plan.words, lane.plan.dims), []).append(lane)
    each = lanes // len(alike)
    return [
        _Lane(same[0].plan, tuple(step for lane in same[first::each] for step in lane.steps))
        for same in alike.values()
        for first in range(min(each, len(same)))
    ]


def _offer(task: Task, target: Target, pieces: list[Piece], operands: list[HostOperand]) -> Offer:
    lanes = LANES_PER_COLUMN * target.columns
    used = min(sum(len(piece.plan.lanes) for piece in pieces), lanes)
    turn = pieces[0].plan.turn
    how = f"cores transpose boxes of {turn.rows} x {turn.columns}" if turn else "DMA only"
    reason = f"{how}, on {used} of {lanes} pairs of shim channels"
    dtype = task.outputs[0].dtype
    words = [math.prod(operand.padded) * dtype.itemsize // 4 for operand in operands]

    def design() -> Design:
        return _design(task.name, target, pieces, words, dtype)

    return Offer("movement", reason, design, tuple(operands))


def _design(name: str, target: Target, pieces: Sequence[Piece], words: Sequence[int], dtype: DType) -> Design:
    builder = Builder(name, target.array.arch, target.columns)
    *sources, result = (builder.host_buffer(f"b{number}", "int32", size) for number, size in enumerate(words))
    ends = []
    for number, lane in enumerate(_lanes(pieces, LANES_PER_COLUMN * target.columns)):
        column, channel = divmod(number, LANES_PER_COLUMN)
        through = _through_core if lane.plan.turn else _through_memtile
        ends.append((*through(builder, column, channel, lane.plan, dtype), lane.steps))
    _sequence(builder, ends, sources, result)
    return builder.build()


def _through_memtile(
    builder: Builder, column: int, channel: int, planned: Plan, dtype: DType
) -> tuple[ObjectFifo, ObjectFifo]:
    """A lane that passes objects on as they are, or turned."""
    shim, memtile = Tile(column, 0), Tile(column, 1)
    words = ObjectType("int32", (planned.words,))
    entry = builder.fifo(f"in_{column}_{channel}", words, shim, [memtile])
    leave = builder.fifo(f"out_{column}_{channel}", words, memtile, [shim], dims_to_stream=planned.dims)
    builder.forward(entry, leave)
    return entry, leave


def _through_core(
    builder: Builder, column: int, channel: int, planned: Plan, dtype: DType
) -> tuple[ObjectFifo, ObjectFifo]:
    """A lane whose core transposes boxes: their rows arrive in several objects and their columns leave in one."""
    turn = planned.turn
    assert turn is not None
    shim, core = Tile(column, 0), Tile(column, 2 + channel)
    transpose = _transpose(builder, turn, dtype.itemsize)
    chunk, box, position = (part for part in transpose.arguments if isinstance(part, ObjectType))
    entry = builder.fifo(f"in_{column}_{channel}", chunk, shim, [core])
    leave = builder.fifo(f"out_{column}_{channel}", box, core, [shim], depth=1)
    row = builder.core_buffer(f"row_{column}_{channel}", core, position, bytes(position.nbytes))

    def body(entry: Any, leave: Any, row: CoreBuffer) -> None:
        columns = leave.acquire(1)
        for _ in range_(turn.rows // turn.chunk):
            transpose(entry.acquire(1), columns, row, turn.chunk, turn.columns, turn.rows)
            entry.release(1)
        leave.release(1)

    builder.worker(core, body, [entry, leave, row], STACK)
    return entry, leave


def _transpose(builder: Builder, turn: Turn, itemsize: int) -> KernelFunction:
    """The function that puts some rows of a box in their place in its columns."""
    element = f"int{8 * itemsize}"
    text = f"""#include <nt/transpose.hpp>

extern "C" void nt_transpose(const {element} *source, {element} *result, int32 *row, int32 count, int32 columns,
                             int32 rows) {{
    nt::transpose<{element}>(source, result + *row, count, columns, rows);
    *row += count;
    if (*row == rows) *row = 0;
}}
"""
    lanes = 64 // itemsize
    vectors = (turn.chunk // BLOCK) * (turn.columns // lanes)
    single = turn.chunk * turn.columns - vectors * BLOCK * lanes
    cycles = vectors * (BLOCK * (LOADS_PER_ROW + SHUFFLES_PER_ROW) + lanes) + single * SCALAR_CYCLES
    arguments: list[ObjectType | str] = [
        ObjectType(element, (turn.chunk * turn.columns,)),
        ObjectType(element, (turn.rows * turn.columns,)),
        ObjectType("int32", (1,)),
        *["int32"] * 3,
    ]
    return builder.function("nt_transpose", arguments, Source("transpose", text), cycles, PROGRAM_BYTES)


def _sequence(
    builder: Builder,
    ends: Sequence[tuple[ObjectFifo, ObjectFifo, tuple[_Step, ...]]],
    sources: Sequence[HostBuffer],
    result: HostBuffer,
) -> None:
    """The steps of all lanes side by side, a few of each in flight, phase by phase."""
    for phase in sorted({step.phase for _, _, steps in ends for step in steps}):
        groups: list[int] = []
        lanes = [(entry, leave, [step for step in steps if step.phase == phase]) for entry, leave, steps in ends]
        for number in range(max(len(steps) for _, _, steps in lanes)):
            if number >= GROUPS_IN_FLIGHT:
                builder.finish(groups[number - GROUPS_IN_FLIGHT])
            groups.append(builder.group())
            for entry, leave, steps in lanes:
                for _, source, move in steps[number : number + 1]:
                    builder.fill(entry, sources[source], move.fill, groups[-1])
                    builder.drain(leave, result, move.drain, groups[-1])
        for group in groups[-GROUPS_IN_FLIGHT:]:
            builder.finish(group)
