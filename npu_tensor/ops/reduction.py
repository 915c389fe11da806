"""Reductions, row-wise ops and scans. In the body of a row op the last axis is the row (see rows.py)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npu_tensor.dtypes import as_dtype, int64
from npu_tensor.ops import rules
from npu_tensor.ops.declare import Resolution
from npu_tensor.ops.registry import op
from npu_tensor.ops.rows import cast, row_argmax, row_argmin, row_length, row_max, row_mean, row_min, row_prod, row_sum
from npu_tensor.spec import Spec


@op(kind="row", rule=rules.reduction("sum"), ggml="SUM_ROWS, SUM")
def sum_(input, /, dim=None, keepdim: bool = False, *, dtype=None):
    """Sum over dim (None = all). Integers give int64; partial sums of floats are float32."""
    return row_sum(input)


@op(kind="row", rule=rules.reduction("float"), ggml="MEAN")
def mean(input, /, dim=None, keepdim: bool = False, *, dtype=None):
    """Compute the arithmetic mean over dim (None = all)."""
    return row_mean(input)


@op(kind="row", rule=rules.reduction("sum"))
def prod(input, /, dim=None, keepdim: bool = False, *, dtype=None):
    """Multiply the elements over dim (None = all); integers give int64."""
    return row_prod(input)


@op(kind="row", rule=rules.reduction("same"))
def amax(input, /, dim=(), keepdim: bool = False):
    """Return the largest element over dim (empty = all); NaN wins."""
    return cast(row_max(cast(input, "uint8")), "bool") if input.dtype == "bool" else row_max(input)


@op(kind="row", rule=rules.reduction("same"))
def amin(input, /, dim=(), keepdim: bool = False):
    """Return the smallest element over dim (empty = all); NaN wins."""
    return cast(row_min(cast(input, "uint8")), "bool") if input.dtype == "bool" else row_min(input)


@op(kind="row", rule=rules.reduction("int64"), ggml="ARGMAX")
def argmax(input, /, dim=None, keepdim: bool = False):
    """Return the index of the first largest element over dim, or in the flattened tensor; the first NaN wins.

    GGML's ARGMAX takes the last of equal elements, and starts again after a NaN.
    """
    return row_argmax(input)


@op(kind="row", rule=rules.reduction("int64"))
def argmin(input, /, dim=None, keepdim: bool = False):
    """Return the index of the first smallest element over dim, or in the flattened tensor; the first NaN wins."""
    return row_argmin(input)


@op(kind="row", rule=rules.reduction("bool"))
def any_(input, /, dim=None, keepdim: bool = False):
    """Return True if any element over dim is true (not zero)."""
    return cast(row_max(cast(input, "uint8")), "bool")


@op(kind="row", rule=rules.reduction("bool"))
def all_(input, /, dim=None, keepdim: bool = False):
    """Return True if every element over dim is true (not zero)."""
    return cast(row_min(cast(input, "uint8")), "bool")


@op(kind="row", rule=rules.reduction("float"), public=False)
def var_op(input, /, dim=None, keepdim: bool = False, *, correction: float = 1):
    """Compute the variance over dim (None = all): sum of squared deviations / max(0, n - correction)."""
    deviation = input - row_mean(input)
    return row_sum(deviation * deviation) / np.maximum(row_length(input) - correction, 0)


@op(kind="row", rule=rules.reduction("float"), public=False)
def std_op(input, /, dim=None, keepdim: bool = False, *, correction: float = 1):
    """Compute the standard deviation over dim, sqrt(var)."""
    return np.sqrt(var_op.op.body(input, correction=correction))


@op(kind="row", rule=rules.norm, public=False)
def norm_op(input, /, dim=None, keepdim: bool = False, *, p: float = 2.0):
    """Compute the p-norm over dim (None = all): sum(|input| ** p) ** (1 / p); p = 0 counts elements that are not 0."""
    if p == 2:
        return np.sqrt(row_sum(input * input))
    if p == 0:
        return row_sum(cast(input != 0, str(input.dtype)))
    magnitude = abs(input)
    if abs(p) == math.inf:
        return row_max(magnitude) if p > 0 else row_min(magnitude)
    if p == 1:
        return row_sum(magnitude)
    total = row_sum(np.power(magnitude, p))
    # The gradient of a row of zeros is 0.
    return (
        np.power(total, 1 / p)
        if p < 0
        else np.where(total == 0, total, np.power(np.where(total == 0, 1, total), 1 / p))
    )


def _finite_max(x):
    """Return the row maximum, or 0 where it is infinite, so that x - max is never inf - inf."""
    largest = row_max(x)
    return np.where(abs(largest) == math.inf, np.minimum(abs(largest), 0), largest)


@op(kind="row", rule=rules.reduction("floating"))
def logsumexp(input, /, dim, keepdim: bool = False):
    """Compute log(sum(exp(input))) over dim without overflow."""
    largest = _finite_max(input)
    return np.log(row_sum(np.exp(input - largest))) + largest


@op(kind="row", rule=rules.rowwise, ggml="SOFT_MAX")
def softmax(input, /, dim: int, dtype=None):
    """Compute exp(input) / sum(exp(input)) over dim without overflow."""
    e = np.exp(input - row_max(input))
    return e * (1 / row_sum(e))


@op(kind="row", rule=rules.rowwise)
def log_softmax(input, /, dim: int, dtype=None):
    """Compute log(softmax(input)) over dim without overflow."""
    shifted = input - row_max(input)
    return shifted - np.log(row_sum(np.exp(shifted)))


# --- scans: running sums, products and extremes along a dimension


@rules.of_tensors()
def _scan_rule(x: Spec, dim: int, dtype: Any) -> Resolution:
    if dtype is None:
        dtype = x.dtype if x.dtype.is_floating_point else int64
    dtype = as_dtype(dtype)
    attributes = {"dim": rules.dimension(dim, x.ndim), "dtype": dtype}
    return Resolution(Spec.of(x.shape, dtype), (dtype.register,), attributes)


@op(kind="data", rule=_scan_rule, ggml="CUMSUM", in_place=True)
def cumsum(input, /, dim: int, *, dtype=None):
    """Compute the running sum along dim; integers give int64. Floats are added in float64 and rounded once."""
    wide = np.float64 if input.dtype.kind == "f" else input.dtype
    return np.cumsum(input, axis=dim, dtype=wide) if input.ndim else np.array(input)


@op(kind="data", rule=_scan_rule, in_place=True)
def cumprod(input, /, dim: int, *, dtype=None):
    """Compute the running product along dim; integers give int64."""
    return np.cumprod(input, axis=dim, dtype=input.dtype) if input.ndim else np.array(input)


@rules.of_tensors("floats")
def _float_scan_rule(x: Spec, dim: int) -> Resolution:
    rules.require_floats(x.dtype)
    return Resolution(x, (x.dtype.register,), {"dim": rules.dimension(dim, x.ndim)})


@op(kind="data", rule=_float_scan_rule)
def logcumsumexp(input, /, dim: int):
    """Compute the logarithm of the running sum of exp(input) along dim without overflow."""
    return np.logaddexp.accumulate(input.astype(np.float64), axis=dim) if input.ndim else np.array(input)


@op(kind="data", rule=rules.positions, public=False)
def running_extreme(input, /, dim: int, largest: bool):
    """Return the index of the running maximum (or minimum) along dim: the latest of equal ones; NaN wins."""
    if not input.size or not input.ndim:
        return np.zeros(input.shape, np.int64)
    extreme = (np.maximum if largest else np.minimum).accumulate(input, axis=dim)
    places = np.arange(input.shape[dim]).reshape(-1, *(1 for _ in range(input.ndim - dim - 1)))
    reached = (input == extreme) | (input != input)
    return np.maximum.accumulate(np.where(reached, places, 0), axis=dim)
