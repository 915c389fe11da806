"""Element-wise arithmetic, comparison, logic and mathematical functions.

Names and meanings follow PyTorch, or GGML if PyTorch has no such op.
"""

from __future__ import annotations

import math

import numpy as np

from npu_tensor.ops import rules
from npu_tensor.ops.registry import Recorder, op
from npu_tensor.ops.rows import cast, constant_like
from npu_tensor.ops.rows import erf as _erf


def _ufunc(function, doc, name="", rule=rules.floating, **declaration) -> Recorder[...]:
    """Declare the op that computes one function of NumPy, whose name it has by default."""

    def unary(input, /):
        return function(input)

    def binary(input, other, /):
        return function(input, other)

    body = unary if function.nin == 1 else binary
    body.__name__, body.__doc__ = name or function.__name__, doc
    return op(kind="map", rule=rule, ufunc=function, **declaration)(body)


# --- arithmetic


@op(kind="map", rule=rules.arithmetic, ggml="ADD", operators=("add",), ufunc=np.add)
def add(input, other, /, *, alpha: float = 1):
    """Return input + alpha * other."""
    if input.dtype == "bool":
        return input | other
    return input + (other if alpha == 1 else alpha * other)


@op(kind="map", rule=rules.numeric, ggml="SUB", operators=("sub",), ufunc=np.subtract, aliases=("subtract",))
def sub(input, other, /, *, alpha: float = 1):
    """Return input - alpha * other."""
    return input - (other if alpha == 1 else alpha * other)


@op(kind="map", rule=rules.arithmetic, ggml="MUL", operators=("mul",), ufunc=np.multiply, aliases=("multiply",))
def mul(input, other, /):
    """Return input * other."""
    return input & other if input.dtype == "bool" else input * other


@op(kind="map", rule=rules.floating, ggml="DIV", operators=("truediv",), ufunc=np.divide, public=False)
def div_op(input, other, /):
    """Return input / other, a true division: integers give float32."""
    return input / other


@op(kind="map", rule=rules.arithmetic, ufunc=np.maximum)
def maximum(input, other, /):
    """Return the larger of two elements, or NaN if either is NaN."""
    return input | other if input.dtype == "bool" else np.maximum(input, other)


@op(kind="map", rule=rules.arithmetic, ufunc=np.minimum)
def minimum(input, other, /):
    """Return the smaller of two elements, or NaN if either is NaN."""
    return input & other if input.dtype == "bool" else np.minimum(input, other)


def _without_nan(input, other, extreme):
    return np.where(input != input, other, np.where(other != other, input, extreme))


@op(kind="map", rule=rules.arithmetic, ufunc=np.fmax)
def fmax(input, other, /):
    """Return the larger of two elements, or the other one if one is NaN."""
    return input | other if input.dtype == "bool" else _without_nan(input, other, np.maximum(input, other))


@op(kind="map", rule=rules.arithmetic, ufunc=np.fmin)
def fmin(input, other, /):
    """Return the smaller of two elements, or the other one if one is NaN."""
    return input & other if input.dtype == "bool" else _without_nan(input, other, np.minimum(input, other))


@op(kind="map", rule=rules.numeric, ggml="UNARY_NEG", operators=("neg",), ufunc=np.negative, aliases=("negative",))
def neg(input, /):
    """Return -input."""
    return -input


@op(kind="map", rule=rules.numeric, ggml="UNARY_ABS", operators=("abs",), ufunc=np.absolute, aliases=("absolute",))
def abs_(input, /):
    """Return the absolute value; the smallest integer wraps to itself."""
    if input.dtype == "uint8":
        return input
    return abs(input) if _is_float(input) else np.maximum(input, -input)


def _is_float(value):
    return str(value.dtype).startswith("float")


def _like(value, other):
    """Convert a value to the type of `other`."""
    return cast(value, str(other.dtype))


@op(kind="map", rule=rules.numeric, ggml="SQR", ufunc=np.square)
def square(input, /):
    """Return input * input."""
    return input * input


@op(kind="map", rule=rules.arithmetic, ggml="UNARY_SGN", ufunc=np.sign)
def sign(input, /):
    """Return the sign as -1, 0 or 1. NaN gives 0, as in PyTorch and GGML."""
    if input.dtype == "bool":
        return input
    return _like(input > 0, input) - _like(input < 0, input)


@op(kind="map", rule=rules.arithmetic, ggml="UNARY_SGN")
def sgn(input, /):
    """Return the sign as -1, 0 or 1. This is GGML's name of `sign`."""
    return sign.op.body(input)


@op(kind="map", rule=rules.numeric, ggml="UNARY_STEP")
def step(input, /):
    """Return 1 where input > 0, else 0."""
    return _like(input > 0, input)


sqrt = _ufunc(np.sqrt, "Compute the square root; negative numbers give NaN.", ggml="SQRT", domain=(0.0, 4.0))


@op(kind="map", rule=rules.floating, domain=(0.1, 4.0))
def rsqrt(input, /):
    """Return 1 / sqrt(input)."""
    return 1 / np.sqrt(input)


@op(kind="map", rule=rules.floating, ufunc=np.reciprocal)
def reciprocal(input, /):
    """Return 1 / input."""
    return 1 / input


@op(kind="map", rule=rules.numeric, public=False)
def cube(input, /):
    """Return input * input * input."""
    return input * input * input


@op(kind="map", rule=rules.floating, ufunc=np.power, domain=(0.1, 3.0), public=False)
def pow_op(input, exponent, /):
    """Raise input to the power of exponent, in floats."""
    return np.power(input, exponent)


@op(kind="data", rule=rules.bitwise, public=False)
def pow_integer(input, exponent, /):
    """Raise integers to a power, wrapping around; a negative exponent gives the truncated fraction."""
    negative = np.where(abs(input) == 1, np.power(input, exponent & 1), 0)
    return np.where(exponent < 0, negative, np.power(input, np.maximum(exponent, 0)))


@op(kind="map", rule=rules.floating, ggml="SCALE")
def scale(input, /, s: float, b: float = 0.0):
    """Return input * s + b.

    >>> nt.scale(nt.tensor([1.0, 2.0]), 3.0, 1.0)
    """
    return input * s + b


@op(kind="map", rule=rules.numeric, ggml="CLAMP", public=False)
def clamp_op(input, /, min: float | None = None, max: float | None = None):
    """Limit input to [min, max]. NaN stays NaN; max wins where min > max."""
    if min is not None:
        input = np.maximum(input, min)
    if max is not None:
        input = np.minimum(input, max)
    return input


@op(kind="map", rule=rules.arithmetic)
def lerp(input, end, weight, /):
    """Interpolate: input + weight * (end - input), computed from the nearer end so that a weight of 1 gives end.

    >>> nt.lerp(nt.tensor([0.0, 10.0]), nt.tensor([1.0, 20.0]), 0.25)
    """
    distance = end - input
    return np.where(abs(weight) < 0.5, input + weight * distance, end - distance * (1 - weight))


# --- rounding


floor = _ufunc(np.floor, "Round down to an integer.", rule=rules.numeric, ggml="UNARY_FLOOR")
ceil = _ufunc(np.ceil, "Round up to an integer.", rule=rules.numeric, ggml="UNARY_CEIL")
trunc = _ufunc(np.trunc, "Round toward zero to an integer.", rule=rules.numeric, ggml="UNARY_TRUNC", aliases=("fix",))
round_op = _ufunc(
    np.rint, "Round to the nearest integer, halves to even, as torch.round.", "round_op", rules.numeric, public=False
)


@op(kind="map", rule=rules.numeric, ggml="UNARY_ROUND")
def round_half_away(input, /):
    """Round to the nearest integer, halves away from zero, as GGML's ROUND."""
    if not _is_float(input):
        return input
    whole = np.trunc(input)
    # Exact: input - whole has no rounding error below 2**52, and above it is zero.
    away = np.where(input < 0, whole - 1, whole + 1)
    return np.where(abs(input - whole) >= 0.5, away, whole)


@op(kind="map", rule=rules.floating)
def frac(input, /):
    """Return the fraction, input - trunc(input)."""
    return input - np.trunc(input)


# --- exponentials and logarithms


exp = _ufunc(np.exp, "Raise e to the power of input.", ggml="UNARY_EXP")
expm1 = _ufunc(np.expm1, "Compute exp(input) - 1, accurate near zero.", ggml="UNARY_EXPM1")
log = _ufunc(np.log, "Compute the natural logarithm; negative numbers give NaN.", ggml="LOG", domain=(0.01, 10.0))
log1p = _ufunc(np.log1p, "Compute log(1 + input), accurate near zero.", domain=(-0.9, 10.0))
log2 = _ufunc(np.log2, "Compute the logarithm to base 2, exact for powers of two.", domain=(0.01, 10.0))
log10 = _ufunc(np.log10, "Compute the logarithm to base 10, exact for powers of ten.", domain=(0.01, 10.0))


@op(kind="map", rule=rules.floating, ufunc=np.exp2)
def exp2(input, /):
    """Raise 2 to the power of input."""
    return np.power(constant_like(input, 2), input)


@op(kind="map", rule=rules.floating, ufunc=np.logaddexp)
def logaddexp(input, other, /):
    """Compute log(exp(input) + exp(other)) without overflow."""
    largest = np.maximum(input, other)
    apart = largest + np.log1p(np.exp(-abs(input - other)))
    return np.where(input == other, input + math.log(2), apart)  # Equal infinities have no difference.


@op(kind="map", rule=rules.floating, ufunc=np.hypot)
def hypot(input, other, /):
    """Compute sqrt(input^2 + other^2) without overflow."""
    a, b = abs(input), abs(other)
    longer = np.maximum(a, b)
    ratio = np.where(longer == 0, 0, np.minimum(a, b) / longer)
    return np.where((a == math.inf) | (b == math.inf), math.inf, longer * np.sqrt(1 + ratio * ratio))


# --- trigonometric functions, hyperbolic tangent, error function


sin = _ufunc(np.sin, "Compute the sine of an angle in radians.", ggml="SIN")
cos = _ufunc(np.cos, "Compute the cosine of an angle in radians.", ggml="COS")
tanh = _ufunc(np.tanh, "Compute the hyperbolic tangent.", ggml="UNARY_TANH")


@op(kind="map", rule=rules.floating, ufunc=np.tan, domain=(-1.5, 1.5))
def tan(input, /):
    """Compute the tangent of an angle in radians."""
    return np.sin(input) / np.cos(input)


@op(kind="map", rule=rules.floating)
def erf(input, /):
    """Compute the error function."""
    return _erf(input)


# --- comparison


def _comparison(name, function, operator, *aliases) -> Recorder[...]:
    doc = f"Compare: input {operator} other."
    return _ufunc(function, doc, name, rules.comparison, operators=(name,), aliases=aliases)


eq = _comparison("eq", np.equal, "==")
ne = _comparison("ne", np.not_equal, "!=", "not_equal")
lt = _comparison("lt", np.less, "<", "less")
le = _comparison("le", np.less_equal, "<=", "less_equal")
gt = _comparison("gt", np.greater, ">", "greater")
ge = _comparison("ge", np.greater_equal, ">=", "greater_equal")
isnan = _ufunc(np.isnan, "Return True where input is NaN.", rule=rules.predicate)
isinf = _ufunc(np.isinf, "Return True where input is plus or minus infinity.", rule=rules.predicate)
isfinite = _ufunc(np.isfinite, "Return True where input is neither infinite nor NaN.", rule=rules.predicate)


# --- logic and bits


def _bitwise(name, function, operator, doc, **declaration) -> Recorder[...]:
    return _ufunc(function, doc, name, rules.bitwise, operators=(operator,), **declaration)


logical_and = _ufunc(np.logical_and, "Return True where both elements are true (not zero).", rule=rules.logical)
logical_or = _ufunc(np.logical_or, "Return True where either element is true.", rule=rules.logical)
logical_xor = _ufunc(np.logical_xor, "Return True where exactly one element is true.", rule=rules.logical)
logical_not = _ufunc(np.logical_not, "Return True where input is false (zero).", rule=rules.logical)
bitwise_and = _bitwise("bitwise_and", np.bitwise_and, "and", "Return the bitwise input & other.")
bitwise_or = _bitwise("bitwise_or", np.bitwise_or, "or", "Return the bitwise input | other.")
bitwise_xor = _bitwise("bitwise_xor", np.bitwise_xor, "xor", "Return the bitwise input ^ other.")
bitwise_not = _bitwise("bitwise_not", np.invert, "invert", "Return the bitwise complement, ~input.")
bitwise_left_shift = _bitwise(
    "bitwise_left_shift", np.left_shift, "lshift", "Shift bits to the left: input << other.", domain=(0, 7)
)
bitwise_right_shift = _bitwise(
    "bitwise_right_shift",
    np.right_shift,
    "rshift",
    "Shift bits to the right: input >> other. The sign is kept.",
    domain=(0, 7),
)


# --- selection and conversion


@op(kind="map", rule=rules.select, public=False)
def where_op(condition, input, other, /):
    """Select input where condition is true, else other."""
    return np.where(condition, input, other)


@op(kind="map", rule=rules.conversion, ggml="CPY", public=False, converts=True)
def convert(input, /, dtype):
    """Convert input to another dtype. Floats become integers by truncation toward zero."""
    return input


@op(kind="map", rule=rules.creation, ggml="FILL", public=False)
def fill(value, /, shape, dtype):
    """Return a tensor in which every element is the same number."""
    return value


# --- division with rounding


@op(kind="map", rule=rules.floating, public=False)
def floor_divide_float(input, other, /):
    """Divide floats and round down, also infinite ones, for which NumPy and PyTorch return NaN or -1."""
    rest = np.fmod(input, other)
    # Products with 0 keep NaN and the sign of zero.
    exact = (input - rest) / other - np.where((rest != 0) & ((rest < 0) != (other < 0)), 1, rest * 0)
    down = np.floor(exact)
    # The quotient is rounded: it can lie just below the integer that it stands for.
    down = np.where(exact - down > 0.5, down + 1, down)
    quotient = input / other
    down = np.where(exact == 0, quotient * 0, down)
    return np.where(np.isinf(input) | np.isinf(other) | (other == 0), np.floor(quotient), down)


@op(kind="map", rule=rules.floating, public=False)
def remainder_float(input, other, /):
    """Return the remainder of floor division of floats; a zero has the sign of input."""
    rest = np.fmod(input, other)
    return np.where((rest != 0) & ((rest < 0) != (other < 0)), rest + other, rest)


@op(kind="map", rule=rules.floating, public=False)
def fmod_float(input, other, /):
    """Return the remainder of division of floats rounded toward zero, with the sign of input."""
    return np.fmod(input, other)


def _divided(function, input, other):
    if input.size and not np.all(other):
        raise ZeroDivisionError("integer division by zero")
    return function(input, other)


# Integers are divided by NumPy, because a zero divisor must raise an error instead of a trap.
@op(kind="data", rule=rules.bitwise, public=False)
def floor_divide(input, other, /):
    """Divide integers and round down. A zero divisor raises ZeroDivisionError when it runs."""
    return _divided(np.floor_divide, input, other)


@op(kind="data", rule=rules.bitwise, public=False)
def remainder(input, other, /):
    """Return the remainder of floor division of integers."""
    return _divided(np.remainder, input, other)


@op(kind="data", rule=rules.bitwise, public=False)
def fmod(input, other, /):
    """Return the remainder of division of integers rounded toward zero."""
    return _divided(np.fmod, input, other)
