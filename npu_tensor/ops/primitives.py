"""The scalar primitives of the expression language. An entry holds everything that is independent of the target.

A new primitive is an entry here and code for its targets: LLVM IR in `runtime/cpu/primitive_ir.py`, C++ for the cores
in `kernels/include/nt`, which `tools/counts.py` counts. A target refuses primitives that it has no code
for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from npu_tensor.dtypes import bfloat16

Array = np.ndarray[Any, Any]

Bounds = tuple[int, int]
"""Smallest and largest value of an integer."""


def _special(*operands: Any) -> Any:
    raise TypeError("the value of this primitive does not follow from its operands alone")


@dataclass(frozen=True, slots=True)
class Primitive:
    """Properties of a primitive on every target.

    Attributes:
        arity: Number of operands.
        function: Meaning in NumPy, with rows along the last axis, if the value follows from the operands.
        result: Register type of the result: "same" as the first operand (all operands agree), "bool", "position"
            (int64, an index into a row) or "explicit".
        flops: Floating-point operations per element of the CPU's polynomial, for predicted times only.
        reduces: True if it reduces a row to one element.
        folds: True if it is computed when the program is recorded and all operands are constants.
        inexact: True if a target may compute a float result with fewer or more correct digits.
        error: Effect on a small relative error of float operands: it "grows", is "kept", is "kept of nonnegative"
            operands only, or becomes a "step". "chosen": the result is one of the operands, except for its sign.
        sign: "nonnegative" if the result is never negative, "nonnegative of nonnegative" if that holds for operands
            that are not negative.
        bounds: Function from the bounds of the operands and the length of the row to those of an integer result; None
            if they are unknown.
    """

    arity: int
    function: Callable[..., Any] = _special
    result: Literal["same", "bool", "position", "explicit"] = "same"
    flops: int = 1
    reduces: bool = False
    folds: bool = False
    inexact: bool = False
    error: Literal["grows", "kept", "kept of nonnegative", "step", "chosen"] = "grows"
    sign: Literal["any", "nonnegative", "nonnegative of nonnegative"] = "any"
    bounds: Callable[[Sequence[Bounds], int], Bounds] | None = None


# --- meanings that NumPy has no single function for


def _shift(function: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    """Shift by the width or more to 0, or to the sign for a signed right shift, instead of C's undefined result."""

    def shift(value: Array, count: Array) -> Array:
        bits = value.dtype.itemsize * 8
        inside = np.clip(count, 0, bits - 1).astype(value.dtype)
        beyond = np.where(value < 0, -1, 0).astype(value.dtype) if function is np.right_shift else value * 0
        return np.where((count >= 0) & (count < bits), function(value, inside), beyond)

    return shift


def _in_float64(function: Callable[[Array], Any]) -> Callable[[Array], Array]:
    def compute(x: Array) -> Array:
        array = np.asarray(x)
        return np.asarray(function(array.astype(np.float64))).astype(array.dtype)

    return compute


def _rounded(dtype: Any) -> Callable[[Array], Array]:
    return lambda x: x.astype(dtype).astype(np.float32)


def _sum(x: Array) -> Array:
    # NumPy sums pairwise. float64 makes the reference independent of the order in which a device adds.
    wide = np.float64 if x.dtype.kind == "f" else x.dtype
    return np.sum(x, axis=-1, keepdims=True, dtype=wide).astype(x.dtype)


def _extreme(function: Callable[..., Array], empty: float) -> Callable[[Array], Array]:
    def reduce(x: Array) -> Array:
        if x.shape[-1] == 0:
            identity = empty
            if x.dtype.kind in "iu":
                identity = np.iinfo(x.dtype).min if empty < 0 else np.iinfo(x.dtype).max
            return np.full((*x.shape[:-1], 1), identity, x.dtype)
        return function(x, axis=-1, keepdims=True)

    return reduce


# --- bounds of integers


def _hull(operands: Sequence[Bounds], length: int) -> Bounds:
    return min(low for low, _ in operands), max(high for _, high in operands)


def _largest(operands: Sequence[Bounds]) -> int:
    return max(max(-low, high) for low, high in operands)


def _sum_bounds(operands: Sequence[Bounds], length: int) -> Bounds:
    low, high = operands[0]
    return min(low, 0) * length, max(high, 0) * length


def _prod_bounds(operands: Sequence[Bounds], length: int) -> Bounds:
    largest = _largest(operands)
    power = largest ** min(length, 64) if largest > 1 else 1
    return -power, power


def _within(power: int, factor: int = 1) -> Callable[[Sequence[Bounds], int], Bounds]:
    """Return bounds of plus and minus factor * magnitude ** power, for the largest magnitude of the operands."""

    def bounds(operands: Sequence[Bounds], length: int) -> Bounds:
        most = factor * _largest(operands) ** power
        return -most, most

    return bounds


# --- the table


def _inexact(function: Callable[..., Any], flops: int, arity: int = 1, **more: Any) -> Primitive:
    return Primitive(arity, function, flops=flops, inexact=True, **more)


def _step(function: Callable[..., Any]) -> Primitive:
    return Primitive(1, function, error="step")


def _comparison(function: Callable[..., Any]) -> Primitive:
    return Primitive(2, function, "bool", folds=True, error="step")


def _extreme_of_two(function: Callable[..., Any]) -> Primitive:
    return Primitive(2, function, error="chosen", sign="nonnegative of nonnegative", bounds=_hull)


def _extreme_of_row(function: Callable[..., Any], empty: float) -> Primitive:
    reduce = _extreme(function, empty)
    return Primitive(1, reduce, reduces=True, error="chosen", sign="nonnegative of nonnegative", bounds=_hull)


def _position(function: Callable[..., Any]) -> Primitive:
    return Primitive(1, lambda x: function(x, axis=-1, keepdims=True), "position", flops=2, reduces=True, error="step")


PRIMITIVES: Final[dict[str, Primitive]] = {
    "load": Primitive(0, _special, "explicit", 0),
    "scalar": Primitive(0, _special, "explicit", 0),
    "constant": Primitive(0, _special, "explicit", 0),
    "index": Primitive(0, _special, "position", 0),
    # A cast is a step if its result is an integer.
    "cast": Primitive(1, _special, "explicit", error="step", bounds=_hull),
    "round_bfloat16": Primitive(1, _rounded(bfloat16.numpy), error="kept"),
    "round_float16": Primitive(1, _rounded(np.float16), error="kept"),
    "add": Primitive(
        2,
        np.add,
        folds=True,
        error="kept of nonnegative",
        sign="nonnegative of nonnegative",
        bounds=_within(1, factor=2),
    ),
    "sub": Primitive(2, np.subtract, folds=True, bounds=_within(1, factor=2)),
    "mul": _inexact(np.multiply, 1, 2, folds=True, error="kept", sign="nonnegative of nonnegative", bounds=_within(2)),
    "div": _inexact(np.divide, 4, 2, error="kept", sign="nonnegative of nonnegative"),
    "maximum": _extreme_of_two(np.maximum),
    "minimum": _extreme_of_two(np.minimum),
    "neg": Primitive(1, np.negative, folds=True, error="chosen", bounds=_within(1)),
    "abs": Primitive(1, np.absolute, folds=True, error="chosen", sign="nonnegative", bounds=_within(1)),
    "floor": _step(np.floor),
    "ceil": _step(np.ceil),
    "trunc": _step(np.trunc),
    "rint": _step(np.rint),
    "sqrt": _inexact(np.sqrt, 4, error="kept", sign="nonnegative"),
    "exp": _inexact(np.exp, 16, sign="nonnegative"),
    "expm1": _inexact(np.expm1, 20),
    "log": _inexact(np.log, 20),
    "log1p": _inexact(np.log1p, 24, error="kept of nonnegative", sign="nonnegative of nonnegative"),
    "log2": _inexact(np.log2, 22),
    "log10": _inexact(_in_float64(np.log10), 23),  # NumPy's float32 version is not exact for powers of ten.
    "sin": _inexact(np.sin, 24),
    "cos": _inexact(np.cos, 24),
    "tanh": _inexact(np.tanh, 20, error="kept"),
    "atan": _inexact(np.arctan, 24, error="kept"),
    "erf": _inexact(_in_float64(np.vectorize(math.erf, otypes=[np.float64])), 28, error="kept"),
    "pow": _inexact(np.power, 60, 2),
    "fmod": Primitive(2, np.fmod, flops=12, error="step"),
    "eq": _comparison(np.equal),
    "ne": _comparison(np.not_equal),
    "lt": _comparison(np.less),
    "le": _comparison(np.less_equal),
    "gt": _comparison(np.greater),
    "ge": _comparison(np.greater_equal),
    "and": Primitive(2, np.bitwise_and),
    "or": Primitive(2, np.bitwise_or),
    "xor": Primitive(2, np.bitwise_xor),
    "not": Primitive(1, np.invert),
    "shift_left": Primitive(2, _shift(np.left_shift)),
    "shift_right": Primitive(2, _shift(np.right_shift)),
    "select": Primitive(3, np.where, "explicit", error="chosen", bounds=lambda operands, n: _hull(operands[1:], n)),
    "row_sum": Primitive(
        1, _sum, reduces=True, error="kept of nonnegative", sign="nonnegative of nonnegative", bounds=_sum_bounds
    ),
    "row_prod": Primitive(
        1, lambda x: np.prod(x, axis=-1, keepdims=True, dtype=x.dtype), reduces=True, bounds=_prod_bounds
    ),
    "row_max": _extreme_of_row(np.max, -math.inf),
    "row_min": _extreme_of_row(np.min, math.inf),
    "row_argmax": _position(np.argmax),
    "row_argmin": _position(np.argmin),
}
