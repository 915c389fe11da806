"""python -m benchmarks.ops --peer torch --json FILE: every workload beside PyTorch, in one session.

For each row: npu_tensor recording and realizing, npu_tensor inside nt.jit, PyTorch eager, and PyTorch into
preallocated outputs. All take turns; times are medians.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import torch
from rich.progress import track

from benchmarks.cases import BATCH, GROUPS, Case, cases, disagreement
from benchmarks.report import Session, headline, show, verdict, write_json
from benchmarks.timing import FULL, QUICK, Effort, medians, thread_count

__all__ = ["TOLERANCE", "main", "measure", "summary"]

# Largest accepted difference between the two sides, relative to the largest value; beyond it a row compares
# different things. PyTorch rounds every step of a chain to 16 bits, npu_tensor the result only.
TOLERANCE = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 1e-3, "int8": 0.0}

QUICK_SIZES = ("1024", "1048576", "4096x1024", "256x256", "1024x1024")

WORKLOADS = tuple(workload.name for group in GROUPS for workload in group.workloads)


class Goal(NamedTuple):
    """What is asked of a column over a set of rows."""

    key: str
    what: str
    large: bool
    column: str
    combine: Callable[[Sequence[float]], float]
    asked: float


GOALS = (
    Goal(
        "large_eager", "1 M, 16 M, matrices: geometric mean", True, "speedup", statistics.geometric_mean, 3.0
    ),
    Goal("large_eager_minimum", "1 M, 16 M, matrices: slowest row", True, "speedup", min, 0.85),
    Goal(
        "large_out",
        "the same, PyTorch with out=: geometric mean",
        True,
        "out_speedup",
        statistics.geometric_mean,
        1.5,
    ),
    Goal("small_minimum", "1 K: slowest row", False, "speedup", min, 0.3),
    Goal("small_jit_minimum", "1 K inside nt.jit: slowest row", False, "jit_speedup", min, 1.0),
    Goal(
        "small_jit_batch_minimum",
        f"1 K, {BATCH} at once inside nt.jit: slowest row",
        False,
        "jit_batch_speedup",
        min,
        1.0,
    ),
)


def measure(case: Case, effort: Effort) -> dict[str, Any]:
    """One row. Times are microseconds per op, speedups the peer's time over ours."""
    found = disagreement(case)
    if found > TOLERANCE[case.dtype]:
        raise AssertionError(f"{case.workload.name} {case.dtype} {case.size}: results differ by {found:.1e}")
    seconds = medians(case.contenders(), effort)
    if "jit_batch" in seconds:
        seconds["jit_batch"] /= BATCH
    row: dict[str, Any] = {
        "op": case.workload.name,
        "dtype": case.dtype,
        "size": case.size,
        "large": case.large,
        "disagreement": found,
        **{f"{name}_us": round(value * 1e6, 3) for name, value in seconds.items()},
        "speedup": seconds["peer"] / seconds["ours"],
    }
    for name in ("jit", "jit_batch"):
        if name in seconds:
            row[f"{name}_speedup"] = seconds["peer"] / seconds[name]
    if "out" in seconds:
        row["out_speedup"] = seconds["out"] / seconds["ours"]
    return row


def summary(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """For every goal that the rows bear on: what, value, asked, met."""
    rows = list(rows)
    found = {}
    for goal in GOALS:
        values = [row[goal.column] for row in rows if row["large"] == goal.large and goal.column in row]
        if values:
            value = goal.combine(values)
            found[goal.key] = {
                "what": goal.what,
                "value": value,
                "asked": goal.asked,
                "met": value >= goal.asked,
            }
    return found


COLUMNS = {
    "op": "op",
    "dtype": "dtype",
    "size": "size",
    "ours_us": "ours us",
    "peer_us": "peer us",
    "speedup": "speedup",
    "out_us": "out= us",
    "out_speedup": "speedup",
    "jit_us": "jit us",
    "jit_speedup": "speedup",
    "jit_batch_us": "jit batch us",
    "jit_batch_speedup": "speedup",
}


def _cell(row: dict[str, Any], column: str) -> str:
    value = row.get(column, "")
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    return f"{value:.2f}"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--peer", type=click.Choice(["torch"]), default="torch", show_default=True, help="What to compare with."
)
@click.option(
    "--json", "json_path", type=click.Path(path_type=Path), help="Also write everything to this file."
)
@click.option("--only", help="Comma-separated workloads: " + ", ".join(dict.fromkeys(WORKLOADS)))
@click.option(
    "--quick", is_flag=True, help="Few rounds, no large sizes: to see that it works, not for figures."
)
def main(peer: str, json_path: Path | None, only: str | None, quick: bool) -> None:
    """Every workload beside the peer."""
    names = only.split(",") if only else []
    unknown = set(names) - set(WORKLOADS)
    if unknown:
        raise click.BadParameter(f"no such workload: {', '.join(sorted(unknown))}", param_hint="--only")
    torch.set_num_threads(thread_count())
    session = Session()
    effort = QUICK if quick else FULL
    chosen = cases(names, QUICK_SIZES if quick else ())
    rows = [measure(case, effort) for case in track(chosen, "measuring", total=None)]
    found = summary(rows)
    about = session.machine()
    print(headline(about))
    show(
        f"npu_tensor and {peer}",
        list(COLUMNS.values()),
        [[_cell(row, name) for name in COLUMNS] for row in rows],
    )
    show(
        "summary (speedups)",
        ["what", "value", "asked", "met"],
        [
            [goal["what"], _number(goal["value"]), _number(goal["asked"]), verdict(goal["met"])]
            for goal in found.values()
        ],
    )
    write_json(json_path, {"machine": about, "peer": peer, "rows": rows, "summary": found})


if __name__ == "__main__":
    main()
