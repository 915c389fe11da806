"""Hyperbolic, inverse trigonometric and special functions, signs of zero, and parts of floats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npu_tensor.dtypes import as_dtype
from npu_tensor.ops import rules
from npu_tensor.ops.declare import Operand, Resolution
from npu_tensor.ops.registry import op
from npu_tensor.ops.rows import cast, constant_like, is_negative
from npu_tensor.ops.rows import erf as _erf
from npu_tensor.spec import Spec


def _polynomial(x, coefficients):
    """Evaluate the sum of coefficients[i] * x**i by Horner's rule."""
    result = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


# --- hyperbolic functions, inverse hyperbolic and trigonometric functions

# Above this, 1 is negligible beside the square, also in float64.
_LARGE = 1e8


def _odd(x, value):
    """Extend a function of |x| to an odd function; zeros keep their sign, and NaN stays NaN."""
    return np.where(x < 0, -value, np.where(x > 0, value, x))


@op(kind="map", rule=rules.floating, ufunc=np.sinh)
def sinh(input, /):
    """Compute the hyperbolic sine."""
    magnitude = abs(input)
    near = np.expm1(magnitude)
    half = np.exp(magnitude * 0.5)  # Its square overflows only where the result does.
    return _odd(input, np.where(magnitude > 20, 0.5 * half * half, 0.5 * (near + near / (near + 1))))


@op(kind="map", rule=rules.floating, ufunc=np.cosh)
def cosh(input, /):
    """Compute the hyperbolic cosine."""
    magnitude = abs(input)
    whole = np.exp(magnitude)
    half = np.exp(magnitude * 0.5)  # Its square overflows only where the result does.
    return np.where(magnitude > 88, 0.5 * half * half, 0.5 * whole + 0.5 / whole)


@op(kind="map", rule=rules.floating, ufunc=np.arcsinh, aliases=("arcsinh",))
def asinh(input, /):
    """Compute the inverse hyperbolic sine."""
    magnitude = abs(input)
    square = magnitude * magnitude
    near = np.log1p(magnitude + square / (1 + np.sqrt(square + 1)))
    return _odd(input, np.where(magnitude > _LARGE, np.log(magnitude) + math.log(2), near))


@op(kind="map", rule=rules.floating, ufunc=np.arccosh, domain=(1.0, 10.0), aliases=("arccosh",))
def acosh(input, /):
    """Compute the inverse hyperbolic cosine; NaN below 1."""
    beyond = input - 1
    near = np.log1p(beyond + np.sqrt(beyond * (input + 1)))
    result = np.where(input > _LARGE, np.log(input) + math.log(2), near)
    return np.where(input < 1, constant_like(input, math.nan), result)


@op(kind="map", rule=rules.floating, ufunc=np.arctanh, domain=(-0.9, 0.9), aliases=("arctanh",))
def atanh(input, /):
    """Compute the inverse hyperbolic tangent; NaN beyond -1 and 1."""
    magnitude = abs(input)
    return _odd(input, 0.5 * np.log1p(2 * magnitude / (1 - magnitude)))


@op(kind="map", rule=rules.floating, ufunc=np.arcsin, domain=(-1.0, 1.0), aliases=("arcsin",))
def asin(input, /):
    """Compute the inverse sine in radians; NaN beyond -1 and 1."""
    return np.arctan(input / np.sqrt((1 - input) * (1 + input)))


@op(kind="map", rule=rules.floating, ufunc=np.arccos, domain=(-1.0, 1.0), aliases=("arccos",))
def acos(input, /):
    """Compute the inverse cosine in radians; NaN beyond -1 and 1."""
    return 2 * np.arctan(np.sqrt((1 - input) / (1 + input)))


@op(kind="map", rule=rules.floating, ufunc=np.arctan, aliases=("arctan",))
def atan(input, /):
    """Compute the inverse tangent in radians."""
    return np.arctan(input)


@op(kind="map", rule=rules.floating, ufunc=np.arctan2, aliases=("arctan2",))
def atan2(input, other, /):
    """Compute the angle of the point (x = other, y = input) in radians, from -pi to pi."""
    y, x = abs(input), abs(other)
    # Two zeros or two infinities have an angle, but no quotient.
    quotient = np.where(y == x, np.where(y == 0, y, 1), y / x)
    angle = np.arctan(quotient)
    angle = np.where(is_negative(other), math.pi - angle, angle)
    return np.where(is_negative(input), -angle, angle)


# --- the error function

# erfc(z) * exp(z^2) * (2 + z) / 2 - 1 / 2 in powers of 4 / (2 + z) - 1, from the Chebyshev series in 40 digits.
_ERFCX = (
    0.0107913526210117, 0.3435803422069067, 0.13973604627794914, 0.01822111575329492, -0.010755330940908886,
    -0.0032395925295271534, 0.0015453059557186107, 0.0004186479710660508, -0.00033153601371393716,
    -1.71852541704069e-05, 7.223098558594817e-05, -1.7076638145079572e-05, -1.0831436166846611e-05,
    8.06710621122023e-06, -6.050557593208622e-07, -1.835078540898153e-06, 1.0739744686311663e-06,
    1.5720540066794157e-08, -3.7163646958410467e-07, 1.497143526022312e-07, 6.610183151765426e-08,
    -5.145629434357735e-08, -4.946607757245824e-09, 6.597367302900275e-09,
)  # fmt: skip


def _erfc_of_positive(z):
    """Return erfc of z >= 0.45."""
    z = np.minimum(z, 30)  # erfc is 0 beyond, also in float64.
    coarse = np.rint(z * 256) * 0.00390625  # Its square is exact, so exp receives all digits of z^2.
    # The series is evaluated where its argument is exact, and then moved by `apart`. All terms but `step` are small.
    wide = z.dtype == "float64"
    step = 1 / (2 + z)
    step = step if wide else np.rint(step * 4096) * 0.000244140625
    missed = (step * (2 + coarse) - 1) + step * (z - coarse)
    apart = missed * (2 + z) * (1 - missed)
    point = z - apart
    rest = 2 * step * _polynomial(4 * step - 1, _ERFCX if wide else _ERFCX[:16])
    scaled = step + rest
    slope = 2 * point * scaled - 2 / math.sqrt(math.pi)
    moved = rest + apart * (slope + apart * (scaled + point * slope))
    moved = moved + (step + moved) * np.expm1((coarse - z) * (coarse + z))
    return np.exp(-coarse * coarse) * (step + moved)


@op(kind="map", rule=rules.floating)
def erfc(input, /):
    """Compute 1 - erf(input), with full relative precision where it is small."""
    tail = _erfc_of_positive(abs(input))
    return np.where(abs(input) < 0.5, 1 - _erf(input), np.where(input < 0, 2 - tail, tail))


# M. Giles, Approximating the erfinv function, GPU Computing Gems Jade Edition, 2011: single precision.
_NEAR = (
    1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06,
    3.43273939e-07, 2.81022636e-08,
)  # fmt: skip
_FAR = (
    2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322, 0.000100950558,
    -0.000200214257,
)  # fmt: skip


@op(kind="map", rule=rules.floating, domain=(-0.9, 0.9))
def erfinv(input, /):
    """Return x with erf(x) = input; infinite at -1 and 1, NaN beyond.

    Computed by Giles' approximation and a step of Halley's method.
    """
    magnitude = abs(input)
    w = -np.log((1 - magnitude) * (1 + magnitude))
    first = magnitude * np.where(w < 5, _polynomial(w - 2.5, _NEAR), _polynomial(np.sqrt(np.maximum(w, 5)) - 3, _FAR))
    missing = np.where(magnitude < 0.5, _erf(first) - magnitude, (1 - magnitude) - _erfc_of_positive(first))
    step = missing * np.exp(first * first) * (math.sqrt(math.pi) / 2)
    exact = first - step / (1 + first * step)
    result = np.where(magnitude == 1, math.inf, np.where(magnitude == 0, magnitude, exact))
    return np.where(input < 0, -result, result)


# --- the gamma function by Stirling's series, which reaches the precision of float64 at 8, and of float32 at 4

_LOG_GAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12)


# lgamma(2 + z) / z in powers of z, from its Taylor series: 1 - Euler's constant, then (-1)^k (zeta(k) - 1) / k.
_LOG_GAMMA_AT_2 = (
    0.42278433509846713, 0.3224670334241132, -0.0673523010531981, 0.020580808427784546, -0.007385551028673986,
    0.0028905103307415234, -0.001192753911703261, 0.0005096695247430425, -0.00022315475845357939,
    9.945751278180853e-05, -4.492623673813314e-05, 2.050721277567069e-05, -9.439488275268397e-06,
    4.374866789907488e-06, -2.039215753801366e-06, 9.55141213040742e-07, -4.492469198764566e-07,
    2.1207184805554665e-07, -1.0043224823968099e-07, 4.7698101693639804e-08, -2.2711094608943164e-08,
    1.0838659214896955e-08, -5.183475041970047e-09, 2.4836745438024785e-09, -1.1921401405860912e-09,
    5.731367241678862e-10, -2.7595228851242334e-10, 1.330476437424449e-10, -6.4229645638381e-11,
)  # fmt: skip


def _log_gamma(x, shift):
    """Compute the logarithm of |gamma(x)| for x >= -0.5."""
    # Up to 3.5, use the series at 2: Stirling's loses all digits near the zeros at 1 and 2. It needs |z| <= 0.65, in
    # float32 0.75.
    middle = 1.35 if shift == 8 else 1.25
    z = np.where(x < 0.5, x, np.where(x < middle, x - 1, np.where(x < 2.5, x - 2, x - 3)))
    series = z * _polynomial(z, _LOG_GAMMA_AT_2 if shift == 8 else _LOG_GAMMA_AT_2[:18])
    near = np.where(x < middle, series - np.log1p(z), series)
    factor = np.where(x < 0.5, abs(x), np.where(x < 2.5, 1, 2 + z))
    y = np.maximum(x, 3.5)
    if shift == 8:
        y = np.where(x < shift, x + shift, x)
        product = x
        for number in range(1, shift):
            product = product * (x + number)
        factor = np.where(x < 3.5, factor, np.where(x < shift, product, 1))
    rest = np.log(factor)
    near = np.where(x < 0.5, near - rest, near + rest)
    stirling = (y - 0.5) * (np.log(y) - 1) + (0.5 * math.log(2 * math.pi) - 0.5)
    stirling = stirling + _polynomial(1 / (y * y), _LOG_GAMMA) / y
    return np.where(x < 3.5, near, stirling - rest if shift == 8 else stirling)


def _shifted(input):
    """Return x (input or its reflection 1 - input), the shift, and x shifted where it is less than the shift."""
    shift = 8 if input.dtype == "float64" else 4
    x = np.where(input < -0.5, 1 - input, input)
    return x, shift, np.where(x < shift, x + shift, x)


@op(kind="map", rule=rules.floating, domain=(0.1, 10.0))
def lgamma(input, /):
    """Compute the natural logarithm of |gamma(input)|; infinite at 0 and at negative integers."""
    x, shift, _ = _shifted(input)
    positive = _log_gamma(x, shift)
    part = input - np.rint(input)
    mirrored = np.log(math.pi / abs(np.sin(math.pi * part))) - positive
    mirrored = np.where(part == 0, math.inf, mirrored)  # Also where `positive` overflows.
    result = np.where(input < -0.5, mirrored, positive)
    return np.where(abs(input) == math.inf, math.inf, result)


@op(kind="map", rule=rules.floating, domain=(0.1, 10.0))
def digamma(input, /):
    """Compute the derivative of lgamma; infinite at 0, NaN at negative integers."""
    x, shift, y = _shifted(input)
    small = np.where(x < shift, x, 1)
    fractions = 1 / small
    for number in range(1, shift):
        fractions = fractions + 1 / (small + number)
    square = 1 / (y * y)
    stirling = np.log(y) - 0.5 / y + square * _polynomial(square, _DIGAMMA)
    positive = np.where(x < shift, stirling - fractions, stirling)
    part = math.pi * (input - np.rint(input))
    mirrored = np.where(part == 0, constant_like(input, math.nan), positive - math.pi * np.cos(part) / np.sin(part))
    return np.where(input < -0.5, mirrored, positive)


# --- logarithms and quotients with limits


@op(kind="map", rule=rules.floating, domain=(0.1, 0.9))
def logit(input, /, eps: float | None = None):
    """Compute log(input / (1 - input)), with input limited to [eps, 1 - eps] if eps is given."""
    if eps is not None:
        input = np.minimum(np.maximum(input, eps), 1 - eps)
    return np.log(input / (1 - input))


@op(kind="map", rule=rules.floating, domain=(0.1, 4.0))
def xlogy(input, other, /):
    """Compute input * log(other); 0 where input is 0, unless other is NaN."""
    return np.where(other != other, other, np.where(input == 0, 0, input * np.log(other)))


@op(kind="map", rule=rules.floating, ufunc=np.logaddexp2)
def logaddexp2(input, other, /):
    """Compute log2(2^input + 2^other) without overflow."""
    largest = np.maximum(input, other)
    apart = largest + np.log1p(np.exp(-abs(input - other) * math.log(2))) * (1 / math.log(2))
    return np.where(input == other, input + 1, apart)  # Equal infinities have no difference.


@op(kind="map", rule=rules.floating, domain=(0.1, 0.9))
def sinc(input, /):
    """Compute sin(pi * input) / (pi * input); 1 at 0."""
    turned = input - 2 * np.rint(input * 0.5)  # Remove whole turns, so that all digits of the angle count.
    return np.where(input == 0, 1, np.sin(math.pi * turned) / (math.pi * input))


@op(kind="map", rule=rules.floating, ufunc=np.deg2rad)
def deg2rad(input, /):
    """Convert degrees to radians."""
    return input * (math.pi / 180)


@op(kind="map", rule=rules.floating, ufunc=np.rad2deg)
def rad2deg(input, /):
    """Convert radians to degrees."""
    return input * (180 / math.pi)


# --- signs


@op(kind="map", rule=rules.predicate, ufunc=np.signbit)
def signbit(input, /):
    """Return True where the sign is minus, also for -0.0."""
    return is_negative(input)


@op(kind="map", rule=rules.floating, ufunc=np.copysign)
def copysign(input, other, /):
    """Return the magnitude of input with the sign of other, also that of a zero."""
    magnitude = abs(input)
    return np.where(is_negative(other), -magnitude, magnitude)


@op(kind="map", rule=rules.arithmetic, ufunc=np.heaviside)
def heaviside(input, values, /):
    """Return 0 where input < 0, 1 where input > 0, and values where it is 0.

    >>> nt.heaviside(nt.tensor([-1.0, 0.0, 1.0]), 0.5)
    """
    if input.dtype == "bool":
        return input | values
    return np.where(input == 0, values, cast(input > 0, str(input.dtype)))


@op(kind="map", rule=rules.predicate)
def isposinf(input, /):
    """Return True where input is plus infinity."""
    return input == math.inf


@op(kind="map", rule=rules.predicate)
def isneginf(input, /):
    """Return True where input is minus infinity."""
    return input == -math.inf


# --- parts of numbers


@op(kind="map", rule=rules.floating, ufunc=np.ldexp)
def ldexp(input, other, /):
    """Return input * 2^other."""
    return input * np.power(constant_like(input, 2), other)


def _stored(operands: tuple[Operand, ...], attributes: dict[str, Any]) -> Resolution:
    """Resolve to floats as stored: neighbours and exponents of 16-bit floats differ from those of float32."""
    dtype = rules.promoted(operands)
    rules.require_floats(dtype)
    result = as_dtype(attributes.get("dtype") or dtype)
    return Resolution(Spec.of(rules.broadcast_of(operands), result), (dtype.name,) * len(operands), attributes)


@op(kind="data", rule=_stored, ufunc=np.nextafter, in_place=True)
def nextafter(input, other, /):
    """Return the next number after input toward other."""
    return np.nextafter(input, other)


@op(kind="data", rule=_stored, public=False)
def frexp_part(input, /, part: int, dtype: str | None = None):
    """Return part 0 or 1 of np.frexp: the fraction, 0 or from 0.5 to below 1, or the exponent of 2."""
    return np.frexp(input.astype(np.float64))[part]


@op(kind="data", rule=rules.bitwise, ufunc=np.gcd, in_place=True)
def gcd(input, other, /):
    """Compute the greatest common divisor."""
    return np.gcd(input, other)


@op(kind="data", rule=rules.bitwise, ufunc=np.lcm, in_place=True)
def lcm(input, other, /):
    """Compute the least common multiple."""
    return abs(np.lcm(input, other))
