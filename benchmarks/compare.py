"""Two files of results: what of npu_tensor has become slower, by the median of warm calls, or is left out now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from .peers.npu_tensor import OURS
from .report import MUCH

__all__ = ["Change", "Lost", "changes", "differences", "lost", "regressions"]

Key = tuple[str, ...]

CASE: Final = ("suite", "case", "dtype", "shapes")
ENTRANT: Final = ("device", "contender", "kind")

LEFT_OUT: Final = ("suite", "case", "dtype", "size", "device", "contender")

PASSING: Final = ("commit", "date", "others", "versions")
"""What every session has anew, and versions: those of the contenders are compared."""


class Change(NamedTuple):
    """A pair of rows of npu_tensor. row: the new one. old: median seconds of the old one.

    ratio: new over old median. peers: the same of the peer in this case that has slowed down least, and not less than
    1; 1 if there is no peer, or none of the same version.
    """

    row: Mapping[str, Any]
    old: float
    ratio: float
    peers: float

    @property
    def slowdown(self) -> float:
        """How many times slower it is beside the peers: a machine that is slower today slows every one of them."""
        return self.ratio / self.peers


class Lost(NamedTuple):
    """An old row of npu_tensor which the new session has left out, and why."""

    row: Mapping[str, Any]
    reason: str


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Why the two sessions can hardly be compared, a line each."""
    lines = []
    before, after = old["machine"], new["machine"]
    for name in sorted((before.keys() & after.keys()) - set(PASSING)):  # An older file may not tell.
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
    """Of every row of npu_tensor that both have."""
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
    """What is more than `threshold` times slower, the worst first."""
    return sorted((change for change in figures if change.slowdown > threshold), key=lambda change: -change.slowdown)


def lost(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Lost]:
    """The old rows of npu_tensor that the new session wanted to have and has not; not those it was not asked for."""
    still = {_key(row, CASE + ENTRANT) for row in new["rows"]}
    ours = [entry for entry in new["left_out"] if entry["contender"] in OURS]
    for row in old["rows"]:
        if _key(row, CASE + ENTRANT) not in still:
            entry = next((entry for entry in ours if _means(entry, row)), None)
            if entry is not None:
                yield Lost(row, entry["reason"])


def _means(entry: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether what was left out is this row. An empty string stands for all."""
    return all(entry[field] in ("", row[field]) for field in LEFT_OUT)


def _key(row: Mapping[str, Any], fields: tuple[str, ...]) -> Key:
    return tuple(str(row[field]) for field in fields)
