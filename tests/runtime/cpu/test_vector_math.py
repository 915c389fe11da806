"""Elementary functions and conversions, for this processor and for it with fewer features."""

import math
import re

import llvmlite.binding as llvm
import ml_dtypes
import mpmath
import numpy as np
import pytest
import torch
from kernel_harness import LEVELS, run, target

from npu_tensor.ops.expression import Instruction, Program, ProgramBuilder, Symbol
from npu_tensor.ops.primitives import PRIMITIVES
from npu_tensor.runtime.cpu.loop_kernel import loop_kernel, refusal
from npu_tensor.runtime.cpu.map_kernel import LoopOperand, LoopSpec
from npu_tensor.runtime.cpu.target import CpuTarget

FLOAT64_REFERENCES = {
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log": torch.log,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "log10": torch.log10,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "atan": torch.atan,
    "erf": torch.erf,
}
LIMITS = [3.4028235e38, -3.4028235e38, 88.72283, 88.72284, -87.33655, -103.97, -103.98, -104.1, 9.01, -9.02, 16777217.0]
SPECIALS = np.float32(
    [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1.1754944e-38, *LIMITS]
)
MAX_ULP = 4

# Casting one of the signalling NaNs among the random bit patterns raises a warning.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast")


def unary(primitive: str, dtype: str = "float32") -> Program:
    builder = ProgramBuilder()
    return builder.program([builder.emit(primitive, (builder.load(0, dtype),))])


def evaluate(level: str, program: Program, *inputs: np.ndarray) -> np.ndarray:
    result = np.empty_like(inputs[0])
    run(level, program, [result, *inputs])
    return result


def ulps(result: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units in the last place; infinite where a NaN, infinity or the sign of a zero differs."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = exact.astype(np.float32)
        unit = np.spacing(np.minimum(np.abs(rounded), np.finfo(np.float32).max)).astype(np.float64)
        distance = np.abs(result.astype(np.float64) - exact) / unit
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    distance = np.where(same, 0, np.where(np.isnan(distance), np.inf, distance))
    return np.where((result == 0) & (rounded == 0) & (np.signbit(result) != np.signbit(rounded)), np.inf, distance)


def arguments(seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    patterns = random.integers(0, 2**32, 1 << 18, dtype=np.uint32).view(np.float32)
    scales = (1e-4, 0.3, 1, 3, 10, 30, 100, 1e4, 1e6)
    ordinary = np.concatenate([random.normal(0, scale, 1 << 14) for scale in scales])
    return np.concatenate([patterns, ordinary.astype(np.float32), SPECIALS])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", FLOAT64_REFERENCES)
def test_function_is_within_four_units_in_the_last_place(level: str, name: str) -> None:
    x = arguments(1)
    exact = FLOAT64_REFERENCES[name](torch.from_numpy(x.astype(np.float64))).numpy()
    error = ulps(evaluate(level, unary(name), x), exact)
    worst = int(np.argmax(error))
    assert error[worst] <= MAX_ULP, f"{name}({x[worst]!r}) is off by {error[worst]} ulp"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("dtype", "binary", "decimal"),
    [("float32", np.arange(-149, 128), np.arange(0, 11)), ("float64", np.arange(-1074, 1024), np.arange(0, 23))],
)
def test_logarithms_of_powers_of_their_base_are_exact(
    level: str, dtype: str, binary: np.ndarray, decimal: np.ndarray
) -> None:
    """The next power of 10 is not a number of the dtype."""
    for name, base, exponents in (("log2", 2.0, binary), ("log10", 10.0, decimal)):
        powers = (base**exponents).astype(dtype)
        np.testing.assert_array_equal(evaluate(level, unary(name, dtype), powers), exponents.astype(dtype))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["tanh", "erf"])
@pytest.mark.parametrize(
    ("dtype", "limits"), [("float32", {"tanh": 9.1, "erf": 4}), ("float64", {"tanh": 19.2, "erf": 6})]
)
def test_functions_that_approach_one_reach_it_and_do_not_exceed_it(
    level: str, name: str, dtype: str, limits: dict[str, float]
) -> None:
    x = np.concatenate([np.linspace(0, 25, 200001), [1e10, 3e38, math.inf]]).astype(dtype)
    for sign in (1, -1):
        result = sign * evaluate(level, unary(name, dtype), sign * x)
        assert result.max() == 1
        assert (result[x >= limits[name]] == 1).all()
        assert (np.diff(result) >= -2 * np.spacing(result[1:])).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sine_and_cosine_where_the_argument_is_close_to_a_multiple_of_half_pi(level: str, name: str) -> None:
    """Candidates come from continued fractions: x = m 2^k whose remainder is tiny."""
    result = []
    with mpmath.workprec(400):
        for exponent in range(-20, 105):
            ratio = mpmath.mpf(2) ** exponent / (mpmath.pi / 2)
            previous, denominator, rest = 0, 1, ratio
            while denominator < 1 << 24:
                if denominator >= 1 << 22:
                    result.append(float(denominator) * 2.0**exponent)
                fraction = rest - mpmath.floor(rest)
                rest = 1 / fraction
                previous, denominator = denominator, int(mpmath.floor(rest)) * denominator + previous
        x = np.array(result, np.float32)
        exact = np.array([float(getattr(mpmath, name)(mpmath.mpf(float(value)))) for value in x])
    assert x.size > 50
    assert np.abs(FLOAT64_REFERENCES["sin"](torch.from_numpy(x.astype(np.float64))).numpy()).min() < 1e-6
    assert ulps(evaluate(level, unary(name), x), exact).max() <= MAX_ULP


@pytest.mark.parametrize("level", LEVELS)
def test_pow(level: str) -> None:
    random = np.random.default_rng(2)
    builder = ProgramBuilder()
    program = builder.program([builder.emit("pow", (builder.load(0, "float32"), builder.load(1, "float32")))])
    grid_x, grid_y = np.meshgrid(
        SPECIALS, np.concatenate([SPECIALS, [4, 5, -4, -5, 1e10, 33554432]]).astype(np.float32)
    )
    whole = random.integers(-40, 40, 1 << 14).astype(np.float32)
    patterns = random.integers(0, 2**32, (2, 1 << 16), dtype=np.uint32).view(np.float32)
    x = np.concatenate(
        [grid_x.ravel(), random.normal(0, 3, whole.size), np.exp(random.normal(0, 9, 1 << 17)), patterns[0]]
    )
    y = np.concatenate([grid_y.ravel(), whole, random.normal(0, 9, 1 << 17), patterns[1]])
    x, y = x.astype(np.float32), y.astype(np.float32)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    error = ulps(evaluate(level, program, x, y), exact)
    worst = int(np.argmax(error))
    assert error[worst] <= 1, f"pow({x[worst]!r}, {y[worst]!r})"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "rint", "sqrt", "neg", "abs"])
def test_exact_functions_equal_numpy(level: str, dtype: str, name: str) -> None:
    reference = {"neg": np.negative}.get(name) or getattr(np, name)
    halves = np.arange(-20, 20, 0.25)
    large = np.array([2.0**22 + 0.5, 2.0**23 - 0.5, 2.0**23, 2.0**24 + 2, 2.0**52 - 0.5, 2.0**53, -(2.0**23) + 0.5])
    x = np.concatenate([arguments(3), halves, large]).astype(dtype)
    with np.errstate(all="ignore"):
        expected = reference(x)
    result = evaluate(level, unary(name, dtype), x)
    np.testing.assert_array_equal(result, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(expected[numbers]))


# ---------------------------------------------------------------------- float64

LIMITS64 = [709.782712893384, 709.79, -708.4, -745.13, -745.14, -745.3, -37.5, 18.99, 19.07, 5.86, 5.94, 6.0, 1e300]
SPECIALS64 = [0.0, -0.0, 1, -1, 0.5, -0.5, math.inf, -math.inf, math.nan, 5e-324, -5e-324, 2.3e-308, 1.7e308, *LIMITS64]


def arguments64() -> np.ndarray:
    random = np.random.default_rng(5)
    patterns = random.integers(0, 2**64, 1500, dtype=np.uint64).view(np.float64)
    scales = (1e-9, 1e-2, 0.3, 1, 3, 30, 700, 1e5, 1e7)
    ordinary = [random.normal(0, scale, 300) for scale in scales]
    return np.concatenate([patterns, *ordinary, 1 + random.normal(0, 1e-3, 300), SPECIALS64])


def ulps64(x: np.ndarray, name: str) -> np.ndarray:
    """Distance from mpmath in units in the last place, the largest of all levels.

    It is infinite where a NaN, infinity or sign of zero differs.
    """
    function = {"log2": lambda v: mpmath.log(v, 2), "log10": mpmath.log10}.get(name) or getattr(mpmath, name)
    results = [evaluate(level, unary(name, "float64"), x) for level in LEVELS]
    distances = np.zeros(x.shape)
    with mpmath.workprec(1300 if name in ("sin", "cos") else 240), np.errstate(all="ignore"):
        near_function = {"atan": np.arctan, "erf": np.vectorize(math.erf)}.get(name) or getattr(np, name)
        rounded = near_function(x)
        for number, (argument, near, *values) in enumerate(zip(x, rounded, *results, strict=True)):
            if not math.isfinite(near) or not math.isfinite(argument) or near == 0:
                for value in values:
                    same = value == near and np.signbit(value) == np.signbit(near)
                    if not same and not (math.isnan(value) and math.isnan(near)):
                        distances[number] = math.inf
            else:
                exact, unit = function(mpmath.mpf(float(argument))), float(np.spacing(abs(near)))
                distances[number] = max(abs((mpmath.mpf(float(value)) - exact) / unit) for value in values)
    return distances


@pytest.mark.parametrize("name", FLOAT64_REFERENCES)
def test_function_of_float64_is_within_four_units_in_the_last_place(name: str) -> None:
    x = arguments64()
    error = ulps64(x, name)
    worst = int(np.argmax(error))
    assert error[worst] <= MAX_ULP, f"{name}({x[worst]!r}) is off by {error[worst]} ulp"


def test_sine_of_float64_close_to_a_multiple_of_half_pi() -> None:
    # 6381956970095103 * 2^797 is the worst case of all float64 numbers.
    x = np.array([6381956970095103 * 2.0**797, *(np.arange(1, 2000) * (math.pi / 2)), 22 * 2.0**60, 2.0**1023])
    for name in ("sin", "cos"):
        assert ulps64(x, name).max() <= MAX_ULP


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_powers_of_other_dtypes_are_refused(dtype: str) -> None:
    builder = ProgramBuilder()
    program = builder.program([builder.emit("pow", (builder.load(0, dtype), builder.load(1, dtype)))])
    assert f"pow of {dtype}" in str(refusal(program))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fmod_is_exact_for_quotients_of_every_size(level: str, dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(7)
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    edges = [0.0, -0.0, math.inf, -math.inf, math.nan, 1, -3.5, np.finfo(dtype).max, np.finfo(dtype).tiny, 1e-45]
    smallest = np.finfo(dtype).smallest_subnormal
    special = np.array([*edges, smallest], dtype)
    pairs = [
        rng.integers(0, np.iinfo(bits).max, (2, 20000), bits).view(dtype),
        rng.integers(-500, 500, (2, 20000)).astype(dtype) * dtype(0.1),
        (rng.standard_normal((2, 20000)) * [[1e6], [1.0]]).astype(dtype),
        np.stack([np.repeat(special, special.size), np.tile(special, special.size)]),
    ]
    builder = ProgramBuilder()
    name = np.dtype(dtype).name
    program = builder.program([builder.emit("fmod", (builder.load(0, name), builder.load(1, name)))])
    for x, y in pairs:
        result = np.empty_like(x)
        run(level, program, [result, x, y])
        with np.errstate(invalid="ignore"):
            expected = np.fmod(x, y)
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(np.signbit(result)[result == 0], np.signbit(expected)[result == 0])


# ---------------------------------------------------------------------- 16-bit floats

SMALL_FLOATS = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


COPY = Program((Instruction("load", (), "float32", 0),), (0,))


@pytest.mark.parametrize("level", [*LEVELS, "-avx512bf16"])
@pytest.mark.parametrize("name", SMALL_FLOATS)
def test_every_16_bit_float_is_widened_exactly(level: str, name: str) -> None:
    x = np.arange(65536, dtype=np.uint16)
    result = np.empty(x.shape, np.float32)
    run(level, COPY, [result, x], dtypes=["float32", name])
    np.testing.assert_array_equal(result, x.view(SMALL_FLOATS[name]).astype(np.float32))
    assert np.signbit(result[x == 0x8000]).all()


@pytest.mark.parametrize("level", [*LEVELS, "-avx512bf16"])
@pytest.mark.parametrize("name", SMALL_FLOATS)
def test_floats_are_rounded_to_16_bits_half_to_even(level: str, name: str) -> None:
    """All numbers of the format, all points halfway between two, their neighbours, and random patterns."""
    dtype = SMALL_FLOATS[name]
    numbers = np.arange(65536, dtype=np.uint16).view(dtype).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        halfway = ((numbers[:-1].astype(np.float64) + numbers[1:]) / 2).astype(np.float32)
        around = [np.nextafter(halfway, np.float32(sign) * np.float32(np.inf)) for sign in (1, -1)]
        x = np.concatenate([numbers, halfway, *around, arguments(4), np.float32([65519.996, 65520, -65520, 3.4e38])])
        expected = x.astype(dtype)
    result = np.empty(x.shape, np.uint16)
    run(level, COPY, [result, x], dtypes=[name, "float32"])
    nan = np.isnan(x)
    np.testing.assert_array_equal(result[~nan], expected.view(np.uint16)[~nan])
    assert np.isnan(result.view(dtype)[nan].astype(np.float32)).all()

    rounded = evaluate(level, unary(f"round_{name}"), x)
    np.testing.assert_array_equal(rounded[~nan].view(np.uint32), expected.astype(np.float32)[~nan].view(np.uint32))
    assert np.isnan(rounded[nan]).all()


# ---------------------------------------------------------------------- nothing is left to a C library

CROSS_TARGETS = {
    "aarch64": CpuTarget("aarch64-unknown-linux-gnu", "generic", frozenset({"neon", "fp-armv8"})),
    "x86-64-v2": CpuTarget("x86_64-unknown-linux-gnu", "x86-64-v2", frozenset({"sse3", "ssse3", "sse4.1", "sse4.2"})),
    **{level or "host": target(level) for level in [*LEVELS, "-avx512bf16"]},
}
FLOAT_DTYPES = ("float32", "float64")
OF_FLOATS = (*FLOAT64_REFERENCES, "div", "fmod", "sqrt", "floor", "rint")
OF_FLOAT32 = {"ceil", "trunc", "pow", "round_bfloat16", "round_float16"}
OF_NUMBERS = ("neg", "abs", "sub", "row_sum", "row_prod")
OF_INTEGERS = ("shift_left", "shift_right")
ALL_DTYPES = (*FLOAT_DTYPES, "int8", "int16", "int32", "int64", "uint8", "bool")


def everything(dtype: str) -> Program:
    """One value made of all that can be done with two elements of a dtype, and a reduction of each kind."""
    builder = ProgramBuilder()
    x, y = builder.load(0, dtype), builder.load(1, dtype)
    results: list[Symbol] = [x.astype(other) for other in ALL_DTYPES]
    for name, primitive in PRIMITIVES.items():
        if primitive.arity == 0 or name in ("cast", "select"):
            continue
        if name in OF_FLOAT32 and dtype != "float32":
            continue
        if name in OF_FLOATS and dtype not in FLOAT_DTYPES:
            continue
        if name in OF_NUMBERS and dtype == "bool":
            continue
        if name in OF_INTEGERS and dtype in (*FLOAT_DTYPES, "bool"):
            continue
        if name in ("and", "or", "xor", "not") and dtype in FLOAT_DTYPES:
            continue
        results.append(builder.emit(name, (x, y)[: primitive.arity]))
    results.append(builder.emit("select", (x.astype("bool"), x, y), dtype))
    total = results[0].astype("float64")
    for result in results[1:]:
        total = total + result.astype("float64")
    return builder.program([total.astype("float32")])


@pytest.mark.parametrize("name", CROSS_TARGETS)
@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_no_primitive_becomes_a_library_call(name: str, dtype: str) -> None:
    machine_target = CROSS_TARGETS[name]
    try:
        machine = machine_target.create_target_machine()
    except RuntimeError as error:
        pytest.skip(f"this LLVM has no code generator for {name}: {error}")
    memories = [dtype] if dtype != "float32" else ["float32", "bfloat16", "float16"]
    for memory in memories:
        operands = (
            LoopOperand("float32" if memory == dtype else memory, "contiguous"),
            LoopOperand(memory, "contiguous"),
            LoopOperand(memory, "strided"),
        )
        module = llvm.parse_assembly(loop_kernel(LoopSpec(everything(dtype), operands, 1), machine_target))
        module.triple = machine_target.triple
        module.data_layout = str(machine.target_data)
        module.verify()
        text = machine.emit_assembly(module)
        called = re.findall(r"^\s+(?:movabsq\s+\$|callq?\s|jmp\s|bl?\s)\s*([A-Za-z_]\w*)", text, re.MULTILINE)
        assert set(called) <= set(re.findall(r"^(\w+):", text, re.MULTILINE))


@pytest.mark.parametrize("level", LEVELS)
def test_small_exponentials(level: str) -> None:
    """Subnormal results are within four of their units, and 0 below them, whatever the lanes beside them hold."""
    x = np.linspace(-120, -80, 1 << 16, dtype=np.float32)
    x[::7], x[1::11] = -np.inf, np.finfo(np.float32).min
    exact = np.exp(x.astype(np.float64))
    result = evaluate(level, unary("exp"), x)
    assert ulps(result, exact).max() <= MAX_ULP
    assert not result[x < -104].any()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("primitive", ["maximum", "minimum"])
@pytest.mark.parametrize("number", [0.0, -0.0, 6.0, -math.inf, math.inf, math.nan])
def test_extremes_with_a_constant(level: str, primitive: str, number: float) -> None:
    reference = {"maximum": torch.maximum, "minimum": torch.minimum}[primitive]
    expected = reference(torch.from_numpy(SPECIALS), torch.tensor(number))
    for is_first in (False, True):
        builder = ProgramBuilder()
        operands = [builder.load(0, "float32"), builder.constant(number, "float32")]
        result = builder.emit(primitive, operands[::-1] if is_first else operands, "float32")
        np.testing.assert_array_equal(evaluate(level, builder.program([result]), SPECIALS), expected)
