"""The kernels of programs and products. Data ops have a module for each kind of kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, partial
from itertools import zip_longest
from typing import Any, Final

from npu_tensor._util.forks import cached_property
from npu_tensor.dtypes import DType
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import ProgramBuilder
from npu_tensor.ops.layouts import factored
from npu_tensor.runtime.cpu.bind_loop import bind_loop, number_types, slots_of, with_fixed_numbers
from npu_tensor.runtime.cpu.bound_loops import (
    BoundLoop,
    BoundLoops,
    Location,
    Packed,
    Slot,
    joined,
    renumbered,
    step,
    with_constants,
)
from npu_tensor.runtime.cpu.collapse import collapse
from npu_tensor.runtime.cpu.cpu_cost import NEAR, copy_cost, factor_dtypes, loop_cost, product_cost, total
from npu_tensor.runtime.cpu.data_ops import COMPOSED, Composed
from npu_tensor.runtime.cpu.gemm import Computed, Gemm, Matrix, Packing, Scattered
from npu_tensor.runtime.cpu.pool import MAX_SLOTS
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.split import split_rows
from npu_tensor.runtime.cpu.windows import Windows
from npu_tensor.runtime.memory import Buffer
from npu_tensor.runtime.reference import ReferenceDevice, ReferenceKernel
from npu_tensor.spec import Spec, contiguous_strides
from npu_tensor.task import Cost, Input, Output, Prologue, Refusal, Step, Task, TensorInput


class CpuKernel:
    """Kernel of a task on the processor.

    Attributes:
        loops: Loops of the bound kernel, if it runs loops only.
        items: Items of the bound kernel's task, in the order of `Task.numbered`.
    """

    device = "cpu"
    name: str
    origin = "none"
    loops: BoundLoops | None = None
    items: tuple[int, ...] = ()
    _step: Step | None = None

    def __init__(self, processor: Processor, task: Task) -> None:
        self.owner = processor
        self.task = task
        self.reason = f"compiled, {processor.target.lanes} lanes"

    def bind(self) -> Step:
        """Bind the kernel; compile code that is not in a cache.

        The loops of a living kernel with an equal task, such as that of another layer, are reused.
        """
        task, self.items = self.task.numbered()
        key = type(self), self.owner.threads, task
        equal: CpuKernel | None = self.owner.bound.get(key)
        if equal is not None and equal.loops is not None:
            self.origin = "memory"
            loops = renumbered(equal.loops, dict(zip(equal.items, self.items, strict=True)))
            self.loops = loops if loops.wrong is None else loops._replace(raise_error=self.reference.bind())
        else:
            self.owner.bound[key] = self
            with self.owner.compiling(self):
                bound = self._bind()
            if not isinstance(bound, BoundLoops):
                return bound
            self.loops = bound
        return self._run_alone

    def _run_alone(self, values: list[Any]) -> None:
        """Run the loops of this kernel only. Most plans run those of several kernels in one call."""
        if self._step is None:
            assert self.loops is not None
            self._step = step(self.owner, self.loops, [output.item for output in self.task.outputs])
        self._step(values)

    @property
    def reference(self) -> ReferenceKernel:
        """NumPy kernel of the task, for cases that the compiled kernel does not handle."""
        return ReferenceKernel(self.task, ReferenceDevice(self.owner.allocator))

    def _bind(self) -> BoundLoops | Step:
        raise NotImplementedError


class LoopKernel(CpuKernel):
    """A map or row task as one loop over elements or rows."""

    def __init__(self, processor: Processor, task: Task) -> None:
        super().__init__(processor, task)
        self.name = "fused map" if task.kind == "map" else "row"
        if len(task.ops) > 1:
            self.reason += ", fused"

    @cached_property
    def cost(self) -> Cost:
        return loop_cost(self.task, self.owner.rates, self.owner.threads)

    def _bind(self) -> BoundLoops:
        """Bind the loop. Operands whose rows jump in memory, or are better side by side, are copied first."""
        task = self.task
        inputs, copies = list(task.inputs), []
        if task.rows:
            axis, moved = _side_by_side(task, self.owner.target.lanes)
            for number, source in enumerate(inputs):
                if source.layout is None:
                    continue
                if number in moved:
                    copy, inputs[number] = _bind_copy_across(self.owner, source, axis, last_item(task) + 1 + number)
                elif _jumps_within_rows(source.layout, task.rows):
                    copy, inputs[number] = bind_copy(self.owner, source, last_item(task) + 1 + number)
                else:
                    continue
                copies.append(copy)
        split = split_rows(task, inputs) if task.rows and self.owner.pool.threads > 1 else None
        tasks = split or (task._replace(inputs=tuple(inputs)),)
        return joined([*copies, *(_bind_task(self.owner, part) for part in tasks)])


class ComposedKernel(CpuKernel):
    """A data task as several loops."""

    def __init__(self, processor: Processor, task: Task, composed: Composed) -> None:
        super().__init__(processor, task)
        self.composed = composed
        self.name = "map" if len(composed.tasks) == 1 else f"{len(composed.tasks)} loops"

    @cached_property
    def cost(self) -> Cost:
        costs = [loop_cost(part, self.owner.rates, self.owner.threads) for part in self.composed.tasks]
        return Cost(total(cost.expense for cost in costs), sum(cost.nbytes for cost in costs))

    def _bind(self) -> BoundLoops:
        loops = joined([_bind_task(self.owner, task) for task in self.composed.tasks])
        constants = {item: Buffer.from_array(array) for item, array in self.composed.constants.items()}
        return with_constants(loops, constants)


def composed_kernel(processor: Processor, task: Task) -> ComposedKernel | Refusal:
    """Return the kernel of a data op that is several loops, or the reason why there is none."""
    composed = COMPOSED[task.ops[0]](task)
    return composed if isinstance(composed, Refusal) else ComposedKernel(processor, task, composed)


class ProductKernel(CpuKernel):
    """A matrix product with its prologues and epilogue."""

    name = "gemm"

    def __init__(self, processor: Processor, task: Task) -> None:
        if task.shape[-1] == 1 and not any(task.prologues):
            task = _transposed(task)
        super().__init__(processor, task)
        assert task.call is not None
        left = task.call.operands[0]
        assert isinstance(left, Spec)
        self.reason = f"compiled for {left.dtype.name}"
        if any(task.prologues):
            self.reason += ", fused prologue"
        if len(task.program.instructions) > 1:
            self.reason += ", fused epilogue"

    @cached_property
    def cost(self) -> Cost:
        blocking = self.owner.blocking(*factor_dtypes(self.task))
        return product_cost(self.task, self.owner.rates, self.owner.threads, blocking, self.owner.target)

    def _bind(self) -> BoundLoops | Step:
        """Bind the product. Operands of the epilogue that jump along a row are copied first."""
        task, owner = self.task, self.owner
        *batch, m, n = task.shape
        left, right, epilogue = task.split(task.inputs)
        rest = list(epilogue)
        copies = []
        for number, source in enumerate(rest):
            if source.layout is not None and n > 1 and source.layout.strides[-1] not in (0, 1):
                copy, rest[number] = bind_copy(owner, source, last_item(task) + 1 + number)
                copies.append(copy)
        slots = MAX_SLOTS - len(task.outputs) - len(rest) - 2  # for A and B
        program, fixed = with_fixed_numbers(task.program, 1 + len(rest), slots)
        numbers = number_types(program)
        shapes = [(*batch, m, task.depth), (*batch, task.depth, n)]
        (a, from_a), (b, from_b) = map(_factor, task.prologues, (left, right), shapes)
        product = partial(
            owner.product,
            (m, n, task.depth),
            a=a,
            b=b,
            outputs=tuple(Matrix(output.dtype.name, output.layout.strides) for output in task.outputs),
            epilogue=program,
            operands=(
                *(_matrix(source, numbers.get(slot)) for slot, source in enumerate(rest, 1)),
                *(_number(type(number)) for number in fixed),
            ),
            batch=tuple(batch),
            threads=owner.pool.threads,
        )
        item, more = last_item(task) + 1 + len(rest), [*slots_of(rest, program, 1, with_offset=True), *fixed]

        def bound(gemm: Gemm) -> BoundLoops:
            parts, slots = list(copies), list[Slot]()
            packings = gemm.packings[:1] if gemm.strips else gemm.packings
            for number, (packing, inputs, sources) in enumerate(zip_longest(packings, (left, right), (from_a, from_b))):
                packs, packed = _bind_packing(packing, inputs, sources, item + number) if packing else ([], sources)
                parts += packs
                slots += packed
            return joined([*parts, _bind_multiplication(gemm, task.outputs, [*slots, *more])])

        gemm = product(strips=not right[0].persistent)
        loops = bound(gemm)
        if not gemm.strips or right[0].persistent is False:
            return loops
        # Packing all of B pays off if it is used again.
        packing, weight, results = gemm.packings[1], right[0], [output.item for output in task.outputs]
        first, offset = step(owner, loops, results), first_byte(weight)
        later = cache(lambda: step(owner, bound(product(strips=False)), results))

        def run(values: list[Any]) -> None:
            value = values[weight.item]
            was_used = owner.was_used(packing, value, value.address + offset)
            (later() if was_used else first)(values)

        return run


class CopyingKernel(CpuKernel):
    """A kernel that moves elements and is bound by memory."""

    @cached_property
    def cost(self) -> Cost:
        return copy_cost(self.task, self.owner.rates, self.owner.threads)


def _transposed(task: Task) -> Task:
    """Return the transposed product: tiles have few rows or many columns."""

    def of(layout: Layout) -> Layout:
        shape, strides = layout.shape, layout.strides
        return Layout((*shape[:-2], *shape[:-3:-1]), (*strides[:-2], *strides[:-3:-1]), layout.offset)

    left, right, *rest = (
        source if source.layout is None else source._replace(layout=of(source.layout)) for source in task.inputs
    )
    outputs = tuple(output._replace(layout=of(output.layout)) for output in task.outputs)
    shape = (*task.shape[:-2], *task.shape[:-3:-1])
    return task._replace(inputs=(right, left, *rest), outputs=outputs, shape=shape)


LONG_RUN: Final = 64
"""Length of runs in elements below which rows are copied to form longer runs, which costs less than short runs."""


def _jumps_within_rows(layout: Layout, rows: int) -> bool:
    """Return True if a row-major copy of an operand is not larger and has much longer runs."""
    if any(extent > 1 and not stride for extent, stride in zip(layout.shape, layout.strides, strict=True)):
        return False  # A copy would have every element many times.
    space = collapse(layout.shape, (layout,), rows)
    return space.runs > 0 and (space.inner < LONG_RUN or space.inner_strides[0] not in NEAR)


SHORT_ROW: Final = 16
"""Length of rows in elements up to which lanes that are rows of their own are faster than lanes along a row."""

SIDE_BY_SIDE_READS: Final = 4
"""Least number of times that each element of a copy with rows side by side is read."""


def _side_by_side(task: Task, lanes: int) -> tuple[int, tuple[int, ...]]:
    """Return the innermost dimension of rows, and the operands to copy with that dimension innermost.

    With such copies, differences of all pairs of short rows have lanes that are rows.
    """
    cut = len(task.shape) - task.rows
    axis = max((axis for axis in range(cut) if task.shape[axis] > 1), default=0)
    length = math.prod(task.shape[cut:])
    per_row = all(output.layout.strides[axis] == 1 and not any(output.layout.strides[cut:]) for output in task.outputs)
    if not (per_row and cut and 1 < length <= SHORT_ROW and task.shape[axis] >= lanes):
        return axis, ()
    layouts = {number: source.layout for number, source in enumerate(task.inputs) if source.layout is not None}
    moved = tuple(number for number, layout in layouts.items() if layout.strides[axis] not in (0, 1))
    elements = math.prod(task.shape)
    sizes = [math.prod(task.shape[each] for each in _varying(layouts[number])) for number in moved]
    return axis, moved if all(size * SIDE_BY_SIDE_READS <= elements for size in sizes) else ()


def _varying(layout: Layout) -> list[int]:
    """Return the dimensions along which a layout has several elements."""
    pairs = zip(layout.shape, layout.strides, strict=True)
    return [axis for axis, (extent, stride) in enumerate(pairs) if extent > 1 and stride]


def _bind_copy_across(owner: Processor, source: TensorInput, axis: int, item: int) -> tuple[BoundLoops, TensorInput]:
    """Return the loop that makes a copy of an operand with a dimension innermost, and the copy as an operand."""
    shape, strides, offset = source.layout
    axes = [*(each for each in _varying(source.layout) if each != axis), axis]
    part = Layout(tuple(shape[each] for each in axes), tuple(strides[each] for each in axes), offset)
    copy, copied = bind_copy(owner, source._replace(layout=part), item)
    steps = dict(zip(axes, copied.layout.strides, strict=True))
    return copy, copied._replace(layout=Layout(shape, tuple(steps.get(each, 0) for each in range(len(shape)))))


def _bind_packing(
    packing: Packing, inputs: Sequence[Input], sources: Sequence[Slot], item: int
) -> tuple[list[BoundLoops], list[Slot]]:
    """Return the loops that pack an operand in each run, and the packed operand. A matrix may stay packed."""
    source = inputs[0]
    if packing.key is not None and source.persistent is not False:
        return [], [Packed(source.item, first_byte(source), packing, bool(source.persistent))]
    loops, packed = bind_packing(packing, sources, item)
    return [loops], [packed]


def bind_packing(packing: Packing, sources: Sequence[Slot], item: int) -> tuple[BoundLoops, Location]:
    """Return the loop that packs an operand in a run, and the packed operand."""
    kernel, meta, count, grain = packing.loop
    assert kernel is not None
    loop = BoundLoop(kernel, meta, count, grain, (Location(item), *sources))
    return BoundLoops((loop,), ((item, packing.bytes),)), Location(item)


def _bind_multiplication(gemm: Gemm, outputs: Sequence[Output], slots: Sequence[Slot]) -> BoundLoops:
    """Bind the loop that multiplies. `slots` has those of A, of B and of the epilogue."""
    results = [Location(output.item) for output in outputs]
    bound = BoundLoops((), ()) if gemm.empty else bind_product(gemm, (*slots[:2], *results, *slots[2:]))
    return bound._replace(new=tuple([(output.item, output.nbytes) for output in outputs]))


def last_item(*tasks: Task) -> int:
    """Return the largest number of an item that some tasks read or write."""
    read = [source.item for task in tasks for source in task.inputs]
    return max(read + [output.item for task in tasks for output in task.outputs])


def _bind_task(owner: Processor, task: Task) -> BoundLoops:
    return bind_loop(owner, task.program, task.shape, task.rows, task.inputs, task.outputs)


def bind_copy(
    owner: Processor, source: TensorInput, item: int, dtype: DType | None = None, pitch: int | None = None
) -> tuple[BoundLoops, TensorInput]:
    """Return the loop that makes a row-major copy of an operand, and the copy as an operand.

    The copy may have another dtype, and `pitch` elements from row to row. It does not replace the operand, which
    another loop may read in another layout.
    """
    shape, dtype = source.layout.shape, dtype or source.dtype
    whole = Layout(shape, contiguous_strides(shape))
    if pitch is not None:
        whole = Layout(shape, (*contiguous_strides((*shape[:-1], pitch))[:-1], 1))
    nbytes = math.prod(shape[:-1]) * (pitch or shape[-1] if shape else 1) * dtype.itemsize
    loops = bind_move(owner, source, Output(item, dtype, whole, nbytes))
    return loops, source._replace(item=item, dtype=dtype, layout=whole)


def bind_zeros(owner: Processor, output: Output) -> BoundLoops:
    """Return the loop that makes a result of zeros."""
    builder = ProgramBuilder()
    program = builder.program([builder.constant(0.0, output.dtype.register)])
    return bind_loop(owner, program, output.layout.shape, 0, [], [output])


def bind_product(product: Gemm, slots: Sequence[Slot]) -> BoundLoops:
    """Return the loop of a product that is not empty. `slots` has those of A, B, the results and the epilogue."""
    loop = product.multiply
    assert loop.kernel is not None
    bound = BoundLoop(loop.kernel, loop.meta_address, loop.items, loop.grain, tuple(slots))
    return BoundLoops((bound,), (), keep=(product,))


def plain_product(
    owner: Processor,
    shape: tuple[int, int, int],
    a: Matrix | Scattered | Windows,
    b: Scattered,
    output: Matrix,
    batch: tuple[int, ...],
) -> Gemm:
    """Return a product without other ops; its arguments are those of `Gemm`."""
    builder = ProgramBuilder()
    epilogue = builder.program([builder.load(0, "float64" if output.dtype == "float64" else "float32")])
    return owner.product(shape, a=a, b=b, outputs=(output,), epilogue=epilogue, batch=batch, threads=owner.pool.threads)


def bind_move(owner: Processor, source: TensorInput, output: Output) -> BoundLoops:
    """Return the loop that copies an operand to the places of a result of the same shape, converted to its dtype."""
    builder = ProgramBuilder()
    program = builder.program([builder.load(0, source.dtype.register).astype(output.dtype.register)])
    return bind_loop(owner, program, output.layout.shape, 0, [source], [output])


def _factor(
    prologue: Prologue | None, inputs: Sequence[Input], shape: tuple[int, ...]
) -> tuple[Matrix | Computed | Scattered, list[Slot]]:
    """Return operand A or B of the given shape, and the arguments of the kernel that reads it."""
    if prologue is None:
        (source,) = inputs
        assert source.layout is not None
        *batch, rows, columns = parts = factored(source.layout, shape)
        strides = tuple(part.strides[0] if part.strides else 0 for part in parts)
        slots: list[Slot] = [Location(source.item, first_byte(source))]
        if any(len(part.shape) > 1 for part in parts):
            return Scattered(source.dtype.name, tuple(batch), rows, columns), slots
        return Matrix(source.dtype.name, strides), slots
    program, fixed = with_fixed_numbers(prologue.program, len(inputs), MAX_SLOTS - 1 - len(inputs))
    numbers = number_types(program)
    matrices = [_matrix(source, numbers.get(slot)) for slot, source in enumerate(inputs)]
    matrices += [_number(type(number)) for number in fixed]
    slots = [*slots_of(inputs, program, with_offset=True), *fixed]
    return Computed(prologue.dtype.name, program, tuple(matrices)), slots


def _number(kind: type | None) -> Matrix:
    return Matrix("int64" if kind in (int, bool) else "float64")


def _matrix(source: Input, number: type | None = None) -> Matrix:
    if source.layout is None:
        return _number(number)
    strides = tuple(
        0 if extent == 1 else stride for extent, stride in zip(source.layout.shape, source.layout.strides, strict=True)
    )
    return Matrix(source.dtype.name, strides)


def first_byte(source: Input) -> int:
    """Return the number of bytes before the first element."""
    return 0 if source.layout is None or source.dtype is None else source.layout.offset * source.dtype.itemsize
