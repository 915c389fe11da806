"""Reference device: the meaning of a task in NumPy. It runs tasks without a compiled kernel.

bfloat16 and float16 are computed in float32 and rounded once, in blocks of rows, so that the float32 copies stay small.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_tensor._util.forks import cached_property
from npu_tensor.dtypes import DType, stored_shape
from npu_tensor.errors import DimensionError, DivisionError, NpuTensorError
from npu_tensor.ops.declare import Call, Layout, describe
from npu_tensor.ops.expression import Program
from npu_tensor.ops.primitives import PRIMITIVES
from npu_tensor.ops.rows import ROW_LENGTH_SLOT
from npu_tensor.runtime.memory import Allocator, Buffer
from npu_tensor.runtime.rates import ProcessorRates, processor_rates
from npu_tensor.spec import Spec
from npu_tensor.task import Cost, Fusion, Kernel, Output, PlannedLaunch, Prologue, Refusal, Step, Task

Array = np.ndarray[Any, Any]

# Cost of a pass of NumPy over all elements, in operations counted as in PRIMITIVES, and of storing 16-bit floats
# costs in passes: float32 additions take 0.17 ns per element, exponentials 0.49, rounding to bfloat16 0.46.
FLOPS_PER_PASS = 5
ROUNDING_PASSES = 3

# Elements per block: a few float32 copies of it fit a core's level-2 cache.
BLOCK = 1 << 16


def to_register(value: Any, register: str | None) -> Array:
    """Convert a stored array or a Python number to its register type; None keeps the stored type."""
    if register is None:
        return np.asarray(value)
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(register, copy=False)


def from_register(value: Any, dtype: DType) -> Array:
    """Convert a computed array to the type it is stored in, rounded to nearest even."""
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype.numpy, copy=False)


def evaluate_call(call: Call, operands: list[Any], *, donated: bool = False) -> Array:
    """Evaluate a data, view or map op, or matmul, on arrays and numbers by its declared body.

    Args:
        call: The op.
        operands: Arrays and numbers.
        donated: True if the body of an update may write over the first operand.
    """
    if call.op.updates and not donated:
        operands = [np.array(operands[0], order="C"), *operands[1:]]
    arrays = [to_register(operand, register) for operand, register in zip(operands, call.registers, strict=True)]
    positional: list[Any] = []
    keywords = {}
    for attribute in call.op.attributes:
        value = call.attributes[attribute.name]
        if attribute.kind is inspect.Parameter.VAR_POSITIONAL:
            positional.extend(value)
        else:
            keywords[attribute.name] = value
    with np.errstate(all="ignore"):
        return from_register(call.op.body(*arrays, *positional, **keywords), call.spec.dtype)


def _cast(value: Array, dtype: str) -> Array:
    """Convert floats to integers: toward zero; NaN gives 0, values out of range the nearest limit."""
    if value.dtype.kind != "f" or np.dtype(dtype).kind not in "iu":
        return value.astype(dtype)
    limits = np.iinfo(dtype)
    low, high = float(limits.min), float(limits.max)
    clipped = np.clip(np.nan_to_num(value, nan=0.0, posinf=high, neginf=low).astype(np.float64), low, high)
    return np.where(clipped >= high, limits.max, clipped.astype(dtype)).astype(dtype)


def evaluate(program: Program, operands: list[Any], row_length: int) -> list[Array]:
    """Return the outputs of a program over arrays that broadcast to (rows, row length), or to any shape of a map."""
    values: list[Array] = []
    for primitive, arguments, dtype, constant in program.instructions:
        if primitive == "constant":
            value = np.asarray(constant).astype(dtype)
        elif primitive == "load":
            value = to_register(operands[constant], dtype)
        elif primitive == "scalar":
            number = row_length if constant == ROW_LENGTH_SLOT else operands[constant]
            value = to_register(number, dtype)
        elif primitive == "cast":
            value = _cast(values[arguments[0]], dtype)
        elif primitive == "index":
            value = np.arange(row_length)
        else:
            parts = [values[argument] for argument in arguments]
            if PRIMITIVES[primitive].reduces:  # A value that is constant along the row counts once per element.
                parts = [np.broadcast_to(row, (*row.shape[:-1], row_length)) for row in parts]
            value = PRIMITIVES[primitive].function(*parts)
        values.append(value)
    return [values[output] for output in program.outputs]


def view(buffer: Buffer, dtype: DType, layout: Layout) -> Array:
    """Return the elements of a buffer in a given layout without a copy; quantized elements as whole blocks."""
    if dtype.is_quantized:
        return buffer.as_array(stored_shape(layout.shape, dtype), dtype.numpy)
    size = buffer.nbytes // dtype.itemsize
    flat = buffer.as_array((size,), dtype.numpy)
    if math.prod(layout.shape) == 0:
        return flat[:0].reshape(layout.shape)
    strides = tuple(stride * dtype.itemsize for stride in layout.strides)
    return np.ndarray(layout.shape, dtype.numpy, flat, layout.offset * dtype.itemsize, strides)


def _factor(prologue: Prologue | None, inputs: Sequence[Any]) -> Array:
    """Return an operand of a matrix product: its input, or the result of its prologue."""
    if prologue is None:
        (array,) = inputs
        return np.asarray(array)
    (value,) = evaluate(prologue.program, list(inputs), 0)
    return np.ascontiguousarray(from_register(value, prologue.dtype))


def error_of_call(error: Exception, call: Call) -> NpuTensorError:
    """Return an error that the user's values caused, with the op and its operands and the call."""
    kind: type[NpuTensorError] = DivisionError if isinstance(error, ZeroDivisionError) else DimensionError
    described = kind(f"{call.attributes.get('caller') or f'{call.op.name}({describe(call.operands)})'}: {error}")
    described.call = call
    return described


class ReferenceKernel:
    """Runs a task in NumPy on the CPU."""

    name = "numpy"
    device = "cpu"
    origin = "none"
    reason = "NumPy reference"

    def __init__(self, task: Task, owner: ReferenceDevice) -> None:
        self.owner = owner
        self.task = task
        self._allocate = owner.allocator.allocate

    @property
    def passes(self) -> float:
        """Number of passes over all elements: one per instruction, more for functions and rounding."""
        task = self.task
        flops = [PRIMITIVES[step.primitive].flops for step in task.program.instructions]
        passes = sum(max(1.0, each / FLOPS_PER_PASS) for each in flops) or 1.0
        return passes + ROUNDING_PASSES * sum(output.dtype.register != output.dtype.name for output in task.outputs)

    @cached_property
    def cost(self) -> Cost:
        """Predicted cost of a run."""
        task, rates = self.task, self.owner.rates
        elements = math.prod(task.shape)
        seconds = rates.reference_seconds * max(1, len(task.ops)) + elements * self.passes / rates.reference_elements
        if task.kind in ("matmul", "conv"):
            assert task.call is not None
            register = str(task.call.registers[0])
            seconds += task.macs / rates.reference_macs["float" if register.startswith("float") else "integer"]
        nbytes = sum(output.nbytes for output in task.outputs)
        nbytes += sum(s.dtype.nbytes(math.prod(s.layout.shape)) for s in task.tensors)
        return Cost(rates.expense(seconds), nbytes)

    def bind(self) -> Step:
        """Return the step; nothing is compiled."""
        return self._run

    def _run(self, values: list[Any]) -> None:
        task = self.task
        for output in task.outputs:
            if output.donor is not None:
                self.owner.allocator.forget_layouts(values[output.donor])
        operands = [
            values[source.item] if source.layout is None else view(values[source.item], source.dtype, source.layout)
            for source in task.inputs
        ]
        if task.kind == "data":
            assert task.call is not None
            (output,) = task.outputs
            donor = output.donor
            try:
                result = evaluate_call(task.call, operands, donated=donor is not None)
                result = np.ascontiguousarray(result).reshape(stored_shape(task.shape, output.dtype))
            except (IndexError, ZeroDivisionError) as error:
                raise error_of_call(error, task.call) from error
            if donor is not None and np.may_share_memory(result, operands[0]):
                values[output.item] = values[donor]
                return
            if any(isinstance(x, np.ndarray) and np.may_share_memory(result, x) for x in operands):
                result = result.copy()  # the operand has an owner, who may let a later kernel overwrite it
            values[output.item] = Buffer.from_array(result)
            return
        buffers = [
            self._allocate(output.nbytes) if output.donor is None else values[output.donor] for output in task.outputs
        ]
        results = [self._result(b, o) for b, o in zip(buffers, task.outputs, strict=True)]
        with np.errstate(all="ignore"):
            if task.kind in ("matmul", "conv"):
                self._product(operands, results)
            else:
                self._by_blocks(operands, results)
        for output, buffer in zip(task.outputs, buffers, strict=True):
            values[output.item] = buffer

    def _product(self, operands: list[Any], results: list[Array]) -> None:
        """Compute a product or convolution and its epilogue."""
        call, program = self.task.call, self.task.program
        assert call is not None
        *factors, rest = self.task.split(operands)
        each = zip(self.task.prologues, factors, call.registers, strict=True)
        a, b = (to_register(_factor(prologue, inputs), register) for prologue, inputs, register in each)
        if self.task.kind == "conv":
            sums = to_register(call.op.body(a, b, **call.attributes), call.registers[0])
        else:
            batch, specs = self.task.shape[:-2], [spec for spec in call.operands if isinstance(spec, Spec)]
            sums = np.matmul(*(x.reshape(*batch, *spec.shape[-2:]) for x, spec in zip((a, b), specs, strict=True)))
        for value, result in zip(evaluate(program, [sums, *rest], 0), results, strict=True):
            result[...] = value.astype(result.dtype)

    def _by_blocks(self, operands: list[Any], results: list[Array]) -> None:
        """Cut the leading dimension so that a block has about BLOCK elements."""
        task = self.task
        cut = len(task.shape) - task.rows
        outer, inner = task.shape[:cut], task.shape[cut:]
        row_length = math.prod(inner)
        if task.rows:
            operands = [x.reshape(*outer, row_length) if isinstance(x, np.ndarray) else x for x in operands]
        step = max(1, BLOCK // max(1, math.prod(task.shape[1:])))
        for start in range(0, outer[0], step) if outer else (0,):
            part = slice(start, start + step) if outer else ...
            block = [x[part] if isinstance(x, np.ndarray) else x for x in operands]
            values = evaluate(task.program, block, row_length)
            for value, result in zip(values, results, strict=True):
                self._store(value, result[part])

    def _result(self, buffer: Buffer, output: Output) -> Array:
        """Return the array of a result over the task's shape; reduced dimensions have extent 1 if it is per row."""
        layout, cut = output.layout, len(self.task.shape) - self.task.rows
        if self.task.rows and not any(layout.strides[cut:]):
            layout = layout._replace(shape=layout.shape[:cut] + (1,) * self.task.rows)
        return view(buffer, output.dtype, layout)

    def _store(self, value: Array, target: Array) -> None:
        """Put (..., row length) or (..., 1) where it belongs."""
        if self.task.rows and value.ndim:
            inner = target.shape[target.ndim - self.task.rows :]
            if math.prod(inner) == 1:
                value = value[..., :1]  # one element per row: the same at every position of it
            elif value.shape[-1] == 1:
                inner = (1,) * len(inner)
            value = value.reshape(*value.shape[:-1], *inner)
        target[...] = value.astype(target.dtype)


class ReferenceDevice:
    """A CPU device that compiles nothing."""

    uri = "cpu"
    fusion = Fusion()
    threads = 1

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator

    @cached_property
    def rates(self) -> ProcessorRates:
        """Rates of this processor."""
        return processor_rates()

    def set_threads(self, threads: int) -> None:
        """Do nothing: NumPy runs element-wise work in the calling thread."""

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Do nothing: binding is fast."""

    def launches(
        self, kernels: Sequence[Kernel], steps: Sequence[Step], dying: Sequence[Sequence[int]]
    ) -> list[PlannedLaunch]:
        """Return one launch per kernel."""
        return [PlannedLaunch(1, step) for step in steps]

    def claim(self, task: Task) -> ReferenceKernel | Refusal:
        """Return a kernel; no task is refused."""
        return ReferenceKernel(task, self)
