"""Layout of values with different lifetimes in one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Lifetime", "laid_out"]


class Lifetime(NamedTuple):
    """Size of a value in bytes, the step that makes it and the last step that reads it."""

    nbytes: int
    first: int
    last: int


def laid_out(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Return the offset of each value and the size of the buffer. Places the largest first, as low as possible."""
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    for number in sorted(range(len(lifetimes)), key=lambda number: -lifetimes[number].nbytes):
        nbytes, first, last = lifetimes[number]
        alive = [other for other in placed if lifetimes[other].first <= last and first <= lifetimes[other].last]
        offset = 0
        for other in sorted(alive, key=offsets.__getitem__):
            if offset + nbytes <= offsets[other]:
                break
            offset = max(offset, offsets[other] + lifetimes[other].nbytes)
        offsets[number] = offset
        placed.append(number)
    return offsets, max((offsets[number] + lifetimes[number].nbytes for number in placed), default=0)
