"""Values of generated code: their spelling in LLVM IR, and the LLVM types that dtypes have."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Value(NamedTuple):
    """An SSA value or a literal: its spelling and its LLVM type, such as `<16 x float>` or `i64`."""

    name: str
    type: str

    @property
    def element(self) -> str:
        """Type of one lane; the type itself if this is a scalar."""
        return self.type.split(" x ")[1][:-1] if self.type.startswith("<") else self.type

    @property
    def is_literal(self) -> bool:
        return not self.name.startswith("%")

    @property
    def lanes(self) -> int:
        return int(self.type[1:].split()[0])


Number = int | float
ValueOrNumber = Value | Number

# dtype of a register -> LLVM type of a lane. LLVM integers have no sign; the operations have.
REGISTER_ELEMENT = {
    "float32": "float",
    "float64": "double",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "i8",
    "bool": "i1",
}
# dtype in memory -> LLVM type that is loaded and stored.
MEMORY_ELEMENT = REGISTER_ELEMENT | {"bool": "i8", "bfloat16": "i16", "float16": "i16"}
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "float": 32, "double": 64, "half": 16, "bfloat": 16}
ELEMENT_SIZE = {dtype: BITS[element] // 8 for dtype, element in MEMORY_ELEMENT.items()}
"""Bytes of an element in memory, by dtype."""
FLOATS = ("float", "double")


def register_dtype(memory_dtype: str) -> str:
    """Return the dtype of a register that holds elements of `memory_dtype`."""
    return "float32" if memory_dtype in ("bfloat16", "float16") else memory_dtype


def is_signed(dtype: str) -> bool:
    """Return True if numbers of a register dtype are signed."""
    return dtype not in ("uint8", "bool")


def literal(number: Number, type_: str) -> str:
    if type_ in FLOATS:
        with np.errstate(over="ignore"):
            value = float(np.float32(number)) if type_ == "float" else float(number)
        if math.isnan(value):
            return "0x7FF8000000000000"
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if type_ == "i1":
        return "true" if number else "false"
    return str(int(number))


def literal_list(numbers: Sequence[Number], type_: str) -> str:
    return ", ".join(f"{type_} {literal(number, type_)}" for number in numbers)


def mangled(type_: str) -> str:
    """Return a type as the names of overloaded intrinsics spell it."""
    if type_ == "ptr":
        return "p0"
    if type_.startswith("<"):
        count, element = type_[1:-1].split(" x ")
        return f"v{count}{mangled(element)}"
    return {"float": "f32", "double": "f64"}.get(type_, type_)
