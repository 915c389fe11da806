"""Learning rate schedules. Most multiply the current rate, as in PyTorch, so that several can be chained."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from npu_tensor.errors import ArgumentError
from npu_tensor.functions.pytorch_arguments import no_grad
from npu_tensor.optim.optimizer import Optimizer
from npu_tensor.tensor import Tensor

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


class LRScheduler:
    """Base of schedules, which set the learning rate of every group now and after each `step`.

    A subclass defines `get_lr`, and has arguments of its own between those of the base.

    Args:
        optimizer: Optimizer whose learning rates are set.
        last_epoch: Steps so far. -1 starts a new schedule; other values continue with the `initial_lr` of the groups.

    Attributes:
        optimizer: Optimizer whose learning rates are set.
        last_epoch: Steps so far.
        base_lrs: Rates of the groups at the start of the first schedule.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _plain(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(f"param_groups[{number}] has no 'initial_lr', which last_epoch={last_epoch} needs")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._begin()

    def _begin(self) -> None:
        self._is_initial = True
        self._step_count = 0
        self.step()
        self._is_initial = False

    def get_lr(self) -> Sequence[float]:
        """Compute the learning rates of the groups after `last_epoch` steps."""
        raise NotImplementedError(f"{type(self).__name__} defines no get_lr")

    def _first_lr(self) -> Sequence[float]:
        """Return the initial rates of the schedule, independent of the current ones."""
        return self.get_lr()

    def get_last_lr(self) -> list[float]:
        """Return the learning rates that this schedule set last."""
        return self._last_lr

    def step(self) -> None:
        """Advance to the next rates."""
        self._step_count += 1
        self.last_epoch += 1
        self._set(self.get_lr())

    def _restart(self) -> None:
        """Return to the initial rates."""
        self.last_epoch = 0
        self._set(self._first_lr())

    def _set(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            _set_rate(group, rate)
        self._last_lr = self._current()

    def _current(self) -> list[float]:
        return [_plain(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return the state for `load_state_dict`. The rates are part of the optimizer's state."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load the state of a schedule of the same class, from npu_tensor or PyTorch.

        The rates are loaded with the state of the optimizer.
        """
        vars(self).update({name: value for name, value in state_dict.items() if name in self.state_dict()})


class LambdaLR(LRScheduler):
    """Schedule that multiplies the initial rate by a function of the number of steps.

    Args:
        lr_lambda: Function of the number of steps, or one function per group.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * count if callable(lr_lambda) else [*lr_lambda]
        if len(self.lr_lambdas) != count:
            raise ArgumentError(f"{len(self.lr_lambdas)} functions for {count} groups")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[float]:
        return [base * function(self.last_epoch) for base, function in zip(self.base_lrs, self.lr_lambdas, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return the state without the functions."""
        return super().state_dict() | {"lr_lambdas": [None] * len(self.lr_lambdas)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state; the functions stay."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "lr_lambdas"})


class StepLR(LRScheduler):
    """Schedule that multiplies the rate by `gamma` after every `step_size` steps.

    Args:
        step_size: Steps between changes.
        gamma: Factor of each change.
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[float]:
        is_due = self.last_epoch and self.last_epoch % self.step_size == 0
        return [rate * self.gamma if is_due else rate for rate in self._current()]

    def _first_lr(self) -> Sequence[float]:
        return self.base_lrs


class MultiStepLR(LRScheduler):
    """Schedule that multiplies the rate by `gamma` at each milestone.

    Args:
        milestones: Numbers of steps after which the rate changes, in any order.
        gamma: Factor of each change.
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[float]:
        factor = self._factor(self.last_epoch)
        return [rate * factor for rate in self._current()]

    def _first_lr(self) -> Sequence[float]:
        return [base * self._factor(0) for base in self.base_lrs]

    def _factor(self, epoch: int) -> float:
        return self.gamma ** self.milestones.get(epoch, 0)  # A dict without defaults if a file was loaded.


class ExponentialLR(LRScheduler):
    """Schedule that multiplies the rate by `gamma` after every step.

    Args:
        gamma: Factor of each change.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[float]:
        return [rate if self._is_initial else rate * self.gamma for rate in self._current()]

    def _first_lr(self) -> Sequence[float]:
        return self.base_lrs


class CosineAnnealingLR(LRScheduler):
    """Schedule along a cosine from the initial rate to a minimum, and back.

    Args:
        T_max: Steps to the minimum.
        eta_min: Minimum rate.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[float]:
        if self._is_initial:
            return self._current()
        before, now = (1 + math.cos(math.pi * (self.last_epoch - back) / self.T_max) for back in (1, 0))
        if self._step_count == 1 and self.last_epoch > 0:
            return [self.eta_min + (base - self.eta_min) * now / 2 for base in self.base_lrs]
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # No factor leads up again from eta_min.
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            rates = zip(self._current(), self.base_lrs, strict=True)
            return [rate + (base - self.eta_min) * rise for rate, base in rates]
        return [now / before * (rate - self.eta_min) + self.eta_min for rate in self._current()]

    def _first_lr(self) -> Sequence[float]:
        return self.base_lrs


class LinearLR(LRScheduler):
    """Schedule that changes the factor of the initial rate linearly, for a warm-up.

    Args:
        start_factor: First factor, above 0 and at most 1.
        end_factor: Last factor, from 0 to 1.
        total_iters: Steps from the first to the last factor.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ArgumentError(f"factors must be between 0 and 1, the first above 0: {start_factor} and {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[float]:
        rise = self.end_factor - self.start_factor
        if self.last_epoch == 0:
            factor = self.start_factor
        elif self._is_initial or self.last_epoch > self.total_iters:
            factor = 1.0
        else:
            factor = 1 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)
        return [rate * factor for rate in self._current()]

    def _first_lr(self) -> Sequence[float]:
        return [base * self.start_factor for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Schedule that multiplies the initial rate by a factor in the first steps.

    Args:
        factor: Factor, above 0 and at most 1.
        total_iters: Number of steps with the factor.
    """

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 < factor <= 1:
            raise ArgumentError(f"factor must be above 0 and at most 1, not {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[float]:
        if self.last_epoch == 0:
            return [rate * self.factor for rate in self._current()]
        return [rate / self.factor if self.last_epoch == self.total_iters else rate for rate in self._current()]

    def _first_lr(self) -> Sequence[float]:
        return [base * self.factor for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Schedule that lets the rate fall to zero as a power of the fraction of steps that remain.

    Args:
        total_iters: Steps to zero.
        power: Exponent; 1 is a straight line.
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Sequence[float]:
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        remaining = self.total_iters - self.last_epoch
        return [rate * (remaining / (remaining + 1)) ** self.power for rate in self._current()]

    def _first_lr(self) -> Sequence[float]:
        return self.base_lrs


class OneCycleLR(LRScheduler):
    """Schedule that rises once to a maximum rate and falls to a small one; see PyTorch's `OneCycleLR`.

    The rate rises from max_lr / div_factor to max_lr, and falls to its initial value divided by final_div_factor.

    Args:
        max_lr: Maximum rate, or one per group.
        total_steps: Number of steps; None means epochs * steps_per_epoch.
        epochs: Number of epochs.
        steps_per_epoch: Steps per epoch.
        pct_start: Fraction of the steps in which the rate rises.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: Move momentum, or the first of `betas`, from max_momentum to base_momentum and back.
        base_momentum: Minimum momentum, or one per group.
        max_momentum: Maximum momentum, or one per group.
        div_factor: Maximum rate divided by the initial rate.
        final_div_factor: Initial rate divided by the last rate.
        three_phase: Fall to the initial rate in as many steps as the rise, and then to the last rate.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ArgumentError("OneCycleLR needs total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if total_steps < 1 or not 0 <= pct_start <= 1:
            raise ArgumentError(
                f"total_steps must be at least 1 and pct_start between 0 and 1, not {total_steps} and {pct_start}"
            )
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f"anneal_strategy must be cos or linear, not {anneal_strategy!r}")
        if cycle_momentum and not {"momentum", "betas"} & {*optimizer.defaults}:
            raise ArgumentError(f"cycle_momentum=True: {type(optimizer).__name__} has no momentum and no betas")
        self.total_steps, self.cycle_momentum = total_steps, cycle_momentum
        self._anneal_func_type = anneal_strategy
        self._schedule_phases: list[dict[str, Any]] = []
        peak, end, high, low = float(pct_start * total_steps) - 1, total_steps - 1, "max_momentum", "base_momentum"
        self._add_phase(peak, "initial_lr", "max_lr", high, low)
        if three_phase:
            self._add_phase(float(2 * pct_start * total_steps) - 2, "max_lr", "initial_lr", low, high)
            self._add_phase(end, "initial_lr", "min_lr", high, high)
        else:
            self._add_phase(end, "max_lr", "min_lr", low, high)
        if last_epoch == -1:
            several = (_each(value, optimizer) for value in (max_lr, max_momentum, base_momentum))
            for group, highest, *momenta in zip(optimizer.param_groups, *several, strict=True):
                group.update(initial_lr=highest / div_factor, max_lr=highest)
                group["min_lr"] = group["initial_lr"] / final_div_factor
                if cycle_momentum:
                    group["max_momentum"], group["base_momentum"] = momenta
        super().__init__(optimizer, last_epoch)

    def _add_phase(self, end: float, *names: str) -> None:
        keys = ("start_lr", "end_lr", "start_momentum", "end_momentum")
        self._schedule_phases.append({"end_step": end, **dict(zip(keys, names, strict=True))})

    def get_lr(self) -> Sequence[float]:
        """Compute the learning rates of the groups, and set their momenta."""
        step = self.last_epoch
        if step > self.total_steps:
            raise ArgumentError(f"the schedule has {self.total_steps} steps")
        number = next((n for n, each in enumerate(self._schedule_phases[:-1]) if step <= each["end_step"]), -1)
        phase = self._schedule_phases[number]
        start = self._schedule_phases[number - 1]["end_step"] if number else 0.0
        part = (step - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                momentum = self._between(group[phase["start_momentum"]], group[phase["end_momentum"]], part)
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        return rates

    def _between(self, first: float, last: float, part: float) -> float:
        if self._anneal_func_type == "linear":
            return first + (last - first) * part
        return last + (first - last) / 2 * (1 + math.cos(math.pi * part))


class SequentialLR(LRScheduler):
    """Sequence of schedules.

    Args:
        schedulers: Schedules in order.
        milestones: Number of steps before each schedule but the first.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) != len(milestones) + 1:
            raise ArgumentError(f"{len(schedulers)} schedules need {len(schedulers) - 1} milestones")
        for each in schedulers:
            if isinstance(each, ReduceLROnPlateau) or each.optimizer is not optimizer:
                raise ArgumentError(f"SequentialLR takes schedules of its own optimizer without metrics, not {each!r}")
        self.optimizer, self.last_epoch = optimizer, last_epoch + 1
        self._schedulers, self._milestones = [*schedulers], [*milestones]
        for group in optimizer.param_groups:
            _set_rate(group, group["initial_lr"])
        self._undo()
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._begin()
        self._last_lr = first.get_last_lr()

    def _undo(self) -> None:
        """Undo the initial step of each schedule."""
        for each in self._schedulers:
            if isinstance(each, SequentialLR):
                each._undo()
            else:
                each.last_epoch -= 1

    def step(self) -> None:
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        schedule = self._schedulers[number]
        if number and self._milestones[number - 1] == self.last_epoch:
            schedule._restart()
        else:
            schedule.step()
        self._last_lr = schedule.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Return the state, including those of the schedules."""
        return super().state_dict() | {"_schedulers": [each.state_dict() for each in self._schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state, including those of the schedules."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_schedulers"})
        for each, own in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            each.load_state_dict(own)


class ReduceLROnPlateau(LRScheduler):
    """Schedule that multiplies the rate by a factor if a metric has not improved for some steps.

    Args:
        mode: "min" if smaller metrics are better, or "max".
        factor: Factor of each change, below 1.
        patience: Steps without improvement before a change.
        threshold: Smallest difference that counts as an improvement.
        threshold_mode: "rel" for a relative threshold, or "abs".
        cooldown: Steps after a change that do not count.
        min_lr: Lower bound on the rates, or one per group.
        eps: Smallest change that is made.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1:
            raise ArgumentError(f"factor must be less than 1, not {factor}")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ArgumentError(
                f"mode must be min or max and threshold_mode rel or abs, not {mode!r} and {threshold_mode!r}"
            )
        self.optimizer = optimizer
        self.mode, self.factor, self.patience, self.cooldown, self.eps = mode, factor, patience, cooldown, eps
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.min_lrs = _each(min_lr, optimizer)
        self.best = math.inf if mode == "min" else -math.inf
        self.last_epoch = self.num_bad_epochs = self.cooldown_counter = 0
        self._last_lr = self._current()

    def step(self, metrics: Any = None) -> None:
        """Advance to the next rates. `metrics` is the current value, a number or a tensor of one."""
        if metrics is None:
            raise ArgumentError("ReduceLROnPlateau.step needs the current value of the metric")
        value = float(metrics)
        self.last_epoch += 1
        self.num_bad_epochs += 1
        if self._is_better(value):
            self.best, self.num_bad_epochs = value, 0
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, rate, lowest in zip(self.optimizer.param_groups, self._current(), self.min_lrs, strict=True):
                lower = max(rate * self.factor, lowest)
                if rate - lower > self.eps:
                    _set_rate(group, lower)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._current()

    def _is_better(self, value: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return sign * value < sign * self.best * (1 - sign * self.threshold)
        return sign * value < sign * self.best - self.threshold


def _plain(rate: Any) -> float:
    """Convert a rate, which may be a NumPy number or a tensor, to a Python number."""
    return rate if isinstance(rate, int | float) else float(rate)


def _set_rate(group: dict[str, Any], rate: Any) -> None:
    """Set the rate of a group. A tensor is written in place, as in PyTorch."""
    if isinstance(group["lr"], Tensor):
        with no_grad():
            group["lr"].fill_(_plain(rate))
    else:
        group["lr"] = _plain(rate)


def _each(value: float | Sequence[float], optimizer: Optimizer) -> list[float]:
    """Return one value per group."""
    count = len(optimizer.param_groups)
    several = [*value] if isinstance(value, Sequence) else [value] * count
    if len(several) != count:
        raise ArgumentError(f"{len(several)} values for {count} groups")
    return several
