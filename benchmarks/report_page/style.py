"""Common style of the plots: colours, fonts, axes.

Ink and grid get their colours from page.css, which distinguishes light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

# Palette of M. Okabe, K. Ito, "Color Universal Design" (2008), distinguishable with any kind of colour vision. All but
# blue are darkened to reach the contrasts of WCAG 2.2: 3 to 1 on white and dark pages (1.4.11, graphics), and 4.5 to 1
# for white text on blue and vermilion (1.4.3).
BLUE: Final = "#0072b2"
VERMILION: Final = "#c44f00"
GREEN: Final = "#00875f"
PURPLE: Final = "#b8578c"
GREY: Final = "#7a7f87"

DEVICES: Final = {"cpu": BLUE, "npu1": PURPLE, "npu2": VERMILION}

DASHES: Final = {"measured": "solid", "simulated": "dashdot", "predicted": "dash", "published": "dot"}

HOLLOW: Final = {"simulated": "diamond-open", "predicted": "circle-open", "published": "cross-open"}
"""Markers of figures that were not measured."""

HATCH: Final = "/"
"""Pattern of bars that are slower than the peer."""

PANELS_PER_ROW: Final = 2
LEGEND_PIXELS: Final = 70
TITLE_PIXELS: Final = 26


def colour(device: str) -> str:
    """Return the colour of a device: "cpu", "npu1" for a generation, "sim:npu2", "npu:0"."""
    return next((DEVICES[part] for part in reversed(device.split(":")) if part in DEVICES), VERMILION)


def blank(height: int) -> go.Figure:
    """Create an empty figure, `height` pixels high and as wide as its container."""
    axis = {"automargin": True, "zeroline": False, "ticks": "outside", "title": {"standoff": 10}}
    return go.Figure(
        layout={
            "template": {"layout": {"xaxis": axis, "yaxis": axis}},
            "height": height,
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": "system-ui, sans-serif", "size": 13},
            "margin": {"l": 10, "r": 40, "t": 20, "b": 10},  # The right margin holds the buttons.
            "modebar": {"orientation": "v"},
            "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.01, "xanchor": "left", "x": 0},
            "hoverlabel": {"align": "left"},
            "dragmode": False,
        }
    )


def panels(titles: Sequence[str], height: int) -> go.Figure:
    """Create a figure with a plot per title, each `height` pixels high, on equal axes. See `place`."""
    rows = math.ceil(len(titles) / PANELS_PER_ROW)
    figure = make_subplots(
        rows,
        min(PANELS_PER_ROW, len(titles)),
        shared_xaxes="all",
        shared_yaxes="all",
        horizontal_spacing=0.06,
        vertical_spacing=0.2 / rows,
        figure=blank(rows * height + LEGEND_PIXELS),
    )
    for number, title in enumerate(titles):
        row, column = place(number)
        above = {"xref": "x domain", "yref": "y domain", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"}
        figure.add_annotation(above, text=f"<b>{title}</b>", showarrow=False, row=row, col=column)
    figure.update_layout(legend_y=1 + TITLE_PIXELS / (rows * height))
    return figure


def place(number: int) -> tuple[int, int]:
    """Return row and column of a plot of `panels`, counted from 1."""
    return number // PANELS_PER_ROW + 1, number % PANELS_PER_ROW + 1


def one_legend(figure: go.Figure) -> None:
    """Make traces of one name in several panels share a legend entry, which hides them together."""
    seen: set[str] = set()
    for trace in figure.data:
        trace.update(legendgroup=trace.name, showlegend=trace.name not in seen)
        seen.add(trace.name)


def log_range(values: Iterable[float], margin: float = 1.15) -> list[float]:
    """Return the range of a logarithmic axis around positive values for plotly, as exponents of ten."""
    numbers = list(values)
    return [math.log10(min(numbers) / margin), math.log10(max(numbers) * margin)]


def octaves(smallest: float, largest: float, most: int) -> list[float]:
    """Return at most `most` tick marks of a logarithmic axis: powers of 2, 4, 8, ..., including 1 if inside."""
    low, high, step = math.ceil(math.log2(smallest)), math.floor(math.log2(largest)), 1
    while high // step + -low // step + 1 > most:
        step += 1
    return [2.0 ** (step * power) for power in range(-(-low // step), high // step + 1)]
