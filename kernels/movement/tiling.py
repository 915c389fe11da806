"""Plans of copies: boxes of equal size that pairs of shim channels move, transposed in memtiles or cores.

One box is one object of a fifo, or a few. Its sides are powers of four, and its runs of two, so that few binaries serve
all shapes. Where an extent is no multiple of the box the last box overlaps the one before it, which writes the same
values again, in a later phase, and needs no second object size. Access patterns go over the boxes; loops that do not
fit into their four dimensions become several transfers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Final, NamedTuple

from npu_tensor.dataflow.design import AccessPattern
from npu_tensor.kernels.movement.copies import LONGEST_RUN, Copy, CopyLoop, pattern

__all__ = [
    "MOST_MOVES",
    "TRANSPOSE_ROWS",
    "BoxMove",
    "BoxMoves",
    "CopyPlan",
    "TransposedBox",
    "plan",
    "plan_subword",
    "used_lanes",
]

MOST_MOVES: Final = 1024
"""Pairs of transfers in one design: each is about 300 bytes of instructions, which the host sends with every run."""
BURST: Final = 64
"""Words of one access to host memory; shorter runs cost nearly as much, see dataflow.cost.RUN_BYTES."""
SMALLEST_BOX, LARGEST_BOX = 256, 4096
"""Words of an object: enough to hide the locks, few enough to give every lane some."""
TILE_COST: Final = 16
"""Elements of a side that take as long as another box; of a run in words, as dataflow.cost.RUN_BYTES says."""
LONGEST_SIDE: Final = 512
"""Rounds of one loop of a memtile's DMA."""
CORE_BOX_BYTES, CHUNK_BYTES = 48 << 10, 4 << 10
"""Of a box that a core transposes, and of an object in which it arrives; one of the first, two of the second fit."""
TRANSPOSE_ROWS, CORE_LANES = 16, 64
"""Rows that nt/transpose.hpp transposes at once, and columns, or a multiple of them."""


class BoxMove(NamedTuple):
    """A fill and the drain that takes the same objects out again, in words."""

    fill: AccessPattern
    drain: AccessPattern

    def moved(self, source: int, target: int) -> BoxMove:
        """The same move from and to another place, in words."""
        return BoxMove(self.fill.moved(source), self.drain.moved(target))


class BoxMoves(NamedTuple):
    """One move for each step of `loops`, which shift both of its patterns.

    phase: it begins when those of earlier phases have ended, because it writes some of their places again.
    """

    phase: int
    move: BoxMove
    loops: tuple[CopyLoop, ...]

    @property
    def length(self) -> int:
        """How many moves."""
        return math.prod(loop.extent for loop in self.loops)

    def moved(self, phase: int, source: int, target: int) -> BoxMoves:
        """The same in another phase and from another place, in words."""
        return BoxMoves(phase, self.move.moved(source, target), self.loops)

    def all(self) -> Iterator[BoxMove]:
        """All of them."""
        for steps in product(*(range(loop.extent) for loop in self.loops)):
            pairs = list(zip(steps, self.loops, strict=True))
            source = sum(step * loop.source for step, loop in pairs)
            yield self.move.moved(source, sum(step * loop.target for step, loop in pairs))


class TransposedBox(NamedTuple):
    """A box of `rows` x `columns` elements that a core transposes. It arrives in objects of `chunk` rows."""

    rows: int
    columns: int
    chunk: int


class CopyPlan(NamedTuple):
    """How a copy is done.

    words: of an object that arrives. dims: order in which a memtile sends it on, as (size, stride) in words; empty for
    in order. transpose: the box that a core transposes; None if the object goes through a memtile. lanes: what each
    pair of shim channels does.
    """

    words: int
    dims: tuple[tuple[int, int], ...]
    transpose: TransposedBox | None
    lanes: tuple[tuple[BoxMoves, ...], ...]

    @property
    def moves(self) -> int:
        """Transfers into the array; as many go out."""
        return sum(moves.length for lane in self.lanes for moves in lane)


def _tile(extent: int, limit: int, least: int = 1, base: int = 4) -> int:
    """A power of `base` of at most `limit`, and of at least `least` if there is one: large, and with little overlap."""
    longest = min(extent, limit)
    bits = base.bit_length() - 1
    tiles = [1 << n for n in range(0, longest.bit_length(), bits) if 1 << n >= least] or [least]
    return min(reversed(tiles), key=lambda tile: -(-extent // tile) * (tile + TILE_COST))


def used_lanes(lanes: int, most: int) -> int:
    """How many are used where there is work for so many: all, or a power of four."""
    return most if lanes >= most else 1 << (lanes.bit_length() - 1) // 2 * 2


class _Box(NamedTuple):
    """One object: the (extent, step) loops of the fill and of the drain inside it."""

    fill: tuple[tuple[int, int], ...]
    drain: tuple[tuple[int, int], ...]


def _grid(loop: CopyLoop, tile: int) -> tuple[tuple[int, CopyLoop], ...]:
    """Where boxes of `tile` rounds of a loop begin: (first round, loop over boxes), twice if the last overlaps."""
    boxes = CopyLoop(loop.extent // tile, loop.source * tile, loop.target * tile)
    last = ((loop.extent - tile, CopyLoop(1, 0, 0)),) if loop.extent % tile else ()
    return ((0, boxes), *last)


def _lanes(
    copy: Copy, outer: Sequence[CopyLoop], tiles: Sequence[tuple[CopyLoop, int]], box: _Box, lanes: int, per_word: int
) -> tuple[tuple[BoxMoves, ...], ...] | None:
    """What each lane moves: all boxes, of which `tiles` has the loops that are cut and the rounds in one box."""
    work: list[list[BoxMoves]] = [[] for _ in range(lanes)]
    # Most shares are alike but for where they begin.
    known: dict[tuple[CopyLoop, ...], BoxMoves | None] = {}
    next_lane = 0
    for phase, part in enumerate(product(*(_grid(loop, tile) for loop, tile in tiles))):
        starts = [(start, loop) for (start, _), (loop, _) in zip(part, tiles, strict=True)]
        loops = sorted((loop for loop in (*outer, *(loop for _, loop in part)) if loop.extent > 1), reverse=True)
        for share in _shares(loops, lanes):
            moved = tuple(loop for _, loop in share if loop.extent > 1)
            if moved not in known:
                known[moved] = _moves(moved, box, per_word)
            moves = known[moved]
            steps = [*starts, *share]
            source, lost = divmod(copy.source + sum(start * loop.source for start, loop in steps), per_word)
            target, also_lost = divmod(copy.target + sum(start * loop.target for start, loop in steps), per_word)
            if moves is None or lost or also_lost:
                return None
            work[next_lane % lanes].append(moves.moved(phase, source, target))
            next_lane += 1
    return tuple(tuple(lane) for lane in work if lane)


def _shares(loops: Sequence[CopyLoop], lanes: int) -> list[tuple[tuple[int, CopyLoop], ...]]:
    """The loops, largest first, cut into at most `lanes` shares: of each loop the first round and the rounds."""
    cuts = []
    for loop in loops:
        parts = min(loop.extent, lanes)
        lanes //= parts
        bounds = [part * loop.extent // parts for part in range(parts + 1)]
        cuts.append([(low, loop._replace(extent=high - low)) for low, high in pairwise(bounds)])
    return list(product(*cuts))


def _moves(loops: Sequence[CopyLoop], box: _Box, per_word: int) -> BoxMoves | None:
    """The loops over boxes: as many as fit in the access patterns, the largest first, the rest by several moves."""
    move = _move((), box, per_word)
    inside: list[CopyLoop] = []
    left: list[CopyLoop] = []
    for loop in loops:
        for place in range(len(inside), -1, -1):
            longer = [*inside[:place], loop, *inside[place:]]
            longer_move = _move(longer, box, per_word)
            if longer_move is not None:
                inside, move = longer, longer_move
                break
        else:
            if loop.source % per_word or loop.target % per_word:
                return None
            left.append(CopyLoop(loop.extent, loop.source // per_word, loop.target // per_word))
    return BoxMoves(0, move, tuple(left)) if move else None


def _move(loops: Sequence[CopyLoop], box: _Box, per_word: int) -> BoxMove | None:
    fill = pattern(0, [*((loop.extent, loop.source) for loop in loops), *box.fill], per_word)
    drain = pattern(0, [*((loop.extent, loop.target) for loop in loops), *box.drain], per_word)
    return BoxMove(fill, drain) if fill and drain else None


def _crossing(loops: Sequence[CopyLoop], unit: int) -> tuple[CopyLoop, CopyLoop] | None:
    """The loops that are innermost in the source and in the target, around runs of `unit`; None if one has none."""
    column = next((loop for loop in loops if loop.source == unit), None)
    row = next((loop for loop in loops if loop.target == unit and loop.source > 0), None)
    return (column, row) if column and row and column is not row else None


def plan(copy: Copy, lanes: int) -> CopyPlan | str:
    """The plan for a collapsed copy in words on at most `lanes` lanes, or why there is none."""
    *outer, run = copy.loops or (CopyLoop(1, 1, 1),)
    if (run.source, run.target) != (1, 1):
        outer, run = [*outer, run], CopyLoop(1, 1, 1)
    limit = min(max(copy.elements // lanes, SMALLEST_BOX), LARGEST_BOX)
    crossing = _crossing(outer, run.extent) if run.extent < BURST else None
    if crossing:
        return _transposing(copy, outer, crossing, run, limit, lanes)
    rows = max((loop for loop in outer if loop.source > 0), default=None)
    width = _tile(run.extent, LONGEST_RUN if outer else limit, base=2)
    height = _tile(rows.extent, min(max(limit // width, 1), LONGEST_RUN)) if rows else 1
    tiles = [(run, width)]
    fill, drain = [(width, 1)], [(width, 1)]
    if rows:
        outer.remove(rows)
        tiles.append((rows, height))
        fill.insert(0, (height, rows.source))
        drain.insert(0, (height, rows.target))
    work = _lanes(copy, outer, tiles, _Box(tuple(fill), tuple(drain)), lanes, 1)
    # In order, they may be cut anywhere.
    return _planned(_tile(width * height, width * height), work)


def _transposing(
    copy: Copy, outer: list[CopyLoop], crossing: tuple[CopyLoop, CopyLoop], run: CopyLoop, limit: int, lanes: int
) -> CopyPlan | str:
    """Boxes that are read along the source's innermost loop and transposed in the memtile, in units of a run."""
    column, row = crossing
    unit = _tile(run.extent, run.extent, base=2)
    width, height = _sides(column.extent, row.extent, limit // unit, min(LONGEST_SIDE, LONGEST_RUN // unit))
    inner = (unit, 1)
    box = _Box(
        ((height, row.source), (width, column.source), inner), ((width, column.target), (height, row.target), inner)
    )
    rest = [loop for loop in outer if loop not in crossing]
    work = _lanes(copy, rest, [(column, width), (row, height), (run, unit)], box, lanes, 1)
    dims = ((width, unit), (height, width * unit), *([(unit, 1)] if unit > 1 else []))
    return _planned(width * height * unit, work, dims)


def _sides(columns: int, rows: int, limit: int, longest: int) -> tuple[int, int]:
    """Width and height of a box of about `limit` units, square where both extents allow it."""
    side = min(math.isqrt(limit), longest)
    if columns <= rows:
        width = _tile(columns, side)
        return width, _tile(rows, min(limit // width, longest))
    height = _tile(rows, side)
    return _tile(columns, min(limit // height, longest)), height


def plan_subword(copy: Copy, itemsize: int, lanes: int) -> CopyPlan | str:
    """The plan for a collapsed copy of 1- or 2-byte elements, which cores transpose, or why there is none."""
    per_word = 4 // itemsize
    crossing = _crossing(copy.loops, 1)
    if crossing is None:
        return f"{itemsize}-byte elements would move out of their words of 4 bytes, and it is no transpose"
    column, row = crossing
    if any(loop.extent % per_word for loop in crossing):
        return f"rows of {column.extent} and {row.extent} {itemsize}-byte elements are no multiples of 4 bytes"
    burst = BURST * per_word
    limit = min(max(copy.elements // lanes, TRANSPOSE_ROWS * CORE_LANES), CORE_BOX_BYTES // itemsize, burst * burst)
    side = min(-(-math.isqrt(limit) // CORE_LANES) * CORE_LANES, burst)
    width = _tile(column.extent, side, per_word)
    height = _tile(row.extent, min(limit // width, LONGEST_RUN), per_word)
    if height < TRANSPOSE_ROWS:
        width = _tile(column.extent, min(CHUNK_BYTES // (height * itemsize), LONGEST_RUN), per_word)
    chunk = min(height, max(CHUNK_BYTES // (width * itemsize), TRANSPOSE_ROWS))
    box = _Box(((height, row.source), (width, 1)), ((width, column.target), (height, 1)))
    rest = [loop for loop in copy.loops if loop not in crossing]
    work = _lanes(copy, rest, [(column, width), (row, height)], box, lanes, per_word)
    return _planned(chunk * width // per_word, work, transpose=TransposedBox(height, width, chunk))


def _planned(
    words: int,
    lanes: tuple[tuple[BoxMoves, ...], ...] | None,
    dims: tuple[tuple[int, int], ...] = (),
    transpose: TransposedBox | None = None,
) -> CopyPlan | str:
    if lanes is None:
        return "a step between elements is no multiple of 4 bytes or larger than 4 MiB"
    plan = CopyPlan(words, dims, transpose, lanes)
    return f"it would take {plan.moves} transfers, more than {MOST_MOVES}" if plan.moves > MOST_MOVES else plan
