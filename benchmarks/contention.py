"""Kernels on an idle machine and beside a process that keeps one core busy: python -m benchmarks.contention.

PyTorch is measured as well. A thread pool whose threads wait for each other loses whole scheduler slices.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from npu_tensor._util.affinity import available_cores

from .cases import Case, cases
from .ops import contenders
from .report import Outcome, benchmark, table
from .timing import FULL_EFFORT, QUICK_EFFORT, Effort, medians

WORKLOADS = ("add", "gelu", "chain", "softmax", "rms_norm", "matmul", "matvec")
SIZES, QUICK_SIZES = ("1048576", "4096x1024", "1024x1024", "4096x4096"), ("1048576",)
ASKED = 3.0

# Program that ends when its parent process has ended.
SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(100_000): pass"


@contextmanager
def busy_core() -> Iterator[subprocess.Popen[bytes]]:
    """Keep a core busy with another process during a `with` block."""
    process = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def measure(case: Case, effort: Effort) -> dict[str, Any]:
    """Measure one row: median microseconds of both libraries, idle and beside a busy core, and their ratios."""
    calls = {name: call for name, call in contenders(case).items() if name in ("ours", "peer")}
    quiet = medians(calls, effort)
    with busy_core():
        busy = medians(calls, effort)
    ratio = {name: busy[name] / quiet[name] for name in calls}
    return {
        "op": case.title,
        "dtype": case.dtype,
        "size": case.size,
        **{f"{name}_quiet_us": round(quiet[name] * 1e6, 2) for name in calls},
        **{f"{name}_busy_us": round(busy[name] * 1e6, 2) for name in calls},
        "ratio": ratio["ours"],
        "peer_ratio": ratio["peer"],
        "asked": ASKED,
        "met": ratio["ours"] <= ASKED,
    }


@benchmark("Few rounds, one size: to see that it works, not for figures.")
def main(quick: bool) -> Outcome:
    """Kernels beside a process that keeps one core busy."""
    if available_cores() < 2:
        raise click.ClickException("on one core this measures only that two processes share it")
    sizes = QUICK_SIZES if quick else SIZES
    effort = QUICK_EFFORT if quick else FULL_EFFORT
    rows = [measure(case, effort) for case in cases(WORKLOADS, sizes) if case.dtype == "float32"]
    columns = (
        *("op", "size", "quiet = ours_quiet_us:.1f", "busy = ours_busy_us:.1f", "ratio:.2f", "asked:.2f", "met"),
        *("PyTorch quiet = peer_quiet_us:.1f", "busy = peer_busy_us:.1f", "ratio = peer_ratio:.2f"),
    )
    what = "quiet, and beside a process that keeps one core busy: microseconds"
    return Outcome({"rows": rows}, [table(what, rows, *columns)])


if __name__ == "__main__":
    main()
