"""Elementary functions over vectors of float32 and float64, at most 4 units in the last place from the exact value.

Each function maps full vectors to full vectors and is correct for every input: signed zeros, subnormals, infinities,
NaN. Numbers that depend on the format are in dictionaries, by its LLVM type. The polynomials have the smallest maximal
error over the interval in their comment, or interpolate at its Chebyshev nodes. The errors there are relative, before
rounding and in this order: float32, float64 (half a unit in the last place is 6e-8 and 1.1e-16).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Final

import numpy as np

from npu_tensor.runtime.cpu.ir_emitter import TABLE_SIZE, Emitter
from npu_tensor.runtime.cpu.values import BITS, Value

Constants = Mapping[str, float]
Coefficients = Mapping[str, tuple[float, ...]]

MANTISSA_BITS: Final = {"float": 23, "i32": 23, "double": 52, "i64": 52}
BIAS: Final = {"float": 127, "i32": 127, "double": 1023, "i64": 1023}
"""Bias of exponents; by the type of the format or of its bits, as for the mantissa."""

LOG2_E: Final = 1 / math.log(2)
# ln 2 and log10(2) in two parts: products of the first with exponents are exact.
LN2: Final[Coefficients] = {
    "float": (0.693359375, math.log(2) - 0.693359375),
    "double": (6.93147180369123816490e-01, 1.90821492927058770002e-10),
}
LOG10_2: Final[Coefficients] = {
    "float": (0.301025390625, math.log10(2) - 0.301025390625),
    "double": (0.301029995663157, 8.241712586023572e-13),
}

# (exp(r) - 1 - r) / r^2 for |r| <= ln(2)/2; errors of exp 3.1e-9, 1.6e-17.
EXP: Final[Coefficients] = {
    "float": (
        0.00138145393626525,
        0.008368745177661473,
        0.04166839080051972,
        0.16666520398302814,
        0.49999993432044837,
    ),
    "double": (
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
    ),
}
# The same with the error relative to exp(r) - 1: 1.3e-8, 8.1e-19.
EXPM1: Final[Coefficients] = {
    "float": (
        0.0013882510716762236,
        0.008366547446389008,
        0.04166720079542593,
        0.16666543420969165,
        0.49999998149389285,
    ),
    "double": (
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
    ),
}
# Smallest mantissa of `_split`, as bits: 2/3, and the square root of 1/2.
LEAST_MANTISSA: Final = {"float": 0x3F2AAAAB, "double": 0x3FE6A09E667F3BCD}
# float32: (log(1 + f) - f) / f^2 for |f| <= 1/3; error of log 4.5e-9.
# float64: (log((1 + s) / (1 - s)) - 2 s) / s^3 in powers of s^2 for |s| <= 3 - 2 sqrt(2); error 4.6e-18.
LOG: Final[Coefficients] = {
    "float": (
        -0.12948962743152648,
        0.1400475444666618,
        -0.12167154521030989,
        0.14001161183047364,
        -0.16682305701110922,
        0.20010747560672298,
        -0.24999717460049536,
        0.33333208417320703,
        -0.5000000120759344,
    ),
    "double": (
        0.14616721179861816,
        0.15331699633543858,
        0.18182889786191042,
        0.2222221112572281,
        0.28571428626031065,
        0.3999999999989938,
        0.666666666666667,
    ),
}
# (sin(r) - r) / r^3 and (cos(r) - 1 + r^2/2) / r^4 in powers of r^2 for |r| <= pi/4. Errors in float32: 3.8e-9 and
# 1.2e-10. Those of float64 are from fdlibm.
SIN: Final[Coefficients] = {
    "float": (-0.000195146308586354, 0.008332156044210264, -0.16666654536422404),
    "double": (
        1.58969099521155010221e-10,
        -2.50507602534068634195e-08,
        2.75573137070700676789e-06,
        -1.98412698298579493134e-04,
        8.33333333332248946124e-03,
        -1.66666666666666324348e-01,
    ),
}
COS: Final[Coefficients] = {
    "float": (2.443241280378722e-05, -0.0013887309864798018, 0.0416666455544243),
    "double": (
        -1.13596475577881948265e-11,
        2.08757232129817482790e-09,
        -2.75573143513906633035e-07,
        2.48015872894767294178e-05,
        -1.38888888888741095749e-03,
        4.16666666666666019037e-02,
    ),
}
# (atan(r) - r) / r^3 in powers of r^2 for |r| <= tan(pi/8); errors of atan 6.7e-10, 3.2e-18.
ATAN: Final[Coefficients] = {
    "float": (
        -0.06078219592907699,
        0.10593813039609565,
        -0.14243533254965415,
        0.1999847151091355,
        -0.33333315188540624,
    ),
    "double": (
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
    ),
}
# The logarithm and the power of `pow`, in float64: log2((1 + s) / (1 - s)) / s in powers of s^2 for |s| <= 1/5, and
# 2^r for |r| <= 1/2; errors 1.8e-13 and 4.1e-11.
LOG2: Final = (
    0.29082326800187286,
    0.3192856133367465,
    0.41222616113912885,
    0.5770777556577396,
    0.9617966948256531,
    2.885390081777424,
)
EXP2: Final = (
    1.5201920523292998e-05,
    0.00015469291103749528,
    0.0013333922567552242,
    0.009618027253793716,
    0.055504103534438735,
    0.24022651198156536,
    0.693147180728449,
    0.9999999999616821,
)
# Below the first number exp is 0, below the second expm1 is -1. From the third on both are infinite.
EXP_LIMITS: Final[Coefficients] = {"float": (-104.0, -18.0, 89.0), "double": (-745.2, -38.0, 710.0)}
# From here on tanh and erf are 1.
TANH_LIMIT: Final[Constants] = {"float": 9.02, "double": 19.1}
ERF_LIMIT: Final[Constants] = {"float": 3.99, "double": 6.0}
# erf of float32 is a polynomial of this degree in each of the intervals of this width around 0, 1, ..., 15 times the
# width. That of float64 is tabulated at multiples of 1 / ERF_STEPS up to its limit.
ERF_DEGREE: Final = 5
ERF_WIDTH: Final = 33 / 128
ERF_STEPS: Final = 128

# pi/2 in parts, with which a reduction is exact enough up to the limit: products of float32 by fused multiply-add, and
# of float64 because the first three parts have 33 bits.
HALF_PI: Final[Coefficients] = {
    "float": (1.57079637050628662109375, -4.37113900018624283e-8, -1.71512449242886e-15),
    "double": (
        1.57079632673412561417e00,
        6.07710050630396597660e-11,
        2.02226624871116645580e-21,
        8.47842766036889956997e-32,
    ),
}
FAST_REDUCTION_LIMIT: Final[Constants] = {"float": 71476.0, "double": 2.0**20 * 1.57}
# 2/pi * 2^1176, in words of 24 bits after three zero words.
TWO_OVER_PI: Final = int(
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E006492EEA09D1921CFE"
    "1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639835339F49C845F8BBDF9283B1FF897FFDE05980FEF2F"
    "118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D08560330",
    16,
)
WORD: Final = 24
LEADING_WORDS: Final = 3
# Words of 2/pi that matter to one argument.
PRODUCT_WORDS: Final = 9


def _rounded(e: Emitter, x: Value, factor: float) -> tuple[Value, Value]:
    """Return x * factor rounded to an integer: as a float, and in the low bits of an integer.

    The magnitude of the product must not exceed half of 2^MANTISSA_BITS.
    """
    shift = 1.5 * 2.0 ** MANTISSA_BITS[x.element]
    shifted = e.fma(x, factor, shift)
    return e.sub(shifted, shift), e.bits(shifted)


def _power_of_two(e: Emitter, exponent: Value) -> Value:
    """Return 2^n, a normal number, for an integer n in the low bits of the exponent."""
    return e.float_of_bits(e.op("shl", e.add(exponent, BIAS[exponent.element]), MANTISSA_BITS[exponent.element]))


def _sign(e: Emitter, x: Value) -> Value:
    """Return the bits of x without those of its magnitude."""
    return e.op("and", e.bits(x), -(2 ** (BITS[x.element] - 1)))


def _reduced_to_powers(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Return r, and n in the low bits of an integer, such that x = n ln 2 + r and |r| <= ln(2)/2."""
    high, low = LN2[x.element]
    n, exponent = _rounded(e, x, LOG2_E)
    return e.fma(n, -low, e.fma(n, -high, x)), exponent


def exp(e: Emitter, x: Value) -> Value:
    lowest, _, highest = EXP_LIMITS[x.element]
    if x.element == "float" and e.target.has_avx512:
        return _exp_by_table(e, e.at_most(x, highest), lowest)
    bounded = e.at_least(e.at_most(x, highest), lowest)
    r, exponent = _reduced_to_powers(e, bounded)
    p = e.fma(e.polynomial(r, EXP[x.element]), e.mul(r, r), e.add(r, 1.0))
    if x.element == "double":
        # In two steps: the factors of the largest and the smallest results do not fit the format.
        bias, bits = BIAS["double"], MANTISSA_BITS["double"]
        number_of_zero = (bias + bits << bits) + (1 << bits - 1)
        biased_twice = e.sub(exponent, number_of_zero - 2 * bias)
        half = e.op("lshr", biased_twice, 1)
        for part in (half, e.sub(biased_twice, half)):
            p = e.mul(p, e.float_of_bits(e.op("shl", part, bits)))
        return p
    shifted = e.op("shl", exponent, 23)
    # 2p times 2^(n - 1), because 2^128 does not fit float32. Lanes of the other case overflow harmlessly.
    normal = e.mul(e.add(p, p), e.float_of_bits(e.add(shifted, 126 << 23)))
    # Arithmetic with subnormals is slow. Their bits are the number of units of 2^-149.
    units = e.fma(p, e.float_of_bits(e.add(shifted, (149 + 127 - 512) << 23)), 0.5)
    subnormal = e.float_of_bits(e.convert("fptosi", units, "i32"))
    # Around this bound, n = -125, both are right.
    return e.select(e.compare("olt", bounded, -86.9), subnormal, normal)


def _exp_by_table(e: Emitter, x: Value, lowest: float) -> Value:
    """Return exp as 2^(k/16) exp(r) with |r| <= ln(2)/32; Taylor's polynomial has an error of 9e-9 there."""
    # Adding this number rounds to a multiple of 1/16; the low bits of the sum are k modulo 16.
    shift = 1.5 * 2.0**19
    high, low = LN2["float"]
    shifted = e.fma(x, LOG2_E, shift)
    n = e.sub(shifted, shift)
    r = e.fma(n, -low, e.fma(n, -high, x))
    root = e.lookup([2 ** (k / TABLE_SIZE) for k in range(TABLE_SIZE)], e.bits(shifted))
    p = e.fma(e.mul(root, r), e.polynomial(r, (1 / 6, 1 / 2, 1.0)), root)
    # p * 2^floor(n), rounded once; 0 in the lanes outside the mask.
    zero, nearest_even = e.constant(0.0, x.type), e.constant(4, "i32")
    lanes = e.cast(e.compare("uge", x, lowest), "i16")
    return e.intrinsic("llvm.x86.avx512.mask.scalef.ps.512", p, n, zero, lanes, nearest_even, overloads=())


def _reduced_expm1(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Return p, and n in the low bits of an integer, such that exp(x) = 2^n (p + 1)."""
    r, exponent = _reduced_to_powers(e, x)
    return e.fma(e.polynomial(r, EXPM1[x.element]), e.mul(r, r), r), exponent


def expm1(e: Emitter, x: Value) -> Value:
    _, lowest, highest = EXP_LIMITS[x.element]
    p, exponent = _reduced_expm1(e, e.at_most(e.at_least(x, lowest), highest))
    # 2^n (p + 1) - 1, with half of 2^n because the largest one does not fit the format.
    half_power = _power_of_two(e, e.sub(exponent, 1))
    result = e.mul(e.fma(p, half_power, e.sub(half_power, 0.5)), 2.0)
    # Keeps -0 and the last bit of subnormals.
    return e.select(e.compare("olt", e.abs(x), 2.0 ** (-2 - MANTISSA_BITS[x.element])), x, result)


def tanh(e: Emitter, x: Value) -> Value:
    # With t = exp(2|x|) - 1: tanh |x| = t / (t + 2), never more than 1.
    p, exponent = _reduced_expm1(e, e.mul(e.at_most(e.abs(x), TANH_LIMIT[x.element]), 2.0))
    power = _power_of_two(e, exponent)
    t = e.fma(p, power, e.sub(power, 1.0))
    return e.copysign(e.div(t, e.add(t, 2.0)), x)


def _log_of_reduced(e: Emitter, f: Value, exponent: Value) -> Value:
    """Return log(1 + f) + exponent * ln 2 for a mantissa 1 + f; in float64 exact for f = 0 and small exponents."""
    if f.element == "float":
        return e.fma(exponent, math.log(2), _log_of_mantissa(e, f))
    high, low = LN2["double"]
    half_square = e.mul(e.mul(f, f), 0.5)
    s = e.div(f, e.add(f, 2.0))
    z = e.mul(s, s)
    rest = e.mul(e.polynomial(z, LOG["double"]), z)
    small = e.fma(s, e.add(half_square, rest), e.mul(exponent, low))
    return e.fma(exponent, high, e.sub(f, e.sub(half_square, small)))


def _log_of_mantissa(e: Emitter, f: Value) -> Value:
    """Return log(1 + f)."""
    if f.element == "float":
        return e.fma(e.polynomial(f, LOG["float"]), e.mul(f, f), f)
    return _log_of_reduced(e, f, e.constant(0.0, f.type))


def _log2_of_reduced(e: Emitter, f: Value, exponent: Value) -> Value:
    """Return log2(1 + f) + exponent, which is exact for f = 0."""
    return e.fma(_log_of_mantissa(e, f), LOG2_E, exponent)


def _log10_of_reduced(e: Emitter, f: Value, exponent: Value) -> Value:
    """Return log10(1 + f) + exponent * log10(2). Only the last sum rounds noticeably."""
    high, low = LOG10_2[f.element]
    small = e.fma(exponent, low, e.mul(_log_of_mantissa(e, f), 1 / math.log(10)))
    return e.fma(exponent, high, small)


def _split(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Split positive normal x = m * 2^n: return the bits of 2^n without the bias, and n as a float.

    m is at least `LEAST_MANTISSA`, and less than twice as large.
    """
    bias, size, least = BIAS[x.element], MANTISSA_BITS[x.element], LEAST_MANTISSA[x.element]
    bits = e.bits(x)
    exponent_bits = e.op("and", e.sub(bits, least), -(1 << size))
    biased = e.op("lshr", e.add(bits, (bias << size) - least), size)
    # Bits below those of 2^size are the integer that is added to it.
    shifted = e.float_of_bits(e.op("or", biased, bias + size << size))
    return exponent_bits, e.sub(shifted, 2.0**size + bias)


def _mantissa_and_exponent(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Return m and n of `_split` as floats, for any positive x."""
    size = MANTISSA_BITS[x.element]
    subnormal = e.compare("olt", x, 2.0 ** (1 - BIAS[x.element]))
    normal = e.select(subnormal, e.mul(x, 2.0 ** (size + 2)), x)
    exponent_bits, exponent = _split(e, normal)
    mantissa = e.float_of_bits(e.sub(e.bits(normal), exponent_bits))
    return mantissa, e.select(subnormal, e.sub(exponent, size + 2.0), exponent)


def _with_specials(e: Emitter, x: Value, zero_at: float, result: Value) -> Value:
    """Return the result where log has one: -inf at `zero_at`, NaN below it, infinity and NaN unchanged."""
    result = e.select(e.compare("olt", x, math.inf), result, x)
    result = e.select(e.compare("olt", x, zero_at), math.nan, result)
    return e.select(e.compare("oeq", x, zero_at), -math.inf, result)


def _logarithm(e: Emitter, x: Value, of_reduced: Callable[[Emitter, Value, Value], Value]) -> Value:
    mantissa, exponent = _mantissa_and_exponent(e, x)
    return _with_specials(e, x, 0.0, of_reduced(e, e.sub(mantissa, 1.0), exponent))


def log1p(e: Emitter, x: Value) -> Value:
    size = MANTISSA_BITS[x.element]
    # 1 + x = (1 + f) 2^n; f = x 2^-n + (2^-n - 1) loses nothing of a small x.
    total = e.add(x, 1.0)
    exponent_bits, exponent = _split(e, total)
    scale = e.float_of_bits(e.sub(BIAS[x.element] << size, exponent_bits))
    f = e.fma(x, scale, e.sub(scale, 1.0))
    # The 1 makes no difference to a large x, for which 2^-n is too small a number.
    large = e.sub(e.float_of_bits(e.sub(e.bits(total), exponent_bits)), 1.0)
    f = e.select(e.compare("ogt", x, 2.0 ** (size + 2)), large, f)
    result = _with_specials(e, x, -1.0, _log_of_reduced(e, f, exponent))
    # Adding 0 loses the sign of -0.
    return e.select(e.compare("oeq", x, 0.0), x, result)


@cache
def _erf_polynomials() -> tuple[tuple[float, ...], ...]:
    """Return erf around each centre as a polynomial in the distance from it: a table per power, highest first.

    The polynomials agree with erf at the Chebyshev nodes of their intervals. These are symmetric, so that
    the first polynomial is odd as erf is, and its relative error small down to the smallest numbers. The
    error is 3.9e-8 before rounding to float32.
    """
    nodes = np.cos(np.pi * (np.arange(ERF_DEGREE + 1) + 0.5) / (ERF_DEGREE + 1))
    arguments = np.add.outer(nodes, 2.0 * np.arange(TABLE_SIZE)) * (ERF_WIDTH / 2)
    coefficients = np.linalg.solve(np.vander(nodes), np.vectorize(math.erf)(arguments))
    coefficients /= (ERF_WIDTH / 2) ** np.arange(ERF_DEGREE, -1, -1)[:, None]
    coefficients[-1, 0] = 0
    # 4.5e-8 too much, less than a unit in the last place, so that erf gets to 1 and, rounded, not beyond.
    coefficients[-1, -1] = 1
    return tuple(tuple(row) for row in coefficients.tolist())


@cache
def _erf_tables() -> tuple[list[float], list[float]]:
    """Return erf and its derivative at the multiples of 1 / ERF_STEPS."""
    points = [number / ERF_STEPS for number in range(int(ERF_LIMIT["double"] * ERF_STEPS) + 1)]
    return [*map(math.erf, points)], [2 / math.sqrt(math.pi) * math.exp(-r * r) for r in points]


def erf(e: Emitter, x: Value) -> Value:
    magnitude, limit = e.abs(x), ERF_LIMIT[x.element]
    if x.element == "float":
        magnitude = e.at_most(magnitude, limit)
        centre, number = _rounded(e, magnitude, 1 / ERF_WIDTH)
        coefficients = [e.lookup(row, number) for row in _erf_polynomials()]
        return e.copysign(e.polynomial(e.fma(centre, -ERF_WIDTH, magnitude), coefficients), x)
    # Taylor's polynomial of degree 6 around the nearest point r of the tables. NaN reads the last entry.
    bounded = e.select(e.compare("olt", magnitude, limit), magnitude, limit)
    nearest, number = _rounded(e, bounded, float(ERF_STEPS))
    r = e.mul(nearest, 1 / ERF_STEPS)
    d = e.sub(e.at_most(magnitude, limit), r)
    value, slope = (_looked_up(e, table, e.op("and", number, 1023)) for table in _erf_tables())
    square = e.mul(r, r)
    fifth = e.mul(r, e.polynomial(square, (-4 / 90, 20 / 90, -15 / 90)))
    fourth = e.polynomial(square, (4 / 30, -12 / 30, 3 / 30))
    third = e.mul(r, e.fma(square, -2 / 6, 3 / 6))
    second = e.fma(square, 2 / 3, -1 / 3)
    series = e.polynomial(d, (fifth, fourth, third, second, e.neg(r)))
    step = e.mul(slope, d)
    return e.copysign(e.add(value, e.fma(e.mul(step, d), series, step)), x)


def _looked_up(e: Emitter, table: Sequence[float], index: Value) -> Value:
    return e.gather("float64", Value(e.define_table(table, "double"), "ptr"), index)


def _sin_of_quadrant(e: Emitter, r: Value, quadrant: Value) -> Value:
    """Return sin(r + quadrant * pi/2) for |r| <= pi/4. The quadrant is in the low two bits of an integer."""
    z = e.mul(r, r)
    sine = e.fma(e.mul(e.polynomial(z, SIN[r.element]), z), r, r)
    cosine = e.fma(e.polynomial(z, COS[r.element]), e.mul(z, z), e.fma(z, -0.5, 1.0))
    odd = e.compare("ne", e.op("and", quadrant, 1), 0)
    sign = e.op("shl", e.op("and", quadrant, 2), BITS[r.element] - 2)
    return e.float_of_bits(e.op("xor", e.bits(e.select(odd, cosine, sine)), sign))


def _sin_of_large(e: Emitter, x: Value, turn: int) -> Value:
    """Return sin(x + turn * pi/2) in float64 for large x (infinity and NaN give NaN), after Payne and Hanek.

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
    is_narrow, limit = x.element == "float", FAST_REDUCTION_LIMIT[x.element]
    if is_narrow and not e.target.has_fma:
        return e.convert("fptrunc", _turned_sin(e, e.convert("fpext", x, "double"), turn), "float")

    def fast() -> list[Value]:
        n, quadrant = _rounded(e, x, 2 / math.pi)
        r = x
        for part in HALF_PI[x.element]:
            r = e.fma(n, -part, r)
        return [_sin_of_quadrant(e, r, e.add(quadrant, turn))]

    def slow() -> list[Value]:
        wide = e.convert("fpext", x, "double") if is_narrow else x
        name = e.define_helper(f"sin_of_large_{turn}", wide.type, wide.type, partial(_sin_of_large, turn=turn))
        large = e.assign(wide.type, f"call {wide.type} @{name}({wide.type} {wide.name})")
        large = e.convert("fptrunc", large, "float") if is_narrow else large
        # Elements below the limit among larger ones keep the fast result.
        return [e.select(e.compare("ole", x, limit), fast()[0], large)]

    (result,) = e.branch(e.any(e.compare("ugt", x, limit)), slow, fast)
    return result


def sin(e: Emitter, x: Value) -> Value:
    return e.float_of_bits(e.op("xor", e.bits(_turned_sin(e, e.abs(x), 0)), _sign(e, x)))


def cos(e: Emitter, x: Value) -> Value:
    return _turned_sin(e, e.abs(x), 1)


def atan(e: Emitter, x: Value) -> Value:
    # atan a is pi/2 + atan(-1/a), and pi/4 + atan((a - 1) / (a + 1)): one of the three has an argument up to tan(pi/8).
    magnitude = e.abs(x)
    middle = e.compare("ogt", magnitude, math.tan(math.pi / 8))
    far = e.compare("ogt", magnitude, math.tan(3 * math.pi / 8))
    zero, one = e.constant(0.0, x.type), e.constant(1.0, x.type)
    top = e.select(far, -1.0, e.select(middle, e.sub(magnitude, 1.0), magnitude))
    bottom = e.select(far, magnitude, e.select(middle, e.add(magnitude, 1.0), one))
    r = e.div(top, bottom)
    z = e.mul(r, r)
    angle = e.fma(e.mul(e.polynomial(z, ATAN[x.element]), z), r, r)
    base = e.select(far, math.pi / 2, e.select(middle, math.pi / 4, zero))
    return e.copysign(e.add(angle, base), x)


def pow(e: Emitter, x: Value, y: Value) -> Value:
    """Return x to the power y as C99 pow, in float32.

    2^(y log2 x) in float64, whose error is far below a float32 unit even for the largest exponents.
    """
    magnitude = e.abs(x)
    narrow, exponent = _mantissa_and_exponent(e, magnitude)
    mantissa = e.convert("fpext", narrow, "double")
    s = e.div(e.sub(mantissa, 1.0), e.add(mantissa, 1.0))
    log2 = e.fma(e.polynomial(e.mul(s, s), LOG2), s, e.convert("fpext", exponent, "double"))
    wide = e.convert("fpext", magnitude, "double")
    log2 = e.select(e.compare("oeq", wide, 0.0), -math.inf, log2)
    log2 = e.select(e.compare("olt", wide, math.inf), log2, wide)

    # From 2^200 on (and below 2^-200) the result is infinity (0) in float32.
    power = e.at_most(e.at_least(e.mul(log2, e.convert("fpext", y, "double")), -200.0), 200.0)
    n, number = _rounded(e, power, 1.0)
    scale = _power_of_two(e, number)
    result = e.convert("fptrunc", e.mul(e.polynomial(e.sub(power, n), EXP2), scale), "float")

    # Negative x (also -0): NaN unless y is an integer; the sign stays if that is odd. Floats from 2^24 on are
    # even.
    distance = e.abs(y)
    whole = e.compare("oeq", e.trunc(distance), distance)
    number = e.convert("fptosi", e.at_most(distance, 2.0**24), "i32")
    odd = e.op("and", whole, e.compare("ne", e.op("and", number, 1), 0))
    signed = e.float_of_bits(e.op("or", e.bits(result), _sign(e, x)))
    result = e.select(odd, signed, result)
    undefined = e.op("and", e.compare("olt", x, 0.0), e.compare("ogt", x, -math.inf))
    result = e.select(e.select(whole, e.constant(0, undefined.type), undefined), math.nan, result)
    # 1^y and x^0 are 1 even for NaN, and so is (-1)^inf.
    one = e.op("or", e.compare("oeq", x, 1.0), e.compare("oeq", y, 0.0))
    minus_one = e.op("and", e.compare("oeq", x, -1.0), e.compare("oeq", distance, math.inf))
    return e.select(e.op("or", one, minus_one), 1.0, result)


def fmod(e: Emitter, x: Value, y: Value) -> Value:
    """Return the exact remainder of x / y rounded toward zero, for lanes of either float type."""
    a, b = e.abs(x), e.abs(y)
    if not e.target.has_fma:
        return e.copysign(_remainder_by_long_division(e, a, b), x)
    quotient = e.trunc(e.div(a, b))

    def short() -> list[Value]:
        # The rounded quotient is at most one too large, and the fused difference is exact.
        rest = e.fma(e.neg(quotient), b, a)
        rest = e.select(e.compare("olt", rest, 0.0), e.add(rest, b), rest)
        return [e.select(e.compare("olt", a, b), a, rest)]

    limit = 2.0**22 if x.element == "float" else 2.0**51
    is_long = e.any(e.compare("uge", quotient, limit))
    (rest,) = e.branch(is_long, lambda: [_remainder_by_long_division(e, a, b)], short)
    return e.copysign(rest, x)


def _remainder_by_long_division(e: Emitter, a: Value, b: Value) -> Value:
    """Return a modulo b for magnitudes whose quotient may be of any size."""
    if a.element == "float":
        wide = _remainder_by_long_division(e, e.convert("fpext", a, "double"), e.convert("fpext", b, "double"))
        return e.convert("fptrunc", wide, "float")
    dividend, exponent = _integral(e, a)
    divisor, unit = _integral(e, b)
    divisor = e.larger(divisor, 1)

    def step(_: Value, state: list[Value]) -> list[Value]:
        rest, remaining = state
        shift = e.smaller(remaining, 11)  # The shifted remainder fits 64 bits.

        def divide() -> list[Value]:
            return [e.op("urem", e.op("shl", rest, shift), divisor), e.sub(remaining, shift)]

        return e.branch(e.any(e.compare("ne", remaining, 0)), divide, lambda: state)

    first = [e.op("urem", dividend, divisor), e.larger(e.sub(exponent, unit), 0)]
    rest, _ = e.loop(0, 2046, 11, first, step)
    # In two factors: the power itself can be less than the smallest normal number.
    power = e.sub(unit, 1075)
    half = e.op("ashr", power, 1)
    result = e.convert("sitofp", rest, "double")
    for part in (half, e.sub(power, half)):
        result = e.mul(result, e.float_of_bits(e.op("shl", e.add(part, 1023), 52)))
    result = e.select(e.compare("olt", a, b), a, result)
    undefined = e.op("or", e.compare("uge", a, math.inf), e.compare("ule", b, 0.0))
    return e.select(undefined, math.nan, result)


def _integral(e: Emitter, magnitude: Value) -> tuple[Value, Value]:
    """Return the mantissa of a finite float64 as an i64 and the biased exponent of the mantissa's upper end."""
    bits = e.bits(magnitude)
    exponent, mantissa = e.op("lshr", bits, 52), e.op("and", bits, (1 << 52) - 1)
    normal = e.compare("ne", exponent, 0)
    return e.select(normal, e.op("or", mantissa, 1 << 52), mantissa), e.larger(exponent, 1)


FUNCTIONS: Final[Mapping[str, Callable[..., Value]]] = {
    "exp": exp,
    "expm1": expm1,
    "log": partial(_logarithm, of_reduced=_log_of_reduced),
    "log1p": log1p,
    "log2": partial(_logarithm, of_reduced=_log2_of_reduced),
    "log10": partial(_logarithm, of_reduced=_log10_of_reduced),
    "sin": sin,
    "cos": cos,
    "tanh": tanh,
    "atan": atan,
    "erf": erf,
    "pow": pow,
    "fmod": fmod,
}
