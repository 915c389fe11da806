"""Strided copies as nested loops, and the access patterns of shim tiles for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Final, NamedTuple

from npu_tensor.dataflow.checks.limits import ITERATIONS, LIMITS
from npu_tensor.dataflow.design import AccessPattern
from npu_tensor.ops.layouts import merged

LONGEST_RUN: Final = LIMITS["shim"].wrap
"""Maximum size of either of the two inner dimensions of an access pattern, in words."""


class CopyLoop(NamedTuple):
    """One loop of a copy: its extent, and the step in the source and in the target. A source step of 0 repeats."""

    extent: int
    source: int
    target: int


class Copy(NamedTuple):
    """Nested loops, outermost first, and the start of both sides; in elements."""

    loops: tuple[CopyLoop, ...]
    source: int
    target: int

    @property
    def elements(self) -> int:
        """Number of elements that are written."""
        return math.prod(loop.extent for loop in self.loops)


def collapse(copy: Copy) -> Copy:
    """Return the copy with as few loops as possible: single iterations are dropped and contiguous loops merged."""
    extents, (sources, targets) = merged(
        [loop.extent for loop in copy.loops],
        [[loop.source for loop in copy.loops], [loop.target for loop in copy.loops]],
    )
    return copy._replace(loops=tuple(map(CopyLoop, extents, sources, targets)))


def in_words(copy: Copy, itemsize: int) -> Copy | None:
    """Convert a collapsed copy to words of 4 bytes; return None if parts of words would have to move."""
    if itemsize >= 4:
        words = itemsize // 4
        loops = [CopyLoop(loop.extent, loop.source * words, loop.target * words) for loop in copy.loops]
        return collapse(Copy((*loops, CopyLoop(words, 1, 1)), copy.source * words, copy.target * words))
    per_word = 4 // itemsize
    if not copy.loops or copy.loops[-1].source != 1 or copy.loops[-1].target != 1:
        return None
    *outer, run = copy.loops
    steps = [step for loop in outer for step in (loop.source, loop.target)]
    if any(number % per_word for number in (copy.source, copy.target, run.extent, *steps)):
        return None
    loops = [CopyLoop(loop.extent, loop.source // per_word, loop.target // per_word) for loop in outer]
    return collapse(
        Copy(
            (*loops, CopyLoop(run.extent // per_word, 1, 1)),
            copy.source // per_word,
            copy.target // per_word,
        )
    )


def pattern(offset: int, loops: Sequence[tuple[int, int]], per_word: int) -> AccessPattern | None:
    """Return an access pattern in words for nested (extent, step) loops over elements, or None if the DMA has none."""
    extents, (steps,) = merged([extent for extent, _ in loops], [[step for _, step in loops]])
    dims = list(zip(extents, steps, strict=True)) or [(1, 1)]
    if per_word > 1:
        *outer, (extent, step) = dims
        if step != 1 or any(number % per_word for number in (offset, extent, *(step for _, step in outer))):
            return None
        offset //= per_word
        dims = [*((extent, step // per_word) for extent, step in outer), (extent // per_word, 1)]
    if len(dims) == 1 and dims[0][1] == 1:
        return AccessPattern.linear(dims[0][0], offset)
    if dims[-1][1] == 1 and dims[-1][0] > LONGEST_RUN:
        extent = dims.pop()[0]
        piece = largest_divisor(extent, LONGEST_RUN)
        dims += [(extent // piece, piece), (piece, 1)]
    for slots in combinations((3, 2, 1, 0), len(dims)):
        sizes, strides = [1, 1, 1, 1], [0, 0, 0, 1]
        for slot, (extent, step) in zip(reversed(slots), dims, strict=True):
            sizes[slot], strides[slot] = extent, step
        if _allowed(sizes, strides):
            a, b, c, d = zip(sizes, strides, strict=True)
            return AccessPattern(offset, (a[0], b[0], c[0], d[0]), (a[1], b[1], c[1], d[1]))
    return None


def _allowed(sizes: list[int], strides: list[int]) -> bool:
    """Return True if a shim's DMA supports the pattern; dataflow.checks.patterns has the reasons."""
    return (
        sizes[0] <= ITERATIONS
        and sizes[2] <= LONGEST_RUN
        and sizes[3] <= LONGEST_RUN
        and all(stride <= LIMITS["shim"].stride for stride in strides)
        and strides[0] >= 0
        and (strides[3] == 1 or sizes[1:3] != [1, 1])
        and all(stride > 0 or size == 1 for size, stride in zip(sizes[1:], strides[1:], strict=True))
    )


def largest_divisor(number: int, limit: int) -> int:
    """Return the largest divisor of a number that is at most `limit`."""
    return next(divisor for divisor in range(min(number, limit), 0, -1) if number % divisor == 0)
