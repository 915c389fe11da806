"""C++ and dtypes shared by kernel families: words of the runtime parameters, and operands that stay in a core."""

from __future__ import annotations

from npu_tensor.kernels.codegen import emitter
from npu_tensor.kernels.offer import Word
from npu_tensor.ops.expression import Program

__all__ = ["keep_function", "runtime_word", "word_dtype"]


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


def keep_function(number: int, carrier: str, kept: str, parameters: str = "", statement: str = "") -> str:
    """Generate nt_keep<number>(object, kept, bytes, at), which copies a part of a resident operand from its carrier
    object.

    Args:
        number: Suffix of the function's name.
        carrier: C++ element type of the object.
        kept: C++ element type of the resident buffer.
        parameters: Additional parameters of the function, in C++.
        statement: Additional last statement, in C++.
    """
    return f"""extern "C" void nt_keep{number}(const {carrier} *__restrict object, {kept} *__restrict kept, \
int32 bytes, int32 at{parameters}) {{
  const auto *from = reinterpret_cast<const int32 *>(object);
  auto *to = reinterpret_cast<int32 *>(kept) + at / 4;
  for (int32 i = 0; i < bytes / 4; i += 16)
    aie::store_v(to + i, aie::load_v<16>(from + i));
{"  " + statement + chr(10) if statement else ""}}}
"""
