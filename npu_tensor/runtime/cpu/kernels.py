"""The kernels of the CPU device: a loop, several loops one after the other, and a matrix product."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from npu_tensor._util.forks import cached_property
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import ProgramBuilder
from npu_tensor.runtime.cpu.bind_loop import bind_loop, number_types, with_fixed_numbers
from npu_tensor.runtime.cpu.collapse import collapse
from npu_tensor.runtime.cpu.cpu_cost import NEAR, factor_dtypes, loop_cost, product_cost, total
from npu_tensor.runtime.cpu.data_ops import Composed
from npu_tensor.runtime.cpu.gemm import Computed, Matrix
from npu_tensor.runtime.cpu.pool import MAX_SLOTS
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.split import split_rows
from npu_tensor.runtime.memory import Buffer
from npu_tensor.spec import Spec, contiguous_strides
from npu_tensor.task import Cost, Input, Output, Prologue, Step, Task

__all__ = ["ComposedKernel", "LoopKernel", "ProductKernel"]


class CpuKernel:
    """A task on the processor."""

    device = "cpu"
    name: str
    origin = "none"

    def __init__(self, processor: Processor, task: Task) -> None:
        self.owner = processor
        self.task = task
        self.reason = f"compiled, {processor.target.lanes} lanes"

    def bind(self) -> Step:
        """Compile what is not compiled yet."""
        with self.owner.compiling(self):
            return self._bind()

    def _bind(self) -> Step:
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

    def _bind(self) -> Step:
        """Operands whose rows jump in memory are copied before."""
        task = self.task
        inputs, copies = list(task.inputs), []
        if task.rows:
            for number, source in enumerate(inputs):
                if source.layout is not None and _jumps_within_rows(source.layout, task.rows):
                    copy, inputs[number] = _bind_copy(self.owner, source, _last_item(task) + 1 + number)
                    copies.append(copy)
        split = split_rows(task, inputs) if task.rows and self.owner.pool.threads > 1 else None
        tasks = split or (task._replace(inputs=tuple(inputs)),)
        steps = [*copies, *(_bind_task(self.owner, part) for part in tasks)]
        return _in_sequence(steps, _last_item(*tasks), task.outputs)


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

    def _bind(self) -> Step:
        tasks = self.composed.tasks
        steps = [_bind_task(self.owner, task) for task in tasks]
        constants = {item: Buffer.from_array(array) for item, array in self.composed.constants.items()}
        return _in_sequence(steps, _last_item(*tasks), tasks[-1].outputs, constants)


class ProductKernel(CpuKernel):
    """A matrix product with its prologues and epilogue."""

    name = "gemm"

    def __init__(self, processor: Processor, task: Task) -> None:
        super().__init__(processor, task)
        assert task.call is not None
        left = task.call.operands[0]
        assert isinstance(left, Spec)
        self.reason = f"compiled for {left.dtype.name}"
        if any(task.prologues):
            self.reason += ", fused prologue"
        if len(task.program.instructions if task.program else ()) > 1:
            self.reason += ", fused epilogue"

    @cached_property
    def cost(self) -> Cost:
        blocking = self.owner.blocking(*factor_dtypes(self.task))
        return product_cost(self.task, self.owner.rates, self.owner.threads, blocking)

    def _bind(self) -> Step:
        """Operands of the epilogue that jump along a row are copied before."""
        task, owner = self.task, self.owner
        assert task.program is not None
        *batch, m, n = task.shape
        left, right, epilogue = task.split(task.inputs)
        rest = list(epilogue)
        copies = []
        for number, source in enumerate(rest):
            if source.layout is not None and n > 1 and source.layout.strides[-1] not in (0, 1):
                copy, rest[number] = _bind_copy(owner, source, _last_item(task) + 1 + number)
                copies.append(copy)
        packed = 2 + len(task.outputs)
        program, fixed = with_fixed_numbers(task.program, 1 + len(rest), MAX_SLOTS - packed - len(rest))
        numbers = number_types(program)
        (a, from_a), (b, from_b) = map(_factor, task.prologues, (left, right))
        gemm = owner.product(
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
        )
        launch, allocate = owner.pool.launch, owner.allocator.allocate
        operands = _arguments(rest, numbers, 1, fixed)

        def run(values: list[Any]) -> None:
            buffers = [allocate(output.nbytes) for output in task.outputs]
            gemm(
                launch,
                allocate,
                [buffer.address for buffer in buffers],
                [argument(values) for argument in from_a],
                [argument(values) for argument in from_b],
                *(argument(values) for argument in operands),
            )
            for output, buffer in zip(task.outputs, buffers, strict=True):
                values[output.item] = buffer

        return _in_sequence([*copies, run], _last_item(task) + len(rest), task.outputs)


LONG_RUN: Final = 64
"""Elements. Shorter runs of rows are copied to form longer ones, as that takes less time than to begin each of them."""


def _jumps_within_rows(layout: Layout, rows: int) -> bool:
    """Whether a row-major copy of an operand, which is no larger than the operand, has much longer runs."""
    if any(extent > 1 and not stride for extent, stride in zip(layout.shape, layout.strides, strict=True)):
        return False  # A copy would have every element many times.
    space = collapse(layout.shape, [layout], rows)
    return space.runs > 0 and (space.inner < LONG_RUN or space.inner_strides[0] not in NEAR)


def _in_sequence(
    steps: Sequence[Step],
    last: int,
    outputs: Sequence[Output],
    constants: Mapping[int, Buffer] = MappingProxyType({}),
) -> Step:
    """One step in place of several. Items that are not the task's, up to number `last`, are in values of their own."""
    if len(steps) == 1 and not constants:
        return steps[0]

    def run(values: list[Any]) -> None:
        extended = [*values, *([None] * (1 + last - len(values)))]
        for item, buffer in constants.items():
            extended[item] = buffer
        for step in steps:
            step(extended)
        for output in outputs:
            values[output.item] = extended[output.item]

    return run


def _last_item(*tasks: Task) -> int:
    """The largest number of an item that some tasks read or write."""
    read = [source.item for task in tasks for source in task.inputs]
    return max(read + [output.item for task in tasks for output in task.outputs])


def _bind_task(owner: Processor, task: Task) -> Step:
    assert task.program is not None
    return bind_loop(owner, task.program, task.shape, task.rows, task.inputs, task.outputs)


def _bind_copy(owner: Processor, source: Input, item: int) -> tuple[Step, Input]:
    """The step that makes a row-major copy of an operand, and the copy as an operand.

    It does not take the place of the operand, which another step may read in another layout too.
    """
    assert source.layout is not None
    assert source.dtype is not None
    shape = source.layout.shape
    builder = ProgramBuilder()
    program = builder.program([builder.load(0, source.dtype.register)])
    whole = Layout(shape, contiguous_strides(shape))
    nbytes = math.prod(shape) * source.dtype.itemsize
    step = bind_loop(owner, program, shape, 0, [source], [Output(item, source.dtype, whole, nbytes)])
    return step, source._replace(item=item, layout=whole)


def _factor(prologue: Prologue | None, inputs: Sequence[Input]) -> tuple[Matrix | Computed, list[_Argument]]:
    """Operand A or B, and the arguments of the kernel that packs it."""
    if prologue is None:
        return _matrix(inputs[0]), _arguments(inputs, {}, 0)
    program, fixed = with_fixed_numbers(prologue.program, len(inputs), MAX_SLOTS - 1 - len(inputs))
    numbers = number_types(program)
    matrices = [_matrix(source, numbers.get(slot)) for slot, source in enumerate(inputs)]
    matrices += [_number(type(number)) for number in fixed]
    return Computed(prologue.dtype.name, program, tuple(matrices)), _arguments(inputs, numbers, 0, fixed)


def _number(kind: type | None) -> Matrix:
    return Matrix("int64" if kind in (int, bool) else "float64")


def _matrix(source: Input, number: type | None = None) -> Matrix:
    if source.layout is None:
        return _number(number)
    assert source.dtype is not None
    strides = tuple(
        0 if extent == 1 else stride for extent, stride in zip(source.layout.shape, source.layout.strides, strict=True)
    )
    return Matrix(source.dtype.name, strides)


_Argument = Callable[[list[Any]], int | float]
"""What a kernel is given for an input, from the values of a run: a number, or the address of its first element."""


def _arguments(
    inputs: Sequence[Input], numbers: dict[int, type], first_slot: int, fixed: Sequence[int | float] = ()
) -> list[_Argument]:
    def argument(source: Input, slot: int) -> _Argument:
        item, layout, dtype = source.item, source.layout, source.dtype
        if layout is None or dtype is None:
            kind = numbers.get(slot, float)
            return lambda values: kind(values[item])
        offset = layout.offset * dtype.itemsize
        return lambda values: values[item].address + offset

    def constant(number: int | float) -> _Argument:
        return lambda values: number

    return [*(argument(source, slot) for slot, source in enumerate(inputs, first_slot)), *map(constant, fixed)]
