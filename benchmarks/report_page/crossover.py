"""Crossover plot: time of square matrix products over size, and the size above which an NPU beats the CPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import plotly.graph_objects as go

from ..peers.npu_tensor import JITTED, NAME, OURS
from ..results import Row
from .style import DASHES, GREY, HOLLOW, colour, one_legend, panels, place

SWEEP: Final = "matmul"
"""Suite of the sweep over sizes."""

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
    """Size above which a contender on a device is faster than one on the CPU.

    Attributes:
        dtype: Dtype of the products.
        contender: Contender on the device.
        device: Device.
        kind: Kind of the device's times.
        cpu: Contender with the measured CPU times.
        size: Crossover size.
        seconds: Time of both at that size.
    """

    dtype: str
    contender: str
    device: str
    kind: str
    cpu: str
    size: float
    seconds: float


def points(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the sweep: products of n x n by n x n."""
    return [row for row in rows if row.suite == SWEEP and len({n for shape in row.shapes for n in shape}) == 1]


def _size(row: Row) -> int:
    return row.shapes[0][0]


def crossings(rows: Sequence[Row]) -> list[Crossing]:
    """Find the size above which each NPU beats npu_tensor's measured CPU times, by dtype, in the rows of `points`.

    Measured times are compared with the same contender. Other times do not include recording, so they are compared with
    the calls of `jit` if those were measured.
    """
    times: dict[tuple[str, str, str, str], dict[int, float]] = {}
    for row in rows:
        if row.contender in OURS:
            times.setdefault((row.dtype, row.contender, row.device, row.kind), {})[_size(row)] = row.p50
    result = []
    for (dtype, contender, device, kind), npu in times.items():
        if device == "cpu":
            continue
        names = (contender,) if kind == "measured" else (JITTED, NAME)
        cpu = next((name for name in names if (dtype, name, "cpu", "measured") in times), None)
        if cpu is not None and (where := overtakes(times[dtype, cpu, "cpu", "measured"], npu)) is not None:
            result.append(Crossing(dtype, contender, device, kind, cpu, *where))
    return result


def without_npu(left_out: Sequence[Mapping[str, str]]) -> list[tuple[str, list[str], str]]:
    """Return dtype, devices and reason of the sweep's omissions on NPUs. `left_out` is that of schema.json."""
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for entry in left_out:
        if entry["suite"] == SWEEP and entry["device"] not in ("", "cpu"):
            reasons.setdefault((entry["dtype"], entry["reason"]), {})[entry["device"]] = None
    return [(dtype, list(devices), reason) for (dtype, reason), devices in reasons.items()]


def overtakes(slower: Mapping[int, float], faster: Mapping[int, float]) -> tuple[float, float] | None:
    """Return the size above which `faster` stays below `slower`, and the seconds there.

    None if they do not cross between two sizes. Both hold seconds by size. Times are interpolated as powers of the
    size.
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


def plot(rows: Sequence[Row], stars: Sequence[Crossing]) -> go.Figure:
    """Plot a panel per dtype. `rows` come from `points`; their `crossings` are marked with stars."""
    dtypes = list(dict.fromkeys(row.dtype for row in rows))
    lines: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in sorted(rows, key=_size):
        lines.setdefault((row.dtype, row.contender, row.device, row.kind), []).append(row)
    figure = panels(dtypes, 400)
    for (dtype, contender, device, kind), members in lines.items():
        figure.add_trace(_line(contender, device, kind, members), *place(dtypes.index(dtype)))
    for crossing in stars:
        figure.add_trace(_star(crossing), *place(dtypes.index(crossing.dtype)))
    sizes = sorted(set(map(_size, rows)))
    figure.update_xaxes(type="log", tickvals=sizes, ticktext=list(map(str, sizes)), title_text="n of n x n by n x n")
    figure.update_yaxes(type="log", dtick=1, title_text="time", ticksuffix="s", exponentformat="SI", minexponent=0)
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


def _star(crossing: Crossing) -> go.Scatter:
    """Create a star without a number: stars of several devices are close together, and the page lists the sizes."""
    name = f"{crossing.contender} on {crossing.device}, {crossing.kind}"
    return go.Scatter(
        x=[crossing.size],
        y=[crossing.seconds],
        mode="markers",
        name=f"overtakes the CPU: {crossing.device}, {crossing.kind}",
        marker={
            "symbol": "star" if crossing.kind == "measured" else "star-open",
            "size": 15,
            "color": colour(crossing.device),
            "line": {"width": 2},
        },
        hovertemplate=f"{name}<br>less time than {crossing.cpu} on cpu, measured, from n = {crossing.size:.0f}"
        "<extra></extra>",
    )
