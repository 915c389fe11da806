"""Scans along a dimension: `cumsum`, `cumprod` and `running_extreme`.

Each row is scanned in order, so results do not depend on the number of threads. Several rows are scanned side by side,
which hides the latency of the additions: in vectors across rows if these are neighbours in memory, else one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Instruction
from npu_tensor.ops.layouts import reshaped
from npu_tensor.runtime.cpu.bound_loops import BoundLoops
from npu_tensor.runtime.cpu.cpu_cost import LEAST_PIECE
from npu_tensor.runtime.cpu.ir_emitter import BEGIN, END, Emitter
from npu_tensor.runtime.cpu.kernels import CopyingKernel
from npu_tensor.runtime.cpu.loop_parts import LoopParts, place_of
from npu_tensor.runtime.cpu.primitive_ir import apply, cast
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import (
    ELEMENT_SIZE,
    REGISTER_ELEMENT,
    Value,
    is_signed,
    register_dtype,
)
from npu_tensor.task import Refusal, Task

_TOGETHER: Final = 4
"""Rows, or vectors across rows, that are scanned side by side: an addition lasts 3 to 4 cycles."""


class _ScanSpec(NamedTuple):
    """Structure of a kernel.

    Attributes:
        function: "sum", "product", or "largest" or "smallest" for the index of the running extreme.
        source: Dtype of the elements.
        result: Dtype of the results.
        across: True for vectors across rows that are neighbours in memory.
    """

    function: str
    source: str
    result: str
    across: bool


def _module(spec: _ScanSpec, target: CpuTarget) -> str:
    """Return the module of a kernel that scans rows.

    Positions are rows, or blocks of neighbouring rows of _TOGETHER vectors.

    pointers  [results, elements]
    meta      extent, rows that are neighbours, blocks of these; steps of the elements before, along and after the
              dimension
    """
    e = Emitter(target)
    results, elements = e.addresses(2)
    extent, after, blocks, step_before, step_along, step_after = e.numbers(6)
    register = register_dtype(spec.source)
    is_extreme = spec.function in ("largest", "smallest")
    if is_extreme:
        wide = "int8" if register == "bool" else register
    else:
        wide = "float64" if spec.function == "sum" and spec.result in _FLOATS else register_dtype(spec.result)

    def load(address: Value, is_vector: bool) -> Value:
        value = (e.load if is_vector else e.load_element)(spec.source, address)
        return value if is_extreme and register != "bool" else cast(e, value, register, _converted(spec, wide))

    def store(value: Value, address: Value, is_vector: bool) -> None:
        if not is_extreme:
            value = cast(e, value, wide, register_dtype(spec.result))
        if is_vector:
            e.store(spec.result, value, address)
        elif spec.result in ("bfloat16", "float16"):
            e.store_scalar(spec.result, e.splat(value), address)
        else:
            e.store_value(value, address, align=ELEMENT_SIZE[spec.result])

    def follow(carried: Sequence[Value], x: Value, position: Value) -> list[Value]:
        """Return the values carried to the next position; the last one is the result."""
        if not is_extreme:
            x = cast(e, x, _converted(spec, wide), wide)
            primitive = "add" if spec.function == "sum" else "mul"
            return [apply(e, Instruction(primitive, (0, 1), wide), [carried[0], x], [wide])]
        best, index = carried
        predicate = "ge" if spec.function == "largest" else "le"
        prefix = "o" if wide in _FLOATS else "s" if is_signed(wide) else "u"
        better = e.compare(prefix + predicate, x, best)
        if wide in _FLOATS:
            better = e.op("or", better, e.compare("uno", x, x))
        if index.type != "i64":
            position = e.splat(position)
        return [e.select(better, x, best), e.select(better, position, index)]

    def scan(ends: Sequence[tuple[Value, Value]], is_vector: bool) -> None:
        """Scan rows, or vectors of rows, given by the addresses of their first elements and results."""

        def shaped(element: str) -> str:
            return e.vector(element) if is_vector else element

        first = [e.constant(_start(spec.function, wide), shaped(REGISTER_ELEMENT[wide]))]
        first += [e.constant(0, shaped("i64"))] if is_extreme else []
        size = len(first)

        def body(position: Value, carried: list[Value]) -> list[Value]:
            read = e.mul(position, step_along)
            written = e.mul(position, after)
            later: list[Value] = []
            for number, (source, result) in enumerate(ends):
                x = load(e.address(source, read, spec.source), is_vector)
                values = follow(carried[number * size : (number + 1) * size], x, position)
                store(values[-1], e.address(result, written, spec.result), is_vector)
                later += values
            return later

        e.loop(0, extent, 1, first * len(ends), body)

    def ends_of(before: Value, place: Value) -> tuple[Value, Value]:
        source = e.add(e.mul(before, step_before), e.mul(place, step_after))
        result = e.add(e.mul(before, e.mul(extent, after)), place)
        return e.address(elements, source, spec.source), e.address(results, result, spec.result)

    def scan_rows(first: Value, count: int) -> None:
        rows = [e.add(first, number) for number in range(count)]
        scan([ends_of(e.op("udiv", row, after), e.op("urem", row, after)) for row in rows], False)

    def scan_block(block: Value, _: list[Value]) -> None:
        before, own = e.op("udiv", block, blocks), e.op("urem", block, blocks)
        place = e.mul(own, _TOGETHER * e.lanes)
        stop = e.smaller(e.add(place, _TOGETHER * e.lanes), after)

        def scan_places(at: Value, width: int) -> None:
            vectors = [e.add(at, number * e.lanes) for number in range(width // e.lanes)]
            scan([ends_of(before, each) for each in vectors or [at]], bool(vectors))

        e.in_blocks(place, stop, (_TOGETHER * e.lanes, e.lanes, 1), scan_places)

    if spec.across:
        e.loop(BEGIN, END, 1, (), scan_block)
    else:
        e.in_blocks(BEGIN, END, (_TOGETHER, 1), scan_rows)
    return e.kernel()


_FLOATS: Final = frozenset({"float32", "float64", "bfloat16", "float16"})


def _converted(spec: _ScanSpec, wide: str) -> str:
    """Return the register dtype to which elements are converted before they are combined."""
    return wide if spec.function in ("largest", "smallest") else register_dtype(spec.result)


def _start(function: str, dtype: str) -> float:
    """Return the value before the first element. -0.0 keeps the sign of a first zero."""
    if function == "product":
        return 1
    if function == "sum":
        return -0.0 if dtype in _FLOATS else 0
    if dtype in _FLOATS:
        return -math.inf if function == "largest" else math.inf
    limits = np.iinfo(dtype)
    return int(limits.min if function == "largest" else limits.max)


def scan_kernel(processor: Processor, task: Task) -> ScanKernel | Refusal:
    """Return the kernel for a task of these ops, or the reason why there is none."""
    if not task.shape or not math.prod(task.shape):
        return Refusal("there is nothing to scan")
    if task.outputs[0].dtype.name == "bool":
        return Refusal("compiled for results that are numbers")
    return ScanKernel(processor, task)


class ScanKernel(CopyingKernel):
    """Rows scanned side by side. Elements that are not evenly spaced around the dimension are copied first."""

    name = "scan"

    def _bind(self) -> BoundLoops:
        task, owner, (source,), (output,) = self.task, self.owner, self.task.tensors, self.task.outputs
        attributes, lanes, parts = task.attributes, owner.target.lanes, LoopParts(owner, task)
        dim = attributes["dim"]
        before, extent, after = shape = math.prod(task.shape[:dim]), task.shape[dim], math.prod(task.shape[dim + 1 :])
        across = after >= lanes
        layout = reshaped(source.layout, shape)
        if layout is None or (across and layout.strides[2] != 1):
            source, layout = parts.copy(source), Layout(shape, (extent * after, after, 1))
        function = {"cumsum": "sum", "cumprod": "product"}.get(task.ops[0])
        function = function or ("largest" if attributes["largest"] else "smallest")
        width = _TOGETHER * lanes if across else 1
        blocks = -(-after // width)
        parts.loop(
            _module,
            _ScanSpec(function, source.dtype.name, output.dtype.name, across),
            [extent, after, blocks, *layout.strides],
            before * blocks,
            -(-LEAST_PIECE // (extent * width * _TOGETHER)) * _TOGETHER,
            (parts.result(output), place_of(source)),
        )
        return parts.joined()
