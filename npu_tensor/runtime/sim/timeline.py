"""What every tile of a simulated array does when: kernel calls, waiting, and what its DMA channels move.

    with timeline.recorded() as timelines:
        (x @ w).realize()
    print(timelines[0])         # timelines[0].rows, .svg()

Simulated, never measured: see `clocks` for the model and what it leaves out.
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

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
        lanes: defaultdict[tuple[Tile, str], list[Span]] = defaultdict(list)
        for span in self.spans:
            lanes[span.tile, span.lane].append(span)
        return dict(sorted(lanes.items(), key=lambda item: (item[0][0], item[0][1] != "core", item[0][1])))

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
        return _draw(self, width)

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


# --- the drawing, as SVG that needs nothing else

COLOURS: Final = {"compute": "#2f7d4f", "wait": "#e0b04c", "in": "#3f6fb5", "out": "#a2559f"}
MEANINGS: Final = {"compute": "kernel call", "wait": "waiting", "in": "DMA in", "out": "DMA out"}

LABEL: Final = 190
ROW: Final = 16
TOP: Final = 44
"""Pixels: of the names on the left, of one row, and above the rows."""


def _draw(timeline: Timeline, width: int) -> str:
    """One row per lane, and a legend. Spans of one kind that are too narrow to be told apart are drawn as one."""
    lanes = timeline.lanes()
    scale = max(1, width - LABEL) / max(1, timeline.cycles)
    height = TOP + ROW * len(lanes) + 20
    title = f"{timeline.design}: {timeline.cycles:,} simulated cycles, {timeline.seconds * 1e6:.1f} us"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11" role="img">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="4" y="14" font-weight="bold">{html.escape(title)}</text>',
    ]
    for number, (kind, colour) in enumerate(COLOURS.items()):
        x = LABEL + 100 * number
        parts.append(f'<rect x="{x}" y="22" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 14}" y="31">{MEANINGS[kind]}</text>')
    for number, ((tile, lane), spans) in enumerate(lanes.items()):
        y = TOP + ROW * number
        label = str(tile) if lane == "core" else f"{tile} {lane}"
        parts.append(f'<text x="4" y="{y + 12}">{html.escape(label)}</text>')
        parts.append(f'<rect x="{LABEL}" y="{y + 2}" width="{width - LABEL}" height="{ROW - 4}" fill="#eeeeee"/>')
        for first, last, count, cycles in _merged(spans, 0.5 / scale):
            what = f"{MEANINGS[first.kind]}: {first.what}" if count == 1 else f"{MEANINGS[first.kind]}, {count} times"
            tip = f"{what}, cycles {first.start:,} to {last.end:,}" + (f", {cycles:,} of them" if count > 1 else "")
            parts.append(
                f'<rect x="{LABEL + first.start * scale:.2f}" y="{y + 2}" '
                f'width="{(last.end - first.start) * scale:.2f}" height="{ROW - 4}" fill="{COLOURS[first.kind]}">'
                f"<title>{html.escape(tip)}</title></rect>"
            )
    y = TOP + ROW * len(lanes) + 12
    parts.append(f'<text x="{LABEL}" y="{y}">0</text>')
    parts.append(f'<text x="{width - 4}" y="{y}" text-anchor="end">{timeline.cycles:,} cycles</text></svg>')
    return "".join(parts)


def _merged(spans: Sequence[Span], least: float) -> Iterator[tuple[Span, Span, int, int]]:
    """First and last of spans that are drawn as one, how many they are, and their cycles.

    least: of a gap or span that can be seen, in cycles.
    """
    first = last = None
    count = cycles = 0
    for span in spans:
        if first is not None and last is not None:
            close = span.start - last.end < least and (span.cycles < least or last.cycles < least)
            if close and span.kind == first.kind:
                last, count, cycles = span, count + 1, cycles + span.cycles
                continue
            yield first, last, count, cycles
        first = last = span
        count, cycles = 1, span.cycles
    if first is not None and last is not None:
        yield first, last, count, cycles
