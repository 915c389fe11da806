"""The op `put` on rows that follow one another, as a cache of keys and values gets them: one compiled copy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npu_tensor._util.forks import cached_property
from npu_tensor.ops.declare import Layout
from npu_tensor.runtime.cpu.kernels import CpuKernel
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.write_strided import bind_copy_to, bind_target, is_contiguous
from npu_tensor.task import Cost, Refusal, Step, Task

__all__ = ["RowsKernel", "rows_kernel"]


def rows_kernel(processor: Processor, task: Task) -> RowsKernel | Refusal:
    """The kernel for a task of the op, or why there is none."""
    assert task.call is not None
    target = task.inputs[0]
    attributes = task.call.attributes
    assert target.layout is not None
    is_whole = attributes["bounds"] == tuple((0, extent, 1) for extent in target.layout.shape)
    if attributes["reduce"] or attributes["dims"] != (0,) or not is_whole:
        return Refusal("compiled for whole rows only")
    if not all(math.prod(source.layout.shape) for source in task.inputs if source.layout):
        return Refusal("there is nothing to write")
    if not all(source.layout is not None and is_contiguous(source.layout) for source in task.inputs):
        return Refusal("compiled for operands in row-major order only")
    return RowsKernel(processor, task)


class RowsKernel(CpuKernel):
    """Rows at indices that follow one another, or else NumPy."""

    name = "rows"

    @cached_property
    def cost(self) -> Cost:
        return self.reference.cost

    def _bind(self) -> Step:
        (target, value, index), (output,) = self.task.inputs, self.task.outputs
        assert target.layout is not None
        assert value.layout is not None
        assert value.dtype is not None
        assert index.dtype is not None
        assert index.layout is not None
        count, entries = math.prod(index.layout.shape), target.layout.shape[0]
        elements = math.prod(value.layout.shape)
        row = elements // count
        new = bind_target(self.owner, target, output)
        flat = value._replace(layout=Layout((elements,), (1,), value.layout.offset))
        copy = bind_copy_to(self.owner, flat, output, (1,))
        indices = np.ctypeslib.as_ctypes_type(index.dtype.numpy) * count
        before, otherwise = index.layout.offset * index.dtype.itemsize, self.reference.bind()

        def run(values: list[Any]) -> None:
            rows = indices.from_address(values[index.item].address + before)
            first = rows[0]
            follow = count == 1 or rows[:] == [*range(first, first + count)]
            if first < 0 or first + count > entries or not follow:
                otherwise(values)
                return
            buffer = new(values)
            copy(values[value.item], buffer, first * row)
            values[output.item] = buffer

        return run
