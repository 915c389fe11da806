"""Parameter: a trainable tensor of a module."""

from __future__ import annotations

import sys
from typing import Any

from npu_tensor.graph.history import same, same_value
from npu_tensor.graph.tracing import current_watch
from npu_tensor.observe import printing
from npu_tensor.ops import registry
from npu_tensor.tensor import Tensor, wrap


class Parameter(Tensor):
    """A trainable tensor. As an attribute of a `Module`, it is one of its `parameters()`.

    The parameter is a leaf with the value of `data`, even if `data` was computed from other tensors. Writes to one do
    not affect the other.

    Args:
        data: A tensor, or anything that `npu_tensor.tensor` takes.
        requires_grad: Let `backward` compute a gradient for it.
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        tensor = data if isinstance(data, Tensor) else registry.PUBLIC["tensor"].function(data)  # type: ignore[misc]
        self._alias = self._leaf = None
        self._name(same_value(tensor._node))
        if (watch := current_watch()) is not None:
            watch.made.add(self)
        self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{printing.shown(self, sys._getframe(1))}"

    def __deepcopy__(self, memo: Any) -> Parameter:
        return Parameter(self.detach().clone(), self.requires_grad)

    def __reduce__(self) -> Any:
        return Parameter, (wrap(same(self._node)), self.requires_grad)
