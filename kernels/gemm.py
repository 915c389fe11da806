"""The matrix product family: batches of products with float32 or int32 sums and an element-wise epilogue.

bfloat16, int8 and int16 operands are native; float16 passes through bfloat16, and float32 is emulated or rounded to
bfloat16 if the target says so. Extents are padded with zeros by the host, which also brings a transposed A into order;
B is read as it lies, by rows or by columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

from npu_tensor.dtypes import DType
from npu_tensor.kernels import emitter
from npu_tensor.kernels.gemm_design import Batch, Epilogue, design, row_elements
from npu_tensor.kernels.gemm_tiles import Problem, Tiling, search
from npu_tensor.kernels.offer import HostOperand, Offer, Target
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import PRIMITIVES, Program
from npu_tensor.task import Input, Refusal, Task

__all__ = ["claim"]

LANES: Final = 16
"""A block of sums is read in vectors of 16 words."""

MOST_ROW_OPERANDS: Final = 2
"""A design has at most 5 host buffers; A, B and the result take 3."""

MOST_TRANSFERS: Final = 1 << 14
"""Of one run: each takes 120 bytes of instructions."""


Word = Literal["int32", "float32"]


class Operands(NamedTuple):
    """The tensors of a product over a batch: extents of the batch, and layouts over it and the matrix."""

    batch: tuple[int, ...]
    a: Layout
    b: Layout
    result: Layout


def claim(task: Task, target: Target) -> Offer | Refusal:
    """A design for a matmul task, or why there is none."""
    if task.kind != "matmul" or task.program is None:
        return Refusal(f"a {task.kind} task is not a matrix product")
    if task.prologues != (None, None):
        return Refusal("a matrix product whose operands are computed on the way")
    (a,), (b,), others = task.split(task.inputs)
    operand = _operand(a.dtype, b.dtype, target)
    if isinstance(operand, Refusal):
        return operand
    epilogue = _epilogue(task, others, operand)
    if isinstance(epilogue, Refusal):
        return epilogue
    return _offer(task, target, operand, epilogue)


def _operand(a: DType | None, b: DType | None, target: Target) -> str | Refusal:
    """What A and B are converted to for the array."""
    assert a is not None
    assert b is not None
    names = {a.name, b.name}
    if "float32" in names and target.float32 == "exact":
        return Refusal("float32 is exact on the CPU; float32=emulate or float32=bfloat16 computes it here")
    if "float32" in names and target.float32 == "emulate":
        return "float32" if names <= {"float32", "bfloat16", "float16"} else _unknown(names)
    if names <= {"float32", "bfloat16", "float16"}:
        return "bfloat16"
    if names == {"int8"}:
        return "int8"
    if names <= {"int8", "uint8", "int16"}:
        return "int16"
    return _unknown(names)


def _unknown(names: set[str]) -> Refusal:
    return Refusal(f"no matrix product of {' and '.join(sorted(names))}")


class _Epilogue(NamedTuple):
    """The epilogue's code and the numbers of the task's inputs that it reads. word: dtype of these and of the sums."""

    code: Epilogue
    rows: tuple[int, ...]
    scalars: tuple[int, ...]
    word: Word


def _epilogue(task: Task, others: Sequence[Input], operand: str) -> _Epilogue | Refusal:
    program = task.program
    assert program is not None
    word: Word = "float32" if operand in ("bfloat16", "float32") else "int32"
    first = len(task.inputs) - len(others) - 1  # slot 0 is the sum of products, slot i the i-th of the others
    rows: list[int] = []
    scalars: list[int] = []
    given: dict[int, str] = {}
    hoisted: set[int] = set()
    for number, instruction in enumerate(program.instructions):
        if instruction.primitive not in ("load", "scalar"):
            continue
        slot = first + instruction.value
        if (instruction.dtype == "float32") != (word == "float32"):
            return Refusal(f"an epilogue of {word} sums with {instruction.dtype} operands")
        register = emitter.REGISTERS.get(instruction.dtype)
        if register is None:
            return Refusal(f"{instruction.dtype} arithmetic")
        if instruction.value == 0 and instruction.primitive == "load":
            given[number] = _converted(f"nt::load<{emitter.REGISTERS[word]}, {LANES}>(sums + j)", word, register)
        elif instruction.primitive == "load":
            if not _is_row(task.inputs[slot]):
                return Refusal("an epilogue with an operand that differs from row to row")
            if slot not in rows:
                rows.append(slot)
            load = f"nt::load<{emitter.REGISTERS[word]}, {LANES}>(row{rows.index(slot)} + column)"
            given[number] = _converted(load, word, register)
        else:
            if slot not in scalars:
                scalars.append(slot)
            words = "words" if word == "int32" else "reinterpret_cast<const float *>(words)"
            value = f"{words}[{scalars.index(slot)}]"
            given[number] = emitter.broadcast(value, instruction.dtype, LANES)
            hoisted.add(number)
    if len(rows) > MOST_ROW_OPERANDS:
        return Refusal(f"an epilogue with {len(rows)} operands along the columns")
    reason = emitter.refusal(program, given)
    if reason is not None:
        return Refusal(reason)
    exact = task.outputs[0].dtype.name == "float32"
    code = emitter.statements(program, given, LANES, "full" if exact else "half", invariant=hoisted)
    value = code.values[program.outputs[0]]
    return _Epilogue(
        Epilogue(tuple(code.hoisted), tuple(code.body), value, len(scalars)), tuple(rows), tuple(scalars), word
    )


def _converted(load: str, word: str, register: str) -> str:
    return load if emitter.REGISTERS[word] == register else f"nt::cast<{register}>({load})"


def _is_row(operand: Input) -> bool:
    """Whether it has one element per column of the result, or one in all."""
    layout = operand.layout
    assert layout is not None
    return all(extent == 1 or stride == 0 for extent, stride in zip(layout.shape[:-1], layout.strides, strict=False))


def _offer(task: Task, target: Target, operand: str, epilogue: _Epilogue) -> Offer | Refusal:
    assert task.program is not None
    dtype = task.outputs[0].dtype.name
    result = _RESULTS.get(dtype)
    if result is None:
        return Refusal(f"a matrix product with a result of {dtype}")
    operands = _folded(task)
    m, k, n = *operands.a.shape[-2:], operands.b.shape[-1]
    transposed = operands.b.strides[-2] < operands.b.strides[-1]
    problem = Problem(
        target.array.arch,
        target.columns,
        operand,
        result,
        m,
        n,
        k,
        math.prod(operands.batch),
        transposed,
        len(epilogue.rows),
        _cycles(task.program),
    )
    tiling = search(problem)
    if tiling is None:
        return Refusal(f"rows of {n} results lie too far apart for the DMA")
    transfers = tiling.transfers(problem)
    if transfers > MOST_TRANSFERS:
        return Refusal(f"{transfers} transfers in one run; {MOST_TRANSFERS} are the most")
    padded_m, padded_n, padded_k = tiling.padded(problem)
    a, b = _unshared(operands.a), _unshared(_swapped(operands.b) if transposed else operands.b)
    b_padded = (padded_n, padded_k) if transposed else (padded_k, padded_n)
    rows = [
        HostOperand(number, False, _row(task.inputs[number]), (row_elements(problem, tiling),), epilogue.word)
        for number in epilogue.rows
    ]
    return Offer(
        "gemm",
        _reason(task, problem, tiling),
        partial(design, problem, tiling, epilogue.code, _batch(operands)),
        (
            HostOperand(0, False, a, (*a.shape[:-2], padded_m, padded_k), operand),
            HostOperand(1, False, b, (*b.shape[:-2], *b_padded), operand),
            *rows,
            HostOperand(0, True, operands.result, (*operands.batch, padded_m, padded_n), result),
        ),
        tuple((number, epilogue.word) for number in epilogue.scalars),
    )


_RESULTS: Final = {
    **{name: name for name in ("float32", "bfloat16", "int32", "int16", "int8", "uint8")},
    "bool": "uint8",
    "float16": "float32",
}
"""Dtype of a result in its host buffer."""


def _folded(task: Task) -> Operands:
    """The operands without batch dimensions of extent 1, and with those that are more rows of A joined to its rows."""
    left, right = (operand.layout for operand in task.inputs[:2])
    assert left is not None
    assert right is not None
    a, b, result = _squeezed(left), _squeezed(right), _squeezed(task.outputs[0].layout)
    while len(a.shape) > 2 and b.strides[-3] == 0 and _joins(a) and _joins(result):
        a, result = _joined(a), _joined(result)
        b = Layout((*b.shape[:-3], *b.shape[-2:]), (*b.strides[:-3], *b.strides[-2:]), b.offset)
    return Operands(a.shape[:-2], a, b, result)


def _squeezed(layout: Layout) -> Layout:
    kept = [d for d in range(len(layout.shape)) if d >= len(layout.shape) - 2 or layout.shape[d] != 1]
    return Layout(tuple(layout.shape[d] for d in kept), tuple(layout.strides[d] for d in kept), layout.offset)


def _joins(layout: Layout) -> bool:
    """Whether the last batch dimension continues the rows."""
    return layout.shape[-2] == 1 or layout.strides[-3] == layout.shape[-2] * layout.strides[-2]


def _joined(layout: Layout) -> Layout:
    *batch, more, rows, columns = layout.shape
    stride = layout.strides[-2] if rows > 1 else layout.strides[-3]
    return Layout((*batch, more * rows, columns), (*layout.strides[:-3], stride, layout.strides[-1]), layout.offset)


def _swapped(layout: Layout) -> Layout:
    (*batch, rows, columns), (*steps, down, right) = layout.shape, layout.strides
    return Layout((*batch, columns, rows), (*steps, right, down), layout.offset)


def _unshared(layout: Layout) -> Layout:
    """Without the batch dimensions along which one matrix serves all."""
    kept = [d for d in range(len(layout.shape)) if d >= len(layout.shape) - 2 or layout.strides[d] != 0]
    return Layout(tuple(layout.shape[d] for d in kept), tuple(layout.strides[d] for d in kept), layout.offset)


def _batch(operands: Operands) -> Batch:
    """Which matrix of A and of B belongs to each product."""
    strides = []
    for layout in (operands.a, operands.b):
        found, matrices = [], 1
        for extent, stride in reversed(tuple(zip(operands.batch, layout.strides, strict=False))):
            found.append(matrices if stride else 0)
            matrices *= extent if stride else 1
        strides.append(tuple(reversed(found)))
    return Batch(operands.batch, *strides)


def _row(operand: Input) -> Layout:
    assert operand.layout is not None
    return Layout(operand.layout.shape[-1:], operand.layout.strides[-1:], operand.layout.offset)


def _cycles(program: Program) -> int:
    """Of the epilogue per vector, without its loads and stores."""
    return 4 + sum(PRIMITIVES[instruction.primitive].flops for instruction in program.instructions)


def _reason(task: Task, problem: Problem, tiling: Tiling) -> str:
    """For `explain`: cores, tiles, what the host converts or copies."""
    cores = tiling.rows * tiling.columns
    parts = [f"{problem.operand} products on {cores} {'core' if cores == 1 else 'cores'}"]
    parts.append(f"tiles of {tiling.m} x {tiling.k} x {tiling.n} per core")
    if tiling.padded(problem) != (problem.m, problem.n, problem.k):
        parts.append("the host pads to {} x {} x {}".format(*tiling.padded(problem)))
    stored = {operand.dtype.name for operand in task.inputs[:2] if operand.dtype is not None}
    if stored != {problem.operand}:
        parts.append(f"{' and '.join(sorted(stored - {problem.operand}))} operands become {problem.operand}")
    return "; ".join(parts)
