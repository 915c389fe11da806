"""The op `gather_along`: elements at places along a dimension that a tensor of indices gives."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from npu_tensor.dtypes import int32, int64
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import reshaped
from npu_tensor.runtime.cpu.bound_loops import BoundLoop, BoundLoops, Location
from npu_tensor.runtime.cpu.cpu_cost import LEAST_PIECE
from npu_tensor.runtime.cpu.kernels import CopyingKernel, first_byte
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.write_strided import is_contiguous
from npu_tensor.task import Refusal, Task

__all__ = ["GatherKernel", "gather_kernel"]

_MODULE: Final = """
; pointers: results, elements, indices, and a byte that becomes 1 if an index is out of range.
; meta: extent along the dimension, positions after it, indices for each position before it; steps of the elements
; before, along and after it.
define void @{name}(ptr %pointers, ptr %meta, i64 %begin, i64 %end) {{
entry:
  %elements.slot = getelementptr ptr, ptr %pointers, i64 1
  %indices.slot = getelementptr ptr, ptr %pointers, i64 2
  %wrong.slot = getelementptr ptr, ptr %pointers, i64 3
  %results = load ptr, ptr %pointers
  %elements = load ptr, ptr %elements.slot
  %indices = load ptr, ptr %indices.slot
  %wrong = load ptr, ptr %wrong.slot
  %inner.slot = getelementptr i64, ptr %meta, i64 1
  %group.slot = getelementptr i64, ptr %meta, i64 2
  %step.slot.0 = getelementptr i64, ptr %meta, i64 3
  %step.slot.1 = getelementptr i64, ptr %meta, i64 4
  %step.slot.2 = getelementptr i64, ptr %meta, i64 5
  %step.before = load i64, ptr %step.slot.0
  %step.along = load i64, ptr %step.slot.1
  %step.behind = load i64, ptr %step.slot.2
  %extent = load i64, ptr %meta
  %inner = load i64, ptr %inner.slot
  %group = load i64, ptr %group.slot
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %n = phi i64 [ %begin, %entry ], [ %next, %copy ]
  %index.slot = getelementptr {index}, ptr %indices, i64 %n
  %index = load {index}, ptr %index.slot
  ; LLVM extends to a wider type only, and indices may have 64 bits already.
  %wide = sext {index} %index to i65
  %place = trunc i65 %wide to i64
  %inside = icmp ult i64 %place, %extent
  br i1 %inside, label %copy, label %outside
outside:
  store i8 1, ptr %wrong
  br label %copy
copy:
  %safe = phi i64 [ %place, %loop ], [ 0, %outside ]
  %before = udiv i64 %n, %group
  %behind = urem i64 %n, %inner
  %first = mul i64 %before, %step.before
  %along = mul i64 %safe, %step.along
  %last = mul i64 %behind, %step.behind
  %row = add i64 %first, %along
  %from = add i64 %row, %last
  %element.slot = getelementptr {element}, ptr %elements, i64 %from
  %element = load {element}, ptr %element.slot
  %result.slot = getelementptr {element}, ptr %results, i64 %n
  store {element} %element, ptr %result.slot
  %next = add i64 %n, 1
  %again = icmp slt i64 %next, %end
  br i1 %again, label %loop, label %done
done:
  ret void
}}
"""


def _module(name: str, bits: tuple[int, int], target: CpuTarget) -> str:
    """Return the module for elements and indices of these bits."""
    element, index = bits
    return _MODULE.format(name=name, element=f"i{element}", index=f"i{index}")


def _clear_module(name: str, _: None, target: CpuTarget) -> str:
    """Return the module of a kernel that sets 8 bytes to 0."""
    signature = f"define void @{name}(ptr %pointers, ptr %meta, i64 %begin, i64 %end)"
    return f"{signature} {{\n  %target = load ptr, ptr %pointers\n  store i64 0, ptr %target\n  ret void\n}}\n"


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
