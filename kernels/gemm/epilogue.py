"""Epilogue of a matrix product: a task's program as C++, applied to the sums before they are stored."""

from __future__ import annotations

from typing import Final, NamedTuple

from npu_tensor.dataflow.array import Arch
from npu_tensor.dataflow.checks.limits import HOST_BUFFERS
from npu_tensor.kernels.codegen import cycles, emitter
from npu_tensor.kernels.offer import Word
from npu_tensor.ops.analysis import Precision
from npu_tensor.task import Input, Refusal, Task

LANES: Final = 16
"""Vector length in words for reading the sums."""

MOST_OPERANDS: Final = HOST_BUFFERS - 3
"""Maximum number of operands; A, B and the result use the other buffers."""

PROGRAM_BYTES: Final = 7680
ROW_BYTES: Final = 1024
COLUMN_BYTES: Final = 1792
"""Program memory for the epilogue, in bytes, and deductions for each row and column operand.

dataflow.check leaves this much after the product and its loops.
"""


class Epilogue(NamedTuple):
    """C++ of the epilogue for the 16 sums at `sums + j`.

    The lines find 16 numbers of a row operand at `row0 + across`, of a column operand at `column0 + within`, and the
    scalars in `words`.

    Attributes:
        hoisted: Lines before the loop.
        body: Lines in the loop.
        value: Expression that is stored.
        scalars: Number of words read.
        vector_cycles: Predicted cycles per vector.
        program_bytes: Estimated bytes of machine code.
        unrolled: Vectors that a round of the loop computes.
    """

    hoisted: tuple[str, ...]
    body: tuple[str, ...]
    value: str
    scalars: int = 0
    vector_cycles: int = 2
    program_bytes: int = 1024
    unrolled: int = 1

    @property
    def hint(self) -> str:
        """C++ before the loop."""
        return f"NT_UNROLL_BY({self.unrolled})" if self.unrolled > 1 else ""


class Reads(NamedTuple):
    """Indices of the task's inputs that an epilogue reads.

    Attributes:
        rows: Inputs with one number per column of the result, such as a bias.
        columns: Inputs with one number per row.
        scalars: Inputs with a single number.
        floats: Inputs of these that are float32 although the sums are integers, such as scales.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    scalars: tuple[int, ...]
    floats: frozenset[int] = frozenset()

    def word(self, number: int, sums: Word) -> Word:
        """Return the dtype of an input's words, for sums of a dtype."""
        return "float32" if number in self.floats else sums


def epilogue(task: Task, arch: Arch, word: Word, room: int = PROGRAM_BYTES) -> tuple[Epilogue, Reads] | Refusal:
    """Generate the code for a matmul task with sums of dtype `word`, or return the reason why there is none.

    room: program memory, in bytes.
    """
    program = task.program
    assert program is not None
    operands = _operands(task, word)
    if isinstance(operands, Refusal):
        return operands
    expressions, reads = operands
    reason = emitter.refusal(program, expressions)
    if reason is not None:
        return Refusal(reason)
    precision: Precision = "half" if task.outputs[0].dtype.name == "bfloat16" else "full"
    same = [number for number in expressions if program.instructions[number].primitive == "scalar"]
    choice = emitter.choose(program, expressions, precision, invariant=same)
    program_bytes = cycles.program_bytes(program, choice.precision, choice.numbers, choice.forms)
    room -= ROW_BYTES * len(reads.rows) + COLUMN_BYTES * len(reads.columns)
    if program_bytes > room:
        return Refusal(f"an epilogue of about {program_bytes} bytes of machine code")
    memory = dict.fromkeys(expressions, word)
    work = cycles.work(program, arch, LANES, choice.precision, choice.numbers, choice.forms, memory)
    unrolled = min(work.unrolled, room // program_bytes)
    code = emitter.statements(choice, expressions, LANES)
    return (
        Epilogue(
            tuple(code.hoisted),
            tuple(code.body),
            code.values[program.outputs[0]],
            len(reads.scalars),
            -(-work.times(unrolled).round // unrolled),
            unrolled * program_bytes,
            unrolled,
        ),
        reads,
    )


def _operands(task: Task, word: Word) -> tuple[dict[int, str], Reads] | Refusal:
    """Return C++ for the program's operands by instruction, and the task inputs that they read."""
    rows: list[int] = []
    columns: list[int] = []
    scalars: list[int] = []
    floats: set[int] = set()
    expressions: dict[int, str] = {}
    for number, instruction in enumerate(task.program.instructions):
        if instruction.primitive not in ("load", "scalar"):
            continue
        is_float = instruction.dtype == "float32"
        if (word == "float32" and not is_float) or instruction.dtype not in emitter.REGISTERS:
            return Refusal(f"{word} sums and an operand that is computed with in {instruction.dtype}")
        # Slot 0 is the sum of products, slot i the i-th input after A and B.
        slot = instruction.value + 1
        if is_float and word != "float32":
            floats.add(slot)
        if instruction.value == 0:
            expressions[number] = _load("sums + j", word, instruction.dtype)
        elif instruction.primitive == "scalar":
            expressions[number] = emitter.broadcast_word("words", _place(scalars, slot), instruction.dtype, LANES)
        elif _is_row(task.inputs[slot]):
            expressions[number] = _load(f"row{_place(rows, slot)} + across", word, instruction.dtype)
        elif _is_column(task.inputs[slot]):
            expressions[number] = _load(f"column{_place(columns, slot)} + within", word, instruction.dtype)
        else:
            return Refusal("an epilogue with a whole matrix, or with different operands along the batch")
    if len(rows) + len(columns) > MOST_OPERANDS:
        return Refusal(f"an epilogue with {len(rows) + len(columns)} operands")
    return expressions, Reads(tuple(rows), tuple(columns), tuple(scalars), frozenset(floats))


def _place(slots: list[int], slot: int) -> int:
    """Return the position of a slot in the list; a new slot is appended."""
    if slot not in slots:
        slots.append(slot)
    return slots.index(slot)


def _load(address: str, word: Word, dtype: str) -> str:
    """Return C++ that loads 16 words as a register of a dtype."""
    if dtype == "float32" and word != dtype:
        word, address = "float32", f"reinterpret_cast<const float *>({address})"
    words = f"nt::load<{emitter.REGISTERS[word]}, {LANES}>({address})"
    return words if dtype == word else f"nt::cast<{emitter.REGISTERS[dtype]}>({words})"


def _is_row(operand: Input) -> bool:
    """Return True if the operand has one element per column of the result, or a single element."""
    layout = operand.layout
    assert layout is not None
    return all(extent == 1 or stride == 0 for extent, stride in zip(layout.shape[:-1], layout.strides, strict=False))


def _is_column(operand: Input) -> bool:
    """Return True if the operand has one element per row of the result, which is a single matrix."""
    layout = operand.layout
    assert layout is not None
    return all(extent == 1 for extent in layout.shape[:-2]) and layout.strides[-1] == 0
