"""Schedules of learning rates: functions of the number of steps, in closed form."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from npu_tensor.errors import ArgumentError
from npu_tensor.optim.optimizer import Optimizer

__all__ = [
    "CosineAnnealingLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "OneCycleLR",
    "SequentialLR",
    "StepLR",
]


class LRScheduler:
    """Sets the learning rate of every group of an optimizer, now and after each `step`.

    last_epoch: the number of steps so far. base_lrs: the rates of the groups when it began.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = 0
        self._set()

    def rate(self, base: float, step: int, group: int) -> float:
        """The learning rate of a group, by number, after some steps."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The learning rates of the groups."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self) -> None:
        """Go on to the next rates."""
        self.last_epoch += 1
        self._set()

    def _set(self) -> None:
        for number, (group, base) in enumerate(zip(self.optimizer.param_groups, self.base_lrs, strict=True)):
            group["lr"] = self.rate(base, self.last_epoch, number)

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on from here."""
        return {"last_epoch": self.last_epoch, "base_lrs": [*self.base_lrs], "_last_lr": self.get_last_lr()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state, of this class of schedule here or in PyTorch."""
        self.last_epoch = state_dict["last_epoch"]
        self.base_lrs = [*state_dict.get("base_lrs", self.base_lrs)]
        self._set()


class LambdaLR(LRScheduler):
    """The first rate times a function of the number of steps, or of one for each group."""

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]]
    ) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * count if callable(lr_lambda) else [*lr_lambda]
        if len(self.lr_lambdas) != count:
            raise ArgumentError(f"{len(self.lr_lambdas)} functions for {count} groups")
        super().__init__(optimizer)

    def rate(self, base: float, step: int, group: int) -> float:
        return base * self.lr_lambdas[group](step)


class StepLR(LRScheduler):
    """Times gamma after every step_size steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def rate(self, base: float, step: int, group: int) -> float:
        return float(base * self.gamma ** (step // self.step_size))


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first rate to eta_min in T_max steps, and back."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer)

    def rate(self, base: float, step: int, group: int) -> float:
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * step / self.T_max)) / 2


class LinearLR(LRScheduler):
    """From start_factor to end_factor of the first rate in total_iters steps: a warm-up."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5
    ) -> None:
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer)

    def rate(self, base: float, step: int, group: int) -> float:
        part = min(step, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * part)


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr in pct_start of all steps, then down to the first over final_div_factor.

    cycle_momentum: momentum, or the first of `betas`, goes from max_momentum to base_momentum and back.
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
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ArgumentError("OneCycleLR needs total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if anneal_strategy not in _ANNEALING:
            raise ArgumentError(f"anneal_strategy is one of {', '.join(_ANNEALING)}, not {anneal_strategy!r}")
        self.total_steps, self.peak = total_steps, float(pct_start * total_steps) - 1
        self.max_lrs = [*max_lr] if isinstance(max_lr, Sequence) else [max_lr] * len(optimizer.param_groups)
        self.annealed = _ANNEALING[anneal_strategy]
        self.momenta = (max_momentum, base_momentum) if cycle_momentum else None
        self.div_factor, self.final_div_factor = div_factor, final_div_factor
        super().__init__(optimizer)

    def _between(self, step: int, first: float, middle: float, last: float) -> float:
        if step > self.total_steps:
            raise ArgumentError(f"the schedule has {self.total_steps} steps")
        if step <= self.peak:
            return self.annealed(first, middle, step / self.peak)
        return self.annealed(middle, last, (step - self.peak) / (self.total_steps - 1 - self.peak))

    def rate(self, base: float, step: int, group: int) -> float:
        highest = self.max_lrs[group]
        first = highest / self.div_factor
        return self._between(step, first, highest, first / self.final_div_factor)

    def _set(self) -> None:
        super()._set()
        if self.momenta is None:
            return
        highest, lowest = self.momenta
        momentum = self._between(self.last_epoch, highest, lowest, highest)
        for group in self.optimizer.param_groups:
            if "betas" in group:
                group["betas"] = (momentum, *group["betas"][1:])
            else:
                group["momentum"] = momentum


_ANNEALING: dict[str, Callable[[float, float, float], float]] = {
    "cos": lambda start, end, part: end + (start - end) / 2 * (1 + math.cos(math.pi * part)),
    "linear": lambda start, end, part: start + (end - start) * part,
}


class SequentialLR(LRScheduler):
    """Schedules one after the other: each begins at its milestone, the number of steps before it."""

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int]) -> None:
        if len(schedulers) != len(milestones) + 1:
            raise ArgumentError(f"{len(schedulers)} schedules have {len(schedulers) - 1} milestones")
        self.schedulers, self.milestones = [*schedulers], [*milestones]
        super().__init__(optimizer)

    def rate(self, base: float, step: int, group: int) -> float:
        number = bisect_right(self.milestones, step)
        return self.schedulers[number].rate(base, step - [0, *self.milestones][number], group)
