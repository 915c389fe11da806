"""Dataflow design of planned copies: lanes through memtiles or cores, and the moves of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from npu_tensor.dataflow.array import Arch, Tile
from npu_tensor.dataflow.checks.limits import LIMITS
from npu_tensor.dataflow.columns import Step, pipeline
from npu_tensor.dataflow.design import (
    Builder,
    CoreBuffer,
    Design,
    KernelFunction,
    ObjectFifo,
    ObjectType,
    Source,
    range_,
)
from npu_tensor.kernels.codegen.cycles import SCALAR_COPY, function
from npu_tensor.kernels.movement.tiling import TRANSPOSE_ROWS, BoxMove, CopyPlan, TransposedBox, used_lanes

LANES_PER_COLUMN: Final = LIMITS["shim"].channels
IN_FLIGHT: Final = 3
"""Moves of a lane in flight, if the shim tile has as many buffer descriptors."""

PROGRAM_BYTES: Final = 3072
"""Estimated bytes of the transpose function, in which all shuffles of a block are unrolled."""
STACK: Final = 4096
"""Bytes of stack for the two blocks, in case they do not fit into registers."""


class _Lane(NamedTuple):
    """Pair of shim channels: the plan of its objects, and its moves as (phase, index of the host buffer, move)."""

    plan: CopyPlan
    moves: tuple[tuple[int, int, BoxMove], ...]


def design(
    name: str, arch: Arch, columns: int, pieces: Sequence[tuple[CopyPlan, int]], words: Sequence[int], itemsize: int
) -> Design:
    """Build the design for copies that are each paired with the index of their source buffer.

    words: words of all host buffers, the result last.
    """
    builder = Builder(name, arch, columns)
    *sources, result = (builder.host_buffer(f"b{number}", "int32", size) for number, size in enumerate(words))
    lanes = _lanes(pieces, LANES_PER_COLUMN * columns)
    ends = []
    for number, lane in enumerate(lanes):
        place = divmod(number, LANES_PER_COLUMN)
        if lane.plan.transpose:
            ends.append(_through_core(builder, *place, lane.plan.transpose, itemsize))
        else:
            ends.append(_through_memtile(builder, *place, lane.plan))

    def rounds(phase: int) -> Iterator[list[Step]]:
        """Yield one move of every lane per round."""
        of_lanes = [[(source, move) for at, source, move in lane.moves if at == phase] for lane in lanes]
        for moves in zip_longest(*of_lanes):
            steps = []
            for (entry, leave), move in zip(ends, moves, strict=True):
                if move is not None:
                    source, (fill, drain) = move
                    steps += [Step(entry, sources[source], fill), Step(leave, result, drain)]
            yield steps

    for phase in sorted({phase for lane in lanes for phase, _, _ in lane.moves}):
        pipeline(builder, rounds(phase), IN_FLIGHT)
    return builder.build()


def _lanes(pieces: Sequence[tuple[CopyPlan, int]], most: int) -> list[_Lane]:
    lanes = [
        _Lane(plan, tuple((moves.phase, source, move) for moves in lane for move in moves.all()))
        for plan, source in pieces
        for lane in plan.lanes
    ]
    used = used_lanes(len(lanes), most)
    alike: dict[tuple[int, tuple[tuple[int, int], ...]], list[_Lane]] = {}
    for lane in lanes:
        alike.setdefault((lane.plan.words, lane.plan.dims), []).append(lane)
    each = max(used // len(alike), 1)
    return [
        _Lane(same[0].plan, tuple(move for lane in same[first::each] for move in lane.moves))
        for same in alike.values()
        for first in range(min(each, len(same)))
    ]


def _through_memtile(builder: Builder, column: int, channel: int, plan: CopyPlan) -> tuple[ObjectFifo, ObjectFifo]:
    """Add a lane that forwards objects unchanged or transposed."""
    shim, memtile = Tile(column, 0), Tile(column, 1)
    words = ObjectType("int32", (plan.words,))
    entry = builder.fifo(f"in_{column}_{channel}", words, shim, [memtile])
    leave = builder.fifo(f"out_{column}_{channel}", words, memtile, [shim], dims_to_stream=plan.dims)
    builder.forward(entry, leave)
    return entry, leave


def _through_core(
    builder: Builder, column: int, channel: int, box: TransposedBox, itemsize: int
) -> tuple[ObjectFifo, ObjectFifo]:
    """Add a lane whose core transposes boxes: rows arrive in several objects, and columns leave in one."""
    shim, core = Tile(column, 0), Tile(column, 2 + channel)
    transpose = _transpose(builder, box, itemsize)
    chunk, whole, position = (part for part in transpose.arguments if isinstance(part, ObjectType))
    entry = builder.fifo(f"in_{column}_{channel}", chunk, shim, [core])
    leave = builder.fifo(f"out_{column}_{channel}", whole, core, [shim], depth=1)
    row = builder.core_buffer(f"row_{column}_{channel}", core, position, bytes(position.nbytes))

    def body(entry: Any, leave: Any, row: CoreBuffer) -> None:
        columns = leave.acquire(1)
        for _ in range_(box.rows // box.chunk):
            transpose(entry.acquire(1), columns, row, box.chunk, box.columns, box.rows)
            entry.release(1)
        leave.release(1)

    builder.worker(core, body, [entry, leave, row], STACK)
    return entry, leave


def _transpose(builder: Builder, box: TransposedBox, itemsize: int) -> KernelFunction:
    """Return the function that writes some rows of a box to their positions in the box's columns."""
    element, lanes = f"int{8 * itemsize}", 64 // itemsize
    is_aligned = box.columns % lanes == 0 and box.chunk % TRANSPOSE_ROWS == 0 and box.rows % TRANSPOSE_ROWS == 0
    text = f"""#include <nt/transpose.hpp>

extern "C" void nt_transpose(const {element} *source, {element} *result, int32 *row, int32 count, int32 columns,
                             int32 rows) {{
    nt::transpose<{element}, {str(is_aligned).lower()}>(source, result + *row, count, columns, rows);
    *row += count;
    if (*row == rows) *row = 0;
}}
"""
    vectors = (box.chunk // TRANSPOSE_ROWS) * (box.columns // lanes)
    single = box.chunk * box.columns - vectors * TRANSPOSE_ROWS * lanes
    cycles = (
        vectors * function(f"{'aligned ' * is_aligned}transpose {element}", builder.arch).straight
        + single * SCALAR_COPY
    )
    chunk, whole = (ObjectType(element, (rows * box.columns,)) for rows in (box.chunk, box.rows))
    arguments: list[ObjectType | str] = [chunk, whole, ObjectType("int32", (1,)), *["int32"] * 3]
    return builder.function("nt_transpose", arguments, Source("transpose", text), cycles, PROGRAM_BYTES)
