"""Loops of a kernel that run one after another, with the values that only they use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from npu_tensor.dtypes import DType
from npu_tensor.ops.declare import Layout
from npu_tensor.runtime.cpu.bound_loops import BoundLoop, BoundLoops, Location, Slot, joined
from npu_tensor.runtime.cpu.engine import Module
from npu_tensor.runtime.cpu.kernels import bind_copy, first_byte, last_item
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.write_strided import is_contiguous
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Output, Task, TensorInput


def place_of(source: TensorInput) -> Location:
    """Return the address of the first element of an operand."""
    return Location(source.item, first_byte(source))


class LoopParts:
    """Loops of a kernel in their order. Items of values that only they use follow those of the task."""

    def __init__(self, owner: Processor, task: Task) -> None:
        self.owner = owner
        self._items = count(last_item(task) + 1)
        self._parts: list[BoundLoops] = []
        self._last: list[BoundLoops] = []

    def add(self, loops: BoundLoops) -> None:
        """Add loops after the others."""
        self._parts.append(loops)

    def new_item(self) -> int:
        """Return the number of an item that no other value has."""
        return next(self._items)

    def scratch(self, nbytes: int) -> Location:
        """Return memory that only the loops use."""
        item = self.new_item()
        self.add(BoundLoops((), ((item, nbytes),)))
        return Location(item)

    def result(self, output: Output, dtype: DType | None = None) -> Location:
        """Return the memory of a result. One in another dtype is converted after all other loops."""
        if dtype is None or dtype is output.dtype:
            self.add(BoundLoops((), ((output.item, output.nbytes),)))
            return Location(output.item)
        shape = output.layout.shape
        place = self.scratch(math.prod(shape) * dtype.itemsize)
        self.convert_at_last(TensorInput(place.item, dtype, Layout(shape, contiguous_strides(shape))), output)
        return place

    def convert_at_last(self, source: TensorInput, output: Output) -> None:
        """Add the loop that makes a result of a value, after all loops that are added later."""
        self._last.append(bind_copy(self.owner, source, output.item, output.dtype)[0])

    def copy(self, source: TensorInput, dtype: DType | None = None, pitch: int | None = None) -> TensorInput:
        """Add the loop that makes a row-major copy of an operand, and return the copy; see `bind_copy`."""
        loops, copied = bind_copy(self.owner, source, self.new_item(), dtype, pitch)
        self.add(loops)
        return copied

    def row_major(self, source: TensorInput, dtype: DType | None = None) -> TensorInput:
        """Return an operand, or a copy of it, in row-major order and in a dtype."""
        is_whole = dtype in (None, source.dtype) and is_contiguous(source.layout)
        return source if is_whole else self.copy(source, dtype)

    def loop(
        self,
        module: Module,
        spec: Any,
        numbers: Sequence[int] | np.ndarray[Any, Any],
        items: int,
        grain: int,
        slots: Sequence[Slot],
        keep: Sequence[object] = (),
    ) -> None:
        """Add the loop of a kernel, which is compiled, unless it has no items.

        Args:
            module: Generator of the kernel.
            spec: Structure of the kernel.
            numbers: The meta array.
            items: Items of the kernel.
            grain: Items that a thread claims at a time.
            slots: Arguments of the kernel.
            keep: Arrays whose addresses are in `numbers`.
        """
        if items:
            meta = np.array(numbers, np.int64)
            kernel = self.owner.compiled(module, spec)
            bound = BoundLoop(kernel, meta.ctypes.data, items, grain, tuple(slots))
            self.add(BoundLoops((bound,), (), keep=(meta, *keep)))

    def joined(self) -> BoundLoops:
        """Return all loops."""
        return joined([*self._parts, *self._last])
