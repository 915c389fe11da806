"""Predicted cycles and code size of one step of a vector program on a core.

A step handles one vector of each register. The tables below list counted vector instructions: with NT_HOST_COUNT
defined, the host implementation of the array's API adds up what the array needs for each call of
include/nt/vector_math.hpp and rows.hpp. tests/kernels/test_cycles.py compares the tables with these counts.

The model: per cycle, a core issues one vector instruction together with two loads and one store of 256 bits, moves,
broadcasts and operations on masks. Latencies are ignored, as if the compiler always had another independent vector to
process. The prediction is therefore a lower bound: close for short programs and optimistic for long ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from npu_tensor.dataflow.array import Arch
from npu_tensor.ops.analysis import Precision
from npu_tensor.ops.expression import Program

__all__ = ["CASTS", "CYCLES", "PrimitiveForm", "cycles", "has_code", "lanes_cycles", "program_bytes"]


class PrimitiveForm(NamedTuple):
    """Cheaper form of an instruction: its name, its operands in the order of the form, and the constant factor."""

    name: str
    x: int
    y: int
    constant: float | None = None


# Cycles for 16 lanes of float32 in full and in half precision. Names of several words are forms of `emitter.cheaper`.
_FLOAT: Final[Mapping[str, tuple[int, int]]] = {
    **dict.fromkeys(("add", "sub", "neg", "abs", "select"), (1, 1)),
    **dict.fromkeys(("eq", "ne"), (6, 6)),
    **dict.fromkeys(("lt", "le", "gt", "ge"), (9, 9)),
    **dict.fromkeys(("maximum", "minimum"), (10, 10)),
    **dict.fromkeys(("maximum constant", "minimum constant"), (4, 4)),
    **dict.fromkeys(("floor", "ceil", "trunc"), (14, 14)),
    "rint": (10, 10),
    "round_bfloat16": (2, 2),
    "round_float16": (17, 17),
    "mul": (23, 16),
    "mul short": (15, 12),
    "mul constant": (17, 12),
    "short mul short": (3, 3),
    "short mul constant": (4, 3),
    "short div one or more": (31, 31),
    "div one or more": (47, 47),
    "div": (120, 77),
    "sqrt": (98, 66),
    "exp": (86, 38),
    "expm1": (125, 84),
    "log": (119, 60),
    "log1p": (148, 89),
    "log2": (127, 65),
    "log10": (130, 68),
    "sin": (159, 108),
    "cos": (154, 103),
    "tanh": (219, 82),
    "atan": (223, 144),
    "erf": (255, 72),
    "pow": (363, 267),
    "sum_lanes": (8, 8),
    **dict.fromkeys(("max_lanes", "min_lanes"), (16, 16)),
    "row_sum": (1, 1),
    "row_prod": (23, 23),
    **dict.fromkeys(("row_max", "row_min"), (5, 5)),
    **dict.fromkeys(("row_argmax", "row_argmin"), (9, 9)),
}
_SIMPLE: Final = (
    "add", "sub", "maximum", "minimum", "neg", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "select",
)  # fmt: skip
_INTEGERS: Final = ("int32", "int16", "int8", "uint8")
# Cycles for 512 bits of each dtype in `_INTEGERS`.
_INTEGER: Final[Mapping[str, tuple[int, int, int, int]]] = {
    **dict.fromkeys(_SIMPLE, (1, 1, 1, 1)),
    "mul": (9, 2, 4, 4),
    "abs": (3, 3, 3, 0),
    "shift_left": (28, 23, 24, 24),
    "shift_right": (35, 29, 29, 27),
    **dict.fromkeys(("sum_lanes", "max_lanes", "min_lanes"), (8, 10, 12, 12)),
    **dict.fromkeys(("row_sum", "row_max", "row_min"), (1, 1, 1, 1)),
    "row_prod": (9, 2, 4, 4),
    "row_argmax": (4, 4, 4, 4),
    "row_argmin": (5, 5, 5, 5),
}
# aie2p multiplies 64 lanes of int8 at once, aie2 half as many.
_PRODUCTS_AIE2P: Final = dict.fromkeys(("mul", "row_prod"), (9, 2, 3, 3))

_REGISTERS: Final = ("float32", *_INTEGERS, "bool")
# Rows: source dtype. Columns: result dtype.
_CONVERSIONS: Final = {
    "float32": (0, 30, 29, 30, 30, 2),
    "int32": (9, 0, 1, 2, 2, 1),
    "int16": (3, 1, 0, 1, 1, 1),
    "int8": (3, 1, 1, 0, 0, 1),
    "uint8": (3, 1, 1, 0, 0, 1),
    "bool": (1, 1, 1, 1, 1, 0),
}
CASTS: Final[Mapping[tuple[str, str], int]] = {
    (source, result): count
    for source, counts in _CONVERSIONS.items()
    for result, count in zip(_REGISTERS, counts, strict=True)
}
"""Cycles of a cast by source and result, for as many lanes as fit 512 bits of the wider dtype."""


def _table(integer: Mapping[str, tuple[int, int, int, int]]) -> dict[tuple[str, str], tuple[int, int]]:
    table = {(primitive, "float32"): counts for primitive, counts in _FLOAT.items()}
    for primitive, counts in integer.items():
        table.update({(primitive, dtype): (count, count) for dtype, count in zip(_INTEGERS, counts, strict=True)})
    return table


CYCLES: Final[Mapping[Arch, Mapping[tuple[str, str], tuple[int, int]]]] = {
    "aie2": _table(_INTEGER),
    "aie2p": _table({**_INTEGER, **_PRODUCTS_AIE2P}),
}
"""Cycles in full and in half precision, by generation, primitive (or sum_lanes, max_lanes, min_lanes) and dtype of the
operands (for select: dtype of the values).

A reduction along a row takes this many cycles per vector; argmax and argmin take them per 16 lanes. The lanes of the
result are combined once per row.
"""

_LANES: Final = {
    "row_sum": ("sum_lanes",),
    "row_prod": ("mul",) * 4,
    "row_max": ("max_lanes",),
    "row_min": ("min_lanes",),
    "row_argmax": ("max_lanes", "eq"),
    "row_argmin": ("min_lanes", "eq"),
}
"""Operations that combine the lanes of a reduction at the end of a row."""

_OF_MASKS: Final = frozenset(
    (
        *("and", "or", "xor", "not", "select", "cast", "eq", "ne", "lt", "le", "gt", "ge"),
        *("add", "mul", "maximum", "minimum"),
    )
)


def has_code(primitive: str, dtype: str) -> bool:
    """Return True if the header has a function for a primitive with operands of a register type."""
    if dtype == "bool":
        return primitive in _OF_MASKS
    return primitive == "cast" or (primitive, dtype) in CYCLES["aie2"]


def lanes_cycles(reduction: str, dtype: str, arch: Arch) -> int:
    """Predict the cycles to combine the lanes of a reduction at the end of a row."""
    return sum(CYCLES[arch][step, dtype][0] for step in _LANES[reduction])


# Bytes per cycle and unit: two units load and one stores (AM020).
_ACCESS_BYTES: Final = 32

# A bundle of the processor has up to 128 bits; a loop has some more around its body.
_BUNDLE_BYTES: Final = 16
_LOOP_BUNDLES: Final = 40

NO_FORMS: Final[Mapping[int, PrimitiveForm]] = MappingProxyType({})


def cycles(
    program: Program,
    arch: Arch,
    lanes: int,
    precision: Precision,
    numbers: Collection[int] | None = None,
    forms: Mapping[int, PrimitiveForm] = NO_FORMS,
) -> int:
    """Predict the cycles of one step.

    Loads and stores of float32 registers include the conversion from and to bfloat16. Outputs count as stored if they
    are among the chosen instructions.

    Args:
        program: Program of the op.
        arch: Generation of the array.
        lanes: Elements per vector.
        precision: Precision of the instructions.
        numbers: Chosen instructions; by default all of them.
        forms: Cheaper forms found by `emitter.cheaper`.

    Raises:
        KeyError: A core has no code for an instruction or dtype, such as float64.
    """
    chosen = range(len(program.instructions)) if numbers is None else numbers
    loads = stores = vector = 0
    for number in chosen:
        instruction = program.instructions[number]
        pieces = -(-lanes * np.dtype(_register(instruction.dtype)).itemsize // _ACCESS_BYTES)
        converted = instruction.dtype == "float32"
        if instruction.primitive == "load":
            loads += pieces
            vector += converted
        if number in program.outputs:
            stores += pieces
            vector += converted
        vector += _vector_cycles(program, number, arch, precision, forms)
    return max(vector, -(-loads // 2), stores)


def program_bytes(
    program: Program,
    precision: Precision = "full",
    numbers: Collection[int] | None = None,
    forms: Mapping[int, PrimitiveForm] = NO_FORMS,
) -> int:
    """Estimate the machine code of a loop over a step: one bundle per vector instruction, load and store."""
    chosen = range(len(program.instructions)) if numbers is None else numbers
    bundles = _LOOP_BUNDLES
    for number in chosen:
        bundles += 1 + _vector_cycles(program, number, "aie2", precision, forms)
    return bundles * _BUNDLE_BYTES


def _register(dtype: str) -> str:
    """Return the register type of a dtype. Positions are int64 in a program and int32 in a core."""
    return "int32" if dtype == "int64" else dtype


def _vector_cycles(
    program: Program, number: int, arch: Arch, precision: Precision, forms: Mapping[int, PrimitiveForm]
) -> int:
    instruction = program.instructions[number]
    if not instruction.operands:
        return 0
    dtype = _register(program.instructions[instruction.operands[-1]].dtype)
    if instruction.primitive == "cast":
        return CASTS[dtype, _register(instruction.dtype)]
    if dtype == "bool":
        return 0
    if number in forms:
        return CYCLES[arch][forms[number].name, dtype][precision == "half"]
    return CYCLES[arch][instruction.primitive, dtype][precision == "half"]
