"""The kernels of the CPU device: a loop, several loops one after the other, and a matrix product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from npu_tensor._util.forks import cached_property
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Builder
from npu_tensor.runtime.cpu.bind_loop import bind_loop, number_types
from npu_tensor.runtime.cpu.collapse import collapse
from npu_tensor.runtime.cpu.composed import Composed
from npu_tensor.runtime.cpu.cpu_cost import NEAR, loop_cost, product_cost, total
from npu_tensor.runtime.cpu.fixed_numbers import with_fixed_numbers
from npu_tensor.runtime.cpu.gemm import Computed
from npu_tensor.runtime.cpu.gemm import Operand as Matrix
from npu_tensor.runtime.cpu.launch import MAX_SLOTS
from npu_tensor.runtime.cpu.split import split_rows
from npu_tensor.runtime.memory import Buffer
from npu_tensor.spec import Spec, contiguous_strides
from npu_tensor.task import Cost, Input, Output, Prologue, Step, Task

if TYPE_CHECKING:
    from npu_tensor.runtime.cpu.cpu_device import CpuDevice

__all__ = ["ComposedKernel", "LoopKernel", "ProductKernel"]


class LoopKernel:
    """A map or row task as one loop over elements or rows."""

    device = "cpu"

    def __init__(self, device: CpuDevice, task: Task) -> None:
        self.owner = device
        self.task = task
        assert task.program is not None
        self.name = "fused map" if task.kind == "map" else "row"
        self.reason = f"compiled, {device.target.lanes} lanes" + (", fused" if len(task.ops) > 1 else "")
        self.origin = "none"

    @cached_property
    def cost(self) -> Cost:
        """What a run is predicted to take."""
        return loop_cost(self.task, self.owner.rates, self.owner.threads)

    def bind(self) -> Step:
        """Compile the kernel."""
        with self.owner.compiling(self):
            return self._bind()

    def _bind(self) -> Step:
        """Compile the kernel, and before it copies of operands that are better walked over in another order."""
        task = self.task
        copies = []
        inputs = list(task.inputs)
        if task.rows:
            for number, source in enumerate(inputs):
                if source.layout is not None and _jumps_within_rows(source.layout, task.rows):
                    copy, inputs[number] = _bind_copy(self.owner, source, _unused_item(task) + number)
                    copies.append(copy)
            if self.owner.pool.threads > 1:
                split = split_rows(task, inputs)
                if split is not None:
                    return _in_sequence(copies, _bind_composed(self.owner, Composed(split, {})), task.outputs)
        assert task.program is not None
        step = bind_loop(self.owner, task.program, task.shape, task.rows, inputs, list(task.outputs))
        return _in_sequence(copies, step, task.outputs)


class ComposedKernel:
    """A data task as several loops."""

    device = "cpu"

    def __init__(self, device: CpuDevice, task: Task, composed: Composed) -> None:
        self.owner = device
        self.task = task
        self.composed = composed
        self.name = "map" if len(composed.tasks) == 1 else f"{len(composed.tasks)} loops"
        self.reason = f"compiled, {device.target.lanes} lanes"
        self.origin = "none"

    @cached_property
    def cost(self) -> Cost:
        """What a run is predicted to take."""
        costs = [loop_cost(part, self.owner.rates, self.owner.threads) for part in self.composed.tasks]
        return Cost(total(cost.expense for cost in costs), sum(cost.nbytes for cost in costs))

    def bind(self) -> Step:
        """Compile the loops."""
        with self.owner.compiling(self):
            return _bind_composed(self.owner, self.composed)


class ProductKernel:
    """A matrix product with its prologues and epilogue."""

    device = "cpu"
    name = "gemm"

    def __init__(self, device: CpuDevice, task: Task) -> None:
        self.owner = device
        self.task = task
        call = task.call
        assert call is not None
        left = call.operands[0]
        assert isinstance(left, Spec)
        parts = []
        if any(task.prologues):
            parts.append(", fused prologue")
        if len(task.program.instructions if task.program else ()) > 1:
            parts.append(", fused epilogue")
        self.reason = "".join((f"compiled for {left.dtype.name}", *parts))
        self.origin = "none"

    @cached_property
    def cost(self) -> Cost:
        """What a run is predicted to take."""
        return product_cost(self.task, self.owner.rates, self.owner.threads, self.owner.target)

    def bind(self) -> Step:
        """Compile the packing loops and the product."""
        with self.owner.compiling(self):
            return self._bind()

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
                copy, rest[number] = _bind_copy(owner, source, _unused_item(task) + number)
                copies.append(copy)
        packed = 2 + len(task.outputs)
        program, fixed = with_fixed_numbers(task.program, 1 + len(rest), MAX_SLOTS - packed - len(rest))
        numbers = number_types(program)
        factors = [_factor(*factor) for factor in zip(task.prologues, (left, right), strict=True)]
        gemm = owner.product(
            (m, n, task.depth),
            a=factors[0].matrix,
            b=factors[1].matrix,
            outputs=tuple(Matrix(output.dtype.name, output.layout.strides) for output in task.outputs),
            epilogue=program,
            operands=(
                *(_matrix(source, numbers.get(slot)) for slot, source in enumerate(rest, 1)),
                *(_number(type(number)) for number in fixed),
            ),
            batch=tuple(batch),
        )
        launch, allocate = owner.pool.launch, owner.allocator.allocate
        from_a, from_b = (factor.arguments for factor in factors)
        operands: list[_Argument | _Fixed] = [*_arguments(rest, numbers, 1), *map(_Fixed, fixed)]

        def run(values: list[Any]) -> None:
            buffers = [allocate(output.nbytes) for output in task.outputs]
            gemm(
                launch,
                allocate,
                [buffer.address for buffer in buffers],
                [argument.of(values) for argument in from_a],
                [argument.of(values) for argument in from_b],
                *(argument.of(values) for argument in operands),
            )
            for output, buffer in zip(task.outputs, buffers, strict=True):
                values[output.item] = buffer

        return _in_sequence(copies, run, task.outputs)


LONG_RUN: Final = 64
"""Elements. Shorter runs of rows are copied to form longer ones, as that takes less time than to begin each of them."""


def _jumps_within_rows(layout: Layout, rows: int) -> bool:
    """Whether a row-major copy of an operand, which is no larger than the operand, has much longer runs."""
    if any(extent > 1 and not stride for extent, stride in zip(layout.shape, layout.strides, strict=True)):
        return False  # A copy would have every element many times.
    space = collapse(layout.shape, [layout], rows)
    return space.runs > 0 and (space.inner < LONG_RUN or space.inner_strides[0] not in NEAR)


def _in_sequence(before: Sequence[_Copy], step: Step, outputs: Sequence[Output]) -> Step:
    if not before:
        return step
    size = 1 + max(copy.item for copy in before)

    def run(values: list[Any]) -> None:
        extended = [*values, *([None] * (size - len(values)))]
        for copy in before:
            extended[copy.item] = copy.run(values)
        step(extended)
        for output in outputs:
            values[output.item] = extended[output.item]

    return run


class _Copy:
    """A row-major copy of an operand for one step, which finds it as `item`.

    It does not take the place of the operand, which the step may read in another layout too.
    """

    def __init__(self, source: int, item: int, step: Step) -> None:
        self.source = source
        self.item = item
        self.step = step

    def run(self, values: list[Any]) -> Buffer:
        """The buffer of the copy."""
        scratch = [values[self.source], None]
        self.step(scratch)
        copied: Buffer = scratch[1]
        return copied


def _bind_copy(owner: CpuDevice, source: Input, item: int) -> tuple[_Copy, Input]:
    assert source.layout is not None
    assert source.dtype is not None
    shape = source.layout.shape
    builder = Builder()
    program = builder.program([builder.load(0, source.dtype.register)])
    whole = Layout(shape, contiguous_strides(shape))
    nbytes = math.prod(shape) * source.dtype.itemsize
    step = bind_loop(owner, program, shape, 0, [source._replace(item=0)], [Output(1, source.dtype, whole, nbytes)])
    return _Copy(source.item, item, step), source._replace(item=item, layout=whole)


def _unused_item(task: Task) -> int:
    """From this number on, no item is one that the task reads or writes."""
    return 1 + max([source.item for source in task.inputs] + [output.item for output in task.outputs])


def _bind_composed(owner: CpuDevice, composed: Composed) -> Step:
    """Several loops in place of one; constants and results of all but the last loop live in values of their own."""
    results = composed.tasks[-1].outputs
    constants = {item: Buffer.from_array(array) for item, array in composed.constants.items()}
    size = 1 + max([*constants, *(output.item for task in composed.tasks for output in task.outputs)])
    steps = [
        bind_loop(owner, task.program, task.shape, task.rows, task.inputs, task.outputs)
        for task in composed.tasks
        if task.program is not None
    ]

    def run(values: list[Any]) -> None:
        extended = [*values, *([None] * (size - len(values)))]
        for item, buffer in constants.items():
            extended[item] = buffer
        for step in steps:
            step(extended)
        for output in results:
            values[output.item] = extended[output.item]

    return run


class _Factor(NamedTuple):
    """Operand A or B, and what the kernel that packs it is given."""

    matrix: Matrix | Computed
    arguments: list[_Argument | _Fixed]


def _factor(prologue: Prologue | None, inputs: Sequence[Input]) -> _Factor:
    if prologue is None:
        (source,) = inputs
        return _Factor(_matrix(source), [*_arguments(inputs, {}, 0)])
    program, fixed = with_fixed_numbers(prologue.program, len(inputs), MAX_SLOTS - 1 - len(inputs))
    numbers = number_types(program)
    matrices = [_matrix(source, numbers.get(slot)) for slot, source in enumerate(inputs)]
    matrices += [_number(type(number)) for number in fixed]
    arguments: list[_Argument | _Fixed] = [*_arguments(inputs, numbers, 0), *map(_Fixed, fixed)]
    return _Factor(Computed(prologue.dtype.name, program, tuple(matrices)), arguments)


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


class _Fixed(NamedTuple):
    """A number that a kernel is given in every run."""

    number: int | float

    def of(self, values: list[Any]) -> int | float:
        return self.number


class _Argument(NamedTuple):
    """What a kernel is given for an input: a number of a type, or the address of a buffer plus some bytes."""

    item: int
    offset: int
    number: type | None

    def of(self, values: list[Any]) -> int | float:
        value = values[self.item]
        if self.number is not None:
            converted: int | float = self.number(value)
            return converted
        address: int = value.address
        return address + self.offset


def _arguments(inputs: Sequence[Input], numbers: dict[int, type], first_slot: int) -> list[_Argument]:
    return [
        _Argument(source.item, 0, numbers.get(slot, float))
        if source.layout is None or source.dtype is None
        else _Argument(source.item, source.layout.offset * source.dtype.itemsize, None)
        for slot, source in enumerate(inputs, first_slot)
    ]
