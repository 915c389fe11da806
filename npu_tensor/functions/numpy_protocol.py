"""NumPy's functions on Tensors, by the protocols of NEP 13 (ufuncs) and NEP 18 (all other functions).

Functions that have a counterpart record it and return Tensors. All others compute the operands and return NumPy's
result for their arrays, also for arguments without a counterpart (`out=`, `where=`, a negative number of repeats).
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
from collections.abc import Callable, Collection
from typing import Any, Final

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import int64
from npu_tensor.errors import ArgumentError
from npu_tensor.functions.arithmetic import diff, floor_divide, fmod, isclose, power, remainder
from npu_tensor.functions.creation import empty_like, full, full_like, ones_like, zeros_like
from npu_tensor.functions.indexing import where
from npu_tensor.functions.products import einsum, tensordot
from npu_tensor.functions.reduce import nansum, std, var
from npu_tensor.functions.register import check_device, tensor_of
from npu_tensor.functions.search import isin, searchsorted
from npu_tensor.functions.shape import cat, hstack, meshgrid, sort, stack, take_along_dim, vstack
from npu_tensor.functions.stacking import atleast_1d, atleast_2d, column_stack, dstack, tensor_split
from npu_tensor.functions.statistics import trapezoid
from npu_tensor.ops import registry
from npu_tensor.tensor import Tensor, from_array

_OPERANDS = (Tensor, np.ndarray, np.generic, float, int, list, tuple)


def _float(a: Tensor, dtype: Any) -> Tensor:
    """Convert to `dtype`, or integers to float64, the dtype of NumPy's averages."""
    if dtype is not None:
        return a.to(dtype)
    return a if a.is_floating_point() else a.double()


def _dot(a: Tensor, b: Tensor) -> Any:
    if not a.ndim or not b.ndim:
        return a * b
    return a.matmul(b) if b.ndim <= 2 else NotImplemented  # NumPy's dot is not a batched product


def _squeeze(a: Tensor, axis: Any = None) -> Any:
    axes = axis if isinstance(axis, tuple) else () if axis is None else (axis,)
    return a.squeeze(axis) if all(a.size(number) == 1 for number in axes) else NotImplemented  # NumPy raises an error


def _along(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adapt a reduction: `axis` and `keepdims` are PyTorch's dim and keepdim."""
    return lambda a, axis=None, dtype=None, *, keepdims=False: function(a, axis, keepdims, dtype=dtype)


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, axis=None, *, keepdims=False: function(a, () if axis is None else axis, keepdims)


def _truth(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, axis=None, *, keepdims=False: function(a, axis, keepdims).bool()


def _place(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, axis=None, *, keepdims=False: function(a, axis, keepdims)


def _spread(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, axis=None, dtype=None, *, ddof=0, keepdims=False, correction=None: function(
        _float(a, dtype), axis, keepdim=keepdims, correction=ddof if correction is None else correction
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


def _cumulative(function: Callable[..., Any], start: int) -> Callable[..., Any]:
    """Adapt a running sum or product."""

    def cumulative(x: Tensor, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
        dim = axis if axis is not None else 0
        result = function(x, dim, dtype=dtype)
        if not include_initial:
            return result
        shape = list(result.shape)
        shape[dim] = 1
        return cat([full(shape, start, dtype=result.dtype), result], dim)

    return cumulative


def _rows(a: Tensor, axis: int | None) -> tuple[Tensor, int]:
    """Return the tensor to sort and the dimension along which to sort."""
    return (a.ravel(), 0) if axis is None else (a, axis)


def _wrapped(index: Tensor, extent: int) -> Tensor:
    """Count negative indices from the front."""
    return ops.where_op(index < 0, index + extent, index)


def _taken(a: Any, indices: Any, axis: int | None = None) -> Tensor:
    rows, dim = _rows(_tensor(a), axis)
    index = _tensor(indices)
    return ops.take_op(rows, _wrapped(index.to(int64), rows.shape[dim]), dim)


def _split(ary: Tensor, indices_or_sections: Any, axis: int = 0) -> Any:
    is_count = isinstance(indices_or_sections, int)
    if is_count and (indices_or_sections < 1 or ary.shape[axis] % indices_or_sections):
        return NotImplemented  # NumPy has an error
    return [*tensor_split(ary, indices_or_sections if is_count else [*indices_or_sections], axis)]


_PAD_MODES: Final = {"constant": "constant", "edge": "replicate"}


def _pad(array: Tensor, pad_width: Any, mode: str = "constant", constant_values: float = 0) -> Any:
    if mode not in _PAD_MODES or isinstance(pad_width, dict) or not isinstance(constant_values, (int, float)):
        return NotImplemented
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2))
    if widths.min(initial=0) < 0 or (mode == "edge" and not array.numel()):
        return NotImplemented  # NumPy has an error
    return ops.pad_widths(array, tuple(map(tuple, widths.tolist())), _PAD_MODES[mode], constant_values)


def _signs(x: Tensor) -> Tensor:
    return ops.where_op(x.isnan(), x, ops.sign(x)) if x.is_floating_point() else ops.sign(x)


_API_VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


def _axes(axes: Any) -> Any:
    """Convert tensordot's axes to PyTorch's dims."""
    return axes if isinstance(axes, int) else [each if isinstance(each, (tuple, list)) else [each] for each in axes]


def given(result: Any) -> Any:
    """Convert NumPy's results to Tensors, also inside tuples and lists. Sums of uint8 become int64, as for ops."""
    if isinstance(result, (np.ndarray, np.generic)):
        return from_array(np.asarray(result), int64 if result.dtype == np.uint64 else None)
    if isinstance(result, (tuple, list)):
        parts = [given(part) for part in result]
        return result._make(parts) if hasattr(result, "_make") else type(result)(parts)
    return result


def _tensor(value: Any) -> Tensor:
    return tensor_of(np.asarray(value) if isinstance(value, (list, tuple)) else value)


# Counterparts of NumPy's functions, with NumPy's names of the supported parameters. NotImplemented: apply NumPy's.
_FUNCTIONS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    np.shape: lambda a: tuple(a.shape),
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
    np.cumprod: lambda a, axis=None, dtype=None: (a.ravel() if axis is None else a).cumprod(axis or 0, dtype=dtype),
    np.cumulative_sum: _cumulative(ops.cumsum, 0),
    np.cumulative_prod: _cumulative(ops.cumprod, 1),
    np.sort: lambda a, axis=-1, *, stable=True: sort(*_rows(a, axis)).values,
    np.argsort: lambda a, axis=-1, *, stable=True: ops.argsort(*_rows(a, axis)),
    np.diff: lambda a, n=1, axis=-1: diff(a, n, axis) if a.ndim and n >= 0 else NotImplemented,
    np.diagonal: lambda a, offset=0, axis1=0, axis2=1: ops.diagonal(a, offset, axis1, axis2),
    np.trace: lambda a, offset=0, axis1=0, axis2=1: ops.diagonal(a, offset, axis1, axis2).sum(-1),
    np.linalg.trace: lambda x, *, offset=0, dtype=None: ops.diagonal(x, offset, -2, -1).sum(-1, dtype=dtype),
    np.take: _taken,
    np.take_along_axis: lambda arr, indices, axis=-1: take_along_dim(
        _tensor(arr), _wrapped(_tensor(indices), math.prod(arr.shape) if axis is None else arr.shape[axis]), axis
    ),
    np.split: _split,
    np.array_split: lambda ary, indices_or_sections, axis=0: [*tensor_split(ary, indices_or_sections, axis)],
    np.unstack: lambda x, axis=0: x.unbind(axis),
    np.pad: _pad,
    np.unique: lambda ar, axis=None: given(np.unique(ar.numpy(), axis=axis)),
    np.nonzero: lambda a: a.nonzero().unbind(1) if a.ndim else NotImplemented,
    np.argwhere: lambda a: a.nonzero(),
    np.count_nonzero: lambda a, axis=None, *, keepdims=False: (a != 0).sum(axis, keepdims),
    np.searchsorted: lambda a, v, side="left": searchsorted(_tensor(a), _tensor(v), right=side == "right"),
    np.isin: lambda element, test_elements, *, invert=False: isin(
        _tensor(element), _tensor(test_elements), invert=invert
    ),
    np.isclose: lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: isclose(
        _float(_tensor(a), None), _float(_tensor(b), None), rtol, atol, equal_nan
    ),
    np.nan_to_num: lambda x, *, nan=0.0, posinf=None, neginf=None: x.nan_to_num(nan, posinf, neginf),
    np.nansum: _along(nansum),
    np.kron: lambda a, b: _tensor(a).kron(_tensor(b)),
    np.inner: lambda a, b: _tensor(a).inner(_tensor(b)),
    np.vdot: lambda a, b: _tensor(a).ravel().dot(_tensor(b).ravel()),
    np.tensordot: lambda a, b, axes=2: tensordot(_tensor(a), _tensor(b), _axes(axes)),
    np.fliplr: lambda m: m.flip(1),
    np.flipud: lambda m: m.flip(0),
    np.rot90: lambda m, k=1, axes=(0, 1): m.rot90(k, axes),
    np.atleast_1d: atleast_1d,
    np.atleast_2d: atleast_2d,
    np.column_stack: lambda tup: column_stack(list(map(_tensor, tup))),
    np.dstack: lambda tup: dstack(list(map(_tensor, tup))),
    np.diag: lambda v, k=0: v.diag(k) if v.ndim in (1, 2) else NotImplemented,
    np.diagflat: lambda v, k=0: v.diagflat(k),
    np.meshgrid: lambda *xi, indexing="xy": [*meshgrid(*map(_tensor, xi), indexing=indexing)],
    np.matrix_transpose: lambda x: x.mT,
    np.astype: lambda x, dtype, *, copy=True: x.to(dtype, copy=copy),
    np.trapezoid: lambda y, x=None, dx=1.0, axis=-1: trapezoid(_float(y, None), x, dx=dx, dim=axis),
}

_signature: Final = functools.cache(inspect.signature)


def _arrays(value: Any) -> Any:
    """Convert Tensors to arrays, also inside tuples, lists and dicts."""
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
    """Apply a function of NumPy. Return a Tensor if it has a counterpart, else NumPy's result."""
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
    if isinstance(axis, tuple) and not axis:  # NumPy reduces nothing, PyTorch everything
        return _on_arrays(function, args, kwargs)
    result = ours(*args, **kwargs)
    return _on_arrays(function, args, kwargs) if result is NotImplemented else result


def _array_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Apply a ufunc of NumPy, or one of its methods such as `reduce`."""
    if not all(isinstance(value, _OPERANDS) for value in inputs):
        return NotImplemented
    ours = registry.UFUNCS.get(ufunc)
    if ours is None or method != "__call__" or kwargs:
        return _on_arrays(getattr(ufunc, method), inputs, kwargs)
    return ours(*(_tensor(value) if isinstance(value, (list, tuple)) else value for value in inputs))


# PyTorch and GGML give 0 as the sign of NaN; NumPy's power of integers is an integer.
registry.UFUNCS[np.sign] = lambda x: _signs(_tensor(x))
registry.UFUNCS.update({np.power: power, np.floor_divide: floor_divide, np.remainder: remainder, np.fmod: fmod})


def _array_namespace(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """Return the functions of the Python array API standard for Tensors.

    Raises:
        ArgumentError: `api_version` is later than 2025.12.
    """
    if api_version is not None and api_version not in _API_VERSIONS:
        raise ArgumentError(f"array API version {api_version} is not supported; the latest one is {_API_VERSIONS[-1]}")
    return importlib.import_module("npu_tensor.array_api")


def _to_device(self: Tensor, device: Any, /, *, stream: None = None) -> Tensor:
    """Return the tensor itself. `set_default_device` chooses the devices that compute.

    Raises:
        DeviceError: The device is unknown or not in use.
    """
    if stream is not None:
        raise ArgumentError(f"streams are not supported: {stream!r}")
    check_device(device)
    return self


registry.publish("__array_namespace__", registry.Public(None, _array_namespace))
registry.publish("to_device", registry.Public(None, _to_device))
registry.publish("__array_function__", registry.Public(None, _array_function))
registry.publish("__array_ufunc__", registry.Public(None, _array_ufunc))
