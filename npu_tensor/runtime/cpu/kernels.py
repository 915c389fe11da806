"""The kernels of the CPU device: a loop, several loops one after the other, and a matrix product."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from weakref import ref

from npu_tensor._util.forks import cached_property
from npu_tensor.dtypes import DType, float32
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import ProgramBuilder
from npu_tensor.ops.layouts import factored
from npu_tensor.runtime.cpu.bind_loop import bind_loop, number_types, with_fixed_numbers
from npu_tensor.runtime.cpu.collapse import collapse
from npu_tensor.runtime.cpu.cpu_cost import (
    NEAR,
    copy_cost,
    factor_dtypes,
    loop_cost,
    product_cost,
    quantized_cost,
    quantized_piece,
    total,
)
from npu_tensor.runtime.cpu.data_ops import Composed
from npu_tensor.runtime.cpu.gemm import Computed, Matrix, Packing, Scattered
from npu_tensor.runtime.cpu.pool import MAX_SLOTS
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.quantized_product import (
    MOST_TOKENS,
    QuantizedSpec,
    RoundedRow,
    dequantize_module,
    product_meta,
    product_module,
    round_module,
)
from npu_tensor.runtime.cpu.split import split_rows
from npu_tensor.runtime.memory import Buffer
from npu_tensor.runtime.reference import ReferenceDevice, ReferenceKernel
from npu_tensor.spec import Spec, contiguous_strides
from npu_tensor.task import Cost, Input, Output, Prologue, Step, Task

__all__ = ["ComposedKernel", "DequantizeKernel", "LoopKernel", "ProductKernel", "QuantizedKernel"]


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

    @property
    def reference(self) -> ReferenceKernel:
        """NumPy's kernel for the task, for what a compiled one leaves to it."""
        return ReferenceKernel(self.task, ReferenceDevice(self.owner.allocator))

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
        return _in_sequence(steps, task.inputs, task.outputs)


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
        return _in_sequence(steps, self.task.inputs, tasks[-1].outputs, constants)


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
        return product_cost(self.task, self.owner.rates, self.owner.threads, blocking, self.owner.target)

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
        slots = MAX_SLOTS - len(task.outputs) - len(rest) - 3  # for A, B, and the memory of panels of B
        program, fixed = with_fixed_numbers(task.program, 1 + len(rest), slots)
        numbers = number_types(program)
        shapes = [(*batch, m, task.depth), (*batch, task.depth, n)]
        (a, from_a), (b, from_b) = map(_factor, task.prologues, (left, right), shapes)
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
            threads=owner.pool.threads,
        )
        launch, allocate = owner.pool.launch, owner.allocator.allocate
        factors = (from_a, from_b)
        arguments = _arguments(rest, numbers, 1, fixed) + (from_b if gemm.strip_bytes else [])
        packings = [
            _packed(owner, packing, inputs[0].item, sources)
            for packing, inputs, sources in zip(gemm.packings, (left, right), factors, strict=False)
        ]

        def run(values: list[Any]) -> None:
            buffers = [allocate(output.nbytes) for output in task.outputs]
            packed = [packing(values) for packing in packings]
            if gemm.strip_bytes:
                packed.append(allocate(gemm.strip_bytes))
            first, second = ([each.address] for each in packed) if packed else (_all(values, each) for each in factors)
            gemm(launch, [buffer.address for buffer in buffers], first, second, *_all(values, arguments))
            for output, buffer in zip(task.outputs, buffers, strict=True):
                values[output.item] = buffer

        (a_item, a_offset), (b_item, b_offset) = ((x[0].item, _offset(x[0])) for x in (left, right))
        out, new_buffer = task.outputs[0].item, owner.allocator.allocation(task.outputs[0].nbytes)
        loop = gemm.multiply

        def run_small(values: list[Any], keep: object = gemm) -> None:
            values[out] = buffer = new_buffer()
            launch(*loop, values[a_item].address + a_offset, values[b_item].address + b_offset, buffer.address)

        if not gemm.empty and not gemm.packings and not arguments and len(task.outputs) == 1:
            return run_small  # What follows from the lists above, in half the time.
        return _in_sequence([*copies, run], task.inputs, task.outputs)


class QuantizedKernel(CpuKernel):
    """The op `linear_quantized`."""

    name = "quantized"

    def __init__(self, processor: Processor, task: Task) -> None:
        super().__init__(processor, task)
        dtype, call = task.inputs[1].dtype, task.call
        assert dtype is not None
        assert call is not None
        self.dtype = dtype
        self.exact: bool = call.attributes["exact"]
        how = "exact: by float32 numbers" if self.exact else "input rounded to 8 bits as in ggml"
        self.reason = f"compiled for {dtype.name}, {how}"

    @cached_property
    def cost(self) -> Cost:
        return quantized_cost(self.task, self.owner.rates, self.owner.threads)

    def _bind(self) -> Step:
        """An input that jumps in memory or is bfloat16 is copied before, and one that is not taken exactly is rounded.

        A bfloat16 result is a copy of the float32 sums.
        """
        task, owner, dtype, spare = self.task, self.owner, self.dtype, _last_item(self.task) + 1
        (source, weights), (output,) = task.inputs, task.outputs
        assert source.layout is not None
        assert weights.layout is not None
        before, after = [], []
        if source.dtype is not float32 or source.layout.strides != contiguous_strides(source.layout.shape):
            copy, source = _bind_copy(owner, source, spare, float32)
            before.append(copy)
        sums = Input(output.item, float32, Layout(task.shape, contiguous_strides(task.shape)))
        if output.dtype is not float32:
            sums = sums._replace(item=spare + 1)
            after.append(_bind_copy(owner, sums, output.item, output.dtype)[0])
        (rows, features), tokens = weights.layout.shape, math.prod(task.shape[:-1])
        spec = QuantizedSpec(dtype.name, self.exact, min(tokens, MOST_TOKENS))
        meta = product_meta(dtype, self.exact, rows, features, tokens)
        kernel = owner.compiled(product_module, spec)
        piece = quantized_piece(dtype.nbytes(features) * spec.rows, tokens)
        loop = (kernel, meta.ctypes.data, -(-rows // spec.rows), piece)
        launch, new_buffer = owner.pool.launch, owner.allocator.allocation(tokens * rows * 4)
        out, item, offset, w = sums.item, source.item, _offset(source), weights.item

        def run_exact(values: list[Any], keep: object = meta) -> None:
            values[out] = buffer = new_buffer()
            launch(*loop, buffer.address, values[w].address, values[item].address + offset)

        rounding = owner.compiled(round_module, dtype.block)
        new_rounded = owner.allocator.allocation(tokens * RoundedRow.of(features).nbytes)
        round_loop = (rounding, meta.ctypes.data, tokens, quantized_piece(features * 4, 1))

        def run_rounded(values: list[Any], keep: object = meta) -> None:
            values[out] = buffer = new_buffer()
            rounded = new_rounded()
            launch(*round_loop, rounded.address, values[item].address + offset)
            launch(*loop, buffer.address, values[w].address, rounded.address)

        step = run_exact if self.exact else run_rounded
        return _in_sequence([*before, step, *after], task.inputs, task.outputs)


class CopyingKernel(CpuKernel):
    """A kernel that moves elements, and takes as long as it takes to read and write them."""

    @cached_property
    def cost(self) -> Cost:
        return copy_cost(self.task, self.owner.rates, self.owner.threads)


class DequantizeKernel(CopyingKernel):
    """The op `dequantize`."""

    name = "quantized"

    def _bind(self) -> Step:
        owner, (source,), (output,) = self.owner, self.task.inputs, self.task.outputs
        dtype, item, out = source.dtype, source.item, output.item
        assert dtype is not None
        blocks = math.prod(self.task.shape) // dtype.block
        loop = (owner.compiled(dequantize_module, dtype.name), 0, blocks, quantized_piece(dtype.itemsize, 1))
        launch, new_buffer = owner.pool.launch, owner.allocator.allocation(output.nbytes)

        def run(values: list[Any]) -> None:
            values[out] = buffer = new_buffer()
            launch(*loop, buffer.address, values[item].address)

        return run


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
    inputs: Iterable[Input],
    outputs: Sequence[Output],
    constants: Mapping[int, Buffer] = MappingProxyType({}),
) -> Step:
    """One step in place of several, which have values of their own: these operands, constants and what they compute."""
    if len(steps) == 1 and not constants:
        return steps[0]
    read = [*dict.fromkeys(source.item for source in inputs)]
    read += [output.donor for output in outputs if output.donor is not None and output.donor != output.item]
    written = [output.item for output in outputs]

    def run(values: list[Any]) -> None:
        own: Any = {item: values[item] for item in read}
        own.update(constants)
        for step in steps:
            step(own)
        for item in written:
            values[item] = own[item]

    return run


def _last_item(*tasks: Task) -> int:
    """The largest number of an item that some tasks read or write."""
    read = [source.item for task in tasks for source in task.inputs]
    return max(read + [output.item for task in tasks for output in task.outputs])


def _bind_task(owner: Processor, task: Task) -> Step:
    assert task.program is not None
    return bind_loop(owner, task.program, task.shape, task.rows, task.inputs, task.outputs)


def _bind_copy(owner: Processor, source: Input, item: int, dtype: DType | None = None) -> tuple[Step, Input]:
    """The step that makes a row-major copy of an operand, of another dtype if one is given, and the copy as an operand.

    It does not take the place of the operand, which another step may read in another layout too.
    """
    assert source.layout is not None
    assert source.dtype is not None
    shape, dtype = source.layout.shape, dtype or source.dtype
    builder = ProgramBuilder()
    program = builder.program([builder.load(0, source.dtype.register)])
    whole = Layout(shape, contiguous_strides(shape))
    nbytes = math.prod(shape) * dtype.itemsize
    step = bind_loop(owner, program, shape, 0, [source], [Output(item, dtype, whole, nbytes)])
    return step, source._replace(item=item, dtype=dtype, layout=whole)


def _factor(
    prologue: Prologue | None, inputs: Sequence[Input], shape: tuple[int, ...]
) -> tuple[Matrix | Computed | Scattered, list[_Argument]]:
    """Operand A or B of the given shape, and the arguments of the kernel that packs it."""
    if prologue is None:
        (source,) = inputs
        assert source.layout is not None
        assert source.dtype is not None
        *batch, rows, columns = parts = factored(source.layout, shape)
        strides = tuple(part.strides[0] if part.strides else 0 for part in parts)
        arguments = _arguments(inputs, {}, 0)
        if any(len(part.shape) > 1 for part in parts):
            return Scattered(source.dtype.name, tuple(batch), rows, columns), arguments
        return Matrix(source.dtype.name, strides), arguments
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


def _packed(
    owner: Processor, packing: Packing, item: int, arguments: Sequence[_Argument]
) -> Callable[[list[Any]], Buffer]:
    """How the item of an operand is packed in a run; it stays packed, if it is a matrix, see `Processor.packed`."""
    if packing.key is None:
        return lambda values: packing.run(owner.pool.launch, owner.allocator.allocate, _all(values, arguments))
    # The common case, a value that was packed in the run before, without a look-up.
    last: tuple[Callable[[], Buffer | None], ...] = (lambda: None, lambda: None)

    def packed(values: list[Any]) -> Buffer:
        nonlocal last
        value, (of, copy) = values[item], last
        if of() is value:
            kept = copy()
            if kept is not None:
                return kept
        result = owner.packed(packing, value, _all(values, arguments))
        last = ref(value), ref(result)
        return result

    return packed


def _offset(source: Input) -> int:
    """Bytes before the first element."""
    return 0 if source.layout is None or source.dtype is None else source.layout.offset * source.dtype.itemsize


def _all(values: list[Any], arguments: Sequence[_Argument]) -> list[int | float]:
    return [argument(values) for argument in arguments]


def _arguments(
    inputs: Sequence[Input], numbers: dict[int, type], first_slot: int, fixed: Sequence[int | float] = ()
) -> list[_Argument]:
    def argument(source: Input, slot: int) -> _Argument:
        item, layout, dtype = source.item, source.layout, source.dtype
        if layout is None or dtype is None:
            kind = numbers.get(slot, float)
            return lambda values: kind(values[item])
        offset = _offset(source)
        return lambda values: values[item].address + offset

    def constant(number: int | float) -> _Argument:
        return lambda values: number

    return [*(argument(source, slot) for slot, source in enumerate(inputs, first_slot)), *map(constant, fixed)]
