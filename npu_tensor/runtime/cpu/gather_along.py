"""The op `gather_along`: elements at places along a dimension that a tensor of indices gives."""

from __future__ import annotations

import math

import numpy as np

from npu_tensor.dtypes import int32, int64
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import reshaped
from npu_tensor.runtime.cpu.bound_loops import BoundLoop, BoundLoops, Location
from npu_tensor.runtime.cpu.cpu_cost import LEAST_PIECE
from npu_tensor.runtime.cpu.ir_emitter import BEGIN, END, META, POINTERS, Emitter
from npu_tensor.runtime.cpu.kernels import CopyingKernel, first_byte
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import Value
from npu_tensor.runtime.cpu.write_strided import is_contiguous
from npu_tensor.task import Refusal, Task

__all__ = ["GatherKernel", "gather_kernel"]


def _module(bits: tuple[int, int], target: CpuTarget) -> str:
    """Return the module of a kernel that copies elements.

    pointers  [results, elements, indices, wrong]; wrong is a byte that becomes 1 if an index is out of range
    meta      extent along the dimension, positions after it, indices for each position before it; steps of the elements
              before, along and after it

    Args:
        bits: Bits of an element and of an index.
        target: The processor.
    """
    e, (element_bits, index_bits) = Emitter(target), bits
    results, elements, indices, wrong = (e.load_value("ptr", POINTERS, slot) for slot in range(4))
    extent, inner, group, step_before, step_along, step_after = (e.load_value("i64", META, i) for i in range(6))

    def at(array: Value, number: Value, of_bits: int) -> Value:
        return e.byte_offset(array, e.mul(number, of_bits // 8))

    def copy(number: Value, _: list[Value]) -> None:
        index = e.load_value(f"i{index_bits}", at(indices, number, index_bits), align=1)
        place = index if index_bits == 64 else e.convert("sext", index, "i64")
        is_outside = e.compare("uge", place, extent)
        e.branch(is_outside, lambda: e.statement(f"store i8 1, ptr {wrong.name}"), lambda: None)
        along = e.mul(e.select(is_outside, 0, place), step_along)
        before, after = e.op("udiv", number, group), e.op("urem", number, inner)
        source = e.add(e.add(e.mul(before, step_before), along), e.mul(after, step_after))
        element = e.load_value(f"i{element_bits}", at(elements, source, element_bits), align=1)
        e.store_value(element, at(results, number, element_bits))

    e.loop(BEGIN, END, 1, (), copy)
    return e.kernel()


def _clear_module(_: None, target: CpuTarget) -> str:
    """Return the module of a kernel that sets 8 bytes to 0."""
    e = Emitter(target)
    e.store_value(e.constant(0, "i64"), e.load_value("ptr", POINTERS))
    return e.kernel()


def gather_kernel(processor: Processor, task: Task) -> GatherKernel | Refusal:
    """Return the kernel for a task of the op, or the reason why there is none."""
    x, index = task.inputs
    assert task.call is not None
    assert x.layout is not None
    assert index.layout is not None
    dim, shape = task.call.attributes["dim"], x.layout.shape
    if index.dtype not in (int32, int64):
        return Refusal("compiled for indices of int32 and int64 only")
    if not is_contiguous(index.layout) or _around(x.layout, dim) is None:
        return Refusal("compiled for indices in row-major order, and elements evenly spaced around the dimension, only")
    if not math.prod((*shape, *task.shape)):
        return Refusal("there is nothing to read")
    if shape[:dim] + shape[dim + 1 :] != task.shape[:dim] + task.shape[dim + 1 :]:
        return Refusal("compiled for equal extents in all other dimensions only")
    return GatherKernel(processor, task)


def _around(layout: Layout, dim: int) -> Layout | None:
    """Return the layout with one dimension before `dim` and one after it; None if they are not evenly spaced."""
    shape = layout.shape
    return reshaped(layout, (math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])))


class GatherKernel(CopyingKernel):
    """Elements one by one; NumPy raises the error of an index that is out of range."""

    name = "gather"

    def _bind(self) -> BoundLoops:
        task, owner = self.task, self.owner
        (x, index), (output,) = task.inputs, task.outputs
        assert task.call is not None
        assert x.layout is not None
        assert index.dtype is not None
        dim = task.call.attributes["dim"]
        around = _around(x.layout, dim)
        assert around is not None
        _, extent, inner = around.shape
        meta = np.array([extent, inner, inner * task.shape[dim], *around.strides], np.int64)
        kernel = owner.compiled(_module, (8 * output.dtype.itemsize, 8 * index.dtype.itemsize))
        result, wrong = Location(output.item), Location(1 + max(x.item, index.item, output.item))
        slots = (result, Location(x.item, first_byte(x)), Location(index.item, first_byte(index)), wrong)
        clear = BoundLoop(owner.compiled(_clear_module, None), 0, 1, 1, (wrong,))
        gather = BoundLoop(kernel, meta.ctypes.data, math.prod(task.shape), LEAST_PIECE, slots)
        new = (output.item, output.nbytes), (wrong.item, 8)
        return BoundLoops((clear, gather), new, (), (meta,), wrong.item, self.reference.bind())
