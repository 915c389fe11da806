"""The op `top_indices` for few elements of each row: insertion into a sorted list of indices, which is the result."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import reshaped
from npu_tensor.runtime.cpu.bound_loops import BoundLoops
from npu_tensor.runtime.cpu.cpu_cost import LEAST_PIECE
from npu_tensor.runtime.cpu.ir_emitter import Emitter
from npu_tensor.runtime.cpu.kernels import CopyingKernel
from npu_tensor.runtime.cpu.loop_parts import LoopParts, place_of
from npu_tensor.runtime.cpu.primitive_ir import cast
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import FLOATS, Value, is_signed, register_dtype
from npu_tensor.task import Refusal, Task

_MOST_SELECTED: Final = 64
"""Upper bound on the selected elements; the cost of an insertion grows with their number. On a Zen 3, 50 of 32,000 in 8
rows take 0.3 ms, and 0.6 ms in NumPy."""


class _SelectionSpec(NamedTuple):
    """Structure of a kernel.

    Attributes:
        dtype: Dtype of the elements.
        largest: True to select the largest elements.
        contiguous: True if neighbours in a row are neighbours in memory.
    """

    dtype: str
    largest: bool
    contiguous: bool


def _module(spec: _SelectionSpec, target: CpuTarget) -> str:
    """Return the module of a kernel that selects elements of rows. Of equal elements the first one is selected.

    pointers  [indices, elements]
    meta      extent, selected elements, rows that are neighbours; steps of the elements before, along and after the
              dimension
    """
    e = Emitter(target)
    results, elements = e.addresses(2)
    extent, count, after, step_before, step_along, step_after = e.numbers(6)
    register = register_dtype(spec.dtype)

    def converted(value: Value) -> Value:
        return cast(e, value, "bool", "int8") if register == "bool" else value

    def is_better(x: Value, other: Value) -> Value:
        """Compare vectors or numbers. NaN is larger than all others."""
        if x.element not in FLOATS:
            sign = "s" if is_signed(register) or register == "bool" else "u"
            return e.compare(sign + ("gt" if spec.largest else "lt"), x, other)
        beyond = e.compare("ugt" if spec.largest else "ult", x, other)
        number = other if spec.largest else x
        return e.op("and", beyond, e.compare("ord", number, number))

    def select(row: Value, _: list[Value]) -> None:
        before, place = e.op("udiv", row, after), e.op("urem", row, after)
        start = e.add(e.mul(before, step_before), e.mul(place, step_after))
        own = e.address(elements, start, spec.dtype)
        found = e.address(results, e.add(e.mul(before, e.mul(count, after)), place), "int64")

        def element(position: Value) -> Value:
            address = e.address(own, e.mul(position, step_along), spec.dtype)
            return converted(e.load_element(spec.dtype, address))

        def entry(number: Value) -> Value:
            return e.address(found, e.mul(number, after), "int64")

        def insert(position: Value, x: Value, last: Value) -> None:
            """Insert into a sorted list whose entry `last` is free."""

            def skip(number: Value, so_far: list[Value]) -> list[Value]:
                follows = is_better(x, element(e.load_value("i64", entry(number))))
                return [e.add(so_far[0], e.select(follows, e.constant(0, "i64"), e.constant(1, "i64")))]

            (place,) = e.loop(0, last, 1, [e.constant(0, "i64")], skip)

            def shift(number: Value, _: list[Value]) -> None:
                free = e.sub(last, number)
                e.store_value(e.load_value("i64", entry(e.sub(free, 1))), entry(free), align=8)

            e.loop(0, e.sub(last, place), 1, (), shift)
            e.store_value(position, entry(place), align=8)

        e.loop(0, count, 1, (), lambda position, _: insert(position, element(position), position))
        last = e.sub(count, 1)

        def replace(position: Value, so_far: list[Value]) -> list[Value]:
            x = element(position)

            def enter() -> list[Value]:
                insert(position, x, last)
                return [element(e.load_value("i64", entry(last)))]

            return e.branch(is_better(x, so_far[0]), enter, lambda: so_far)

        def replace_all(first: Value, so_far: list[Value]) -> list[Value]:
            """Look at the elements of a vector one by one if one of them is selected."""
            several = converted(e.load(spec.dtype, e.address(own, first, spec.dtype)))
            return e.branch(
                e.any(is_better(several, e.splat(so_far[0]))),
                lambda: e.loop(first, e.add(first, e.lanes), 1, so_far, replace),
                lambda: so_far,
            )

        least, begin = [element(e.load_value("i64", entry(last)))], count
        if spec.contiguous:
            begin = e.add(count, e.op("and", e.sub(extent, count), -e.lanes))
            least = e.loop(count, begin, e.lanes, least, replace_all)
        e.loop(begin, extent, 1, least, replace)

    return e.kernel_of_items(select)


def selection_kernel(processor: Processor, task: Task) -> SelectionKernel | Refusal:
    """Return the kernel for a task of the op, or the reason why there is none."""
    if not task.shape or not math.prod(task.shape):
        return Refusal("there is nothing to select")
    if task.attributes["k"] > _MOST_SELECTED:
        return Refusal(f"compiled for up to {_MOST_SELECTED} elements of a row")
    return SelectionKernel(processor, task)


class SelectionKernel(CopyingKernel):
    """Rows one by one. Elements that are not evenly spaced around the dimension are copied first."""

    name = "selection"

    def _bind(self) -> BoundLoops:
        task, (source,), (output,) = self.task, self.task.tensors, self.task.outputs
        dim, k, parts = task.attributes["dim"], task.attributes["k"], LoopParts(self.owner, task)
        extents = source.layout.shape
        _, extent, after = shape = math.prod(extents[:dim]), extents[dim], math.prod(extents[dim + 1 :])
        layout = reshaped(source.layout, shape)
        if layout is None:
            source, layout = parts.copy(source), Layout(shape, (extent * after, after, 1))
        spec = _SelectionSpec(source.dtype.name, task.attributes["largest"], layout.strides[1] == 1)
        numbers, slots = [extent, k, after, *layout.strides], (parts.result(output), place_of(source))
        parts.loop(_module, spec, numbers, shape[0] * after, -(-LEAST_PIECE // extent), slots)
        return parts.joined()
