"""Roofline: achieved GFLOP/s over arithmetic intensity, with the ceilings of the devices.

S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model" (2009).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from ..peers.npu_tensor import JITTED, OURS
from ..results import Row
from .rows import intensity, label
from .style import HOLLOW, colour, log_range, one_legend, panels, place


def points(rows: Sequence[Row]) -> list[Row]:
    """Return the rows to plot: those of npu_tensor with known operations and bytes."""
    return [row for row in rows if row.contender in OURS and intensity(row)]


def plot(rows: Sequence[Row], ceilings: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Plot a panel per dtype for the rows of `points`. Markers of unmeasured rows are hollow."""
    dtypes = list(dict.fromkeys(row.dtype for row in rows))
    lines = [ceiling for ceiling in ceilings if ceiling["dtype"] in dtypes]
    x = log_range([intensity(row) or 0.0 for row in rows], 2)
    y = log_range([*map(_rate, rows), *(line["flops_per_second"] / 1e9 for line in lines)], 2)
    figure = panels(dtypes, 380)
    for line in lines:
        figure.add_trace(_ceiling(line, 10 ** x[0], 10 ** x[1]), *place(dtypes.index(line["dtype"])))
    groups: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.dtype, row.device, row.contender, row.kind), []).append(row)
    for (dtype, device, contender, kind), members in groups.items():
        figure.add_trace(_points(device, contender, kind, members), *place(dtypes.index(dtype)))
    figure.update_xaxes(type="log", dtick=1, range=x, title_text="arithmetic intensity (FLOP per byte)")
    figure.update_yaxes(type="log", dtick=1, range=y, title_text="GFLOP/s")
    one_legend(figure)
    return figure


def _rate(row: Row) -> float:
    """Return the rate of a row in GFLOP/s."""
    return (row.flops or 0) / row.p50 / 1e9


def _points(device: str, contender: str, kind: str, rows: Sequence[Row]) -> go.Scatter:
    name = f"{contender} on {device}, {kind}"
    return go.Scatter(
        x=[intensity(row) for row in rows],
        y=list(map(_rate, rows)),
        mode="markers",
        name=name,
        marker={
            "color": colour(device),
            "symbol": HOLLOW.get(kind, "square" if contender == JITTED else "circle"),
            "size": 8,
            "line": {"width": 0 if kind == "measured" else 1.5},
        },
        text=list(map(label, rows)),
        hovertemplate=f"%{{text}}<br>{name}<br>%{{y:,.3g}} GFLOP/s<br>%{{x:,.3g}} FLOP per byte<extra></extra>",
    )


def _ceiling(ceiling: Mapping[str, Any], low: float, high: float) -> go.Scatter:
    """Draw a ceiling from `low` to `high` FLOP per byte: memory-bound up to the ridge, then compute-bound."""
    name = f"{ceiling['device']}: {'best seen here' if ceiling['device'] == 'cpu' else 'peak of the array'}"
    peak, bandwidth = ceiling["flops_per_second"], ceiling["bytes_per_second"]
    ridge = peak / bandwidth
    ends = [low, *([ridge] if low < ridge < high else []), high]
    return go.Scatter(
        x=ends,
        y=[min(peak, bandwidth * end) / 1e9 for end in ends],
        mode="lines",
        name=name,
        line={"color": colour(ceiling["device"]), "width": 1.5},
        hovertemplate=f"{name} in {ceiling['dtype']}, {peak / 1e9:,.0f} GFLOP/s, "
        f"{bandwidth / 1e9:,.1f} GB/s<br>{ceiling['source']}<extra></extra>",
    )
