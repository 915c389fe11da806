"""Counts of instructions of core functions: `python -m npu_tensor.tools.counts` writes them.

A C++ compiler builds the headers of the kernels with NT_HOST_COUNT for each array. Each function runs twice: the first
run brings its constants into registers. Loops run with one and with two rounds; the difference is a round.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from npu_tensor.dataflow.array import Arch
from npu_tensor.kernels.block_order import FORMATS
from npu_tensor.kernels.codegen import cycles, emitter
from npu_tensor.ops.primitives import PRIMITIVES

_FLOAT: Final = (
    "add sub neg abs select eq ne lt le gt ge maximum minimum floor ceil trunc rint round_bfloat16 "
    "round_float16 mul div sqrt exp expm1 log log1p log2 log10 sin cos tanh atan erf pow sum_lanes max_lanes "
    "min_lanes"
)
_INTEGER: Final = (
    "add sub maximum minimum neg eq ne lt le gt ge and or xor not select mul abs shift_left shift_right "
    "sum_lanes max_lanes min_lanes"
)
_REDUCTIONS: Final = "row_sum row_prod row_max row_min row_argmax row_argmin"
_BINARY: Final = "add sub mul div maximum minimum pow eq ne lt le gt ge and or xor shift_left shift_right"
_SIZES: Final = {"float32": 4, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}
_WINDOWS: Final = [
    (f"{name} {dtype}", f"nt::Combine::{name.upper()}, {emitter.MEMORY[dtype]}")
    for name in ("maximum", "sum", "product")
    for dtype in ("bfloat16", "float32")
]
_FORMATS: Final = {
    str(format): f"{format.bits}, {format.block}, {str(format.has_minima).lower()}" for format in FORMATS.values()
}


_HEAD: Final = """
#include <nt/attention.hpp>
#include <nt/conv.hpp>
#include <nt/get_rows.hpp>
#include <nt/quantized.hpp>
#include <nt/rope.hpp>
#include <nt/rows.hpp>
#include <nt/transpose.hpp>
#include <nt/windows.hpp>
void note(int *out, unsigned chain, unsigned carried, unsigned takes, unsigned gives) {
    for (unsigned i = 0; i < nt_host::SLOTS; ++i) out[i] = nt_host::work[i];
    for (unsigned value : {chain, carried, takes, gives}) *(out++ + nt_host::SLOTS) = value;
}
void begin() {
    nt_host::core_state.rounding = aie::rounding_mode::conv_even;
    nt_host::latest = 0;
    for (int &slot : nt_host::work) slot = 0;
}
template <typename V, typename Body>
void measure(int *out, V x, Body body) {
    body(x);
    begin();
    x.begin({});
    const auto result = body(x);
    note(out, result.value().ready, 0, x.value().places, result.value().places);
}
template <typename Body>
void step(int *out, nt_host::Place takes, Body body) {
    begin();
    nt_host::Timed value;
    value.begin({0, takes});
    value = body(value);
    note(out, value.value().ready, 0, takes, value.value().places);
}
template <typename State>
unsigned ready(const State &state) {
    if constexpr (requires { state.total; }) return state.total.value().ready;
    else return state.best.value().ready;
}
template <typename State, typename V>
void reduce(int *out, V x) {
    State state;
    state.add(x, 0, nt::all_lanes{});
    state.add(x, 0, nt::all_lanes{});
    const unsigned first = ready(state);
    begin();
    x.begin({});
    state.add(x, 0, nt::all_lanes{});
    note(out, ready(state), ready(state) - first, x.value().places, 0);
}
template <typename Body>
void repeat(int *out, Body body) {
    int single[nt_host::SLOTS];
    body(1);
    begin();
    body(1);
    for (unsigned i = 0; i < nt_host::SLOTS; ++i) single[i] = nt_host::work[i];
    const unsigned chain = nt_host::latest;
    begin();
    body(2);
    for (unsigned i = 0; i < nt_host::SLOTS; ++i) nt_host::work[i] -= single[i];
    note(out, chain, nt_host::latest - chain, 0, 0);
}
alignas(64) unsigned char memory[8][1 << 15];
template <typename T>
T *at(unsigned number) { return reinterpret_cast<T *>(memory[number]); }
template <unsigned keys, unsigned features = 64>
using Attention = nt::AttentionTile<4, 8, nt_host::AIE2 ? 4 : 8, 4, nt_host::AIE2 ? 4 : 2, 16, keys, features, true,
                                    false>;
template <unsigned kernel, unsigned width = 4>
using Conv = nt::ConvTile<nt::GemmTile<4, 8, nt_host::AIE2 ? 4 : 8, 4, nt_host::AIE2 ? 4 : 2, 4 * width, 8 * kernel, 16,
                                       false, bfloat16, float>, 1, width, 1, kernel, 1, 1, 1, 1, 4, width>;
template <unsigned kernel, unsigned width = 4>
using ByteConv = nt::ConvTile<nt::GemmTile<4, 8, 8, 4, 2, 4 * width, 16 * kernel, 16, false, int8, int32>, 1, width, 1,
                              kernel, 1, 1, 1, 1, 4, width>;
template <typename Tile>
void fill() {
    using T = typename Tile::Operand;
    at<int32>(3)[nt::EXTENTS] = 8 << 16 | 8;
    nt::fill_strip<Tile>(at<T>(0), at<T>(1), at<T>(2), at<int32>(3));
}
template <typename Tile>
void combine() {
    using T = typename Tile::Operand;
    const auto copy = [](const auto &image, T *to) { nt::store(to, image); };
    nt::combine_image<Tile>(at<T>(0), at<T>(1), at<int32>(2), 0, copy);
}
template <typename Tile>
void weigh() {
    const auto top = aie::broadcast<int32, Tile::lanes>(nt::NO_TOP);
    nt::weigh_rows<Tile, false>(at<float>(0), at<bfloat16>(1), 0, {}, top, {}, aie::zeros<float, Tile::lanes>());
}
template <nt::Combine combine, typename T, int columns, unsigned width, unsigned vectors = 1>
using Windows = nt::WindowTile<combine, T, nt::Window{1, columns, 1, 1}, width, vectors * 64 / sizeof(T)>;
alignas(64) int32 tile_state[5];
alignas(64) const int32 tile_words[7] = {1, 0, 0, 1 << 16, 1 << 16};
template <typename Tile>
void keep_row() {
    tile_state[nt::ROWS] = 1;
    nt::keep_row<Tile>(at<typename Tile::T>(0), at<typename Tile::Kept>(1), tile_state, tile_words);
}
template <typename Tile>
void combine_rows() {
    tile_state[nt::OLDEST] = 0;
    auto *totals = at<typename Tile::Total>(2);
    nt::combine_rows<Tile>(at<typename Tile::Kept>(0), at<typename Tile::T>(1), totals, tile_state);
}
template <typename Tile>
void store_maxima() { nt::store_maxima<Tile>(at<typename Tile::Total>(0), at<typename Tile::T>(1)); }
template <typename Tile, typename P, typename Stored>
void store_means() {
    tile_state[nt::TOP] = 1;
    nt::store_means<Tile, P>(at<float>(0), at<Stored>(1), tile_state, tile_words);
}
constexpr auto one = [] { return nt::Split<1, 16>{{aie::broadcast<bfloat16, 16>(1)}}; };
const nt::Split<2, 16> x_half{{one()[0], one()[0]}};
const nt::Split<3, 16> x_full{{one()[0], one()[0], one()[0]}};
const auto length_reciprocal = aie::broadcast<float, 16>(1);
template <typename T, unsigned N>
auto ones() { return nt::broadcast<T, N>(T(1)); }
"""

# Steps between memory and the two kinds of registers.
_STEPS: Final = {
    "load": ("ANYWHERE", "v.loaded(1); return v;"),
    "narrow": ("ACCUMULATOR", "return nt_host::issue(nt_host::NARROW, 1, v);"),
    "move": ("ACCUMULATOR", "v.use(nt_host::REGISTER); return v;"),
    "product": ("REGISTER", "return nt_host::issue(nt_host::PRODUCT, 1, v);"),
    "integer_product": ("REGISTER", "return nt_host::issue(nt_host::INTEGER_PRODUCT, 1, v);"),
    "sum": ("ACCUMULATOR", "return nt_host::issue(nt_host::SUM, 1, v);"),
    "lanes": ("REGISTER", "return nt_host::issue(nt_host::LANES, 1, v);"),
}

# Loops by name: statements that run `n` rounds.
_LOOPS: Final = {
    **{
        name: f"const auto one = ones<{element}, 16>(); auto sum = aie::zeros<{tag}, 16>(); "
        "for (int i = 0; i < n; ++i) sum = aie::mac(sum, one, one); "
        f"aie::store_v(at<{result}>(0), sum.template to_vector<{result}>());"
        for name, tag, element, result in (
            ("accumulate", "accfloat", "bfloat16", "float"),
            ("integer_accumulate", "acc32", "int8", "int32"),
        )
    },
    "keep": "for (int i = 0; i < 16 * n; i += 16) aie::store_v(at<int32>(1) + i, aie::load_v<16>(at<int32>(0) + i));",
    "copy": "nt::copy_words(at<int32>(0), at<int32>(1), 16 * (n + 4));",
    **{
        f"{'aligned ' * is_aligned}transpose {element}": f"nt::transpose<{element}, {str(is_aligned).lower()}>("
        f"at<{element}>(0), at<{element}>(1), 16, {lanes} * n, 16);"
        for is_aligned in (False, True)
        for element, lanes in (("int8", 64), ("int16", 32))
    },
    **{
        f"rope {name}": f"nt::rotate_row<{neighbours}>(at<bfloat16>(0), nt::RopeTable(at<bfloat16>(1), 64), "
        "at<bfloat16>(2), 64 * n, 64 * n);"
        for name, neighbours in (("neighbours", "true"), ("halves", "false"))
    },
    "rope_table": "nt::RopeTable(at<bfloat16>(1), 16 * n).fill(3, at<int32>(0), 1.0f);",
    "rope_divide": "nt::divide_turns(at<float>(0), at<int32>(1), at<int32>(2), 16 * n);",
    **{
        f"quantized {name}": f"*at<int32>(3) = 0; nt::multiply_blocks<nt::Blocks<{format}>, 2>(at<uint8>(0), "
        "at<bfloat16>(1), at<bfloat16>(4), at<float>(2), at<int32>(3), 1, n, 1);"
        for name, format in _FORMATS.items()
    },
    **{
        f"quantized_keep {name}": f"*at<int32>(3) = 0; nt::keep_blocks<nt::Blocks<{format}>, 256>(at<bfloat16>(0), "
        "at<bfloat16>(1), at<bfloat16>(4), at<int32>(3), n);"
        for name, format in _FORMATS.items()
    },
    **{
        f"quantized_row {name}": f"for (int i = 0; i < n; ++i) nt::compute_row<nt::{name.upper()}>(at<bfloat16>(0) + "
        "32 * i, at<bfloat16>(1) + 32 * i, at<float>(2), at<bfloat16>(3) + 32 * i);"
        for name in ("add", "swiglu", "rms_norm")
    },
    "quantized_row rope": "for (int i = 0; i < n; ++i) "
    "nt::rotate_part<true>(at<bfloat16>(0), at<bfloat16>(1), 32 * i, 64, at<bfloat16>(3) + 32 * i);",
    "quantized_row squares": "nt::store_inverse_rms(at<bfloat16>(0), 64 * n, 1e-6f, at<float>(1));",
    "conv_fill": "n == 1 ? fill<Conv<1>>() : fill<Conv<2>>();",
    "conv_fill int8": "n == 1 ? fill<ByteConv<1>>() : fill<ByteConv<2>>();",
    "conv_combine": "n == 1 ? combine<Conv<1>>() : combine<Conv<1, 8>>();",
    "conv_combine int8": "n == 1 ? combine<ByteConv<1>>() : combine<ByteConv<1, 8>>();",
    "attention_weigh": "n == 1 ? weigh<Attention<8>>() : weigh<Attention<16>>();",
    "attention_cap": "nt::cap_scores(at<float>(0), 16 * n, {1, 1});",
    "attention_finish": "*at<int32>(3) = 0; n == 1 ? "
    "nt::finish_rows<Attention<32>>(at<float>(0), at<float>(1), at<bfloat16>(2), at<int32>(3)) : "
    "nt::finish_rows<Attention<32, 128>>(at<float>(0), at<float>(1), at<bfloat16>(2), at<int32>(3));",
    "attention_merge": "n == 1 ? nt::merge<Attention<32>>(at<float>(0), at<float>(1), at<int32>(2), at<float>(3)) : "
    "nt::merge<Attention<32, 128>>(at<float>(0), at<float>(1), at<int32>(2), at<float>(3));",
    "attention_mask": "n == 1 ? nt::add_mask<Attention<16>>(at<float>(0), at<float>(1), at<int32>(2), 0, 0) : "
    "nt::add_mask<Attention<32>>(at<float>(0), at<float>(1), at<int32>(2), 0, 0);",
    **{
        f"windows_keep {kind}": f"n == 1 ? keep_row<Windows<{types}, 1, 1>>() : keep_row<Windows<{types}, 1, 2>>();"
        for kind, types in _WINDOWS
    },
    **{
        f"windows_combine{columns} {kind}": f"n == 1 ? combine_rows<Windows<{types}, {columns}, 1>>() : "
        f"combine_rows<Windows<{types}, {columns}, 2>>();"
        for kind, types in _WINDOWS
        for columns in (1, 2)
    },
    **{
        f"windows_finish {kind}": f"n == 1 ? store_maxima<Windows<{types}, 1, 1>>() : "
        f"store_maxima<Windows<{types}, 1, 2>>();"
        for kind, types in _WINDOWS[:2]
    },
    **{
        f"windows_finish {kind}": f"n == 1 ? store_means<Windows<{types}, 1, 1>, {rest}>() : "
        f"store_means<Windows<{types}, 1, 1, 2>, {rest}>();"
        for kind, types, rest in (
            ("sum bfloat16", _WINDOWS[3][1], "nt::half, bfloat16"),
            ("sum float32", _WINDOWS[3][1], "nt::full, float"),
        )
    },
}


def _statements(arch: Arch) -> Iterator[tuple[str, str]]:
    """Yield the name of each counted function and the C++ that counts it into `out`."""
    forms = {**emitter.FORMS, **emitter.APPROXIMATE_FORMS[arch]}
    names = [(name, "float32") for name in (*_FLOAT.split(), *forms, *_REDUCTIONS.split())]
    names += [
        (name, dtype)
        for name in (*_INTEGER.split(), *_REDUCTIONS.split())
        for dtype in _SIZES
        if dtype not in ("float32", "bool")
    ]
    for (name, dtype), precision in itertools.product(names, ("full", "half")):
        element = emitter.REGISTERS[dtype]
        lanes = 16 if name.startswith("row_arg") else 64 // _SIZES[dtype]
        value = f"ones<{element}, {lanes}>()"
        if name in _REDUCTIONS.split():
            statement = f"reduce<nt::{name}<{element}, {lanes}>>(out, {value});"
        else:
            if name in forms:
                parts = 2 if precision == "half" else 3
                text = forms[name].format(
                    x="x",
                    y="x",
                    short_x="one()",
                    short_y="one()",
                    constant="0.1",
                    least="0.0",
                    parts=parts,
                    precision=precision,
                )
            elif name == "select":
                text = f"nt::select(aie::mask<{lanes}>(true), x, x)"
            else:
                inexact = name in PRIMITIVES and PRIMITIVES[name].inexact and dtype == "float32"
                arguments = "x, x" if name in _BINARY.split() else "x"
                function = emitter.FUNCTIONS.get(name, name)
                text = f"nt::{function}{f'<nt::{precision}>' if inexact else ''}({arguments})"
            statement = f"measure(out, {value}, [](const auto &x) {{ return {text}; }});"
        yield f"{name} {dtype} {precision}", statement
    for source, result in itertools.product(_SIZES, _SIZES):
        lanes = 64 // max(_SIZES[source], _SIZES[result])
        value = f"nt::broadcast<{emitter.REGISTERS[source]}, {lanes}>(1)"
        text = f"nt::cast<{emitter.REGISTERS[result]}>(x)"
        yield f"{result} {source} cast", f"measure(out, {value}, [](const auto &x) {{ return {text}; }});"
    for name, (takes, body) in _STEPS.items():
        yield name, f"step(out, nt_host::{takes}, [](nt_host::Timed v) {{ {body} }});"
    for name, statement in _LOOPS.items():
        yield name, f"repeat(out, [](int n) {{ {statement} }});"


def counted(arch: Arch) -> dict[str, list[int]]:
    """Count the functions for one array. Precisions that differ in nothing share an entry without one."""
    statements = dict(_statements(arch))
    lines = [_HEAD, *(f'extern "C" void f{i}(int *out) {{ {text} }}' for i, text in enumerate(statements.values()))]
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        raise FileNotFoundError("no C++ compiler (g++ or clang++) on this machine")
    folder = Path(cycles.__file__).parents[1]
    options = ["-std=c++20", "-O0", "-w", f"-D__AIE_ARCH__={20 if arch == 'aie2' else 21}", "-shared", "-fPIC"]
    options += cycles.counting_flags(arch)
    if "clang" not in Path(compiler).name:
        options.append("-fno-gnu-unique")  # Other libraries of this process have the same names in other layouts.
    includes = [f"-I{folder / 'host'}", f"-I{folder / 'include'}"]
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "counts.so")
        command = [compiler, *options, *includes, "-x", "c++", "-", "-o", str(path)]
        subprocess.run(command, input="\n".join(lines), text=True, check=True)
        library = ctypes.CDLL(str(path))
    out = (ctypes.c_int * cycles.FIELDS)()
    result: dict[str, list[int]] = {}
    for number, name in enumerate(statements):
        library[f"f{number}"](out)
        result[name] = list(out)
    for name in [name for name in result if name.endswith(" full")]:
        general = name.removesuffix(" full")
        if result[name] == result[f"{general} half"]:
            result[general] = result.pop(name)
            del result[f"{general} half"]
    return dict(sorted(result.items()))


def main() -> None:
    """Write kernels/codegen/counts.json."""
    archs: tuple[Arch, ...] = ("aie2", "aie2p")
    lines = []
    for arch in archs:
        entries = [f"    {json.dumps(name)}: {json.dumps(values)}" for name, values in counted(arch).items()]
        lines.append(f'  "{arch}": {{\n' + ",\n".join(entries) + "\n  }")
    cycles.COUNTS_FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
