"""The host's implementation of the array's vector API, against exact arithmetic, NumPy and ml_dtypes."""

import ctypes
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from host_library import ARCHS, GUARD, aligned, call, compile_error, compile_library

Array = np.ndarray[Any, Any]

MODES = [
    "floor", "ceil", "positive_inf", "negative_inf", "symmetric_inf", "symmetric_zero", "conv_even", "conv_odd",
    "symmetric_floor", "symmetric_ceil",
]  # fmt: skip
SATURATIONS = {"none": 0, "saturate": 1, "symmetric": 3}

# M, K, N, type of A and B, of the result, on which generations.
SHAPES = [
    (4, 8, 4, "bfloat16", "float", ("aie2", "aie2p")),
    (8, 8, 4, "bfloat16", "float", ("aie2", "aie2p")),
    (4, 8, 8, "bfloat16", "float", ("aie2", "aie2p")),
    (8, 8, 8, "bfloat16", "float", ("aie2",)),
    (4, 8, 8, "int8", "int32", ("aie2", "aie2p")),
    (8, 8, 8, "int8", "int32", ("aie2", "aie2p")),
    (4, 4, 4, "int16", "int32", ("aie2",)),
    (4, 4, 8, "int16", "int32", ("aie2", "aie2p")),
    (4, 8, 4, "float", "float", ()),
]
NUMPY = {"bfloat16": ml_dtypes.bfloat16, "float": np.float32, "int8": np.int8, "int16": np.int16, "int32": np.int32}


def mmul_source(arch: str) -> str:
    return "\n".join(
        f"""extern "C" const char *mmul_{m}_{k}_{n}_{a}(const {a} *a, const {a} *b, {c} *c) {{
            return guarded([=] {{
                aie::mmul<{m}, {k}, {n}, {a}> product;
                product.mul(aie::load_v<{m * k}>(a), aie::load_v<{k * n}>(b));
                product.mac(aie::load_v<{m * k}>(a), aie::load_v<{k * n}>(b));
                for (unsigned i = 0; i < {m * n // 16}; ++i)
                    aie::store_v(c + 16 * i, product.to_accum().template extract<16>(i).template to_vector<{c}>());
            }});
        }}"""
        for m, k, n, a, c, archs in SHAPES
        if arch in archs
    )


SOURCE = """
#include <aie_api/aie.hpp>
#define TEST(name, ...) extern "C" const char *name(__VA_ARGS__)

TEST(to_bfloat16, const float *x, bfloat16 *y, int n, int mode) {
    return guarded([=] {
        if (mode >= 0) aie::set_rounding(static_cast<aie::rounding_mode>(mode));
        for (int i = 0; i < n; i += 16)
            aie::store_v(y + i, aie::accum<accfloat, 16>(aie::load_v<16>(x + i)).to_vector<bfloat16>());
    });
}
TEST(square_shift, const int32 *x, int32 *y, int n, int shift, int mode, int saturation) {
    return guarded([=] {
        aie::set_rounding(static_cast<aie::rounding_mode>(mode));
        aie::set_saturation(static_cast<aie::saturation_mode>(saturation));
        for (int i = 0; i < n; i += 16) {
            const auto v = aie::load_v<16>(x + i);
            aie::store_v(y + i, aie::mul(v, v).to_vector<int32>(shift));
        }
    });
}
TEST(shift_down, const int32 *x, int32 *y, int n, int shift, int mode) {
    return guarded([=] {
        aie::set_rounding(static_cast<aie::rounding_mode>(mode));
        for (int i = 0; i < n; i += 16)
            aie::store_v(y + i, aie::downshift(aie::load_v<16>(x + i), static_cast<unsigned>(shift)));
    });
}
TEST(narrow, const int16 *x, const int16 *z, int8 *y, int n, int saturation) {
    return guarded([=] {
        aie::set_saturation(static_cast<aie::saturation_mode>(saturation));
        for (int i = 0; i < n; i += 32)
            aie::store_v(y + i, aie::mul(aie::load_v<32>(x + i), aie::load_v<32>(z + i)).to_vector<int8>());
    });
}
TEST(integers, const int8 *x, const int8 *y, int8 *out) {
    return guarded([=] {
        const auto a = aie::load_v<64>(x), b = aie::load_v<64>(y);
        aie::store_v(out, aie::add(a, b));
        aie::store_v(out + 64, aie::sub(a, b));
        aie::store_v(out + 128, aie::max(a, b));
        aie::store_v(out + 192, aie::min(a, b));
        aie::store_v(out + 256, aie::bit_xor(a, b));
        aie::store_v(out + 320, aie::select(a, b, aie::lt(a, b)));
        aie::store_v(out + 384, aie::upshift(a, 3));
        aie::store_v(out + 448, aie::neg(a));
        out[512] = aie::reduce_add(a);
        out[513] = aie::reduce_max(a);
        out[514] = aie::reduce_min(a);
    });
}
TEST(shuffles, const int16 *x, const int16 *y, int16 *out) {
    return guarded([=] {
        const auto a = aie::load_v<32>(x), b = aie::load_v<32>(y);
        auto *next = out;
        const auto put = [&next](const auto &v) {
            aie::store_unaligned_v(next, v);
            next += v.size();
        };
        const auto [low, high] = aie::interleave_zip(a, b, 2);
        put(low);
        put(high);
        const auto [even, odd] = aie::interleave_unzip(low, high, 2);
        put(even);
        put(odd);
        put(aie::filter_even(a));
        put(aie::filter_odd(a, 4));
        put(aie::shuffle_up_rotate(a, 5));
        put(aie::shuffle_down_rotate(a, 5));
        put(aie::shuffle_up_fill(a, b, 3));
        put(aie::shuffle_down_fill(a, b, 3));
        put(aie::transpose(a, 4, 8));
        put(aie::reverse(a));
        put(aie::concat(a, b).template extract<16>(3));
        auto pushed = a;
        pushed.push(7);
        put(pushed);
    });
}
TEST(convert, const float *x, int32 *fixed, float *real) {
    return guarded([=] {
        aie::store_v(fixed, aie::to_fixed<int32>(aie::load_v<16>(x), 2));
        aie::store_v(real, aie::to_float<float>(aie::load_v<16>(fixed), 2));
    });
}
TEST(compare_floats, const float *x, const float *y, float *out) {
    return guarded([=] {
        aie::set_rounding(aie::rounding_mode::conv_even);
        const auto a = aie::load_v<16>(x), b = aie::load_v<16>(y);
        const auto no = aie::zeros<float, 16>(), yes = aie::broadcast<float, 16>(1.0f);
        float *next = out;
        for (const auto &mask : {aie::lt(a, b), aie::le(a, b), aie::gt(a, b), aie::ge(a, b), aie::eq(a, b),
                                 aie::neq(a, b)}) {
            aie::store_v(next, aie::select(no, yes, mask));
            next += 16;
        }
        aie::store_v(next, aie::max(a, b));
        aie::store_v(next + 16, aie::min(a, b));
    });
}
TEST(load_512, const bfloat16 *x) {
    return guarded([=] { (void)aie::load_v<32>(x); });
}
TEST(load_1024, const bfloat16 *x) {
    return guarded([=] { (void)aie::load_v<64>(x); });
}
TEST(load_256, const bfloat16 *x) {
    return guarded([=] { (void)aie::load_v<16>(x); });
}
TEST(load_128, const bfloat16 *x) {
    return guarded([=] { (void)aie::load_v<8>(x); });
}
TEST(store_512, bfloat16 *x) {
    return guarded([=] { aie::store_v(x, aie::zeros<bfloat16, 32>()); });
}
TEST(load_unaligned, const bfloat16 *x, int elements) {
    return guarded([=] { (void)aie::load_unaligned_v<32>(x, static_cast<unsigned>(elements)); });
}
TEST(lane_outside, int index) {
    return guarded([=] { (void)aie::zeros<int32, 16>().get(static_cast<unsigned>(index)); });
}
TEST(shift_of_whole_lanes) {
    return guarded([] { (void)aie::zeros<acc32, 16>().to_vector<int32>(1); });
}
"""


@pytest.fixture(scope="module", params=ARCHS)
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def library(arch: str, run_directory: Path) -> ctypes.CDLL:
    source = "#include <aie_api/aie.hpp>\n" + GUARD + SOURCE + mmul_source(arch)
    return compile_library(source, arch, run_directory)


def rounded(value: Fraction, mode: str) -> int:
    """`value` as an integer, by the definitions of the modes."""
    below = math.floor(value)
    rest = value - below
    if rest == 0:
        return below
    toward_zero = below if value > 0 else below + 1
    away = below + 1 if value > 0 else below
    fixed = {"floor": below, "ceil": below + 1, "symmetric_floor": toward_zero, "symmetric_ceil": away}
    if mode in fixed:
        return fixed[mode]
    if rest != Fraction(1, 2):
        return below + (rest > Fraction(1, 2))
    even = below if below % 2 == 0 else below + 1
    ties = {
        "positive_inf": below + 1, "negative_inf": below, "symmetric_inf": away, "symmetric_zero": toward_zero,
        "conv_even": even, "conv_odd": 2 * below + 1 - even,
    }  # fmt: skip
    return ties[mode]


def some_floats() -> Array:
    """Halves, quarters and neighbours of bfloat16 numbers, of both signs."""
    numbers = (np.arange(0x3F80, 0x3FA0, dtype=np.uint32) << 16)[:, None] + np.uint32(
        [0, 1, 0x4000, 0x7FFF, 0x8000, 0x8001, 0xC000, 0xFFFF]
    )
    return np.concatenate([numbers, numbers | np.uint32(1 << 31)]).ravel().view(np.float32)


@pytest.mark.parametrize("mode", MODES)
def test_accumulators_become_bfloat16_as_the_rounding_mode_says(library: ctypes.CDLL, mode: str) -> None:
    x = some_floats()
    result = aligned(np.zeros(x.shape, ml_dtypes.bfloat16))
    call(library, "to_bfloat16", aligned(x), result, x.size, MODES.index(mode))
    # Between 1 and 2 the last place of a bfloat16 number is 2^-7.
    expected = [rounded(Fraction(float(value)) * 128, mode) / 128 for value in x]
    np.testing.assert_array_equal(result.astype(np.float64), expected)


def test_conversion_to_even_is_that_of_ml_dtypes_for_every_kind_of_number(library: ctypes.CDLL) -> None:
    patterns = np.random.default_rng(0).integers(0, 2**32, 1 << 16, dtype=np.uint32)
    specials = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 3.4028235e38, -3.4e38, 3.3961775e38]).view(np.uint32)
    x = np.concatenate([patterns, np.resize(specials, 16)]).view(np.float32)
    result = aligned(np.zeros(x.shape, ml_dtypes.bfloat16))
    call(library, "to_bfloat16", aligned(x), result, x.size, MODES.index("conv_even"))
    nan = np.isnan(x)
    with np.errstate(all="ignore"):
        expected = x.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(result.view(np.uint16)[~nan], expected.view(np.uint16)[~nan])
    assert np.isnan(result[nan].astype(np.float32)).all()


def test_a_core_that_never_sets_the_rounding_mode_rounds_down(library: ctypes.CDLL) -> None:
    x = some_floats()
    result = aligned(np.zeros(x.shape, ml_dtypes.bfloat16))
    call(library, "to_bfloat16", aligned(x), result, x.size, -1)
    np.testing.assert_array_equal(result.astype(np.float64), np.floor(x.astype(np.float64) * 128) / 128)


@pytest.mark.parametrize("mode", MODES)
def test_integers_shift_down_as_the_rounding_mode_says(library: ctypes.CDLL, mode: str) -> None:
    x = aligned(np.concatenate([np.arange(-32, 32), np.int32([2**31 - 1, -(2**31)] * 8)]).astype(np.int32))
    result = aligned(np.zeros_like(x))
    for shift in (1, 2, 3, 7):
        call(library, "shift_down", x, result, x.size, shift, MODES.index(mode))
        assert result.tolist() == [rounded(Fraction(int(value), 2**shift), mode) for value in x]


@pytest.mark.parametrize("saturation", SATURATIONS)
def test_products_of_int32_narrow_as_the_saturation_mode_says(library: ctypes.CDLL, saturation: str) -> None:
    x = aligned(np.random.default_rng(2).integers(-(2**31), 2**31, 256).astype(np.int32))
    result = aligned(np.zeros_like(x))
    call(library, "square_shift", x, result, x.size, 20, MODES.index("conv_even"), SATURATIONS[saturation])
    for value, got in zip(x.tolist(), result.tolist(), strict=True):
        exact = rounded(Fraction(value * value, 2**20), "conv_even")
        wrapped = (exact + 2**31) % 2**32 - 2**31
        assert got == (wrapped if saturation == "none" else min(exact, 2**31 - 1))


@pytest.mark.parametrize("saturation", SATURATIONS)
def test_int8_results_wrap_or_saturate(library: ctypes.CDLL, saturation: str) -> None:
    random = np.random.default_rng(3)
    x, y = (aligned(random.integers(-40, 40, 256).astype(np.int16)) for _ in range(2))
    result = aligned(np.zeros(x.shape, np.int8))
    call(library, "narrow", x, y, result, x.size, SATURATIONS[saturation])
    exact = x.astype(np.int64) * y
    least = {"saturate": -128, "symmetric": -127}
    expected = exact.astype(np.int8) if saturation == "none" else np.clip(exact, least[saturation], 127)
    np.testing.assert_array_equal(result, expected)


def test_lane_wise_operations_on_int8_are_those_of_numpy(library: ctypes.CDLL) -> None:
    random = np.random.default_rng(4)
    x, y = (aligned(random.integers(-128, 128, 64).astype(np.int8)) for _ in range(2))
    out = aligned(np.zeros(576, np.int8))
    call(library, "integers", x, y, out)
    functions: list[Callable[[Array, Array], Array]] = [
        np.add, np.subtract, np.maximum, np.minimum, np.bitwise_xor, lambda a, b: np.where(a < b, b, a),
        lambda a, b: a << 3, lambda a, b: -a,
    ]  # fmt: skip
    for number, function in enumerate(functions):
        np.testing.assert_array_equal(out[64 * number : 64 * number + 64], function(x, y))
    assert out[512:515].tolist() == [x.sum(dtype=np.int8), x.max(), x.min()]


# Two numbers; which of <, <=, >, >=, ==, != hold; the larger and the smaller. The comparison uses the difference.
FLOAT_COMPARISONS: dict[str, tuple[float, float, tuple[int, ...], float, float]] = {
    "less": (1.0, 1.0000001, (1, 1, 0, 0, 0, 1), 1.0000001, 1.0),
    "greater": (3.4e38, -3.4e38, (0, 0, 1, 1, 0, 1), 3.4e38, -3.4e38),
    "equal": (-7.25, -7.25, (0, 1, 0, 1, 1, 0), -7.25, -7.25),
    "infinity and a number": (math.inf, 3.4e38, (0, 0, 1, 1, 0, 1), math.inf, 3.4e38),
    "NaN, the difference of infinities": (math.inf, math.inf, (0, 0, 0, 0, 0, 0), math.inf, math.inf),
    "NaN": (1.0, math.nan, (0, 0, 0, 0, 0, 0), 1.0, 1.0),
    "-0 is less than 0": (-0.0, 0.0, (1, 1, 0, 0, 0, 1), 0.0, -0.0),
    "0 - -0 is 0": (0.0, -0.0, (0, 0, 0, 1, 0, 1), 0.0, -0.0),
    "a denormal difference is 0": (1.25 * 2.0**-126, 2.0**-126, (0, 0, 0, 1, 0, 1), 1.25 * 2.0**-126, 2.0**-126),
}


@pytest.mark.parametrize("name", FLOAT_COMPARISONS)
def test_floats_compare_by_their_difference_in_bfloat16(library: ctypes.CDLL, name: str) -> None:
    """Peano's headers for both generations define comparisons this way."""
    x, y, holds, larger, smaller = FLOAT_COMPARISONS[name]
    out = aligned(np.zeros((8, 16), np.float32))
    call(library, "compare_floats", aligned(np.full(16, x, np.float32)), aligned(np.full(16, y, np.float32)), out)
    assert (out == out[:, :1]).all()
    expected = np.float32([*holds, larger, smaller])
    np.testing.assert_array_equal(out[:, 0].view(np.uint32), expected.view(np.uint32))


def test_lanes_move_as_documented(library: ctypes.CDLL) -> None:
    x, y = aligned(np.arange(32, dtype=np.int16)), aligned(np.arange(100, 132, dtype=np.int16))
    zipped = np.stack([x.reshape(16, 2), y.reshape(16, 2)], 1).ravel()
    expected = [
        zipped, x, y, x[::2], x.reshape(4, 2, 4)[:, 1].ravel(), np.roll(x, 5), np.roll(x, -5),
        np.r_[y[-3:], x[:-3]], np.r_[x[3:], y[:3]], x.reshape(4, 8).T.ravel(), x[::-1], y[16:], np.r_[7, x[:-1]],
    ]  # fmt: skip
    out = aligned(np.zeros(sum(part.size for part in expected), np.int16))
    call(library, "shuffles", x, y, out)
    np.testing.assert_array_equal(out, np.concatenate(expected))


def test_floats_become_integers_and_back(library: ctypes.CDLL) -> None:
    x = aligned(np.float32([0, 1, -1, 0.12, 0.13, -0.13, 0.125, 0.375, -0.375, 1e9, -1e9, 3e9, -3e9, 5.3, -5.3, 100]))
    fixed, real = aligned(np.zeros(16, np.int32)), aligned(np.zeros(16, np.float32))
    call(library, "convert", x, fixed, real)
    exact = [rounded(Fraction(float(value)) * 4, "symmetric_zero") for value in x]
    assert fixed.tolist() == [min(max(value, -(2**31)), 2**31 - 1) for value in exact]
    np.testing.assert_array_equal(real, fixed.astype(np.float32) / 4)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape[:3])) + shape[3])
def test_products_of_matrices(library: ctypes.CDLL, arch: str, shape: tuple[int, int, int, str, str, Any]) -> None:
    m, k, n, factor, result, archs = shape
    if arch not in archs:
        assert "no product of matrices of this shape" in compile_error(
            f"#include <aie_api/aie.hpp>\naie::mmul<{m}, {k}, {n}, {factor}> product;", arch
        )
        return
    random = np.random.default_rng(5)
    scale = 1 if result == "float" else np.iinfo(NUMPY[factor]).max / 4
    a, b = (aligned((scale * random.normal(0, 1, size)).astype(NUMPY[factor])) for size in ((m, k), (k, n)))
    c = aligned(np.zeros((m, n), NUMPY[result]))
    call(library, f"mmul_{m}_{k}_{n}_{factor}", a, b, c)
    exact = 2 * (a.astype(np.float64) @ b.astype(np.float64))
    if result == "float":
        np.testing.assert_allclose(c, exact, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(c, exact.astype(np.int64).astype(np.int32))


def aligned_sum(terms: list[Fraction]) -> np.float32:
    """Align terms to the largest exponent, round each to 24 bits there, and add them exactly."""
    largest = max(abs(term) for term in terms)
    if largest == 0:
        return np.float32(0)
    exponent = math.frexp(float(largest))[1] - 1  # float() is exact: bfloat16 products have 16 bits
    unit = Fraction(2) ** (exponent - 23)
    total = sum((round(term / unit) for term in terms), 0) * unit
    return np.float32(float(total))  # at most 28 bits: one rounding, to float32


@pytest.mark.parametrize("spread", [2, 12, 30])
def test_products_of_aie2_align_their_terms(library: ctypes.CDLL, arch: str, spread: int) -> None:
    if arch != "aie2":
        pytest.skip("measured on aie2")
    random = np.random.default_rng(spread)
    a, b = (
        aligned(
            (random.normal(0, 1, size) * 2.0 ** random.integers(-spread, spread + 1, size)).astype(NUMPY["bfloat16"])
        )
        for size in ((4, 8), (8, 4))
    )
    c = aligned(np.zeros((4, 4), np.float32))
    call(library, "mmul_4_8_4_bfloat16", a, b, c)
    for i in range(4):
        for j in range(4):
            products = [Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[i], b[:, j], strict=True)]
            first = aligned_sum([Fraction(0), *products])
            assert c[i, j] == aligned_sum([Fraction(float(first)), *products])


BLOCK_FLOATS = """
#define AIE_API_EMULATE_BFLOAT16_MMUL_WITH_BFP16 1
#include <aie_api/aie.hpp>
"""
PRODUCT_OF_BLOCK_FLOATS = """
extern "C" const char *product(const bfloat16 *a, const bfloat16 *b, float *c, int mode) {
    return guarded([=] {
        aie::set_rounding(static_cast<aie::rounding_mode>(mode));
        aie::mmul<8, 8, 8, bfloat16> product;
        product.mul(aie::load_v<64>(a), aie::load_v<64>(b));
        product.mac(aie::load_v<64>(a), aie::load_v<64>(b));
        aie::store_v(c, product.to_vector<float>());
    });
}
"""


def block_float(values: Array, mode: str) -> list[Fraction]:
    """Eight numbers as bfp16ebs8 has them, by its definition."""
    exact = [Fraction(float(value)) for value in values]
    exact = [value if abs(value) >= Fraction(2) ** -126 else Fraction(0) for value in exact]
    largest = max(map(abs, exact))
    if not largest:
        return exact
    unit = Fraction(2) ** (math.frexp(float(largest))[1] - 1 - 6)
    mantissas = [rounded(value / unit, mode) for value in exact]
    if max(mantissas) > 127:
        unit *= 2
        mantissas = [rounded(value / unit, mode) for value in exact]
    return [mantissa * unit for mantissa in mantissas]


@pytest.fixture(scope="module")
def block_floats(run_directory: Path) -> ctypes.CDLL:
    return compile_library(BLOCK_FLOATS + GUARD + PRODUCT_OF_BLOCK_FLOATS, "aie2p", run_directory)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(6))
def test_products_of_block_floats(block_floats: ctypes.CDLL, mode: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    # Ties and numbers that round up to the next power of two, both signs, magnitudes apart, and blocks of zeros.
    shape = (2, 8, 8)
    numbers = (
        random.choice([-1, 1], shape)
        * (1 + random.integers(0, 128, shape) / 128)
        * 2.0 ** random.integers(-seed, seed + 1, shape)
    )
    numbers[random.random(shape) < 0.2] = random.choice([-255 / 128, 255 / 128])
    numbers[0, 1] = numbers[1, :, 1] = 0
    numbers[0, 2] = 1e-40
    a, b = (aligned(each.astype(ml_dtypes.bfloat16)) for each in numbers)
    c = aligned(np.zeros((8, 8), np.float32))
    call(block_floats, "product", a, b, c, MODES.index(mode))
    left, right = [block_float(row, mode) for row in a], [block_float(column, mode) for column in b.T]
    expected = [[float(2 * sum(x * y for x, y in zip(row, column, strict=True))) for column in right] for row in left]
    # Sums of 16 products of 14 bits each are exact in float32 where exponents are near.
    np.testing.assert_allclose(c, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_block_floats_must_be_asked_for() -> None:
    plain = "#include <aie_api/aie.hpp>\n"
    cube, flat = "aie::mmul<8, 8, 8, bfloat16> c;", "aie::mmul<8, 4, 8, bfloat16> c;"
    assert not compile_error(BLOCK_FLOATS + cube, "aie2p")
    for source in (plain + cube, BLOCK_FLOATS + flat):
        assert "no product of matrices of this shape" in compile_error(source, "aie2p")


def test_vector_accesses_must_be_aligned(library: ctypes.CDLL, arch: str) -> None:
    wide = {"aie2": 32, "aie2p": 64}[arch]
    alignment = {"load_128": 16, "load_256": 32, "load_512": wide, "load_1024": wide, "store_512": wide}
    for name, bytes_ in alignment.items():
        for offset in (0, 2, 8, 16, 32):
            memory = aligned(np.zeros(64, ml_dtypes.bfloat16), offset)
            if offset % bytes_ == 0:
                call(library, name, memory)
            else:
                with pytest.raises(RuntimeError, match="not a multiple of its alignment"):
                    call(library, name, memory)


def test_unaligned_loads_check_what_was_promised(library: ctypes.CDLL) -> None:
    memory = aligned(np.zeros(64, ml_dtypes.bfloat16), 8)
    call(library, "load_unaligned", memory, 1)
    call(library, "load_unaligned", memory, 4)
    with pytest.raises(RuntimeError, match="aligned as promised"):
        call(library, "load_unaligned", memory, 8)


def test_what_the_array_does_wrongly_without_a_word_fails(library: ctypes.CDLL) -> None:
    call(library, "lane_outside", 15)
    with pytest.raises(RuntimeError, match="outside of the vector"):
        call(library, "lane_outside", 16)
    with pytest.raises(RuntimeError, match="no shift"):
        call(library, "shift_of_whole_lanes")


MISSING = {
    "aie::mmul<4, 4, 4, bfloat16> product;": "no product of matrices of this shape",
    "aie::mmul<4, 8, 8, bfloat16, int8> product;": "no product of matrices of this shape",
    "aie::vector<float, 8 * 16> v;": "128, 256, 512 or 1024 bits",
    "aie::vector<int8, 8> v;": "128, 256, 512 or 1024 bits",
    "aie::vector<double, 8> v;": "no vectors of this element type",
    "auto v = aie::bit_and(aie::zeros<float, 16>(), aie::zeros<float, 16>());": "take integers",
    "auto v = aie::bit_and(aie::zeros<int32, 16>(), 1);": "no matching function",
    "auto v = aie::mul(aie::zeros<float, 16>(), aie::zeros<bfloat16, 16>());": "no product of bfloat16 and float",
    "aie::accum<acc32, 16> a(aie::zeros<int32, 16>());": "widens",
}


@pytest.mark.parametrize("line", MISSING)
def test_what_the_array_has_not_does_not_compile(arch: str, line: str) -> None:
    assert MISSING[line] in compile_error(f"#include <aie_api/aie.hpp>\n{line}", arch)


@pytest.mark.parametrize("name", ["exp2", "tanh"])
def test_instructions_of_aie2p_do_not_compile_for_aie2(name: str) -> None:
    source = f"#include <aie_api/aie.hpp>\nauto v = aie::{name}<bfloat16>(aie::zeros<float, 16>());"
    assert name in compile_error(source, "aie2")
    assert not compile_error(source, "aie2p")
