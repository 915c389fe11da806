"""What PyTorch programs say about gradients, which only functions have here, and PyTorch's other spellings."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from npu_tensor.dtypes import as_dtype, bool_, float32
from npu_tensor.errors import ArgumentError, DTypeError
from npu_tensor.functions.register import LEAVE_GRADIENTS, composite
from npu_tensor.graph.history import constants
from npu_tensor.ops import registry
from npu_tensor.tensor import Tensor

__all__: list[str] = []

# --- gradients


@composite(method=False)
def no_grad(function: Any = None) -> Any:
    """A context and decorator: what is recorded inside counts as constant in a function that is differentiated."""
    return constants() if function is None else constants()(function)


@composite(method=False)
def inference_mode(mode: Any = True) -> Any:
    """As no_grad. With False it changes nothing."""
    if callable(mode):
        return constants()(mode)
    return constants() if mode else nullcontext()


@composite("requires_grad_", function=False)
def leave_without_gradients(input: Tensor, requires_grad: bool = True) -> Tensor:
    """The tensor itself if requires_grad is False; ArgumentError otherwise."""
    if requires_grad:
        raise ArgumentError(LEAVE_GRADIENTS)
    return input


# --- other names

registry.publish("nelement", registry.Public(None, Tensor.numel))


@composite("type", function=False)
def type_of(input: Tensor, dtype: Any) -> Tensor:
    """As another dtype."""
    return input.to(dtype)


# --- limits of dtypes


class FloatLimits(NamedTuple):
    """The limits of a float dtype as Python numbers; `tiny` and `smallest_normal` are the same number."""

    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    smallest_normal: float
    resolution: float
    dtype: str


class IntegerLimits(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: str


@composite(method=False)
def finfo(type: Any = None) -> FloatLimits:
    """The limits of a float dtype, float32 unless given: eps is the distance from 1 to the next number."""
    dtype = as_dtype(type or float32)
    if not dtype.is_floating_point:
        raise DTypeError(f"takes float dtypes, not {dtype.name}; use iinfo")
    limits = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    tiny = float(limits.smallest_normal)
    numbers = (float(limits.eps), float(limits.max), float(limits.min), tiny, tiny, float(limits.resolution))
    return FloatLimits(dtype.itemsize * 8, *numbers, dtype.name)


@composite(method=False)
def iinfo(type: Any) -> IntegerLimits:
    """Bits, max and min of an integer dtype."""
    dtype = as_dtype(type)
    if dtype.is_floating_point or dtype is bool_:
        raise DTypeError(f"takes integer dtypes, not {dtype.name}")
    limits = np.iinfo(dtype.numpy)
    return IntegerLimits(limits.bits, limits.max, limits.min, dtype.name)
