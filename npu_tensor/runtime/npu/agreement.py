"""Whether what a device computed agrees with what the CPU computes, and if not, in words how it differs.

    # expected: what the CPU computes from operands `as_read` by the device
    if reason := disagreement(got, expected, tolerance(task, output=0)):
        print(reason)  # "512 of 1024 elements differ (50.00%), NMSE 0.98; the first is 0.0 instead of 1.5 at [3]"

What a float may differ by follows from how the device computes it, and is data here: `ACCURATE` for operands that a
test chose, `SANE` for a user's. Integers must be equal, unless a float that is rounded decides what they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.dtypes import DType, bfloat16, float16, float32
from npu_tensor.errors import ArgumentError
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.ops.analysis import takes_steps_on_inexact
from npu_tensor.task import Task

__all__ = ["ACCURATE", "EXACT", "SANE", "Tolerance", "as_read", "disagreement", "nmse", "tolerance"]

Array = np.ndarray[Any, Any]


class Tolerance(NamedTuple):
    """How far a result may be off.

    element: what one element may differ by, as a part of its own magnitude plus the root mean square of all.
    share: how many elements may differ by more.
    nmse: normalised mean squared error of the others.
    kinds: whether NaN and the infinities are told apart; what is not finite must be so on both sides in any case.
    reason: why a result within these limits is no mistake.
    """

    element: float
    share: float
    nmse: float
    kinds: bool
    reason: str


EXACT: Final = Tolerance(0.0, 0.0, 0.0, True, "nothing is rounded")

SHARE_OF_STEPS: Final = 1 / 32
"""Elements that may come out on the other side of a step (comparison, rounding to integers, index of a maximum)."""

ACCURATE: Final[Mapping[DType, Tolerance]] = {
    # An element that is rounded to the other neighbour is off by 2^-7 of its magnitude at most, and where that
    # happens to all of them the NMSE is 3e-5. Computing with fewer bits than float32 before that is a rare one.
    bfloat16: Tolerance(2.0**-6, 0.0, 1e-5, True, "rounded to bfloat16, maybe to the other neighbour"),
    # Half a unit of bfloat16 in every element is an NMSE of 1.3e-6 to 5e-6, as magnitudes lie in their binades.
    float16: Tolerance(2.0**-6, 0.0, 1e-5, True, "rounded to bfloat16 instead of float16"),
    # Rounding the operands to bfloat16 would be an NMSE of 1e-6 at least, so this tells emulation from that.
    float32: Tolerance(2.0**-12, 0.0, 1e-9, True, "float32 from several bfloat16 products, added in another order"),
}
"""By dtype of the result, for finite operands of which little cancels."""

FEW: Final = 1 / 1024
"""Elements that may be off by any amount: nearly all of them may cancel, or a quotient makes a rounding that large."""

_FEW_BITS: Final = Tolerance(2.0**-4, FEW, 1e-3, False, "computed with fewer bits than float32, then rounded")
SANE: Final[Mapping[DType, Tolerance]] = {
    # The result may be a hundredth of its terms, and these may be off by 2^-12 of theirs.
    bfloat16: _FEW_BITS,
    float16: _FEW_BITS,
    float32: Tolerance(2.0**-6, FEW, 1e-5, False, "float32 from several bfloat16 products, of which much may cancel"),
}
"""By dtype of the result, for a user's operands. What a broken context leaves, which is zeros, noise, or old or shifted
data, has an NMSE of about 1. NaN passes for infinity: what infinity leaves for the other parts of a float32 is NaN."""

COARSE: Final = Tolerance(2.0**-3, FEW, 1e-3, False, "a rounding is a hundredth of the largest number in a block")
COARSE_AND_SANE: Final = COARSE._replace(element=2.0**-1, nmse=1e-1)
"""For operands that share exponents or scales, chosen ones and a user's, of which much may cancel."""

LEAST_NORMAL: Final = float(np.finfo(np.float32).smallest_normal)
"""Smaller ones, of float32 and of bfloat16, count as 0: the cores flush them."""


def as_read(host: HostOperand, values: Array) -> Array:
    """A tensor's elements as the device computes with them, in the dtype they had: float16 passes through bfloat16.

    host: how the tensor fills a host buffer. Without this, the CPU sees digits that the device does not have, and
    where they matter, as in 1000.5 - 1000, nothing can be said about the device.
    """
    if values.dtype == host.dtype or host.order is not None:
        return values
    with np.errstate(all="ignore"):
        return values.astype(host.dtype).astype(values.dtype)


def tolerance(task: Task, output: int = 0, *, chosen: bool = False, coarse: bool = False) -> Tolerance:
    """What result number `output` of a task may differ by. chosen: whether the operands are those of a test.

    coarse: as `Offer` has it.
    """
    dtype = task.outputs[output].dtype
    if _moves(task) and all(operand.dtype is dtype for operand in task.inputs[:1]):
        return EXACT
    sums = (0,) if task.kind == "matmul" else ()  # of products, which a device adds in an order of its own
    steps = task.program is not None and takes_steps_on_inexact(task.program, sums)
    share = SHARE_OF_STEPS if steps else 0.0
    if not dtype.is_floating_point:
        return EXACT._replace(share=share, reason="a rounding may decide between two integers") if share else EXACT
    table = ACCURATE if chosen else SANE
    allowed = (COARSE if chosen else COARSE_AND_SANE) if coarse else table.get(dtype, table[float32])
    return allowed._replace(share=max(allowed.share, share))


def _moves(task: Task) -> bool:
    """Whether elements are only put elsewhere; an index beside them decides where."""
    if task.kind == "map" and task.program is not None:
        return {instruction.primitive for instruction in task.program.instructions} == {"load"}
    return task.kind == "data" and not any(call.op.computes for call in task.calls)


def nmse(got: Array, expected: Array) -> float:
    """Sum of squared errors over sum of squares, of the elements that are finite on both sides; 0 if none is off."""
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
    """As float64, without what the cores flush."""
    with np.errstate(invalid="ignore"):  # Noise may be a signalling NaN.
        wide = values.astype(np.float64)
    return np.where(np.abs(wide) < LEAST_NORMAL, 0.0, wide)


def disagreement(got: Array, expected: Array, allowed: Tolerance) -> str | None:
    """What is wrong with a result in words, or None. Both arrays in the dtype that is stored, of equal shape.

    Zeros may differ in their sign. Raises ArgumentError for arrays that cannot be compared.
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
    """What to say if more elements are wrong than may be. Of a single element none may be."""
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
