"""Powers, limits, conversions, and the in-place forms, which make the handle name a new value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npu_tensor.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote,
    uint8,
)
from npu_tensor.errors import ArgumentError, DTypeError
from npu_tensor.functional.creation import check_device, zeros_like
from npu_tensor.functional.register import Operand, composite, register, tensor_of
from npu_tensor.ops import OPS
from npu_tensor.tensor import FUNCTIONS, RECORDERS, Tensor

__all__ = ["IN_PLACE", "result_type"]

_ACCEPTED = (Tensor, np.ndarray, np.generic, float, int)


def result_type(*operands: Operand) -> DType:
    """The dtype that these operands promote to."""
    tensors = [value for value in operands if isinstance(value, (Tensor, np.ndarray))]
    numbers = [type(value) for value in operands if isinstance(value, (bool, int, float))]
    return promote(((as_dtype(value.dtype), value.ndim) for value in tensors), numbers)


# --- powers

# Exponents with a cheaper exact form. PyTorch takes the same ways, so that (-inf) ** 0.5 is NaN in both.
_EXPONENTS: dict[float, str] = {2: "square", 3: "cube", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}


@composite("pow")
def power(input: Operand, exponent: Operand) -> Tensor:
    """input to the power of exponent. Two integers give an integer; a negative exponent number is an error then."""
    if isinstance(input, np.generic):
        input = input.item()
    if isinstance(exponent, np.generic):
        exponent = exponent.item()
    dtype = result_type(input, exponent)
    if dtype is bool_:
        raise DTypeError("not defined for bool; convert with .to(...)")
    is_number = isinstance(exponent, (int, float))
    if dtype.category == 1:
        if is_number and exponent < 0:
            raise ArgumentError(f"integers cannot be taken to the negative power {exponent}")
        if is_number and exponent in (2, 3) and result_type(input) is dtype:
            return RECORDERS[_EXPONENTS[exponent]](input)
        return RECORDERS["pow_integer"](input, exponent)
    if is_number and exponent in _EXPONENTS and isinstance(input, Tensor):
        return RECORDERS[_EXPONENTS[exponent]](input if input.dtype is dtype else input.to(dtype))
    return RECORDERS["pow"](input, exponent)


def _pow(self: Tensor, exponent: Any) -> Any:
    return power(self, exponent) if isinstance(exponent, _ACCEPTED) else NotImplemented


def _rpow(self: Tensor, base: Any) -> Any:
    return power(base, self) if isinstance(base, _ACCEPTED) else NotImplemented


def _ipow(self: Tensor, exponent: Any) -> Any:
    return rebind(self, power(self, exponent)) if isinstance(exponent, _ACCEPTED) else NotImplemented


Tensor.__pow__ = _pow  # type: ignore[method-assign]
Tensor.__rpow__ = _rpow  # type: ignore[method-assign]
Tensor.__ipow__ = _ipow  # type: ignore[method-assign]


@composite()
def true_divide(input: Operand, other: Operand) -> Tensor:
    """input / other; integers give float32."""
    return RECORDERS["div"](input, other)


@composite()
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """input / other. rounding_mode: None (true division), "floor" or "trunc"; both keep integers."""
    if rounding_mode is None:
        return RECORDERS["div"](input, other)
    if rounding_mode == "floor":
        return RECORDERS["floor_divide"](input, other)
    if rounding_mode != "trunc":
        raise ArgumentError(f"rounding_mode must be None, 'floor' or 'trunc', not {rounding_mode!r}")
    if result_type(input, other).category == 2:
        return RECORDERS["div"](input, other).trunc()
    return RECORDERS["floor_divide"](RECORDERS["sub"](input, RECORDERS["fmod"](input, other)), other)


# Other names that PyTorch has for the same functions.
for _alias, _name in {
    "divide": "div",
    "multiply": "mul",
    "subtract": "sub",
    "negative": "neg",
    "absolute": "abs",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
}.items():
    register(_alias, FUNCTIONS[_name])


@composite()
def rsub(input: Operand, other: Operand, *, alpha: float = 1) -> Tensor:
    """other - alpha * input."""
    return RECORDERS["sub"](other, input, alpha=alpha)


@composite()
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
    product = tensor1 * tensor2
    return input + (product if value == 1 else product * value)


@composite()
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """input + value * tensor1 / tensor2."""
    quotient = tensor1 / tensor2
    return input + (quotient if value == 1 else quotient * value)


@composite(ggml="CLAMP")
def clamp(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """input limited to [min, max], which may be tensors; NaN stays NaN; max wins where min > max."""
    if min is None and max is None:
        raise ArgumentError("needs min or max")
    limits = [limit for limit in (min, max) if limit is not None]
    if not any(isinstance(limit, (Tensor, np.ndarray)) for limit in limits):
        dtype = result_type(input, *limits)
        return RECORDERS["clamp"](input if dtype is input.dtype else input.to(dtype), min, max)
    if min is not None:
        input = RECORDERS["maximum"](input, min)
    return input if max is None else RECORDERS["minimum"](input, max)


register("clip", clamp)


@composite()
def clamp_min(input: Tensor, min: Operand) -> Tensor:
    """The larger of input and min."""
    return clamp(input, min=min)


@composite()
def clamp_max(input: Tensor, max: Operand) -> Tensor:
    """The smaller of input and max."""
    return clamp(input, max=max)


@composite("round")
def rounded(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest multiple of 10 ** -decimals, halves to even."""
    if decimals == 0:
        return RECORDERS["round"](input)
    factor = 10.0 ** abs(decimals)
    wide = input.float() if input.dtype in (bfloat16, float16) else input
    moved = (wide * factor if decimals > 0 else wide / factor).round()
    return (moved / factor if decimals > 0 else moved * factor).to(input.dtype)


@composite()
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Whether |input - other| <= atol + rtol * |other|, element by element."""
    near = (input - other).abs() <= other.abs() * rtol + atol
    close = (input == other) | (near & other.isfinite())
    return close | (input.isnan() & other.isnan()) if equal_nan else close


@composite()
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close. Reads the value."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@composite()
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shape and all elements are equal. Reads the value."""
    return input.shape == other.shape and bool((input == other).all())


# --- conversion


@composite(function=False)
def to(input: Tensor, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False) -> Tensor:
    """As another dtype or on another device: to(dtype), to(device), to(device, dtype) or to(other).

    Returns the tensor itself where nothing changes. Raises DeviceError for any device but "cpu".
    """
    for argument in args:
        if isinstance(argument, Tensor):
            dtype, device = argument.dtype, argument.device
        elif isinstance(argument, str) and argument.partition(":")[0] not in _DTYPE_NAMES:
            device = argument
        elif isinstance(argument, bool):  # PyTorch's positional non_blocking
            continue
        else:
            dtype = argument
    check_device(device)
    target = input.dtype if dtype is None else as_dtype(dtype)
    if target is not input.dtype:
        return RECORDERS["convert"](input, target)
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
_DTYPE_NAMES = {name for dtype in _CASTS.values() for name in (dtype.name, dtype.short)}


def _cast_method(name: str, dtype: DType) -> None:
    def method(input: Tensor) -> Tensor:
        return to(input, dtype)

    method.__name__ = name
    method.__doc__ = f"As {dtype.name}."
    composite(name, function=False)(method)


for _name, _dtype in _CASTS.items():
    _cast_method(_name, _dtype)


@composite(function=False)
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """As the dtype of other."""
    return to(input, other.dtype)


@composite()
def clone(input: Tensor) -> Tensor:
    """Another handle on the same value. As values never change, nothing is copied."""
    return input.reshape(input.shape)


# --- in place


def rebind(self: Tensor, result: Tensor) -> Tensor:
    """Make `self` name the value of `result`, converted to its dtype; the shape must be the same."""
    return self._assign(result)


def _register_in_place(name: str, function: Callable[..., Tensor]) -> None:
    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return rebind(input, function(input, *args, **kwargs))

    method.__name__ = f"{name}_"
    method.__doc__ = f"In-place form of `{name}`: the handle names the result, other handles keep the old value."
    composite(f"{name}_", function=False)(method)


IN_PLACE = tuple(
    name
    for name, function in FUNCTIONS.items()
    if name in ("pow", "clamp", "clip", "clamp_min", "clamp_max", "masked_fill", "floor_divide", "remainder", "fmod")
    or name in ("tril", "triu", "round", "div", "addcmul", "addcdiv")
    or (name in OPS and OPS[name].kind == "map" and name != "where")
)
for _name in IN_PLACE:
    _register_in_place(_name, FUNCTIONS[_name])


@composite("zero_", function=False)
def zero_in_place(input: Tensor) -> Tensor:
    """Zeros in place of the value."""
    return rebind(input, zeros_like(input))


@composite("fill_", function=False)
def fill_in_place(input: Tensor, value: float | Tensor) -> Tensor:
    """One number in place of the value."""
    number = tensor_of(value).to(input.dtype)
    return rebind(input, number.reshape(()).expand(input.shape))


@composite("copy_", function=False)
def copy_in_place(input: Tensor, src: Operand, non_blocking: bool = False) -> Tensor:
    """The value of src, broadcast and converted, in place of the own one."""
    return rebind(input, tensor_of(src).to(input.dtype).expand(input.shape))
