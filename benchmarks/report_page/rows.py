"""Rows of a session in the form for the plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from ..peers.npu_tensor import OURS
from ..results import Row


def read(results: Mapping[str, Any]) -> list[Row]:
    """Return the rows of results in the format of schema.json."""
    return [Row(**row) for row in results["rows"]]


def label(row: Row) -> str:
    """Return case, size and dtype of a row."""
    return " ".join(filter(None, (row.case, row.size, row.dtype)))


def entrant(row: Row) -> str:
    """Return contender and device of a row."""
    return f"{row.contender} on {row.device}"


def intensity(row: Row) -> float | None:
    """Return the operations per byte; None if either is unknown or zero."""
    return row.flops / row.bytes if row.flops and row.bytes else None


NOISY: Final = 2.0
"""Upper bound on the ratio of 95th percentile to median of a reliable row."""


def is_noise(row: Row) -> bool:
    """Return True if the runs of a row differ too much for a reproducible median."""
    return row.p95 is not None and row.p95 > NOISY * row.p50


class Pair(NamedTuple):
    """Measured rows of npu_tensor and of a peer with the same work in the same session."""

    ours: Row
    peer: Row

    @property
    def ratio(self) -> float:
        """Speedup of npu_tensor over the peer, by medians."""
        return self.peer.p50 / self.ours.p50

    @property
    def is_noise(self) -> bool:
        """True if one of the two rows is noise."""
        return is_noise(self.ours) or is_noise(self.peer)


def pairs(rows: Iterable[Row]) -> list[Pair]:
    """Pair every measured row of npu_tensor with every measured row of a peer on the same work."""
    by_work: dict[object, list[Row]] = {}
    for row in rows:
        if row.kind == "measured":
            by_work.setdefault((row.suite, row.case, row.dtype, str(row.shapes)), []).append(row)
    return [
        Pair(ours, peer)
        for members in by_work.values()
        for ours in members
        if ours.contender in OURS
        for peer in members
        if peer.contender not in OURS
    ]
