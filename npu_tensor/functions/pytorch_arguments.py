"""What PyTorch programs say about gradients, and PyTorch's other spellings."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from npu_tensor.dtypes import DType, as_dtype, bool_, default_dtype, set_default_float, uint8
from npu_tensor.errors import DTypeError
from npu_tensor.functions.register import composite
from npu_tensor.graph.history import GradMode, grad_mode
from npu_tensor.ops import registry
from npu_tensor.planner.selection import before_reset
from npu_tensor.tensor import Tensor

__all__: list[str] = []

# --- gradients


@composite(method=False)
def no_grad(function: Any = None) -> Any:
    """A context and decorator: gradients do not pass through what is recorded inside."""
    return GradMode(False) if function is None else GradMode(False)(function)


@composite(method=False)
def enable_grad(function: Any = None) -> Any:
    """A context and decorator: what is recorded inside counts again, as outside of `no_grad`."""
    return GradMode(True) if function is None else GradMode(True)(function)


@composite(method=False)
def inference_mode(mode: Any = True) -> Any:
    """As no_grad. With False it changes nothing."""
    return no_grad(mode) if callable(mode) else GradMode(grad_mode.enabled and not mode)


class _Entered(GradMode):
    """A mode that holds at once, and is a context besides. As a decorator it holds in the function alone."""

    def __init__(self, enabled: bool) -> None:
        super().__init__(enabled)
        super().__enter__()

    def __enter__(self) -> None:
        pass

    def __call__(self, func: Any) -> Any:
        super().__exit__()
        return super().__call__(func)


@composite(method=False)
def set_grad_enabled(mode: bool) -> Any:
    """Switch gradients on or off for this thread from now on, in a with block or in a decorated function.

    >>> nt.set_grad_enabled(True)
    """
    return _Entered(mode)


@composite(method=False)
def is_grad_enabled() -> bool:
    """Whether gradients pass through what this thread records."""
    return grad_mode.enabled


@composite(function=False)
def backward(input: Tensor, gradient: Tensor | None = None, retain_graph: bool = False) -> None:
    """Add the gradients of this tensor to `grad` of the leaves it was computed from; they are recorded, not computed.

    gradient: that of this tensor, with its shape; 1 for a single element. retain_graph: whether there will be another
    backward pass through the same graph. GradientError for a tensor that requires no gradient.
    """
    importlib.import_module("npu_tensor.autograd").backward(input, gradient, retain_graph)


# --- other names

registry.publish("nelement", registry.Public(None, Tensor.numel))


@composite("type", function=False)
def type_of(input: Tensor, dtype: Any = None) -> Any:
    """Convert to a dtype. Without one, return the name of the tensor's dtype."""
    return str(input.dtype) if dtype is None else input.to(dtype)


@composite(method=False)
def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a float type."""
    return input.is_floating_point()


@composite()
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return input.dtype not in (uint8, bool_)


composite("detach", method=False, view=True)(Tensor.detach)
registry.publish("ndimension", registry.Public(None, Tensor.dim))


# --- the default dtype


@composite(method=False)
def get_default_dtype() -> DType:
    """The dtype that Python floats become, float32 unless `set_default_dtype` has changed it."""
    return default_dtype(float)


@composite(method=False)
def set_default_dtype(d: Any) -> None:
    """Let Python floats, `zeros` and the like, and quotients of integers, have the dtype d from now on.

    Holds for the whole process. Functions wrapped by `jit` are captured again. Raises DTypeError for dtypes that are
    not floating point.

    >>> nt.set_default_dtype(nt.float32)
    """
    dtype = as_dtype(d)
    if not dtype.is_floating_point:
        raise DTypeError(f"the default is a float dtype, not {dtype.name}")
    set_default_float(dtype)
    for op in registry.OPS.values():
        op.calls.clear()
    for forget in before_reset:
        forget()


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
    dtype = as_dtype(type or default_dtype(float))
    if not dtype.is_floating_point:
        raise DTypeError(f"takes float dtypes, not {dtype.name}{'; use iinfo' if dtype.is_integer else ''}")
    limits = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    tiny = float(limits.smallest_normal)
    numbers = (float(limits.eps), float(limits.max), float(limits.min), tiny, tiny, float(limits.resolution))
    return FloatLimits(dtype.itemsize * 8, *numbers, dtype.name)


@composite(method=False)
def iinfo(type: Any) -> IntegerLimits:
    """Bits, max and min of an integer dtype.

    >>> nt.iinfo(nt.int8)
    """
    dtype = as_dtype(type)
    if not dtype.is_integer:
        raise DTypeError(f"takes integer dtypes, not {dtype.name}")
    limits = np.iinfo(dtype.numpy)
    return IntegerLimits(limits.bits, limits.max, limits.min, dtype.name)
