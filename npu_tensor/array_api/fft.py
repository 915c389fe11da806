"""The standard's extension for Fourier transforms, without the transforms, which need complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import npu_tensor
from npu_tensor.array_api.promotion import of_numpy
from npu_tensor.dtypes import default_dtype
from npu_tensor.tensor import Tensor

__all__: list[str] = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]

fftshift, ifftshift = of_numpy(np.fft.fftshift), of_numpy(np.fft.ifftshift)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of a transform of n samples at a distance d, negative ones last."""
    return npu_tensor.asarray(np.fft.fftfreq(n, d), dtype or default_dtype(float), device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of a transform of n real samples at a distance d."""
    return npu_tensor.asarray(np.fft.rfftfreq(n, d), dtype or default_dtype(float), device)
