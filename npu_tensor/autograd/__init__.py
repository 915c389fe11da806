"""Gradients: derivatives of programs, rules for other ops, and function transforms."""

from npu_tensor.autograd.backward import backward
from npu_tensor.autograd.transforms import grad, value_and_grad, vjp

__all__ = ["backward", "grad", "value_and_grad", "vjp"]
