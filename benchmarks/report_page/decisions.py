"""Decision map: the faster device by the cost model, NPU or CPU, for every workload and size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import plotly.graph_objects as go

from npu_tensor._util.units import duration

from ..peers.npu_tensor import JITTED, NAME
from ..results import Row
from .style import BLUE, VERMILION, blank

ROW_PIXELS: Final = 24
REST_PIXELS: Final = 120

DEVICES: Final = ("CPU", "NPU")


class Decision(NamedTuple):
    """Rows of one workload: predicted on the NPU; on the CPU predicted, or measured without a prediction."""

    npu: Row
    cpu: Row

    @property
    def chosen(self) -> str:
        return DEVICES[self.npu.p50 < self.cpu.p50]

    @property
    def lead(self) -> float:
        """Ratio of the time of the other device to that of the chosen one."""
        return math.exp(abs(math.log(self.npu.p50 / self.cpu.p50)))

    @property
    def workload(self) -> str:
        return f"{self.npu.case} {self.npu.dtype}"


def decisions(rows: Sequence[Row]) -> dict[str, list[Decision]]:
    """Return the decisions by generation of NPUs, in row order."""
    # Predictions do not include recording. Neither do calls captured by `jit`.
    preference = [("predicted", NAME), ("predicted", JITTED), ("measured", JITTED), ("measured", NAME)]
    cpu: dict[object, Row] = {}
    for kind, contender in preference:
        for row in rows:
            if (row.device, row.kind, row.contender) == ("cpu", kind, contender):
                cpu.setdefault(_work(row), row)
    by_device: dict[str, list[Decision]] = {}
    for row in rows:
        if row.kind == "predicted" and row.device != "cpu" and _work(row) in cpu:
            by_device.setdefault(row.device, []).append(Decision(row, cpu[_work(row)]))
    return by_device


def _work(row: Row) -> object:
    return row.suite, row.case, row.dtype, str(row.shapes)


def plot(rows: Sequence[Decision]) -> go.Figure:
    """Plot workloads from top to bottom and sizes of the first operand from left to right, for one generation."""
    workloads = list(dict.fromkeys(decision.workload for decision in rows))
    sizes = list(dict.fromkeys(decision.npu.size for decision in sorted(rows, key=_elements)))
    at = {(decision.workload, decision.npu.size): decision for decision in rows}
    cells = [[at.get((workload, size)) for size in sizes] for workload in workloads]
    figure = blank(ROW_PIXELS * len(workloads) + REST_PIXELS)
    figure.add_heatmap(
        x=sizes,
        y=workloads,
        z=[[None if cell is None else DEVICES.index(cell.chosen) for cell in row] for row in cells],
        zmin=0,
        zmax=1,
        colorscale=[[0, BLUE], [1, VERMILION]],
        showscale=False,
        xgap=2,
        ygap=2,
        text=[["" if cell is None else f"{cell.chosen} {_times(cell.lead)}" for cell in row] for row in cells],
        texttemplate="%{text}",
        textfont={"size": 11},
        hoverongaps=False,
        customdata=[[[] if cell is None else _hover(cell) for cell in row] for row in cells],
        hovertemplate="%{y} %{x}<br>%{customdata[0]}, predicted: %{customdata[1]}<br>"
        "CPU, %{customdata[2]}: %{customdata[3]}<extra></extra>",
    )
    figure.update_xaxes(
        type="category", categoryorder="array", categoryarray=sizes, title_text="size of the first operand"
    )
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=workloads, autorange="reversed", ticks="")
    return figure


def _elements(decision: Decision) -> int:
    return math.prod(decision.npu.shapes[0])


def _times(lead: float) -> str:
    return f"{lead:.1f}x" if lead < 10 else f"{lead:.0f}x"


def _hover(decision: Decision) -> list[str]:
    npu, cpu = decision
    return [npu.device, duration(npu.p50), cpu.kind, duration(cpu.p50)]
