"""npu_tensor itself, recorded and realized at every call, or captured once by nt.jit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Final

import numpy as np

import npu_tensor as nt

from ..timing import Call
from .library import Library

NAME: Final = "npu_tensor"
JITTED: Final = "npu_tensor jit"
OURS: Final = (NAME, JITTED)
"""Contenders of npu_tensor. All others are peers."""


class NpuTensor(Library):
    """npu_tensor as in a script: every call records the ops and realizes the result."""

    name = NAME
    version = nt.__version__
    dtypes = frozenset({"float32", "bfloat16", "float16", "int8"})

    def __init__(self, device: str = "cpu") -> None:
        """Create a contender for a device URI. Inside `around`, all ops with a kernel run there, regardless of cost."""
        self.device = device

    exp = staticmethod(nt.exp)
    tanh = staticmethod(nt.tanh)
    gelu = staticmethod(partial(nt.gelu, approximate="tanh"))
    gelu_erf = staticmethod(nt.gelu)
    relu = staticmethod(nt.relu)
    silu = staticmethod(nt.silu)
    softmax = staticmethod(partial(nt.softmax, dim=-1))
    matmul = staticmethod(nt.matmul)
    linear = staticmethod(nt.linear)
    swapped = staticmethod(nt.swapaxes)
    conv2d = staticmethod(nt.conv2d)

    @staticmethod
    def rms_norm(x: nt.Tensor, epsilon: float) -> nt.Tensor:
        return nt.rms_norm(x, x.shape[-1:], eps=epsilon)

    @staticmethod
    def scaled_rms_norm(x: nt.Tensor, weight: nt.Tensor, epsilon: float) -> nt.Tensor:
        return nt.rms_norm(x, x.shape[-1:], weight, epsilon)

    @staticmethod
    def rotated(*tensors: nt.Tensor, cosines: nt.Tensor, sines: nt.Tensor) -> list[nt.Tensor]:
        positions = nt.arange(len(tensors[0]))
        return [nt.rope(x, positions, mode="neox") for x in tensors]

    @staticmethod
    def attention(query: nt.Tensor, key: nt.Tensor, value: nt.Tensor, mask: nt.Tensor) -> nt.Tensor:
        return nt.scaled_dot_product_attention(query, key, value, is_causal=True)

    @staticmethod
    def linear_int8(x: nt.Tensor, weights: nt.Tensor) -> nt.Tensor:
        return nt.mul_mat(weights, x)

    @staticmethod
    def to(x: nt.Tensor, dtype: str) -> nt.Tensor:
        return x.to(dtype)

    def operand(self, values: np.ndarray, dtype: str) -> nt.Tensor:
        return nt.from_numpy(values).to(dtype).realize()

    def values(self, result: nt.Tensor) -> np.ndarray:
        return result.numpy() if result.dtype.name.startswith("int") else result.to(nt.float32).numpy()

    def around(self) -> AbstractContextManager[Any]:
        if self.device == nt.get_default_device():
            return nullcontext()
        return nt.default_device(self.device, policy="always")

    def call(self, compute: Callable[..., Any], operands: tuple[Any, ...], constants: int = 0) -> Call:
        return lambda: compute(self, *operands).realize()


class Jitted(NpuTensor):
    """npu_tensor inside nt.jit, as models run."""

    name = JITTED

    def call(self, compute: Callable[..., Any], operands: tuple[Any, ...], constants: int = 0) -> Call:
        fresh = len(operands) - constants
        parameters = operands[fresh:]
        return partial(nt.jit(lambda *new: compute(self, *new, *parameters)), *operands[:fresh])
