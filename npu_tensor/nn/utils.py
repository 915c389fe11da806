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

__all__ = ["clip_grad_norm_", "parameters_to_vector"]


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


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Concatenate the elements of all parameters."""
    return cat([each.reshape(-1) for each in parameters])
