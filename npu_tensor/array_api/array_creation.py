"""Tensors from numbers, with the standard's arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

import npu_tensor
from npu_tensor.array_api.inspection import result_type
from npu_tensor.dtypes import default_dtype, int64
from npu_tensor.tensor import Tensor

__all__: list[str] = ["arange", "asarray", "empty", "eye", "from_dlpack", "full", "linspace", "ones", "zeros"]

Shape = int | tuple[int, ...]


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


def empty(shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Create zeros."""
    return npu_tensor.zeros(shape, dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Create zeros."""
    return npu_tensor.zeros(shape, dtype=dtype, device=device)


def ones(shape: Shape, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Create ones."""
    return npu_tensor.ones(shape, dtype=dtype, device=device)


def full(shape: Shape, fill_value: float, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Create a tensor with `fill_value` everywhere."""
    return npu_tensor.full(shape, fill_value, dtype, device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Copy an array of another library."""
    return asarray(npu_tensor.from_dlpack(x), device=device)
