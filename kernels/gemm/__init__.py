"""Matrix product family: batches of products with float32 or int32 sums and an element-wise epilogue.

bfloat16, int8 and int16 operands are native. If the target allows it, float32 is emulated or rounded to bfloat16, and
float16 passes through bfloat16. Matrices with contiguous rows are read in place, B by rows or by columns. The host pads
K with zeros to whole tiles and reorders a transposed A.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from npu_tensor.dataflow.checks.limits import LIMITS, WORD
from npu_tensor.dtypes import DType
from npu_tensor.kernels.block_floats import PackedOrder
from npu_tensor.kernels.codegen.storage import EXACT
from npu_tensor.kernels.gemm.design import design
from npu_tensor.kernels.gemm.epilogue import Epilogue, Reads, epilogue
from npu_tensor.kernels.gemm.tiling import LANES, SUMS, WIDE, GemmProblem, Tiling, ranked
from npu_tensor.kernels.offer import HostOperand, Located, Offer, Target, first_offer, in_place
from npu_tensor.ops.declare import Layout
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Input, Refusal, Task

__all__ = ["claim", "folded", "tiled"]

MOST_TRANSFERS: Final = 1 << 14
"""Upper bound on transfers per run; each takes 120 bytes of instructions."""


MOST_APART: Final = 4
"""Upper bound on the ratio between the memory range of an operand and its elements.

A sparser operand is packed by the host; otherwise the buffer holds the whole range from the tensor's first element on.
"""


class Folded(NamedTuple):
    """Tensors of a product over a batch: extents of the batch, and layouts over it and the matrix."""

    batch: tuple[int, ...]
    a: Layout
    b: Layout
    result: Layout


def claim(task: Task, target: Target) -> Offer | Refusal:
    """Return a design for a matmul task, or the reason why there is none."""
    if task.prologues != (None, None):
        return Refusal("a matrix product whose operands are computed on the way")
    if len(task.outputs) != 1:
        return Refusal("a matrix product with several results")
    operand = operand_dtype(task.inputs[0].dtype, target)
    if isinstance(operand, Refusal):
        return operand
    code = epilogue(task, target.array.arch, SUMS[operand])
    if isinstance(code, Refusal):
        return code
    return _offer(task, target, operand, *code)


_OPERANDS: Final = {
    "float32": "bfloat16",
    "bfloat16": "bfloat16",
    "float16": "bfloat16",
    "int8": "int8",
    "uint8": "int16",
    "int16": "int16",
}
"""Dtypes to which the host converts operands for the array, unless float32 is emulated."""


def operand_dtype(dtype: DType | None, target: Target) -> str | Refusal:
    """Return the type in which the array multiplies A and B."""
    assert dtype is not None
    if dtype.name in EXACT and target.float32 == "exact":
        return Refusal(EXACT[dtype.name])
    if dtype.name == "float32" and target.float32 == "emulate":
        return "float32"
    operand = _OPERANDS.get(dtype.name)
    if operand is None:
        return Refusal(f"no matrix product of {dtype.name}")
    # Only the newer generation multiplies block floats; the older one has bfloat16 products as fast as its own.
    shares = operand == "bfloat16" and target.bfloat16 == "bfp16" and "bfp16" in target.array.blocks
    return "bfp16" if shares else operand


def _offer(task: Task, target: Target, operand: str, code: Epilogue, reads: Reads) -> Offer | Refusal:
    dtype = task.outputs[0].dtype.name
    result = RESULTS.get(dtype)
    if result is None:
        return Refusal(f"a matrix product with a result of {dtype}")
    operands = folded(task)
    m, k, n = *operands.a.shape[-2:], operands.b.shape[-1]
    if not k:
        return Refusal("a sum of no products")
    if operand == "bfloat16" and LANES in target.array.blocks and n >= WIDE // 2 * target.columns:
        operand = LANES  # with fewer results in a row, the other product spreads them over more cores
    packed = operand == "bfp16" and bool(task.inputs[1].persistent)
    transposed = packed or operands.b.strides[-2] < operands.b.strides[-1]
    problem = GemmProblem(
        target.array.arch,
        target.columns,
        operand,
        result,
        m,
        n,
        k,
        math.prod(operands.batch),
        transposed,
        len(reads.rows),
        len(reads.columns),
        code.vector_cycles,
        packed,
    )
    tilings = ranked(problem)
    if not tilings:
        return Refusal(f"rows of {n} results lie too far apart for the DMA")
    return first_offer(partial(tiled, task, problem, operands, code, reads, tiling) for tiling in tilings)


def tiled(
    task: Task, problem: GemmProblem, operands: Folded, code: Epilogue, reads: Reads, tiling: Tiling
) -> Offer | Refusal:
    """Return the offer of a tiling."""
    transfers = tiling.transfers(problem)
    if transfers > MOST_TRANSFERS:
        return Refusal(f"{transfers} transfers in one run; {MOST_TRANSFERS} are the most")
    padded_m, padded_n, padded_k = map(int, tiling.padded(problem))
    a, in_a = _read(0, task.inputs[0], operands.a, (padded_m, padded_k), 1, problem, tiling.a_run)
    if problem.packed:
        b, in_b = _packed(operands.b, problem, tiling)
    else:
        b_padded = (padded_n, padded_k) if problem.transposed else (padded_k, padded_n)
        b_stored, b_depth = _swapped(operands.b, problem.transposed), 1 if problem.transposed else 0
        b, in_b = _read(1, task.inputs[1], b_stored, b_padded, b_depth, problem, tiling.memtile_k)
    word = SUMS[problem.operand]
    vectors = [
        HostOperand(number, False, vector_layout(task.inputs[number], dim), (elements,), reads.word(number, word))
        for numbers, dim, elements in (
            (reads.rows, -1, tiling.row_elements(problem)),
            (reads.columns, -2, tiling.column_elements(problem)),
        )
        for number in numbers
    ]
    c = HostOperand(0, True, operands.result, (*operands.batch, padded_m, padded_n), problem.result)
    kept = (a, c) if problem.packed else (a, b, c)
    pads = any(host.padding is not None and host.padded[1:] != host.layout.shape[1:] for host in kept)
    return Offer(
        "gemm",
        _reason(task, problem, tiling, pads),
        partial(design, problem, tiling, code, in_a, in_b, operands.batch),
        (a, b, *vectors, c),
        tuple((number, reads.word(number, word)) for number in reads.scalars),
        problem.operand == "bfp16",
    )


RESULTS: Final = {
    **{name: name for name in ("float32", "bfloat16", "int32", "int16", "int8", "uint8")},
    "bool": "uint8",
    "float16": "float32",
}
"""Dtype of a result in its host buffer."""


def folded(task: Task) -> Folded:
    """Return the operands without batch dimensions of extent 1.

    Batch dimensions that only add rows of A are joined to its rows.
    """
    left, right = (operand.layout for operand in task.inputs[:2])
    assert left is not None
    assert right is not None
    a, b, result = (_without(layout, layout.shape, 1) for layout in (left, right, task.outputs[0].layout))
    while len(a.shape) > 2 and b.strides[-3] == 0 and _joins(a) and _joins(result):
        a, result = _joined(a), _joined(result)
        b = Layout((*b.shape[:-3], *b.shape[-2:]), (*b.strides[:-3], *b.strides[-2:]), b.offset)
    return Folded(a.shape[:-2], a, b, result)


def _without(layout: Layout, values: Sequence[int], value: int) -> Layout:
    """Drop the batch dimensions whose entry in `values` is `value`."""
    dims = [d for d in range(len(layout.shape)) if d >= len(layout.shape) - 2 or values[d] != value]
    return Layout(tuple(layout.shape[d] for d in dims), tuple(layout.strides[d] for d in dims), layout.offset)


def _joins(layout: Layout) -> bool:
    """Return True if the last batch dimension continues the rows."""
    return layout.shape[-2] == 1 or layout.strides[-3] == layout.shape[-2] * layout.strides[-2]


def _joined(layout: Layout) -> Layout:
    *batch, more, rows, columns = layout.shape
    stride = layout.strides[-2] if rows > 1 else layout.strides[-3]
    return Layout((*batch, more * rows, columns), (*layout.strides[:-3], stride, layout.strides[-1]), layout.offset)


def _swapped(layout: Layout, transposed: bool) -> Layout:
    """Return the layout of the transposed matrix if it is stored transposed."""
    (*batch, rows, columns), (*steps, down, right) = layout.shape, layout.strides
    if not transposed:
        return layout
    return Layout((*batch, columns, rows), (*steps, right, down), layout.offset)


def _read(
    number: int, operand: Input, layout: Layout, padded: tuple[int, int], depth: int, problem: GemmProblem, run: int
) -> tuple[HostOperand, Located]:
    """Return the host buffer of an operand and the layout of its matrices there, in place if possible.

    Args:
        number: Index of the task's input.
        operand: Input of the task.
        layout: Layout over the batch and the stored matrix.
        padded: Extents of the stored matrix in the host buffer.
        depth: Axis of the stored matrix that is K.
        problem: Problem to solve.
        run: Elements that are read at once along K.
    """
    (*batch, rows, columns), (*steps, row, _) = layout.shape, layout.strides
    assert operand.dtype is not None
    # Data after the last row, or after the last column unless that is K, only affects results that are discarded.
    last = layout.offset + sum((extent - 1) * step for extent, step in zip(batch, steps, strict=True))
    used, elements = (last + (tall - 1) * row + wide for tall, wide in ((rows, columns), padded))
    own = math.prod([extent for extent, step in zip((*batch, rows), (*steps, row), strict=True) if step]) * columns
    is_dense = max(used, elements) <= MOST_APART * max(own, math.prod(padded))
    whole = operand.dtype.name == problem.stored and padded[depth] == problem.k
    if whole and is_dense and _walks(layout, padded, problem, run):
        return in_place(HostOperand(number, False, layout, padded, problem.stored), elements)
    held = _without(layout, layout.strides, 0)
    host = HostOperand(number, False, held, (*held.shape[:-2], *padded), problem.stored)
    return host, Located(0, (*_batch_strides(layout, math.prod(padded)), padded[1]), math.prod(host.padded))


def _packed(layout: Layout, problem: GemmProblem, tiling: Tiling) -> tuple[HostOperand, Located]:
    """Return the host buffer of a constant B in blocks, and the layout of its matrices there, in bytes."""
    held = _without(layout, layout.strides, 0)
    columns = range(0, tiling.columns * tiling.n, tiling.n)
    starts = tuple([left + column for left in tiling.lefts(problem) for column in columns])
    depth = int(tiling.padded(problem)[2])
    order = PackedOrder(held, depth, starts, tiling.n, tiling.k, problem.blocks.columns)
    nbytes = len(starts) * order.panel_nbytes
    host = HostOperand(1, False, held, (math.prod(held.shape[:-2]) * nbytes,), "uint8", None, order=order)
    return host, Located(0, (*_batch_strides(layout, nbytes), order.panel_nbytes), host.padded[0])


def _batch_strides(layout: Layout, size: int) -> tuple[int, ...]:
    """Return the distances between matrices of a size along the batch. Repeated ones are stored once."""
    batch = list(zip(layout.shape[:-2], layout.strides, strict=False))
    dense = contiguous_strides(tuple([extent if step else 1 for extent, step in batch]))
    return tuple([size * each if step else 0 for each, (_, step) in zip(dense, batch, strict=True)])


def _walks(layout: Layout, padded: tuple[int, int], problem: GemmProblem, run: int) -> bool:
    """Return True if the DMA can read a stored matrix in place, in words and within its strides."""
    *steps, row, column = layout.strides
    size, shim = problem.sizes[0], LIMITS["shim"]
    farthest = row if problem.transposed else row * run
    return (
        column == 1
        and all(step >= 0 and step * size % WORD == 0 for step in (layout.offset, row, *steps))
        and farthest * size <= shim.stride * WORD
        and (row == padded[1] or run * size <= shim.wrap * WORD)
    )


def vector_layout(operand: Input, dim: int) -> Layout:
    """Return the layout of an epilogue operand along one dimension of the result."""
    assert operand.layout is not None
    return Layout((operand.layout.shape[dim],), (operand.layout.strides[dim],), operand.layout.offset)


def _reason(task: Task, problem: GemmProblem, tiling: Tiling, pads: bool) -> str:
    """Describe the design for `explain`: cores, tiles, host conversions or copies. pads: True if it pads a matrix."""
    cores = tiling.rows * tiling.columns
    factors = "bfp16 (eight bfloat16 numbers share an exponent)" if problem.operand == "bfp16" else problem.stored
    parts = [f"{factors} products on {cores} {'core' if cores == 1 else 'cores'}"]
    parts.append(f"tiles of {tiling.m} x {tiling.k} x {tiling.n} per core")
    if problem.packed:
        parts.append("the host stores B as blocks")
    if pads:
        parts.append("the host pads to {} x {} x {}".format(*tiling.padded(problem)))
    stored = task.inputs[0].dtype
    if stored is not None and stored.name != problem.stored:
        parts.append(f"{stored.name} operands become {problem.stored}")
    return "; ".join(parts)
