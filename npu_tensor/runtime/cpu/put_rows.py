"""The op `put` on whole rows, as a cache of keys and values gets them: one compiled copy."""

from __future__ import annotations

import math

import numpy as np

from npu_tensor._util.forks import cached_property
from npu_tensor.runtime.cpu.bound_loops import BoundLoop, BoundLoops, Place, joined
from npu_tensor.runtime.cpu.gemm_micro import byte_offset, load_value
from npu_tensor.runtime.cpu.ir_emitter import Emitter
from npu_tensor.runtime.cpu.kernels import CpuKernel, bind_copy
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import Value
from npu_tensor.runtime.cpu.write_strided import is_contiguous
from npu_tensor.task import Cost, Refusal, Task

__all__ = ["RowsKernel", "rows_kernel"]

_CHUNK = 32
"""Bytes that are copied at a time."""


def _module(name: str, index_bits: int, target: CpuTarget) -> str:
    """The module of `void name(ptr pointers, ptr meta, i64 begin, i64 end)`, which copies rows, one after the other.

    pointers: [table, rows, indices, wrong]. wrong: an i64 that becomes 1 if an index is out of range, and else 0; then
    nothing is copied. meta: rows to copy, rows of the table, chunks of a row, bytes of it in chunks, bytes of it.
    """
    e = Emitter(target)
    slots, meta = Value("%slots", "ptr"), Value("%meta", "ptr")
    table, rows, indices, wrong = (load_value(e, "ptr", slots, slot) for slot in range(4))
    count, entries, chunks, chunked, row_bytes = (load_value(e, "i64", meta, number) for number in range(5))

    def place(number: Value) -> Value:
        """The row of the table; negative ones count from its end."""
        address = byte_offset(e, indices, e.mul(number, index_bits // 8))
        index = load_value(e, f"i{index_bits}", address, align=1)
        wide = index if index_bits == 64 else e.convert("sext", index, "i64")
        return e.add(wide, e.select(e.compare("slt", wide, 0), entries, 0))

    def look(number: Value, so_far: list[Value]) -> list[Value]:
        outside = e.compare("uge", place(number), entries)
        return [e.op("or", so_far[0], e.convert("zext", outside, "i64"))]

    (is_wrong,) = e.loop(0, count, 1, [e.constant(0, "i64")], look)
    e.statement(f"store i64 {is_wrong.name}, ptr {wrong.name}")

    def copy_row(number: Value, _: list[Value]) -> None:
        source = byte_offset(e, rows, e.mul(number, row_bytes))
        target_row = byte_offset(e, table, e.mul(place(number), row_bytes))

        def copy(type_: str, byte: Value) -> None:
            value = load_value(e, type_, byte_offset(e, source, byte), align=1)
            e.statement(f"store {type_} {value.name}, ptr {byte_offset(e, target_row, byte).name}, align 1")

        e.loop(0, chunks, 1, (), lambda chunk, _: copy(f"<{_CHUNK} x i8>", e.mul(chunk, _CHUNK)))
        e.loop(chunked, row_bytes, 1, (), lambda byte, _: copy("i8", byte))

    e.loop(0, e.select(e.compare("eq", is_wrong, 0), count, 0), 1, (), copy_row)
    signature = f"@{name}(ptr noalias %slots, ptr noalias %meta, i64 %begin, i64 %end)"
    return e.module(e.function(signature))


def rows_kernel(processor: Processor, task: Task) -> RowsKernel | Refusal:
    """The kernel for a task of the op, or why there is none."""
    assert task.call is not None
    target, _, index = task.inputs
    attributes = task.call.attributes
    assert target.layout is not None
    assert index.dtype is not None
    is_whole = attributes["bounds"] == tuple((0, extent, 1) for extent in target.layout.shape)
    if attributes["reduce"] or attributes["dims"] != (0,) or not is_whole:
        return Refusal("compiled for whole rows only")
    if index.dtype.name not in ("int32", "int64"):
        return Refusal("compiled for indices of int32 and int64 only")
    if not all(math.prod(source.layout.shape) for source in task.inputs if source.layout):
        return Refusal("there is nothing to write")
    if not all(source.layout is not None and is_contiguous(source.layout) for source in task.inputs):
        return Refusal("compiled for operands in row-major order only")
    return RowsKernel(processor, task)


class RowsKernel(CpuKernel):
    """Rows at indices, of which the last one counts where several are the same."""

    name = "rows"

    @cached_property
    def cost(self) -> Cost:
        return self.reference.cost

    def _bind(self) -> BoundLoops:
        (target, value, index), (output,) = self.task.inputs, self.task.outputs
        assert target.layout is not None
        assert value.layout is not None
        assert value.dtype is not None
        assert index.dtype is not None
        assert index.layout is not None
        count, entries = math.prod(index.layout.shape), target.layout.shape[0]
        row_bytes = math.prod(value.layout.shape) // count * value.dtype.itemsize
        chunks = row_bytes // _CHUNK
        meta = np.array([count, entries, chunks, chunks * _CHUNK, row_bytes], np.int64)
        kernel = self.owner.compiled(_module, 8 * index.dtype.itemsize)
        wrong = max(target.item, value.item, index.item, output.item) + 1
        slots = (
            Place(output.item),
            Place(value.item, value.layout.offset * value.dtype.itemsize),
            Place(index.item, index.layout.offset * index.dtype.itemsize),
            Place(wrong),
        )
        loop = BoundLoop(kernel, meta.ctypes.data, 1, 1, slots)
        complain = self.reference.bind()
        if output.donor is not None:
            taken = ((output.item, output.donor),)
            return BoundLoops((loop,), ((wrong, 8),), taken, (meta,), wrong, complain)
        copy, _ = bind_copy(self.owner, target, output.item)
        return joined([copy, BoundLoops((loop,), ((wrong, 8),), (), (meta,), wrong, complain)])
