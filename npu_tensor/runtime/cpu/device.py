"""The CPU device: claims tasks and binds LLVM-compiled kernels to their shapes.

Everything that depends only on structure (addresses of code, strides, grains) is worked out when a kernel is bound;
a step only allocates its outputs and launches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from npu_tensor.config import config
from npu_tensor.forks import new_lock
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import PRIMITIVES, Builder, Program
from npu_tensor.ops.rows import ROW_LENGTH_SLOT
from npu_tensor.runtime.cpu.collapse import Space, collapse
from npu_tensor.runtime.cpu.composed import Compose, Composed, compose_sequence
from npu_tensor.runtime.cpu.cost import grain, loop_cost, product_cost, total
from npu_tensor.runtime.cpu.engine import Engine
from npu_tensor.runtime.cpu.gemm import Computed, Gemm
from npu_tensor.runtime.cpu.gemm import Operand as Matrix
from npu_tensor.runtime.cpu.loop_base import Operand
from npu_tensor.runtime.cpu.loop_kernel import length_class, loop_kernel
from npu_tensor.runtime.cpu.pool import Pool
from npu_tensor.runtime.cpu.rotation import compose_rotation
from npu_tensor.runtime.cpu.split import split_rows
from npu_tensor.runtime.cpu.target import host_target
from npu_tensor.runtime.cpu.tile_kernel import tile_count
from npu_tensor.runtime.memory import Allocator, Buffer
from npu_tensor.runtime.rates import ProcessorRates, processor_rates
from npu_tensor.spec import Spec, contiguous_strides
from npu_tensor.task import Cost, Fusion, Input, Kernel, Output, Prologue, Refusal, Step, Task

__all__ = ["CpuDevice"]

# Outputs larger than a core complex's last-level cache are written past it: the next kernel could not read them there.
STREAMING_BYTES = 24 << 20

# The transposed inputs of a map that are copied to the stack tile by tile, which takes up to 32 KiB for each.
MOST_TRANSPOSED = 4


class CpuDevice:
    """The processor of this machine."""

    uri = "cpu"
    fusion = Fusion()

    def __init__(self, allocator: Allocator) -> None:
        self.target = host_target(config.cpu_features)
        self.allocator = allocator
        key = f"{self.target.cpu} {self.target.feature_string}"
        self.engine = Engine(self.target.create_target_machine(), key, config.cache_dir / "cpu")
        # By what they compute: the layers of a model, and the turns of a loop, share them.
        self.product = lru_cache(maxsize=1024)(partial(Gemm, self.engine, self.target))
        self.loop = lru_cache(maxsize=4096)(self._loop)
        self._pool_lock = new_lock()

    @cached_property
    def pool(self) -> Pool:
        """The thread pool, compiled at first use."""
        with self._pool_lock:
            return Pool(self.engine, config.threads)

    @cached_property
    def rates(self) -> ProcessorRates:
        """How fast this processor is."""
        return processor_rates(self.target.lanes)

    def _loop(
        self,
        program: Program,
        operands: tuple[Operand, ...],
        outer: int,
        streaming: bool,
        columns: bool,
        length: int | None,
    ) -> int:
        """The address of a compiled kernel; see `loop_kernel`."""
        ir = loop_kernel("kernel", program, operands, outer, self.target, streaming, columns, length)
        return self.engine.compile(ir, "kernel")["kernel"]

    @contextmanager
    def compiling(self, kernel: _LoopKernel | _ComposedKernel | _ProductKernel) -> Iterator[None]:
        """Note in a kernel that is bound meanwhile where its code came from."""
        done = self.engine.statistics
        compiled, loaded = done.compiled, done.disk_hits
        yield
        kernel.origin = "built" if done.compiled > compiled else "cache" if done.disk_hits > loaded else "memory"

    @property
    def threads(self) -> int:
        """Threads of the pool, the caller included."""
        return self.pool.threads

    def set_threads(self, threads: int) -> None:
        """Change the number of threads; 0 means all cores of the process."""
        self.pool.set_threads(threads)

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Nothing takes long: LLVM compiles in milliseconds, one module at a time."""

    def claim(self, task: Task) -> _LoopKernel | _ComposedKernel | _ProductKernel | Refusal:
        """A compiled kernel, or why the task has none."""
        if task.kind == "data":
            compose = COMPOSED.get(task.ops[0])
            composed = Refusal("no compiled form") if compose is None else compose(task)
            return composed if isinstance(composed, Refusal) else _ComposedKernel(self, task, composed)
        assert task.program is not None
        programs = [task.program, *(prologue.program for prologue in task.prologues if prologue)]
        for primitive, _, dtype, _ in (x for program in programs for x in program.instructions):
            if dtype == "float64" and primitive in _FLOAT32_ONLY:
                return Refusal(f"{primitive} is compiled for float32, not for float64")
            if primitive == "pow" and not dtype.startswith("float"):
                return Refusal("integer powers have no compiled form")
        if task.kind == "matmul":
            return _ProductKernel(self, task)
        if task.rows and any(_is_scattered(task, output) for output in task.outputs):
            return Refusal("a row of the result is not evenly spaced in memory")
        return _LoopKernel(self, task)


COMPOSED: Mapping[str, Compose] = {"arange_from": compose_sequence, "rotate": compose_rotation}
"""Data ops that are loops one after the other."""

_FLOAT32_ONLY = frozenset({"exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tanh", "atan", "erf", "pow"})


def _is_scattered(task: Task, output: Output) -> bool:
    """Whether a row of the output cannot be written with one stride beside a row-major operand."""
    whole = Layout(task.shape, contiguous_strides(task.shape))
    return collapse(task.shape, [whole, output.layout], task.rows) is None


class _LoopKernel:
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
        """Compile the kernel, and before it a copy of every operand whose rows are not evenly spaced."""
        task = self.task
        copies = []
        inputs = list(task.inputs)
        if task.rows:
            regular = [output.layout for output in task.outputs]
            regular.append(Layout(task.shape, contiguous_strides(task.shape)))
            for number, source in enumerate(inputs):
                if source.layout is None or collapse(task.shape, [*regular, source.layout], task.rows) is not None:
                    continue
                copy, inputs[number] = _bind_copy(self.owner, source, _unused_item(task) + number)
                copies.append(copy)
            if self.owner.pool.threads > 1:
                split = split_rows(task, inputs)
                if split is not None:
                    return _in_sequence(copies, _bind_composed(self.owner, Composed(split, {})), task.outputs)
        assert task.program is not None
        step = _bind_loop(self.owner, task.program, task.shape, task.rows, inputs, list(task.outputs))
        return _in_sequence(copies, step, task.outputs)


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
    step = _bind_loop(owner, program, shape, 0, [source._replace(item=0)], [Output(1, source.dtype, whole, nbytes)])
    return _Copy(source.item, item, step), source._replace(item=item, layout=whole)


def _unused_item(task: Task) -> int:
    """From this number on, no item is one that the task reads or writes."""
    return 1 + max([source.item for source in task.inputs] + [output.item for output in task.outputs])


def _bind_loop(
    owner: CpuDevice,
    program: Program,
    shape: tuple[int, ...],
    rows: int,
    inputs: Sequence[Input],
    outputs: Sequence[Output],
) -> Step:
    """Compile a program for the collapsed form of `shape` and return the step that runs it."""
    program, slots = _with_row_length(program, len(inputs))
    layouts = [output.layout for output in outputs]
    layouts += [source.layout for source in inputs if source.layout is not None]
    space = collapse(shape, layouts, rows)
    assert space is not None
    columns = bool(rows) and _runs_across_rows(program, space, inputs, len(outputs))
    space, tiles = _as_tiles(space, rows, len(outputs), owner.target.lanes)
    streaming = rows == 0 and sum(output.nbytes for output in outputs) > STREAMING_BYTES
    operands, order = _operands(program, space, inputs, outputs, slots, columns, tiles)
    length = length_class(program, space.inner, owner.target.lanes)
    kernel = owner.loop(program, operands, len(space.outer), streaming and not space.outer, columns, length)
    meta = _meta(space, operands, order)
    elements = math.prod(space.outer) * space.inner
    n = math.prod(space.outer) if rows else tile_count(space.outer, space.inner) if tiles else elements
    piece = grain(n, elements, program, owner.pool.threads)
    numbers = _number_types(program)
    arguments = [
        (source.item, None if source.layout is not None else numbers.get(slot, float))
        for slot, source in enumerate(inputs)
    ]
    row_length = [numbers[slot](space.inner) for slot in slots[len(inputs) :]]
    return _step(owner, kernel, meta, n, piece, outputs, arguments, row_length)


def _with_row_length(program: Program, inputs: int) -> tuple[Program, tuple[int, ...]]:
    """The program with the row length as one more scalar operand, if it uses it; and all operand slots."""
    used = any(i.primitive == "scalar" and i.value == ROW_LENGTH_SLOT for i in program.instructions)
    if not used:
        return program, tuple(range(inputs))
    instructions = tuple(
        i._replace(value=inputs) if i.primitive == "scalar" and i.value == ROW_LENGTH_SLOT else i
        for i in program.instructions
    )
    return program._replace(instructions=instructions), tuple(range(inputs + 1))


def _number_types(program: Program) -> dict[int, type]:
    """Scalar slot -> float or int, whichever bits the kernel expects."""
    return {
        i.value: float if i.dtype.startswith("float") else int for i in program.instructions if i.primitive == "scalar"
    }


def _runs_across_rows(program: Program, space: Space, inputs: Sequence[Input], outputs: int) -> bool:
    """Whether lanes should run across rows: when the large operands jump along a row but not across rows.

    That form stores what does not vary along a row once, so every result with one value per element must vary.
    """
    if not space.outer or space.inner <= 1:
        return False
    along = sum(stride not in (0, 1) for stride in space.inner_strides)
    across = sum(strides[-1] not in (0, 1) for strides in space.outer_strides)
    if not along or across:
        return False
    strides = iter(space.inner_strides[outputs:])
    moving = {slot for slot, source in enumerate(inputs) if source.layout is not None and next(strides)}
    varies: list[bool] = []
    for primitive, arguments, _, value in program.instructions:
        if primitive == "load":
            varies.append(value in moving)
        else:
            within_row = any(varies[argument] for argument in arguments) and not PRIMITIVES[primitive].reduces
            varies.append(primitive == "index" or within_row)
    return all(
        varies[value] or not stride
        for value, stride in zip(program.outputs, space.inner_strides[:outputs], strict=True)
    )


def _as_tiles(space: Space, rows: int, outputs: int, lanes: int) -> tuple[Space, bool]:
    """Whether a map should walk over tiles: when some inputs jump along rows but are contiguous across them.

    The outer dimension along which most of these are contiguous becomes the innermost one.
    """
    if rows or space.inner < lanes or any(stride != 1 for stride in space.inner_strides[:outputs]):
        return space, False
    jumping = [
        strides
        for strides, inner in zip(space.outer_strides[outputs:], space.inner_strides[outputs:], strict=True)
        if inner not in (0, 1)
    ]
    counts = [
        sum(strides[axis] == 1 for strides in jumping) if extent >= lanes else 0
        for axis, extent in enumerate(space.outer)
    ]
    if not any(counts):
        return space, False
    best = counts.index(max(counts))
    order = [*(axis for axis in range(len(space.outer)) if axis != best), best]
    moved = space._replace(
        outer=tuple(space.outer[axis] for axis in order),
        outer_strides=tuple(tuple(strides[axis] for axis in order) for strides in space.outer_strides),
    )
    return moved, True


# Stride along the lanes -> access; "strided" for all others.
_OUTPUT_ACCESS = {0: "row", 1: "contiguous"}
_INPUT_ACCESS = _OUTPUT_ACCESS | {-1: "reversed", 2: "alternate"}


def _operands(
    program: Program,
    space: Space,
    inputs: Sequence[Input],
    outputs: Sequence[Output],
    slots: tuple[int, ...],
    columns: bool,
    tiles: bool,
) -> tuple[tuple[Operand, ...], list[int | None]]:
    """What the kernel is told of its operands, and for each its number in `space`; None for a scalar."""
    numbers = _number_types(program)
    found: list[Operand] = []
    order: list[int | None] = []
    position = transposed = 0
    tensors: list[Input | Output] = [*outputs, *inputs]
    for tensor in tensors:
        if tensor.layout is None:
            slot = len(found) - len(outputs)
            found.append(Operand("float64" if numbers.get(slot, float) is float else "int64", "scalar"))
            order.append(None)
            continue
        assert tensor.dtype is not None
        stride = space.outer_strides[position][-1] if columns else space.inner_strides[position]
        access = (_OUTPUT_ACCESS if position < len(outputs) else _INPUT_ACCESS).get(stride, "strided")
        if tiles and stride not in (0, 1) and space.outer_strides[position][-1] == 1 and transposed < MOST_TRANSPOSED:
            access = "transposed"
            transposed += 1
        found.append(Operand(tensor.dtype.name, access))
        order.append(position)
        position += 1
    if len(slots) > len(inputs):
        found.append(Operand("float64" if numbers[len(inputs)] is float else "int64", "scalar"))
        order.append(None)
    return tuple(found), order


def _meta(space: Space, operands: Sequence[Operand], order: Sequence[int | None]) -> np.ndarray[Any, Any]:
    """The array of sizes and strides that the kernel reads; see loop_kernel."""
    entries = [space.inner, *space.outer]
    for number in order:
        if number is None:
            entries += [0] * (len(space.outer) + 2)
        else:
            entries += [space.offsets[number], *space.outer_strides[number], space.inner_strides[number]]
    return np.array(entries, np.int64)


def _step(
    owner: CpuDevice,
    kernel: int,
    meta: np.ndarray[Any, Any],
    n: int,
    grain: int,
    outputs: Sequence[Output],
    arguments: Sequence[tuple[int, type | None]],
    constants: Sequence[float],
) -> Step:
    """The closure that runs a kernel. The common arities are spelled out: this is the hot path of small tensors."""
    launch = owner.pool.launch
    address = meta.ctypes.data
    new_buffers = [owner.allocator.allocation(output.nbytes) for output in outputs]
    simple = len(outputs) == 1 and outputs[0].donor is None and not constants
    if simple and all(kind is None for _, kind in arguments) and len(arguments) in (1, 2):
        out, new_buffer = outputs[0].item, new_buffers[0]
        first, last = arguments[0][0], arguments[-1][0]

        def run_one(values: list[Any], keep: object = meta) -> None:
            values[out] = buffer = new_buffer()
            launch(kernel, address, n, grain, buffer.address, values[first].address)

        def run_two(values: list[Any], keep: object = meta) -> None:
            values[out] = buffer = new_buffer()
            launch(kernel, address, n, grain, buffer.address, values[first].address, values[last].address)

        return run_one if len(arguments) == 1 else run_two

    results = [(output.item, output.donor, new) for output, new in zip(outputs, new_buffers, strict=True)]

    def run(values: list[Any], keep: object = meta) -> None:
        slots: list[Any] = []
        for item, donor, new in results:
            values[item] = buffer = new() if donor is None else values[donor]
            slots.append(buffer.address)
        for item, kind in arguments:
            slots.append(values[item].address if kind is None else kind(values[item]))
        launch(kernel, address, n, grain, *slots, *constants)

    return run


def _bind_composed(owner: CpuDevice, composed: Composed) -> Step:
    """Several loops in place of one; constants and results of all but the last loop live in values of their own."""
    results = composed.tasks[-1].outputs
    constants = {item: Buffer.from_array(array) for item, array in composed.constants.items()}
    size = 1 + max([*constants, *(output.item for task in composed.tasks for output in task.outputs)])
    steps = [
        _bind_loop(owner, task.program, task.shape, task.rows, task.inputs, task.outputs)
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


class _ComposedKernel:
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


class _ProductKernel:
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
        numbers = _number_types(task.program)
        gemm = owner.product(
            (m, n, task.depth),
            a=_factor(task.prologues[0], left),
            b=_factor(task.prologues[1], right),
            outputs=tuple(Matrix(output.dtype.name, output.layout.strides) for output in task.outputs),
            epilogue=task.program,
            operands=tuple(_matrix(source, numbers.get(slot)) for slot, source in enumerate(rest, 1)),
            batch=tuple(batch),
        )
        launch, allocate = owner.pool.launch, owner.allocator.allocate
        from_a, from_b = (
            _arguments(inputs, _number_types(prologue.program) if prologue else {}, 0)
            for prologue, inputs in zip(task.prologues, (left, right), strict=True)
        )
        operands = _arguments(rest, numbers, 1)

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


def _factor(prologue: Prologue | None, inputs: Sequence[Input]) -> Matrix | Computed:
    """Operand A or B."""
    if prologue is None:
        (source,) = inputs
        return _matrix(source)
    numbers = _number_types(prologue.program)
    matrices = tuple(_matrix(source, numbers.get(slot)) for slot, source in enumerate(inputs))
    return Computed(prologue.dtype.name, prologue.program, matrices)


def _matrix(source: Input, number: type | None = None) -> Matrix:
    if source.layout is None:
        return Matrix("int64" if number is int else "float64")
    assert source.dtype is not None
    strides = tuple(
        0 if extent == 1 else stride for extent, stride in zip(source.layout.shape, source.layout.strides, strict=True)
    )
    return Matrix(source.dtype.name, strides)


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
