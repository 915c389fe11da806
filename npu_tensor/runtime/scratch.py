"""Layout of values with different lifetimes in one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Lifetime(NamedTuple):
    """Size of a value in bytes, the step that makes it and the last step that reads it."""

    nbytes: int
    first: int
    last: int


def laid_out(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Return the offset of each value and the size of the buffer. Places the largest first, as low as possible."""
    offsets = [0] * len(lifetimes)
    living: dict[int, list[int]] = {}  # by step, the values placed so far
    for number in sorted(range(len(lifetimes)), key=lambda number: -lifetimes[number].nbytes):
        nbytes, first, last = lifetimes[number]
        alive = {other for step in range(first, last + 1) for other in living.get(step, ())}
        offset = 0
        for other in sorted(alive, key=offsets.__getitem__):
            if offset + nbytes <= offsets[other]:
                break
            offset = max(offset, offsets[other] + lifetimes[other].nbytes)
        offsets[number] = offset
        for step in range(first, last + 1):
            living.setdefault(step, []).append(number)
    return offsets, max((offset + each.nbytes for offset, each in zip(offsets, lifetimes, strict=True)), default=0)
