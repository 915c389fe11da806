"""Predictions of the CPU device's cost model beside measured times: python -m benchmarks.cost.

First with the model's current rates (priors, or those of `npu-tensor calibrate`), then with rates that are measured now
and not stored. Placement compares CPU predictions with NPU predictions. An error by a factor of 2 shifts the crossover
size by the same factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np

import npu_tensor as nt
from npu_tensor.cli.calibrate import calibrate
from npu_tensor.graph.structure import structure_of
from npu_tensor.planner import planner, selection
from npu_tensor.planner.plan import Plan
from npu_tensor.runtime.devices.host import host_kernel

from .report import Outcome, Table, benchmark, table
from .timing import FULL_EFFORT, QUICK_EFFORT, Effort, interleaved

PERCENTILES: Final = (5, 25, 50, 75, 95)
DTYPES: Final = ("float32", "bfloat16")
RATES: Final = {"predicted": "rates as found", "calibrated": "measured rates"}


class Case(NamedTuple):
    """A graph whose plan is timed. `record` records it and returns the tensors to realize."""

    kind: str
    what: str
    record: Callable[[], nt.Tensor]


def _tensor(dtype: str, *shape: int) -> nt.Tensor:
    values = np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)
    return nt.from_numpy(values * 8).to(dtype).realize()


def _maps() -> Iterable[Case]:
    for dtype in DTYPES:
        for n in (1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23):
            x, y = _tensor(dtype, n), _tensor(dtype, n)
            where = f"{dtype} {n}"
            yield Case("map", f"add {where}", lambda x=x, y=y: x + y)  # type: ignore[misc]
            yield Case("map", f"tanh {where}", lambda x=x: x.tanh())  # type: ignore[misc]
            yield Case("map", f"chain {where}", lambda x=x, y=y: (x * y + x).exp() / (x.abs() + 1))  # type: ignore[misc]
    for n in (256, 2048):
        x = _tensor("float32", n, n)
        yield Case("map", f"transposed copy float32 {n}", lambda x=x: x.T.contiguous())  # type: ignore[misc]


def _rows() -> Iterable[Case]:
    for dtype in DTYPES:
        for m, n in ((16, 64), (256, 256), (4096, 64), (4096, 1024), (1, 1 << 20)):
            x = _tensor(dtype, m, n)
            where = f"{dtype} {m}x{n}"
            yield Case("row", f"sum {where}", lambda x=x: x.sum(-1))  # type: ignore[misc]
            yield Case("row", f"softmax {where}", lambda x=x: nt.softmax(x, -1))  # type: ignore[misc]


def _products() -> Iterable[Case]:
    shapes = ((32, 32, 32), (64, 256, 64), (256, 256, 256), (1, 1024, 1024), (1, 4096, 4096), (8, 2048, 2048))
    for dtype in (*DTYPES, "int8"):
        for m, k, n in (*shapes, (128, 512, 1376), (1024, 1024, 1024)):
            x, y = _tensor(dtype, m, k), _tensor(dtype, k, n)
            yield Case("product", f"{dtype} {m}x{k}x{n}", lambda x=x, y=y: x @ y)  # type: ignore[misc]
    x, y = _tensor("bfloat16", 8, 128, 64), _tensor("bfloat16", 8, 64, 128)
    yield Case("product", "bfloat16 8 of 128x64x128", lambda: x @ y)


def _moves() -> Iterable[Case]:
    for n in (1 << 8, 1 << 15):
        table, index = _tensor("float32", n, 64), nt.from_numpy(np.arange(n, dtype=np.int32)[::-1].copy())
        yield Case("data", f"rows of a table {n}", lambda table=table, index=index: table[index])  # type: ignore[misc]
        yield Case("data", f"concat {n}", lambda table=table: nt.concat([table, table]))  # type: ignore[misc]


def cases() -> list[Case]:
    """Return everything that is timed."""
    return [*_maps(), *_rows(), *_products(), *_moves()]


def _ready(case: Case) -> tuple[Plan, list[Any]]:
    """Return the plan of a case and its values."""
    structure = structure_of([case.record()._node])
    plan = planner.plan(structure)
    return plan, structure.values()


def _predicted(plan: Plan) -> float:
    """Predict the microseconds of all kernels with the current rates."""
    return 1e6 * sum(host_kernel(placed.task).cost.expense.seconds for placed in plan.placed)


def percentiles(ratios: Sequence[float]) -> list[float]:
    """Return the percentiles of predicted over measured time."""
    return [float(value) for value in np.percentile(ratios, PERCENTILES)]


def measured(effort: Effort) -> list[dict[str, Any]]:
    """Return all rows: measured time of each plan, and predictions with the current and with newly measured rates."""
    ready = [(case, *_ready(case)) for case in cases()]
    rows: list[dict[str, Any]] = [
        {
            "kind": case.kind,
            "what": case.what,
            "measured_us": _timed(plan, values, effort),
            "predicted_us": _predicted(plan),
        }
        for case, plan, values in ready
    ]
    with TemporaryDirectory() as directory, nt.config.scope(cache_path=directory):
        calibrate("cpu", quick=effort.rounds < FULL_EFFORT.rounds)
        selection.reset()
        for row, (_, plan, _) in zip(rows, ready, strict=True):
            row["calibrated_us"] = _predicted(plan)
    selection.reset()
    return rows


def _timed(plan: Plan, values: list[Any], effort: Effort) -> float:
    """Measure the microseconds of a run: the minimum of all blocks, because predictions assume an idle machine."""

    def run() -> object:
        again = list(values)
        plan.run(again)
        return again

    return 1e6 * min(interleaved({"ours": run}, effort)["ours"])


@benchmark("Few rounds: to see that it works, not for figures.")
def main(quick: bool) -> Outcome:
    """Compare the predicted time of CPU kernels over the measured one: each, and percentiles by kind."""
    with nt.default_device("cpu"):
        rows = measured(QUICK_EFFORT if quick else FULL_EFFORT)
    columns = ("measured = measured_us:,.2f", "predicted = predicted_us:,.2f", "ratio = predicted_ratio:.2f")
    calibrated = ("calibrated = calibrated_us:,.2f", "ratio = calibrated_ratio:.2f")
    lines = [
        row
        | {"what": f"{row['kind']}: {row['what']}"}
        | {f"{name}_ratio": row[f"{name}_us"] / row["measured_us"] for name in RATES}
        for row in rows
    ]
    times = table("cost: predicted and measured microseconds of CPU kernels", lines, "what", *columns, *calibrated)
    ratios = []
    for kind in (*dict.fromkeys(row["kind"] for row in rows), "all"):
        for name, words in RATES.items():
            quotients = [line[f"{name}_ratio"] for line in lines if kind in (line["kind"], "all")]
            ratios.append([f"{kind}, {words}", len(quotients), *(f"{value:.2f}" for value in percentiles(quotients))])
    by_kind = Table("predicted over measured", ["", "cases", *(f"p{value}" for value in PERCENTILES)], ratios)
    return Outcome({"rows": rows}, [times, by_kind])


if __name__ == "__main__":
    main()
