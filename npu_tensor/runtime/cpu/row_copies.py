"""The ops `take` and `put` on whole rows, as of an embedding and of a cache of keys and values: one compiled copy."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from npu_tensor._util.forks import cached_property
from npu_tensor.runtime.cpu.bound_loops import BoundLoop, BoundLoops, Location, joined
from npu_tensor.runtime.cpu.cpu_cost import PACKED_PIECE
from npu_tensor.runtime.cpu.ir_emitter import BEGIN, END, META, POINTERS, Emitter
from npu_tensor.runtime.cpu.kernels import CpuKernel, bind_copy, first_byte
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import Value
from npu_tensor.runtime.cpu.write_strided import is_contiguous
from npu_tensor.task import Cost, Refusal, Task

__all__ = ["RowsKernel", "rows_kernel"]

_MOST_PIECES: Final = 64
"""Each looks at all indices before it copies its rows."""

_CHUNK = 32
"""Bytes that are copied at a time."""


def _module(spec: tuple[int, bool, bool], target: CpuTarget) -> str:
    """Return the module of a kernel that copies rows.

    Each row that is read is an item. All rows that are written are one item, because their order matters if indices are
    equal. Nothing is copied if an index is out of range.

    pointers  [table, rows, indices, wrong]; wrong is an i64 that is set to 1 if an index is out of range, else to 0
    meta      rows to copy, rows of the table, chunks of a row, bytes of a row in chunks, all bytes of a row

    Args:
        spec: Bits of an index; True if rows are copied to the table; True if negative indices count from the end.
        target: The processor.
    """
    e, (index_bits, puts, wraps) = Emitter(target), spec
    table, rows, indices, wrong = (e.load_value("ptr", POINTERS, slot) for slot in range(4))
    count, entries, chunks, chunk_bytes, row_bytes = (e.load_value("i64", META, number) for number in range(5))

    def place(number: Value) -> Value:
        """Return the address of a row of the table."""
        address = e.byte_offset(indices, e.mul(number, index_bits // 8))
        index = e.load_value(f"i{index_bits}", address, align=1)
        wide = index if index_bits == 64 else e.convert("sext", index, "i64")
        return e.add(wide, e.select(e.compare("slt", wide, 0), entries, 0)) if wraps else wide

    def look(number: Value, so_far: list[Value]) -> list[Value]:
        outside = e.compare("uge", place(number), entries)
        return [e.op("or", so_far[0], e.convert("zext", outside, "i64"))]

    (is_wrong,) = e.loop(0, count, 1, [e.constant(0, "i64")], look)
    e.store_value(is_wrong, wrong, align=8)

    def copy_row(number: Value, _: list[Value]) -> None:
        ends = e.byte_offset(rows, e.mul(number, row_bytes)), e.byte_offset(table, e.mul(place(number), row_bytes))
        source, target_row = ends if puts else ends[::-1]

        def copy(type_: str, byte: Value) -> None:
            value = e.load_value(type_, e.byte_offset(source, byte), align=1)
            e.store_value(value, e.byte_offset(target_row, byte))

        e.loop(0, chunks, 1, (), lambda chunk, _: copy(f"<{_CHUNK} x i8>", e.mul(chunk, _CHUNK)))
        e.loop(chunk_bytes, row_bytes, 1, (), lambda byte, _: copy("i8", byte))

    first, last = (0, count) if puts else (BEGIN, END)
    e.loop(first, e.select(e.compare("eq", is_wrong, 0), last, 0), 1, (), copy_row)
    return e.kernel()


def rows_kernel(processor: Processor, task: Task, puts: bool) -> RowsKernel | Refusal:
    """Return the kernel for a task, or the reason why there is none. It writes to the indexed rows if `puts` is set."""
    assert task.call is not None
    attributes, (table, *_, index) = task.call.attributes, task.inputs
    assert table.layout is not None
    assert index.dtype is not None
    if puts:
        is_whole = attributes["bounds"] == tuple((0, extent, 1) for extent in table.layout.shape)
        if attributes["reduce"] or attributes["dims"] != (0,) or not is_whole:
            return Refusal("compiled for whole rows only")
    elif attributes["dim"] != 0:
        return Refusal("compiled for whole rows only")
    if index.dtype.name not in ("int32", "int64"):
        return Refusal("compiled for indices of int32 and int64 only")
    if not all(math.prod(source.layout.shape) for source in task.inputs if source.layout):
        return Refusal("there is nothing to copy")
    if not all(source.layout is not None and is_contiguous(source.layout) for source in (table, index)):
        return Refusal("compiled for tables and indices in row-major order only")
    return RowsKernel(processor, task, puts)


class RowsKernel(CpuKernel):
    """Rows at indices, of which the last one counts where several are the same."""

    name = "rows"

    def __init__(self, processor: Processor, task: Task, puts: bool) -> None:
        super().__init__(processor, task)
        self._puts = puts

    @cached_property
    def cost(self) -> Cost:
        return self.reference.cost

    def _bind(self) -> BoundLoops:
        task, owner = self.task, self.owner
        (table, *_, index), (output,) = task.inputs, task.outputs
        assert task.call is not None
        assert table.layout is not None
        assert table.dtype is not None
        assert index.dtype is not None
        assert index.layout is not None
        puts, wraps = self._puts, task.call.attributes.get("wrap", False)
        wrong = 1 + max(output.item, *(source.item for source in task.inputs))
        count, (entries, *row) = math.prod(index.layout.shape), table.layout.shape
        row_bytes = table.dtype.nbytes(math.prod(row))
        chunks = row_bytes // _CHUNK
        meta = np.array([count, entries, chunks, chunks * _CHUNK, row_bytes], np.int64)
        kernel = owner.compiled(_module, (8 * index.dtype.itemsize, puts, wraps))
        before, new, overwritten, items, piece = [], [(wrong, 8)], [], 1, 1
        result, rows = Location(output.item), Location(table.item, first_byte(table))
        if puts:
            value = task.inputs[1]
            assert value.layout is not None
            if value.dtype is not table.dtype or not is_contiguous(value.layout):
                copy, value = bind_copy(owner, value, wrong + 1, table.dtype)
                before.append(copy)
            rows = Location(value.item, first_byte(value))
            if output.donor is None:
                before.append(bind_copy(owner, table, output.item)[0])
            else:
                overwritten.append((output.item, output.donor))
        else:
            new.append((output.item, output.nbytes))
            result, rows = rows, result
            items, piece = count, max(PACKED_PIECE // row_bytes, -(-count // _MOST_PIECES))
        slots = result, rows, Location(index.item, first_byte(index)), Location(wrong)
        loop = BoundLoop(kernel, meta.ctypes.data, items, piece, slots)
        bound = BoundLoops((loop,), tuple(new), tuple(overwritten), (meta,), wrong, self.reference.bind())
        return joined([*before, bound])
