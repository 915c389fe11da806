"""Dispatch overhead of calls on tensors of 16 or 1,024 elements: python -m benchmarks.dispatch.

npu_tensor, PyTorch eager and NumPy run the same workloads, interleaved in one session.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import npu_tensor as nt

from .cases import Case, cases
from .peers.npu_tensor import Jitted, NpuTensor
from .peers.numpy import NumPy
from .peers.torch import PyTorch
from .report import Outcome, benchmark, table
from .timing import FULL_EFFORT, QUICK_EFFORT, Call, Effort, medians

IMPORT_RUNS: Final = 5
ASKED: Final = {"add 16 elements": 8.0, "add 16 elements, inside nt.jit": 4.0, "384 ops, element-wise": 3.0}
"""Targets in microseconds per op."""
CONTENDERS: Final = ("ours", "torch", "numpy")


class Measure(NamedTuple):
    """One row: description, ops per call, call of each contender, and the target in microseconds."""

    what: str
    ops: int
    calls: Mapping[str, Call]
    asked: float | None = None


def ops_of(case: Case) -> int:
    """Return the number of ops that a call records."""
    result, *operands = case.recorded()
    return len(result.graph) - len(operands)


def measures() -> Iterator[Measure]:
    """Yield everything that is timed in this process."""
    threads = nt.get_num_threads()
    for case in cases(suite="dispatch"):
        ops = ops_of(case)
        others = {"torch": case.contender(PyTorch(threads))(), "numpy": case.contender(NumPy(threads))()}
        realized, jitted = case.contender(NpuTensor())(), case.contender(Jitted())()
        if case.title == "add 16 elements":
            ours = NpuTensor()
            record = partial(case.workload.compute, ours, *case.operands(ours))
            yield Measure("record one op", 1, {"ours": record, **others})
        yield Measure(case.title, ops, {"ours": realized, **others}, ASKED.get(case.title))
        inside = f"{case.title}, inside nt.jit"
        yield Measure(inside, ops, {"ours": jitted, **others}, ASKED.get(inside))


def import_seconds(module: str, runs: int = IMPORT_RUNS) -> float:
    """Measure the median seconds of `import module` in a fresh interpreter, without its startup."""
    program = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"

    def once() -> float:
        finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return float(finished.stdout)

    return statistics.median(once() for _ in range(runs))


IMPORT_ASKED: Final = 0.25e6
MODULES: Final = {"ours": "npu_tensor", "torch": "torch", "numpy": "numpy"}


def _row(what: str, microseconds: Mapping[str, float], asked: float | None) -> dict[str, Any]:
    return {
        "what": what,
        **{f"{name}_us": round(microseconds[name], 3) for name in CONTENDERS},
        "asked_us": asked,
        "met": None if asked is None else microseconds["ours"] <= asked,
    }


def measured(effort: Effort, import_runs: int) -> list[dict[str, Any]]:
    """Measure all rows, in microseconds per op; in total for the import."""
    rows = []
    for measure in measures():
        seconds = medians(measure.calls, effort)
        rows.append(_row(measure.what, {n: s * 1e6 / measure.ops for n, s in seconds.items()}, measure.asked))
    imports = {name: import_seconds(module, import_runs) * 1e6 for name, module in MODULES.items()}
    return [*rows, _row("import", imports, IMPORT_ASKED)]


@benchmark("Few rounds: to see that it works, not for figures.")
def main(quick: bool) -> Outcome:
    """Measure the cost of a call on 16 or 1,024 elements."""
    with nt.default_device("cpu"):
        rows = measured(QUICK_EFFORT if quick else FULL_EFFORT, 1 if quick else IMPORT_RUNS)
    what = "dispatch: microseconds per op"
    times = ("npu_tensor = ours_us:,.2f", "PyTorch = torch_us:,.2f", "NumPy = numpy_us:,.2f", "asked = asked_us:,.2f")
    return Outcome({"rows": rows}, [table(what, rows, "what", *times, "met")])


if __name__ == "__main__":
    main()
