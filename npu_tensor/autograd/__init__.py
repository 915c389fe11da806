"""Gradients: derivatives of programs, rules of the other ops, and functions that differentiate functions."""

from npu_tensor.autograd.backward import backward
from npu_tensor.autograd.transforms import grad, value_and_grad, vjp

__all__ = ["backward", "grad", "value_and_grad", "vjp"]
