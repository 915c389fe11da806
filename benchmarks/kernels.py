"""Times of the NPU kernels, predicted by the cost model from their designs: python -m benchmarks.kernels.

No kernel runs. Each workload is recorded with the public interface and cut into tasks as for the simulated NPU. The
design of every task is counted: cycles of the busiest core, bytes of the busiest DMA channel, bytes between host memory
and array. The constants of the model are in npu_tensor/dataflow/array.py, cost.py and kernels/gemm/tiling.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import click

import npu_tensor as nt
from npu_tensor import ops
from npu_tensor.dataflow.array import ARRAYS, STREAM_BYTES_PER_CYCLE
from npu_tensor.dataflow.cost import count, predict
from npu_tensor.dtypes import as_dtype
from npu_tensor.kernels import families
from npu_tensor.kernels.gemm.tiling import PACKED_MACS
from npu_tensor.kernels.offer import HostOperand, Offer, Target
from npu_tensor.task import Task

from .predicted import npu_tasks
from .report import Outcome, Table, benchmark, table

Shape = tuple[int, ...]

SHIM_CHANNELS: Final = 2
"""Number of shim DMA channels per column and direction."""


class Workload(NamedTuple):
    """Computation on operands of one dtype and given shapes.

    With `blocks`, the second operand is constant, and bfloat16 products on aie2p may share exponents.
    """

    name: str
    dtype: str
    shapes: tuple[Shape, ...]
    compute: Callable[..., nt.Tensor]
    blocks: bool = False

    @property
    def size(self) -> str:
        """Extents of the operands, such as "64x64, 64"."""
        return ", ".join("x".join(map(str, shape)) for shape in self.shapes)


def _matrices(
    name: str, dtype: str, compute: Callable[..., nt.Tensor], *sizes: int, blocks: bool = False
) -> list[Workload]:
    return [Workload(name, dtype, ((n, n), (n, n)), compute, blocks) for n in sizes]


def _flat(operands: int, compute: Callable[..., nt.Tensor], name: str, dtype: str = "bfloat16") -> list[Workload]:
    return [Workload(name, dtype, ((n,),) * operands, compute) for n in (M, 16 * M)]


def _attention(q: nt.Tensor, k: nt.Tensor, v: nt.Tensor, is_causal: bool = False) -> nt.Tensor:
    """Record the op that NPUs have a kernel for."""
    return ops.attention(q, k, v, scale=q.shape[-1] ** -0.5, is_causal=is_causal)


def _rescaled(weight: nt.Tensor, x: nt.Tensor) -> nt.Tensor:
    """Multiply the int32 sums by a number and round them to int8."""
    sums = nt.mul_mat(weight, x).to(nt.float32)
    return (sums * 1e-4).round().clip(-128, 127).to(nt.int8)


def _depthwise(x: nt.Tensor, weight: nt.Tensor, kernel: int) -> nt.Tensor:
    return nt.conv2d(x, weight, padding=kernel // 2, groups=x.shape[1])


def _conv(x: nt.Tensor, weight: nt.Tensor) -> nt.Tensor:
    """Convolve an image that has its channels last in memory."""
    return nt.conv2d(x.permute(0, 3, 1, 2), weight, padding=1)


M: Final = 1 << 20
GEMM_SIZES: Final = (512, 1024, 2048, 4096)
HEADS: Final = (1, 32, 2048, 64)
KEY_HEADS: Final = (1, 8, 2048, 64)

WORKLOADS: Final = (
    *_matrices("linear", "bfloat16", nt.linear, *GEMM_SIZES),
    *_matrices("linear, block floats", "bfloat16", nt.linear, *GEMM_SIZES, blocks=True),
    *_matrices("matmul", "bfloat16", nt.matmul, *GEMM_SIZES),
    *_matrices("linear", "int8", nt.linear, *GEMM_SIZES),
    *_matrices("mul_mat", "bfloat16", nt.mul_mat, *GEMM_SIZES),
    *_matrices("mul_mat", "int8", nt.mul_mat, *GEMM_SIZES),
    Workload("mul_mat, rescaled", "int8", ((2048, 2048),) * 2, _rescaled),
    *_matrices("mul_mat", "int16", nt.mul_mat, *GEMM_SIZES),
    Workload(
        "linear+bias+gelu", "bfloat16", ((4096, 1024), (4096, 1024), (4096,)), lambda x, w, b: nt.linear(x, w, b).gelu()
    ),
    Workload("attention scores", "bfloat16", ((8, 32, 512, 64), (8, 32, 512, 64)), lambda q, k: nt.mul_mat(k, q)),
    Workload("attention, causal", "bfloat16", (HEADS, *[KEY_HEADS] * 2), partial(_attention, is_causal=True)),
    Workload("attention, long", "bfloat16", ((1, 2, 16384, 64),) * 3, _attention),
    Workload("attention, one token", "bfloat16", ((1, 32, 1, 64), *[KEY_HEADS] * 2), _attention),
    *[Workload("conv 3x3", "bfloat16", ((1, n, n, c), (c, c, 3, 3)), _conv) for n, c in ((56, 64), (14, 256))],
    *_flat(2, lambda a, b: a + b, "add"),
    *_flat(2, lambda a, b: a * b, "mul"),
    *_flat(1, nt.relu, "relu"),
    *_flat(1, nt.exp, "exp"),
    *_flat(1, nt.tanh, "tanh"),
    *_flat(1, partial(nt.gelu, approximate="tanh"), "gelu (tanh)"),
    *_flat(1, nt.gelu, "gelu"),
    *_flat(1, nt.silu, "silu"),
    *_flat(3, lambda a, b, c: (a * b + c).relu(), "a*b+c, relu"),
    *_flat(2, lambda a, b: a + b, "add", "int8"),
    *_flat(2, lambda a, b: a + b, "add", "int32"),
    Workload("add a row", "bfloat16", ((16384, 1024), (1024,)), lambda a, b: a + b),
    Workload("softmax", "bfloat16", ((16384, 1024),), partial(nt.softmax, dim=-1)),
    Workload("rms_norm", "bfloat16", ((16384, 1024),), lambda x: nt.rms_norm(x, (1024,))),
    Workload("layer_norm", "bfloat16", ((16384, 1024),), lambda x: nt.layer_norm(x, (1024,))),
    Workload("sum of rows", "bfloat16", ((16384, 1024),), lambda x: x.sum(-1)),
    Workload("sum", "bfloat16", ((16 * M,),), lambda x: x.sum()),
    Workload("argmax", "bfloat16", ((16384, 1024),), lambda x: x.argmax(-1)),
    Workload("matvec", "bfloat16", ((4096, 4096), (4096,)), nt.matmul),
    Workload("transpose", "bfloat16", ((4096, 4096),), lambda x: x.T.contiguous()),
    Workload("transpose", "int32", ((4096, 4096),), lambda x: x.T.contiguous()),
    Workload("permute", "bfloat16", ((8, 512, 32, 64),), lambda x: x.permute(0, 2, 1, 3).contiguous()),
    Workload("max pool 3x3, stride 2", "bfloat16", ((1, 64, 112, 112),), lambda x: nt.max_pool2d(x, 3, 2, 1)),
    Workload("depthwise 3x3", "bfloat16", ((1, 96, 56, 56), (96, 1, 3, 3)), partial(_depthwise, kernel=3)),
    Workload("depthwise 5x5", "bfloat16", ((1, 240, 28, 28), (240, 1, 5, 5)), partial(_depthwise, kernel=5)),
    Workload("concat", "bfloat16", ((4096, 2048), (4096, 2048)), lambda a, b: nt.cat([a, b], 1)),
)


class Asked(NamedTuple):
    """Target of a workload: tera operations per second, a fraction of the roofline, or microseconds."""

    tera: float = 0
    fraction: float = 0
    microseconds: float = math.inf


PUBLISHED: Final[dict[tuple[str, str], float]] = {
    ("aie2p", "attention, causal"): 15_400,
    ("aie2p", "attention, long"): 40_100,
    ("aie2p", "attention, one token"): 714,
}
"""Microseconds that Xilinx/mlir-air measured on npu2: two from its kernel registry, and pull request 1592.

The first two carry statistics and results in bfloat16. The last one includes a norm, projections and rope.
"""


TARGETS: Final[dict[tuple[str, str], Asked]] = {
    ("aie2", "linear bfloat16 2048x2048, 2048x2048"): Asked(tera=2.5),
    ("aie2", "linear bfloat16 4096x4096, 4096x4096"): Asked(tera=2.5),
    ("aie2p", "linear, block floats bfloat16 4096x4096, 4096x4096"): Asked(tera=15),
    ("aie2p", "linear int8 2048x2048, 2048x2048"): Asked(tera=20),
    ("aie2p", "linear bfloat16 4096x4096, 4096x4096"): Asked(tera=3),
    ("aie2p", "attention, causal bfloat16 1x32x2048x64, 1x8x2048x64, 1x8x2048x64"): Asked(microseconds=12_000),
    ("aie2p", "attention, one token bfloat16 1x32x1x64, 1x8x2048x64, 1x8x2048x64"): Asked(microseconds=400),
    **{
        (arch, f"{workload.name} bfloat16 {workload.size}"): Asked(fraction=0.8)
        for arch in ARRAYS
        for workload in WORKLOADS
        if workload.shapes[0] == (16 * M,) and workload.dtype == "bfloat16" and workload.name != "sum"
    },
}


def tasks_of(workload: Workload) -> Sequence[Task]:
    """Return the tasks of a workload for the simulated NPU, without the copy of a result from channels-last order."""
    dtype = as_dtype(workload.dtype)
    operands = [nt.zeros(*shape, dtype=dtype).realize() for shape in workload.shapes]
    tasks = npu_tasks(workload.compute(*operands))
    if workload.blocks:
        tasks = [task._replace(inputs=(task.inputs[0], task.inputs[1]._replace(persistent=True))) for task in tasks]
    return [task for task in tasks if task.ops != ("copy",)] or tasks


def measured(arch: str, columns: int, workloads: tuple[Workload, ...] = WORKLOADS) -> Iterator[dict[str, Any]]:
    """Yield one row per task of each workload. `refused` is the reason for a missing kernel."""
    for workload in workloads:
        target = Target(ARRAYS[arch], columns, bfloat16="bfp16" if workload.blocks else "exact")
        for task in tasks_of(workload):
            row: dict[str, Any] = {"kernel": workload.name, "dtype": workload.dtype, "shape": workload.size}
            row["task"] = task.name
            yield row | predicted(task, target)


def _refused(reason: str) -> dict[str, Any]:
    nothing = dict.fromkeys(("predicted_us", "array_us", "limit", "roofline_fraction"))
    return {"columns": 0, "cores": 0, "refused": reason, **nothing}


def predicted(task: Task, target: Target) -> dict[str, Any]:
    """Predict the kernel of a task. `refused` is the reason for a missing one."""
    offer = families.claim(task, target)
    if not isinstance(offer, Offer):
        return _refused(offer.reason)
    design = offer.design()
    counters = count(design)
    prediction = predict(counters, target.array)
    operations, seconds = 2 * task.macs, prediction.seconds + target.array.dispatch_seconds
    return {
        "columns": len({tile.column for fifo in design.fifos for tile in (fifo.producer, *fifo.consumers)}),
        "cores": sum(cycles > 0 for cycles in counters.cycles.values()),
        "predicted_us": seconds * 1e6,
        "limit": prediction.limit,
        "roofline_fraction": _roofline(task, offer, target) / prediction.seconds,
        "array_us": prediction.seconds * 1e6,
        "tera_per_second": operations / seconds / 1e12 if operations else None,
        "megabytes": counters.ddr_bytes / 1e6,
        "transfers": counters.transfers,
        "family": offer.family,
        "reason": offer.reason,
    }


def _roofline(task: Task, offer: Offer, target: Target) -> float:
    """Return a lower bound in seconds: every operand moves once, and every core multiplies all the time."""
    array = target.array
    sent = sum(_nbytes(operand) for operand in offer.operands if not operand.output)
    received = sum(_nbytes(operand) for operand in offer.operands if operand.output)
    channels = SHIM_CHANNELS * target.columns * STREAM_BYTES_PER_CYCLE * array.clock_hz
    per_cycle = PACKED_MACS if offer.coarse else array.most_macs(offer.operands[0].dtype)
    macs = per_cycle * array.core_rows * target.columns * array.clock_hz
    return max((sent + received) / array.ddr_bytes_per_second, max(sent, received) / channels, task.macs / macs)


def _nbytes(operand: HostOperand) -> int:
    """Return the bytes of the tensor's distinct elements in their dtype on the array."""
    extents = (n for n, stride in zip(operand.layout.shape, operand.layout.strides, strict=True) if stride)
    return math.prod(extents) * as_dtype(operand.dtype).itemsize


def _met(arch: str, row: dict[str, Any]) -> bool | None:
    target = TARGETS.get((arch, f"{row['kernel']} {row['dtype']} {row['shape']}"))
    if target is None or row["predicted_us"] is None:
        return None
    return bool(
        (row["tera_per_second"] or 0) >= target.tera
        and row["roofline_fraction"] >= target.fraction
        and row["predicted_us"] <= target.microseconds
    )


def _kernels_table(arch: str, columns: int, rows: list[dict[str, Any]]) -> Table:
    refusals = ({"cores": None, "limit": f"no kernel: {row.get('refused')}"[:44]} for row in rows)
    return table(
        f"predicted for {arch}, {columns} columns; us with the dispatch",
        [row | refusal if row["predicted_us"] is None else row for row, refusal in zip(rows, refusals, strict=True)],
        *("kernel", "dtype", "shape", "cores", "us = predicted_us:,.0f", "us of the array = array_us:,.0f"),
        *(
            "published us = published_us:,.0f",
            "its limit = limit",
            "of roofline = roofline_fraction:.2f",
            "TOPS = tera_per_second:.2f",
            "met",
        ),
    )


@benchmark("Only workloads with less than 8 million elements in an operand.", timed=False)
@click.option("--arch", type=click.Choice(list(ARRAYS)), default="aie2p", show_default=True)
@click.option("--columns", type=int, help="Columns of the array that may be used; all by default.")
def main(arch: str, columns: int | None, quick: bool) -> Outcome:
    """Predicted times of the NPU kernels."""
    columns = columns or ARRAYS[arch].columns
    chosen = tuple(w for w in WORKLOADS if not quick or max(map(math.prod, w.shapes)) < 8 * M)
    rows = list(measured(arch, columns, chosen))
    for row in rows:
        row["met"], row["published_us"] = _met(arch, row), PUBLISHED.get((arch, row["kernel"]))
    return Outcome(
        {"arch": arch, "columns": columns, "predicted": True, "rows": rows}, [_kernels_table(arch, columns, rows)], []
    )


if __name__ == "__main__":
    main()
