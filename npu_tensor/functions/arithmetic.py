"""Powers, quotients, limits, comparison with tolerance and conversions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    bool_,
    default_dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote,
    promote_pair,
    uint8,
)
from npu_tensor.errors import ArgumentError, DTypeError, ShapeError
from npu_tensor.functions.register import Operand, check_device, composite, fitting, wide
from npu_tensor.functions.shape import cat
from npu_tensor.functions.templated import templated
from npu_tensor.ops import registry
from npu_tensor.ops.rules import dimension
from npu_tensor.tensor import ACCEPTED, Tensor, refused


def result_type(*operands: Operand | np.generic) -> DType:
    """Return the dtype that these operands promote to."""
    tensors = [value for value in operands if isinstance(value, (Tensor, np.ndarray))]
    plain = (value.item() if isinstance(value, np.generic) else value for value in operands)
    numbers = [type(value) for value in plain if isinstance(value, (bool, int, float))]
    return promote(((as_dtype(value.dtype), value.ndim) for value in tensors), numbers)


# --- powers

# Exponents with a cheaper exact form. PyTorch uses the same forms, so (-inf) ** 0.5 is NaN in both.
_EXPONENTS: dict[float, Callable[[Tensor], Tensor]] = {
    -1: ops.reciprocal,
    -0.5: ops.rsqrt,
    0.5: ops.sqrt,
    1: lambda x: x.clone(),
    2: ops.square,
    3: ops.cube,
}


@composite("pow", in_place=True)
def power(input: Operand | np.generic, exponent: Operand | np.generic) -> Tensor:
    """Raise input to the power of exponent. Two integers give an integer.

    Raises:
        ArgumentError: Integers with a negative exponent given as a number.
        DTypeError: Both operands are bool.
    """
    base: Operand = input.item() if isinstance(input, np.generic) else input
    exponent = exponent.item() if isinstance(exponent, np.generic) else exponent
    dtype = result_type(base, exponent)
    if dtype is bool_:
        raise DTypeError("not defined for bool; convert with .to(...)")
    short = _EXPONENTS.get(exponent) if isinstance(exponent, (int, float)) else None
    if dtype.is_integer:
        if isinstance(exponent, int) and exponent < 0:
            raise ArgumentError(f"integers cannot be raised to the negative power {exponent}")
        if short is None or not isinstance(base, Tensor):
            return ops.pow_integer(base, exponent)
    if short is None or not isinstance(base, Tensor):
        return ops.pow_op(base, exponent)
    return short(base if base.dtype is dtype else base.to(dtype))


def _publish_operator(name: str, function: Callable[[Any, Any], Tensor]) -> None:
    def forward(self: Tensor, other: Any) -> Any:
        return function(self, other) if isinstance(other, ACCEPTED) else refused(other)

    def reflected(self: Tensor, other: Any) -> Any:
        return function(other, self) if isinstance(other, ACCEPTED) else refused(other)

    forward.__doc__ = f"Apply `{function.__name__}` as an operator."
    registry.publish_operator(name, forward, reflected)


_publish_operator("pow", power)


# --- division with rounding


def _quotient(input: Operand, other: Operand, floats: Callable[..., Tensor], integers: Callable[..., Tensor]) -> Tensor:
    dtype = result_type(input, other)
    if dtype is bool_:
        raise DTypeError("not defined for bool; use logical ops, or convert with .to(...)")
    return (floats if dtype.is_floating_point else integers)(input, other)


@composite(in_place=True)
def floor_divide(input: Operand, other: Operand) -> Tensor:
    """Divide and round down, also infinite numbers. Two integers give an integer.

    Raises:
        ZeroDivisionError: A divisor of integers is 0. It is raised when the op runs.
        DTypeError: Both operands are bool.
    """
    return _quotient(input, other, ops.floor_divide_float, ops.floor_divide)


@composite(in_place=True)
def remainder(input: Operand, other: Operand) -> Tensor:
    """Return the remainder of floor division, with the sign of the divisor; a zero has the sign of input.

    Raises:
        ZeroDivisionError: A divisor of integers is 0. It is raised when the op runs.
        DTypeError: Both operands are bool.
    """
    return _quotient(input, other, ops.remainder_float, ops.remainder)


@composite(in_place=True)
def fmod(input: Operand, other: Operand) -> Tensor:
    """Return the remainder of division rounded toward zero, with the sign of input.

    Raises:
        ZeroDivisionError: A divisor of integers is 0. It is raised when the op runs.
        DTypeError: Both operands are bool.
    """
    return _quotient(input, other, ops.fmod_float, ops.fmod)


_publish_operator("floordiv", floor_divide)
_publish_operator("mod", remainder)


@composite(in_place=True)
def true_divide(input: Operand, other: Operand) -> Tensor:
    """Return input / other; integers give float32."""
    return ops.div_op(input, other)


@composite(aliases=("divide",), in_place=True)
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """Return input / other.

    Args:
        input: Dividend.
        other: Divisor; the shapes broadcast.
        rounding_mode: None (true division), "floor" or "trunc"; the last two keep integers.

    Raises:
        ArgumentError: `rounding_mode` has another value.
    """
    if rounding_mode is None:
        return ops.div_op(input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode != "trunc":
        raise ArgumentError(f"rounding_mode must be None, 'floor' or 'trunc', not {rounding_mode!r}")
    dtype = result_type(input, other)
    if dtype.is_floating_point:  # The fraction is dropped before the quotient is rounded to 16 bits.
        register = as_dtype(dtype.register)
        input, other = (each.to(register) if isinstance(each, Tensor) else each for each in (input, other))
        quotient = ops.div_op(input, other).trunc()
        return quotient.to(dtype)
    return floor_divide(ops.sub(input, fmod(input, other)), other)


@composite()
def rsub(input: Operand, other: Operand, *, alpha: float = 1) -> Tensor:
    """Return other - alpha * input."""
    return ops.sub(other, input, alpha=alpha)


@composite()
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Subtract from each element along dim the one before it. Of bool, return True where they differ.

    Args:
        n: Number of times this is repeated; 0 returns `input`.
        prepend: Elements to put before `input` along dim first.
        append: Elements to put after `input` along dim first.

    Raises:
        ArgumentError: `n` is negative.
        ShapeError: `input` has no dimensions.
    """
    if n < 0:
        raise ArgumentError(f"n must not be negative: {n}")
    if not input.ndim:
        raise ShapeError("a zero-dimensional tensor has no neighbours")
    dim = dimension(dim, input.ndim)
    if n and (prepend is not None or append is not None):
        input = cat([part for part in (prepend, input, append) if part is not None], dim)
    for _ in range(n):
        steps = max(input.shape[dim] - 1, 0)
        after, before = input.narrow(dim, input.shape[dim] - steps, steps), input.narrow(dim, 0, steps)
        input = after != before if input.dtype is bool_ else after - before
    return input.clone()


def _add_scaled(
    combine: Callable[[Tensor, Tensor], Tensor], input: Tensor, tensor1: Tensor, tensor2: Tensor, value: float
) -> Tensor:
    """Return input + combine(value * tensor1, tensor2), rounded once."""
    dtype = result_type(input, tensor1, tensor2)
    register = as_dtype(dtype.register) if dtype.is_floating_point else dtype
    scaled = tensor1.to(register) if value == 1 else tensor1.to(register) * value
    return (input.to(register) + combine(scaled, tensor2.to(register))).to(dtype)


@composite(in_place=True)
@templated
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """Return input + value * tensor1 * tensor2.

    The computation uses the promoted dtype of all three, and float32 for 16-bit floats.
    """
    return _add_scaled(operator.mul, input, tensor1, tensor2, value)


@composite(in_place=True)
@templated
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """Return input + value * tensor1 / tensor2.

    The computation uses the promoted dtype of all three, and float32 for 16-bit floats.

    Raises:
        DTypeError: Neither `tensor1` nor `tensor2` is floating point.
    """
    if not (tensor1.is_floating_point() or tensor2.is_floating_point()):
        names = f"{tensor1.dtype.name} and {tensor2.dtype.name}"
        raise DTypeError(f"needs floats, not {names}; convert with .to(npu_tensor.float32)")
    return _add_scaled(operator.truediv, input, tensor1, tensor2, value)


@composite(aliases=("clip",), in_place=True, ggml="CLAMP")
def clamp(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Limit input to [min, max]. NaN stays NaN; max wins where min > max.

    Args:
        min: Lower limit, a number or a tensor; None for no limit.
        max: Upper limit, a number or a tensor; None for no limit.

    Raises:
        ArgumentError: Both limits are None, or an integer dtype cannot hold one.

    >>> nt.clamp(nt.tensor([-2.0, 0.5, 3.0]), min=0.0, max=1.0)
    """
    if min is None and max is None:
        raise ArgumentError("needs min or max")
    limits = [limit for limit in (min, max) if limit is not None]
    dtype = result_type(input, *limits)
    input = input if dtype is input.dtype else input.to(dtype)
    if not any(isinstance(limit, (Tensor, np.ndarray)) for limit in limits):
        numbers: list[Any] = [min, max]
        if dtype.is_integer:
            numbers = [None if limit is None else fitting(limit, dtype) for limit in numbers]
        return ops.clamp_op(input, *numbers)
    if min is not None:
        input = ops.maximum(input, min)
    return input if max is None else ops.minimum(input, max)


@composite(in_place=True)
def clamp_min(input: Tensor, min: Operand) -> Tensor:
    """Return the larger of input and min."""
    return clamp(input, min=min)


@composite(in_place=True)
def clamp_max(input: Tensor, max: Operand) -> Tensor:
    """Return the smaller of input and max."""
    return clamp(input, max=max)


@composite("round", in_place=True)
def rounded(input: Tensor, decimals: int = 0) -> Tensor:
    """Round to the nearest multiple of 10 ** -decimals, halves to even."""
    if decimals == 0:
        return ops.round_op(input)
    factor = 10.0 ** abs(decimals)
    moved = (wide(input) * factor if decimals > 0 else wide(input) / factor).round()
    return (moved / factor if decimals > 0 else moved * factor).to(input.dtype)


@composite("__round__", function=False)
def _round_operator(self: Tensor, digits: int | None = None) -> Tensor:
    return rounded(self, decimals=digits or 0)


@composite("__pos__", function=False)
@composite()
def positive(input: Tensor) -> Tensor:
    """Return input itself.

    Raises:
        DTypeError: `input` is bool.
    """
    if input.dtype is bool_:
        raise DTypeError("+ is not defined for bool; convert with .to(...)")
    return input


@composite(in_place=True)
def nan_to_num(input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Replace NaN and infinities.

    Args:
        nan: Replacement of NaN.
        posinf: Replacement of infinity; None for the largest number of the dtype.
        neginf: Replacement of minus infinity; None for the lowest number of the dtype.
    """
    if not input.is_floating_point():
        return input.clone()
    largest = float(ml_dtypes.finfo(input.dtype.numpy).max)  # type: ignore[no-untyped-call]
    high = ops.where_op(input == math.inf, largest if posinf is None else float(posinf), input)
    both = ops.where_op(input == -math.inf, -largest if neginf is None else float(neginf), high)
    return ops.where_op(input.isnan(), float(nan), both)


@composite()
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Return True where |input - other| <= atol + rtol * |other|. Integers and bool are compared in float32.

    Args:
        rtol: Relative tolerance.
        atol: Absolute tolerance.
        equal_nan: True to treat two NaN as close.
    """
    input, other = (each if each.is_floating_point() else each.to(default_dtype(float)) for each in (input, other))
    near = (input - other).abs() <= other.abs() * rtol + atol
    close = (input == other) | (near & other.isfinite())
    return close | (input.isnan() & other.isnan()) if equal_nan else close


@composite()
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Return True if all elements are close, as defined by `isclose`. Reads the value."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@composite()
def equal(input: Tensor, other: Tensor) -> bool:
    """Return True if shape and all elements are equal. Reads the value."""
    return input.shape == other.shape and bool((input == other).all())


@composite()
def float_power(input: Operand, exponent: Operand) -> Tensor:
    """Raise input to the power of exponent, in float64."""
    base, power_of = (each.to(float64) if isinstance(each, Tensor) else each for each in (input, exponent))
    return power(base, power_of).to(float64)


class MantissaExponent(NamedTuple):
    """Factors of input = mantissa * 2^exponent."""

    mantissa: Tensor
    exponent: Tensor


@composite()
def frexp(input: Tensor) -> MantissaExponent:
    """Split floats into a mantissa and an int32 power of two.

    Returns:
        `mantissa`, 0 or with a magnitude in [0.5, 1), and `exponent`, both of the shape of `input`.
    """
    return MantissaExponent(ops.frexp_part(input, 0), ops.frexp_part(input, 1, "int32"))


@composite(in_place=True)
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """Return the logarithm of the multivariate gamma function of p dimensions.

    >>> nt.mvlgamma(nt.tensor([3.0, 4.0]), 2)
    """
    terms = [ops.lgamma(input - index / 2) for index in range(p)]
    return sum(terms, start=input * 0 + p * (p - 1) / 4 * math.log(math.pi))


@composite()
def is_nonzero(input: Tensor) -> bool:
    """Return True if the only element is not zero. Reads the value.

    Raises:
        ShapeError: `input` has several elements.

    >>> nt.is_nonzero(nt.tensor([2]))
    """
    return bool(input.item())


# --- dtypes of results


@composite("result_type", method=False)
def result_type_of(tensor1: Operand, tensor2: Operand) -> DType:
    """Return the dtype that two operands promote to.

    Operands without dimensions count less than others, and Python numbers least.
    """
    return result_type(tensor1, tensor2)


@composite(method=False)
def promote_types(type1: Any, type2: Any) -> DType:
    """Return the dtype that tensors of these two dtypes promote to.

    >>> nt.promote_types(nt.int32, nt.float16)
    """
    return promote_pair(as_dtype(type1), as_dtype(type2))


@composite(method=False)
def can_cast(from_: Any, to: Any) -> bool:
    """Return True if an in-place op may store elements of one dtype in another.

    Bool may be stored in integers, and both in floats.

    >>> nt.can_cast(nt.int32, nt.float32)
    """
    return as_dtype(from_).category <= as_dtype(to).category


# --- conversion


@composite(function=False)
def to(
    input: Tensor,
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Convert to another dtype.

    The arguments are (dtype), (device, dtype), or another tensor for its dtype. The tensor itself is returned if
    nothing changes. A device, "cpu" or one in use, is accepted and changes nothing: `set_default_device` chooses the
    devices that run ops. A memory format changes nothing either, as the planner chooses the order of images.

    Raises:
        DeviceError: The device is unknown or not in use.
    """
    for argument in args:
        if isinstance(argument, Tensor):
            dtype = argument.dtype
        elif isinstance(argument, str) and not _names_dtype(argument):
            check_device(argument, "is neither a dtype nor a device")
        elif isinstance(argument, bool):  # PyTorch's positional non_blocking
            continue
        else:
            dtype = argument
    check_device(device)
    target = input.dtype if dtype is None else as_dtype(dtype)
    if target is not input.dtype:
        return ops.convert(input, target)
    return input.clone() if copy else input


_CASTS = {
    "float": float32,
    "double": float64,
    "half": float16,
    "bfloat16": bfloat16,
    "int": int32,
    "long": int64,
    "short": int16,
    "char": int8,
    "byte": uint8,
    "bool": bool_,
}


def _names_dtype(name: str) -> bool:
    try:
        as_dtype(name)
    except DTypeError:
        return False
    return True


def _cast_method(name: str, dtype: DType) -> None:
    def method(input: Tensor, memory_format: Any = None) -> Tensor:
        return to(input, dtype)

    method.__name__ = name
    method.__doc__ = f"Convert to {dtype.name}."
    composite(name, function=False)(method)


for _name, _dtype in _CASTS.items():
    _cast_method(_name, _dtype)


@composite(function=False)
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """Convert to the dtype of other."""
    return to(input, other.dtype)


@composite(ggml="DUP, CONT")
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """Return a new tensor with the same value, whatever the memory format. Values never change: nothing is copied."""
    return input.reshape(input.shape)
