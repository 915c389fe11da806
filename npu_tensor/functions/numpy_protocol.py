"""NumPy's functions on Tensors, by the protocols of NEP 13 (ufuncs) and NEP 18 (all other functions).

Functions that have a counterpart record it and give Tensors. All others, also where an argument has no counterpart
(`out=`, `where=`, a negative number of repeats), compute the tensors and give what NumPy gives for their arrays.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, Final

import numpy as np

from npu_tensor import ops
from npu_tensor.functions.creation import empty_like, full_like, ones_like, zeros_like
from npu_tensor.functions.indexing import where
from npu_tensor.functions.products import einsum
from npu_tensor.functions.reduce import std, var
from npu_tensor.functions.register import tensor_of
from npu_tensor.functions.shape import cat, hstack, stack, vstack
from npu_tensor.ops import registry
from npu_tensor.tensor import Tensor

__all__: list[str] = []

_OPERANDS = (Tensor, np.ndarray, np.generic, float, int, list, tuple)


def _float(a: Tensor, dtype: Any) -> Tensor:
    """The tensor in `dtype`; without one, integers in float64, as NumPy's averages are."""
    if dtype is not None:
        return a.to(dtype)
    return a if a.is_floating_point() else a.double()


def _dot(a: Tensor, b: Tensor) -> Any:
    if not a.ndim or not b.ndim:
        return a * b
    return a.matmul(b) if b.ndim <= 2 else NotImplemented  # of more, NumPy's dot is no product of matrices by batches


def _squeeze(a: Tensor, axis: Any = None) -> Any:
    axes = axis if isinstance(axis, tuple) else () if axis is None else (axis,)
    return a.squeeze(axis) if all(a.size(number) == 1 for number in axes) else NotImplemented  # NumPy has an error


def _along(function: Callable[..., Any]) -> Callable[..., Any]:
    """sum and the like: `axis` and `keepdims` are PyTorch's dim and keepdim."""
    return lambda a, axis=None, dtype=None, *, keepdims=False: function(a, axis, keepdims, dtype=dtype)


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, axis=None, *, keepdims=False: function(a, () if axis is None else axis, keepdims)


def _truth(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, axis=None, *, keepdims=False: function(a, axis, keepdims).bool()


def _place(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, axis=None, *, keepdims=False: function(a, axis, keepdims)


def _spread(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, axis=None, dtype=None, *, ddof=0, keepdims=False: function(
        _float(a, dtype), axis, keepdim=keepdims, correction=ddof
    )


def _joined(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda arrays, axis=0: NotImplemented if axis is None else function(list(map(_tensor, arrays)), axis)


def _like(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, dtype=None: function(a, dtype)


def _triangle(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda m, k=0: function(m, k) if m.ndim > 1 else NotImplemented


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = min if a_min is None else a_min, max if a_max is None else a_max
    return NotImplemented if low is None and high is None else _tensor(a).clamp(low, high)


def _repeat(a: Tensor, repeats: Any, axis: int | None = None) -> Any:
    return a.repeat_interleave(repeats, axis) if isinstance(repeats, int) and repeats >= 0 else NotImplemented


def _tensor(value: Any) -> Tensor:
    return tensor_of(np.asarray(value) if isinstance(value, (list, tuple)) else value)


# By NumPy's functions, with NumPy's names of the parameters that have a counterpart. NotImplemented means: on arrays.
_FUNCTIONS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.numel() if axis is None else a.size(axis),
    np.sum: _along(ops.sum_),
    np.prod: _along(ops.prod),
    np.mean: lambda a, axis=None, dtype=None, *, keepdims=False: _float(a, dtype).mean(axis, keepdims),
    np.max: _extreme(ops.amax),
    np.amax: _extreme(ops.amax),
    np.min: _extreme(ops.amin),
    np.amin: _extreme(ops.amin),
    np.any: _truth(ops.any_),
    np.all: _truth(ops.all_),
    np.argmax: _place(ops.argmax),
    np.argmin: _place(ops.argmin),
    np.var: _spread(var),
    np.std: _spread(std),
    np.cumsum: lambda a, axis=None, dtype=None: (a.ravel() if axis is None else a).cumsum(axis or 0, dtype=dtype),
    np.round: lambda a, decimals=0: a.round(decimals=decimals),
    np.around: lambda a, decimals=0: a.round(decimals=decimals),
    np.clip: _clip,
    np.where: lambda condition, x, y: where(_tensor(condition).bool(), _tensor(x), _tensor(y)),
    np.reshape: lambda a, shape: a.reshape(shape),
    np.ravel: lambda a: a.ravel(),
    np.transpose: lambda a, axes=None: a.T if axes is None else a.permute(*axes),
    np.swapaxes: lambda a, axis1, axis2: a.transpose(axis1, axis2),
    np.moveaxis: lambda a, source, destination: a.movedim(source, destination),
    np.squeeze: _squeeze,
    np.expand_dims: lambda a, axis: a.unsqueeze(axis) if isinstance(axis, int) else NotImplemented,
    np.broadcast_to: lambda array, shape: array.expand(shape),
    np.flip: lambda m, axis=None: m.flip(tuple(range(m.ndim)) if axis is None else axis),
    np.roll: lambda a, shift, axis=None: a.roll(shift, axis),
    np.repeat: _repeat,
    np.tile: lambda A, reps: A.tile(reps),
    np.concatenate: _joined(cat),
    np.stack: _joined(stack),
    np.hstack: lambda tup: hstack(list(map(_tensor, tup))),
    np.vstack: lambda tup: vstack(list(map(_tensor, tup))),
    np.tril: _triangle(ops.tril),
    np.triu: _triangle(ops.triu),
    np.dot: lambda a, b: _dot(_tensor(a), _tensor(b)),
    np.outer: lambda a, b: _tensor(a).ravel().outer(_tensor(b).ravel()),
    np.einsum: lambda subscripts, *operands, optimize=False: (
        einsum(subscripts, *map(_tensor, operands)) if isinstance(subscripts, str) else NotImplemented
    ),
    np.zeros_like: _like(zeros_like),
    np.ones_like: _like(ones_like),
    np.empty_like: _like(empty_like),
    np.full_like: lambda a, fill_value, dtype=None: full_like(a, fill_value, dtype),
}

_signature: Final = functools.cache(inspect.signature)


def _arrays(value: Any) -> Any:
    """Tensors as arrays, also inside tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, (tuple, list)):
        return type(value)(map(_arrays, value)) if type(value) in (tuple, list) else tuple(map(_arrays, value))
    return {key: _arrays(part) for key, part in value.items()} if isinstance(value, dict) else value


def _on_arrays(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return function(*_arrays(args), **_arrays(kwargs))


def _array_function(
    self: Tensor, function: Callable[..., Any], types: Collection[type], args: Any, kwargs: dict[str, Any]
) -> Any:
    """What a function of NumPy makes of Tensors: a Tensor if it has a counterpart here, else NumPy's result."""
    if not all(issubclass(kind, (Tensor, np.ndarray)) for kind in types):
        return NotImplemented
    ours = _FUNCTIONS.get(function)
    if ours is None:
        return _on_arrays(function, args, kwargs)
    try:
        arguments = _signature(ours).bind(*args, **kwargs).arguments
    except TypeError:  # an argument that has no counterpart
        return _on_arrays(function, args, kwargs)
    axis = arguments.get("axis")
    if isinstance(axis, tuple) and not axis:  # reduces nothing, where PyTorch's reduces everything
        return _on_arrays(function, args, kwargs)
    result = ours(*args, **kwargs)
    return _on_arrays(function, args, kwargs) if result is NotImplemented else result


def _array_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """What a ufunc of NumPy makes of Tensors, or one of its methods such as `reduce`; as for the other functions."""
    if not all(isinstance(value, _OPERANDS) for value in inputs):
        return NotImplemented
    ours = registry.UFUNCS.get(ufunc)
    if ours is None or method != "__call__" or kwargs:
        return _on_arrays(getattr(ufunc, method), inputs, kwargs)
    return ours(*(_tensor(value) if isinstance(value, (list, tuple)) else value for value in inputs))


registry.publish("__array_function__", registry.Public(None, _array_function))
registry.publish("__array_ufunc__", registry.Public(None, _array_ufunc))
