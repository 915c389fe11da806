"""What is done with the parameters of a module as a whole."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.creation import zeros
from npu_tensor.functions.neural import wide
from npu_tensor.functions.pytorch_arguments import no_grad
from npu_tensor.functions.shape import cat, stack
from npu_tensor.tensor import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "vector_to_parameters"]


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Any]:
    several = (parameters,) if isinstance(parameters, Tensor) else parameters
    return [gradient for each in several if (gradient := getattr(each, "grad", None)) is not None]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Multiply the gradients so that the norm of all together is max_norm at most; returns what it was."""
    gradients = _gradients(parameters)
    if not gradients:
        return zeros(())
    with no_grad():
        norms = stack([wide(gradient).norm(norm_type) for gradient in gradients])
        total: Tensor = norms.norm(norm_type)
        if error_if_nonfinite and not math.isfinite(total.item()):
            raise ArgumentError(f"The total norm of order {norm_type} of the gradients is {total.item()}")
        # PyTorch adds 1e-6 to the norm.
        factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient._assign((gradient * factor).to(gradient.dtype))
    return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Clamp the elements of the gradients to [-clip_value, clip_value]."""
    with no_grad():
        for gradient in _gradients(parameters):
            gradient._assign(gradient.clamp(-clip_value, clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements, one parameter after the other."""
    return cat([each.reshape(-1) for each in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the elements of a vector to parameters, one after the other."""
    several = list(parameters)
    sizes = [each.numel() for each in several]
    if vec.shape != (sum(sizes),):
        raise ShapeError(f"the parameters have {sum(sizes)} elements, the vector has the shape {list(vec.shape)}")
    with no_grad():
        for each, part in zip(several, vec.split(sizes), strict=True):
            each._assign(part.reshape(each.shape).to(each.dtype))
