"""Comparison of the cost model with published measurements of NPU kernels: python -m benchmarks.published.

published.json contains the measurements: computation, columns, published time and timing method. Each is predicted with
the rates of npu_tensor/dataflow/rates.json: launches and changes of configuration or context by the rates alone, decode
steps by benchmarks.decode, and kernels with the tiles of the source if it gives them, else with the design of the
kernel families. The launch time of a source was measured with small kernels and contains the starts of their transfers,
which are therefore not added. A source may describe differences of its kernel: `cores` that compute and `channels` that
read in a column, `banks` for buffers in separate banks, no `changes` of configuration in a decode step, and `cycles`,
the ratio of its code's cycles to ours (one number for all its rows). Products of other sources load both operands from
one bank.

Kernel functions in hardware traces come first (benchmarks.traced): they test how cycles are predicted from
instructions. Ours are counted from our code for the same op and number of elements.

Rows to which a constant of the model or of the source was fitted are marked with `fit`. The others are held out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final, NamedTuple

import click

import npu_tensor as nt
from npu_tensor.dataflow.array import STREAM_BYTES_PER_CYCLE, Array
from npu_tensor.dataflow.cost import RUN_BYTES, count, predict
from npu_tensor.dataflow.design import ObjectType
from npu_tensor.dtypes import as_dtype
from npu_tensor.kernels import families
from npu_tensor.kernels.codegen.cycles import function
from npu_tensor.kernels.gemm.tiling import BLOCK_CYCLES, GemmProblem, multiply_cycles
from npu_tensor.kernels.movement.tiling import TRANSPOSE_ROWS
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.runtime.rates import npu_rates
from npu_tensor.runtime.sim.kind import SIMULATED

from . import traced
from .decode import DecoderShape, decode
from .predicted import npu_tasks
from .report import Outcome, Table, benchmark, table

ROWS: Final = 64
"""Rows, or vectors, of the computations whose kernel functions are compared with traced ones."""

DIFFERENT: Final = 1.5
"""Minimum ratio of the times of two rows that the model must rank."""

SIZES: Final = {"int8": 1, "int16": 2, "int32": 4, "bfloat16": 2, "bfp16": 2, "float32": 4}
OPERANDS: Final = {"add": 2, "mul": 2, "silu_mul": 2}
OPS: Final[Mapping[str, Any]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "silu_mul": lambda a, b: a.silu() * b,
    "relu": nt.relu,
    "leaky_relu": nt.leaky_relu,
    "tanh": nt.tanh,
    "exp": nt.exp,
    "sigmoid": nt.sigmoid,
    "silu": nt.silu,
    "gelu": partial(nt.gelu, approximate="tanh"),
    "softmax": partial(nt.softmax, dim=-1),
    "rms_norm": lambda x: nt.rms_norm(x, x.shape[-1:]),
    "layer_norm": lambda x: nt.layer_norm(x, x.shape[-1:]),
}


class Tile(NamedTuple):
    """Tile of a published product.

    Attributes:
        core: m, k and n of a core.
        herd: Cores along M and N.
        runs: Consecutive elements of A and B.
    """

    core: tuple[int, int, int]
    herd: tuple[int, int]
    runs: tuple[int, int]


class Measurement(NamedTuple):
    """One row of published.json. `source` is the record of its source; `extents` are M, K and N for a product."""

    name: str
    source: Mapping[str, Any]
    kind: str
    operand: str
    result: str
    extents: tuple[int, ...]
    columns: int
    seconds: float
    fit: bool
    tile: Tile | None

    @property
    def array(self) -> Array:
        """Array of the measurement."""
        return SIMULATED[self.source["array"]]

    @property
    def stored(self) -> str:
        """Dtype of the operands in memory."""
        return "bfloat16" if self.operand == "bfp16" else self.operand

    @property
    def macs(self) -> int:
        """Multiply-accumulates of a product; 0 for other kinds."""
        return math.prod(self.extents) if self.kind in ("matmul", "linear", "matvec") else 0

    @property
    def nbytes(self) -> int:
        """Bytes of the operands and the result of a matrix-vector product."""
        return (math.prod(self.extents) + sum(self.extents)) * SIZES[self.operand]


class Busy(NamedTuple):
    """Busy seconds of each resource of the array."""

    compute: float
    stream: float
    ddr: float


@cache
def measurements() -> tuple[Measurement, ...]:
    """Return all rows of published.json."""
    content = json.loads(Path(__file__).with_name("published.json").read_text("utf-8"))
    return tuple(_measurement(row, content["sources"]) for row in content["rows"])


def _measurement(row: Mapping[str, Any], sources: Mapping[str, Any]) -> Measurement:
    kind, operand, *_, size = row["work"].split()
    tile = row.get("tile")
    result = Measurement(
        row["source"],
        sources[row["source"]],
        kind,
        operand,
        row["work"].split()[-2],
        tuple(map(int, size.split("x"))),
        row["columns"],
        row["value"] * 1e-6,
        row.get("fit", False),
        None if tile is None else Tile(tuple(tile["core"]), tuple(tile["herd"]), tuple(tile["runs"])),
    )
    units = {
        "GFLOPS": lambda: 2e-9 * result.macs,
        "TFLOPS": lambda: 2e-12 * result.macs,
        "GB/s": lambda: 1e-9 * result.nbytes,
        "tokens/s": lambda: 1.0,
    }
    return result._replace(seconds=units[row["unit"]]() / row["value"]) if row["unit"] != "us" else result


def predicted(row: Measurement, like_ours: bool = False) -> float:
    """Predict the seconds of a row by the timing method of its source, with the launch overhead of the source.

    With `like_ours`, the code is assumed to be as fast as ours.
    """
    without_kernel = _without_kernel(row)
    if without_kernel is not None:
        return without_kernel
    return float(row.source["launch_us"]) * 1e-6 + max(busy(row, like_ours))


def _without_kernel(row: Measurement) -> float | None:
    """Predict the seconds of a launch, a change, or a decode step of several launches. None for a kernel."""
    rates = npu_rates(row.source["array"])
    match row.kind:
        case "dispatch":  # from C++
            return rates.dispatch_seconds
        case "launch":  # from Python
            return rates.python_seconds + rates.dispatch_seconds
        case "change":
            return rates.change_seconds
        case "switch":
            return rates.switch_seconds + row.columns * rates.switch_column_seconds
        case "decode":
            step = _decode_step(row.operand, row.extents, row.source["array"], row.source["way"])
            return 1 / float(step["rate"]) - (float(step["changes"]) if row.source.get("changes") == 0 else 0)
    return None


@cache
def _decode_step(weights: str, extents: tuple[int, ...], array: str, way: str) -> dict[str, Any]:
    dtype = as_dtype(weights)
    steps = decode("", DecoderShape(*extents)._replace(weights=dtype, head=dtype), array, 2048)
    return next(step for step in steps if step["way"] == way)


def busy(row: Measurement, like_ours: bool = False) -> Busy:
    """Predict the busy times of the array."""
    result = _of_designs(row) if row.tile is None else _of_tile(row, row.tile)
    if like_ours:
        return result
    return result._replace(compute=result.compute * row.source.get("cycles", 1) * _conflicts(row))


def _conflicts(row: Measurement) -> float:
    """Return the ratio of a product's cycles to ours if every pair of its loads is in one bank of memory."""
    if row.tile is not None or row.source.get("banks") or row.kind not in ("matmul", "linear"):
        return 1.0
    (design,) = _designs(row.kind, row.operand, row.result, row.extents, row.source["array"], row.columns)
    ours = next((each for each in design.functions if each.symbol == "nt_gemm_multiply"), None)
    if ours is None:  # few rows
        return 1.0
    m, k, n = row.extents
    problem = GemmProblem(row.array.arch, row.columns, row.operand, row.result, m, n, k)
    a, b = (each.elements for each in ours.arguments[:2] if isinstance(each, ObjectType))
    k = a // (problem.blocks.rows * problem.blocks.r)
    return float(multiply_cycles(problem, b // k, k) / ours.cycles)


def _of_designs(row: Measurement) -> Busy:
    """Sum the busy times of the kernel families' designs, with the published cores and channels."""
    total = Busy(0.0, 0.0, 0.0)
    for design in _designs(row.kind, row.operand, row.result, row.extents, row.source["array"], row.columns):
        counters = count(design)
        result = predict(counters, row.array)
        columns = len({tile.column for tile in counters.cycles})
        cores = sum(cycles > 0 for cycles in counters.cycles.values()) / columns
        readers = sum(channel.tile.kind == "shim" and channel.direction == "out" for channel in counters.stream_bytes)
        part = Busy(
            result.compute * cores / row.source.get("cores", cores),
            result.stream * readers / columns / row.source.get("channels", readers / columns),
            result.ddr,
        )
        total = Busy(*(a + b for a, b in zip(total, part, strict=True)))
    return total


@cache
def _designs(kind: str, operand: str, result: str, extents: tuple[int, ...], array: str, columns: int) -> list[Any]:
    target = Target(SIMULATED[array], columns, "bfloat16", "bfp16" if operand == "bfp16" else "exact")
    answers = [families.claim(task, target) for task in npu_tasks(_computed(kind, operand, result, extents))]
    assert all(isinstance(answer, Offer) for answer in answers), answers
    return [answer.design() for answer in answers if isinstance(answer, Offer)]


def _computed(kind: str, operand: str, result: str, extents: tuple[int, ...]) -> nt.Tensor:
    def zeros(*shape: int) -> nt.Tensor:
        return nt.zeros(*shape, dtype=as_dtype("bfloat16" if operand == "bfp16" else operand)).realize()

    if kind == "matvec":
        return zeros(*extents) @ zeros(extents[1])
    if kind in ("matmul", "linear"):
        m, k, n = extents
        product = zeros(m, k) @ zeros(k, n) if kind == "matmul" else nt.linear(zeros(m, k), zeros(n, k))
        return product.to(as_dtype(result))
    computed: nt.Tensor = OPS[kind](*(zeros(*extents) for _ in range(OPERANDS.get(kind, 1))))
    return computed


def _of_tile(row: Measurement, tile: Tile) -> Busy:
    """Predict the busy times of a product with the published tiles."""
    array, size, result_size = row.array, SIZES[row.operand], SIZES[row.result]
    (m, k, n), (rows, columns) = tile.core, tile.herd
    full_m, full_k, full_n = row.extents
    tiles = math.ceil(full_m / (rows * m)) * math.ceil(full_n / (columns * n))
    bytes_read = sum(
        extent * full_k * (size + RUN_BYTES / run)
        for extent, run in ((rows * m, tile.runs[0]), (columns * n, tile.runs[1]))
    )
    written = rows * m * columns * (n * result_size + RUN_BYTES)
    return Busy(
        tiles * full_k / k * kernel_cycles(row, tile) / array.clock_hz,
        tiles * max(m, n) * full_k * size / (STREAM_BYTES_PER_CYCLE * array.clock_hz),
        tiles * (bytes_read + written) / array.ddr_bytes_per_second,
    )


def kernel_cycles(row: Measurement, tile: Tile) -> float:
    """Return the cycles of one m x k x n product, as counted by kernels.gemm.tiling.multiply_cycles.

    Kernels with buffers in separate banks (arXiv 2512.13282) also keep sums in the dtype of the result.
    """
    array = row.array
    r, s, t, rows, columns = array.blocks[row.operand]
    m, k, n = tile.core
    placed = row.source.get("banks", False)
    loads = (rows * r + columns * t) * s * SIZES[row.operand] / array.load_bytes
    products = max(rows * columns * r * s * t / array.macs_per_cycle[row.operand], loads)
    sums = rows * columns * r * t * (SIZES[row.result] if placed else 4)
    stored = sums / array.load_bytes + sums / array.store_bytes if placed else sums / array.store_bytes
    block = k / s * (products if placed else products + loads) + stored + BLOCK_CYCLES
    return m * n / (rows * r * columns * t) * block


def compared(rows: Iterable[Measurement]) -> Iterator[dict[str, Any]]:
    """Yield the measured and the predicted time of each row, and the limiting resource of the model."""
    for row in rows:
        seconds = predicted(row)
        launch = float(row.source["launch_us"]) * 1e-6
        limits = {"launch": launch} | (busy(row)._asdict() if _without_kernel(row) is None else {})
        yield {
            "source": row.name,
            "array": row.source["array"],
            "columns": row.columns,
            "work": f"{row.kind} {row.operand}",
            "size": "x".join(map(str, row.extents)),
            "published_us": row.seconds * 1e6,
            "predicted_us": seconds * 1e6,
            "error": seconds / row.seconds - 1,
            "like_ours_us": predicted(row, like_ours=True) * 1e6,
            "limit": max(limits, key=lambda name: limits[name]),
            "fit": row.fit,
        }


def kernels() -> list[dict[str, Any]]:
    """Return the traced kernels, with the cycles counted for ours where there is one for the same work."""
    rows = list(traced.compared())
    for row in rows:
        if row["design"] is not None:
            row["ours"] = _our_cycles(row)
            row["ratio"] = row["ours"] / row["traced"]
    return rows


def _our_cycles(row: Mapping[str, Any]) -> float:
    """Count the cycles of our function for the work of a traced one."""
    array, op, dtype, shape = SIMULATED[row["array"]], row["op"], row["dtype"], row["shape"]
    if op == "matmul":
        m, k, n = shape
        problem = GemmProblem(array.arch, 1, dtype, "float32", m, n, k)
        blocks = problem.blocks
        return float(m // (blocks.rows * blocks.r) * multiply_cycles(problem, n, k))
    if op == "transpose":
        size = 8 * SIZES[dtype]
        block = TRANSPOSE_ROWS * 512 // size
        return float(math.prod(shape) // block * function(f"aligned transpose int{size}", array.arch).straight)
    rows = ROWS if op in ("softmax", "rms_norm", "layer_norm") else 1
    extents = (rows, *shape) if rows > 1 else (ROWS * shape[0],)
    (design,) = _designs(op, dtype, dtype, extents, row["array"], 1)
    called = max(design.functions, key=lambda each: each.cycles)
    elements = max(type.elements for type in called.arguments if isinstance(type, ObjectType))
    return float(called.cycles * math.prod(shape) / elements)


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return median and 90 % error, shares within 25 % and 50 %, and the share of correctly ranked pairs."""
    errors = [abs(row["error"]) for row in rows]
    pairs = [
        (a["published_us"] < b["published_us"]) == (a["predicted_us"] < b["predicted_us"])
        for a, b in combinations(rows, 2)
        if max(a["published_us"], b["published_us"]) >= DIFFERENT * min(a["published_us"], b["published_us"])
    ]
    return {
        "rows": len(rows),
        "median_error": median(errors),
        "error_90": quantiles(errors, n=10, method="inclusive")[-1] if len(errors) > 1 else errors[0],
        "within_25": sum(error <= 0.25 for error in errors) / len(errors),
        "within_50": sum(error <= 0.5 for error in errors) / len(errors),
        "pairs": len(pairs),
        "ranked": sum(pairs) / len(pairs) if pairs else 1.0,
    }


def _summaries(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Summarize all rows without the sources' factors, held-out rows with and without, fitted rows, and each source."""
    kept = [row for row in rows if not row["fit"]]

    def like_ours(chosen: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            row | {"predicted_us": row["like_ours_us"], "error": row["like_ours_us"] / row["published_us"] - 1}
            for row in chosen
        ]

    result = {
        "all rows, code as ours": summary(like_ours(rows)),
        "the same, all code as ours": summary(like_ours(kept)),
        "kept out": summary(kept),
        "used for fitting": summary([row for row in rows if row["fit"]]),
    }
    for source in dict.fromkeys(row["source"] for row in kept):
        result[source] = summary([row for row in kept if row["source"] == source])
    return result


@benchmark("Without decode steps and products whose tiles are published.", timed=False)
@click.option("--all", "everything", is_flag=True, help="Also print every row.")
def main(quick: bool, everything: bool) -> Outcome:
    """Compare the cost model with kernels that others have measured."""
    rows = list(compared(row for row in measurements() if not quick or (row.tile is None and row.kind != "decode")))
    summaries = _summaries(rows)
    kernel_rows = kernels()
    tables: list[Table] = traced.tables(kernel_rows)
    if everything:
        tables.append(
            table(
                "published and predicted, us",
                rows,
                *("source", "array", "columns", "work", "size", "published = published_us:,.0f"),
                *("predicted = predicted_us:,.0f", "error:+.0%", "limit", "fit"),
            )
        )
    tables.append(
        table(
            f"errors, and pairs that differ by {DIFFERENT} x or more",
            [{"of": name, **result} for name, result in summaries.items()],
            *("of", "rows", "median = median_error:.0%", "90 % = error_90:.0%", "within 25 % = within_25:.0%"),
            *("within 50 % = within_50:.0%", "pairs", "ranked right = ranked:.1%"),
        )
    )
    result = {
        "rows": rows,
        "summaries": summaries,
        "kernels": kernel_rows,
        "kernel_summaries": traced.summaries(kernel_rows),
    }
    return Outcome(result, tables, [])


if __name__ == "__main__":
    main()
