"""tinygrad on the processor, which needs clang."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np
from tinygrad import Device, Tensor, TinyJit
from tinygrad.dtype import dtypes

from ..timing import Call
from .library import Library

DEVICE = "CPU"


def _compiles_bfloat16() -> bool:
    """Return True if clang supports bfloat16, which needs version 15."""
    try:
        Tensor([1.0], device=DEVICE).cast(dtypes.bfloat16).realize()
    except subprocess.CalledProcessError:
        return False
    return True


class TinyGrad(Library):
    """tinygrad with one TinyJit per workload. `load` sets the number of threads before the import."""

    name = "tinygrad"
    version = metadata.version("tinygrad")

    exp = staticmethod(Tensor.exp)
    tanh = staticmethod(Tensor.tanh)
    gelu = staticmethod(Tensor.gelu)
    relu = staticmethod(Tensor.relu)
    silu = staticmethod(Tensor.silu)
    softmax = staticmethod(Tensor.softmax)
    matmul = staticmethod(Tensor.matmul)

    def __init__(self, threads: int) -> None:
        (Tensor([1.0], device=DEVICE) + 1).realize()  # Raises here, once, without a compiler.
        if not _compiles_bfloat16():
            self.dtypes = self.dtypes - {"bfloat16"}

    @staticmethod
    def rms_norm(x: Any, epsilon: float) -> Any:
        wide = x.float()
        return (wide * ((wide * wide).mean(-1, keepdim=True) + epsilon).rsqrt()).cast(x.dtype)

    @staticmethod
    def linear(x: Any, weights: Any, bias: Any = None) -> Any:
        return x.linear(weights.T, bias)

    @staticmethod
    def to(x: Any, dtype: str) -> Any:
        return x.cast(getattr(dtypes, dtype))

    @staticmethod
    def concatenated(first: Any, *others: Any) -> Any:
        return first.cat(*others, dim=-1)

    swapped = staticmethod(Tensor.transpose)

    def operand(self, values: np.ndarray, dtype: str) -> Any:
        return Tensor(values, device=DEVICE).cast(getattr(dtypes, dtype)).contiguous().realize()

    def values(self, result: Any) -> np.ndarray:
        values: np.ndarray = result.float().numpy()
        return values

    def call(self, compute: Callable[..., Any], operands: tuple[Any, ...], constants: int = 0) -> Call:
        function = TinyJit(lambda *operands: partial(compute, self)(*operands).realize())
        device = Device[DEVICE]

        def run() -> Any:
            result = function(*operands)
            device.synchronize()
            return result

        return run
