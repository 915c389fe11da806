"""Optimizers: an update rule each, which is a function of tensors, and its options.

The formulas are PyTorch's. Python values of the options decide which terms exist; tensors provide their values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from npu_tensor import ops
from npu_tensor.errors import ArgumentError
from npu_tensor.optim.optimizer import Optimizer, Options, ParamGroup, Slots, State, check_numbers
from npu_tensor.tensor import Tensor


def _decayed(parameter: Tensor, gradient: Tensor, options: Options) -> Tensor:
    """Add the gradient of the weight decay."""
    return gradient + parameter * options.number("weight_decay") if options["weight_decay"] else gradient


def _sgd(parameter: Tensor, gradient: Tensor, state: Slots, options: Options) -> tuple[Tensor, State]:
    gradient, new = _decayed(parameter, gradient, options), State()
    if options["momentum"]:
        momentum = options.number("momentum")
        velocity = state["momentum_buffer"] * momentum + gradient
        if options["dampening"]:
            rest = options.number("dampening", complement=True)
            damped = state["momentum_buffer"] * momentum + gradient * rest
            velocity = ops.where_op(state["step"] == 0, gradient, damped)
            new["step"] = state["step"] + 1
        new["momentum_buffer"] = velocity
        gradient = gradient + velocity * momentum if options["nesterov"] else velocity
    return parameter - gradient * options.number("lr"), new


def _adam(parameter: Tensor, gradient: Tensor, state: Slots, options: Options) -> tuple[Tensor, State]:
    if options["decoupled_weight_decay"]:
        parameter = parameter * (1 - options.number("lr") * options.number("weight_decay"))
    else:
        gradient = _decayed(parameter, gradient, options)
    step = state["step"] + 1
    first, second = (options.number("betas", position) for position in range(2))
    first_rest, second_rest = (options.number("betas", position, complement=True) for position in range(2))
    average = ops.moving_average(state["exp_avg"], gradient, first, first_rest)
    square = ops.moving_square(state["exp_avg_sq"], gradient, second, second_rest)
    new, divisor = {"step": step, "exp_avg": average, "exp_avg_sq": square}, square
    if options["amsgrad"]:
        divisor = new["max_exp_avg_sq"] = ops.maximum(state["max_exp_avg_sq"], square)
    rate, eps = options.number("lr"), options.number("eps")
    return ops.opt_step_adam(parameter, average, divisor, step, rate, first, second, eps), new


def _rmsprop(parameter: Tensor, gradient: Tensor, state: Slots, options: Options) -> tuple[Tensor, State]:
    gradient, alpha = _decayed(parameter, gradient, options), options.number("alpha")
    rest = options.number("alpha", complement=True)
    square = state["square_avg"] * alpha
    square = square + gradient * gradient * rest
    new, scale = {"step": state["step"] + 1, "square_avg": square}, square
    if options["centered"]:
        new["grad_avg"] = state["grad_avg"] * alpha + gradient * rest
        scale = square - new["grad_avg"] * new["grad_avg"]
    update = gradient / (scale.sqrt() + options.number("eps"))
    if options["momentum"]:
        update = state["momentum_buffer"] * options.number("momentum") + update
        new["momentum_buffer"] = update
    return parameter - update * options.number("lr"), new


class SGD(Optimizer):
    """Stochastic gradient descent with momentum, as in PyTorch.

    Args:
        params: Parameters, or groups as dicts.
        lr: Learning rate.
        momentum: Factor of the previous update.
        dampening: Reduction of the gradient's share in the momentum.
        weight_decay: Factor of the L2 penalty.
        nesterov: Use Nesterov momentum, which needs a momentum and no dampening.
        maximize: Maximize the objective.
        foreach: Accepted for compatibility, without effect.
        fused: Accepted for compatibility, without effect.
    """

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
        foreach: bool | None = None,
        fused: bool | None = None,
    ) -> None:
        options: dict[str, Any] = {"lr": lr, "momentum": momentum, "dampening": dampening, "nesterov": nesterov}
        options |= {"weight_decay": weight_decay, "maximize": maximize, "foreach": foreach, "fused": fused}
        super().__init__(params, {**options, "differentiable": False})

    def check(self, group: ParamGroup) -> None:
        check_numbers(group, "lr", "momentum", "weight_decay")
        if group["nesterov"] and (not group["momentum"] or group["dampening"]):
            raise ArgumentError("nesterov needs a momentum and no dampening")


class Adam(Optimizer):
    """Adam, as in PyTorch.

    Args:
        params: Parameters, or groups as dicts.
        lr: Learning rate.
        betas: Decay rates of the averages of the gradient and of its square.
        eps: Number added to the divisor.
        weight_decay: Factor of the L2 penalty; None means 0, or 0.01 for AdamW.
        amsgrad: Divide by the largest average of the square so far.
        maximize: Maximize the objective.
        foreach: Accepted for compatibility, without effect.
        capturable: Accepted for compatibility, without effect.
        fused: Accepted for compatibility, without effect.
    """

    rule = _adam
    decay = 0.0
    is_decoupled = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float | None = None,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        fused: bool | None = None,
    ) -> None:
        weight_decay = self.decay if weight_decay is None else weight_decay
        options = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        options |= {"maximize": maximize, "foreach": foreach, "capturable": capturable, "fused": fused}
        options |= {"differentiable": False, "decoupled_weight_decay": self.is_decoupled}
        super().__init__(params, options)

    def check(self, group: ParamGroup) -> None:
        check_numbers(group, "lr", "eps", "weight_decay")
        if len(group["betas"]) != 2 or not all(0 <= beta < 1 for beta in group["betas"]):
            raise ArgumentError(f"betas must be two numbers of at least 0 and less than 1, not {group['betas']}")


class AdamW(Adam):
    """Adam with decoupled weight decay, 0.01 by default, as in PyTorch. The arguments are those of `Adam`."""

    decay = 1e-2
    is_decoupled = True


class RMSprop(Optimizer):
    """RMSprop, as in PyTorch.

    Args:
        params: Parameters, or groups as dicts.
        lr: Learning rate.
        alpha: Decay rate of the average of the squared gradient.
        eps: Number added to the divisor.
        weight_decay: Factor of the L2 penalty.
        momentum: Factor of the previous update.
        centered: Divide by an estimate of the standard deviation instead of the root mean square.
        capturable: Accepted for compatibility, without effect.
        foreach: Accepted for compatibility, without effect.
        maximize: Maximize the objective.
    """

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
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        options: dict[str, Any] = {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered}
        options |= {"weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize}
        super().__init__(params, {**options, "differentiable": False})

    def check(self, group: ParamGroup) -> None:
        check_numbers(group, "lr", "alpha", "eps", "weight_decay", "momentum")
