"""Scans: running sums, products and extremes along a dimension, computed by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_tensor.dtypes import as_dtype, int64
from npu_tensor.errors import DTypeError
from npu_tensor.ops import rules
from npu_tensor.ops.declare import Operand, Resolution
from npu_tensor.ops.registry import op
from npu_tensor.ops.rules import dimension, require_tensor
from npu_tensor.spec import Spec


def _along_rule(operands: tuple[Operand, ...], attributes: dict[str, Any]) -> Resolution:
    """Resolve a scan: same shape, one dimension, the register type of the input."""
    x = require_tensor(operands[0])
    dim = dimension(attributes["dim"], x.ndim)
    choice = attributes.get("dtype")
    dtype = x.dtype if choice is None else as_dtype(choice)
    if choice is None and not dtype.is_floating_point:
        dtype = int64
    return Resolution(Spec.of(x.shape, dtype), (dtype.register,), {**attributes, "dim": dim, "dtype": dtype})


@op(kind="data", rule=_along_rule, ggml="CUMSUM", in_place=True)
def cumsum(input, /, dim: int, *, dtype=None):
    """Compute the running sum along dim; integers give int64. Floats are added in float64 and rounded once."""
    wide = np.float64 if input.dtype.kind == "f" else input.dtype
    return np.cumsum(input, axis=dim, dtype=wide) if input.ndim else np.array(input)


@op(kind="data", rule=_along_rule, in_place=True)
def cumprod(input, /, dim: int, *, dtype=None):
    """Compute the running product along dim; integers give int64."""
    return np.cumprod(input, axis=dim, dtype=input.dtype) if input.ndim else np.array(input)


def _float_scan_rule(operands: tuple[Operand, ...], attributes: dict[str, Any]) -> Resolution:
    if not rules.dtype_of(operands[0]).is_floating_point:
        raise DTypeError(f"takes floats, not {rules.dtype_of(operands[0]).name}")
    return _along_rule(operands, attributes)


@op(kind="data", rule=_float_scan_rule)
def logcumsumexp(input, /, dim: int):
    """Compute the logarithm of the running sum of exp(input) along dim without overflow."""
    return np.logaddexp.accumulate(input.astype(np.float64), axis=dim) if input.ndim else np.array(input)


def _places_rule(operands: tuple[Operand, ...], attributes: dict[str, Any]) -> Resolution:
    x = require_tensor(operands[0])
    dim = dimension(attributes["dim"], x.ndim)
    return Resolution(Spec.of(x.shape, int64), (x.dtype.register,), {**attributes, "dim": dim})


@op(kind="data", rule=_places_rule, public=False)
def running_extreme(input, /, dim: int, largest: bool):
    """Return the index of the running maximum (or minimum) along dim: the latest of equal ones; NaN wins."""
    if not input.size or not input.ndim:
        return np.zeros(input.shape, np.int64)
    extreme = (np.maximum if largest else np.minimum).accumulate(input, axis=dim)
    places = np.arange(input.shape[dim]).reshape(-1, *(1 for _ in range(input.ndim - dim - 1)))
    reached = (input == extreme) | (input != input)
    return np.maximum.accumulate(np.where(reached, places, 0), axis=dim)
