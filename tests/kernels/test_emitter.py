"""Programs as C++: compiled for this machine, they compute what NumPy computes from the same formula."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from npu_tensor.dataflow.design import KernelFunction, ObjectType, Source
from npu_tensor.kernels.codegen import emitter
from npu_tensor.ops.analysis import Precision
from npu_tensor.ops.expression import Program, ProgramBuilder
from npu_tensor.ops.rows import cast, erf
from npu_tensor.runtime.sim.host_compiler import Entry, compile_source

Array = np.ndarray[Any, Any]
ELEMENTS = 256


def ints(low: int, high: int) -> Callable[[np.random.Generator, str], Array]:
    return lambda random, dtype: random.integers(low, high, ELEMENTS, endpoint=True).astype(dtype)


def anything(random: np.random.Generator, dtype: str) -> Array:
    if dtype == "bool":
        return random.integers(0, 2, ELEMENTS).astype(dtype)
    if dtype == "float32":
        values = random.normal(0, 3, ELEMENTS).astype(dtype)
        values[:7] = [0.0, -0.0, 0.5, -2.5, np.inf, -np.inf, np.nan]
        return random.permutation(values)
    limits = np.iinfo(dtype)
    values = random.integers(limits.min, limits.max, ELEMENTS, endpoint=True).astype(dtype)
    values[:3] = [limits.min, limits.max, 0]
    return random.permutation(values)


def positive(random: np.random.Generator, dtype: str) -> Array:
    return random.uniform(0.05, 4.0, ELEMENTS).astype(dtype)


INTEGERS = ("int8", "int16", "int32", "uint8")
FLOAT = ("float32",)

# Name -> dtypes of the operands, formula, sample. With arrays the formula is the reference, with symbols the program.
EXACT: dict[str, tuple[tuple[str, ...], Callable[..., Any], Callable[[np.random.Generator, str], Array]]] = {
    **{f"arithmetic {dtype}": ((dtype, dtype), lambda a, b: a * b + a - b, anything) for dtype in INTEGERS},
    **{f"bits {dtype}": ((dtype, dtype), lambda a, b: (a & b) ^ (a | ~b), anything) for dtype in INTEGERS},
    **{f"shifts {dtype}": ((dtype, dtype), lambda a, b: (a << b) ^ (a >> b), ints(0, 7)) for dtype in INTEGERS},
    **{
        f"order {dtype}": (
            (dtype, dtype),
            lambda a, b: np.where((a < b) ^ (a == b), np.maximum(a, b) - 1, np.minimum(a, b) + 3),
            anything,
        )
        for dtype in (*INTEGERS, "float32")
    },
    **{
        f"compare {dtype}": ((dtype, dtype), lambda a, b: ((a >= b) & (a != b)) | ((a <= b) ^ (a > b)), anything)
        for dtype in (*INTEGERS, "float32", "bool")
    },
    **{
        f"{dtype} to {other}": ((dtype,), lambda a, other=other: cast(a, other), anything)
        for dtype in (*INTEGERS, "bool")
        for other in (*INTEGERS, "bool", "float32")
        if dtype != other
    },
    **{
        f"float32 to {other}": ((*FLOAT,), lambda a, other=other: cast(a, other), ints(0, 127))
        for other in (*INTEGERS, "bool")
    },
    "rounding": (FLOAT, lambda a: np.floor(a) + np.ceil(a) - np.trunc(a) + np.rint(a), ints(-90, 90)),
    "floor": (FLOAT, np.floor, anything),
    "rint": (FLOAT, np.rint, anything),
    "sums": (("float32", "float32"), lambda a, b: abs(a + b) - (-a), anything),
    "constants": (FLOAT, lambda a: np.where(a > 1.5, -np.inf, np.where(a != a, np.nan, a + 3.4e38)), anything),
    "logic": (("bool", "bool"), lambda a, b: ~(a & b) ^ (a | b), anything),
    "select bool": (("bool", "bool", "bool"), lambda a, b, c: np.where(a, b, c), anything),
    "select int": (("bool", "int16"), lambda a, b: np.where(a, b, -7), anything),
    "minimum of int32": (("int32",), lambda a: np.maximum(a, -(2**31)) + (2**31 - 1), anything),
}

FLOATS: dict[str, tuple[tuple[str, ...], Callable[..., Any], Callable[[np.random.Generator, str], Array]]] = {
    "quotient": (("float32", "float32"), lambda a, b: a / b * b, positive),
    "exponentials": (FLOAT, lambda a: np.exp(a) + np.expm1(a), positive),
    "logarithms": (FLOAT, lambda a: np.log(a + 1) + np.log1p(a), positive),
    "trigonometric": (FLOAT, lambda a: np.sin(a) * np.sin(a) + 2 * np.cos(a) * np.cos(a), positive),
    "roots and powers": (("float32", "float32"), lambda a, b: np.sqrt(a) + np.power(a, b), positive),
    "saturating": (FLOAT, lambda a: np.tanh(a) + erf(a), positive),
}


def program(dtypes: tuple[str, ...], formula: Callable[..., Any]) -> Program:
    builder = ProgramBuilder()
    return builder.program([formula(*(builder.load(slot, dtype) for slot, dtype in enumerate(dtypes)))])


def memory(dtype: str) -> str:
    return "uint8" if dtype == "bool" else dtype


def function(
    symbol: str, program: Program, precision: Precision = "full", stored: str = ""
) -> tuple[str, tuple[ObjectType, ...]]:
    """C++ of a loop over ELEMENTS elements, and its declaration."""
    lanes = emitter.lanes(program)
    loads = {
        number: instruction
        for number, instruction in enumerate(program.instructions)
        if instruction.primitive == "load"
    }
    given = {
        number: f"nt::load<{emitter.REGISTERS[load.dtype]}, {lanes}>(in{load.value} + i)"
        for number, load in loads.items()
    }
    short = set(loads) if stored else ()
    code = emitter.statements(program, given, lanes, precision, short=short)
    types = [stored or memory(load.dtype) for load in sorted(loads.values(), key=lambda load: load.value)]
    result = memory(program.instructions[program.outputs[0]].dtype)
    pointers = [f"const {emitter.MEMORY[dtype]} *__restrict in{slot}" for slot, dtype in enumerate(types)]
    text = f"""
extern "C" void {symbol}({", ".join([*pointers, f"{emitter.MEMORY[result]} *__restrict out"])}) {{
  aie::set_rounding(aie::rounding_mode::conv_even);
  {" ".join(code.hoisted)}
  for (unsigned i = 0; i < {ELEMENTS}; i += {lanes}) {{
    {" ".join(code.body)}
    nt::store(out + i, {code.values[program.outputs[0]]});
  }}
}}
"""
    return text, tuple(ObjectType(dtype, (ELEMENTS,)) for dtype in (*types, result))


@cache
def entries(arch: Any) -> dict[str, Entry]:
    """All cases compiled at once."""
    cases = {name: program(dtypes, formula) for name, (dtypes, formula, _) in {**EXACT, **FLOATS}.items()}
    made = {name: function(f"f{number}", case) for number, (name, case) in enumerate(cases.items())}
    made["half"] = function("nt_half", program(("float32",), lambda a: a / (1 + np.exp(-a * 20.25))), "half")
    made["short"] = function("nt_short", program(("float32", "float32"), lambda a, b: abs(a) * -b), stored="bfloat16")
    text = '#include <aie_api/aie.hpp>\n#include "nt/vector_math.hpp"\n' + "".join(text for text, _ in made.values())
    source = Source("emitter", text)
    symbols = [*(f"f{number}" for number in range(len(cases))), "nt_half", "nt_short"]
    functions = {
        name: KernelFunction(symbol, types, source)
        for symbol, (name, (_, types)) in zip(symbols, made.items(), strict=True)
    }
    compiled = compile_source(source, arch, list(functions.values()))
    return {name: compiled.entry(declared) for name, declared in functions.items()}


def run(entry: Entry, operands: list[Array], result_dtype: Any) -> Array:
    """Call a compiled function on vectors at 64-byte boundaries."""

    def aligned(values: Array) -> Array:
        space = np.empty(values.nbytes + 64, np.uint8)
        start = -space.ctypes.data % 64
        view = space[start : start + values.nbytes].view(values.dtype)
        view[...] = values
        return view

    arrays = [aligned(values.view(np.uint8) if values.dtype == bool else values) for values in operands]
    result = aligned(np.zeros(ELEMENTS, result_dtype))
    message = entry(*(array.ctypes.data for array in (*arrays, result)))
    assert message is None
    return result


@pytest.mark.parametrize("arch", ["aie2", "aie2p"])
@pytest.mark.parametrize("name", EXACT)
def test_exact(name: str, arch: str) -> None:
    dtypes, formula, sample = EXACT[name]
    random = np.random.default_rng(len(name))
    operands = [sample(random, dtype) for dtype in dtypes]
    with np.errstate(all="ignore"):
        expected = formula(*operands)
    result = run(entries(arch)[name], operands, memory(str(expected.dtype)))
    np.testing.assert_array_equal(result, expected.astype(result.dtype))


@pytest.mark.parametrize("arch", ["aie2", "aie2p"])
@pytest.mark.parametrize("name", FLOATS)
def test_float(name: str, arch: str) -> None:
    dtypes, formula, sample = FLOATS[name]
    random = np.random.default_rng(len(name))
    operands = [sample(random, dtype) for dtype in dtypes]
    expected = formula(*(operand.astype(np.float64) for operand in operands))
    np.testing.assert_allclose(run(entries(arch)[name], operands, np.float32), expected, rtol=3e-6)


@pytest.mark.parametrize("arch", ["aie2", "aie2p"])
def test_half_precision_is_only_used_where_errors_do_not_grow(arch: str) -> None:
    """a / (1 + exp(-20.25 a)) at -4: a relative error of 2^-14 in the exponent's 81 would be 2^-8 in the result."""
    values = np.linspace(-4, 4, ELEMENTS, dtype=np.float32)
    exact = values.astype(np.float64)
    result = run(entries(arch)["half"], [values], np.float32)
    # The last results are so small that partial products of theirs are zero to the array.
    np.testing.assert_allclose(result, exact / (1 + np.exp(-exact * 20.25)), rtol=2.0**-12, atol=2.0**-122)


def test_half_precision_stops_at_differences() -> None:
    """A sum of positive numbers has the relative error of its terms, a difference may have any."""
    assert "nt::exp<nt::half>" in function("sum", program(("float32",), lambda a: 1 + np.exp(a)), "half")[0]
    assert "nt::exp<nt::full>" in function("difference", program(("float32",), lambda a: 1 - np.exp(a)), "half")[0]


@pytest.mark.parametrize("arch", ["aie2", "aie2p"])
def test_products_of_bfloat16_are_exact(arch: str) -> None:
    random = np.random.default_rng(0)
    a, b = (random.normal(size=ELEMENTS).astype(bfloat16) for _ in range(2))
    result = run(entries(arch)["short"], [a, b], np.float32)
    np.testing.assert_array_equal(result, -abs(a.astype(np.float32)) * b.astype(np.float32))


def test_products_of_bfloat16_take_half_the_work() -> None:
    text, _ = function("short", program(("float32", "float32"), lambda a, b: abs(a) * -b), "full", stored="bfloat16")
    assert "nt::mul(nt::brief(" in text
    text, _ = function(
        "long", program(("float32", "float32"), lambda a, b: abs(a) * -(b + 1)), "full", stored="bfloat16"
    )
    assert "nt::mul<nt::full>" in text


def test_divisors_of_one_or_more_take_half_the_work() -> None:
    """This needs a quotient that is rounded to bfloat16, and a divisor that cannot be smaller or negative."""

    def text(formula: Callable[[Any], Any], precision: Precision = "half") -> str:
        return function("quotient", program(("float32",), formula), precision)[0]

    assert "nt::div_by_one_or_more(v0, " in text(lambda a: a / (1 + np.exp(-a)))
    assert "nt::div_by_one_or_more(nt::brief(" in text(lambda a: 1 / (1 + np.exp(-a)))
    assert "nt::div<nt::half>" in text(lambda a: a / (0.5 + np.exp(-a)))
    assert "nt::div<nt::half>" in text(lambda a: a / (1 + a))
    assert "nt::div<nt::full>" in text(lambda a: a / (1 + np.exp(-a)), "full")
