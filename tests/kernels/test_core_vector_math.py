"""The vector functions of include/nt, compiled for this machine, against float64, NumPy and ml_dtypes."""

import ctypes
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from host_library import ARCHS, GUARD, aligned, call, compile_library

# Casting one of the signalling NaNs among the random bit patterns raises a warning.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast")

Array = np.ndarray[Any, Any]

TINY = 2.0**-126
MAX_ULP = {"full": 4, "half": 1}  # of float32; of bfloat16 after rounding to it
SIN_LIMIT = 2.0**18

_ERF = np.vectorize(math.erf, otypes=[float])
UNARY: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "atan": np.arctan,
    "erf": _ERF,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {"mul": np.multiply, "div": np.divide, "pow": np.power}
EXACT: dict[str, Callable[..., Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "round_bfloat16": lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float32),
    "round_float16": lambda x: x.astype(np.float16).astype(np.float32),
    "add": np.add,
    "sub": np.subtract,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
TWO_OPERANDS = {*BINARY, *COMPARISONS, "add", "sub", "maximum", "minimum"}
INTEGERS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
}
DTYPES: dict[str, Any] = {
    "float": np.float32,
    "int32": np.int32,
    "int16": np.int16,
    "int8": np.int8,
    "uint8": np.uint8,
    "bool": np.bool_,
}

ROUNDED = {"int8": (-127, 126), "uint8": (0, 255), "int16": (-32768, 32767)}

HEAD = """
template <typename Register, unsigned N, typename Stored>
auto get(const Stored *p) { return nt::load<Register, N>(p); }
#define RUN(name, ...) extern "C" const char *name(__VA_ARGS__, int n) { return guarded([=] { \\
    aie::set_rounding(aie::rounding_mode::conv_even);
#define END }); }
"""


def float_function(name: str, template: str = "", suffix: str = "", result: str = "float") -> str:
    second = ", nt::load<float, 16>(y + i)" if name in TWO_OPERANDS else ""
    return f"""RUN({name}{suffix}_float, const float *x, const float *y, {result} *z)
        for (int i = 0; i < n; i += 16)
            nt::store(z + i, nt::{name}{template}(nt::load<float, 16>(x + i){second})); END"""


def integer_functions(dtype: str) -> str:
    lanes = 64 // np.dtype(DTYPES[dtype]).itemsize
    texts = []
    for name in [*INTEGERS, *COMPARISONS, "shift_left", "shift_right", "neg", "abs", "bit_not"]:
        result = "uint8" if name in COMPARISONS else dtype
        arguments = "(a)" if name in ("neg", "abs", "bit_not") else "(a, b)"
        texts.append(f"""RUN({name}_{dtype}, const {dtype} *x, const {dtype} *y, {result} *z)
            for (int i = 0; i < n; i += {lanes}) {{
                const auto a = nt::load<{dtype}, {lanes}>(x + i), b = nt::load<{dtype}, {lanes}>(y + i);
                nt::store(z + i, nt::{name}{arguments}); (void)b;
            }} END""")
    return "\n".join(texts)


def cast_function(source: str, result: str) -> str:
    stored = {"bool": "uint8"}
    sizes = [np.dtype(DTYPES[dtype]).itemsize for dtype in (source, result)]
    lanes = 64 // max(sizes)
    a, b = (stored.get(dtype, dtype) for dtype in (source, result))
    return f"""RUN(cast_{source}_{result}, const {a} *x, {b} *y)
        for (int i = 0; i < n; i += {lanes})
            nt::store(y + i, nt::cast<{result}>(nt::load<{source}, {lanes}>(x + i))); END"""


def round_function(dtype: str) -> str:
    low, high = ROUNDED[dtype]
    return f"""RUN(round_{dtype}, const float *x, const float *y, {dtype} *z)
        (void)y;
        for (int i = 0; i < n; i += 16)
            nt::store(z + i, nt::rounded<{dtype}>(nt::load<float, 16>(x + i), {low}, {high})); END"""


def lane_functions(dtype: str) -> str:
    lanes = 64 // np.dtype(DTYPES[dtype]).itemsize
    return f"""RUN(lanes_{dtype}, const {dtype} *x, {dtype} *y)
        const auto v = nt::load<{dtype}, {lanes}>(x);
        nt::store(y, nt::sum_lanes(v));
        nt::store(y + {lanes}, nt::max_lanes(v));
        nt::store(y + {2 * lanes}, nt::min_lanes(v));
        nt::store_partial(y + {3 * lanes}, nt::load_partial<{dtype}, {lanes}>(x, n, {dtype}(7)), n);
        nt::store(y + {4 * lanes}, nt::load_partial<{dtype}, {lanes}>(x, n, {dtype}(7)));
        nt::store(y + {5 * lanes}, nt::select(nt::lt(v, nt::broadcast<{dtype}, {lanes}>(3)), v, nt::add(v, v))); END"""


OTHERS = """
RUN(bfloat16_memory, const bfloat16 *x, const bfloat16 *y, bfloat16 *z)
    for (int i = 0; i < n; i += 16)
        nt::store(z + i, nt::add(nt::load<float, 16>(x + i), nt::load_unaligned<float, 16>(y + i))); END
RUN(masks, const uint8 *x, const uint8 *y, uint8 *z)
    for (int i = 0; i < n; i += 64) {
        const auto a = nt::load<bool, 64>(x + i), b = nt::load<bool, 64>(y + i);
        uint8 *next = z + 13 * i;
        for (const auto &m : {nt::bit_and(a, b), nt::bit_or(a, b), nt::bit_xor(a, b), nt::bit_not(a), nt::add(a, b),
                              nt::mul(a, b), nt::maximum(a, b), nt::minimum(a, b), nt::eq(a, b), nt::ne(a, b),
                              nt::lt(a, b), nt::ge(a, b), nt::select(a, b, nt::bit_not(b))}) {
            nt::store(next, m);
            next += 64;
        }
    } END
"""

# Cheaper forms of products and quotients: "x" and "y" stand for the operands, where brief ones are bfloat16 numbers.
FORMS: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "brief_brief": ("nt::mul(nt::brief(x), nt::brief(y))", np.multiply),
    "brief_constant": ("nt::mul(nt::brief(x), nt::SplitConstant<2>(-0.1))", lambda x, _: x * -0.1),
    "float_brief": ("nt::mul<nt::half>(x, nt::brief(y))", np.multiply),
    "float_constant": ("nt::mul<nt::half>(x, nt::SplitConstant<2>(-0.1))", lambda x, _: x * -0.1),
    "brief_quotient": ("nt::div_by_one_or_more(nt::brief(x), y)", np.divide),
    "float_quotient": ("nt::div_by_one_or_more(x, y)", np.divide),
    "maximum": ("nt::maximum(x, -0.5f)", lambda x, _: np.maximum(x, -0.5)),
    "minimum": ("nt::minimum(x, -0.5f)", lambda x, _: np.minimum(x, -0.5)),
    "maximum_positive": ("nt::maximum(x, 1.5f)", lambda x, _: np.maximum(x, 1.5)),
    "minimum_positive": ("nt::minimum(x, 1.5f)", lambda x, _: np.minimum(x, 1.5)),
    "brief_negative": ("nt::widened(nt::neg(nt::brief(x)))", lambda x, _: -x),
    "brief_exp": ("nt::exp(nt::brief(x))", lambda x, _: np.exp(x)),
    "full_factor": ("nt::mul(x, nt::split_below<3>(y))", np.multiply),
    "float_factor": ("nt::mul<nt::half>(x, nt::split_alike(y))", np.multiply),
    "square": ("nt::square<nt::half>(x)", lambda x, _: x * x),
    "brief_factor": ("nt::mul(nt::brief(x), nt::split_alike(y))", np.multiply),
    "positive_part": ("nt::widened(nt::positive_part(nt::brief(x)))", lambda x, _: np.maximum(x, 0)),
    "add_brief": ("nt::add(x, nt::brief(y))", np.add),
    "sub_brief": ("nt::sub(x, nt::brief(y))", np.subtract),
    "gt_zero": ("nt::one_where(nt::gt(x, 0.0f))", lambda x, _: np.float64(x > 0)),
    "gt_positive": ("nt::one_where(nt::gt(x, 1.0f))", lambda x, _: np.float64(x > 1)),
    "gt_negative": ("nt::one_where(nt::gt(x, -0.5f))", lambda x, _: np.float64(x > -0.5)),
    "lt_zero": ("nt::one_where(nt::lt(x, 0.0f))", lambda x, _: np.float64(x < 0)),
    "lt_positive": ("nt::one_where(nt::lt(x, 0.5f))", lambda x, _: np.float64(x < 0.5)),
    "lt_negative": ("nt::one_where(nt::lt(x, -1.0f))", lambda x, _: np.float64(x < -1)),
}


def form_function(name: str) -> str:
    return f"""RUN({name}_form, const float *a, const float *b, float *z)
        for (int i = 0; i < n; i += 16) {{
            const auto x = nt::load<float, 16>(a + i), y = nt::load<float, 16>(b + i); (void)y;
            nt::store(z + i, {FORMS[name][0]}); }} END"""


def source() -> str:
    functions = ["#include <nt/vector_math.hpp>", GUARD, HEAD, OTHERS]
    for name in (*UNARY, *BINARY):
        functions += [float_function(name, f"<nt::{precision}>", f"_{precision}") for precision in MAX_ULP]
    functions += [form_function(name) for name in FORMS]
    functions += [float_function(name) for name in EXACT]
    functions += [float_function(name, result="uint8") for name in COMPARISONS]
    functions += [integer_functions(dtype) for dtype in DTYPES if dtype not in ("float", "bool")]
    functions += [cast_function(a, b) for a in DTYPES for b in DTYPES]
    functions += [round_function(dtype) for dtype in ROUNDED]
    functions += [lane_functions(dtype) for dtype in DTYPES if dtype != "bool"]
    return "\n".join(functions)


@pytest.fixture(scope="module", params=ARCHS)
def library(request: pytest.FixtureRequest, run_directory: Path) -> ctypes.CDLL:
    return compile_library(source(), request.param, run_directory, "-Wno-unused-parameter")


def evaluate(library: ctypes.CDLL, name: str, *operands: Array, result: Any = None) -> Array:
    operands = tuple(aligned(operand) for operand in operands)
    out = aligned(np.zeros(operands[0].shape, operands[0].dtype if result is None else result))
    call(library, name, *(operands * 2)[:2], out, out.size)
    return out


def without_denormals(x: Array) -> Array:
    """The array takes them as zeros. NaNs with bits in the lower half only are not NaNs to a product."""
    bits = x.view(np.uint32) & 0x7FFFFFFF
    return x[((bits >= 0x00800000) & ((bits <= 0x7F800000) | (bits > 0x7F80FFFF))) | (bits == 0)]


SPECIALS = np.array(
    [
        0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, math.inf, -math.inf, math.nan, 1.1754944e-38, -1.1754944e-38,
        3.4028235e38, -3.4028235e38, 88.72283, 88.72284, 88.9, 89, -87.33655, -87.4, -103.98, 9.01, -9.02, 0.93, 2**24,
    ],
    np.float32,
)  # fmt: skip


def arguments(seed: int, count: int = 1 << 16) -> Array:
    """Every exponent, ordinary sizes, the surroundings of 1, special values; a multiple of 64 elements."""
    random = np.random.default_rng(seed)
    patterns = random.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
    ordinary = [random.normal(0, scale, count // 4) for scale in (1e-4, 0.3, 1, 3, 10, 30, 100, 1e4)]
    near_one = [1 + random.normal(0, scale, count // 8) for scale in (1e-6, 1e-3, 0.1)]
    others = np.concatenate([*ordinary, *near_one]).astype(np.float32)
    x = without_denormals(np.concatenate([patterns, others, SPECIALS]))
    return np.concatenate([x, np.ones(-x.size % 64, np.float32)])


def units(result: Array, exact: Array, precision: str) -> Array:
    """Distance in units in the last place; infinite where a NaN, an infinity or the sign of a zero differs."""
    digits = {"full": 23, "half": 7}[precision]
    with np.errstate(all="ignore"):
        kind = {"full": np.float32, "half": ml_dtypes.bfloat16}[precision]
        result, rounded = (value.astype(kind).astype(np.float64) for value in (result, exact.astype(np.float32)))
        unit = 2.0 ** (np.floor(np.log2(np.clip(np.abs(exact), TINY, 3e38))) - digits)
        distance = np.abs(result - exact) / unit
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    distance = np.where(same, 0, np.where(np.isnan(distance), np.inf, distance))
    flushed = (np.abs(exact) < TINY * (1 + 2.0**-digits)) & (np.abs(result) <= TINY)
    distance = np.where(flushed, 0, distance)
    return np.where((result == 0) & (exact == 0) & (np.signbit(result) != np.signbit(exact)), np.inf, distance)


@pytest.mark.parametrize("precision", MAX_ULP)
@pytest.mark.parametrize("name", UNARY)
def test_functions_are_as_exact_as_promised(library: ctypes.CDLL, name: str, precision: str) -> None:
    x = arguments(1)
    if name in ("sin", "cos"):
        x = np.where((np.abs(x) <= SIN_LIMIT) | ~np.isfinite(x), x, np.float32(SIN_LIMIT))
    with np.errstate(all="ignore"):
        exact = UNARY[name](x.astype(np.float64))
    error = units(evaluate(library, f"{name}_{precision}_float", x), exact, precision)
    worst = int(np.argmax(error))
    assert error[worst] <= MAX_ULP[precision], f"{name}({x[worst]!r}) is off by {error[worst]} units"


def test_products_of_short_numbers_are_exact(library: ctypes.CDLL) -> None:
    """Parts of numbers that need none do not turn ties of the rounding to bfloat16."""
    x, y = (arguments(seed, 1 << 14).astype(ml_dtypes.bfloat16).astype(np.float32) for seed in (17, 18))
    size = min(x.size, y.size) // 64 * 64
    x, y = (
        np.where(np.isfinite(v) & (np.abs(v) > 2.0**-60) & (np.abs(v) < 2.0**60), v, 3) for v in (x[:size], y[:size])
    )
    x, y = x.astype(np.float32), y.astype(np.float32)
    for name in ("brief_factor", "float_factor", "float_brief"):
        np.testing.assert_array_equal(evaluate(library, f"{name}_form", x, y), x * y, err_msg=name)
    np.testing.assert_array_equal(evaluate(library, "square_form", x), x * x)


def test_logarithms_of_powers_of_their_base_are_exact(library: ctypes.CDLL) -> None:
    for name, base, exponents in (("log2", 2.0, np.arange(-126, 128)), ("log10", 10.0, np.arange(0, 11))):
        x = np.ones(-(-exponents.size // 16) * 16, np.float32)
        x[: exponents.size] = base**exponents  # 10^11 is not a float32 number
        np.testing.assert_array_equal(evaluate(library, f"{name}_full_float", x)[: exponents.size], exponents)


@pytest.mark.parametrize("precision", MAX_ULP)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_operands_are_as_exact_as_promised(library: ctypes.CDLL, name: str, precision: str) -> None:
    random = np.random.default_rng(2)
    grid = np.meshgrid(SPECIALS, np.concatenate([SPECIALS, np.float32([4, 5, -4, -5, 1e10, 33554432, -16777215])]))
    if name == "pow":
        whole = random.integers(-40, 40, 1 << 14)
        pairs = [
            (random.normal(0, 3, whole.size), whole),
            (np.exp(random.normal(0, 9, 1 << 17)), random.normal(0, 9, 1 << 17)),
        ]
    else:
        pairs = [(arguments(3), random.permutation(arguments(3)))]
    x, y = (np.concatenate([grid[i].ravel(), *(pair[i] for pair in pairs)]).astype(np.float32) for i in (0, 1))
    if name == "mul":  # where the lower parts of a factor are denormals, it has 8 bits
        for factor in (x, y):
            factor[(np.abs(factor) < 2.0**-102) & (factor != 0)] = 1
    size = x.size // 16 * 16
    x, y = x[:size], y[:size]
    with np.errstate(all="ignore"):
        exact = BINARY[name](x.astype(np.float64), y.astype(np.float64))
    result = evaluate(library, f"{name}_{precision}_float", x, y)
    error = units(result, exact, precision)
    if name == "mul":  # partial products below 2^-126 are zero
        with np.errstate(all="ignore"):
            error[(np.abs(result - exact) <= 2.0**-124) & (exact != 0)] = 0
    worst = int(np.argmax(error))
    assert error[worst] <= MAX_ULP[precision], f"{name}({x[worst]!r}, {y[worst]!r}) is off by {error[worst]} units"


@pytest.mark.parametrize("name", FORMS)
def test_cheaper_forms_are_as_exact_as_promised(library: ctypes.CDLL, name: str) -> None:
    """Zeros, infinities and NaNs included; absolute errors of 2^-124 are allowed."""
    text, function = FORMS[name]
    grid = np.meshgrid(SPECIALS, SPECIALS)
    x, y = (np.concatenate([part.ravel(), arguments(seed, 1 << 14)]) for part, seed in zip(grid, (15, 16), strict=True))
    if "brief(x)" in text:
        x = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    if "brief(y)" in text:
        y = y.astype(ml_dtypes.bfloat16).astype(np.float32)
    if "quotient" in name:
        y = np.maximum(np.abs(y), 1)  # NaN stays NaN
        y[(y >= 2.0**126) & np.isfinite(y)] = 2
    if "split_" in text:
        y[(np.abs(y) < 2.0**-102) & (y != 0)] = 1
    x[(np.abs(x) < 2.0**-102) & (x != 0)] = 1  # the lower parts of a factor that are denormals are zero
    size = x.size // 16 * 16
    x, y = x[:size], y[:size]
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.float64), y.astype(np.float64))
        result = evaluate(library, f"{name}_form", x, y)
        error = units(result, exact, "half")
        scale = np.maximum(np.abs(x), 1) if name == "float_quotient" else 1
        error[(np.abs(result - exact) <= 2.0**-124 * scale) & (exact != 0)] = 0
        if name in ("add_brief", "sub_brief"):  # aie2 rounds x where y has the larger exponent
            error[(np.abs(result - exact) <= 2.0**-23 * np.abs(y)) & (exact != 0)] = 0
    worst = int(np.argmax(error))
    assert error[worst] <= 1, f"{text} of {x[worst]!r}, {y[worst]!r} is off by {error[worst]} units"


def test_products_with_few_bits_are_exact(library: ctypes.CDLL) -> None:
    """1 x is x, and integers multiply as integers do."""
    random = np.random.default_rng(4)
    x = random.normal(0, 1, 4096).astype(np.float32)
    np.testing.assert_array_equal(evaluate(library, "mul_full_float", x, np.ones_like(x)), x)
    a, b = random.integers(-4096, 4096, (2, 4096)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(library, "mul_full_float", a, b), a * b)


def test_sine_and_cosine_close_to_multiples_of_half_pi(library: ctypes.CDLL) -> None:
    """Most of the argument cancels there. float64 still has a relative error of 1e-9 in the remainder."""
    multiples = np.arange(1, 2**17) * (np.pi / 2)
    x = multiples[multiples < SIN_LIMIT].astype(np.float32)
    x = np.concatenate([x, -x])
    x = x[: x.size // 16 * 16]
    for name, function in (("sin", np.sin), ("cos", np.cos)):
        exact = function(x.astype(np.float64))
        assert np.abs(exact).min() < 1e-6
        assert units(evaluate(library, f"{name}_full_float", x), exact, "full").max() <= MAX_ULP["full"]


def test_sine_and_cosine_are_nan_beyond_their_range(library: ctypes.CDLL) -> None:
    x = np.resize(np.float32([SIN_LIMIT, np.nextafter(np.float32(SIN_LIMIT), np.float32(np.inf)), -1e6, np.inf]), 16)
    for name in ("sin", "cos"):
        assert np.isnan(evaluate(library, f"{name}_full_float", x)).tolist() == [False, True, True, True] * 4


@pytest.mark.parametrize("name", EXACT)
def test_exact_functions_of_floats_equal_numpy(library: ctypes.CDLL, name: str) -> None:
    halves = np.arange(-32, 32, 0.25)
    large = [2**22 + 0.5, 2**23 - 0.5, 2**23, 2**24 + 2, -(2**23) + 0.5, 65519.996, 65520, 6e-8, 3.1e-5]
    x = np.concatenate([arguments(5), np.concatenate([halves, large]).astype(np.float32)])
    x = np.concatenate([x, np.ones(-x.size % 16, np.float32)])
    y = np.random.default_rng(6).permutation(x)
    operands = (x, y) if name in TWO_OPERANDS else (x,)
    result = evaluate(library, f"{name}_float", *operands)
    with np.errstate(all="ignore"):
        expected = EXACT[name](*operands)
    flushed = (np.abs(expected) < TINY) & (expected != 0)
    if name != "round_float16":  # all results of that are normal float32 numbers
        assert (result[flushed] == 0).all()
        result, expected = result[~flushed], expected[~flushed]
    np.testing.assert_array_equal(result, expected)
    numbers = ~np.isnan(expected)
    if name not in ("maximum", "minimum"):  # of two zeros either is the larger
        np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_of_floats_equal_numpy(library: ctypes.CDLL, name: str) -> None:
    """Denormals and numbers closer than 2^-126 too, which the array's arithmetic cannot tell apart."""
    close = np.float32([TINY * 1.25, -TINY * 1.25, TINY / 4, -TINY / 4, TINY / 8, -math.nan])
    grid = np.meshgrid(*[np.concatenate([SPECIALS, close])] * 2)
    x, y = (np.concatenate([part.ravel(), arguments(7, 1 << 10)]) for part in grid)
    size = x.size // 16 * 16
    result = evaluate(library, f"{name}_float", x[:size], y[:size], result=np.uint8)
    np.testing.assert_array_equal(result, COMPARISONS[name](x[:size], y[:size]))


@pytest.mark.parametrize("dtype", ROUNDED)
def test_rounding_to_integers(library: ctypes.CDLL, dtype: str) -> None:
    """Ties go to even, what is too large to the bounds, and NaN becomes 0."""
    low, high = ROUNDED[dtype]
    near = np.arange(low - 3, high + 3, 0.25)
    x = np.concatenate([near.astype(np.float32), arguments(21, 1 << 14)])
    x = x[: x.size // 16 * 16]
    with np.errstate(invalid="ignore"):
        expected = np.nan_to_num(np.rint(x), nan=0).clip(low, high).astype(dtype)
    np.testing.assert_array_equal(evaluate(library, f"round_{dtype}", x, result=dtype), expected)


@pytest.mark.parametrize("dtype", ["int32", "int16", "int8", "uint8"])
def test_integer_functions_equal_numpy(library: ctypes.CDLL, dtype: str) -> None:
    limits = np.iinfo(DTYPES[dtype])
    random = np.random.default_rng(8)
    x, y = random.integers(limits.min, limits.max, (2, 1024), endpoint=True).astype(DTYPES[dtype])
    x[:64], y[:64] = np.resize([limits.min, limits.max, 0, 1], 64), np.repeat([limits.min, limits.max, 0, 1], 16)
    y[512:] = x[512:]
    with np.errstate(over="ignore"):
        for name, function in {**INTEGERS, **COMPARISONS}.items():
            result = np.uint8 if name in COMPARISONS else None
            np.testing.assert_array_equal(evaluate(library, f"{name}_{dtype}", x, y, result=result), function(x, y))
        for name, unary in {"neg": np.negative, "abs": np.abs, "bit_not": np.invert}.items():
            np.testing.assert_array_equal(evaluate(library, f"{name}_{dtype}", x), unary(x))


@pytest.mark.parametrize("dtype", ["int32", "int16", "int8", "uint8"])
def test_shifts_equal_numpy_for_every_count(library: ctypes.CDLL, dtype: str) -> None:
    """NumPy gives 0 or the sign where the count is no less than the width."""
    width = np.dtype(DTYPES[dtype]).itemsize * 8
    limits = np.iinfo(DTYPES[dtype])
    x = np.random.default_rng(9).integers(limits.min, limits.max, 4096, endpoint=True).astype(DTYPES[dtype])
    count = np.resize(np.arange(width + 8), x.size).astype(DTYPES[dtype])
    np.testing.assert_array_equal(evaluate(library, f"shift_left_{dtype}", x, count), np.left_shift(x, count))
    np.testing.assert_array_equal(evaluate(library, f"shift_right_{dtype}", x, count), np.right_shift(x, count))


@pytest.mark.parametrize("result", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_casts(library: ctypes.CDLL, source: str, result: str) -> None:
    """Floats are truncated and saturated, NaN is 0; integers keep their lower bits; numbers are true unless zero."""
    if source == "float":
        near = [2.0**31, -(2.0**31), 2.0**31 - 128, 32767.5, -32768.9, 127.9, -128.9, 255.9, 0.99, -0.99, 8388607.5]
        x = np.concatenate([arguments(10, 1 << 10), np.float32(near), np.ones(64 - len(near), np.float32)])
    elif source == "bool":
        x = np.random.default_rng(11).integers(0, 2, 256).astype(np.bool_)
    else:
        limits = np.iinfo(DTYPES[source])
        x = np.random.default_rng(12).integers(limits.min, limits.max, 1024, endpoint=True).astype(DTYPES[source])
        x[:8] = [0, 1, limits.min, limits.max, 0, 2, limits.max - 1, limits.min + 1]
    expected = x.astype(DTYPES[result]) if source != "float" or result in ("float", "bool") else None
    if expected is None:
        bounds = np.iinfo(DTYPES[result])
        with np.errstate(invalid="ignore"):
            expected = np.clip(np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0), bounds.min, bounds.max)
    out = aligned(np.zeros(x.shape, DTYPES[result]))
    call(library, f"cast_{source}_{result}", aligned(x), out, x.size)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", ["float", "int32", "int16", "int8", "uint8"])
def test_lanes_and_partial_vectors(library: ctypes.CDLL, dtype: str) -> None:
    kind = DTYPES[dtype]
    lanes = 64 // np.dtype(kind).itemsize
    x = aligned(np.random.default_rng(13).integers(0, 20, lanes).astype(kind))
    for count in (1, lanes // 2 + 1, lanes):
        out = aligned(np.full(6 * lanes, 99, kind))
        call(library, f"lanes_{dtype}", x, out, count)
        total, most, least, stored, loaded, selected = out.reshape(6, lanes)
        assert (total == x.sum(dtype=kind)).all()
        assert (most == x.max()).all()
        assert (least == x.min()).all()
        np.testing.assert_array_equal(stored, np.where(np.arange(lanes) < count, x, 99))
        np.testing.assert_array_equal(loaded, np.where(np.arange(lanes) < count, x, 7))
        np.testing.assert_array_equal(selected, np.where(x < 3, x, x + x))


def test_a_nan_in_any_lane_is_the_largest_and_the_smallest(library: ctypes.CDLL) -> None:
    for lane, nan in itertools.product(range(16), (np.nan, -np.nan)):
        x = np.arange(16, dtype=np.float32)
        x[lane] = nan
        out = aligned(np.zeros(96, np.float32))
        call(library, "lanes_float", aligned(x), out, 16)
        assert np.isnan(out[:48]).all()


def test_infinite_lanes_are_the_largest_and_the_smallest(library: ctypes.CDLL) -> None:
    for numbers in ([math.inf], [-math.inf], [math.inf, -math.inf, math.inf], [math.inf, 3.4028235e38, -math.inf]):
        x = np.resize(np.float32(numbers), 16)
        out = aligned(np.zeros(96, np.float32))
        call(library, "lanes_float", aligned(x), out, 16)
        assert (out[16:32] == x.max()).all()
        assert (out[32:48] == x.min()).all()


def test_bfloat16_in_memory_is_float_in_registers(library: ctypes.CDLL) -> None:
    random = np.random.default_rng(14)
    x, y = (random.normal(0, 1, 4096).astype(ml_dtypes.bfloat16) for _ in range(2))
    expected = (x.astype(np.float32) + y.astype(np.float32)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(evaluate(library, "bfloat16_memory", x, y), expected)


def test_masks_are_bytes_of_0_and_1_in_memory(library: ctypes.CDLL) -> None:
    x, y = (np.repeat(values, 32).astype(np.uint8) for values in ([0, 1], [1, 0]))
    x[::2], y[::3] = 1, 0
    out = aligned(np.zeros(13 * 64, np.uint8))
    call(library, "masks", aligned(x), aligned(y), out, 64)
    a, b = x.astype(bool), y.astype(bool)
    expected = [a & b, a | b, a ^ b, ~a, a | b, a & b, a | b, a & b, a == b, a != b, a < b, a >= b, np.where(a, b, ~b)]
    np.testing.assert_array_equal(out.reshape(13, 64), expected)
