"""Functions of all parameters of a module."""

from __future__ import annotations

import math
from collections.abc import Iterable

from npu_tensor.errors import ArgumentError
from npu_tensor.functions.creation import zeros
from npu_tensor.functions.pytorch_arguments import no_grad
from npu_tensor.functions.register import wide
from npu_tensor.functions.shape import cat, stack
from npu_tensor.tensor import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "vector_to_parameters"]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scale gradients so that their total norm is at most max_norm.

    Args:
        parameters: Parameters whose gradients are scaled in place.
        max_norm: Upper bound on the norm.
        norm_type: Order of the norm.
        error_if_nonfinite: Raise an error if the norm is infinite or NaN.

    Returns:
        The total norm before scaling.

    Raises:
        ArgumentError: The norm is not finite and `error_if_nonfinite` is set.
    """
    several = (parameters,) if isinstance(parameters, Tensor) else parameters
    gradients = [parameter.grad for parameter in several if parameter.grad is not None]
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
    """Clamp the elements of gradients to [-clip_value, clip_value] in place.

    Args:
        parameters: Parameters whose gradients are clamped.
        clip_value: Upper bound on the magnitude of an element.
    """
    for parameter in (parameters,) if isinstance(parameters, Tensor) else parameters:
        if parameter.grad is not None:
            with no_grad():
                parameter.grad.clamp_(-clip_value, clip_value)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Concatenate the elements of all parameters."""
    return cat([each.reshape(-1) for each in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write consecutive elements of a vector to the parameters in place; inverse of `parameters_to_vector`.

    Raises:
        ArgumentError: The vector has another number of elements than the parameters.
    """
    several = [*parameters]
    sizes = [each.numel() for each in several]
    if list(vec.shape) != [sum(sizes)]:
        raise ArgumentError(f"{sum(sizes)} elements of parameters need a vector of as many, not {list(vec.shape)}")
    with no_grad():
        for each, part in zip(several, vec.split(sizes), strict=True):
            each.copy_(part.view_as(each))
