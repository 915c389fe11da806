"""Functions that the standard defines otherwise than NumPy or the main namespace: creation, inspection, sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import npu_tensor
from npu_tensor.array_api.promotion import common_dtype, of_numpy
from npu_tensor.dtypes import DTYPES, DType, as_dtype, bfloat16, default_dtype, float16, int64, promote
from npu_tensor.tensor import Tensor

__all__ = [
    *("__array_namespace_info__", "arange", "argsort", "asarray", "can_cast", "clip", "empty", "eye"),
    *("finfo", "from_dlpack", "full", "iinfo", "isdtype", "linspace", "meshgrid", "ones", "remainder", "result_type"),
    *("sort", "zeros"),
]

Extents = int | tuple[int, ...]

OF_THE_STANDARD = {each.name: each for each in DTYPES if each not in (float16, bfloat16)}
"""Dtypes of this package that the standard has, by name."""


class __array_namespace_info__:
    """Capabilities of this namespace, for other libraries."""

    def capabilities(self) -> dict[str, Any]:
        """Return capabilities. Shapes may depend on values; such functions compute their operands."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Return the device where values are read."""
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        """Return the accepted devices; `npu_tensor.set_default_device` chooses the devices that compute."""
        return ("cpu",)

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Return the dtypes of Python numbers and indices; there are no complex numbers."""
        return {"real floating": default_dtype(float), "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """Return the dtypes by name, of all kinds, one or several."""
        return {name: each for name, each in OF_THE_STANDARD.items() if kind is None or isdtype(each, kind)}


def isdtype(dtype: DType, kind: Any) -> bool:
    """Return True if dtype equals kind, or belongs to it or to one of several kinds."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any(np.isdtype(dtype.numpy, each) if isinstance(each, str) else dtype is as_dtype(each) for each in kinds)


def _dtype_of(value: Any) -> DType:
    return value.dtype if isinstance(value, Tensor) else as_dtype(value)


def _limits(function: Callable[[DType], Any], value: Any) -> Any:
    """Return the limits as in the main namespace, with the dtype in place of its name."""
    dtype = _dtype_of(value)
    return function(dtype)._replace(dtype=dtype)


def finfo(type: Any, /) -> Any:
    """Return the limits of a float dtype, or of a tensor's."""
    return _limits(npu_tensor.finfo, type)


def iinfo(type: Any, /) -> Any:
    """Return the limits of an integer dtype, or of a tensor's."""
    return _limits(npu_tensor.iinfo, type)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Return True if the second dtype holds all values of the first."""
    return bool(np.can_cast(_dtype_of(from_).numpy, as_dtype(to).numpy))


def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the dtype of results of these tensors, dtypes and Python numbers."""
    numbers = [type(each) for each in arrays_and_dtypes if isinstance(each, (bool, int, float))]
    dtypes = [_dtype_of(each) for each in arrays_and_dtypes if not isinstance(each, (bool, int, float))]
    return promote([(common_dtype(dtypes), 1)], numbers)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """Create a tensor from numbers, nested sequences, arrays or a tensor."""
    return npu_tensor.asarray(obj, dtype, device, copy)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Create start, start + step, ... before stop; empty if step leads away from it."""
    first, last = (0, start) if stop is None else (start, stop)
    dtype = dtype or result_type(int64, first, last, step)
    return npu_tensor.arange(first, last if (last - first) * step > 0 else first, step, dtype, device)


def linspace(
    start: float, stop: float, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """Create `num` evenly spaced numbers from start to stop, which is included if endpoint."""
    return npu_tensor.asarray(np.linspace(start, stop, num, endpoint), dtype or default_dtype(float), device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Create ones on a diagonal, zeros elsewhere."""
    return npu_tensor.asarray(np.eye(n_rows, n_cols, k), dtype or default_dtype(float), device)


def empty(shape: Extents, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Create zeros."""
    return npu_tensor.zeros(shape, dtype=dtype, device=device)


def zeros(shape: Extents, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Create zeros."""
    return npu_tensor.zeros(shape, dtype=dtype, device=device)


def ones(shape: Extents, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Create ones."""
    return npu_tensor.ones(shape, dtype=dtype, device=device)


def full(shape: Extents, fill_value: float, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Create a tensor with `fill_value` everywhere."""
    return npu_tensor.full(shape, fill_value, dtype, device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Copy an array of another library."""
    return asarray(npu_tensor.from_dlpack(x), device=device)


def clip(x: Tensor, /, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """Limit x to [min, max], in its dtype."""
    return x.clone() if min is None and max is None else x.clamp(min, max).to(x.dtype)


def remainder(x1: Any, x2: Any, /) -> Any:
    """Return the remainder of floor_divide, with the sign of x2 also where it is 0."""
    rest = _remainder(x1, x2)
    return npu_tensor.where(rest == 0, npu_tensor.copysign(rest, x2), rest) if rest.is_floating_point() else rest


_remainder = of_numpy(np.remainder)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sort along an axis; equal elements keep their order."""
    return npu_tensor.sort(x, axis, descending).values


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the indices of the elements of `sort`."""
    return npu_tensor.argsort(x, axis, descending)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Expand vectors to a grid of coordinates; the first along the second dimension unless indexing is "ij"."""
    return tuple(npu_tensor.meshgrid(*arrays, indexing=indexing))
