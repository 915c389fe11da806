"""What every tile of a simulated array does when: kernel calls, waiting, and what its DMA channels move.

    with timeline.recorded() as found:
        (x @ w).realize()
    print(found[0])             # found[0].rows, .svg()

Simulated, never measured: see `clocks` for the model and what it leaves out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple

from npu_tensor.dataflow.array import Array, Tile
from npu_tensor.dataflow.design import Design

__all__ = ["Span", "Timeline", "earlier", "keep", "recorded", "wanted"]


class Span(NamedTuple):
    """Something that a tile did, from cycle `start` to before cycle `end` of a run.

    lane: "core", or the DMA channel of a fifo's end as in "x0 in" and "x0 out". kind: "compute", a kernel call, `what`
    is its symbol; "wait", for objects or room in the fifo `what`; "in" or "out", bytes of the fifo `what` through the
    channel into the tile's memory or out of it. The memory of a shim is the host's.
    """

    tile: Tile
    lane: str
    kind: Literal["compute", "wait", "in", "out"]
    what: str
    start: int
    end: int

    @property
    def cycles(self) -> int:
        """How long it took."""
        return self.end - self.start


@dataclass(frozen=True, repr=False)
class Timeline:
    """One simulated run of a design, of `cycles` in all. spans: by tile and lane, in order of time."""

    design: str
    array: Array
    cycles: int
    spans: tuple[Span, ...]

    @property
    def seconds(self) -> float:
        """Simulated time of the run at the array's clock, without the dispatch."""
        return self.cycles / self.array.clock_hz

    @property
    def rows(self) -> list[dict[str, object]]:
        """One dict per span, as pandas.DataFrame takes them."""
        return [
            {"column": span.tile.column, "row": span.tile.row, **span._asdict(), "tile": str(span.tile)}
            for span in self.spans
        ]

    def lanes(self) -> dict[tuple[Tile, str], list[Span]]:
        """The spans of each lane; a tile's core first, then its channels."""
        found: defaultdict[tuple[Tile, str], list[Span]] = defaultdict(list)
        for span in self.spans:
            found[span.tile, span.lane].append(span)
        return dict(sorted(found.items(), key=lambda item: (item[0][0], item[0][1] != "core", item[0][1])))

    def columns(self) -> dict[int, int]:
        """Cycles that the busiest core of each column computes."""
        busy = {span.tile.column: 0 for span in self.spans}
        for (tile, lane), spans in self.lanes().items():
            if lane == "core":
                computing = sum(span.cycles for span in spans if span.kind == "compute")
                busy[tile.column] = max(busy[tile.column], computing)
        return dict(sorted(busy.items()))

    def __str__(self) -> str:
        lines = [f"{self.design} on {self.array.device}: {self.cycles:,} simulated cycles, {self.seconds * 1e6:.1f} us"]
        for (tile, lane), spans in self.lanes().items():
            kinds: defaultdict[str, int] = defaultdict(int)
            for span in spans:
                kinds[span.kind] += span.cycles
            shares = ", ".join(f"{kind} {cycles / self.cycles:.0%}" for kind, cycles in kinds.items())
            lines.append(f"  {tile!s:14} {lane:16} {len(spans):6} spans  {shares}")
        return "\n".join(lines)

    __repr__ = __str__

    def svg(self, width: int = 960) -> str:
        """A drawing: one row per core and DMA channel, time to the right. Point at a span to read what it is."""
        from npu_tensor.runtime.sim.timeline_drawing import draw

        return draw(self, width)

    def _repr_html_(self) -> str:
        return self.svg()


class _Recording:
    """What one `recorded` has found. The designs stay, so that another one is not taken for one of them."""

    def __init__(self) -> None:
        self.timelines: list[Timeline] = []
        self.designs: dict[int, tuple[Design, Timeline]] = {}


_recordings: list[_Recording] = []


def wanted(design: Design) -> bool:
    """Whether somebody wants the timeline of the next run of a design."""
    return bool(_recordings) and any(id(design) not in recording.designs for recording in tuple(_recordings))


def keep(design: Design, timeline: Timeline) -> None:
    """Give the timeline of a design's run to those who want it."""
    for recording in tuple(_recordings):
        if id(design) not in recording.designs:
            recording.designs[id(design)] = design, timeline
            recording.timelines.append(timeline)


def earlier(design: Design) -> Timeline | None:
    """The timeline of an earlier run of a design, for those who record now."""
    for recording in tuple(_recordings):
        if id(design) in recording.designs:
            return recording.designs[id(design)][1]
    return None


@contextmanager
def recorded() -> Iterator[list[Timeline]]:
    """Record the first run of every design on simulated arrays during a with block, in all threads.

    The list gets one Timeline per design, in the order in which they ran; later runs of a design take the same course.
    """
    recording = _Recording()
    _recordings.append(recording)
    try:
        yield recording.timelines
    finally:
        _recordings.remove(recording)
