"""The optimizers: a rule each, which is a function of tensors, and the options that it reads.

The formulas are PyTorch's. Which terms there are follows from options as Python has them, their values from tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from npu_tensor import ops
from npu_tensor.dtypes import float32
from npu_tensor.optim.optimizer import Optimizer, ParamGroup, State, zeros_like
from npu_tensor.tensor import Tensor

__all__ = ["SGD", "Adam", "AdamW", "RMSprop"]


def _count() -> Tensor:
    """The number of steps so far, as PyTorch keeps it."""
    count: Tensor = ops.fill(0, (), float32)
    return count


def _number(group: ParamGroup, name: str) -> Tensor:
    number: Tensor = group.numbers[name][0]
    return number


def _decayed(parameter: Tensor, gradient: Tensor, group: ParamGroup) -> Tensor:
    """The gradient with that of the weights' squares."""
    return gradient + parameter * _number(group, "weight_decay") if group["weight_decay"] else gradient


def _sgd(parameter: Tensor, gradient: Tensor, state: State, group: ParamGroup) -> tuple[Tensor, State]:
    gradient, new = _decayed(parameter, gradient, group), State()
    if group["momentum"]:
        momentum = _number(group, "momentum")
        velocity = state["momentum_buffer"] * momentum + gradient
        if group["dampening"]:
            damped = state["momentum_buffer"] * momentum + gradient * group.complements["dampening"][0]
            velocity = ops.where_op(state["step"] == 0, gradient, damped)
            new["step"] = state["step"] + 1
        new["momentum_buffer"] = velocity
        gradient = gradient + velocity * momentum if group["nesterov"] else velocity
    return parameter - gradient * _number(group, "lr"), new


def _adam(parameter: Tensor, gradient: Tensor, state: State, group: ParamGroup) -> tuple[Tensor, State]:
    return _adam_step(parameter, _decayed(parameter, gradient, group), state, group)


def _adamw(parameter: Tensor, gradient: Tensor, state: State, group: ParamGroup) -> tuple[Tensor, State]:
    kept = 1 - _number(group, "lr") * _number(group, "weight_decay")
    return _adam_step(parameter * kept, gradient, state, group)


def _adam_step(parameter: Tensor, gradient: Tensor, state: State, group: ParamGroup) -> tuple[Tensor, State]:
    step = state["step"] + 1
    (first, second), (first_rest, second_rest) = group.numbers["betas"], group.complements["betas"]
    rate = _number(group, "lr") / (1 - first**step)
    scale = (1 - second**step).sqrt()
    average = state["exp_avg"] * first + gradient * first_rest
    square = state["exp_avg_sq"] * second + gradient * gradient * second_rest
    update = average / (square.sqrt() / scale + _number(group, "eps"))
    return parameter - update * rate, {"step": step, "exp_avg": average, "exp_avg_sq": square}


def _rmsprop(parameter: Tensor, gradient: Tensor, state: State, group: ParamGroup) -> tuple[Tensor, State]:
    gradient, alpha = _decayed(parameter, gradient, group), _number(group, "alpha")
    (rest,) = group.complements["alpha"]
    square = state["square_avg"] * alpha
    square = square + gradient * gradient * rest
    new, scale = {"step": state["step"] + 1, "square_avg": square}, square
    if group["centered"]:
        new["grad_avg"] = state["grad_avg"] * alpha + gradient * rest
        scale = square - new["grad_avg"] * new["grad_avg"]
    update = gradient / (scale.sqrt() + _number(group, "eps"))
    if group["momentum"]:
        update = state["momentum_buffer"] * _number(group, "momentum") + update
        new["momentum_buffer"] = update
    return parameter - update * _number(group, "lr"), new


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum, as PyTorch's."""

    rule = _sgd

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        options = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**options, "nesterov": nesterov, "maximize": maximize})

    def new_state(self, parameter: Tensor, group: ParamGroup) -> State:
        if not group["momentum"]:
            return {}
        return {"momentum_buffer": zeros_like(parameter), **({"step": _count()} if group["dampening"] else {})}


class Adam(Optimizer):
    """Adam, as PyTorch's."""

    rule = _adam
    decay = 0.0

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float | None = None,
        *,
        maximize: bool = False,
    ) -> None:
        weight_decay = self.decay if weight_decay is None else weight_decay
        options = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, options)

    def new_state(self, parameter: Tensor, group: ParamGroup) -> State:
        return {"step": _count(), "exp_avg": zeros_like(parameter), "exp_avg_sq": zeros_like(parameter)}


class AdamW(Adam):
    """Adam with weight decay apart from the gradient, 0.01 unless given, as PyTorch's."""

    rule = _adamw
    decay = 1e-2


class RMSprop(Optimizer):
    """RMSprop, as PyTorch's."""

    rule = _rmsprop

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        options = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, {**options, "centered": centered, "maximize": maximize})

    def new_state(self, parameter: Tensor, group: ParamGroup) -> State:
        names = ["square_avg", *(["momentum_buffer"] if group["momentum"] else [])]
        names += ["grad_avg"] if group["centered"] else []
        return {"step": _count(), **{name: zeros_like(parameter) for name in names}}
