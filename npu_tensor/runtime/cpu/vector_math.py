"""float32 elementary functions over vectors, at most 4 units in the last place from the exact value.

Each function maps full float32 vectors to full float32 vectors and is correct for every input: signed zeros,
subnormals, infinities, NaN. The polynomials were fitted for the smallest maximal error over the interval in their
comment; the error there is relative and before rounding to float32 (half a unit in the last place is 6e-8).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np

from npu_tensor.runtime.cpu.ir_emitter import TABLE_SIZE, Emitter
from npu_tensor.runtime.cpu.values import Value

LOG2_E = 1 / math.log(2)
# ln 2 in two parts: products of the first with integers up to 2^15 are exact in float32.
LN2_HIGH = 0.693359375
LN2_LOW = math.log(2) - LN2_HIGH
# log10(2) likewise: 11 bits and the rest.
LOG10_2_HIGH = 0.301025390625
LOG10_2_LOW = math.log10(2) - LOG10_2_HIGH
SIGN_BIT = -(2**31)

# (exp(r) - 1 - r) / r^2 for |r| <= ln(2)/2; error of exp 3.1e-9.
EXP = (
    0.00138145393626525,
    0.008368745177661473,
    0.04166839080051972,
    0.16666520398302814,
    0.49999993432044837,
)
# The same with the error relative to exp(r) - 1, 1.3e-8.
EXPM1 = (
    0.0013882510716762236,
    0.008366547446389008,
    0.04166720079542593,
    0.16666543420969165,
    0.49999998149389285,
)
# (log(1 + f) - f) / f^2 for |f| <= 1/3; error of log 4.5e-9.
LOG1P = (
    -0.12948962743152648,
    0.1400475444666618,
    -0.12167154521030989,
    0.14001161183047364,
    -0.16682305701110922,
    0.20010747560672298,
    -0.24999717460049536,
    0.33333208417320703,
    -0.5000000120759344,
)
# (sin(r) - r) / r^3 and (cos(r) - 1 + r^2/2) / r^4 in powers of r^2 for |r| <= pi/4; errors 3.8e-9 and
# 1.2e-10.
SIN = (-0.000195146308586354, 0.008332156044210264, -0.16666654536422404)
COS = (2.443241280378722e-05, -0.0013887309864798018, 0.0416666455544243)
# (atan(r) - r) / r^3 in powers of r^2 for |r| <= tan(pi/8); error of atan 6.7e-10.
ATAN = (-0.06078219592907699, 0.10593813039609565, -0.14243533254965415, 0.1999847151091355, -0.33333315188540624)
# log2((1 + s) / (1 - s)) / s in powers of s^2 for |s| <= 1/5; error 1.8e-13. Evaluated in float64.
LOG2 = (
    0.29082326800187286,
    0.3192856133367465,
    0.41222616113912885,
    0.5770777556577396,
    0.9617966948256531,
    2.885390081777424,
)
# 2^r for |r| <= 1/2; error 4.1e-11. Evaluated in float64.
EXP2 = (
    1.5201920523292998e-05,
    0.00015469291103749528,
    0.0013333922567552242,
    0.009618027253793716,
    0.055504103534438735,
    0.24022651198156536,
    0.693147180728449,
    0.9999999999616821,
)
# erf is a polynomial of this degree in each of the intervals of this width around 0, 1, ..., 15 times the width.
ERF_DEGREE = 5
ERF_WIDTH = 33 / 128
# Below this bound exp(x) is 0 in float32.
EXP_LIMIT = -104.0
# From here on tanh(x) and erf(x) are 1 in float32. The bound of erf is in the last interval.
TANH_LIMIT = 9.02
ERF_LIMIT = 3.99

# pi/2 as three float32 numbers; with fused multiply-add the reduction is right up to here.
HALF_PI = (1.57079637050628662109375, -4.37113900018624283e-8, -1.71512449242886e-15)
FAST_REDUCTION_LIMIT = 71476.0
# pi/2 as two float64 numbers, the first of 33 bits.
HALF_PI_HIGH = 1.57079632673412561417e00
HALF_PI_LOW = 6.07710050650619224932e-11
# The first 8 words of 2/pi in binary, after 32 zero bits.
TWO_OVER_PI = (0x00000000, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)


def _power_of_two(e: Emitter, exponent: Value) -> Value:
    """Return 2^n as float32 for i32 lanes -126 <= n <= 127."""
    return e.float_of_bits(e.op("shl", e.add(exponent, 127), 23))


def _nearest(e: Emitter, x: Value) -> Value:
    """Round x to the nearest integral float, for |x| < 2^22 only, which is faster than rint."""
    if e.target.has_rounding:
        return e.rint(x)
    shift = 1.5 * 2.0 ** (23 if x.element == "float" else 52)
    return e.sub(e.add(x, shift), shift)


def exp(e: Emitter, x: Value) -> Value:
    # Beyond these bounds the result is 0 or infinity.
    bounded = e.at_most(x, 89.0)
    if e.target.has_avx512:
        return _exp_by_table(e, bounded)
    bounded = e.at_least(bounded, EXP_LIMIT)
    n = _nearest(e, e.mul(bounded, LOG2_E))
    r = e.fma(n, -LN2_LOW, e.fma(n, -LN2_HIGH, bounded))
    p = e.fma(e.polynomial(r, EXP), e.mul(r, r), e.add(r, 1.0))
    shifted = e.op("shl", e.convert("fptosi", n, "i32"), 23)
    # 2p times 2^(n - 1), because 2^128 does not fit float32. Lanes of the other case overflow harmlessly.
    normal = e.mul(e.add(p, p), e.float_of_bits(e.add(shifted, 126 << 23)))
    # Arithmetic with subnormals is slow. Their bits are the number of units of 2^-149.
    units = e.fma(p, e.float_of_bits(e.add(shifted, (149 + 127 - 512) << 23)), 0.5)
    subnormal = e.float_of_bits(e.convert("fptosi", units, "i32"))
    return e.select(e.compare("olt", n, -125.0), subnormal, normal)


def _exp_by_table(e: Emitter, x: Value) -> Value:
    """Return exp as 2^(k/16) exp(r) with |r| <= ln(2)/32; Taylor's polynomial has an error of 9e-9 there."""
    # Adding this number rounds to a multiple of 1/16; the low bits of the sum are k modulo 16.
    shift = 1.5 * 2.0**19
    shifted = e.fma(x, LOG2_E, shift)
    n = e.sub(shifted, shift)
    r = e.fma(n, -LN2_LOW, e.fma(n, -LN2_HIGH, x))
    root = e.lookup([2 ** (k / TABLE_SIZE) for k in range(TABLE_SIZE)], e.bits(shifted))
    p = e.fma(e.mul(root, r), e.polynomial(r, (1 / 6, 1 / 2, 1.0)), root)
    # p * 2^floor(n), rounded once; 0 in the lanes outside the mask.
    zero, nearest_even = e.constant(0.0, x.type), e.constant(4, "i32")
    lanes = e.cast(e.compare("uge", x, EXP_LIMIT), "i16")
    return e.intrinsic("llvm.x86.avx512.mask.scalef.ps.512", p, n, zero, lanes, nearest_even, overloads=())


def expm1(e: Emitter, x: Value) -> Value:
    bounded = e.at_most(e.at_least(x, -18.0), 89.0)
    n = _nearest(e, e.mul(bounded, LOG2_E))
    r = e.fma(n, -LN2_LOW, e.fma(n, -LN2_HIGH, bounded))
    p = e.fma(e.polynomial(r, EXPM1), e.mul(r, r), r)
    # 2^n (p + 1) - 1, with half of 2^n because 2^128 does not fit float32.
    half_power = _power_of_two(e, e.sub(e.convert("fptosi", n, "i32"), 1))
    result = e.mul(e.fma(p, half_power, e.sub(half_power, 0.5)), 2.0)
    # Keeps -0 and the last bit of subnormals.
    return e.select(e.compare("olt", e.abs(x), 2.0**-25), x, result)


def _log_of_mantissa(e: Emitter, f: Value) -> Value:
    """Return log(1 + f) for |f| <= 1/3."""
    return e.fma(e.polynomial(f, LOG1P), e.mul(f, f), f)


def _log_of_reduced(e: Emitter, f: Value, exponent: Value) -> Value:
    """Return log(1 + f) + exponent * ln 2 for |f| <= 1/3 and exponents as floats."""
    return e.fma(exponent, math.log(2), _log_of_mantissa(e, f))


def _log2_of_reduced(e: Emitter, f: Value, exponent: Value) -> Value:
    """Return log2(1 + f) + exponent, which is exact for f = 0."""
    return e.fma(_log_of_mantissa(e, f), LOG2_E, exponent)


def _log10_of_reduced(e: Emitter, f: Value, exponent: Value) -> Value:
    """Return log10(1 + f) + exponent * log10(2). Only the last sum rounds noticeably."""
    small = e.fma(exponent, LOG10_2_LOW, e.mul(_log_of_mantissa(e, f), 1 / math.log(10)))
    return e.fma(exponent, LOG10_2_HIGH, small)


def _split(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Split positive normal x = m * 2^n: return the bits of 2^n without the bias, that is n << 23, and n.

    2/3 <= m < 4/3.
    """
    two_thirds = 0x3F2AAAAB
    exponent_bits = e.op("and", e.sub(e.bits(x), two_thirds), -(1 << 23))
    return exponent_bits, e.op("ashr", exponent_bits, 23)


def log_specials(e: Emitter, x: Value, zero_at: float, result: Value) -> Value:
    """Return the result where log has one: -inf at `zero_at`, NaN below it, infinity and NaN unchanged."""
    result = e.select(e.compare("olt", x, math.inf), result, x)
    result = e.select(e.compare("olt", x, zero_at), math.nan, result)
    return e.select(e.compare("oeq", x, zero_at), -math.inf, result)


def _logarithm(e: Emitter, x: Value, of_reduced: Callable[[Emitter, Value, Value], Value]) -> Value:
    subnormal = e.compare("olt", x, 2.0**-126)
    normal = e.select(subnormal, e.mul(x, 2.0**23), x)
    exponent_bits, exponent = _split(e, normal)
    f = e.sub(e.float_of_bits(e.sub(e.bits(normal), exponent_bits)), 1.0)
    exponent = e.select(subnormal, e.sub(exponent, 23), exponent)
    return log_specials(e, x, 0.0, of_reduced(e, f, e.convert("sitofp", exponent, "float")))


def log1p(e: Emitter, x: Value) -> Value:
    # 1 + x = (1 + f) 2^n; f = x 2^-n + (2^-n - 1) loses nothing of a small x.
    total = e.add(x, 1.0)
    exponent_bits, exponent = _split(e, total)
    scale = e.float_of_bits(e.sub(0x3F800000, exponent_bits))
    f = e.fma(x, scale, e.sub(scale, 1.0))
    # The 1 makes no difference to a large x, for which 2^-n is too small a float32 number.
    large = e.sub(e.float_of_bits(e.sub(e.bits(total), exponent_bits)), 1.0)
    f = e.select(e.compare("ogt", x, 2.0**25), large, f)
    result = log_specials(e, x, -1.0, _log_of_reduced(e, f, e.convert("sitofp", exponent, "float")))
    # Adding 0 loses the sign of -0.
    return e.select(e.compare("oeq", x, 0.0), x, result)


def tanh(e: Emitter, x: Value) -> Value:
    # With t = exp(2|x|) - 1: tanh |x| = t / (t + 2), never more than 1.
    doubled = e.mul(e.at_most(e.abs(x), TANH_LIMIT), 2.0)
    n = _nearest(e, e.mul(doubled, LOG2_E))
    r = e.fma(n, -LN2_LOW, e.fma(n, -LN2_HIGH, doubled))
    p = e.fma(e.polynomial(r, EXPM1), e.mul(r, r), r)
    power = _power_of_two(e, e.convert("fptosi", n, "i32"))
    t = e.fma(p, power, e.sub(power, 1.0))
    return e.copysign(e.div(t, e.add(t, 2.0)), x)


@cache
def _erf_tables() -> tuple[tuple[float, ...], ...]:
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


def erf(e: Emitter, x: Value) -> Value:
    magnitude = e.at_most(e.abs(x), ERF_LIMIT)
    # Adding this number rounds to an integer, which is in the low bits of the sum.
    shift = 1.5 * 2.0**23
    shifted = e.fma(magnitude, 1 / ERF_WIDTH, shift)
    distance = e.fma(e.sub(shifted, shift), -ERF_WIDTH, magnitude)
    coefficients = [e.lookup(row, e.bits(shifted)) for row in _erf_tables()]
    return e.copysign(e.polynomial(distance, coefficients), x)


def _reduce_fast(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Return r and n as i32 such that x = n pi/2 + r, |r| <= pi/4, for 0 <= x <= FAST_REDUCTION_LIMIT."""
    if e.target.has_fma:
        n = _nearest(e, e.mul(x, 2 / math.pi))
        r = x
        for part in HALF_PI:
            r = e.fma(n, -part, r)
        return r, e.convert("fptosi", n, "i32")
    wide = e.convert("fpext", x, "double")
    n = _nearest(e, e.mul(wide, 2 / math.pi))
    r = e.sub(e.sub(wide, e.mul(n, HALF_PI_HIGH)), e.mul(n, HALF_PI_LOW))
    return e.convert("fptrunc", r, "float"), e.convert("fptosi", n, "i32")


def _reduce_exact(e: Emitter, x: Value) -> Value:
    """Reduce like `_reduce_fast` for every x >= 1 (infinity and NaN give NaN), after Payne and Hanek.

    The result has the bits of r in the upper half of an i64 and n mod 4 in the lower.
    x = m 2^k with a 24-bit integer m. Of the bits of 2/pi only those matter whose product with x is less than
    4 and, at the other end, large enough; 96 of them, starting at bit k - 1, are multiplied with m exactly.
    """
    bits = e.bits(x)
    mantissa = e.convert("zext", e.op("or", e.op("and", bits, 0x7FFFFF), 0x800000), "i64")
    # Index of that bit after the 32 leading zeros: (exponent field - 150) - 1 + 32 - 1.
    position = e.convert("zext", e.sub(e.op("lshr", bits, 23), 120), "i64")
    word, shift = e.op("lshr", position, 5), e.op("and", position, 31)

    def window(offset: int) -> Value:
        """Return 32 bits of 2/pi from bit `position` + 32 * offset on."""
        pairs = [TWO_OVER_PI[i] << 32 | TWO_OVER_PI[i + 1] for i in range(len(TWO_OVER_PI) - 1)]
        chosen = e.constant(pairs[offset], mantissa.type)
        for number in range(1, len(pairs) - offset):
            chosen = e.select(e.compare("eq", word, number), pairs[offset + number], chosen)
        return e.op("lshr", e.op("shl", chosen, shift), 32)

    high = e.op("or", e.op("shl", window(0), 32), window(1))
    # x * 2/pi modulo 4, in units of 2^-62.
    product = e.add(e.mul(high, mantissa), e.op("lshr", e.mul(window(2), mantissa), 32))
    quadrant = e.op("lshr", e.add(product, 1 << 61), 62)
    fraction = e.sub(product, e.op("shl", quadrant, 62))
    r = e.mul(e.convert("sitofp", fraction, "double"), math.pi / 2 * 2.0**-62)
    r = e.convert("fptrunc", r, "float")
    r = e.select(e.compare("olt", x, math.inf), r, math.nan)
    return e.op("or", e.op("shl", e.convert("zext", e.bits(r), "i64"), 32), quadrant)


def _reduce(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Reduce x >= 0 to n pi/2 + r. The rare vectors with a large element use an exact, slow way."""

    def exact() -> list[Value]:
        wide = e.vector("i64")
        name = e.define_helper("reduce_exact", wide, x.type, _reduce_exact)
        pair = e.assign(wide, f"call {wide} @{name}({x.type} {x.name})")
        r = e.float_of_bits(e.convert("trunc", e.op("lshr", pair, 32), "i32"))
        # Elements below the limit among larger ones, which may even be less than 1, keep the fast result.
        fast, n = _reduce_fast(e, x)
        small = e.compare("ole", x, FAST_REDUCTION_LIMIT)
        return [e.select(small, fast, r), e.select(small, n, e.convert("trunc", pair, "i32"))]

    r, n = e.branch(e.any(e.compare("ugt", x, FAST_REDUCTION_LIMIT)), exact, lambda: _reduce_fast(e, x))
    return r, n


def _sin_of_quadrant(e: Emitter, r: Value, quadrant: Value) -> Value:
    """Return sin(r + quadrant * pi/2) for |r| <= pi/4."""
    z = e.mul(r, r)
    sine = e.fma(e.polynomial(z, SIN), e.mul(z, r), r)
    cosine = e.fma(e.polynomial(z, COS), e.mul(z, z), e.fma(z, -0.5, 1.0))
    odd = e.compare("ne", e.op("and", quadrant, 1), 0)
    sign = e.op("shl", e.op("and", quadrant, 2), 30)
    return e.float_of_bits(e.op("xor", e.bits(e.select(odd, cosine, sine)), sign))


def sin(e: Emitter, x: Value) -> Value:
    magnitude = e.abs(x)
    r, n = _reduce(e, magnitude)
    sign = e.op("and", e.bits(x), SIGN_BIT)
    return e.float_of_bits(e.op("xor", e.bits(_sin_of_quadrant(e, r, n)), sign))


def cos(e: Emitter, x: Value) -> Value:
    r, n = _reduce(e, e.abs(x))
    return _sin_of_quadrant(e, r, e.add(n, 1))


def atan(e: Emitter, x: Value, coefficients: Sequence[float] = ATAN) -> Value:
    """Return the arctangent; the polynomial has the precision of its coefficients."""
    # atan a is pi/2 + atan(-1/a), and pi/4 + atan((a - 1) / (a + 1)): one of the three has an argument up to tan(pi/8).
    magnitude = e.abs(x)
    middle = e.compare("ogt", magnitude, math.tan(math.pi / 8))
    far = e.compare("ogt", magnitude, math.tan(3 * math.pi / 8))
    zero, one = e.constant(0.0, x.type), e.constant(1.0, x.type)
    top = e.select(far, -1.0, e.select(middle, e.sub(magnitude, 1.0), magnitude))
    bottom = e.select(far, magnitude, e.select(middle, e.add(magnitude, 1.0), one))
    r = e.div(top, bottom)
    z = e.mul(r, r)
    angle = e.fma(e.mul(e.polynomial(z, coefficients), z), r, r)
    base = e.select(far, math.pi / 2, e.select(middle, math.pi / 4, zero))
    return e.copysign(e.add(angle, base), x)


def pow(e: Emitter, x: Value, y: Value) -> Value:
    """Return x to the power y as C99 pow.

    2^(y log2 x) in float64, whose error is far below a float32 unit even for the largest exponents.
    """
    magnitude = e.abs(x)
    subnormal = e.compare("olt", magnitude, 2.0**-126)
    normal = e.select(subnormal, e.mul(magnitude, 2.0**23), magnitude)
    exponent_bits, exponent = _split(e, normal)
    exponent = e.select(subnormal, e.sub(exponent, 23), exponent)
    mantissa = e.convert("fpext", e.float_of_bits(e.sub(e.bits(normal), exponent_bits)), "double")
    s = e.div(e.sub(mantissa, 1.0), e.add(mantissa, 1.0))
    log2 = e.fma(e.polynomial(e.mul(s, s), LOG2), s, e.convert("sitofp", exponent, "double"))
    wide = e.convert("fpext", magnitude, "double")
    log2 = e.select(e.compare("oeq", wide, 0.0), -math.inf, log2)
    log2 = e.select(e.compare("olt", wide, math.inf), log2, wide)

    # From 2^200 on (and below 2^-200) the result is infinity (0) in float32.
    power = e.at_most(e.at_least(e.mul(log2, e.convert("fpext", y, "double")), -200.0), 200.0)
    n = _nearest(e, power)
    fraction = e.polynomial(e.sub(power, n), EXP2)
    biased = e.convert("zext", e.add(e.convert("fptosi", n, "i32"), 1023), "i64")
    scale = e.float_of_bits(e.op("shl", biased, 52))
    result = e.convert("fptrunc", e.mul(fraction, scale), "float")

    # Negative x (also -0): NaN unless y is an integer; the sign stays if that is odd. Floats from 2^24 on are
    # even.
    distance = e.abs(y)
    whole = e.compare("oeq", e.trunc(distance), distance)
    number = e.convert("fptosi", e.at_most(distance, 2.0**24), "i32")
    odd = e.op("and", whole, e.compare("ne", e.op("and", number, 1), 0))
    sign = e.op("and", e.bits(x), SIGN_BIT)
    signed = e.float_of_bits(e.op("or", e.bits(result), sign))
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
        rest, bits = state
        some = e.smaller(bits, 11)  # The shifted remainder fits 64 bits.

        def divide() -> list[Value]:
            return [e.op("urem", e.op("shl", rest, some), divisor), e.sub(bits, some)]

        return e.branch(e.any(e.compare("ne", bits, 0)), divide, lambda: state)

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
    "atan": atan,
    "erf": erf,
    "pow": pow,
    "fmod": fmod,
}
