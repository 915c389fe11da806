"""Hyperbolic functions, and the inverse hyperbolic and trigonometric functions."""

from __future__ import annotations

import math

import numpy as np

from npu_tensor.ops import rules
from npu_tensor.ops.registry import op
from npu_tensor.ops.rows import constant_like

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


def _is_negative(x):
    """Return True where the sign is minus, also for -0."""
    return (x < 0) | (1 / x < 0)


@op(kind="map", rule=rules.floating, ufunc=np.arctan2, aliases=("arctan2",))
def atan2(input, other, /):
    """Compute the angle of the point (x = other, y = input) in radians, from -pi to pi."""
    y, x = abs(input), abs(other)
    # Two zeros or two infinities have an angle, but no quotient.
    quotient = np.where(y == x, np.where(y == 0, y, 1), y / x)
    angle = np.arctan(quotient)
    angle = np.where(_is_negative(other), math.pi - angle, angle)
    return np.where(_is_negative(input), -angle, angle)
