"""Gradients: derivatives of programs, rules for other ops, and function transforms."""

from npu_tensor import errors as _errors
from npu_tensor.autograd import fused_gradients as fused_gradients  # registers the rules of attention and recurrences
from npu_tensor.autograd.backward_pass import backward
from npu_tensor.autograd.transforms import grad, value_and_grad, vjp

__all__ = ["backward", "grad", "value_and_grad", "vjp"]

_HINTS = {"Function": "z + (y - z).detach() has the value of y and the gradient of z; npu_tensor.ops.op declares ops"}
"""Replacements for names of `torch.autograd` that nothing here has."""


def __getattr__(name: str) -> object:
    raise _errors.no_such_name(f"module {__name__!r}", name, __all__, _HINTS.get(name, ""))
