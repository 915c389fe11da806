"""Moving values between npu_tensor and PyTorch, and comparing them in units in the last place."""

from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.dtypes import DTYPES, DType

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")

TORCH_DTYPES = {dtype.name: getattr(torch, dtype.name) for dtype in DTYPES}

# Bits of the significand after the leading one, and the exponent of the smallest subnormal.
FORMATS = {"bfloat16": (7, -133), "float16": (10, -24), "float32": (23, -149), "float64": (52, -1074)}


def to_torch(tensor: nt.Tensor) -> Any:
    """The value as a torch tensor of the same dtype."""
    array = tensor.numpy()
    if tensor.dtype is nt.bfloat16:
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(array.copy())


def from_torch(tensor: Any) -> nt.Tensor:
    """The other way."""
    if tensor.dtype is torch.bfloat16:
        return nt.from_numpy(tensor.to(torch.float32).numpy()).to(nt.bfloat16)
    return nt.from_numpy(tensor.contiguous().numpy())


def float64_of(value: Any) -> Any:
    """Float tensors in float64, which PyTorch computes in without rounding to the dtype; others as they are."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(torch.float64)
    return value


def spacing(values: np.ndarray, dtype: DType) -> np.ndarray:
    """The distance of neighbouring numbers of the format around each value, as float64."""
    bits, smallest = FORMATS[dtype.name]
    with np.errstate(all="ignore"):
        exponents = np.floor(np.log2(np.abs(values)))
    return np.exp2(np.clip(np.where(np.isfinite(exponents), exponents - bits, smallest), smallest, 1000))


def assert_same(ours: nt.Tensor, expected: Any, ulps: float = 0, atol: float = 0.0, what: str = "") -> None:
    """`expected` (float64 for floats, else the dtype itself) rounded to the dtype of `ours`, within ulps + atol."""
    assert tuple(ours.shape) == tuple(expected.shape), f"{what}: shape {ours.shape}, expected {expected.shape}"
    if not ours.dtype.is_floating_point:
        np.testing.assert_array_equal(ours.numpy(), expected.numpy(), err_msg=what)
        return
    exact = expected.to(torch.float64).numpy()
    rounded = expected.to(TORCH_DTYPES[ours.dtype.name]).to(torch.float64).numpy()
    got = ours.numpy().astype(np.float64)
    with np.errstate(all="ignore"):
        allowed = ulps * spacing(rounded, ours.dtype) + atol
        fine = (np.abs(got - rounded) <= allowed) | (np.abs(got - exact) <= allowed)
        fine |= (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    if not np.all(fine):
        bad = np.argwhere(~fine)[:5]
        shown = [(tuple(map(int, at)), got[tuple(at)], rounded[tuple(at)]) for at in bad]
        raise AssertionError(
            f"{what}: {len(np.argwhere(~fine))} of {fine.size} differ, (index, got, expected): {shown}"
        )
