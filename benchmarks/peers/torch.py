"""PyTorch in eager mode."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from .library import Library


class PyTorch(Library):
    """PyTorch in eager mode, without gradients."""

    name = "torch"
    version = torch.__version__
    dtypes = frozenset({"float32", "bfloat16", "float16", "int8"})

    exp = staticmethod(torch.exp)
    tanh = staticmethod(torch.tanh)
    gelu = staticmethod(partial(functional.gelu, approximate="tanh"))
    gelu_erf = staticmethod(functional.gelu)
    relu = staticmethod(functional.relu)
    silu = staticmethod(functional.silu)
    softmax = staticmethod(partial(torch.softmax, dim=-1))
    matmul = staticmethod(torch.matmul)
    linear = staticmethod(functional.linear)
    swapped = staticmethod(torch.swapaxes)
    conv2d = staticmethod(functional.conv2d)

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)

    def around(self) -> AbstractContextManager[Any]:
        mode: AbstractContextManager[Any] = torch.inference_mode()
        return mode

    @staticmethod
    def rms_norm(x: Any, epsilon: float) -> Any:
        return functional.rms_norm(x, x.shape[-1:], eps=epsilon)

    @staticmethod
    def scaled_rms_norm(x: Any, weight: Any, epsilon: float) -> Any:
        return functional.rms_norm(x, x.shape[-1:], weight, epsilon)

    @staticmethod
    def attention(query: Any, key: Any, value: Any, mask: Any) -> Any:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)

    @staticmethod
    def concatenated(*parts: Any) -> Any:
        return torch.cat(parts, -1)

    @staticmethod
    def linear_int8(x: Any, weights: Any) -> Any:
        return torch._int_mm(x, weights.t())  # PyTorch's only int8 product

    @staticmethod
    def to(x: Any, dtype: str) -> Any:
        return x.to(getattr(torch, dtype))

    def operand(self, values: np.ndarray, dtype: str) -> Any:
        return torch.from_numpy(values.copy()).to(getattr(torch, dtype))

    def values(self, result: Any) -> np.ndarray:
        values: np.ndarray = (result if result.dtype == torch.int32 else result.float()).numpy()
        return values
