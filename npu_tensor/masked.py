"""Functions of the elements where a mask is true, with the names of torch.masked.

Without a mask all elements count. A reduction of no elements gives its neutral element, or NaN for means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import bool_, int64
from npu_tensor.tensor import Tensor

__all__ = [
    *("amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean"),
    *("median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var"),
]

Dims = int | Sequence[int] | None
Mask = Tensor | None


def _filled(input: Tensor, mask: Mask, value: float, dtype: Any = None) -> Tensor:
    """Return the input, in a dtype, with a value where the mask is false."""
    input = input if dtype is None else input.to(dtype)
    return input if mask is None else ops.where_op(mask, input, value)


def _summable(input: Tensor, dtype: Any) -> Any:
    """Return the dtype of sums, which is int64 for integers."""
    return dtype or (input.dtype if input.is_floating_point() else int64)


def _limit(input: Tensor, largest: bool) -> float:
    """Return the largest or smallest number of the dtype."""
    if input.is_floating_point():
        return math.inf if largest else -math.inf
    if input.dtype is bool_:
        return largest
    limits = np.iinfo(input.dtype.numpy)
    return int(limits.max if largest else limits.min)


def _dims(input: Tensor, dim: Dims) -> list[int]:
    named = range(input.ndim) if dim is None or dim == () else [dim] if isinstance(dim, int) else dim
    return sorted((each % max(input.ndim, 1) for each in named), reverse=True)


def _count(input: Tensor, dim: Dims, keepdim: bool, mask: Mask) -> Tensor:
    """Return the number of elements that count."""
    ones = input.new_ones(input.shape, dtype=int64)
    return _filled(ones, mask, 0).sum(_dims(input, dim), keepdim)


def sum(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None) -> Tensor:
    """Return the sum over dim."""
    return _filled(input, mask, 0, _summable(input, dtype)).sum(_dims(input, dim), keepdim)


def prod(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None) -> Tensor:
    """Return the product over dim."""
    result = _filled(input, mask, 1, _summable(input, dtype))
    for each in _dims(input, dim):
        result = result.prod(each, keepdim)
    return result


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Mask = None) -> Tensor:
    """Return the running sums along dim."""
    return _filled(input, mask, 0).cumsum(dim, dtype=dtype or input.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Mask = None) -> Tensor:
    """Return the running products along dim."""
    return _filled(input, mask, 1).cumprod(dim, dtype=dtype or input.dtype)


def amax(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None) -> Tensor:
    """Return the largest element over dim."""
    return _filled(input, mask, _limit(input, False), dtype).amax(_dims(input, dim), keepdim)


def amin(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None) -> Tensor:
    """Return the smallest element over dim."""
    return _filled(input, mask, _limit(input, True), dtype).amin(_dims(input, dim), keepdim)


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None
) -> Tensor:
    """Return the position of the largest element along dim, in the dtype of input as in PyTorch."""
    return _filled(input, mask, _limit(input, False)).argmax(dim, keepdim).to(dtype or input.dtype)


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None
) -> Tensor:
    """Return the position of the smallest element along dim, in the dtype of input as in PyTorch."""
    return _filled(input, mask, _limit(input, True)).argmin(dim, keepdim).to(dtype or input.dtype)


def mean(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None) -> Tensor:
    """Return the mean over dim."""
    total = sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    result = total / _count(input, dim, keepdim, mask)
    return result.to(total.dtype) if total.is_floating_point() else result


def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None) -> Tensor:
    """Return the lower median along dim."""
    result: Tensor = _filled(input, mask, math.nan, dtype).nanmedian(dim, keepdim)[0]
    return result


def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Mask = None,
) -> Tensor:
    """Return the norm of an order over dim."""
    return _filled(input, mask, 0.0 if ord >= 0 else math.inf, dtype).norm(ord, _dims(input, dim), keepdim)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Mask = None,
) -> Tensor:
    """Return the variance over dim: the sum of squared deviations divided by the number less a correction."""
    x = input.to(dtype) if dtype is not None else input if input.is_floating_point() else input.float()
    freedom = _count(x, dim, True, mask) - ((unbiased is not False) if correction is None else correction)
    deviations = x - mean(x, dim, keepdim=True, mask=mask)
    squares = sum(deviations * deviations, dim, keepdim=True, mask=mask)
    result = squares / freedom.clamp(min=0)
    result = ops.where_op(freedom <= 0, math.nan, result).to(x.dtype)
    return result if keepdim else result.squeeze(_dims(x, dim))


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Mask = None,
) -> Tensor:
    """Return the standard deviation over dim, the square root of `var`."""
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def _rowwise(name: str, fill: float, text: str) -> Callable[..., Tensor]:
    """Create a function of rows from that of the package."""

    def function(input: Tensor, dim: int, *, dtype: Any = None, mask: Mask = None) -> Tensor:
        x = _filled(input, mask, fill, dtype)
        result: Tensor = (-x).softmax(dim) if name == "softmin" else getattr(x, name)(dim)
        return result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


softmax = _rowwise("softmax", -math.inf, "Return the exponentials along dim, scaled to the sum 1.")
log_softmax = _rowwise("log_softmax", -math.inf, "Return the logarithm of `softmax`.")
softmin = _rowwise("softmin", math.inf, "Return the softmax of -input.")


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Mask = None
) -> Tensor:
    """Return the logarithm of the sum of exponentials over dim."""
    return _filled(input, mask, -math.inf, dtype).logsumexp(_dims(input, dim), keepdim).to(dtype or input.dtype)


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Mask = None, other_mask: Mask = None
) -> Tensor:
    """Return the logarithm of the sum of two exponentials."""
    return ops.logaddexp(_filled(input, input_mask, -math.inf, dtype), _filled(other, other_mask, -math.inf, dtype))


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Mask = None
) -> Tensor:
    """Return input / max(norm over dim, eps)."""
    lengths = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask).clamp(min=eps)
    return _filled(input, mask, 0, dtype) / lengths
