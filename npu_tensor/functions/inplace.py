"""The in-place forms: the handle names a new value, and so do the tensors that share memory with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npu_tensor.functions.creation import zeros_like
from npu_tensor.functions.register import Operand, composite, converted, tensor_of
from npu_tensor.ops import OPS
from npu_tensor.tensor import FUNCTIONS, Tensor

__all__ = ["IN_PLACE"]

_NOT_MAPS = (
    *("pow", "clamp", "clip", "clamp_min", "clamp_max", "div", "round", "floor_divide", "remainder", "fmod"),
    *("addcmul", "addcdiv", "masked_fill", "index_fill", "scatter", "tril", "triu", "nan_to_num"),
    *("index_put", "index_copy", "index_add", "scatter_add", "masked_scatter"),
)


def _register_in_place(name: str, function: Callable[..., Tensor]) -> None:
    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return input._assign(function(input, *args, **kwargs))

    method.__name__ = f"{name}_"
    method.__doc__ = f"In-place form of `{name}`: the result is written to this tensor, and so to its views."
    composite(f"{name}_", function=False)(method)


IN_PLACE = tuple(
    name for name in FUNCTIONS if name in _NOT_MAPS or (name in OPS and OPS[name].kind == "map" and name != "where")
)
for _name in IN_PLACE:
    _register_in_place(_name, FUNCTIONS[_name])


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
