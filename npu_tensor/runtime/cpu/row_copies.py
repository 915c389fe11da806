"""Rows of a table at indices: `take`, `take_points`, `gather_along`, `put` and `scatter_along`.

A first loop computes the offset of each indexed row, a second one checks them, and the last one copies or adds. Values
of equal indices are stored in the order of the indices, so results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from npu_tensor._util.cache_sizes import PROGRAMS
from npu_tensor._util.forks import cached_property
from npu_tensor.dtypes import DType, as_dtype, int64, uint8
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Instruction, Program, ProgramBuilder, as_parameter
from npu_tensor.ops.layouts import merged, reshaped
from npu_tensor.runtime.cpu.bind_loop import bind_loop
from npu_tensor.runtime.cpu.bound_loops import BoundLoops, Location, with_constants
from npu_tensor.runtime.cpu.cpu_cost import PACKED_PIECE
from npu_tensor.runtime.cpu.ir_emitter import BEGIN, END, Emitter
from npu_tensor.runtime.cpu.kernels import CpuKernel, bind_copy
from npu_tensor.runtime.cpu.loop_parts import LoopParts, place_of
from npu_tensor.runtime.cpu.primitive_ir import apply
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import Value, ValueOrNumber
from npu_tensor.runtime.cpu.write_strided import is_contiguous
from npu_tensor.runtime.memory import Buffer
from npu_tensor.spec import broadcast_shapes, contiguous_strides
from npu_tensor.task import Cost, Output, Refusal, Task, TensorInput

_CHUNK: Final = 32
"""Bytes that are copied at a time."""

_LEAST_OUTER: Final = 8
"""Repetitions from which on threads share these rather than the rows."""

_LEAST_COLUMNS: Final = 64
"""Elements of a row that a thread adds at a time, whole cache lines."""

_PRIMITIVES: Final = {"add": "add", "multiply": "mul", "maximum": "maximum", "minimum": "minimum"}
"""Primitive of each reduction of `put`."""


class _RowSpec(NamedTuple):
    """Structure of a kernel.

    Attributes:
        dtype: Dtype in memory.
        primitive: Primitive that combines a row of the table with a value; empty to copy.
        puts: True if values are written to the table, False if rows are read from it.
        form: Rows of a single element, of contiguous elements, or of elements with strides.
        divided: Loop that threads share.
    """

    dtype: str
    primitive: str
    puts: bool
    form: Literal["single", "contiguous", "strided"]
    divided: Literal["outer", "rows", "columns"]


def _module(spec: _RowSpec, target: CpuTarget) -> str:
    """Return the module of a kernel that moves rows. Nothing is moved if an index is out of range.

    pointers  [table, values, offsets of rows in the table, wrong]
    meta      repetitions, rows, elements of a row; then for table and values the steps of repetitions and of elements,
              and the step of rows in the values
    """
    e, size = Emitter(target), as_dtype(spec.dtype).itemsize
    table, values, offsets, wrong = e.addresses(4)
    outer, rows, columns, *steps = e.numbers(8)
    table_outer, table_step, value_outer, value_step, value_row = steps
    number, combine = f"i{8 * size}", Instruction(spec.primitive, (0, 1), spec.dtype)

    def move(table_row: Value, value_row: Value, table_column: Value, value_column: Value, vector: bool) -> None:
        """Move one element, or a vector of them."""
        place, value = e.address(table_row, table_column, spec.dtype), e.address(value_row, value_column, spec.dtype)
        if spec.primitive:
            load = e.load if vector else e.load_scalar
            result = apply(e, combine, [load(spec.dtype, place), load(spec.dtype, value)], [spec.dtype])
            (e.store if vector else e.store_scalar)(spec.dtype, result, place)
            return
        source, destination = (value, place) if spec.puts else (place, value)
        type_ = f"<{_CHUNK // size} x {number}>" if vector else number
        e.store_value(e.load_value(type_, source, align=size), destination, align=size)

    def move_row(place: Value, value: Value) -> None:
        first, last = (BEGIN, END) if spec.divided == "columns" else (e.constant(0, "i64"), columns)
        if spec.form == "single":
            move(place, value, first, first, False)
        elif spec.form == "strided":
            e.loop(
                first,
                last,
                1,
                (),
                lambda column, _: move(place, value, e.mul(column, table_step), e.mul(column, value_step), False),
            )
        else:
            width = e.lanes if spec.primitive else _CHUNK // size
            e.in_blocks(first, last, (width, 1), lambda column, width: move(place, value, column, column, width > 1))

    def repeat(repetition: Value, _: list[Value]) -> None:
        own_table = e.address(table, e.mul(repetition, table_outer), spec.dtype)
        own_values = e.address(values, e.mul(repetition, value_outer), spec.dtype)

        def take(row: Value, _: list[Value]) -> None:
            offset = e.load_value("i64", e.address(offsets, row, "int64"))
            value = e.address(own_values, e.mul(row, value_row), spec.dtype)
            move_row(e.address(own_table, offset, spec.dtype), value)

        e.loop(*((BEGIN, END) if spec.divided == "rows" else (e.constant(0, "i64"), rows)), 1, (), take)

    first, last = (BEGIN, END) if spec.divided == "outer" else (e.constant(0, "i64"), outer)
    is_fine = e.compare("eq", e.load_value("i64", wrong), 0)
    e.loop(first, e.select(is_fine, last, first), 1, (), repeat)
    return e.kernel()


def _check_module(_: None, target: CpuTarget) -> str:
    """Return the module of a kernel that stores 1 if any of several i64 is negative, else 0.

    pointers  [numbers, result]
    """
    e = Emitter(target)
    numbers, result = e.addresses(2)

    def join(type_: str, first: ValueOrNumber, last: ValueOrNumber, step: int) -> Value:
        def body(number: Value, so_far: list[Value]) -> list[Value]:
            return [e.op("or", so_far[0], e.load_value(type_, e.address(numbers, number, "int64")))]

        start = e.constant(0, type_)
        return e.loop(e.operand(first, "i64"), e.operand(last, "i64"), step, [start], body)[0]

    whole = e.op("and", END, -e.lanes)
    vector = join(e.vector("i64"), 0, whole, e.lanes)
    lanes = e.intrinsic("llvm.vector.reduce.or", vector, result="i64", overloads=(vector.type,))
    e.store_value(e.op("lshr", e.op("or", lanes, join("i64", whole, END, 1)), 63), result, align=8)
    return e.kernel()


@lru_cache(maxsize=PROGRAMS)
def _offsets_program(indices: tuple[tuple[str, int, int], ...], grid: int, base: int, wrap: bool) -> Program:
    """Return the program of the offset of a row, which is -1 if an index is out of range.

    Args:
        indices: Dtype, extent and step of each index.
        grid: Number of operands with offsets of positions, which follow the indices.
        base: Offset of the first row.
        wrap: True if negative indices count from the end.
    """
    builder = ProgramBuilder()

    def number(value: int) -> Any:
        return builder.constant(as_parameter(value), "int64")

    offset = number(base)
    is_wrong: Any = builder.constant(False, "bool")
    for slot, (dtype, extent, step) in enumerate(indices):
        index: Any = builder.load(slot, dtype).astype("int64")
        if wrap:
            index = np.where(index < 0, index + number(extent), index)
        offset = offset + index * number(step)
        is_wrong = is_wrong | (index < 0) | (index >= number(extent))
    for slot in range(len(indices), len(indices) + grid):
        offset = offset + builder.load(slot, "int64")
    return builder.program([np.where(is_wrong, number(-1), offset)])


class _Rows(NamedTuple):
    """Indexed rows of a table, and their values.

    Attributes:
        dims: Indexed dimensions of the table.
        grid: Dimensions in which an index has the positions of its own elements, see `gather_along`.
        table: Layout of the table, over the indexed part.
        values: Layout over the indices and the other dimensions of the table.
        indices: Layout of each index over the shape of all.
    """

    dims: tuple[int, ...]
    grid: tuple[int, ...]
    table: Layout
    values: Layout
    indices: tuple[Layout, ...]


def _rows_of(task: Task, puts: bool) -> _Rows:
    attributes, table = task.attributes, task.tensors[0].layout
    indices = [source.layout for source in task.inputs[1 + puts :] if source.layout is not None]
    assert table is not None
    shape = broadcast_shapes(*(index.shape for index in indices))
    over = tuple(_expanded(index, shape) for index in indices)
    if task.ops[0] in ("gather_along", "scatter_along"):
        dim, values = attributes["dim"], task.tensors[1].layout if puts else task.outputs[0].layout
        table = Layout(table.shape, contiguous_strides(table.shape)) if puts else table
        assert values is not None
        return _Rows((dim,), tuple(axis for axis in range(len(shape)) if axis != dim), table, values, over)
    if puts:
        values, bounds = task.tensors[1].layout, attributes["bounds"]
        assert values is not None
        steps = contiguous_strides(table.shape)
        extents = tuple(len(range(*bound)) for bound in bounds)
        base = sum(bound[0] * step for bound, step in zip(bounds, steps, strict=True))
        strides = tuple(bound[2] * step for bound, step in zip(bounds, steps, strict=True))
        return _Rows(attributes["dims"], (), Layout(extents, strides, base), values, over)
    dims = (attributes["dim"],) if "dim" in attributes else tuple(range(len(indices)))
    first, result = dims[0], task.outputs[0].layout
    order = (*range(first, first + len(shape)), *range(first), *range(first + len(shape), len(result.shape)))
    values = Layout(tuple(result.shape[axis] for axis in order), tuple(result.strides[axis] for axis in order))
    return _Rows(dims, (), table, values, over)


def _expanded(layout: Layout, shape: tuple[int, ...]) -> Layout:
    strides = tuple(0 if n == 1 else stride for n, stride in zip(layout.shape, layout.strides, strict=True))
    return Layout(shape, (0,) * (len(shape) - len(strides)) + strides, layout.offset)


def rows_kernel(processor: Processor, task: Task, puts: bool) -> RowsKernel | Refusal:
    """Return the kernel for a task, or the reason why there is none. It writes to the indexed rows if `puts` is set."""
    table, *others = task.tensors
    indices = others[1:] if puts else others
    if not indices:
        return Refusal("compiled for indices only")
    if not all(math.prod(source.layout.shape) for source in task.inputs if source.layout) or not math.prod(task.shape):
        return Refusal("there is nothing to copy")
    if table.dtype.is_quantized:
        is_whole = not puts and is_contiguous(table.layout) and task.attributes.get("dim") == 0
        return RowsKernel(processor, task, puts) if is_whole else Refusal("compiled for whole rows of blocks only")
    if len(_rest(_rows_of(task, puts))[0]) > 2:
        return Refusal("compiled for at most two groups of dimensions beside the indexed ones")
    return RowsKernel(processor, task, puts)


def _rest(rows: _Rows) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return the extents of the dimensions without index, and the strides of the table and of the values."""
    axes = [axis for axis in range(len(rows.table.shape)) if axis not in (*rows.dims, *rows.grid)]
    extents, strides = ([each[axis] for axis in axes] for each in rows.table[:2])
    return merged(extents, [strides, rows.values.strides[len(rows.values.strides) - len(axes) :]])


class RowsKernel(CpuKernel):
    """Rows at indices. Of several values for one row the last one counts, or all are combined in order."""

    name = "rows"

    def __init__(self, processor: Processor, task: Task, puts: bool) -> None:
        super().__init__(processor, task)
        self._puts = puts

    @cached_property
    def cost(self) -> Cost:
        return self.reference.cost

    def _bind(self) -> BoundLoops:
        task, owner, puts, parts = self.task, self.owner, self._puts, LoopParts(self.owner, self.task)
        (table, value, *_), (output,) = task.tensors, task.outputs
        attributes, dtype, rows = task.attributes, table.dtype, _rows_of(task, puts)
        reduce = attributes.get("reduce", "")
        shape = rows.values.shape[: len(rows.indices[0].shape)]
        if puts:
            if reduce and dtype.register != dtype.name:  # Sums of 16-bit floats are rounded once.
                dtype = as_dtype(dtype.register)
            if value.dtype is not dtype or _spacing(rows.values, shape) is None:
                value = parts.copy(value, dtype)
                rows = rows._replace(values=value.layout)
            destination = output.item
            if dtype is not table.dtype:
                wide = parts.copy(table, dtype)
                parts.convert_at_last(wide, output)
                destination = wide.item
            elif output.donor is None or not is_contiguous(table.layout):
                parts.add(bind_copy(owner, table, output.item)[0])
            else:
                parts.add(BoundLoops((), (), ((output.item, output.donor),)))
            places = Location(destination), place_of(value)
        else:
            places = Location(table.item), parts.result(output)
        if dtype.is_quantized:
            rows, dtype = _as_bytes(rows, dtype), uint8
        indices = [
            TensorInput(source.item, source.dtype, layout)
            for source, layout in zip(task.tensors[1 + puts :], rows.indices, strict=True)
        ]
        steps = [
            (source.dtype.name, rows.table.shape[dim], rows.table.strides[dim])
            for source, dim in zip(indices, rows.dims, strict=True)
        ]
        grid = {}
        for axis in rows.grid:
            if shape[axis] > 1:
                item = parts.new_item()
                grid[item] = Buffer.from_array(np.arange(shape[axis]) * rows.table.strides[axis])
                strides = tuple(int(other == axis) for other in range(len(shape)))
                indices.append(TensorInput(item, int64, Layout(shape, strides)))
        wrap, count = bool(attributes.get("wrap", "dim" not in attributes)), math.prod(shape)
        program = _offsets_program(tuple(steps), len(grid), rows.table.offset, wrap)
        found = Output(parts.new_item(), int64, Layout(shape, contiguous_strides(shape)), 8 * count)
        parts.add(with_constants(bind_loop(owner, program, shape, 0, indices, [found]), grid))
        checked = Location(found.item), parts.scratch(8)
        parts.loop(_check_module, None, [], count, count, checked)
        spec, numbers, items, piece = self._division(rows, shape, dtype, _PRIMITIVES.get(reduce, ""))
        parts.loop(_module, spec, numbers, items, piece, (*places, *checked))
        return parts.joined()._replace(wrong=checked[1].item, raise_error=self.reference.bind())

    def _division(
        self, rows: _Rows, shape: tuple[int, ...], dtype: DType, primitive: str
    ) -> tuple[_RowSpec, list[int], int, int]:
        """Return the structure and the numbers of the kernel, its items and their number per piece."""
        count, value_row = math.prod(shape), _spacing(rows.values, shape)
        assert value_row is not None
        extents, (table, values) = _rest(rows)
        # The innermost dimension is the row if it is contiguous in the table, or if another one is there to repeat it.
        has_row = bool(extents) and (len(extents) == 2 or table[-1] == 1)
        outer, *outer_steps = (extents[0], table[0], values[0]) if len(extents) > has_row else (1, 0, 0)
        columns, *steps = (extents[-1], table[-1], values[-1]) if has_row else (1, 1, 1)
        form: Literal["single", "contiguous", "strided"] = (
            "single" if columns == 1 else "contiguous" if steps == [1, 1] else "strided"
        )
        nbytes, threads = dtype.itemsize, self.owner.pool.threads
        divided: Literal["outer", "rows", "columns"] = "outer"
        items, piece = outer, max(1, PACKED_PIECE // (count * columns * nbytes))
        if outer < _LEAST_OUTER and not self._puts:
            divided, items, piece = "rows", count, max(1, PACKED_PIECE // (outer * columns * nbytes))
        elif outer < _LEAST_OUTER and form == "contiguous":
            share = max(-(-columns // threads), PACKED_PIECE // (outer * count * nbytes))
            divided, items, piece = "columns", columns, -(-share // _LEAST_COLUMNS) * _LEAST_COLUMNS
        numbers = [outer, count, columns, outer_steps[0], steps[0], outer_steps[1], steps[1], value_row]
        spec = _RowSpec(dtype.name, primitive, self._puts, form, divided)
        return spec, numbers, items, piece


def _spacing(values: Layout, shape: tuple[int, ...]) -> int | None:
    """Return the distance of values of consecutive rows, or None if it varies."""
    layout = reshaped(Layout(shape, values.strides[: len(shape)]), (math.prod(shape),))
    return None if layout is None else layout.strides[0]


def _as_bytes(rows: _Rows, dtype: DType) -> _Rows:
    """Return whole rows of blocks as rows of bytes."""
    (entries, *row), shape = rows.table.shape, rows.indices[0].shape
    nbytes = dtype.nbytes(math.prod(row))
    table, values = (entries, nbytes), (*shape, nbytes)
    return rows._replace(
        table=Layout(table, contiguous_strides(table), dtype.nbytes(rows.table.offset)),
        values=Layout(values, contiguous_strides(values)),
    )
