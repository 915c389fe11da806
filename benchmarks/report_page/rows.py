"""The rows of a session as the plots need them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from ..peers.npu_tensor import OURS
from ..results import Row

__all__ = ["NOISY", "Pair", "device_name", "entrant", "intensity", "label", "pairs", "read"]


def read(results: Mapping[str, Any]) -> list[Row]:
    """The rows of what schema.json describes."""
    return [Row(**row) for row in results["rows"]]


def label(row: Row) -> str:
    """What was computed, on what."""
    return " ".join(filter(None, (row.case, row.size, row.dtype)))


def entrant(row: Row) -> str:
    """Who computed it, and where."""
    return f"{row.contender} on {row.device}"


def intensity(row: Row) -> float | None:
    """Operations per byte; None if either is unknown or zero."""
    return row.flops / row.bytes if row.flops and row.bytes else None


def device_name(device: str) -> str:
    """As a reader knows it. Predictions are for a generation of NPUs, by its name."""
    return {"cpu": "CPU", "npu1": "NPU, first generation (npu1)", "npu2": "NPU, second generation (npu2)"}.get(
        device, device
    )


NOISY: Final = 2.0
"""How many times its median the 95th percentile of a row must be for the row to say little."""


def is_noise(row: Row) -> bool:
    """Whether the runs of a row differ so much that its median may be another one in the next session."""
    return row.p95 is not None and row.p95 > NOISY * row.p50


class Pair(NamedTuple):
    """A row of npu_tensor and one of a peer that computed the same in the same session, both measured."""

    ours: Row
    peer: Row

    @property
    def ratio(self) -> float:
        """How many times as fast ours is, by medians."""
        return self.peer.p50 / self.ours.p50

    @property
    def is_noise(self) -> bool:
        """Whether one of the two rows is."""
        return is_noise(self.ours) or is_noise(self.peer)


def pairs(rows: Iterable[Row]) -> list[Pair]:
    """Every measured row of npu_tensor with every measured row of a peer on the same work."""
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
