"""Public functions made of several ops: published by name and as methods, with errors that name them."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from npu_tensor._util.user_warnings import user_line
from npu_tensor.dtypes import DType, bool_, default_dtype, float32
from npu_tensor.errors import (
    ArgumentError,
    CaptureError,
    DeviceError,
    DTypeError,
    NpuTensorError,
    OutOfMemoryError,
    reworded,
)
from npu_tensor.graph.nodes import located
from npu_tensor.observe.printing import brief
from npu_tensor.ops import registry
from npu_tensor.ops.documentation import described
from npu_tensor.ops.recorders import KEYWORDS, SYNONYMS, given_twice
from npu_tensor.planner.selection import in_use
from npu_tensor.tensor import Tensor, from_array, into

P = ParamSpec("P")
R = TypeVar("R")

Operand = Tensor | np.ndarray[Any, Any] | float
"""Accepted in place of a tensor by every op."""

_WITHOUT_EFFECT = ("layout", "memory_format", "pin_memory")
"""PyTorch's keywords for the memory of new tensors. Tensors are dense and row-major here."""

_REQUIRES_GRAD = inspect.Parameter("requires_grad", inspect.Parameter.KEYWORD_ONLY, default=False, annotation="bool")


def composite(
    name: str = "",
    *,
    function: bool = True,
    method: bool = True,
    aliases: tuple[str, ...] = (),
    in_place: bool = False,
    creates: bool = False,
    ggml: str = "",
    view: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Publish the decorated function as npu_tensor.<name> and as a method of Tensor.

    Errors it raises gain its name, its operands and the user's line. As in PyTorch, `out=` names the tensor that a
    result is written to.

    Args:
        name: Public name; by default the function's own without trailing underscores.
        function: True if there is a function npu_tensor.<name>.
        method: True if there is a method.
        aliases: Further public names.
        in_place: True if there is also a method <name>_ that writes to its tensor.
        creates: True if it creates tensors. It then also accepts PyTorch's `requires_grad`, and `device` is checked.
        ggml: GGML's name.
        view: True if its results share memory with its operands in PyTorch. Results of other functions own their
            memory even if a view was used inside.
    """

    def decorate(body: Callable[P, R]) -> Callable[P, R]:
        public = name or body.__name__.rstrip("_")
        inner: Any = inspect.unwrap(body)
        code = inner.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        parameters, positional = code.co_varnames[:count], code.co_varnames[: code.co_argcount]
        keywords = KEYWORDS.get(code.co_varnames[count], ()) if code.co_flags & inspect.CO_VARARGS else ()
        synonyms = {synonym: known for known, synonym in SYNONYMS.items() if known in parameters}
        device_at = positional.index("device") if "device" in positional else sys.maxsize

        @functools.wraps(body)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            arguments: tuple[Any, ...] = args
            requires_grad: Any = False
            out: Any = None
            if kwargs:
                for synonym in kwargs.keys() & synonyms if synonyms else ():
                    if synonyms[synonym] in kwargs:
                        raise given_twice(synonyms[synonym])
                    kwargs[synonyms[synonym]] = kwargs.pop(synonym)
                if creates:
                    requires_grad = kwargs.pop("requires_grad", False)
                    for keyword in _WITHOUT_EFFECT:
                        kwargs.pop(keyword, None)
                out = kwargs.pop("out", None)
                if keywords:
                    arguments = _with_numbers(public, positional, keywords, args, kwargs)
            try:
                if creates:
                    check_device(args[device_at] if len(args) > device_at else kwargs.get("device"))
                result = body(*arguments, **kwargs)
                if out is not None:
                    return cast(R, into(out, result))
            except NpuTensorError as error:
                raise _named(error, public, args, kwargs) from error.__cause__
            except MemoryError as error:
                raise _named(OutOfMemoryError(f"out of memory: {error}"), public, args, kwargs) from error
            is_view = not view and isinstance(result, Tensor) and result._alias is not None
            if is_view and all(result is not argument for argument in (*args, *kwargs.values())):
                cast(Tensor, result)._alias = None
            return cast(R, cast(Tensor, result).requires_grad_()) if requires_grad else result

        wrapper.__name__ = wrapper.__qualname__ = public
        wrapper.__module__ = "npu_tensor"
        if function and not public.endswith("_"):
            doc = inspect.cleandoc(body.__doc__ or "")
            required = code.co_argcount - len(inner.__defaults__ or ())
            wrapper.__doc__ = described(public, doc, parameters, required, code.co_names, "", ggml)
        if creates:
            signature = inspect.signature(body)
            parameters_shown = [*signature.parameters.values(), _REQUIRES_GRAD]
            wrapper.__signature__ = signature.replace(parameters=parameters_shown)  # type: ignore[attr-defined]
        entry = registry.Public(wrapper if function else None, wrapper if method else None, None, ggml, in_place)
        registry.publish(public, entry, aliases)
        return wrapper

    return decorate


def _with_numbers(
    name: str, positional: tuple[str, ...], keywords: tuple[str, ...], args: Any, kwargs: dict[str, Any]
) -> Any:
    """Return args followed by the numbers that kwargs holds as one sequence; remove that sequence from kwargs."""
    for keyword in keywords:
        if keyword in kwargs:
            args = (*args, *(kwargs.pop(each) for each in positional[len(args) :] if each in kwargs))
            if len(args) != len(positional):
                raise TypeError(f"{name}() takes {keyword} once, after {len(positional)} other arguments")
            args = (*args, kwargs.pop(keyword))
    return args


def _named(error: NpuTensorError, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NpuTensorError:
    """Return the error with this function and its arguments in place of those of the inner function."""
    if (error.recorded_at and not error.reason) or isinstance(error, CaptureError):  # with a complete message
        return reworded(error, f"{name}: {error}")
    shown = ", ".join([*map(brief, args), *(f"{keyword}={brief(value)}" for keyword, value in kwargs.items())])
    reason = error.reason or str(error)
    return located(error, f"{name}({shown}): {reason}", error.recorded_at or user_line(sys._getframe(1)), reason)


def check_device(device: Any, problem: str = "is not a device") -> None:
    """Raise DeviceError unless `device` is None, the CPU or a device in use.

    The device is in the form of `Tensor.device`. It chooses nothing. `problem` begins the message.
    """
    if device is not None and str(device) not in ("cpu", "cpu:0") and not in_use(str(device)):
        raise DeviceError(
            f"{str(device)!r} {problem} in use; nt.set_default_device, with 'npu' for example, chooses what runs ops",
            code="NOT_FOUND",
        )


def tensor_of(value: Operand) -> Tensor:
    """Return a Tensor unchanged and an array or Python number as a constant.

    Raises:
        TypeError: `value` is anything else.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return from_array(np.asarray(value))
    if isinstance(value, (bool, int, float)):
        return from_array(np.asarray(value, default_dtype(float).numpy if isinstance(value, float) else None))
    raise TypeError(f"expected a Tensor, a NumPy array or a Python number, not {type(value).__name__}")


def wide(tensor: Tensor) -> Tensor:
    """Convert 16-bit floats to float32; return other tensors unchanged."""
    return tensor.to(float32) if tensor.dtype.itemsize == 2 and tensor.is_floating_point() else tensor


def require_float(tensor: Tensor) -> DType:
    """Return the dtype of a floating-point tensor. Raise DTypeError for others."""
    if not tensor.is_floating_point():
        raise DTypeError(f"takes floats, not {tensor.dtype.name}; convert with .to(npu_tensor.float32)")
    return tensor.dtype


def fitting(value: Any, dtype: DType) -> float:
    """Convert a Python number to the range of `dtype`; integer dtypes truncate floats.

    Negative integers wrap once in uint8, and numbers too large for a float dtype become infinite, as in PyTorch.

    Raises:
        ArgumentError: An integer dtype cannot hold the number.
        DTypeError: `dtype` is quantized.
        TypeError: `value` is not a Python number.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"expected a Python number, not {type(value).__name__}")
    if dtype is bool_:
        return bool(value)
    if dtype.is_floating_point:
        return float(value)
    if dtype.is_quantized:
        raise DTypeError(f"write quantize(x, {dtype.name!r}) for numbers in {dtype.name}")
    limits = np.iinfo(dtype.numpy)
    lowest = limits.min if isinstance(value, float) else limits.min or -limits.max
    if not lowest <= value <= limits.max:
        raise ArgumentError(f"value {value} does not fit {dtype.name}")
    return int(value) % (limits.max + 1) if limits.min == 0 else int(value)


def converted(value: Operand, dtype: DType) -> Tensor:
    """Return a Tensor of `dtype`. A number must fit it."""
    if isinstance(value, (bool, int, float, np.generic)):
        return from_array(np.asarray(fitting(value, dtype)), dtype)
    return tensor_of(value).to(dtype)


def _install_in_place(name: str, entry: registry.Public) -> None:
    """Publish the method <name>_, which writes the result of <name> to its tensor and so to its views."""
    function = entry.method
    if function is None or not entry.in_place:
        return

    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return input._assign(function(input, *args, **kwargs))

    method.__doc__ = f"Apply `{name}` in place, which also changes the views of this tensor."
    composite(f"{name}_")(method)


registry.on_publish(_install_in_place)
