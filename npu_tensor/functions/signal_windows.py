"""Windows of signals with the names of torch.signal.windows, as `npu_tensor.signal.windows`.

M is the number of elements. With sym=False, the window is one period: the symmetric one of M + 1 without its last
element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from npu_tensor.errors import ArgumentError, DTypeError
from npu_tensor.functions.creation import zeros
from npu_tensor.tensor import Tensor, from_array

__all__ = [
    *("bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming"),
    *("hann", "kaiser", "nuttall"),
]

Shape = Callable[[Any, int], Any]


def _window(shape: Shape, M: int, sym: bool, options: dict[str, Any]) -> Tensor:
    """Return shape(0, 1, ..., number of elements), in the dtype of the options."""
    if M < 0:
        raise ArgumentError(f"the number of elements of a window must not be negative: {M}")
    like = zeros(M, **options)
    if not like.is_floating_point():
        raise DTypeError(f"windows are floats, not {like.dtype.name}")
    length = M if sym else M + 1
    values = shape(np.arange(float(length)), length) if M > 1 else np.ones(M)
    return from_array(values[:M], like.dtype).requires_grad_(like.requires_grad)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Tensor:
    """Return the sum of a[i] * cos(i * t) with alternating signs for t from 0 to 2 pi."""
    weights = [(-1) ** place * weight for place, weight in enumerate(a)]

    def shape(k: Any, length: int) -> Any:
        turn = 2 * np.pi * k / (length - 1)
        return sum(weight * np.cos(place * turn) for place, weight in enumerate(weights))

    return _window(shape, M, sym, options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """Return alpha - (1 - alpha) * cos(t) for t from 0 to 2 pi."""
    return general_cosine(M, a=(alpha, 1 - alpha), sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Return 0.54 - 0.46 * cos(t) for t from 0 to 2 pi."""
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Return 0.5 - 0.5 * cos(t) for t from 0 to 2 pi."""
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Return 0.42 - 0.5 * cos(t) + 0.08 * cos(2 * t) for t from 0 to 2 pi."""
    return general_cosine(M, a=(0.42, 0.5, 0.08), sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Return the sum of four cosines with the smallest side lobes."""
    return general_cosine(M, a=(0.3635819, 0.4891775, 0.1365995, 0.0106411), sym=sym, **options)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Return a triangle that is 0 at the ends."""
    return _window(lambda k, length: 1 - abs(2 * k / (length - 1) - 1), M, sym, options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Return half a period of a sine."""
    return _window(lambda k, length: np.sin((k + 0.5) * np.pi / length), M, sym, options)


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """Return exp(-|k - center| / tau); the middle is the center by default."""
    if tau <= 0 or (sym and center is not None):
        raise ArgumentError(f"tau must be positive, and a symmetric window has no center: {tau}, {center}")

    def shape(k: Any, length: int) -> Any:
        return np.exp(-abs(k - ((length - 1) / 2 if center is None else center)) / tau)

    return _window(shape, M, sym, options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """Return exp(-((k - center) / std)^2 / 2)."""
    if std <= 0:
        raise ArgumentError(f"std must be positive, not {std}")
    return _window(lambda k, length: np.exp(-(((k - (length - 1) / 2) / std) ** 2) / 2), M, sym, options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Tensor:
    """Return Kaiser's window with a shape parameter."""
    if beta < 0:
        raise ArgumentError(f"beta must not be negative: {beta}")
    return _window(lambda k, length: np.kaiser(length, beta), M, sym, options)
