"""Division of floats with rounding, beside NumPy and Python."""

import math

import numpy as np
import pytest

import npu_tensor as nt

SPECIAL = [0.0, -0.0, 1.0, -1.0, 3.5, -2.5, 1e-40, 1e30, -1e30, math.inf, -math.inf, math.nan]


def operands() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    whole = rng.integers(-50, 50, (2, 4000)).astype(np.float32)
    pairs = [whole, whole * np.float32(0.1), rng.standard_normal((2, 4000), np.float32) * [[1e9], [1]]]
    special = np.array(SPECIAL)
    pairs.append(np.stack([np.repeat(special, special.size), np.tile(special, special.size)]))
    x, y = np.concatenate(pairs, axis=1).astype(np.float32)
    return x, y


@pytest.mark.covers("fmod_float", "remainder_float", "floor_divide_float")
@np.errstate(all="ignore")
def test_floats_are_divided_as_in_numpy() -> None:
    """A remainder of zero has the sign of the dividend, as in PyTorch; infinite quotients stay infinite."""
    x, y = operands()
    ours_x, ours_y = nt.from_numpy(x), nt.from_numpy(y)
    np.testing.assert_array_equal(nt.fmod(ours_x, ours_y).numpy(), np.fmod(x, y))

    rest = (ours_x % ours_y).numpy()
    finite = np.isfinite(x) & np.isfinite(y)
    np.testing.assert_array_equal(rest[finite], np.remainder(x, y)[finite])
    zero = rest == 0
    np.testing.assert_array_equal(np.signbit(rest)[zero], np.signbit(x)[zero])

    quotient, expected = (ours_x // ours_y).numpy(), np.where(finite, np.floor_divide(x, y), np.floor(x / y))
    np.testing.assert_array_equal(quotient, expected)
    np.testing.assert_array_equal(np.signbit(quotient), np.signbit(np.where(np.isnan(expected), quotient, expected)))


def test_a_divisor_of_zero_raises_for_integers_only() -> None:
    ones = nt.ones(3, dtype=nt.int32)
    for function in (nt.floor_divide, nt.remainder, nt.fmod):
        with pytest.raises(ZeroDivisionError, match=rf"{function.__name__}\(int32\[3\]"):
            function(ones, nt.zeros(3, dtype=nt.int32)).tolist()
        with pytest.raises(nt.DTypeError, match="bool"):
            function(ones > 0, ones > 0)
