"""Gradients: derivatives of programs, rules for other ops, and function transforms."""

from npu_tensor.autograd import fused_gradients as fused_gradients  # registers the rules of attention and recurrences
from npu_tensor.autograd.backward_pass import backward
from npu_tensor.autograd.transforms import grad, value_and_grad, vjp

__all__ = ["backward", "grad", "value_and_grad", "vjp"]
