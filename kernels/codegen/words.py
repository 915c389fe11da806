"""C++ and dtypes of numbers, which are words of the runtime parameters."""

from __future__ import annotations

from npu_tensor.kernels.codegen import emitter
from npu_tensor.kernels.offer import Word
from npu_tensor.ops.expression import Program


def word_dtype(program: Program, slot: int) -> Word | None:
    """Return the dtype in which the number in a slot is passed, or None if the program reads it in two ways."""
    words: set[Word] = {
        "float32" if step.dtype == "float32" else "bool" if step.dtype == "bool" else "int32"
        for step in program.instructions
        if step.primitive == "scalar" and step.value == slot
    }
    if len(words) > 1:
        return None
    return words.pop() if words else "float32"


def runtime_word(words: str, number: int, dtype: str) -> str:
    """Return the C++ that reads a word of the runtime parameters `words` as an element of a register."""
    if dtype == "float32":
        return f"__builtin_bit_cast(float, {words}[{number}])"
    return f"static_cast<{emitter.REGISTERS[dtype]}>({words}[{number}])"
