"""How every plot looks: colours, fonts, axes.

Ink and grid get their colours from page.css, which knows whether the page is shown light, dark or on paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

__all__ = [
    "BLUE",
    "DASHES",
    "GREEN",
    "GREY",
    "HATCH",
    "HOLLOW",
    "PURPLE",
    "VERMILION",
    "blank",
    "colour",
    "log_range",
    "octaves",
    "one_legend",
    "panels",
    "place",
]

# From the palette of M. Okabe, K. Ito, "Color Universal Design" (2008), which people with any kind of colour vision
# tell apart. All but blue are darkened: they stand out from a white and from a dark page by 3 to 1, as WCAG 2.2 asks
# of graphics (1.4.11), and white text on blue and vermilion by 4.5 to 1 (1.4.3).
BLUE: Final = "#0072b2"
VERMILION: Final = "#c44f00"
GREEN: Final = "#00875f"
PURPLE: Final = "#b8578c"
GREY: Final = "#7a7f87"

DEVICES: Final = {"cpu": BLUE, "npu1": PURPLE, "npu2": VERMILION}

DASHES: Final = {"measured": "solid", "simulated": "dashdot", "predicted": "dash", "published": "dot"}

HOLLOW: Final = {"simulated": "diamond-open", "predicted": "circle-open", "published": "cross-open"}
"""Markers of what was not measured."""

HATCH: Final = "/"
"""What is slower than its peer."""

PANELS_PER_ROW: Final = 2
LEGEND_PIXELS: Final = 70
TITLE_PIXELS: Final = 26


def colour(device: str) -> str:
    """Of a device: "cpu", "npu1" for a generation, "sim:npu2", "npu:0"."""
    return next((DEVICES[part] for part in reversed(device.split(":")) if part in DEVICES), VERMILION)


def blank(height: int) -> go.Figure:
    """A figure with nothing in it, `height` pixels high and as wide as its place."""
    axis = {"automargin": True, "zeroline": False, "ticks": "outside", "title": {"standoff": 10}}
    return go.Figure(
        layout={
            "template": {"layout": {"xaxis": axis, "yaxis": axis}},
            "height": height,
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": "system-ui, sans-serif", "size": 13},
            "margin": {"l": 10, "r": 40, "t": 20, "b": 10},  # right: the buttons
            "modebar": {"orientation": "v"},
            "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.01, "xanchor": "left", "x": 0},
            "hoverlabel": {"align": "left"},
            "dragmode": False,
        }
    )


def panels(titles: Sequence[str], height: int) -> go.Figure:
    """A figure with a plot per title, each `height` pixels high, on equal axes. `place` says where they are."""
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
    """Row and column of a plot of `panels`, both from 1."""
    return number // PANELS_PER_ROW + 1, number % PANELS_PER_ROW + 1


def one_legend(figure: go.Figure) -> None:
    """Traces of one name, in several panels, share an entry of the legend and are hidden together."""
    seen: set[str] = set()
    for trace in figure.data:
        trace.update(legendgroup=trace.name, showlegend=trace.name not in seen)
        seen.add(trace.name)


def log_range(values: Iterable[float], margin: float = 1.15) -> list[float]:
    """The range of a logarithmic axis around positive values, as plotly takes it: exponents of ten."""
    numbers = list(values)
    return [math.log10(min(numbers) / margin), math.log10(max(numbers) * margin)]


def octaves(smallest: float, largest: float, most: int) -> list[float]:
    """Marks of a logarithmic axis: powers of 2, or of 4, 8, ..., at most so many, with 1 among them if inside."""
    low, high, step = math.ceil(math.log2(smallest)), math.floor(math.log2(largest)), 1
    while high // step + -low // step + 1 > most:
        step += 1
    return [2.0 ** (step * power) for power in range(-(-low // step), high // step + 1)]
