"""Data ops as loops over elements that run one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.ops.expression import Builder
from npu_tensor.task import Refusal, Task

__all__ = ["Compose", "Composed", "compose_sequence"]


class Composed(NamedTuple):
    """Map tasks that run one after the other, and item numbers and values of what they read besides."""

    tasks: tuple[Task, ...]
    constants: Mapping[int, np.ndarray[Any, Any]]


Compose = Callable[[Task], Composed | Refusal]

# Converted from int64 once, as the reference does.
_SEQUENCES: Final = frozenset({"int32", "int64", "float32"})


def compose_sequence(task: Task) -> Composed | Refusal:
    """The op `arange_from` on integers."""
    (output,) = task.outputs
    assert task.call is not None
    if output.dtype.name not in _SEQUENCES or any(number is not int for number in task.call.operands):
        return Refusal("compiled for integers as int32, int64 and float32 only")
    builder = Builder()
    start, step = (builder.scalar(slot, "int64") for slot in range(2))
    position: Any = builder.emit("index")
    program = builder.program([(start + position * step).astype(output.dtype.register)])
    return Composed((task._replace(kind="map", program=program),), {})
