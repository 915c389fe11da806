"""The op `concat`: all operands in one launch."""

from __future__ import annotations

import math
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import reshaped
from npu_tensor.runtime.cpu.bound_loops import BoundLoops
from npu_tensor.runtime.cpu.cpu_cost import PACKED_PIECE
from npu_tensor.runtime.cpu.ir_emitter import BEGIN, END, META, POINTERS, Emitter
from npu_tensor.runtime.cpu.kernels import CopyingKernel
from npu_tensor.runtime.cpu.loop_parts import LoopParts, place_of
from npu_tensor.runtime.cpu.pool import MAX_SLOTS
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import Value
from npu_tensor.task import Refusal, Task

_CHUNKS: Final = (128, 32)
"""Bytes that are copied at a time. On a Zen 3, 4 x 784 rows of 128 bytes take 17 us in pieces of 128, and 25 us in
pieces of 32."""

_LINE: Final = 64
"""Bytes of a cache line; threads share no line of a row."""

_BLOCK_BYTES: Final = 16 << 10
"""Bytes of the result that stay in the level-1 cache while the operands are copied one after another."""

_LEAST_ROWS: Final = 8
"""Rows from which on threads share these rather than parts of each row."""


class _ConcatSpec(NamedTuple):
    """Structure of a kernel.

    Attributes:
        itemsize: Bytes of an element.
        single: True if each operand has one element per row.
        by_rows: True if threads share rows, False if they share parts of each row.
    """

    itemsize: int
    single: bool
    by_rows: bool


def _module(spec: _ConcatSpec, target: CpuTarget) -> str:
    """Return the module of a kernel that copies rows of several operands side by side.

    pointers  [result, operands ...]
    meta      operands, rows, bytes of a row of the result, rows of a block; then for each operand the bytes of a row,
              of a part of it, between rows, and before its first row in the result
    """
    e, size = Emitter(target), spec.itemsize
    result = e.load_value("ptr", POINTERS)
    count, rows, result_bytes, block = e.numbers(4)
    zero = e.constant(0, "i64")

    def copy(source: Value, place: Value, byte: Value, width: int) -> None:
        type_ = f"i{8 * size}" if width == size else f"<{width // size} x i{8 * size}>"
        value = e.load_value(type_, e.byte_offset(source, byte), align=size)
        e.store_value(value, e.byte_offset(place, byte), align=size)

    def copy_operands(first: Value, last: Value) -> None:
        def copy_operand(number: Value, _: list[Value]) -> None:
            table = e.byte_offset(META, e.mul(e.add(number, 1), 32))
            row_bytes, part, between, before = (e.load_value("i64", table, entry) for entry in range(4))
            source = e.load_value("ptr", e.byte_offset(POINTERS, e.mul(e.add(number, 1), 8)))
            start, stop = zero, row_bytes
            if not spec.by_rows:
                start, stop = (e.smaller(e.mul(each, part), row_bytes) for each in (BEGIN, END))

            def copy_row(row: Value, _: list[Value]) -> None:
                own = e.byte_offset(source, e.mul(row, between))
                place = e.byte_offset(result, e.add(e.mul(row, result_bytes), before))
                if spec.single:
                    copy(own, place, zero, size)
                else:
                    e.in_blocks(start, stop, (*_CHUNKS, size), partial(copy, own, place))

            e.loop(first, last, 1, (), copy_row)

        e.loop(zero, count, 1, (), copy_operand)

    first, last = (BEGIN, END) if spec.by_rows else (zero, rows)
    e.loop(first, last, block, (), lambda row, _: copy_operands(row, e.smaller(e.add(row, block), last)))
    return e.kernel()


def concat_kernel(processor: Processor, task: Task) -> ConcatKernel | Refusal:
    """Return the kernel for a task of the op, or the reason why there is none."""
    return ConcatKernel(processor, task) if math.prod(task.shape) else Refusal("there is nothing to copy")


class ConcatKernel(CopyingKernel):
    """Rows of all operands side by side. Operands whose rows are not contiguous are copied first."""

    name = "concat"

    def _bind(self) -> BoundLoops:
        task, (output,), parts = self.task, self.task.outputs, LoopParts(self.owner, self.task)
        dim, size = task.attributes["dim"], output.dtype.itemsize
        rows, inner = math.prod(task.shape[:dim]), math.prod(task.shape[dim + 1 :])
        result_bytes = task.shape[dim] * inner * size
        by_rows = rows >= _LEAST_ROWS
        shares = 1 if by_rows else max(1, rows * result_bytes // PACKED_PIECE)
        tables, before = [], 0
        for source in task.tensors:
            length = source.layout.shape[dim] * inner
            if not length:
                continue
            layout = _as_rows(source.layout, rows, length)
            if layout is None:
                source, layout = parts.copy(source), Layout((rows, length), (length, 1))
            share = -(-length * size // (shares * _LINE)) * _LINE
            tables.append((place_of(source), length, (length * size, share, layout.strides[0] * size, before)))
            before += length * size
        spec = _ConcatSpec(size, all(length == 1 for _, length, _ in tables), by_rows)
        block = max(1, _BLOCK_BYTES // result_bytes)
        items, grain = (rows, max(block, PACKED_PIECE // result_bytes)) if by_rows else (shares, 1)
        result = parts.result(output)
        for first in range(0, len(tables), MAX_SLOTS - 1):
            locations, _, numbers = zip(*tables[first : first + MAX_SLOTS - 1], strict=True)
            header = (len(locations), rows, result_bytes, block)
            parts.loop(_module, spec, np.array([header, *numbers]), items, grain, (result, *locations))
        return parts.joined()


def _as_rows(layout: Layout, rows: int, length: int) -> Layout | None:
    """Return the layout as evenly spaced rows of contiguous elements, or None."""
    layout_of_rows = reshaped(layout, (rows, length))
    is_contiguous = layout_of_rows is not None and (length == 1 or layout_of_rows.strides[1] == 1)
    return layout_of_rows if is_contiguous else None
