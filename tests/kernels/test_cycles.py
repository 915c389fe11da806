"""The table of cycles, against vector instructions counted while the header's functions run."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path

import pytest
from host_library import ARCHS, compile_library

from npu_tensor.dataflow.array import Arch
from npu_tensor.kernels.codegen import cycles
from npu_tensor.ops.expression import Program, ProgramBuilder

CXX = {"float32": "float", "int32": "int32", "int16": "int16", "int8": "int8", "uint8": "uint8", "bool": "bool"}
SIZES = {"float32": 4, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}
PRECISE = {
    "mul", "div", "sqrt", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tanh", "atan", "erf", "pow",
}  # fmt: skip
NAMES = {"and": "bit_and", "or": "bit_or", "xor": "bit_xor", "not": "bit_not"}
BINARY = {
    "add", "sub", "mul", "div", "maximum", "minimum", "pow", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor",
    "shift_left", "shift_right",
}  # fmt: skip
FORMS = {
    "mul short": "nt::mul<nt::{precision}>({x}, nt::brief({x}))",
    "mul constant": "nt::mul<nt::{precision}>({x}, nt::SplitConstant<{parts}>(0.1))",
    "short mul short": "nt::mul(nt::brief({x}), nt::brief({x}))",
    "short mul constant": "nt::mul(nt::brief({x}), nt::SplitConstant<{parts}>(0.1))",
    "short div one or more": "nt::div_by_one_or_more(nt::brief({x}), {x})",
    "div one or more": "nt::div_by_one_or_more({x}, {x})",
    "maximum constant": "nt::maximum({x}, 0.1f)",
    "minimum constant": "nt::minimum({x}, 0.1f)",
}

HEAD = """
#define NT_HOST_COUNT
#include <nt/rows.hpp>
template <typename T, unsigned N>
auto ones() { return nt::broadcast<T, N>(T(1)); }
template <typename State, typename V>
void added(const V &v) {
    State state;
    nt_host::instructions = 0;
    state.add(v, 0, nt::all_lanes{});
}
template <typename Body>
int counted(Body body) {
    aie::set_rounding(aie::rounding_mode::conv_even);
    nt_host::instructions = 0;
    body();
    return static_cast<int>(nt_host::instructions);
}
"""


def expression(primitive: str, dtype: str, precision: str) -> str:
    lanes = 16 if primitive.startswith("row_arg") else 64 // SIZES[dtype]
    value = f"ones<{CXX[dtype]}, {lanes}>()"
    if primitive.startswith("row_"):
        return f"added<nt::{primitive}<{CXX[dtype]}, {lanes}>>({value})"
    if primitive == "select":
        return f"nt::select(aie::mask<{lanes}>(true), {value}, {value})"
    if primitive in FORMS:
        return FORMS[primitive].format(x=value, precision=precision, parts=2 if precision == "half" else 3)
    name = NAMES.get(primitive, primitive)
    template = f"<nt::{precision}>" if dtype == "float32" and primitive in PRECISE else ""
    return f"nt::{name}{template}({', '.join([value] * (2 if primitive in BINARY else 1))})"


@pytest.mark.parametrize("arch", ARCHS)
def test_cycles_are_the_instructions_of_the_header(arch: Arch, tmp_path: Path) -> None:
    keys = [(*key, precision) for key in cycles.CYCLES[arch] for precision in ("full", "half")]
    casts = list(itertools.product(CXX, CXX))
    lines = [HEAD]
    for number, (primitive, dtype, precision) in enumerate(keys):
        text = expression(primitive, dtype, precision)
        lines.append(f'extern "C" int f{number}() {{ return counted([] {{ (void){text}; }}); }}')
    for number, (source, result) in enumerate(casts):
        lanes = 64 // max(SIZES[source], SIZES[result])
        text = f"nt::cast<{CXX[result]}>(ones<{CXX[source]}, {lanes}>())"
        lines.append(f'extern "C" int c{number}() {{ return counted([] {{ (void){text}; }}); }}')
    library: ctypes.CDLL = compile_library("\n".join(lines), arch, tmp_path, "-O0")
    counted = {key: getattr(library, f"f{number}")() for number, key in enumerate(keys)}
    expected = {
        (*key, precision): value
        for key, values in cycles.CYCLES[arch].items()
        for precision, value in zip(("full", "half"), values, strict=True)
    }
    assert expected == counted
    counted_casts = {key: getattr(library, f"c{number}")() for number, key in enumerate(casts)}
    assert counted_casts == cycles.CASTS


def add_of_two(dtype: str) -> Program:
    builder = ProgramBuilder()
    return builder.program([builder.load(0, dtype) + builder.load(1, dtype)])


def test_a_step_is_as_long_as_its_busiest_unit() -> None:
    """The vector unit, the two units that load 256 bits a cycle, or the one that stores as much."""
    assert cycles.cycles(add_of_two("int16"), "aie2", 32, "full") == 2  # loads: two of 512 bits; store: two halves
    # Two conversions from bfloat16, one addition, one conversion back.
    assert cycles.cycles(add_of_two("float32"), "aie2", 16, "half") == 4


def test_precision_counts_where_the_header_has_a_choice() -> None:
    builder = ProgramBuilder()
    program = builder.program([builder.emit("exp", (builder.load(0, "float32"),))])
    half, full = (cycles.cycles(program, "aie2", 16, precision) for precision in ("half", "full"))
    table = cycles.CYCLES["aie2"]["exp", "float32"]
    assert (full, half) == (table[0] + 2, table[1] + 2)
    assert cycles.program_bytes(program, "full") > cycles.program_bytes(program, "half") > 16 * half


def test_only_the_chosen_instructions_count() -> None:
    program = add_of_two("int32")
    assert cycles.cycles(program, "aie2", 16, "full", numbers=[2]) == 2  # the addition and the store of its result
