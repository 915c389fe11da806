"""Timeline of every tile of a simulated array: kernel calls, waits, and transfers of its DMA channels.

    with timeline.recorded() as timelines:
        (x @ w).realize()
    print(timelines[0])         # timelines[0].rows, .svg()

Simulated, never measured: see `clocks` for the model and its omissions.
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


class Span(NamedTuple):
    """Activity of a tile from cycle `start` to before cycle `end` of a run.

    Attributes:
        tile: Tile of the activity. The memory of a shim is the host's.
        lane: "core", or the DMA channel of a fifo's end as in "x0 in" and "x0 out".
        kind: "compute" for a kernel call; "wait" for objects or room; "in" or "out" for bytes that pass through the
            channel into or out of the tile's memory.
        what: Symbol of the function that is called, or name of the fifo.
        start: First cycle.
        end: Cycle after the last one.
    """

    tile: Tile
    lane: str
    kind: Literal["compute", "wait", "in", "out"]
    what: str
    start: int
    end: int

    @property
    def cycles(self) -> int:
        """Duration in cycles."""
        return self.end - self.start


@dataclass(frozen=True, repr=False)
class Timeline:
    """One simulated run of a design, with `cycles` in total. spans: by tile and lane, in order of time."""

    design: str
    array: Array
    cycles: int
    spans: tuple[Span, ...]

    @property
    def seconds(self) -> float:
        """Simulated time of the run at the array's clock, in seconds, without the dispatch."""
        return self.cycles / self.array.clock_hz

    @property
    def rows(self) -> list[dict[str, object]]:
        """Spans as dicts, the format of pandas.DataFrame."""
        return [
            {"column": span.tile.column, "row": span.tile.row, **span._asdict(), "tile": str(span.tile)}
            for span in self.spans
        ]

    def lanes(self) -> dict[tuple[Tile, str], list[Span]]:
        """Return the spans of each lane; a tile's core first, then its channels."""
        lanes: defaultdict[tuple[Tile, str], list[Span]] = defaultdict(list)
        for span in self.spans:
            lanes[span.tile, span.lane].append(span)
        return dict(sorted(lanes.items(), key=lambda item: (item[0][0], item[0][1] != "core", item[0][1])))

    def columns(self) -> dict[int, int]:
        """Return the cycles that the busiest core of each column computes."""
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
        """Draw the timeline: one row per core and DMA channel, time to the right. Spans have tooltips."""
        return _draw(self, width)

    def _repr_html_(self) -> str:
        return self.svg()


class _Recording:
    """Results of one `recorded` block. The designs are kept alive, so that no other design gets the same id."""

    def __init__(self) -> None:
        self.timelines: list[Timeline] = []
        self.designs: dict[int, tuple[Design, Timeline]] = {}


_recordings: list[_Recording] = []


def wanted(design: Design) -> bool:
    """Return True if a recording needs the timeline of the next run of a design."""
    return bool(_recordings) and any(id(design) not in recording.designs for recording in tuple(_recordings))


def keep(design: Design, timeline: Timeline) -> None:
    """Add the timeline of a design's run to all active recordings."""
    for recording in tuple(_recordings):
        if id(design) not in recording.designs:
            recording.designs[id(design)] = design, timeline
            recording.timelines.append(timeline)


def earlier(design: Design) -> Timeline | None:
    """Return the timeline of an earlier run of a design from the active recordings."""
    for recording in tuple(_recordings):
        if id(design) in recording.designs:
            return recording.designs[id(design)][1]
    return None


@contextmanager
def recorded() -> Iterator[list[Timeline]]:
    """Record the first run of every design on simulated arrays during a with block, in all threads.

    The list gets one Timeline per design, in the order of their runs. Later runs of a design take the same course.
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
"""Sizes in pixels: width of the names on the left, height of a row, and space above the rows."""


def _draw(timeline: Timeline, width: int) -> str:
    """Draw one row per lane, and a legend. Adjacent spans of one kind that are too narrow are drawn as one."""
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
    """Yield the first and last span of each group that is drawn as one, the group's size, and its cycles.

    least: length of a gap or span that is visible, in cycles.
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
