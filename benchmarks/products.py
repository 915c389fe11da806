"""Matrix products and convolutions beside the best peer of each row: python -m benchmarks.products --json FILE.

npu_tensor inside nt.jit, NumPy in float32, PyTorch and, if installed, JAX compute from existing operands, interleaved
in one session. Times are medians.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import click
from rich.progress import track

import npu_tensor as nt

from . import peers
from .cases import FLOATS, LINEAR, MATMUL, MATMUL_INT8, Group, Shape, Workload, cases, size_name, square
from .peers.library import Library
from .peers.npu_tensor import JITTED, Jitted
from .report import Outcome, benchmark, table
from .results import LeftOut, Row
from .session import QUICK_AMOUNT, Found, measured
from .timing import FULL_EFFORT

PEERS: Final = ("numpy", "torch", "jax")

LARGE: Final = 1 << 35
"""Flops above which fewer calls suffice: between 2048 and 4096 square."""

FULL_AMOUNT: Final = QUICK_AMOUNT._replace(effort=FULL_EFFORT, slowest=10.0)
LARGE_AMOUNT: Final = FULL_AMOUNT._replace(effort=FULL_EFFORT._replace(rounds=5))


def _convolution(name: str, stride: int = 1) -> Workload:
    """Create a convolution of (batch, channels, height, width) with (outputs, channels per group, height, width).

    It is padded by half of the kernel.
    """

    def compute(library: Library, x: Any, weights: Any) -> Any:
        groups = x.shape[1] // weights.shape[1]
        return library.conv2d(x, weights, stride=stride, padding=weights.shape[-1] // 2, groups=groups)

    def result(x: Shape, weights: Shape) -> Shape:
        return x[0], weights[0], *(-(-extent // stride) for extent in x[2:])

    def flops(x: Shape, weights: Shape) -> int:
        return 2 * math.prod(result(x, weights)) * math.prod(weights[1:])

    return Workload(name, 2, compute, flops, result, weights=1)


BATCHED: Final = MATMUL._replace(name="batched matmul", result=lambda a, b: (*a[:-1], b[-1]))
TRANSPOSED: Final = MATMUL._replace(
    name="x.T @ w",
    compute=lambda library, x, weights: library.matmul(library.swapped(x, 0, 1), weights),
    result=lambda x, weights: (x[1], weights[1]),
)
ACTIVATED: Final = LINEAR._replace(
    name="linear bias gelu",
    operands=3,
    compute=lambda library, x, weights, bias: library.gelu(library.linear(x, weights, bias)),
    flops=lambda x, weights, bias: 2 * x[0] * weights[0] * weights[1],
    result=lambda x, weights, bias: (x[0], weights[0]),
)
TO_THE_RIGHT: Final = LINEAR._replace(name="x @ W.T")

SQUARE: Final = square(64, 128, 256, 512, 1024, 2048, 4096)
THIN: Final = tuple(((rows, 2048), (2048, 2048)) for rows in (1, 4, 16, 128))
_group = partial(Group, "products")

# The convolutions are those of ResNet-50 and, depthwise, of MobileNet at the same extents.
GROUPS: Final = (
    _group((MATMUL,), FLOATS, SQUARE, 4),
    _group((MATMUL_INT8,), ("int8",), SQUARE, 4),
    _group((MATMUL,), FLOATS, THIN, 3),
    _group((MATMUL_INT8,), ("int8",), THIN, 3),
    _group((BATCHED,), FLOATS, (((32, 128, 64), (32, 64, 128)),), 1),
    _group((TO_THE_RIGHT, TRANSPOSED), FLOATS, square(256, 1024), 1),
    _group((ACTIVATED,), FLOATS, (((128, 768), (3072, 768), (3072,)),), 1),
    *(
        _group((workload,), FLOATS, tuple(shapes), 1)
        for workload, *shapes in (
            (_convolution("conv 3x3"), ((1, 64, 56, 56), (64, 64, 3, 3)), ((1, 256, 14, 14), (256, 256, 3, 3))),
            (_convolution("conv 1x1"), ((1, 256, 56, 56), (64, 256, 1, 1)), ((1, 1024, 14, 14), (256, 1024, 1, 1))),
            (_convolution("conv 7x7 stride 2", 2), ((1, 3, 224, 224), (64, 3, 7, 7))),
            (_convolution("depthwise 3x3"), ((1, 128, 56, 56), (128, 1, 3, 3))),
        )
    ),
)
OPS: Final = tuple(dict.fromkeys(workload.name for group in GROUPS for workload in group.workloads))

ASKED_MEAN, ASKED_SMALLEST = 1.1, 0.9


def rows_of(found: Iterable[Row]) -> list[dict[str, Any]]:
    """Return a row per product of npu_tensor, in microseconds. Without a peer, the comparison is None."""
    products: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in found:
        shape = " ".join(size_name(tuple(extents)) for extents in row.shapes)
        products.setdefault((row.case, row.dtype, shape), {})[row.contender] = row
    rows = []
    for (op, dtype, shape), contenders in products.items():
        ours = contenders.pop(JITTED, None)
        if ours is None or ours.flops is None:
            continue
        best = min(contenders.values(), key=lambda row: row.p50, default=None)
        rows.append(
            {
                "op": op,
                "dtype": dtype,
                "shape": shape,
                "gflops": ours.flops / ours.p50 / 1e9,
                "ours": ours.p50 * 1e6,
                "best_peer": best and best.p50 * 1e6,
                "peer": best and best.contender,
                "peers": {name: row.p50 * 1e6 for name, row in contenders.items()},
                "speedup": best and best.p50 / ours.p50,
            }
        )
    return rows


def summary(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return geometric mean and minimum of the speedups, of all rows and by dtype, and whether the targets are met."""
    speedups: dict[str, list[float]] = {}
    for row in rows:
        for key in ("all", row["dtype"]) if row["speedup"] else ():
            speedups.setdefault(key, []).append(row["speedup"])
    return [
        {
            "dtype": dtype,
            "rows": len(values),
            "mean": (mean := statistics.geometric_mean(values)),
            "smallest": min(values),
            "met": mean >= ASKED_MEAN and min(values) >= ASKED_SMALLEST,
        }
        for dtype, values in speedups.items()
    ]


def _found(ops: Sequence[str], libraries: Sequence[Library], quick: bool) -> Iterator[Found]:
    for case in track(list(cases(ops, quick=quick, groups=GROUPS)), "measuring"):
        amount = QUICK_AMOUNT if quick else LARGE_AMOUNT if case.flops >= LARGE else FULL_AMOUNT
        yield from measured(case, libraries, amount)


@benchmark("Few rounds, no large sizes: to see that it works, not for figures.")
@click.option("--only", help="Comma-separated ops: " + ", ".join(OPS))
def main(only: str | None, quick: bool) -> Outcome:
    """Products and convolutions beside the best of NumPy, PyTorch and JAX."""
    ops = only.split(",") if only else []
    if unknown := set(ops) - set(OPS):
        raise click.BadParameter(f"no such op: {', '.join(sorted(unknown))}", param_hint="--only")
    libraries = [Jitted(), *peers.load(PEERS, nt.get_num_threads())[0]]
    with nt.default_device("cpu"):
        result = list(_found(ops, libraries, quick))
    rows = rows_of(entry for entry in result if isinstance(entry, Row))
    left_out = [entry._asdict() for entry in result if isinstance(entry, LeftOut)]
    figures = ("GFLOP/s = gflops:.1f", "us = ours:.1f", "best peer us = best_peer:.1f", "peer", "speedup:.2f")
    goals = summary(rows)
    return Outcome(
        {"rows": rows, "summary": goals, "left_out": left_out},
        [
            table("npu_tensor inside nt.jit and the best peer", rows, "op", "dtype", "shape", *figures),
            table("speedups", goals, "dtype", "rows", "geometric mean = mean:.2f", "smallest:.2f", "met"),
        ],
        [
            ", ".join(f"{library.name} {library.version}" for library in libraries),
            *(f"{entry['case']} {entry['dtype']}: {entry['reason']}" for entry in left_out if entry["failed"]),
        ],
    )


if __name__ == "__main__":
    main()
