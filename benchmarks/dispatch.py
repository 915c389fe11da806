"""python -m benchmarks.dispatch: what a call costs before any arithmetic, on tensors of 16 elements.

npu_tensor, PyTorch eager and NumPy do the same in one session and take turns.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import torch

import npu_tensor as nt
from benchmarks.report import Session, headline, show, verdict, write_json
from benchmarks.timing import FULL, QUICK, Call, Effort, medians, thread_count

__all__ = ["GRAPHS", "Graph", "Measure", "import_seconds", "main", "measured", "measures", "operands"]

SIDE = 4
ELEMENTS = SIDE * SIDE
IMPORT_RUNS = 5
CONTENDERS = ("ours", "torch", "numpy")


class Graph(NamedTuple):
    """A computation x, a, b -> result of `ops` ops on SIDE x SIDE matrices; softmax differs by library."""

    what: str
    ops: int
    run: Callable[[Any, Any, Any, Callable[[Any], Any]], Any]


def _chain(x: Any, a: Any, b: Any, softmax: Callable[[Any], Any]) -> Any:
    """Element-wise only: fuses into one kernel."""
    for _ in range(192):
        x = x * a + b
    return x


def _mixed(x: Any, a: Any, b: Any, softmax: Callable[[Any], Any]) -> Any:
    """A product or a softmax every third op: many kernels."""
    for _ in range(64):
        x = (x @ a) * a + b
        x = softmax(x) * b - a
    return x


GRAPHS = (
    Graph("a chain of element-wise ops", 384, _chain),
    Graph("a matmul or softmax every third op", 384, _mixed),
)


class Measure(NamedTuple):
    """One row: what is measured, ops per call, the call of each contender, microseconds asked of ours."""

    what: str
    ops: int
    calls: Mapping[str, Call]
    asked: float | None = None


def numpy_softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last dimension, as NumPy users write it."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def operands() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, a, b with values that stay bounded when _chain repeats x * a + b."""
    x, a, b = np.random.default_rng(0).uniform(-0.5, 0.5, (3, SIDE, SIDE)).astype(np.float32)
    return x, a, b


def measures() -> list[Measure]:
    """Everything that is timed in this process."""
    arrays = operands()
    x, a, b = (nt.from_numpy(array).realize() for array in arrays)
    tx, ta, tb = (torch.from_numpy(array.copy()) for array in arrays)
    nx, na, nb = arrays
    jitted_add = nt.jit(lambda x, a: x + a)
    add = {"torch": lambda: tx + ta, "numpy": lambda: nx + na}
    found = [
        Measure("record one op", 1, {"ours": lambda: x + a, **add}, asked=3.0),
        Measure("record and realize one op", 1, {"ours": lambda: (x + a).realize(), **add}),
        Measure("one op inside nt.jit", 1, {"ours": lambda: jitted_add(x, a), **add}),
    ]
    for graph in GRAPHS:
        found += _graph_measures(graph, (x, a, b), (tx, ta, tb), (nx, na, nb))
    return found


def _graph_measures(graph: Graph, ours: Any, of_torch: Any, of_numpy: Any) -> list[Measure]:
    """The graph recorded and realized as a whole, and the same inside nt.jit; microseconds per op."""

    def ours_softmax(x: Any) -> Any:
        return x.softmax(-1)

    def torch_softmax(x: Any) -> Any:
        return x.softmax(-1)

    jitted = nt.jit(lambda x, a, b: graph.run(x, a, b, ours_softmax))
    others = {
        "torch": lambda: graph.run(*of_torch, torch_softmax),
        "numpy": lambda: graph.run(*of_numpy, numpy_softmax),
    }
    title = f"{graph.ops} ops, {graph.what}"
    return [
        Measure(
            title, graph.ops, {"ours": lambda: graph.run(*ours, ours_softmax).realize(), **others}, asked=5.0
        ),
        Measure(f"{title}, inside nt.jit", graph.ops, {"ours": lambda: jitted(*ours), **others}),
    ]


def import_seconds(module: str, runs: int = IMPORT_RUNS) -> float:
    """Median seconds of `import module` in a fresh interpreter, whose own start does not count."""
    program = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"

    def once() -> float:
        finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return float(finished.stdout)

    return statistics.median(once() for _ in range(runs))


IMPORT_ASKED = 0.25e6
MODULES = {"ours": "npu_tensor", "torch": "torch", "numpy": "numpy"}


def _row(what: str, microseconds: Mapping[str, float], asked: float | None) -> dict[str, Any]:
    return {
        "what": what,
        **{f"{name}_us": round(microseconds[name], 3) for name in CONTENDERS},
        "asked_us": asked,
        "met": None if asked is None else microseconds["ours"] <= asked,
    }


def measured(effort: Effort, import_runs: int) -> list[dict[str, Any]]:
    """All rows. Microseconds per op; for the import, in total."""
    rows = []
    for measure in measures():
        seconds = medians(measure.calls, effort)
        rows.append(_row(measure.what, {n: s * 1e6 / measure.ops for n, s in seconds.items()}, measure.asked))
    imports = {name: import_seconds(module, import_runs) * 1e6 for name, module in MODULES.items()}
    return [*rows, _row("import", imports, IMPORT_ASKED)]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--json", "json_path", type=click.Path(path_type=Path), help="Also write everything to this file."
)
@click.option("--quick", is_flag=True, help="Few rounds: to see that it works, not for figures.")
def main(json_path: Path | None, quick: bool) -> None:
    """The cost of a call on 16 elements."""
    torch.set_num_threads(thread_count())
    session = Session()
    rows = measured(QUICK if quick else FULL, 1 if quick else IMPORT_RUNS)
    about = session.machine()
    print(headline(about))
    show(
        f"dispatch: microseconds per op on {ELEMENTS} elements",
        ["what", "npu_tensor", "PyTorch", "NumPy", "asked", "met"],
        [
            [
                row["what"],
                *(f"{row[f'{name}_us']:,.2f}" for name in CONTENDERS),
                "" if row["asked_us"] is None else f"{row['asked_us']:,.2f}",
                verdict(row["met"]),
            ]
            for row in rows
        ],
    )
    write_json(json_path, {"machine": about, "rows": rows})


if __name__ == "__main__":
    main()
