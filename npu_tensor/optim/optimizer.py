"""Base of all optimizers: groups of parameters, their state, and steps that `jit` can capture.

A rule takes the numbers of a group, such as its learning rate, as tensors that look up the number at each use. So a
captured step uses the current numbers, and a schedule needs no new capture.
"""

from __future__ import annotations

import copy
import math
import sys
from collections import UserDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, ClassVar

import numpy as np

from npu_tensor import ops
from npu_tensor._util.user_warnings import user_line
from npu_tensor.config import config
from npu_tensor.dtypes import DType, float32, float64
from npu_tensor.errors import ArgumentError
from npu_tensor.functions.creation import tensor_of_any
from npu_tensor.graph.history import GradMode, leaf_of
from npu_tensor.graph.nodes import Node, next_order
from npu_tensor.graph.templates import Template, template_of
from npu_tensor.graph.tracing import current_watch
from npu_tensor.planner.planner import VALUE_ERRORS
from npu_tensor.tensor import Tensor, from_array, realize, rename

State = dict[str, Any]
"""Values that an optimizer keeps for a parameter, by name."""

ParamGroup = dict[str, Any]
"""Parameters, under "params", and their options."""

_Due = tuple[int, Tensor, Tensor]
"""Number of a group, a parameter, and its gradient."""

Rule = Callable[[Tensor, Tensor, "Slots", "Options"], tuple[Tensor, State]]
"""Function of a parameter, its gradient, its state and its options: the new parameter and the new state."""


_VALUES = frozenset(("params", "lr", "initial_lr", "max_lr", "min_lr", "betas", "eps"))
"""Entries of a group that a rule never tests, so that a new value needs no new capture of a step."""


class _Number(Tensor):
    """Zero-dimensional tensor whose value is looked up at each use, also by a step that `jit` has captured."""

    __slots__ = ("_dtype", "_look_up", "_named", "_value")

    def __init__(self, look_up: Callable[[], float], dtype: DType) -> None:
        self._alias = self._leaf = self._current = None  # Without a current node, each use looks up the value.
        self._look_up, self._dtype = look_up, dtype
        self._value: float | None = None
        self._named: Node | None = None

    @property
    def _node(self) -> Node:
        value = self._look_up()
        if self._named is None or value != self._value:
            self._named, self._value = from_array(np.asarray(value), self._dtype)._node, value
        return self._named


class Options:
    """Options of a group: Python values by name, and numbers as tensors for parameters of a dtype."""

    def __init__(self, optimizer: Optimizer, index: int, dtype: DType) -> None:
        self._optimizer, self._index, self._dtype = optimizer, index, dtype
        self._numbers: dict[tuple[str, int | None, bool], _Number] = {}

    def __getitem__(self, name: str) -> Any:
        return self._optimizer.param_groups[self._index][name]

    def number(self, name: str, position: int | None = None, complement: bool = False) -> Tensor:
        """Return a number as a tensor.

        Args:
            name: Name of the option.
            position: Index into an option of several numbers.
            complement: Return 1 - number, rounded once: 1 - 0.999 is 0.001.
        """
        key = name, position, complement
        if key not in self._numbers:

            def look_up() -> float:
                value = self[name]
                number = float(value if position is None else value[position])
                return 1 - number if complement else number

            self._numbers[key] = _Number(look_up, float64 if self._dtype is float64 else float32)
        return self._numbers[key]

    @property
    def numbers(self) -> Iterable[_Number]:
        """Numbers that a rule has used so far."""
        return self._numbers.values()


class Slots(UserDict[str, Tensor]):
    """State of a parameter for its rule. A tensor that the rule reads for the first time is zero."""

    def __init__(self, state: State, parameter: Tensor) -> None:
        self.data, self._parameter = state, parameter
        # A step without dampening, and PyTorch, leave a momentum buffer without a count.
        self._is_started = "momentum_buffer" in state

    def __missing__(self, name: str) -> Tensor:
        start, own = next_order(), self._parameter
        # PyTorch counts steps in float32.
        shape, dtype = ((), float32) if name == "step" else (own.shape, own.dtype)
        number = float(name == "step" and self._is_started)
        if (watch := current_watch()) is None:  # With its value, so that the first step has the usual structure.
            created = from_array(np.full(shape, number, dtype.numpy), copy=False)
        else:  # During a capture, it counts as created before the call.
            created = ops.fill(number, shape, dtype)
            watch.outside_since(start, created._node)
            watch.made.discard(created)
        self.data[name] = created
        return created


class Optimizer:
    """Base of optimizers, which change parameters in place by their gradients.

    A subclass either defines `rule`, or overrides `step` as in PyTorch and uses `state` freely.

    Args:
        params: Leaves that require gradients, or dicts with "params" and options of their own.
        defaults: Options of groups that do not set them.

    Attributes:
        defaults: Default options.
        state: State by parameter.
        param_groups: Groups of parameters with their options.
    """

    rule: ClassVar[Rule | None] = None
    """Update rule of a parameter."""

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.state: dict[Tensor, State] = defaultdict(dict)
        self.param_groups: list[ParamGroup] = []
        self._options: dict[tuple[int, DType], Options] = {}
        # By structure: template of a step, positions of its targets, and the numbers of options that it reads.
        self._templates: dict[Any, tuple[Template, list[int], list[_Number]]] = {}
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

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_options", "_templates")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state, _options={}, _templates={})

    def check(self, group: ParamGroup) -> None:
        """Raise ArgumentError for invalid options."""

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add a group of parameters with its own options; missing options are the optimizer's defaults.

        Raises:
            ArgumentError: A parameter is not a float leaf or is already in a group, or an option is invalid.
        """
        params = param_group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        seen = set(self._parameters())
        for each in params:
            if not isinstance(each, Tensor) or not each.is_leaf or not each.dtype.is_floating_point:
                raise ArgumentError(f"an optimizer changes leaves of floats, not {each!r}; pass model.parameters()")
            if each in seen:
                raise ArgumentError("a parameter is in more than one group, or twice in one")
            seen.add(each)
        group = {**self.defaults, **param_group, "params": params}
        self.check(group)
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or set them to zero."""
        for parameter in self._parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad._assign(ops.fill(0, parameter.shape, parameter.dtype))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        The new values are computed at once, together with the loss if the program still holds it. So all steps of
        a training loop run the same plan.

        Args:
            closure: Function that computes the loss and its gradients before the update.

        Returns:
            The result of `closure`, or None.
        """
        rule = type(self).rule
        if rule is None:
            raise NotImplementedError(f"{type(self).__name__} defines neither step nor a rule")
        loss = None
        if closure is not None:
            with GradMode(True):
                loss = closure()
        with GradMode(False):
            due = [
                (index, parameter, gradient)
                for index, group in enumerate(self.param_groups)
                for parameter in group["params"]
                if (gradient := parameter.grad) is not None
            ]
            losses = {loss for _, parameter, _ in due if (loss := _loss(parameter)) is not None}
            if (watch := current_watch()) is not None:
                for target, value in self._recorded(rule, due):
                    target._assign(value)
                watch.conditions.append((self._structure, self._structure()))
                return loss
            updates = self._updates(rule, due, sys._getframe())
            before = [(target, target._node) for target, _ in updates]
            for target, node in updates:
                rename(target, node)
            try:
                realize(*losses, *(target for target, _ in updates), wait=False)
            except VALUE_ERRORS:  # A gradient whose op fails changes neither a parameter nor its state.
                for target, node in before:
                    target._write(node)
                raise
        return loss

    def _updates(self, rule: Rule, due: Sequence[_Due], frame: FrameType) -> list[tuple[Tensor, Node]]:
        """Record the new values of parameters and their states, by the rule or as in an earlier step.

        A rule of this package depends on nothing but the structure. Another one runs in every step.
        """
        if config.eager or not rule.__module__.startswith(__package__):
            return [(target, value._node) for target, value in self._recorded(rule, due)]
        written = [parameter for _, parameter, _ in due]
        for parameter in tuple(written):
            written += [each for each in self.state.get(parameter, {}).values() if isinstance(each, Tensor)]
        given = [each._node for each in (*written, *(gradient for _, _, gradient in due))]
        structure = (self._structure(), *(node.spec for node in given), *(id(parameter) for _, parameter, _ in due))
        known = self._templates.get(structure)
        if known is not None:
            template, places, numbers = known
            given += [number._node for number in numbers]
            if len({*given}) == len(given):
                nodes = template.record(given, user_line(frame))
                return [(written[place], node) for place, node in zip(places, nodes, strict=True)]
        updates = self._recorded(rule, due)
        if known is None and structure[0] == self._structure():  # It has not added a state.
            numbers = [number for options in self._options.values() for number in options.numbers]
            given += [number._node for number in numbers]
            if len({*given}) == len(given):
                place_of = {id(each): place for place, each in enumerate(written)}
                places = [place_of[id(target)] for target, _ in updates]
                template = template_of(given, [value._node for _, value in updates])
                self._templates = {structure: (template, places, numbers)}
        return [(target, value._node) for target, value in updates]

    def _recorded(self, rule: Rule, due: Sequence[_Due]) -> list[tuple[Tensor, Tensor]]:
        """Record the new values of parameters and their states by the rule."""
        updates: list[tuple[Tensor, Tensor]] = []
        for index, parameter, gradient in due:
            gradient = -gradient if self.param_groups[index]["maximize"] else gradient
            key = index, parameter.dtype
            if key not in self._options:
                self._options[key] = Options(self, *key)
            slots, start = Slots(self.state.setdefault(parameter, {}), parameter), next_order()
            named = set()
            changed, new = rule(parameter, gradient, slots, self._options[key])
            for target, value in ((parameter, changed), *((slots[name], value) for name, value in new.items())):
                value = target._fitting(value)
                # Another value may also be that of a tensor of the program, or of another target.
                is_new = value._node.order > start and value._node not in named
                named.add(value._node)
                updates.append((target, value if is_new else ops.reshape(value, *target.shape)))
        return updates

    def _structure(self) -> tuple[Any, ...]:
        """Return all that determines the ops of a step: parameters, tensors of their state, options that are set."""
        parts: list[Any] = []
        for group in self.param_groups:
            parts += [bool(value) for name, value in group.items() if name not in _VALUES]
            for parameter in group["params"]:
                parts += [id(parameter), *map(id, self.state.get(parameter, {}).values())]
        return tuple(parts)

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def state_dict(self, convert: Callable[[Tensor], Any] | None = None) -> dict[str, Any]:
        """Return state and options in PyTorch's form, with numbers in place of parameters.

        Args:
            convert: Function applied to a copy of each tensor. With `torch.from_dlpack`, PyTorch's optimizers can load
                the state.
        """

        def copied(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            return value.detach().clone() if convert is None else convert(value.detach())

        numbers = {parameter: number for number, parameter in enumerate(self._parameters())}
        state = {
            numbers[parameter]: {name: copied(value) for name, value in own.items()}
            for parameter, own in self.state.items()
            if own and parameter in numbers
        }
        groups = [
            {name: copied(value) for name, value in group.items() if name != "params"}
            | {"params": [numbers[each] for each in group["params"]]}
            for group in self.param_groups
        ]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load state and options of an optimizer of the same class, from npu_tensor or PyTorch.

        Raises:
            ArgumentError: The groups have other numbers of parameters.
        """
        groups = state_dict["param_groups"]
        sizes, own = [len(each["params"]) for each in groups], [len(each["params"]) for each in self.param_groups]
        if sizes != own:
            raise ArgumentError(f"the state has groups of {sizes} parameters, the optimizer has {own}")
        order = [number for group in groups for number in group["params"]]
        with GradMode(False):
            for number, parameter in zip(order, self._parameters(), strict=True):
                _replace_state(self.state.setdefault(parameter, {}), state_dict["state"].get(number, {}), parameter)
        for group, loaded in zip(self.param_groups, groups, strict=True):
            group.update({name: copy.deepcopy(value) for name, value in loaded.items() if name != "params"})


def _loss(parameter: Tensor) -> Tensor | None:
    """Return the living loss whose backward pass was the last to add to the gradient of a parameter."""
    leaf = leaf_of(parameter._node)
    return None if leaf is None or leaf.loss is None else leaf.loss()


def check_numbers(group: ParamGroup, *names: str) -> None:
    """Raise ArgumentError unless these options are finite numbers of at least 0."""
    for name in names:
        value = group[name]
        try:
            fits = not isinstance(value, str) and math.isfinite(value) and value >= 0
        except TypeError:
            fits = False
        if not fits:
            raise ArgumentError(f"{name} must be finite and at least 0, not {value!r}")


def _replace_state(own: State, loaded: Mapping[str, Any], parameter: Tensor) -> None:
    """Load the state of a parameter. Tensors stay the same objects, because captured steps write to them."""
    for name, kept in own.items():
        if isinstance(kept, Tensor) and loaded.get(name) is None:
            started = name == "step" and loaded.get("momentum_buffer") is not None
            kept._assign(ops.fill(int(started), kept.shape, kept.dtype))
    for name, value in loaded.items():
        if value is None:
            continue
        kept = own.get(name)
        if isinstance(kept, Tensor):
            kept._assign(tensor_of_any(value).to(kept.dtype).reshape(*kept.shape))
        elif name == "step":
            own[name] = tensor_of_any(value).to(float32, copy=True)  # A Python number in files of older PyTorch.
        elif isinstance(value, Tensor) or hasattr(value, "__dlpack__"):
            own[name] = tensor_of_any(value).to(parameter.dtype, copy=True)
        else:
            own[name] = copy.deepcopy(value)
