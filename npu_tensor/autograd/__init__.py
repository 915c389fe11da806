"""Gradients: derivatives of programs, rules for other ops, and function transforms."""

from npu_tensor.autograd import attention_gradients as attention_gradients  # registers the rules of attention
from npu_tensor.autograd import recurrence_gradients as recurrence_gradients  # registers the rules of recurrences
from npu_tensor.autograd.transforms import backward, grad, value_and_grad, vjp

__all__ = ["backward", "grad", "value_and_grad", "vjp"]
