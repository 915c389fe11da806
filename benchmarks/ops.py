"""Ops and chains beside PyTorch: python -m benchmarks.ops --json FILE.

Each row has npu_tensor recording and realizing, npu_tensor inside nt.jit, PyTorch eager, and PyTorch with preallocated
outputs, interleaved in one session. Times are medians.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import click
import numpy as np
import torch
from rich.progress import track

import npu_tensor as nt

from .cases import GROUPS, TOLERANCE, Case, cases, disagreement
from .peers.npu_tensor import Jitted, NpuTensor
from .peers.torch import PyTorch
from .report import Outcome, benchmark, table
from .timing import FULL_EFFORT, QUICK_EFFORT, Call, Effort, medians

SUITES: Final = ("ops", "chains")
WORKLOADS: Final = tuple(dict.fromkeys(w.name for group in GROUPS if group.suite in SUITES for w in group.workloads))

BATCH: Final = 16
"""Number of independent operand sets in one jitted function, like the layers of a model."""

LARGE: Final = 1 << 10
"""Elements of the first operand above which the arithmetic dominates the call overhead."""


def _into(function: Callable[..., object]) -> Callable[..., object]:
    """Convert function(..., out=) to take `out` as the last positional argument."""

    def into(*operands: torch.Tensor) -> object:
        return function(*operands[:-1], out=operands[-1])

    return into


def _chain_into(approximate: str) -> Callable[..., object]:
    """Create the chain with every step into one preallocated tensor, the fastest way in eager PyTorch."""

    def chain(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor, out: torch.Tensor) -> object:
        torch.mul(a, b, out=out)
        torch.add(out, c, out=out)
        torch._C._nn.gelu(out, approximate=approximate, out=out)
        torch.mul(out, d, out=out)
        return torch.sub(out, a, out=out)

    return chain


def _copied(x: torch.Tensor, out: torch.Tensor) -> object:
    return out.copy_(x)


# PyTorch's documented gelu and silu have no out=. torch._C._nn has the functions that they call.
INTO: Final[dict[str, Callable[..., object]]] = {
    "add": _into(torch.add),
    "mul": _into(torch.mul),
    "exp": _into(torch.exp),
    "tanh": _into(torch.tanh),
    "gelu": _into(partial(torch._C._nn.gelu, approximate="tanh")),
    "gelu_erf": _into(torch._C._nn.gelu),
    "silu": _into(torch._C._nn.silu),
    "softmax": _into(partial(torch.softmax, dim=-1)),
    "matmul": _into(torch.matmul),
    "matvec": _into(torch.mv),
    "matmul_int8": lambda x, weights, out: torch._int_mm(x, weights.t(), out=out),
    "chain": _chain_into("tanh"),
    "chain_erf": _chain_into("none"),
    **{f"to_{name}": _copied for name in ("float32", "bfloat16", "float16")},
}
"""PyTorch workloads that write to a preallocated result, their last argument."""


class Goal(NamedTuple):
    """Target for a column over a set of rows."""

    key: str
    what: str
    large: bool
    column: str
    combine: Callable[[Sequence[float]], float]
    asked: float


GOALS: Final = (
    Goal("large_eager", "1 M, 16 M, matrices: geometric mean", True, "speedup", statistics.geometric_mean, 3.0),
    Goal("large_eager_minimum", "1 M, 16 M, matrices: slowest row", True, "speedup", min, 0.85),
    Goal(
        "large_out", "the same, PyTorch with out=: geometric mean", True, "out_speedup", statistics.geometric_mean, 1.5
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


def _large(case: Case) -> bool:
    return case.values[0].size > LARGE


def _batch(case: Case) -> Call:
    """Create a call of the op on BATCH independent operand sets in one jitted function."""
    library, width = Jitted(), case.workload.operands

    def batch(*operands: nt.Tensor) -> tuple[nt.Tensor, ...]:
        return tuple(case.workload.compute(library, *operands[i : i + width]) for i in range(0, len(operands), width))

    # Different values in every set prevent common subexpressions.
    sets = [np.roll(values, number) for number in range(BATCH) for values in case.values]
    return partial(nt.jit(batch), *(library.operand(values, case.dtype) for values in sets))


def contenders(case: Case) -> dict[str, Call]:
    """Return the calls by name: ours, jit (the op inside nt.jit), peer, and out and jit_batch where they apply."""
    peer = PyTorch(nt.get_num_threads())
    calls: dict[str, Call] = {
        "ours": case.contender(NpuTensor())(),
        "peer": case.contender(peer)(),
        "jit": case.contender(Jitted())(),
    }
    if into := INTO.get(case.workload.name):
        calls["out"] = partial(into, *case.operands(peer), torch.empty_like(calls["peer"]()))
    if not _large(case):
        calls["jit_batch"] = _batch(case)
    return calls


def measure(case: Case, effort: Effort) -> dict[str, Any]:
    """Measure one row. Times are microseconds per op; speedups are the peer's time over ours."""
    calls = contenders(case)
    expected = PyTorch(nt.get_num_threads()).values(calls["peer"]())
    difference = disagreement(NpuTensor().values(calls["ours"]()), expected)
    if difference > TOLERANCE[case.dtype]:
        raise AssertionError(f"{case.title} {case.dtype} {case.size}: results differ by {difference:.1e}")
    seconds = medians(calls, effort, dict.fromkeys(("peer", "out"), torch.inference_mode))
    if "jit_batch" in seconds:
        seconds["jit_batch"] /= BATCH
    row: dict[str, Any] = {
        "op": case.title,
        "dtype": case.dtype,
        "size": case.size,
        "large": _large(case),
        "disagreement": difference,
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
    """Return description, value, target and success of every goal with rows."""
    rows = list(rows)
    result = {}
    for goal in GOALS:
        values = [row[goal.column] for row in rows if row["large"] == goal.large and goal.column in row]
        if values:
            value = goal.combine(values)
            result[goal.key] = {"what": goal.what, "value": value, "asked": goal.asked, "met": value >= goal.asked}
    return result


COLUMNS: Final = (
    "op",
    "dtype",
    "size",
    "ours us = ours_us:.2f",
    "peer us = peer_us:.2f",
    "speedup:.2f",
    "out= us = out_us:.2f",
    "speedup = out_speedup:.2f",
    "jit us = jit_us:.2f",
    "speedup = jit_speedup:.2f",
    "jit batch us = jit_batch_us:.2f",
    "speedup = jit_batch_speedup:.2f",
)


QUICK_SIZES: Final = ("1024", "1048576", "4096x1024", "256x256", "1024x1024")


@benchmark("Few rounds, no large sizes: to see that it works, not for figures.")
@click.option("--peer", type=click.Choice(["torch"]), default="torch", show_default=True, help="Peer.")
@click.option("--only", help="Comma-separated workloads: " + ", ".join(WORKLOADS))
def main(peer: str, only: str | None, quick: bool) -> Outcome:
    """Every workload beside the peer."""
    names = only.split(",") if only else []
    if unknown := set(names) - set(WORKLOADS):
        raise click.BadParameter(f"no such workload: {', '.join(sorted(unknown))}", param_hint="--only")
    sizes, effort = (QUICK_SIZES, QUICK_EFFORT) if quick else ((), FULL_EFFORT)
    chosen = (case for suite in SUITES for case in cases(names, sizes, suite))
    with nt.default_device("cpu"):
        rows = [measure(case, effort) for case in track(chosen, "measuring", total=None)]
    speedups = summary(rows)
    times = table(f"npu_tensor and {peer}", rows, *COLUMNS)
    goals = table("summary (speedups)", speedups.values(), "what", "value:.2f", "asked:.2f", "met")
    return Outcome({"peer": peer, "rows": rows, "summary": speedups}, [times, goals])


if __name__ == "__main__":
    main()
