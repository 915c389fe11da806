"""Hyperbolic functions, and the inverses of them and of the trigonometric ones."""

from __future__ import annotations

import math

import numpy as np

from npu_tensor.ops import rules
from npu_tensor.ops.registry import op
from npu_tensor.ops.rows import constant_like

# Above this 1 counts nothing beside the square, in float64 as well.
_LARGE = 1e8


def _odd(x, of_magnitude):
    """The function with f(-x) = -f(x) that is known for |x|; zeros keep their sign, and NaN stays."""
    return np.where(x < 0, -of_magnitude, np.where(x > 0, of_magnitude, x))


@op(kind="map", rule=rules.floating, ufunc=np.sinh)
def sinh(input, /):
    """Hyperbolic sine."""
    magnitude = abs(input)
    near = np.expm1(magnitude)
    half = np.exp(magnitude * 0.5)  # its square overflows where the result does, not before
    return _odd(input, np.where(magnitude > 20, 0.5 * half * half, 0.5 * (near + near / (near + 1))))


@op(kind="map", rule=rules.floating, ufunc=np.cosh)
def cosh(input, /):
    """Hyperbolic cosine."""
    magnitude = abs(input)
    whole = np.exp(magnitude)
    half = np.exp(magnitude * 0.5)  # its square overflows where the result does, not before
    return np.where(magnitude > 88, 0.5 * half * half, 0.5 * whole + 0.5 / whole)


@op(kind="map", rule=rules.floating, ufunc=np.arcsinh, aliases=("arcsinh",))
def asinh(input, /):
    """Inverse hyperbolic sine."""
    magnitude = abs(input)
    square = magnitude * magnitude
    near = np.log1p(magnitude + square / (1 + np.sqrt(square + 1)))
    return _odd(input, np.where(magnitude > _LARGE, np.log(magnitude) + math.log(2), near))


@op(kind="map", rule=rules.floating, ufunc=np.arccosh, domain=(1.0, 10.0), aliases=("arccosh",))
def acosh(input, /):
    """Inverse hyperbolic cosine; NaN below 1."""
    beyond = input - 1
    near = np.log1p(beyond + np.sqrt(beyond * (input + 1)))
    result = np.where(input > _LARGE, np.log(input) + math.log(2), near)
    return np.where(input < 1, constant_like(input, math.nan), result)


@op(kind="map", rule=rules.floating, ufunc=np.arctanh, domain=(-0.9, 0.9), aliases=("arctanh",))
def atanh(input, /):
    """Inverse hyperbolic tangent; NaN beyond -1 and 1."""
    magnitude = abs(input)
    return _odd(input, 0.5 * np.log1p(2 * magnitude / (1 - magnitude)))


@op(kind="map", rule=rules.floating, ufunc=np.arcsin, domain=(-1.0, 1.0), aliases=("arcsin",))
def asin(input, /):
    """Inverse sine in radians; NaN beyond -1 and 1."""
    return np.arctan(input / np.sqrt((1 - input) * (1 + input)))


@op(kind="map", rule=rules.floating, ufunc=np.arccos, domain=(-1.0, 1.0), aliases=("arccos",))
def acos(input, /):
    """Inverse cosine in radians; NaN beyond -1 and 1."""
    return 2 * np.arctan(np.sqrt((1 - input) / (1 + input)))


@op(kind="map", rule=rules.floating, ufunc=np.arctan, aliases=("arctan",))
def atan(input, /):
    """Inverse tangent in radians."""
    return np.arctan(input)


def _is_negative(x):
    """Whether the sign is that of negative numbers, which -0 has too."""
    return (x < 0) | (1 / x < 0)


@op(kind="map", rule=rules.floating, ufunc=np.arctan2, aliases=("arctan2",))
def atan2(input, other, /):
    """Angle of the point (x = other, y = input) in radians, from -pi to pi."""
    y, x = abs(input), abs(other)
    # Two zeros, and two infinities, have no quotient, but an angle.
    quotient = np.where(y == x, np.where(y == 0, y, 1), y / x)
    angle = np.arctan(quotient)
    angle = np.where(_is_negative(other), math.pi - angle, angle)
    return np.where(_is_negative(input), -angle, angle)
