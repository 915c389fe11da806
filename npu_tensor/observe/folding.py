"""Folding of long op tables. Repeated blocks, such as loop iterations, are shown once with a count."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import Final, NamedTuple

MOST_ROWS: Final = 50
"""Maximum number of rows in a table that is not folded."""

LEAST_COUNT: Final = 3
"""Minimum number of repetitions before a block is folded."""

MOST_TRIED: Final = 16
"""Maximum number of block lengths tried per start. A block may end where its first row recurs."""

_VARIES: Final = frozenset({"#", "origin", "launch", "measured"})
"""Columns that may differ between repetitions of a block."""

_FUSED: Final = re.compile(r"(?<=^fused into )#\d+$")
"""Pattern of the number of a kernel's last row, which differs between repetitions."""


class _Repeat(NamedTuple):
    part: tuple[Hashable, ...]
    times: int


def folded(columns: Sequence[Sequence[str]]) -> list[list[str]]:
    """Fold repeated blocks of a table and add a row with the count below each.

    The first repetition represents all. Columns start with their headings, of which "#", "op" and "out" are required.
    """
    headings = [column[0] for column in columns]
    rows = list(zip(*(column[1:] for column in columns), strict=True))
    if len(rows) <= MOST_ROWS:
        return [list(column) for column in columns]
    same = [number for number, heading in enumerate(headings) if heading not in _VARIES]
    keys = [tuple(_FUSED.sub("", row[each]) for each in same) for row in rows]
    shown = [rows[entry] if isinstance(entry, int) else _note(headings, *entry) for entry in _entries(_fold(keys), 0)]
    return [[heading, *cells] for heading, *cells in zip(headings, *shown, strict=True)]


def _fold(keys: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """Replace repeated blocks of keys by `_Repeat`, recursively."""
    places = defaultdict(list)
    for place, key in enumerate(keys):
        places[key].append(place)
    entries: list[Hashable] = []
    start = 0
    while start < len(keys):
        again = places[keys[start]]
        after = bisect_right(again, start)
        period, count = max(
            ((place - start, _count(keys, start, place - start)) for place in again[after : after + MOST_TRIED]),
            key=lambda each: each[0] * (each[1] - 1),
            default=(1, 1),
        )
        if count < LEAST_COUNT:
            period = count = 1
        part = tuple(keys[start : start + period])
        entries.append(_Repeat(_fold(part), count) if count > 1 else part[0])
        start += period * count
    return tuple(entries)


def _count(keys: Sequence[Hashable], start: int, period: int) -> int:
    """Count the consecutive repetitions of the block at `start` with length `period`."""
    end = start + period
    while end < len(keys) and keys[end] == keys[end - period]:
        end += 1
    return (end - start) // period


def _length(entry: Hashable) -> int:
    return entry.times * sum(map(_length, entry.part)) if isinstance(entry, _Repeat) else 1


def _entries(entries: Sequence[Hashable], number: int) -> Iterator[int | tuple[int, int, int]]:
    """Yield row numbers, and (first row, last row, count) after each folded block."""
    for entry in entries:
        if isinstance(entry, _Repeat):
            yield from _entries(entry.part, number)
            yield number, number + sum(map(_length, entry.part)) - 1, entry.times
        else:
            yield number
        number += _length(entry)


def _note(headings: Sequence[str], first: int, last: int, count: int) -> list[str]:
    words = {"op": f"{count - 1} x more", "out": f"#{first}" if first == last else f"#{first} to #{last}"}
    return [words.get(heading, "") for heading in headings]
