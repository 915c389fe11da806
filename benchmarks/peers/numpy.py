"""NumPy in float32 with its own BLAS. In float64, it is the reference."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from .library import Library


class NumPy(Library):
    """NumPy in float32 only. With 16-bit elements, the conversions of ml_dtypes in each op would dominate."""

    name = "numpy"
    version = np.__version__
    dtypes = frozenset({"float32"})

    exp = staticmethod(np.exp)
    tanh = staticmethod(np.tanh)
    matmul = staticmethod(np.matmul)

    def __init__(self, threads: int) -> None:
        from threadpoolctl import threadpool_limits  # The reference does not need it.

        self._limits = threadpool_limits(threads, user_api="blas")

    @staticmethod
    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))

    @staticmethod
    def relu(x: Any) -> Any:
        return np.maximum(x, 0)

    @staticmethod
    def silu(x: Any) -> Any:
        return x / (1 + np.exp(-x))

    @staticmethod
    def softmax(x: Any) -> Any:
        powers = np.exp(x - x.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    @staticmethod
    def rms_norm(x: Any, epsilon: float) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)

    @staticmethod
    def linear(x: Any, weights: Any, bias: Any = None) -> Any:
        return x @ weights.T if bias is None else x @ weights.T + bias

    @staticmethod
    def concatenated(*parts: Any) -> Any:
        return np.concatenate(parts, -1)

    swapped = staticmethod(np.swapaxes)

    def operand(self, values: np.ndarray, dtype: str) -> np.ndarray:
        return values

    def values(self, result: np.ndarray) -> np.ndarray:
        return result


class Reference(NumPy):
    """Reference of all contenders: NumPy in float64, on operands rounded to the dtype."""

    name = "reference"

    def __init__(self) -> None:
        """Create a reference. It is not timed, so the number of threads does not matter."""

    gelu_erf = staticmethod(lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))))

    @staticmethod
    def to(x: Any, dtype: str) -> Any:
        return _rounded(x, dtype)

    @staticmethod
    def linear_int8(x: Any, weights: Any) -> Any:
        return x @ weights.T  # exact in float64 for rows of up to 2^39 elements

    @staticmethod
    def conv2d(x: Any, weights: Any, stride: int, padding: int, groups: int) -> Any:
        padded = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
        windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape[2:], (2, 3))
        parts = zip(np.split(windows[:, :, ::stride, ::stride], groups, 1), np.split(weights, groups), strict=True)
        return np.concatenate([np.tensordot(x, w, ((1, 4, 5), (1, 2, 3))) for x, w in parts], 3).transpose(0, 3, 1, 2)

    def operand(self, values: np.ndarray, dtype: str) -> np.ndarray:
        return _rounded(values, dtype)


def _rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Round values to a dtype and return them in float64."""
    return values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype).astype(np.float64)
