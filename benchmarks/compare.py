"""Comparison of two result files: regressions of npu_tensor by the median of warm calls, and missing rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from .peers.npu_tensor import OURS
from .report import MUCH

Key = tuple[str, ...]

CASE: Final = ("suite", "case", "dtype", "shapes")
ENTRANT: Final = ("device", "contender", "kind")

LEFT_OUT: Final = ("suite", "case", "dtype", "size", "device", "contender")

PASSING: Final = ("commit", "date", "others", "versions")
"""Machine fields that are not compared. They differ in every session; contender versions are compared separately."""


class Change(NamedTuple):
    """A pair of rows of npu_tensor.

    Attributes:
        row: New row.
        old: Old median in seconds.
        ratio: New over old median.
        peers: Ratio of the peer that has slowed down least in this case, at least 1; 1 without a peer of equal version.
    """

    row: Mapping[str, Any]
    old: float
    ratio: float
    peers: float

    @property
    def slowdown(self) -> float:
        """Slowdown relative to the peers. A slower machine affects all peers."""
        return self.ratio / self.peers


class Lost(NamedTuple):
    """An old row of npu_tensor that the new session has left out, with the reason."""

    row: Mapping[str, Any]
    reason: str


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return reasons that limit the comparability of two sessions, one line each."""
    lines = []
    before, after = old["machine"], new["machine"]
    for name in sorted((before.keys() & after.keys()) - set(PASSING)):  # An older file may lack fields.
        if before[name] != after[name]:
            lines.append(f"{name}: {before[name]} before, {after[name]} now")
    for name in sorted((old["contenders"].keys() | new["contenders"].keys()) - set(OURS)):
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
    """Yield the change of every row of npu_tensor that both sessions have."""
    before = {_key(row, CASE + ENTRANT): row["p50"] for row in old["rows"]}
    peers: dict[Key, list[float]] = {}
    pairs = [(row, row["p50"] / was) for row in new["rows"] if (was := before.get(_key(row, CASE + ENTRANT)))]
    for row, ratio in pairs:
        contender = row["contender"]
        same = old["contenders"].get(contender) == new["contenders"].get(contender)
        if row["kind"] == "measured" and contender not in OURS and same:
            peers.setdefault(_key(row, CASE), []).append(ratio)
    for row, ratio in pairs:
        if row["contender"] in OURS:
            beside = peers.get(_key(row, CASE), []) if row["kind"] == "measured" else []
            yield Change(row, row["p50"] / ratio, ratio, max(1.0, min(beside, default=1.0)))


def regressions(figures: Iterable[Change], threshold: float) -> list[Change]:
    """Return the rows that are more than `threshold` times slower, worst first."""
    return sorted((change for change in figures if change.slowdown > threshold), key=lambda change: -change.slowdown)


def lost(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Lost]:
    """Yield the old rows of npu_tensor that the new session attempted but left out."""
    still = {_key(row, CASE + ENTRANT) for row in new["rows"]}
    ours = [entry for entry in new["left_out"] if entry["contender"] in OURS]
    for row in old["rows"]:
        if _key(row, CASE + ENTRANT) not in still:
            entry = next((entry for entry in ours if _means(entry, row)), None)
            if entry is not None:
                yield Lost(row, entry["reason"])


def _means(entry: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Return True if an entry about omissions covers this row. An empty string matches all."""
    return all(entry[field] in ("", row[field]) for field in LEFT_OUT)


def _key(row: Mapping[str, Any], fields: tuple[str, ...]) -> Key:
    return tuple(str(row[field]) for field in fields)
