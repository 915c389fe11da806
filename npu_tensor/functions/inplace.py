"""In-place functions of PyTorch that are no form of another function."""

from __future__ import annotations

from npu_tensor.functions.creation import zeros_like
from npu_tensor.functions.register import Operand, composite, converted, tensor_of
from npu_tensor.tensor import Tensor


@composite("zero_", function=False)
def zero_in_place(input: Tensor) -> Tensor:
    """Zeros in place of the value."""
    return input._assign(zeros_like(input), uniform=True)


@composite("fill_", function=False)
def fill_in_place(input: Tensor, value: float | Tensor) -> Tensor:
    """One number in place of the value."""
    number = converted(value, input.dtype)
    return input._assign(number.reshape(()).expand(input.shape), uniform=True)


@composite("copy_", function=False)
def copy_in_place(input: Tensor, src: Operand, non_blocking: bool = False) -> Tensor:
    """The value of src, broadcast and converted, in place of the own one."""
    return input._assign(tensor_of(src).to(input.dtype).expand(input.shape))
