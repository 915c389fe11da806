"""The op `write_strided`: one compiled copy to a place that is known when it runs."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import ProgramBuilder
from npu_tensor.runtime.cpu.bind_loop import bind_loop
from npu_tensor.runtime.cpu.bound_loops import step
from npu_tensor.runtime.cpu.kernels import CopyingKernel
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.memory import Buffer
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Input, Output, Refusal, Step, Task

__all__ = ["StridedKernel", "bind_copy_to", "bind_target", "is_contiguous", "strided_kernel"]


def strided_kernel(processor: Processor, task: Task) -> StridedKernel | Refusal:
    """Return the kernel for a task of the op, or the reason why there is none."""
    target, value, offset = task.inputs
    assert task.call is not None
    if offset.layout is not None:
        return Refusal("compiled for offsets that are numbers")
    if target.layout is None or not is_contiguous(target.layout):
        return Refusal("compiled for a first operand in row-major order only")
    if value.layout is None or not math.prod(value.layout.shape):
        return Refusal("there is nothing to write")
    if not all(task.call.attributes["strides"]):
        return Refusal("compiled for strides other than 0")
    return StridedKernel(processor, task)


class StridedKernel(CopyingKernel):
    """A value stored, or added, with strides."""

    name = "strided"

    def _bind(self) -> Step:
        task = self.task
        (target, value, offset), (output,) = task.inputs, task.outputs
        assert task.call is not None
        assert value.layout is not None
        new = bind_target(self.owner, target, output)
        copy = bind_copy_to(self.owner, value, **task.call.attributes, output=output)

        def run(values: list[Any]) -> None:
            buffer = new(values)
            copy(values[value.item], buffer, values[offset.item])
            values[output.item] = buffer

        return run


def is_contiguous(layout: Layout) -> bool:
    """Return True if elements are in row-major order without gaps."""
    steps = zip(layout.shape, layout.strides, contiguous_strides(layout.shape), strict=True)
    return all(extent == 1 or stride == expected for extent, stride, expected in steps)


def bind_target(owner: Processor, target: Input, output: Output) -> Callable[[list[Any]], Buffer]:
    """Return the function that gets the buffer of an update: that of its first operand, or a copy."""
    assert target.layout is not None
    skipped, allocator = target.layout.offset * output.dtype.itemsize, owner.allocator
    new_buffer = allocator.allocation(output.nbytes)

    def overwritten(values: list[Any]) -> Buffer:
        buffer: Buffer = values[target.item]
        allocator.forget_layouts(buffer)
        return buffer

    def copied(values: list[Any]) -> Buffer:
        buffer = new_buffer()
        ctypes.memmove(buffer.address, values[target.item].address + skipped, output.nbytes)
        return buffer

    return copied if output.donor is None else overwritten


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


def bind_copy_to(
    owner: Processor, value: Input, output: Output, strides: tuple[int, ...], add: bool = False
) -> Callable[[Buffer, Buffer, int], None]:
    """Return the function that copies a value into a strided part of a buffer, or adds it."""
    assert value.layout is not None
    assert value.dtype is not None
    shape, itemsize = value.layout.shape, output.dtype.itemsize
    builder = ProgramBuilder()
    place, inputs = Layout(shape, strides), [value._replace(item=0), Input(1, output.dtype, Layout(shape, strides))]
    new: Any = builder.load(0, value.dtype.register)
    program = builder.program([builder.load(1, value.dtype.register) + new if add else new])
    written = Output(1, output.dtype, place, math.prod(shape) * itemsize, donor=1)
    loops = bind_loop(owner, program, shape, 0, inputs if add else inputs[:1], [written], _colliding(place))
    store = step(owner, loops, [1])

    def copy(source: Buffer, target: Buffer, first: int) -> None:
        store([source, Buffer(target.address + first * itemsize, 0)])

    return copy
