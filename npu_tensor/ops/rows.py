"""Row reductions and special functions for op bodies: NumPy on arrays, instructions on `Symbol`s.

In the body of a row-wise op the last axis is the row. A reduction keeps it with length one, so that its result
combines with full rows by broadcasting: `x - row_mean(x)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from npu_tensor.ops.expression import Symbol

__all__ = [
    "cast",
    "constant_like",
    "erf",
    "row_argmax",
    "row_argmin",
    "row_length",
    "row_max",
    "row_mean",
    "row_min",
    "row_prod",
    "row_sum",
]


def _reduction(primitive: str, function: Callable[..., Any]) -> Callable[[Any], Any]:
    def reduce(x: Any) -> Any:
        if isinstance(x, Symbol):
            return x.builder.emit(primitive, (x,))
        return function(x)

    return reduce


def _sum(x: np.ndarray) -> np.ndarray:
    # NumPy sums pairwise; float64 keeps the reference independent of the order in which a device adds.
    wide = np.float64 if x.dtype.kind == "f" else x.dtype
    return np.sum(x, axis=-1, keepdims=True, dtype=wide).astype(x.dtype)


def _extreme(function: Callable[..., np.ndarray], empty: float) -> Callable[[np.ndarray], np.ndarray]:
    def reduce(x: np.ndarray) -> np.ndarray:
        if x.shape[-1] == 0:
            identity = empty
            if x.dtype.kind in "iu":
                identity = np.iinfo(x.dtype).min if empty < 0 else np.iinfo(x.dtype).max
            return np.full((*x.shape[:-1], 1), identity, x.dtype)
        return function(x, axis=-1, keepdims=True)

    return reduce


row_sum = _reduction("row_sum", _sum)
row_prod = _reduction("row_prod", lambda x: np.prod(x, axis=-1, keepdims=True, dtype=x.dtype))
row_max = _reduction("row_max", _extreme(np.max, -math.inf))
row_min = _reduction("row_min", _extreme(np.min, math.inf))
row_argmax = _reduction("row_argmax", lambda x: np.argmax(x, axis=-1, keepdims=True))
row_argmin = _reduction("row_argmin", lambda x: np.argmin(x, axis=-1, keepdims=True))


def row_length(x: Any) -> Any:
    """Elements of a row, as a number of x's type. A run-time value: one kernel serves every length."""
    if isinstance(x, Symbol):
        return x.builder.scalar(ROW_LENGTH_SLOT, x.dtype)
    return x.dtype.type(x.shape[-1])


# A slot number no operand can have: whoever lays out the operands of a kernel binds it to the row length.
ROW_LENGTH_SLOT = -1


def row_mean(x: Any) -> Any:
    """Arithmetic mean of a row."""
    return row_sum(x) / row_length(x)


def cast(x: Any, dtype: str) -> Any:
    """Value conversion inside a body; float to integer truncates toward zero."""
    if isinstance(x, Symbol):
        return x.astype(dtype)
    return np.asarray(x).astype(dtype)


def constant_like(x: Any, value: float) -> Any:
    """`value` in the type of x, where the formula's first operand is a number."""
    if isinstance(x, Symbol):
        return x.builder.constant(value, x.dtype)
    return x.dtype.type(value)


def erf(x: Any) -> Any:
    """The error function. The reference evaluates it in float64 through math.erf."""
    if isinstance(x, Symbol):
        return x.builder.emit("erf", (x,))
    array = np.asarray(x)
    return _math_erf(array.astype(np.float64)).astype(array.dtype)


_math_erf = np.vectorize(math.erf, otypes=[np.float64])
