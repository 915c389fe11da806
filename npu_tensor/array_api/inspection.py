"""Inspection of the standard's namespace: dtypes, their kinds and limits, devices, capabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import npu_tensor
from npu_tensor.array_api.promotion import common_dtype
from npu_tensor.dtypes import DTYPES, DType, as_dtype, bfloat16, default_dtype, float16, int64, promote
from npu_tensor.tensor import Tensor

__all__ = ["OF_THE_STANDARD", "__array_namespace_info__", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

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
