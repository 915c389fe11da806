"""The op `write_strided`: one compiled copy to a place that is known when it runs."""

from __future__ import annotations

import ctypes
import math
from typing import Any

from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import ProgramBuilder
from npu_tensor.runtime.cpu.bind_loop import bind_loop
from npu_tensor.runtime.cpu.bound_loops import step
from npu_tensor.runtime.cpu.kernels import CopyingKernel
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.memory import Buffer
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Output, Refusal, Step, Task, TensorInput


def strided_kernel(processor: Processor, task: Task) -> StridedKernel | Refusal:
    """Return the kernel for a task of the op, or the reason why there is none."""
    target, value, offset = task.inputs
    if offset.layout is not None:
        return Refusal("compiled for offsets that are numbers")
    if target.layout is None or not is_contiguous(target.layout):
        return Refusal("compiled for a first operand in row-major order only")
    if value.layout is None or not math.prod(value.layout.shape):
        return Refusal("there is nothing to write")
    if not all(task.attributes["strides"]):
        return Refusal("compiled for strides other than 0")
    return StridedKernel(processor, task)


class StridedKernel(CopyingKernel):
    """A value stored, or added, with strides."""

    name = "strided"

    def _bind(self) -> Step:
        """Bind the copy into the memory of the first operand, or into a copy of it."""
        (target, value), offset, (output,) = self.task.tensors, self.task.inputs[2].item, self.task.outputs
        attributes, allocator = self.task.attributes, self.owner.allocator
        shape, itemsize = value.layout.shape, output.dtype.itemsize
        place = Layout(shape, attributes["strides"])
        inputs = [value._replace(item=0), TensorInput(1, output.dtype, place)]
        builder = ProgramBuilder()
        new: Any = builder.load(0, value.dtype.register)
        if attributes["add"]:
            new = builder.load(1, value.dtype.register) + new
        else:
            inputs.pop()
        written = Output(1, output.dtype, place, math.prod(shape) * itemsize, donor=1)
        loops = bind_loop(self.owner, builder.program([new]), shape, 0, inputs, [written], _colliding(place))
        store = step(self.owner, loops, [1])
        allocate, skipped = allocator.allocation(output.nbytes), target.layout.offset * itemsize

        def run(values: list[Any]) -> None:
            buffer = before = values[target.item]
            if output.donor is None:
                buffer = allocate()
                ctypes.memmove(buffer.address, before.address + skipped, output.nbytes)
            else:
                allocator.forget_layouts(buffer)
            store([values[value.item], Buffer(buffer.address + values[offset] * itemsize, 0)])
            values[output.item] = buffer

        return run


def is_contiguous(layout: Layout) -> bool:
    """Return True if elements are in row-major order without gaps."""
    steps = zip(layout.shape, layout.strides, contiguous_strides(layout.shape), strict=True)
    return all(extent == 1 or stride == expected for extent, stride, expected in steps)


def _colliding(layout: Layout) -> int:
    """Return the length of runs of neighbouring elements that may coincide; different runs share no element."""
    sizes = [*zip(layout.shape, map(abs, layout.strides), strict=True)]
    count, run, span = 1, 1, 0
    for extent, stride in reversed(sizes):
        count *= extent
        if extent > 1 and stride <= span:
            run = count
        span += (extent - 1) * stride
    return run
