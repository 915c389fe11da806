"""The drawing of a timeline, as SVG that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import Final

from npu_tensor.runtime.sim.timeline import Span, Timeline

__all__ = ["draw"]

COLOURS: Final = {"compute": "#2f7d4f", "wait": "#e0b04c", "in": "#3f6fb5", "out": "#a2559f"}
MEANINGS: Final = {"compute": "kernel call", "wait": "waiting", "in": "DMA in", "out": "DMA out"}

LABEL: Final = 190
ROW: Final = 16
TOP: Final = 44
"""Pixels: of the names on the left, of one row, and above the rows."""


def draw(timeline: Timeline, width: int) -> str:
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
