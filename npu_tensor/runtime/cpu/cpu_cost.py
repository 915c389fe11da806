"""Predicted cost of the kernels of the CPU device, and the pieces into which their loops are cut.

A loop lasts as long as its arithmetic or its memory traffic, whichever is longer. A product packs both operands first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from npu_tensor.ops.expression import Program
from npu_tensor.ops.primitives import PRIMITIVES
from npu_tensor.runtime.cpu.division import even_grain
from npu_tensor.runtime.cpu.gemm import Matrix, direct_tile, tile_rows
from npu_tensor.runtime.cpu.gemm_micro import Blocking
from npu_tensor.runtime.cpu.split import split_rows
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.rates import Level, ProcessorRates
from npu_tensor.task import Cost, Expense, Output, Task, TensorInput

PAGE: Final = 4096
"""Bytes; prefetching ends with a page."""

LEAST_PIECE: Final = 8 << 10
"""Elements of cheap work that pay for waking a second thread: a fork and join lasts about 1 us."""

PIECE: Final = 32 << 10
"""Elements that a thread claims at a time when there is plenty."""

PACKED_PIECE: Final = 32 << 10
"""Bytes of packed operands that a thread claims at a time; see `gemm`."""

WIDE: Final = frozenset({"float64", "int64"})
"""Register types of which half as many fit into a vector."""

NEAR: Final = frozenset({-1, 0, 1, 2})
"""Strides that loops read and write in whole vectors."""

TRANSPOSED_FLOPS: Final = 10
"""Cost of transposing an element in a tile, in operations: a transposed copy of 256 x 256 float32 lasts 0.14 ns per
element and thread of a Zen 5."""


def flops(program: Program) -> int:
    """Count the operations per element, as PRIMITIVES does."""
    return sum(PRIMITIVES[step.primitive].flops * (1 + (step.dtype in WIDE)) for step in program.instructions)


def grain(n: int, elements: int, program: Program, threads: int) -> int:
    """Return the positions per piece: a piece lasts some microseconds and large work has many pieces."""
    if elements == 0 or threads == 1:
        return max(n, 1)
    least = _least_piece(program)
    piece = PIECE if elements > 8 * PIECE else least
    per_position = elements / n
    positions = even_grain(n, max(1, math.ceil(piece / per_position)), threads)
    return (positions + 63) & ~63 if per_position == 1 else positions


def _least_piece(program: Program) -> float:
    """Return the minimum elements of a piece, by the cost of a sum of two operands, which has three accesses."""
    accesses = len(program.outputs) + sum(step.primitive == "load" for step in program.instructions)
    return LEAST_PIECE / (max(1, accesses / 3) + flops(program) / 16)


def _tensor_bytes(task: Task) -> int:
    """Count the bytes that are read at least once, or written."""
    nbytes = sum(output.nbytes for output in task.outputs)
    for source in task.tensors:
        extents = (e for e, s in zip(source.layout.shape, source.layout.strides, strict=True) if s)
        nbytes += source.dtype.nbytes(math.prod(extents))
    return nbytes


def _level(nbytes: float, working: int, rates: ProcessorRates) -> Level:
    return next((level for level in rates.levels if nbytes / working <= level.nbytes), rates.levels[-1])


def _memory_seconds(nbytes: float, working: int, rates: ProcessorRates) -> float:
    """Return the seconds to stream `nbytes` from the cache level that holds each thread's share."""
    level = _level(nbytes, working, rates)
    return nbytes / min(working * level.thread_bytes_per_second, level.bytes_per_second)


def _access_seconds(
    tensor: TensorInput | Output, rows: int, elements: int, level: Level, rates: ProcessorRates
) -> float:
    """Return a thread's seconds for elements that are not contiguous along the innermost dimension.

    Elements that are contiguous along another dimension are read in tiles, or by lanes across rows, so that each vector
    is in another line. All others are read one by one.
    """
    strides = [s for extent, s in zip(tensor.layout.shape, tensor.layout.strides, strict=True) if extent > 1] or [0]
    if strides[-1] in NEAR:
        return 0.0
    if 1 not in strides:
        return elements / rates.scattered_elements
    if not rows:
        return elements * TRANSPOSED_FLOPS / rates.flops
    distance = min(1.0, abs(strides[-1]) * tensor.dtype.itemsize / PAGE)
    return elements / rates.lanes * level.line_seconds * distance


def loop_cost(task: Task, rates: ProcessorRates, threads: int) -> Cost:
    """Return the cost of a map or row task as one loop over its elements."""
    elements, nbytes = math.prod(task.shape), _tensor_bytes(task)
    rows = math.prod(task.shape[: len(task.shape) - task.rows]) if task.rows else 0
    pieces = int(elements / _least_piece(task.program))
    if task.rows and split_rows(task, task.inputs) is None:
        pieces = min(pieces, rows)
    working = max(1, min(threads, pieces))
    reductions = sum(PRIMITIVES[step.primitive].reduces for step in task.program.instructions)
    tensors: list[TensorInput | Output] = [*task.tensors, *(() if task.rows else task.outputs)]
    level = _level(nbytes, working, rates)
    arithmetic = elements * flops(task.program) / rates.flops + rows * reductions * rates.row_seconds
    arithmetic += sum(_access_seconds(tensor, task.rows, elements, level, rates) for tensor in tensors)
    return _of_one_loop(nbytes, arithmetic, working, rates)


class ProductWork(NamedTuple):
    """Work of a matrix product with padded tiles and panels."""

    unit: str
    macs: int
    tiles: int
    packed: tuple[int, int]  # bytes of the panels of A and of B; 0 if they are read where they are
    before: tuple[int, int]  # operations of their prologues
    after: int  # of the epilogue


def factor_dtypes(task: Task) -> tuple[str, str]:
    """Return the dtypes that a matrix product multiplies, after the prologues."""
    a, b = (
        inputs[0].dtype if prologue is None else prologue.dtype
        for prologue, inputs in zip(task.prologues, task.split(task.inputs)[:2], strict=True)
    )
    assert a is not None
    assert b is not None
    return a.name, b.name


def product_work(task: Task, blocking: Blocking, target: CpuTarget) -> ProductWork:
    *batch, m, n = task.shape
    products, elements = math.prod(batch), math.prod(task.shape)
    left, right, _ = task.split(task.inputs)
    matrices, before = [], []
    for prologue, inputs, lines in zip(task.prologues, (left, right), (m, n), strict=True):
        layout = next(source.layout for source in inputs if source.layout is not None)
        matrices.append(math.prod(extent for extent, stride in zip(batch, layout.strides, strict=False) if stride))
        before.append(matrices[-1] * lines * task.depth * flops(prologue.program) if prologue else 0)
    unit, most, columns = blocking
    if matrices[1] == 1:  # Products that share B are one with more rows.
        m, products, matrices[0] = m * products, 1, 1
    rows, direct = tile_rows(m, most), None
    strides = [source.layout.strides for source in (left[0], right[0]) if source.layout]
    if not any(task.prologues) and all(len(each) == len(task.shape) for each in strides):
        a, b = map(Matrix, factor_dtypes(task), strides)
        direct = direct_tile((m, n, task.depth), a, b, unit, target, products, threads=1)
    if direct is not None:
        rows, columns = direct[0].rows, direct[0].columns
    width = (direct[0].group if direct else 0) or columns  # that are computed together
    down, across, steps = -(-m // rows), -(-n // columns), -(-task.depth // unit.count)
    tiles = products * down * across
    panels = (matrices[0] * down * rows, matrices[1] * across * columns) if direct is None else (0, 0)
    packed = (panels[0] * steps * unit.bytes, panels[1] * steps * unit.bytes)
    macs = products * down * rows * -(-n // width) * width * steps * unit.count
    return ProductWork(unit.name, macs, tiles, packed, (before[0], before[1]), elements * flops(task.program))


def product_cost(task: Task, rates: ProcessorRates, threads: int, blocking: Blocking, target: CpuTarget) -> Cost:
    """Return the cost of a matrix product: up to two loops that pack, with prologues, and one that multiplies."""
    nbytes, work = _tensor_bytes(task), product_work(task, blocking, target)
    working = max(1, min(threads, work.tiles))
    seconds = work.macs / rates.macs[work.unit] + work.tiles * rates.tile_seconds + work.after / rates.flops
    stages = [(max(seconds / working, _memory_seconds(nbytes, working, rates)), working)]
    for size, operations in zip(work.packed, work.before, strict=True):
        if not size:
            continue
        working = max(1, min(threads, size // PACKED_PIECE))
        seconds = size / rates.packed_bytes + operations / rates.flops
        stages.append((max(seconds / working, _memory_seconds(2 * size, working, rates)), working))
    return Cost(_sum(rates, *stages), nbytes)


WINOGRAD_SHARE: Final = 0.6
"""Cost of a Winograd convolution by that of direct sums, on a Zen 3: its multiplications alone are 16/36."""


def convolution_cost(task: Task, rates: ProcessorRates, threads: int, depthwise: bool, winograd: bool) -> Cost:
    """Return the cost of a convolution, at the rate of matrix products, or of element-wise work if depthwise."""
    elements, nbytes = math.prod(task.shape), _tensor_bytes(task)
    seconds = 2 * task.macs / rates.flops if depthwise else task.macs / rates.macs["float32"]
    seconds *= WINOGRAD_SHARE if winograd else 1
    seconds += elements * flops(task.program) / rates.flops
    working = max(1, min(threads, int(seconds / rates.fork_seconds)))
    return _of_one_loop(nbytes, seconds, working, rates)


QUANTIZED_MACS: Final = 0.6
"""Rate of products with quantized weights, by that of float32 products, on a Zen 3: 20 to 34 per nanosecond."""


def quantized_cost(task: Task, rates: ProcessorRates, threads: int) -> Cost:
    """Return the cost of `linear_quantized`: rounding the input, then arithmetic or memory traffic."""
    source, _ = task.tensors
    nbytes, features = _tensor_bytes(task), source.layout.shape[-1]
    macs = math.prod(task.shape) * features
    working = max(1, min(threads, macs // LEAST_PIECE))
    seconds = macs / (rates.macs["float32"] * QUANTIZED_MACS)
    stages = [(max(seconds / working, _memory_seconds(nbytes, working, rates)), working)]
    if task.call is not None and not task.attributes["exact"]:
        stages.append((math.prod(source.layout.shape) * ROUNDING_FLOPS / rates.flops, 1))
    return Cost(_sum(rates, *stages), nbytes)


EXPONENTIAL_FLOPS: Final = 32
"""Cost of masking a score and of its exponential, in operations; assumed, not measured."""


def attention_cost(task: Task, rates: ProcessorRates, threads: int) -> Cost:
    """Return the cost of `attention`: two products and an exponential for each score; its gradient has five."""
    is_backward = task.ops[0] == "attention_backward"
    query, key, value, *_ = (each.layout for each in task.inputs[2 if is_backward else 0 :])
    assert query is not None
    assert key is not None
    assert value is not None
    (batch, heads, queries, features), keys, value_features = query.shape, key.shape[2], value.shape[3]
    scores = batch * heads * queries * keys
    if task.call is not None and task.attributes["is_causal"]:
        scores = scores * (queries + 1) // (2 * max(queries, keys, 1))
    macs = scores * (3 * features + 2 * value_features if is_backward else features + value_features)
    working = max(1, min(threads, macs // LEAST_PIECE, batch * key.shape[1] if is_backward else threads))
    nbytes = _tensor_bytes(task)
    seconds = macs / rates.macs["float32"] + scores * EXPONENTIAL_FLOPS / rates.flops
    return _of_one_loop(nbytes, seconds, working, rates)


CELL_FLOPS: Final = 5 * PRIMITIVES["exp"].flops
"""Operations of the functions of an LSTM cell per hidden unit: three sigmoids and two hyperbolic tangents."""


def recurrence_cost(task: Task, shape: tuple[int, int, int], gates: int, rates: ProcessorRates, threads: int) -> Cost:
    """Return the cost of a recurrence, or of its gradient, from its steps, batch and hidden units."""
    nbytes, units = _tensor_bytes(task), math.prod(shape)
    macs = units * shape[2] * gates
    working = max(1, min(threads, macs // shape[0] // LEAST_PIECE))
    seconds = macs / rates.macs["float32"] + units * CELL_FLOPS / rates.flops
    return _of_one_loop(nbytes, seconds, working, rates)


def copy_cost(task: Task, rates: ProcessorRates, threads: int) -> Cost:
    nbytes = _tensor_bytes(task)
    return _of_one_loop(nbytes, 0.0, max(1, min(threads, nbytes // PACKED_PIECE)), rates)


def taps_cost(task: Task, operations: int, rates: ProcessorRates, threads: int) -> Cost:
    """Return the cost of a pool, a resized image or samples, from the number of elements that are combined."""
    nbytes, working = _tensor_bytes(task), max(1, min(threads, operations // LEAST_PIECE))
    return _of_one_loop(nbytes, operations * TAP_FLOPS / rates.flops, working, rates)


TAP_FLOPS: Final = 4
"""Cost of combining an element with others, in operations; assumed, not measured."""

ROUNDING_FLOPS: Final = 8
"""Cost of rounding an element to 8 bits, in operations; assumed, not measured."""


def quantized_piece(item_bytes: int, tokens: int) -> int:
    """Return the number of items that a thread claims at a time, from their size and the number of tokens."""
    return max(1, PACKED_PIECE // (item_bytes * tokens)) if item_bytes and tokens else 1


def _of_one_loop(nbytes: int, seconds: float, working: int, rates: ProcessorRates) -> Cost:
    """Return the cost of a loop that is bound by its arithmetic or by its memory traffic.

    Args:
        nbytes: Bytes read and written.
        seconds: Arithmetic of all threads together.
        working: Threads that work on it.
        rates: Rates of the processor.
    """
    stage = max(seconds / working, _memory_seconds(nbytes, working, rates)), working
    return Cost(_sum(rates, stage), nbytes)


def _sum(rates: ProcessorRates, *stages: tuple[float, int]) -> Expense:
    """Return the expense of consecutive loops, each given by its seconds and working threads."""
    start = sum(rates.launch_seconds + (rates.fork_seconds if working > 1 else 0.0) for _, working in stages)
    expenses = [rates.expense(start), *(rates.expense(seconds, working) for seconds, working in stages)]
    return total(expenses)


def total(expenses: Iterable[Expense]) -> Expense:
    return Expense(*map(sum, zip(*expenses, strict=True)))
