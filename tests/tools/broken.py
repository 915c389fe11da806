"""A device that computes with NumPy and then does something wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npu_tensor.runtime.devices.host import allocator
from npu_tensor.runtime.npu.packing import flat
from npu_tensor.runtime.reference import ReferenceDevice, ReferenceKernel
from npu_tensor.task import Cost, Expense, Fusion, Kernel, Output, Refusal, Step, Task

__all__ = ["BrokenDevice", "Damage"]

Array = np.ndarray[Any, Any]
Damage = Callable[[Array], None]
"""Changes a result in place, or raises what a launch raises."""


COST = Cost(Expense(1e-3, 1e-3, 0.0), 0)


@dataclass
class BrokenKernel:
    """Computes the task, then lets `damage` change every result."""

    name: str
    device: str
    cost: Cost
    reason: str
    task: Task
    damage: Damage
    origin: str = "none"

    def bind(self) -> Step:
        right = ReferenceKernel(self.task, ReferenceDevice(allocator())).bind()

        def step(values: list[Any]) -> None:
            right(values)
            for output in self.task.outputs:
                self.damage(elements(values, output))

        return step


def elements(values: list[Any], output: Output) -> Array:
    return flat(values[output.item], output.dtype)[: output.nbytes // output.dtype.itemsize]


class BrokenDevice:
    """refused: ops that it does not take."""

    uri = "cpu"
    fusion = Fusion()

    def __init__(self, damage: Damage, refused: Sequence[str] = ()) -> None:
        self.damage = damage
        self.refused = refused

    def claim(self, task: Task) -> Kernel | Refusal:
        if task.name in self.refused:
            return Refusal(f"{task.name} is too much")
        return BrokenKernel("broken", self.uri, COST, "as it was told", task, self.damage)

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        raise RuntimeError("nothing can be prepared")
