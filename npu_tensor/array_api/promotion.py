"""NumPy's functions with the standard's rules: operands promoted by dtype alone, Tensors as results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from npu_tensor.dtypes import DType, promote_pair
from npu_tensor.functions.numpy_protocol import given
from npu_tensor.tensor import Tensor

__all__ = ["common_dtype", "of_numpy"]


def common_dtype(dtypes: Iterable[DType]) -> DType:
    """Return the dtype of results of tensors of these dtypes."""
    return functools.reduce(promote_pair, dtypes)


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    """Return the tensors among arguments, also inside lists and tuples."""
    nested = (value if isinstance(value, (list, tuple)) else [value] for value in values)
    return [each for values in nested for each in values if isinstance(each, Tensor)]


def _converted(value: Any, dtype: DType) -> Any:
    if isinstance(value, (list, tuple)):
        return [_converted(each, dtype) for each in value]
    return value.to(dtype) if isinstance(value, Tensor) else value


def of_numpy(function: Callable[..., Any], first: int | None = 0) -> Callable[..., Any]:
    """Return a function of NumPy on Tensors. Positional arguments from number `first` on are promoted, none for None.

    Unlike in PyTorch, zero-dimensional tensors count as much as others.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if first is not None and len(tensors := _tensors(args[first:])) > 1:
            dtype = common_dtype(tensor.dtype for tensor in tensors)
            args = (*args[:first], *(_converted(value, dtype) for value in args[first:]))
        return given(function(*args, **kwargs))

    return call
