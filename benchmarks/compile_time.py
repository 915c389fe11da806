"""Planning and compilation of fused kernels with an empty cache directory: python -m benchmarks.compile_time."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import npu_tensor as nt
from npu_tensor.events import Event, PlanBuilt, listen

from .report import Outcome, benchmark, table

ASKED_MILLISECONDS = 20.0
SHAPE = (64, 256)
DTYPES = ("float32", "bfloat16")

Operands = Mapping[str, nt.Tensor]

EXPRESSIONS: dict[str, Callable[..., nt.Tensor]] = {
    "a*b + c": lambda a, b, c, d: a * b + c,
    "(a*b + c).relu()": lambda a, b, c, d: (a * b + c).relu(),
    "(a*b + c).gelu(tanh)*d - a": lambda a, b, c, d: (a * b + c).gelu(approximate="tanh") * d - a,
    "(a*b + c).gelu()*d - a": lambda a, b, c, d: (a * b + c).gelu() * d - a,
    "silu(a)*b": lambda a, b, c, d: a.silu() * b,
    "exp(-a*a)*b": lambda a, b, c, d: (-a * a).exp() * b,
    "tanh(a)*sigmoid(b) + c": lambda a, b, c, d: a.tanh() * b.sigmoid() + c,
    "sin(a)*cos(b) - sin(c)": lambda a, b, c, d: a.sin() * b.cos() - c.sin(),
    "where(a > b, a, c)*d": lambda a, b, c, d: nt.where(a > b, a, c) * d,
    "softmax(a*b)": lambda a, b, c, d: nt.softmax(a * b, -1),
    "rms_norm(a + b)*c": lambda a, b, c, d: nt.rms_norm(a + b, a.shape[-1:]) * c,
    "(a - b).square().mean(-1)": lambda a, b, c, d: ((a - b) * (a - b)).mean(-1),
}


def measured(dtypes: tuple[str, ...] = DTYPES) -> list[dict[str, Any]]:
    """Measure one row per expression and dtype. Needs a fresh process, which has no compiled kernels in memory."""
    rows = []
    for dtype in dtypes:
        values = np.random.default_rng(0).standard_normal((4, *SHAPE), np.float32)
        operands = [nt.from_numpy(value).to(getattr(nt, dtype)).realize() for value in values]
        for text, expression in EXPRESSIONS.items():
            built: list[float] = []

            def note(event: Event, built: list[float] = built) -> None:
                if isinstance(event, PlanBuilt):
                    built.append(event.seconds)

            with listen(note):
                expression(*operands).realize()
            rows.append({"expression": text, "dtype": dtype, "milliseconds": sum(built) * 1e3})
    return rows


@benchmark("float32 only.")
def main(quick: bool) -> Outcome:
    """Milliseconds from a new structure to a plan that can run: fusion, LLVM IR, machine code."""
    with tempfile.TemporaryDirectory() as empty, nt.config.scope(cache_path=empty):
        rows = measured(DTYPES[:1] if quick else DTYPES)
    median = statistics.median(row["milliseconds"] for row in rows)
    summary = {"milliseconds": median, "asked": ASKED_MILLISECONDS, "met": median < ASKED_MILLISECONDS}
    lines = [*rows, {"expression": "median", "dtype": "", **summary}]
    columns = ("expression", "dtype", "ms = milliseconds:.1f", "asked:.1f", "met")
    return Outcome(
        {"rows": rows, "summary": summary}, [table("plan and compile, empty cache directory", lines, *columns)]
    )


if __name__ == "__main__":
    main()
