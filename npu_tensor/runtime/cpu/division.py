"""Division of a loop's items among threads, which claim a grain of them at a time."""

from __future__ import annotations

from typing import Final, NamedTuple

_MANY_ROUNDS: Final = 8
"""Rounds of claims after which the last one is at most an eighth of the work."""


class Division(NamedTuple):
    """Items of a loop, and how many of them a thread claims at a time."""

    items: int
    grain: int

    def largest_share(self, threads: int) -> float:
        """Return the largest share of a thread by the mean, if all items take the same time."""
        pieces = -(-self.items // self.grain)
        return -(-pieces // threads) * min(self.grain, self.items) * threads / self.items


def even_grain(items: int, usual: int, threads: int) -> int:
    """Return a grain near `usual`, from half of it to a quarter more, with shares that are as equal as possible."""
    rounds = -(-items // (usual * threads))
    if threads == 1 or not 0 < rounds < _MANY_ROUNDS:
        return usual
    grains = {usual, *(-(-items // (threads * count)) for count in range(max(1, rounds - 1), 2 * rounds + 1))}
    allowed = [grain for grain in grains if 2 * grain >= usual and 4 * grain <= 5 * usual]
    return min(allowed, key=lambda grain: (Division(items, grain).largest_share(threads), -grain))
