"""Bar chart of npu_tensor's speedup over each peer, by case and measured device."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final, NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ..peers.npu_tensor import JITTED
from ..results import Row
from .rows import Pair, entrant, label
from .style import BLUE, GREEN, HATCH, PURPLE, VERMILION, blank, log_range, octaves

BAR_PIXELS: Final = 11
REST_PIXELS: Final = 165
"""Height of legend, titles and axes in pixels."""

NUMBER_PIXELS: Final = 34
"""Width of a number at the end of a bar or below an axis, in pixels."""

PAGE_PIXELS: Final = 1000
LETTER_PIXELS: Final = 7
"""Approximate widths in pixels: of all columns with the names of the cases, and of a letter in a name."""

COLOURS: Final = {"cpu": (BLUE, GREEN), "npu": (VERMILION, PURPLE)}
"""Colours of recording at every call and of capturing once, by device."""


def plot(pairs: Sequence[Pair]) -> go.Figure:
    """Plot a column per peer and a group of bars per case, on one logarithmic scale. Bars begin at 1.

    A group has a bar for every npu_tensor contender on every device.
    """
    peers = list(dict.fromkeys(pair.peer.contender for pair in pairs))
    ours = {entrant(pair.ours): _colour(pair.ours) for pair in pairs}
    labels = list(dict.fromkeys(label(pair.ours) for pair in pairs))
    ratios = [pair.ratio for pair in pairs]
    width = (PAGE_PIXELS - LETTER_PIXELS * max(map(len, labels))) / len(peers)
    limits = _limits(ratios, width)
    ends = min(*ratios, 0.5), max(*ratios, 2)
    share = math.log10(ends[1] / ends[0]) / (limits[1] - limits[0])
    ticks = octaves(*ends, most=max(2, int(width * share / NUMBER_PIXELS)))
    figure = make_subplots(
        cols=len(peers),
        shared_yaxes=True,
        horizontal_spacing=0.02,
        figure=blank(round((len(ours) + 0.8) * BAR_PIXELS * len(labels)) + REST_PIXELS),
    )
    for name, colour in ours.items():  # The legend shows a plain mark even if the first bar is hatched.
        figure.add_bar(x=[None], y=labels[:1], name=name, legendgroup=name, offsetgroup=name, marker={"color": colour})
    for column, peer in enumerate(peers, 1):
        here = [pair for pair in pairs if pair.peer.contender == peer]
        for name, colour in ours.items():
            figure.add_trace(_bars(name, colour, [pair for pair in here if entrant(pair.ours) == name]), 1, column)
        figure.update_xaxes(
            {"type": "log", "range": limits, "tickvals": ticks, "ticktext": list(map(_mark, ticks)), "tickangle": 0},
            title_text=f"<b>{peer}</b><br>times as fast",
            col=column,
        )
        figure.add_vline(x=1, line_width=1, col=column, row=1)
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=labels, autorange="reversed", ticks="")
    figure.update_layout(bargap=0.3, barmode="group")
    return figure


def _limits(ratios: Sequence[float], width: float) -> list[float]:
    """Return the axis range of a column for plotly, with space for the numbers at the ends of the bars."""
    low, high = log_range([*ratios, 0.8, 1.25])
    room = NUMBER_PIXELS / width
    left, right = (room if min(ratios) < 1 else 0), room
    span = (high - low) / (1 - left - right)
    return [low - left * span, high + right * span]


def _mark(tick: float) -> str:
    return f"{tick:g}" if tick >= 0.1 else f"1/{1 / tick:g}"


def _number(ratio: float) -> str:
    return f"{ratio:.3g}" if ratio < 1000 else f"{ratio:.0f}"


def _colour(row: Row) -> str:
    return COLOURS["cpu" if row.device == "cpu" else "npu"][row.contender == JITTED]


def _bars(name: str, colour: str, pairs: Sequence[Pair]) -> go.Bar:
    return go.Bar(
        name=name,
        legendgroup=name,
        offsetgroup=name,
        showlegend=False,
        orientation="h",
        base=1,
        x=[pair.ratio - 1 for pair in pairs],
        y=[label(pair.ours) for pair in pairs],
        text=[_number(pair.ratio) for pair in pairs],
        textposition="outside",
        textfont={"size": 9},
        cliponaxis=False,
        marker={"color": colour, "pattern": {"shape": ["" if pair.ratio >= 1 else HATCH for pair in pairs]}},
        customdata=[[pair.ratio, pair.ours.p50 * 1e6, pair.peer.p50 * 1e6, entrant(pair.peer)] for pair in pairs],
        hovertemplate="%{y}<br>%{customdata[0]:.2f} times as fast (measured)<br>"
        f"{name}: %{{customdata[1]:,.1f}} us<br>"
        "%{customdata[3]}: %{customdata[2]:,.1f} us<extra></extra>",
    )


class Mean(NamedTuple):
    """Mean speedup of an npu_tensor contender over a peer, without noisy cases.

    Attributes:
        ours: Contender of npu_tensor with its device.
        peer: Peer.
        geometric: Geometric mean; None without cases.
        least: Minimum; None without cases.
        cases: Number of cases.
        noise: Number of excluded noisy cases.
    """

    ours: str
    peer: str
    geometric: float | None
    least: float | None
    cases: int
    noise: int


def means(pairs: Sequence[Pair]) -> list[Mean]:
    """Return a mean for each pair of npu_tensor contender with device, and peer."""
    groups: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((entrant(pair.ours), pair.peer.contender), []).append(pair)
    return [_mean(*names, group) for names, group in groups.items()]


def _mean(ours: str, peer: str, group: Sequence[Pair]) -> Mean:
    ratios = [pair.ratio for pair in group if not pair.is_noise]
    geometric, least = (statistics.geometric_mean(ratios), min(ratios)) if ratios else (None, None)
    return Mean(ours, peer, geometric, least, len(ratios), len(group) - len(ratios))
