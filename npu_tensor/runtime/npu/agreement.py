"""Comparison of device results with CPU results, and description of the differences.

    # expected: CPU result from operands `as_read` by the device
    if reason := disagreement(got, expected, tolerance(task, output=0)):
        print(reason)  # "512 of 1024 elements differ (50.00%), NMSE 0.98; the first is 0.0 instead of 1.5 at [3]"

The tolerance of a float follows from its computation on the device: `ACCURATE` for operands that a test chooses, `SANE`
for a user's. Integers must be equal unless a rounded float decides them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from npu_tensor.dtypes import DType, bfloat16, float16, float32
from npu_tensor.errors import ArgumentError
from npu_tensor.kernels.block_floats import PackedOrder
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.ops.analysis import takes_steps_on_inexact
from npu_tensor.task import Task

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Allowed differences of a result.

    Attributes:
        element: Difference of an element, relative to its magnitude plus the root mean square of all.
        share: Share of elements that may differ by more.
        nmse: Normalized mean squared error of the other elements.
        kinds: True if NaN and the infinities must match. Non-finite elements must be non-finite on both sides anyway.
        reason: Source of differences within these limits.
    """

    element: float
    share: float
    nmse: float
    kinds: bool
    reason: str


EXACT: Final = Tolerance(0.0, 0.0, 0.0, True, "nothing is rounded")

SHARE_OF_STEPS: Final = 1 / 32
"""Share of elements on the other side of a step (comparison, rounding to integers, index of a maximum)."""

ACCURATE: Final[Mapping[DType, Tolerance]] = {
    # An element rounded to the other neighbour differs by at most 2^-7 of its magnitude. If all elements do, the NMSE
    # is 3e-5. Computing with fewer bits than float32 before that causes only a few.
    bfloat16: Tolerance(2.0**-6, 0.0, 1e-5, True, "rounded to bfloat16, maybe to the other neighbour"),
    # Half a unit of bfloat16 in every element is an NMSE of 1.3e-6 to 5e-6, depending on the magnitudes.
    float16: Tolerance(2.0**-6, 0.0, 1e-5, True, "rounded to bfloat16 instead of float16"),
    # Rounding the operands to bfloat16 causes an NMSE of at least 1e-6, so this limit detects it.
    float32: Tolerance(2.0**-12, 0.0, 1e-9, True, "float32 from several bfloat16 products, added in another order"),
}
"""Tolerances by dtype of the result, for finite operands with little cancellation."""

FEW: Final = 1 / 1024
"""Share of elements without a limit: nearly everything may cancel, or a quotient may amplify a rounding."""

_FEW_BITS: Final = Tolerance(2.0**-4, FEW, 1e-3, False, "computed with fewer bits than float32, then rounded")
SANE: Final[Mapping[DType, Tolerance]] = {
    # The result may be a hundredth of its terms, whose errors are up to 2^-12.
    bfloat16: _FEW_BITS,
    float16: _FEW_BITS,
    float32: Tolerance(2.0**-6, FEW, 1e-5, False, "float32 from several bfloat16 products, of which much may cancel"),
}
"""Tolerances by dtype of the result, for a user's operands. The output of a broken context (zeros, noise, old data) has
an NMSE of about 1. NaN passes for infinity because splitting an infinite float32 into parts produces NaN.
"""

COARSE: Final = Tolerance(
    2.0**-3, FEW, 1e-3, False, "a rounding is a hundredth of the largest number in a block, or of a function"
)
COARSE_AND_SANE: Final = replace(COARSE, element=2.0**-1, nmse=1e-1)
"""Tolerances for operands with shared exponents or scales, and for approximate functions: of chosen operands, and of a
user's with much cancellation.
"""

LEAST_NORMAL: Final = float(np.finfo(np.float32).smallest_normal)
"""Smallest number of float32 and bfloat16 that the cores do not flush to 0."""


def as_read(host: HostOperand, values: Array) -> Array:
    """Round elements to the dtype of a host buffer and back, as float16 passes through bfloat16.

    Otherwise the CPU would use digits that the device does not have. A difference of 1000.5 - 1000 would then be an
    artifact of the rounding and not an error of the device.
    """
    dtype = "bfloat16" if isinstance(host.order, PackedOrder) else host.dtype
    if values.dtype == dtype or (host.order is not None and dtype == "uint8"):  # bytes of quantized weights
        return values
    with np.errstate(all="ignore"):
        return values.astype(dtype).astype(values.dtype)


def tolerance(task: Task, output: int = 0, *, chosen: bool = False, coarse: bool = False) -> Tolerance:
    """Return the tolerance for a result of a task.

    Args:
        task: The task.
        output: Number of the result.
        chosen: True if a test chooses the operands.
        coarse: True if operands share exponents or scales, or functions are approximate, see `Offer`.
    """
    dtype = task.outputs[output].dtype
    if _moves(task) and all(operand.dtype is dtype for operand in task.inputs[:1]):
        return EXACT
    sums = (0,) if task.kind in ("matmul", "conv") else ()  # of products, which a device adds in an order of its own
    share = SHARE_OF_STEPS if takes_steps_on_inexact(task.program, sums) else 0.0
    if not dtype.is_floating_point:
        return replace(EXACT, share=share, reason="a rounding may decide between two integers") if share else EXACT
    table = ACCURATE if chosen else SANE
    allowed = (COARSE if chosen else COARSE_AND_SANE) if coarse else table.get(dtype, table[float32])
    return replace(allowed, share=max(allowed.share, share))


def _moves(task: Task) -> bool:
    """Return True if the task only moves elements."""
    if task.kind == "map":
        return {instruction.primitive for instruction in task.program.instructions} == {"load"}
    return task.kind == "data" and not any(call.op.computes for call in task.calls)


def nmse(got: Array, expected: Array) -> float:
    """Return the sum of squared errors over the sum of squares, for elements that are finite on both sides."""
    a, b = _wide(got), _wide(expected)
    finite = np.isfinite(a) & np.isfinite(b)
    return _nmse(a[finite], b[finite])


def _nmse(got: Array, expected: Array) -> float:
    error = _power(got - expected)
    if not error:
        return 0.0
    power = _power(expected)
    return error / power if power else math.inf


def _power(values: Array) -> float:
    with np.errstate(over="ignore"):
        return float(np.sum(np.square(values)))


def _wide(values: Array) -> Array:
    """Convert to float64 and flush what the cores flush."""
    with np.errstate(invalid="ignore"):  # Noise may be a signalling NaN.
        wide = values.astype(np.float64)
    return np.where(np.abs(wide) < LEAST_NORMAL, 0.0, wide)


def disagreement(got: Array, expected: Array, allowed: Tolerance) -> str | None:
    """Describe how a result differs from the expected one. Zeros may differ in their sign.

    Args:
        got: Result in the stored dtype.
        expected: Correct result of the same dtype and shape.
        allowed: Tolerance.

    Returns:
        The description, or None if the difference is within the tolerance.

    Raises:
        ArgumentError: Dtypes or shapes differ.
    """
    if got.shape != expected.shape or got.dtype != expected.dtype:
        first, second = (f"{array.dtype}{list(array.shape)}" for array in (got, expected))
        raise ArgumentError(f"{first} cannot be compared with {second}")
    if not got.size:
        return None
    if expected.dtype.kind in "biu":
        return _counted(got != expected, allowed, got, expected)
    a, b = _wide(got), _wide(expected)
    finite = np.isfinite(a) & np.isfinite(b)
    scale = math.sqrt(_power(b[finite]) / max(1, int(np.count_nonzero(finite))))
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= allowed.element * (np.abs(b) + scale)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not allowed.kinds:
        same |= ~np.isfinite(a) & ~np.isfinite(b)
    right = np.where(finite, near, same)
    if reason := _counted(~right, allowed, got, expected):
        return reason
    comparable = right & finite
    error = _nmse(a[comparable], b[comparable])
    if error > allowed.nmse:
        return f"{_differing(~same, got, expected)}; at most {allowed.nmse:.2g} is allowed ({allowed.reason})"
    return None


def _counted(wrong: Array, allowed: Tolerance, got: Array, expected: Array) -> str | None:
    """Describe the wrong elements if there are more than allowed. A single element must be right."""
    count = int(np.count_nonzero(wrong))
    if count <= round(allowed.share * wrong.size):
        return None
    return _differing(wrong, got, expected)


def _differing(wrong: Array, got: Array, expected: Array) -> str:
    count = int(np.count_nonzero(wrong))
    place = tuple(int(index) for index in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    part = f"{count} of {wrong.size} elements differ ({count / wrong.size:.2%})"
    error = nmse(got, expected)
    return f"{part}, NMSE {error:.2g}; the first is {got[place]} instead of {expected[place]} at {list(place)}"
