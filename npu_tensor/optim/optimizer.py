"""What all optimizers share: groups of parameters, state, and steps that `jit` can capture.

The state exists from the start, and the numbers of a group, such as its learning rate, are tensors besides. So a
captured step reads and changes them at each call, and a schedule needs no other capture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import float32, float64
from npu_tensor.errors import ArgumentError
from npu_tensor.graph.history import GradMode
from npu_tensor.ops import registry
from npu_tensor.tensor import Tensor, from_array

__all__ = ["Optimizer", "ParamGroup", "Rule", "State", "zeros_like"]

State = dict[str, Tensor]
"""What an optimizer keeps of a parameter."""

Rule = Callable[[Tensor, Tensor, State, "ParamGroup"], tuple[Tensor, State]]
"""From a parameter, its gradient, its state and its group to the new parameter and the new state."""


class ParamGroup(dict[str, Any]):
    """Parameters and their options.

    numbers: those that are floats, as tensors without dimensions, float32 or, where a parameter is, float64.
    complements: 1 - each of them, rounded once: 1 - 0.999 is 0.001.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__()
        self.numbers: dict[str, Any] = {}
        self.complements: dict[str, Any] = {}
        is_double = any(each.dtype is float64 for each in options["params"])
        self._dtype = float64 if is_double else float32
        for name, value in options.items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        values = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in values):
            return
        for kept, plain in ((self.numbers, values), (self.complements, tuple(1 - each for each in values))):
            numbers = tuple(from_array(np.asarray(each), self._dtype) for each in plain)
            if name in kept:
                for number, new in zip(kept[name], numbers, strict=True):
                    number._assign(new)
            else:
                kept[name] = numbers


class Optimizer:
    """Changes parameters in place by their gradients, in `step`.

    params: leaves that require gradients, or dicts with "params" and options of their own. state: by parameter.
    """

    rule: ClassVar[Rule]
    """How a parameter changes."""

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.state: dict[Tensor, State] = {}
        self.param_groups: list[ParamGroup] = []
        groups: list[Any] = [] if isinstance(params, Tensor) else list(params)
        if not groups:
            raise ArgumentError(f"{type(self).__name__} takes a list of parameters, not {params!r}")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])

    def new_state(self, parameter: Tensor, group: ParamGroup) -> State:
        """The state of a parameter before the first step."""
        raise NotImplementedError

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add parameters with options of their own; the others are the optimizer's."""
        params = param_group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        for each in params:
            if not isinstance(each, Tensor) or not each.is_leaf or not each.dtype.is_floating_point:
                raise ArgumentError(f"an optimizer changes leaves of floats, not {each!r}")
            if each in self.state:
                raise ArgumentError("a parameter is in more than one group, or twice in one")
            self.state[each] = {}
        group = ParamGroup({**self.defaults, **param_group, "params": params})
        for name in group.numbers:
            values = group[name] if isinstance(group[name], tuple) else (group[name],)
            if not all(math.isfinite(value) and value >= 0 for value in values):
                raise ArgumentError(f"{name} must be finite and at least 0, not {group[name]}")
        for each in params:
            self.state[each] = self.new_state(each, group)
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or let them be zeros."""
        for parameter in self._parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad._assign(zeros_like(parameter))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient. closure: computes the loss anew, which is returned."""
        loss = None
        if closure is not None:
            with GradMode(True):
                loss = closure()
        with GradMode(False):
            for group in self.param_groups:
                for parameter in group["params"]:
                    if (gradient := parameter.grad) is None:
                        continue
                    gradient = -gradient if group["maximize"] else gradient
                    state = self.state[parameter]
                    changed, new = type(self).rule(parameter, gradient, state, group)
                    parameter._assign(changed)
                    for name, value in new.items():
                        state[name]._assign(value)
        return loss

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def state_dict(self) -> dict[str, Any]:
        """State and options in PyTorch's form, with numbers in place of parameters. The tensors are copies."""
        numbers = {parameter: number for number, parameter in enumerate(self._parameters())}
        with GradMode(False):
            state = {
                numbers[parameter]: {name: value.clone() for name, value in own.items()}
                for parameter, own in self.state.items()
                if own
            }
        groups = [{**group, "params": [numbers[each] for each in group["params"]]} for group in self.param_groups]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over state and options, of this class of optimizer here or in PyTorch.

        ArgumentError where the groups have other numbers of parameters.
        """
        groups = state_dict["param_groups"]
        sizes, own = [len(each["params"]) for each in groups], [len(each["params"]) for each in self.param_groups]
        if sizes != own:
            raise ArgumentError(f"the state is of groups of {sizes} parameters, and the optimizer has {own}")
        order = [number for group in groups for number in group["params"]]
        with GradMode(False):
            for number, parameter in zip(order, self._parameters(), strict=True):
                for name, value in state_dict["state"].get(number, {}).items():
                    if name in self.state[parameter] and value is not None:
                        kept = self.state[parameter][name]
                        kept._assign(_tensor(value).to(kept.dtype).reshape(*kept.shape))
        for group, loaded in zip(self.param_groups, groups, strict=True):
            for name, value in loaded.items():
                if name in group and name != "params":
                    group[name] = value


def zeros_like(parameter: Tensor) -> Tensor:
    """Zeros in the shape and dtype of a parameter."""
    zeros: Tensor = ops.fill(0, parameter.shape, parameter.dtype)
    return zeros


def _tensor(value: Any) -> Tensor:
    """A state's tensor: ours, another library's, or a number."""
    if isinstance(value, Tensor):
        return value
    if hasattr(value, "__dlpack__"):
        return registry.PUBLIC["from_dlpack"].function(value)  # type: ignore[misc, no-any-return]
    return from_array(np.asarray(value))
