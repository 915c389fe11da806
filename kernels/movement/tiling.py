"""Plans of copies: boxes of equal size that pairs of shim channels move, transposed in memtiles or cores.

One box is one object of a fifo, or a few. Its sides are powers of four, and its runs powers of two, so that few
binaries serve all shapes. If an extent is not a multiple of the box, the last box overlaps its predecessor. It writes
the same values again in a later phase and needs no second object size. Access patterns iterate over the boxes; loops
that do not fit into their four dimensions become several transfers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Final, NamedTuple

from npu_tensor.dataflow.design import AccessPattern
from npu_tensor.kernels.movement.copies import LONGEST_RUN, Copy, CopyLoop, pattern

MOST_MOVES: Final = 1024
"""Upper bound on pairs of transfers in one design.

Each is about 300 bytes of instructions, which the host sends with every run.
"""
BURST: Final = 64
"""Words of one access to host memory; shorter runs cost nearly as much, see dataflow.cost.RUN_BYTES."""
SMALLEST_BOX, LARGEST_BOX = 256, 4096
"""Bounds on the words of an object: enough to hide the locks, few enough to give every lane some."""
TILE_COST: Final = 16
"""Overhead of a box, in elements of a side; of a run in words, see dataflow.cost.RUN_BYTES."""
LONGEST_SIDE: Final = 512
"""Maximum iterations of one loop of a memtile's DMA."""
CORE_BOX_BYTES, CHUNK_BYTES = 48 << 10, 4 << 10
"""Bytes of a box that a core transposes, and of an object in which it arrives. One box and two objects fit a core."""
TRANSPOSE_ROWS, CORE_LANES = 16, 64
"""Rows that nt/transpose.hpp transposes at once, and a multiple of the columns."""


class BoxMove(NamedTuple):
    """Fill and the drain that takes the same objects out again, in words."""

    fill: AccessPattern
    drain: AccessPattern

    def moved(self, source: int, target: int) -> BoxMove:
        """Return the move shifted in source and target, in words."""
        return BoxMove(self.fill.moved(source), self.drain.moved(target))


class BoxMoves(NamedTuple):
    """One move for each step of `loops`, which shift both of its patterns.

    Attributes:
        phase: The moves begin when those of earlier phases have ended, because they overwrite some of their elements.
        move: Move of the first step.
        loops: Loops over further moves, in words.
    """

    phase: int
    move: BoxMove
    loops: tuple[CopyLoop, ...]

    @property
    def length(self) -> int:
        """Number of moves."""
        return math.prod(loop.extent for loop in self.loops)

    def moved(self, phase: int, source: int, target: int) -> BoxMoves:
        """Return the moves in another phase, shifted in source and target, in words."""
        return BoxMoves(phase, self.move.moved(source, target), self.loops)

    def all(self) -> Iterator[BoxMove]:
        """Iterate over all moves."""
        for steps in product(*(range(loop.extent) for loop in self.loops)):
            pairs = list(zip(steps, self.loops, strict=True))
            source = sum(step * loop.source for step, loop in pairs)
            yield self.move.moved(source, sum(step * loop.target for step, loop in pairs))


class TransposedBox(NamedTuple):
    """Box of `rows` x `columns` elements that a core transposes. It arrives in objects of `chunk` rows."""

    rows: int
    columns: int
    chunk: int


class CopyPlan(NamedTuple):
    """Plan of a copy.

    Attributes:
        words: Words of an object that arrives.
        dims: Order in which a memtile forwards it, as (size, stride) in words; empty if unchanged.
        transpose: Box that a core transposes; None if the object goes through a memtile.
        lanes: Moves of each pair of shim channels.
    """

    words: int
    dims: tuple[tuple[int, int], ...]
    transpose: TransposedBox | None
    lanes: tuple[tuple[BoxMoves, ...], ...]

    @property
    def moves(self) -> int:
        """Number of transfers into the array, equal to those out of it."""
        return sum(moves.length for lane in self.lanes for moves in lane)


def _tile(extent: int, limit: int, least: int = 1, base: int = 4) -> int:
    """Choose a power of `base` that balances size and overlap: at most `limit`, and at least `least` if possible."""
    longest = min(extent, limit)
    bits = base.bit_length() - 1
    tiles = [1 << n for n in range(0, longest.bit_length(), bits) if 1 << n >= least] or [least]
    return min(reversed(tiles), key=lambda tile: -(-extent // tile) * (tile + TILE_COST))


def used_lanes(lanes: int, most: int) -> int:
    """Return the number of lanes used out of those with work: all, or a power of four."""
    return most if lanes >= most else 1 << (lanes.bit_length() - 1) // 2 * 2


class _Box(NamedTuple):
    """Object of a fifo: the (extent, step) loops of the fill and of the drain inside it."""

    fill: tuple[tuple[int, int], ...]
    drain: tuple[tuple[int, int], ...]


def _grid(loop: CopyLoop, tile: int) -> tuple[tuple[int, CopyLoop], ...]:
    """Return the boxes of `tile` iterations as (first iteration, loop over boxes); two entries if the last overlaps."""
    boxes = CopyLoop(loop.extent // tile, loop.source * tile, loop.target * tile)
    last = ((loop.extent - tile, CopyLoop(1, 0, 0)),) if loop.extent % tile else ()
    return ((0, boxes), *last)


def _lanes(
    copy: Copy, outer: Sequence[CopyLoop], tiles: Sequence[tuple[CopyLoop, int]], box: _Box, lanes: int, per_word: int
) -> tuple[tuple[BoxMoves, ...], ...] | None:
    """Distribute all boxes over lanes. tiles: the loops that are cut, with their iterations per box."""
    work: list[list[BoxMoves]] = [[] for _ in range(lanes)]
    # Most shares differ only in their start.
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
    """Cut the loops, largest first, into at most `lanes` shares: per loop, its first iteration and its loop."""
    cuts = []
    for loop in loops:
        parts = min(loop.extent, lanes)
        lanes //= parts
        bounds = [part * loop.extent // parts for part in range(parts + 1)]
        cuts.append([(low, loop._replace(extent=high - low)) for low, high in pairwise(bounds)])
    return list(product(*cuts))


def _moves(loops: Sequence[CopyLoop], box: _Box, per_word: int) -> BoxMoves | None:
    """Fold as many loops over boxes as possible into the access patterns; further loops become several moves."""
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
    """Return the innermost loops of the source and of the target around runs of `unit`, or None."""
    column = next((loop for loop in loops if loop.source == unit), None)
    row = next((loop for loop in loops if loop.target == unit and loop.source > 0), None)
    return (column, row) if column and row and column is not row else None


def plan(copy: Copy, lanes: int) -> CopyPlan | str:
    """Return the plan for a collapsed copy in words on at most `lanes` lanes, or the reason why there is none."""
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
    # Objects in order may be cut anywhere.
    return _planned(_tile(width * height, width * height), work)


def _transposing(
    copy: Copy, outer: list[CopyLoop], crossing: tuple[CopyLoop, CopyLoop], run: CopyLoop, limit: int, lanes: int
) -> CopyPlan | str:
    """Plan boxes that are read along the source's innermost loop and transposed in the memtile, in units of a run."""
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
    """Return width and height of a box of about `limit` units, square if both extents allow it."""
    side = min(math.isqrt(limit), longest)
    if columns <= rows:
        width = _tile(columns, side)
        return width, _tile(rows, min(limit // width, longest))
    height = _tile(rows, side)
    return _tile(columns, min(limit // height, longest)), height


def plan_subword(copy: Copy, itemsize: int, lanes: int) -> CopyPlan | str:
    """Return the plan for a collapsed copy of 1- or 2-byte elements, which cores transpose.

    Returns the reason as a string if there is none.
    """
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
