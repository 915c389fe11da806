"""Row reductions and special functions for op bodies: NumPy on arrays, instructions on `Symbol`s.

In the body of a row-wise op the last axis is the row. A reduction keeps this axis with length one, so that its result
broadcasts against full rows: `x - row_mean(x)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npu_tensor.ops.expression import Symbol
from npu_tensor.ops.primitives import PRIMITIVES


def _primitive(name: str) -> Callable[[Any], Any]:
    function = PRIMITIVES[name].function
    return lambda x: x.builder.emit(name, (x,)) if isinstance(x, Symbol) else function(x)


row_sum = _primitive("row_sum")
row_prod = _primitive("row_prod")
row_max = _primitive("row_max")
row_min = _primitive("row_min")
row_argmax = _primitive("row_argmax")
row_argmin = _primitive("row_argmin")
erf = _primitive("erf")


def row_length(x: Any) -> Any:
    """Return the length of a row in x's type. It is a run-time value, so one kernel serves every length."""
    if isinstance(x, Symbol):
        return x.builder.scalar(ROW_LENGTH_SLOT, x.dtype)
    return x.dtype.type(x.shape[-1])


ROW_LENGTH_SLOT = -1
"""Slot of the row length, a number that no operand can have. Kernels bind it from the layout of their operands."""


def row_positions(x: Any) -> Any:
    """Return the positions 0, 1, ... in a row, as int64."""
    return x.builder.emit("index") if isinstance(x, Symbol) else np.arange(x.shape[-1])


def row_mean(x: Any) -> Any:
    """Compute the arithmetic mean of a row."""
    return row_sum(x) / row_length(x)


def cast(x: Any, dtype: str) -> Any:
    """Convert a value inside a body; float to integer truncates toward zero."""
    if isinstance(x, Symbol):
        return x.astype(dtype)
    return np.asarray(x).astype(dtype)


def constant_like(x: Any, value: float) -> Any:
    """Return a constant in the type of x, for formulas whose first operand is a number."""
    if isinstance(x, Symbol):
        return x.builder.constant(value, x.dtype)
    return x.dtype.type(value)


def is_negative(x: Any) -> Any:
    """Return True where the sign is minus, also for -0."""
    return (x < 0) | (1 / x < 0)
