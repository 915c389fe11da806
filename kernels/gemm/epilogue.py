"""What becomes of the sums of a matrix product before they are stored: a task's program as C++."""

from __future__ import annotations

from typing import Final, NamedTuple

from npu_tensor.dataflow.array import Arch
from npu_tensor.dataflow.checks.limits import HOST_BUFFERS
from npu_tensor.kernels.codegen import cycles, emitter
from npu_tensor.kernels.codegen.words import runtime_word
from npu_tensor.kernels.offer import Word
from npu_tensor.ops.analysis import Precision
from npu_tensor.task import Input, Refusal, Task

__all__ = ["Epilogue", "Reads", "epilogue"]

LANES: Final = 16
"""Sums are read in vectors of 16 words."""

MOST_OPERANDS: Final = HOST_BUFFERS - 3
"""A, B and the result take the others."""

PROGRAM_BYTES: Final = 7680
ROW_BYTES: Final = 1024
COLUMN_BYTES: Final = 1792
"""What dataflow.check leaves for the epilogue beside the product and the loops around it, less for every operand."""


class Epilogue(NamedTuple):
    """C++ of what becomes of the 16 sums at `sums + j`.

    hoisted and body: lines. They find 16 numbers of a row operand at `row0 + across`, of a column operand at
    `column0 + down + j`, and the scalars in `words`. value: the expression that is stored. scalars: how many words it
    reads. vector_cycles: of one vector, predicted. program_bytes: estimate of the machine code.
    """

    hoisted: tuple[str, ...]
    body: tuple[str, ...]
    value: str
    scalars: int = 0
    vector_cycles: int = 2
    program_bytes: int = 1024


class Reads(NamedTuple):
    """Numbers of the task's inputs that an epilogue reads.

    rows: with one number per column of the result, as a bias. columns: one per row. scalars: one in all.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    scalars: tuple[int, ...]


def epilogue(task: Task, arch: Arch, word: Word) -> tuple[Epilogue, Reads] | Refusal:
    """The code for a matmul task with sums of dtype `word`, or why there is none."""
    program = task.program
    assert program is not None
    operands = _operands(task, word)
    if isinstance(operands, Refusal):
        return operands
    expressions, reads = operands
    reason = emitter.refusal(program, expressions)
    if reason is not None:
        return Refusal(reason)
    precision: Precision = "full" if task.outputs[0].dtype.name in ("float32", "float16") else "half"
    program_bytes = cycles.program_bytes(program, precision)
    if program_bytes > PROGRAM_BYTES - ROW_BYTES * len(reads.rows) - COLUMN_BYTES * len(reads.columns):
        return Refusal(f"an epilogue of about {program_bytes} bytes of machine code")
    same = [number for number in expressions if program.instructions[number].primitive == "scalar"]
    code = emitter.statements(program, expressions, LANES, precision, invariant=same)
    return (
        Epilogue(
            tuple(code.hoisted),
            tuple(code.body),
            code.values[program.outputs[0]],
            len(reads.scalars),
            cycles.cycles(program, arch, LANES, precision),
            program_bytes,
        ),
        reads,
    )


def _operands(task: Task, word: Word) -> tuple[dict[int, str], Reads] | Refusal:
    """C++ for the program's operands by number of the instruction, and which inputs of the task they are."""
    assert task.program is not None
    rows: list[int] = []
    columns: list[int] = []
    scalars: list[int] = []
    expressions: dict[int, str] = {}
    for number, instruction in enumerate(task.program.instructions):
        if instruction.primitive not in ("load", "scalar"):
            continue
        if (instruction.dtype == "float32") != (word == "float32") or instruction.dtype not in emitter.REGISTERS:
            return Refusal(f"{word} sums and an operand that is computed with in {instruction.dtype}")
        # Slot 0 is the sum of products, slot i the i-th input behind A and B.
        slot = instruction.value + 1
        if instruction.value == 0:
            expressions[number] = _load("sums + j", word, instruction.dtype)
        elif instruction.primitive == "scalar":
            place = _place(scalars, slot)
            expressions[number] = emitter.broadcast(
                runtime_word("words", place, instruction.dtype), instruction.dtype, LANES
            )
        elif _is_row(task.inputs[slot]):
            expressions[number] = _load(f"row{_place(rows, slot)} + across", word, instruction.dtype)
        elif _is_column(task.inputs[slot]):
            expressions[number] = _load(f"column{_place(columns, slot)} + down + j", word, instruction.dtype)
        else:
            return Refusal("an epilogue with a whole matrix, or with different operands along the batch")
    if len(rows) + len(columns) > MOST_OPERANDS:
        return Refusal(f"an epilogue with {len(rows) + len(columns)} operands")
    return expressions, Reads(tuple(rows), tuple(columns), tuple(scalars))


def _place(slots: list[int], slot: int) -> int:
    """Where a slot stands in the list, at its end if it is new."""
    if slot not in slots:
        slots.append(slot)
    return slots.index(slot)


def _load(address: str, word: Word, dtype: str) -> str:
    """16 words as a register of a dtype."""
    words = f"nt::load<{emitter.REGISTERS[word]}, {LANES}>({address})"
    return words if dtype == word else f"nt::cast<{emitter.REGISTERS[dtype]}>({words})"


def _is_row(operand: Input) -> bool:
    """Whether it has one element per column of the result, or one in all."""
    layout = operand.layout
    assert layout is not None
    return all(extent == 1 or stride == 0 for extent, stride in zip(layout.shape[:-1], layout.strides, strict=False))


def _is_column(operand: Input) -> bool:
    """Whether it has one element per row of the result, which is a single matrix."""
    layout = operand.layout
    assert layout is not None
    return all(extent == 1 for extent in layout.shape[:-2]) and layout.strides[-1] == 0
