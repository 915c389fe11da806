"""Special functions made of ops, for `npu_tensor.special`: Bessel functions, polynomials, the normal distribution.

They are computed in float64. Results have the dtype of the operands, or the default float dtype for integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import DType, default_dtype, float64
from npu_tensor.errors import ArgumentError
from npu_tensor.functions.arithmetic import result_type
from npu_tensor.functions.register import Operand, composite, tensor_of
from npu_tensor.tensor import Tensor, from_array

FUNCTIONS: Final[dict[str, Callable[..., Tensor]]] = {}
"""Functions that only `npu_tensor.special` has, by name."""


def _operands(*values: Operand) -> tuple[DType, tuple[Tensor, ...]]:
    """Return the dtype of the result, and the operands in float64."""
    dtype = result_type(*values)
    return dtype if dtype.is_floating_point else default_dtype(float), tuple(tensor_of(x).to(float64) for x in values)


def _elementwise(name: str, formula: Callable[..., Tensor], text: str, parameters: int = 1) -> Any:
    """Create a function of one or two tensors from a formula in float64."""

    def one(input: Operand) -> Tensor:
        dtype, operands = _operands(input)
        return formula(*operands).to(dtype)

    def two(input: Operand, other: Operand) -> Tensor:
        dtype, operands = _operands(input, other)
        return formula(*operands).to(dtype)

    function: Any = (one, two)[parameters - 1]
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    FUNCTIONS[name] = function
    return function


# --- the normal distribution and entropies


def _erfcx(x: Tensor) -> Tensor:
    far = (1 - 0.5 / x**2 + 0.75 / x**4) / (x * math.sqrt(math.pi))
    near = x.clamp(max=25)
    return ops.where_op(x > 25, far, (near * near).exp() * near.erfc())


def _log_ndtr(x: Tensor) -> Tensor:
    y = x * math.sqrt(0.5)
    return ops.where_op(x < -1, (_erfcx(-y) / 2).log() - y * y, (-y.erfc() / 2).log1p())


def _ndtri(p: Tensor) -> Tensor:
    return math.sqrt(2) * (2 * p - 1).erfinv()


def _entr(x: Tensor) -> Tensor:
    return ops.where_op(x < 0, -math.inf, -ops.xlogy(x, x))


def _xlog1py(x: Tensor, y: Tensor) -> Tensor:
    return ops.where_op((x == 0) & ~y.isnan(), 0.0, x * y.log1p())


_elementwise("ndtr", lambda x: (x * -math.sqrt(0.5)).erfc() / 2, "Compute the integral of the normal density up to x.")
_elementwise("ndtri", _ndtri, "Compute the inverse of `ndtr`.")
_elementwise("log_ndtr", _log_ndtr, "Compute the logarithm of `ndtr`, also where that is tiny.")
_elementwise("erfcx", _erfcx, "Compute exp(x^2) * erfc(x), also where erfc is tiny.")
_elementwise("entr", _entr, "Compute -x * log(x); 0 for 0 and minus infinity below.")
_elementwise("xlog1py", _xlog1py, "Compute input * log1p(other); 0 where input is 0.", 2)


# --- gamma and zeta

_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_TERMS: Final = 20


def hurwitz_zeta(s: Any, q: Tensor) -> Tensor:
    """Return the sum of (q + k)^-s by the formula of Euler and Maclaurin, for s > 1 and q > -10.

    An integer s that is not a tensor is faster: its small powers are products.
    """
    total = sum(1 / (q + k) ** s for k in range(_TERMS))
    w = q + _TERMS
    power = 1 / w ** (s - 1)
    total = total + power / (s - 1) + power / w / 2
    term = s * power / w / w
    for place, number in enumerate(_BERNOULLI, 1):
        total = total + number / math.factorial(2 * place) * term
        term = term * (s + 2 * place - 1) * (s + 2 * place) / (w * w)
    return ops.where_op((q <= 0) & (q == q.floor()), math.inf, total)


def _zeta(s: Tensor, q: Tensor) -> Tensor:
    return ops.where_op(s == 1, math.inf, ops.where_op(s < 1, math.nan, hurwitz_zeta(s, q)))


_elementwise("zeta", _zeta, "Compute the Hurwitz zeta function, the sum of (other + k)^-input over k >= 0.", 2)


# --- Bessel functions, by the trapezoidal rule where that is exact, and by Hankel's series beyond

_LARGE: Final = 30
_ANGLES: Final = (np.arange(128) + 0.5) * (2 * np.pi / 128)


def _hankel(order: int, count: int = 14) -> list[float]:
    """Return the coefficients of x^-k in Hankel's series."""
    series = [1.0]
    for k in range(1, count):
        series.append(series[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k))
    return series


def _power_sum(coefficients: list[float], x: Tensor) -> Tensor:
    total: Any = 0.0
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return tensor_of(total)


def _scaled_i(order: int, x: Tensor) -> Tensor:
    """Return exp(-|x|) times the modified Bessel function of the first kind."""
    magnitude = x.abs()
    near = magnitude.clamp(max=_LARGE).unsqueeze(-1) * from_array(np.cos(_ANGLES) - 1)
    mean = (near.exp() * from_array(np.cos(order * _ANGLES))).mean(-1)
    far = magnitude.clamp(min=_LARGE)
    series = _power_sum(_hankel(order), -1 / far) / (2 * math.pi * far).sqrt()
    value = ops.where_op(magnitude < _LARGE, mean, series)
    return value * x.sign() if order else value


def _j(order: int, x: Tensor) -> Tensor:
    """Return the Bessel function of the first kind."""
    magnitude = x.abs()
    near = magnitude.clamp(max=_LARGE).unsqueeze(-1) * from_array(np.sin(_ANGLES))
    mean = (from_array(order * _ANGLES) - near).cos().mean(-1)
    far = magnitude.clamp(min=_LARGE)
    terms = [value * (-1) ** (k // 2) for k, value in enumerate(_hankel(order))]
    p, q = _power_sum(terms[::2], far**-2), _power_sum(terms[1::2], far**-2) / far
    phase = far - (order / 2 + 0.25) * math.pi
    series = (2 / (math.pi * far)).sqrt() * (p * phase.cos() - q * phase.sin())
    value = ops.where_op(magnitude < _LARGE, mean, series)
    return value * x.sign() if order else value


def _scaled_k(order: int, x: Tensor) -> Tensor:
    """Return exp(x) times the modified Bessel function of the second kind, an integral over exp(-x cosh t)."""
    t = np.arange(256) / 10
    weights = np.cosh(order * t) * np.where(t == 0, 0.05, 0.1)
    value = ((x.unsqueeze(-1) * from_array(1 - np.cosh(t))).exp() * from_array(weights)).sum(-1)
    return ops.where_op(x > 0, value, ops.where_op(x == 0, math.inf, math.nan))


for _order in (0, 1):
    _kind = f"the modified Bessel function of the first kind and order {_order}"
    _other = f"the modified Bessel function of the second kind and order {_order}"
    _elementwise(f"i{_order}e", lambda x, v=_order: _scaled_i(v, x), f"Compute exp(-|x|) times {_kind}.")
    for _name in (f"i{_order}", f"modified_bessel_i{_order}"):
        _elementwise(_name, lambda x, v=_order: _scaled_i(v, x) * x.abs().exp(), f"Compute {_kind}.")
    _elementwise(f"bessel_j{_order}", lambda x, v=_order: _j(v, x), f"Compute the Bessel function of order {_order}.")
    _elementwise(
        f"scaled_modified_bessel_k{_order}", lambda x, v=_order: _scaled_k(v, x), f"Compute exp(x) times {_other}."
    )
    _elementwise(f"modified_bessel_k{_order}", lambda x, v=_order: _scaled_k(v, x) * (-x).exp(), f"Compute {_other}.")
_elementwise("spherical_bessel_j0", lambda x: ops.sinc(x / math.pi), "Compute sin(x) / x.")


# --- orthogonal polynomials

Step = Callable[[int, Tensor, Tensor, Tensor], Tensor]


def _polynomial(name: str, first: Callable[[Tensor], Tensor], step: Step, shifted: bool = False) -> None:
    """Create the polynomials of all degrees from the first one and the step from two to the next."""

    def polynomial(input: Operand, n: Operand) -> Tensor:
        dtype, (x, degrees) = _operands(input, n)
        x, degrees = 2 * x - 1 if shifted else x, degrees.trunc()
        result = ops.where_op(degrees == 0, 1.0, 0.0) + x * 0
        before, present = x * 0 + 1, first(x)
        for degree in range(1, int(degrees.max()) + 1 if degrees.numel() else 1):
            result = ops.where_op(degrees == degree, present, result)
            before, present = present, step(degree, x, present, before)
        return result.to(dtype)

    polynomial.__name__ = polynomial.__qualname__ = name
    polynomial.__doc__ = "Compute the polynomial of degree n, which is read; 0 for negative n."
    FUNCTIONS[name] = polynomial


_CHEBYSHEV: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "t": lambda x: x,
    "u": lambda x: 2 * x,
    "v": lambda x: 2 * x - 1,
    "w": lambda x: 2 * x + 1,
}
for _name, _first in _CHEBYSHEV.items():
    for _shifted in (False, True):
        _polynomial(
            f"{'shifted_' * _shifted}chebyshev_polynomial_{_name}",
            _first,
            lambda k, x, p, before: 2 * x * p - before,
            _shifted,
        )
_polynomial("hermite_polynomial_h", lambda x: 2 * x, lambda k, x, p, before: 2 * x * p - 2 * k * before)
_polynomial("hermite_polynomial_he", lambda x: x, lambda k, x, p, before: x * p - k * before)
_polynomial(
    "laguerre_polynomial_l", lambda x: 1 - x, lambda k, x, p, before: ((2 * k + 1 - x) * p - k * before) / (k + 1)
)
_polynomial("legendre_polynomial_p", lambda x: x, lambda k, x, p, before: ((2 * k + 1) * x * p - k * before) / (k + 1))


@composite(method=False)
def polygamma(n: int, input: Tensor) -> Tensor:
    """Compute the n-th derivative of `digamma`.

    >>> nt.polygamma(1, nt.tensor([1.0, 2.0]))
    """
    if n < 0:
        raise ArgumentError(f"n must not be negative: {n}")
    if n == 0:
        return input.digamma()
    dtype, (x,) = _operands(input)
    if n > 1:
        factor = math.factorial(n) if n % 2 else -math.factorial(n)
        return (factor * hurwitz_zeta(n + 1, x)).to(dtype)
    mirrored = ops.where_op(x < 0.5, 1 - x, x)
    value = hurwitz_zeta(2, mirrored)
    return ops.where_op(x < 0.5, (math.pi / (x * math.pi).sin()) ** 2 - value, value).to(dtype)


@composite("polygamma", function=False)
def _polygamma_method(self: Tensor, n: int) -> Tensor:
    """Compute the n-th derivative of `digamma`."""
    return polygamma(n, self)


@composite()
def i0(input: Tensor) -> Tensor:
    """Compute the modified Bessel function of the first kind and order 0."""
    return FUNCTIONS["i0"](input)
