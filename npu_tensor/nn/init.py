"""Initial values of parameters: functions that write to a tensor and return it without recording gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npu_tensor.dtypes import float64
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.creation import Generator, eye, rand, randn
from npu_tensor.functions.pytorch_arguments import no_grad
from npu_tensor.tensor import Tensor, from_array

__all__ = [
    "calculate_gain",
    "constant_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the recommended gain for the weights before an activation.

    Args:
        nonlinearity: Name of the activation.
        param: Slope of leaky_relu; None means 0.01.

    Raises:
        ArgumentError: The activation is unknown.
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity in ("linear", "sigmoid") or nonlinearity.startswith("conv"):
        return 1.0
    if nonlinearity not in _GAINS:
        raise ArgumentError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def _write(tensor: Tensor, value: Tensor) -> Tensor:
    with no_grad():
        return tensor._assign(value.to(tensor.dtype))


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with uniform random numbers from [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with normal random numbers."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill a tensor with normal random numbers, truncated to [a, b]."""
    low, high = (math.erf((bound - mean) / std / math.sqrt(2)) for bound in (a, b))
    y = rand(tensor.shape, generator=generator, dtype=float64) * (high - low) + low
    x = y.clamp(-1 + 1e-15, 1 - 1e-15).erfinv()
    return _write(tensor, (x * (std * math.sqrt(2)) + mean).clamp(a, b))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill a tensor with one number."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill a tensor with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill a tensor with zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity. Raises ShapeError for other numbers of dimensions."""
    if tensor.ndim != 2:
        raise ShapeError("eye_: only tensors with 2 dimensions are supported")
    return _write(tensor, eye(*tensor.shape))


def _fans(tensor: Tensor) -> tuple[int, int]:
    """Return the inputs per output and the outputs per input of a weight (outputs, inputs, *places)."""
    if tensor.ndim < 2:
        raise ShapeError("fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    places = math.prod(tensor.shape[2:])
    return tensor.shape[1] * places, tensor.shape[0] * places


def _spread(tensor: Tensor, gain: float, fan: float) -> float:
    return gain / math.sqrt(fan) if tensor.numel() else 0.0


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with uniform random numbers of variance 2 gain^2 / (fan in + fan out)."""
    bound = math.sqrt(3) * _spread(tensor, gain, sum(_fans(tensor)) / 2)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with normal random numbers of variance 2 gain^2 / (fan in + fan out)."""
    return normal_(tensor, 0.0, _spread(tensor, gain, sum(_fans(tensor)) / 2), generator)


def _kaiming(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    """Return the standard deviation for a weight before an activation."""
    modes = ("fan_in", "fan_out")
    if mode not in modes:
        raise ArgumentError(f"Mode {mode} not supported, please use one of {modes}")
    return _spread(tensor, calculate_gain(nonlinearity, a), _fans(tensor)[modes.index(mode)])


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill a tensor with uniform random numbers of variance gain^2 / fan.

    Args:
        tensor: Weight (outputs, inputs, ...).
        a: Slope of leaky_relu.
        mode: "fan_in" or "fan_out".
        nonlinearity: Activation after the weight, which determines the gain.
        generator: Source of random numbers.
    """
    bound = math.sqrt(3) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill a tensor with normal random numbers of variance gain^2 / fan; see `kaiming_uniform_`."""
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with a random orthogonal matrix times gain, treating dimensions after the first as one.

    NumPy computes the matrix immediately.

    Raises:
        ShapeError: The tensor has fewer than two dimensions.
    """
    if tensor.ndim < 2:
        raise ShapeError("orthogonal_: only tensors with 2 or more dimensions are supported")
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    numbers: Any = randn(max(rows, columns), min(rows, columns), generator=generator, dtype=float64).numpy()
    q, r = np.linalg.qr(numbers)
    q = q * np.sign(np.diag(r))  # Makes all orthogonal matrices equally likely.
    return _write(tensor, from_array((q.T if rows < columns else q) * gain).reshape(tensor.shape))
