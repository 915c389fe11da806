"""Compiled arange against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import npu_tensor as nt


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize(
    "bounds", [(0, 10, 1), (5, 500, 7), (3, -40, -2), (0, 100_000, 1), (4, 4, 1), (2**30, 2**30 + 3, 1)]
)
def test_integers(bounds: tuple[int, int, int], dtype: str) -> None:
    y = nt.arange(*bounds, dtype=dtype)
    (row,) = nt.explain(y)
    assert row.kernel == "map"
    np.testing.assert_array_equal(y.numpy(), np.arange(*bounds).astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_other_numbers_are_left_to_numpy(dtype: str) -> None:
    """A step of 0.1 is exact to float64's last bit before it is multiplied, and rounded once after it."""
    y = nt.arange(-1.0, 2.0, 0.1, dtype=dtype)
    (row,) = nt.explain(y)
    assert row.kernel == "numpy"
    expected = nt.from_numpy(-1.0 + np.arange(30) * 0.1).to(dtype)
    np.testing.assert_array_equal(y.numpy(), expected.numpy())


def test_the_numbers_may_change() -> None:
    """Start and step do not belong to the structure: both run the same kernel."""
    result = [nt.arange(start, start + 5).tolist() for start in (0, -7)]
    assert result == [[0, 1, 2, 3, 4], [-7, -6, -5, -4, -3]]


def test_numbers_beyond_64_bits() -> None:
    with pytest.raises(nt.NpuTensorError):
        nt.arange(2**70, 2**70 + 3).tolist()
