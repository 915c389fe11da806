"""Two files of results: what of npu_tensor has become slower."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any, Final, NamedTuple

from .peers.npu_tensor import NAME
from .report import MUCH

__all__ = ["Change", "changes", "differences"]

Key = tuple[str, ...]

CASE: Final = ("suite", "case", "dtype", "shapes")
ENTRANT: Final = ("device", "contender", "kind")

PASSING: Final = ("date", "others")
"""What every session has anew."""


class Change(NamedTuple):
    """A pair of rows of npu_tensor. row: the new one. old: median seconds of the old one.

    ratio: new over old median. peers: the same of the peers in this case, their median; 1 if there are none.
    """

    row: Mapping[str, Any]
    old: float
    ratio: float
    peers: float

    @property
    def slowdown(self) -> float:
        """How many times slower it is, and beside the same peers: a machine that is slower today slows them as well.

        The lesser of the two, because peers that were slow for a moment before are no regression of ours.
        """
        return min(self.ratio, self.ratio / self.peers)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Why the two sessions can hardly be compared, a line each."""
    lines = []
    before, after = old["machine"], new["machine"]
    for name in sorted((before.keys() | after.keys()) - {*PASSING, "versions"}):
        if before.get(name) != after.get(name):
            lines.append(f"{name}: {before.get(name)} before, {after.get(name)} now")
    for name in sorted((old["contenders"].keys() | new["contenders"].keys()) - {NAME}):
        was, is_ = (session["contenders"].get(name, "not measured") for session in (old, new))
        if was != is_:
            lines.append(f"{name}: {was} before, {is_} now")
    for when, machine in (("before", before), ("now", after)):
        if (machine["others"] or 0) > MUCH:
            lines.append(f"others: other processes used {machine['others']:.2f} cores {when}")
    if old["quick"] != new["quick"]:
        lines.append("one of the two was measured with --quick")
    return lines


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Of every row of npu_tensor that both have."""
    before = {_key(row, CASE + ENTRANT): row["p50"] for row in old["rows"]}
    peers: dict[Key, list[float]] = {}
    pairs = [(row, row["p50"] / was) for row in new["rows"] if (was := before.get(_key(row, CASE + ENTRANT)))]
    for row, ratio in pairs:
        if row["kind"] == "measured" and not _is_ours(row):
            peers.setdefault(_key(row, CASE), []).append(ratio)
    for row, ratio in pairs:
        if _is_ours(row):
            beside = peers.get(_key(row, CASE), []) if row["kind"] == "measured" else []
            yield Change(row, row["p50"] / ratio, ratio, median(beside) if beside else 1.0)


def _key(row: Mapping[str, Any], fields: tuple[str, ...]) -> Key:
    return tuple(str(row[field]) for field in fields)


def _is_ours(row: Mapping[str, Any]) -> bool:
    return str(row["contender"]).startswith(NAME)
