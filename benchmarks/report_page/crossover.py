"""Crossover: time of square matrix products over their size, and the size from which an NPU is faster than the CPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import plotly.graph_objects as go

from ..peers.npu_tensor import JITTED, NAME
from ..results import Row
from .rows import OURS
from .style import DASHES, GREY, HOLLOW, colour, one_legend, panels, place

__all__ = ["SWEEP", "Crossing", "crossings", "plot", "points"]

SWEEP: Final = "matmul"
"""The suite of the sweep over sizes."""

SYMBOLS: Final = {
    NAME: "circle",
    JITTED: "square",
    "numpy": "cross",
    "torch": "triangle-up",
    "jax": "diamond",
    "tinygrad": "x",
    "ggml": "pentagon",
}


class Crossing(NamedTuple):
    """From which size on `device`, whose times are of `kind`, is faster than the CPU; seconds: of both there."""

    dtype: str
    device: str
    kind: str
    size: float
    seconds: float


def points(rows: Sequence[Row]) -> list[Row]:
    """The rows of the sweep: of products of n x n by n x n."""
    return [row for row in rows if row.suite == SWEEP and len({n for shape in row.shapes for n in shape}) == 1]


def _size(row: Row) -> int:
    return row.shapes[0][0]


def crossings(rows: Sequence[Row]) -> list[Crossing]:
    """Where each NPU overtakes npu_tensor on the CPU as it was measured, by dtype. rows: as from `points`."""
    times: dict[tuple[str, str, str], dict[int, float]] = {}
    for row in rows:
        if row.contender == NAME:
            times.setdefault((row.dtype, row.device, row.kind), {})[_size(row)] = row.p50
    found = []
    for (dtype, device, kind), npu in times.items():
        cpu = times.get((dtype, "cpu", "measured"), {})
        if device != "cpu" and (where := overtakes(cpu, npu)) is not None:
            found.append(Crossing(dtype, device, kind, *where))
    return found


def overtakes(slower: Mapping[int, float], faster: Mapping[int, float]) -> tuple[float, float] | None:
    """The size from which `faster` stays below `slower`, and the seconds there; None if not between two sizes.

    Both: seconds by size. Between two sizes, a time is taken to be a power of the size.
    """
    sizes = sorted(slower.keys() & faster.keys())
    lead = {size: math.log(slower[size] / faster[size]) for size in sizes}
    for low, high in reversed(list(pairwise(sizes))):
        if lead[high] <= 0:
            return None
        if lead[low] <= 0:
            part = lead[low] / (lead[low] - lead[high])
            return low * (high / low) ** part, slower[low] * (slower[high] / slower[low]) ** part
    return None


def plot(rows: Sequence[Row], found: Sequence[Crossing]) -> go.Figure:
    """A panel per dtype. rows: as from `points`. found: their `crossings`, each marked with a star."""
    dtypes = list(dict.fromkeys(row.dtype for row in rows))
    lines: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in sorted(rows, key=_size):
        lines.setdefault((row.dtype, row.contender, row.device, row.kind), []).append(row)
    figure = panels(dtypes, 400)
    for (dtype, contender, device, kind), members in lines.items():
        figure.add_trace(_line(contender, device, kind, members), *place(dtypes.index(dtype)))
    for number, crossing in enumerate(found):
        # Stars of two generations may lie side by side.
        where = "bottom right" if number % 2 == 0 else "top left"
        figure.add_trace(_star(crossing, where), *place(dtypes.index(crossing.dtype)))
    sizes = sorted(set(map(_size, rows)))
    figure.update_xaxes(type="log", tickvals=sizes, ticktext=list(map(str, sizes)), title_text="n of n x n by n x n")
    figure.update_yaxes(
        type="log", dtick=1, title_text="time", ticksuffix="s", exponentformat="SI", minexponent=0
    )
    one_legend(figure)
    return figure


def _line(contender: str, device: str, kind: str, rows: Sequence[Row]) -> go.Scatter:
    name = f"{contender} on {device}, {kind}"
    ours = contender in OURS
    return go.Scatter(
        x=list(map(_size, rows)),
        y=[row.p50 for row in rows],
        mode="lines+markers",
        name=name,
        line={"color": colour(device) if ours else GREY, "dash": DASHES[kind], "width": 2 if ours else 1},
        marker={"symbol": HOLLOW.get(kind, SYMBOLS.get(contender, "hexagon")), "size": 7, "line": {"width": 1}},
        hovertemplate=f"{name}<br>%{{x}} x %{{x}}: %{{y:.3s}}s<extra></extra>",
    )


def _star(crossing: Crossing, text_position: str) -> go.Scatter:
    return go.Scatter(
        x=[crossing.size],
        y=[crossing.seconds],
        mode="markers+text",
        name=f"crossover of CPU and {crossing.device} ({crossing.kind})",
        marker={"symbol": "star", "size": 15, "color": colour(crossing.device)},
        text=[f"{crossing.size:.0f}"],
        textposition=text_position,
        hovertemplate=f"{crossing.device} ({crossing.kind}) is faster from n = {crossing.size:.0f}<extra></extra>",
    )
