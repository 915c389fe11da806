"""NumPy's functions on Tensors, by the protocols of NEP 13 (ufuncs) and NEP 18 (all other functions).

Functions that have a counterpart record it and give Tensors. All others, also where an argument has no counterpart
(`out=`, `where=`, a negative number of repeats), compute the tensors and give what NumPy gives for their arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any, Final

import numpy as np

from npu_tensor.functions.register import tensor_of
from npu_tensor.tensor import FUNCTIONS, UFUNCS, Tensor, internal_files

__all__: list[str] = []

internal_files.add(__file__)

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


def _along(name: str) -> Callable[..., Any]:
    """sum and the like: `axis` and `keepdims` are PyTorch's dim and keepdim."""

    def reduce(a: Tensor, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
        return FUNCTIONS[name](a, axis, keepdims, dtype=dtype)

    return reduce


def _extreme(name: str) -> Callable[..., Any]:
    def reduce(a: Tensor, axis: Any = None, *, keepdims: bool = False) -> Any:
        return FUNCTIONS[name](a, () if axis is None else axis, keepdims)

    return reduce


def _truth(name: str) -> Callable[..., Any]:
    def reduce(a: Tensor, axis: Any = None, *, keepdims: bool = False) -> Any:
        return FUNCTIONS[name](a, axis, keepdims).bool()

    return reduce


def _place(name: str) -> Callable[..., Any]:
    def find(a: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Any:
        return FUNCTIONS[name](a, axis, keepdims)

    return find


def _spread(name: str) -> Callable[..., Any]:
    def reduce(a: Tensor, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
        return FUNCTIONS[name](_float(a, dtype), axis, keepdim=keepdims, correction=ddof)

    return reduce


def _joined(name: str) -> Callable[..., Any]:
    def join(arrays: Collection[Any], axis: int | None = 0) -> Any:
        return NotImplemented if axis is None else FUNCTIONS[name](list(map(_tensor, arrays)), axis)

    return join


def _like(name: str) -> Callable[..., Any]:
    return lambda a, dtype=None: FUNCTIONS[name](a, dtype)


def _triangle(name: str) -> Callable[..., Any]:
    return lambda m, k=0: FUNCTIONS[name](m, k) if m.ndim > 1 else NotImplemented


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
    np.sum: _along("sum"),
    np.prod: _along("prod"),
    np.mean: lambda a, axis=None, dtype=None, *, keepdims=False: _float(a, dtype).mean(axis, keepdims),
    np.max: _extreme("amax"),
    np.amax: _extreme("amax"),
    np.min: _extreme("amin"),
    np.amin: _extreme("amin"),
    np.any: _truth("any"),
    np.all: _truth("all"),
    np.argmax: _place("argmax"),
    np.argmin: _place("argmin"),
    np.var: _spread("var"),
    np.std: _spread("std"),
    np.cumsum: lambda a, axis=None, dtype=None: (a.ravel() if axis is None else a).cumsum(axis or 0, dtype=dtype),
    np.round: lambda a, decimals=0: a.round(decimals=decimals),
    np.around: lambda a, decimals=0: a.round(decimals=decimals),
    np.clip: _clip,
    np.where: lambda condition, x, y: FUNCTIONS["where"](_tensor(condition).bool(), _tensor(x), _tensor(y)),
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
    np.concatenate: _joined("cat"),
    np.stack: _joined("stack"),
    np.hstack: lambda tup: FUNCTIONS["hstack"](list(map(_tensor, tup))),
    np.vstack: lambda tup: FUNCTIONS["vstack"](list(map(_tensor, tup))),
    np.tril: _triangle("tril"),
    np.triu: _triangle("triu"),
    np.dot: lambda a, b: _dot(_tensor(a), _tensor(b)),
    np.outer: lambda a, b: _tensor(a).ravel().outer(_tensor(b).ravel()),
    np.einsum: lambda subscripts, *operands, optimize=False: (
        FUNCTIONS["einsum"](subscripts, *map(_tensor, operands)) if isinstance(subscripts, str) else NotImplemented
    ),
    np.zeros_like: _like("zeros_like"),
    np.ones_like: _like("ones_like"),
    np.empty_like: _like("empty_like"),
    np.full_like: lambda a, fill_value, dtype=None: FUNCTIONS["full_like"](a, fill_value, dtype),
}

_SIGNATURES: Final = {function: inspect.signature(ours) for function, ours in _FUNCTIONS.items()}


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
        given = _SIGNATURES[function].bind(*args, **kwargs).arguments
    except TypeError:  # an argument that has no counterpart
        return _on_arrays(function, args, kwargs)
    axis = given.get("axis")
    if isinstance(axis, tuple) and not axis:  # reduces nothing, where PyTorch's reduces everything
        return _on_arrays(function, args, kwargs)
    result = ours(*args, **kwargs)
    return _on_arrays(function, args, kwargs) if result is NotImplemented else result


def _array_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """What a ufunc of NumPy makes of Tensors, or one of its methods such as `reduce`; as for the other functions."""
    if not all(isinstance(value, _OPERANDS) for value in inputs):
        return NotImplemented
    ours = UFUNCS.get(ufunc)
    if ours is None or method != "__call__" or kwargs:
        return _on_arrays(getattr(ufunc, method), inputs, kwargs)
    return ours(*(_tensor(value) if isinstance(value, (list, tuple)) else value for value in inputs))


# NumPy looks them up on the class.
Tensor.__array_function__ = _array_function  # type: ignore[attr-defined]
Tensor.__array_ufunc__ = _array_ufunc  # type: ignore[attr-defined]
