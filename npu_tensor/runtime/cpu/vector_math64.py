"""float64 elementary functions over vectors, at most 4 units in the last place from the exact value.

Each function maps full float64 vectors to full float64 vectors and is correct for every input: signed zeros,
subnormals, infinities, NaN. The polynomials interpolate at Chebyshev nodes of the interval in their comment; the error
there is relative (half a unit in the last place is 1.1e-16).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial

from npu_tensor.runtime.cpu.ir_emitter import Emitter
from npu_tensor.runtime.cpu.values import Value
from npu_tensor.runtime.cpu.vector_math import atan, fmod, log_specials

LOG2_E = 1 / math.log(2)
# ln 2 in two parts: products of the first with exponents are exact.
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
# log10(2) likewise.
LOG10_2_HIGH = 0.301029995663157
LOG10_2_LOW = 8.241712586023572e-13

# (exp(r) - 1 - r) / r^2 for |r| <= ln(2)/2; error of exp 1.6e-17.
EXP = (
    2.5100472505694996e-08,
    2.7620201591031547e-07,
    2.7557268276905696e-06,
    2.4801521057868204e-05,
    0.00019841269863171557,
    0.0013888888917367081,
    0.008333333333330039,
    0.041666666666623824,
    0.16666666666666669,
    0.5000000000000001,
)
# The same with an error of 8.1e-19 relative to exp(r) - 1.
EXPM1 = (
    2.09147553258932e-09,
    2.5105312729622103e-08,
    2.755727347871858e-07,
    2.755725517000089e-06,
    2.480158732567746e-05,
    0.0001984126987500228,
    0.0013888888888883711,
    0.008333333333326084,
    0.04166666666666667,
    0.1666666666666667,
    0.5,
)
# (log((1 + s) / (1 - s)) - 2 s) / s^3 in powers of s^2 for |s| <= 3 - 2 sqrt(2); error 4.6e-18.
LOG = (
    0.14616721179861816,
    0.15331699633543858,
    0.18182889786191042,
    0.2222221112572281,
    0.28571428626031065,
    0.3999999999989938,
    0.666666666666667,
)
# (atan(r) - r) / r^3 in powers of r^2 for |r| <= tan(pi/8); error of atan 3.2e-18.
ATAN = (
    0.016284375050043393,
    -0.03456931506332609,
    0.045515447340221615,
    -0.05230443640686948,
    0.05878927554473807,
    -0.0666642476020052,
    0.07692296368042296,
    -0.09090908753259112,
    0.11111111105150588,
    -0.14285714285659779,
    0.19999999999999804,
    -0.3333333333333333,
)
# (sin(r) - r) / r^3 and (cos(r) - 1 + r^2/2) / r^4 in powers of r^2 for |r| <= pi/4, from fdlibm.
SIN = (
    1.58969099521155010221e-10,
    -2.50507602534068634195e-08,
    2.75573137070700676789e-06,
    -1.98412698298579493134e-04,
    8.33333333332248946124e-03,
    -1.66666666666666324348e-01,
)
COS = (
    -1.13596475577881948265e-11,
    2.08757232129817482790e-09,
    -2.75573143513906633035e-07,
    2.48015872894767294178e-05,
    -1.38888888888741095749e-03,
    4.16666666666666019037e-02,
)
# From here on tanh(x) and erf(x) are 1 in float64.
TANH_LIMIT = 19.1
ERF_LIMIT = 6.0
# erf is tabulated at multiples of 1 / ERF_STEPS up to its limit.
ERF_STEPS = 128

# Rounds numbers up to 2^51 to integers, which are then in the low bits of the sum.
SHIFT = 1.5 * 2.0**52
# pi/2 in four parts; the first three have 33 bits, so that their products with integers below 2^20 are exact.
HALF_PI = (
    1.57079632673412561417e00,
    6.07710050630396597660e-11,
    2.02226624871116645580e-21,
    8.47842766036889956997e-32,
)
FAST_REDUCTION_LIMIT = 2.0**20 * 1.57
# 2/pi * 2^1176, in words of 24 bits after three zero words.
TWO_OVER_PI = int(
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E006492EEA09D1921CFE"
    "1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639835339F49C845F8BBDF9283B1FF897FFDE05980FEF2F"
    "118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D08560330",
    16,
)
WORD = 24
LEADING_WORDS = 3
# Words of 2/pi that matter to one argument.
PRODUCT_WORDS = 9
SIGN_BIT = -(2**63)


def _power_of_two(e: Emitter, exponent: Value) -> Value:
    """Return 2^n as float64 for i32 lanes -1022 <= n <= 1023."""
    return e.float_of_bits(e.op("shl", e.convert("zext", e.add(exponent, 1023), "i64"), 52))


def _reduced_to_powers(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Return r and n as i32 such that x = n ln 2 + r and |r| <= ln(2)/2."""
    n = e.sub(e.fma(x, LOG2_E, SHIFT), SHIFT)
    r = e.fma(n, -LN2_LOW, e.fma(n, -LN2_HIGH, x))
    return r, e.convert("fptosi", n, "i32")


def exp(e: Emitter, x: Value) -> Value:
    # Elements below this bound are replaced, because arithmetic with subnormal results may be slow.
    zero = e.compare("olt", x, -745.2)
    r, n = _reduced_to_powers(e, e.at_most(e.select(zero, 0.0, x), 710.0))
    p = e.fma(e.polynomial(r, EXP), e.mul(r, r), e.add(r, 1.0))
    # In two steps: the factors of the largest and the smallest results do not fit float64.
    half = e.op("ashr", n, 1)
    result = e.mul(e.mul(p, _power_of_two(e, half)), _power_of_two(e, e.sub(n, half)))
    return e.select(zero, 0.0, result)


def expm1(e: Emitter, x: Value) -> Value:
    r, n = _reduced_to_powers(e, e.at_most(e.at_least(x, -38.0), 710.0))
    p = e.fma(e.polynomial(r, EXPM1), e.mul(r, r), r)
    # 2^n (p + 1) - 1, with half of 2^n because 2^1024 does not fit float64.
    half_power = _power_of_two(e, e.sub(n, 1))
    result = e.mul(e.fma(p, half_power, e.sub(half_power, 0.5)), 2.0)
    # Keeps -0 and the last bit of subnormals.
    return e.select(e.compare("olt", e.abs(x), 2.0**-54), x, result)


def tanh(e: Emitter, x: Value) -> Value:
    # With t = exp(2|x|) - 1: tanh |x| = t / (t + 2), never more than 1.
    r, n = _reduced_to_powers(e, e.mul(e.at_most(e.abs(x), TANH_LIMIT), 2.0))
    p = e.fma(e.polynomial(r, EXPM1), e.mul(r, r), r)
    power = _power_of_two(e, n)
    t = e.fma(p, power, e.sub(power, 1.0))
    return e.copysign(e.div(t, e.add(t, 2.0)), x)


def _split(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Split positive normal x = m * 2^n with sqrt(1/2) <= m < sqrt(2): return n << 52, and n as a float."""
    root_of_half = 0x3FE6A09E667F3BCD
    bits = e.bits(x)
    exponent_bits = e.op("and", e.sub(bits, root_of_half), -(1 << 52))
    biased = e.op("lshr", e.add(bits, (1023 << 52) - root_of_half), 52)
    # Bits below those of 2^52 are the integer that is added to it.
    shifted = e.float_of_bits(e.op("or", biased, 0x4330000000000000))
    return exponent_bits, e.sub(shifted, 2.0**52 + 1023)


def _log_of_reduced(e: Emitter, f: Value, exponent: Value) -> Value:
    """Return log(1 + f) + exponent * ln 2, which is exact for f = 0 and small exponents."""
    half_square = e.mul(e.mul(f, f), 0.5)
    s = e.div(f, e.add(f, 2.0))
    z = e.mul(s, s)
    rest = e.mul(e.polynomial(z, LOG), z)
    small = e.fma(s, e.add(half_square, rest), e.mul(exponent, LN2_LOW))
    return e.fma(exponent, LN2_HIGH, e.sub(f, e.sub(half_square, small)))


def _log_of_mantissa(e: Emitter, f: Value) -> Value:
    return _log_of_reduced(e, f, e.constant(0.0, f.type))


def _log2_of_reduced(e: Emitter, f: Value, exponent: Value) -> Value:
    """Return log2(1 + f) + exponent, which is exact for f = 0."""
    return e.fma(_log_of_mantissa(e, f), LOG2_E, exponent)


def _log10_of_reduced(e: Emitter, f: Value, exponent: Value) -> Value:
    """Return log10(1 + f) + exponent * log10(2). Only the last sum rounds noticeably."""
    small = e.fma(exponent, LOG10_2_LOW, e.mul(_log_of_mantissa(e, f), 1 / math.log(10)))
    return e.fma(exponent, LOG10_2_HIGH, small)


def _logarithm(e: Emitter, x: Value, of_reduced: Callable[[Emitter, Value, Value], Value]) -> Value:
    subnormal = e.compare("olt", x, 2.0**-1022)
    normal = e.select(subnormal, e.mul(x, 2.0**54), x)
    exponent_bits, exponent = _split(e, normal)
    f = e.sub(e.float_of_bits(e.sub(e.bits(normal), exponent_bits)), 1.0)
    exponent = e.select(subnormal, e.sub(exponent, 54.0), exponent)
    return log_specials(e, x, 0.0, of_reduced(e, f, exponent))


def log1p(e: Emitter, x: Value) -> Value:
    # 1 + x = (1 + f) 2^n; f = x 2^-n + (2^-n - 1) loses nothing of a small x.
    total = e.add(x, 1.0)
    exponent_bits, exponent = _split(e, total)
    scale = e.float_of_bits(e.sub(1023 << 52, exponent_bits))
    f = e.fma(x, scale, e.sub(scale, 1.0))
    # The 1 makes no difference to a large x, for which 2^-n is too small a number.
    large = e.sub(e.float_of_bits(e.sub(e.bits(total), exponent_bits)), 1.0)
    f = e.select(e.compare("ogt", x, 2.0**54), large, f)
    result = log_specials(e, x, -1.0, _log_of_reduced(e, f, exponent))
    # Adding 0 loses the sign of -0.
    return e.select(e.compare("oeq", x, 0.0), x, result)


@cache
def _erf_tables() -> tuple[list[float], list[float]]:
    """Return erf and its derivative at the multiples of 1 / ERF_STEPS."""
    points = [number / ERF_STEPS for number in range(int(ERF_LIMIT * ERF_STEPS) + 1)]
    return [*map(math.erf, points)], [2 / math.sqrt(math.pi) * math.exp(-r * r) for r in points]


def _looked_up(e: Emitter, table: Sequence[float], index: Value) -> Value:
    return e.gather("float64", Value(e.define_table(table, "double"), "ptr"), index)


def erf(e: Emitter, x: Value) -> Value:
    # Taylor's polynomial of degree 6 around the nearest point r of the tables. NaN reads the last entry.
    magnitude = e.abs(x)
    bounded = e.select(e.compare("olt", magnitude, ERF_LIMIT), magnitude, ERF_LIMIT)
    shifted = e.fma(bounded, float(ERF_STEPS), SHIFT)
    r = e.mul(e.sub(shifted, SHIFT), 1 / ERF_STEPS)
    d = e.sub(e.at_most(magnitude, ERF_LIMIT), r)
    value, slope = (_looked_up(e, table, e.op("and", e.bits(shifted), 1023)) for table in _erf_tables())
    square = e.mul(r, r)
    fifth = e.mul(r, e.polynomial(square, (-4 / 90, 20 / 90, -15 / 90)))
    fourth = e.polynomial(square, (4 / 30, -12 / 30, 3 / 30))
    third = e.mul(r, e.fma(square, -2 / 6, 3 / 6))
    second = e.fma(square, 2 / 3, -1 / 3)
    series = e.polynomial(d, (fifth, fourth, third, second, e.neg(r)))
    step = e.mul(slope, d)
    return e.copysign(e.add(value, e.fma(e.mul(step, d), series, step)), x)


def _sin_of_quadrant(e: Emitter, r: Value, quadrant: Value) -> Value:
    """Return sin(r + quadrant * pi/2) for |r| <= pi/4 and i64 quadrants."""
    z = e.mul(r, r)
    sine = e.fma(e.mul(e.polynomial(z, SIN), z), r, r)
    cosine = e.fma(e.polynomial(z, COS), e.mul(z, z), e.fma(z, -0.5, 1.0))
    odd = e.compare("ne", e.op("and", quadrant, 1), 0)
    sign = e.op("shl", e.op("and", quadrant, 2), 62)
    return e.float_of_bits(e.op("xor", e.bits(e.select(odd, cosine, sine)), sign))


def _sin_of_large(e: Emitter, x: Value, turn: int) -> Value:
    """Return sin(x + turn * pi/2) for x >= 2^20 (infinity and NaN give NaN), after Payne and Hanek.

    x = m 2^k with a 53-bit integer m. Words of 2/pi whose product with x is a multiple of 4 do not matter. The product
    of m and the next words is computed exactly, modulo 4.
    """
    mask = (1 << WORD) - 1
    bits = e.bits(x)
    mantissa = e.op("or", e.op("and", bits, (1 << 52) - 1), 1 << 52)
    # k - 2, counted from the beginning of the leading words; smaller elements get some valid position.
    position = e.larger(e.sub(e.op("lshr", bits, 52), 1075 + 2 - LEADING_WORDS * WORD), 0)
    first = e.op("lshr", e.mul(position, 10923), 18)  # position / 24
    shift = e.sub(position, e.mul(first, WORD))
    table = e.define_table([0] * LEADING_WORDS + [TWO_OVER_PI >> place & mask for place in range(1152, -1, -WORD)])

    def word(number: int) -> Value:
        element = e.gather("float32", Value(table, "ptr"), e.add(first, number))
        return e.convert("zext", e.convert("fptosi", element, "i32"), "i64")

    words = [word(PRODUCT_WORDS - 1 - number) for number in range(PRODUCT_WORDS)]  # the lowest first
    parts = [e.op("and", e.op("lshr", mantissa, place), mask) for place in range(0, 53, WORD)]
    limbs: list[Value] = []
    carry = e.constant(0, bits.type)
    for number in range(PRODUCT_WORDS):
        for place, part in enumerate(parts[: number + 1]):
            carry = e.add(carry, e.mul(part, words[number - place]))
        limbs.append(e.op("and", carry, mask))
        carry = e.op("lshr", carry, WORD)

    def pair(high: int) -> Value:
        """Return 48 bits of the product, from limb `high` down, after the shift."""
        joined = e.op("or", e.op("shl", limbs[high], WORD), limbs[high - 1])
        moved = e.op("or", e.op("shl", joined, shift), e.op("lshr", limbs[high - 2], e.sub(WORD, shift)))
        return e.op("and", moved, (1 << 2 * WORD) - 1)

    top, middle, low = (pair(PRODUCT_WORDS - 1 - 2 * number) for number in range(3))
    # The upper two bits of the first are the quadrant; a fraction from 1/2 on belongs to the next one.
    quadrant = e.op("lshr", e.add(top, 1 << 45), 46)
    signed = e.sub(top, e.op("shl", quadrant, 46))
    fraction = e.mul(e.convert("sitofp", signed, "double"), 2.0**-46)
    fraction = e.add(fraction, e.mul(e.convert("sitofp", middle, "double"), 2.0**-94))
    fraction = e.add(fraction, e.mul(e.convert("sitofp", low, "double"), 2.0**-142))
    result = _sin_of_quadrant(e, e.mul(fraction, math.pi / 2), e.add(quadrant, turn))
    return e.select(e.compare("olt", x, math.inf), result, math.nan)


def _turned_sin(e: Emitter, x: Value, turn: int) -> Value:
    """Return sin(x + turn * pi/2) for x >= 0. The rare vectors with a large element use a slow way."""

    def fast() -> list[Value]:
        shifted = e.fma(x, 2 / math.pi, SHIFT)
        n, r = e.sub(shifted, SHIFT), x
        for part in HALF_PI:
            r = e.fma(n, -part, r)
        return [_sin_of_quadrant(e, r, e.add(e.bits(shifted), turn))]

    def slow() -> list[Value]:
        name = e.define_helper(f"sin_of_large_{turn}", x.type, x.type, partial(_sin_of_large, turn=turn))
        large = e.assign(x.type, f"call {x.type} @{name}({x.type} {x.name})")
        # Elements below the limit among larger ones keep the fast result.
        return [e.select(e.compare("ole", x, FAST_REDUCTION_LIMIT), fast()[0], large)]

    (result,) = e.branch(e.any(e.compare("ugt", x, FAST_REDUCTION_LIMIT)), slow, fast)
    return result


def sin(e: Emitter, x: Value) -> Value:
    sign = e.op("and", e.bits(x), SIGN_BIT)
    return e.float_of_bits(e.op("xor", e.bits(_turned_sin(e, e.abs(x), 0)), sign))


def cos(e: Emitter, x: Value) -> Value:
    return _turned_sin(e, e.abs(x), 1)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "exp": exp,
    "expm1": expm1,
    "log": partial(_logarithm, of_reduced=_log_of_reduced),
    "log1p": log1p,
    "log2": partial(_logarithm, of_reduced=_log2_of_reduced),
    "log10": partial(_logarithm, of_reduced=_log10_of_reduced),
    "sin": sin,
    "cos": cos,
    "tanh": tanh,
    "atan": partial(atan, coefficients=ATAN),
    "erf": erf,
    "fmod": fmod,
}
