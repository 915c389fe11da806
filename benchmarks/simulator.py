"""Run time of the simulated NPU on this machine: python -m benchmarks.simulator.

Times are host seconds per run and say nothing about a real NPU. The prediction for a real one is listed beside them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import click

import npu_tensor as nt

from .report import Outcome, benchmark, table

URIS = ("sim:npu1", "sim:npu2")
RUNS, QUICK_RUNS = 20, 1


def _normal(*shape: int) -> nt.Tensor:
    return nt.randn(*shape).to(nt.bfloat16).realize()


def workloads() -> dict[str, tuple[Callable[[], nt.Tensor], float | None]]:
    """Return the recording function and the target in seconds of each workload, by name."""
    x, y = _normal(1 << 20), _normal(1 << 20)
    a, b = _normal(512, 512), _normal(512, 512)
    rows = _normal(1024, 1024)
    return {
        "add 1048576": (lambda: x + y, 1.0),
        "matmul 512x512, 512x512": (lambda: a @ b, 5.0),
        "softmax 1024x1024": (lambda: rows.softmax(dim=-1), None),
    }


def measure(uri: str, runs: int) -> list[dict[str, Any]]:
    """Measure the seconds of the first run, which may compile, and the median of the others."""
    rows = []
    for name, (compute, asked) in workloads().items():
        with nt.default_device(uri):
            seconds = []
            for _ in range(1 + runs):
                start = time.perf_counter()
                compute().realize()
                seconds.append(time.perf_counter() - start)
            row = nt.explain(compute())[-1]
        if row.device != uri:
            raise click.ClickException(f"{name} does not run on {uri}: {row.why}")
        assert row.predicted is not None
        median = statistics.median(seconds[1:])
        rows.append(
            {
                "device": uri,
                "workload": name,
                "first_seconds": seconds[0],
                "seconds": median,
                "asked": asked,
                "met": None if asked is None else median <= asked,
                "predicted_us": row.predicted * 1e6,
            }
        )
    return rows


@benchmark("One run: to see that it works.")
def main(quick: bool) -> Outcome:
    """Time of the simulation itself, in bfloat16, on both arrays."""
    rows = [row for uri in URIS for row in measure(uri, QUICK_RUNS if quick else RUNS)]
    times = ("first, s = first_seconds:.2f", "median, s = seconds:.3f", "asked, s = asked:.0f", "met")
    columns = ("workload", "device", *times, "predicted for the array, us = predicted_us:.0f")
    return Outcome({"rows": rows}, [table("host time of simulated runs in bfloat16", rows, *columns)])


if __name__ == "__main__":
    main()
