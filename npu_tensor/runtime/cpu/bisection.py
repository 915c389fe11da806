"""The op `search_places`: positions of values in ascending sequences, by bisection without branches."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from npu_tensor.dtypes import as_dtype
from npu_tensor.runtime.cpu.bound_loops import BoundLoops
from npu_tensor.runtime.cpu.cpu_cost import LEAST_PIECE
from npu_tensor.runtime.cpu.ir_emitter import BEGIN, END, Emitter
from npu_tensor.runtime.cpu.kernels import CopyingKernel
from npu_tensor.runtime.cpu.loop_parts import LoopParts, place_of
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import FLOATS, Value, is_signed
from npu_tensor.task import Refusal, Task

_STEP_COST: Final = 8
"""Cheap elements that a search counts as. Chosen, not measured."""

_TOGETHER: Final = 4
"""Values that are searched side by side, which hides the latency of loads."""


class _SearchSpec(NamedTuple):
    """Structure of a kernel.

    Attributes:
        dtype: Dtype of the sequence and the values, which is that of a register.
        right: True for the position after equal elements.
    """

    dtype: str
    right: bool


def _module(spec: _SearchSpec, target: CpuTarget) -> str:
    """Return the module of a kernel that searches values.

    pointers  [positions, sequences, values]
    meta      elements of a sequence, values of a sequence, elements between sequences, steps of the bisection
    """
    e = Emitter(target)
    results, sequences, values = e.addresses(3)
    length, group, between, steps = e.numbers(4)

    def load(array: Value, position: Value) -> Value:
        return e.load_element(spec.dtype, e.address(array, position, spec.dtype))

    def precedes(element: Value, value: Value) -> Value:
        """Return true if the position is after the element. NaN is larger than all others, and equal to NaN."""
        if element.element not in FLOATS:
            sign = "s" if is_signed(spec.dtype) else "u"
            return e.compare(sign + ("le" if spec.right else "lt"), element, value)
        if spec.right:  # Not value < element, where only NaN is larger than a number.
            less = e.op("and", e.compare("ult", value, element), e.compare("ord", value, value))
            return e.op("xor", less, 1)
        return e.op("and", e.compare("ult", element, value), e.compare("ord", element, element))

    def search(first: Value, count: int) -> None:
        numbers = [e.add(first, number) for number in range(count)]
        sought = [load(values, number) for number in numbers]
        starts = [e.address(sequences, e.mul(e.op("udiv", n, group), between), spec.dtype) for n in numbers]

        def halve(_: Value, carried: list[Value]) -> list[Value]:
            """Skip half of the remaining elements if the last one of it precedes the value.

            The number of remaining elements is an upper bound, so that it does not depend on the value. It is never 0.
            """
            size, *found = carried
            half = e.op("lshr", e.add(size, 1), 1)
            later = []
            for start, value, place in zip(starts, sought, found, strict=True):
                middle = e.add(place, half)
                element = load(start, e.sub(middle, 1))
                later.append(e.select(precedes(element, value), middle, place))
            return [e.op("lshr", size, 1), *later]

        zero = e.constant(0, "i64")
        _, *found = e.loop(0, steps, 1, [length, *[zero] * count], halve)
        for number, place in zip(numbers, found, strict=True):
            e.store_value(place, e.address(results, number, "int64"), align=8)

    e.in_blocks(BEGIN, END, (_TOGETHER, 1), search)
    return e.kernel()


def search_kernel(processor: Processor, task: Task) -> SearchKernel | Refusal:
    """Return the kernel for a task of the op, or the reason why there is none."""
    assert task.call is not None
    if not math.prod(task.tensors[0].layout.shape) or not math.prod(task.shape):
        return Refusal("there is nothing to search")
    if task.call.registers[0] == "bool":
        return Refusal("compiled for numbers only")
    return SearchKernel(processor, task)


class SearchKernel(CopyingKernel):
    """Values one by one in their sequences. Operands of other dtypes or orders are copied first."""

    name = "search"

    def _bind(self) -> BoundLoops:
        task, parts = self.task, LoopParts(self.owner, self.task)
        assert task.call is not None
        dtype = as_dtype(task.call.registers[0])
        sequences, values = (parts.row_major(source, dtype) for source in task.tensors)
        shape, count = sequences.layout.shape, math.prod(task.shape)
        length, is_shared = shape[-1], len(shape) == 1
        group, between = (count, 0) if is_shared else (task.shape[-1], length)
        parts.loop(
            _module,
            _SearchSpec(dtype.name, task.attributes["right"]),
            [length, group, between, length.bit_length()],
            count,
            -(-LEAST_PIECE // (_STEP_COST * _TOGETHER)) * _TOGETHER,
            (parts.result(task.outputs[0]), place_of(sequences), place_of(values)),
        )
        return parts.joined()
