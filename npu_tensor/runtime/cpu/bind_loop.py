"""Binds a program to the shapes and layouts of its operands: one compiled loop, and the step that runs it.

Everything that depends only on structure (addresses of code, strides, grains) is worked out here; a step only allocates
its outputs and launches.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from npu_tensor.ops.analysis import PER_ELEMENT, frequencies
from npu_tensor.ops.expression import Instruction, Parameter, Program
from npu_tensor.ops.rows import ROW_LENGTH_SLOT
from npu_tensor.runtime.cpu.collapse import Space, collapse
from npu_tensor.runtime.cpu.cpu_cost import grain
from npu_tensor.runtime.cpu.engine import Address
from npu_tensor.runtime.cpu.loop_base import LoopOperand, LoopSpec
from npu_tensor.runtime.cpu.loop_kernel import length_class
from npu_tensor.runtime.cpu.map_kernel import tile_count
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.task import Input, Output, Step

__all__ = ["bind_loop", "number_types", "with_fixed_numbers"]


# Outputs larger than a core complex's last-level cache are written past it: the next kernel could not read them there.
STREAMING_BYTES = 24 << 20

# The transposed inputs of a map that are copied to the stack tile by tile, which takes up to 32 KiB for each.
MOST_TRANSPOSED = 4


def bind_loop(
    owner: Processor,
    program: Program,
    shape: tuple[int, ...],
    rows: int,
    inputs: Sequence[Input],
    outputs: Sequence[Output],
) -> Step:
    """Compile a program for the collapsed form of `shape` and return the step that runs it."""
    layouts = [output.layout for output in outputs]
    layouts += [source.layout for source in inputs if source.layout is not None]
    space = collapse(shape, layouts, rows)
    program, fixed = with_fixed_numbers(program, len(inputs), row_length=space.row_length)
    columns = bool(rows) and _runs_across_rows(program, space, inputs, len(outputs))
    space, tiles = _as_tiles(space, rows, len(outputs), owner.target.lanes)
    streaming = rows == 0 and sum(output.nbytes for output in outputs) > STREAMING_BYTES
    operands, order = _operands(program, space, inputs, outputs, fixed, columns, tiles)
    length = None if space.runs else length_class(program, space.inner, owner.target.lanes, columns)
    flat = streaming and not space.outer
    kernel = owner.loop(LoopSpec(program, operands, len(space.outer), flat, columns, length, space.runs))
    meta = _meta(space, operands, order, fixed)
    elements = math.prod(space.outer) * space.inner
    n = space.rows if rows else tile_count(space.outer, space.inner) if tiles else elements
    piece = grain(n, elements, program, owner.pool.threads)
    numbers = number_types(program)
    arguments = [
        (source.item, None if source.layout is not None else numbers.get(slot, float))
        for slot, source in enumerate(inputs)
    ]
    return _step(owner, kernel, meta, n, piece, outputs, arguments)


def number_types(program: Program) -> dict[int, type]:
    """Scalar slot -> float, int or bool, as the kernel reads it; a bool has the bits of an int, and 0.5 is true."""
    return {
        i.value: float if i.dtype.startswith("float") else bool if i.dtype == "bool" else int
        for i in program.instructions
        if i.primitive == "scalar"
    }


def _runs_across_rows(program: Program, space: Space, inputs: Sequence[Input], outputs: int) -> bool:
    """Whether lanes should run across rows: when the large operands jump along a row but not across rows.

    That form stores what does not vary along a row once, so every result with one value per element must vary.
    """
    if not space.outer or space.inner <= 1 or space.runs:
        return False
    along = sum(stride not in (0, 1) for stride in space.inner_strides)
    across = sum(strides[-1] not in (0, 1) for strides in space.outer_strides)
    if not along or across:
        return False
    strides = iter(space.inner_strides[outputs:])
    fixed = {slot for slot, source in enumerate(inputs) if source.layout is not None and not next(strides)}
    frequency = frequencies(program, fixed)
    return all(
        frequency[value] == PER_ELEMENT or not stride
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
    fixed: Sequence[int | float],
    columns: bool,
    tiles: bool,
) -> tuple[tuple[LoopOperand, ...], list[int | None]]:
    """What the kernel is told of its operands, and for each its number in `space`; None for a number."""
    numbers = number_types(program)
    found: list[LoopOperand] = []
    order: list[int | None] = []
    position = transposed = 0
    tensors: list[Input | Output] = [*outputs, *inputs]
    for tensor in tensors:
        if tensor.layout is None:
            slot = len(found) - len(outputs)
            found.append(LoopOperand("float64" if numbers.get(slot, float) is float else "int64", "scalar"))
            order.append(None)
            continue
        assert tensor.dtype is not None
        strides = space.outer_strides[position]
        stride = strides[-1] if columns else space.inner_strides[position]
        access = (_OUTPUT_ACCESS if position < len(outputs) else _INPUT_ACCESS).get(stride, "strided")
        if stride == 0 and any(strides[len(strides) - space.runs :]):
            access = "run"
        if tiles and stride not in (0, 1) and space.outer_strides[position][-1] == 1 and transposed < MOST_TRANSPOSED:
            access = "transposed"
            transposed += 1
        found.append(LoopOperand(tensor.dtype.name, access))
        order.append(position)
        position += 1
    found += [LoopOperand("float64" if isinstance(number, float) else "int64", "fixed") for number in fixed]
    return tuple(found), order


def _meta(
    space: Space, operands: Sequence[LoopOperand], order: Sequence[int | None], fixed: Sequence[int | float]
) -> np.ndarray[Any, Any]:
    """The array of sizes, strides and fixed numbers that the kernel reads; see loop_kernel."""
    entries = [space.inner, *space.outer]
    for number in order:
        if number is None:
            entries += [0] * (len(space.outer) + 2)
        else:
            entries += [space.offsets[number], *space.outer_strides[number], space.inner_strides[number]]
    for value in fixed:
        (bits,) = struct.unpack("q", struct.pack("d" if isinstance(value, float) else "q", value))
        entries += [bits, *([0] * (len(space.outer) + 1))]
    return np.array(entries, np.int64)


def _step(
    owner: Processor,
    kernel: Address,
    meta: np.ndarray[Any, Any],
    n: int,
    grain: int,
    outputs: Sequence[Output],
    arguments: Sequence[tuple[int, type | None]],
) -> Step:
    """The closure that runs a kernel. The common arities are spelled out: this is the hot path of small tensors."""
    launch = owner.pool.launch
    address = meta.ctypes.data
    new_buffers = [owner.allocator.allocation(output.nbytes) for output in outputs]
    simple = len(outputs) == 1 and outputs[0].donor is None
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
        launch(kernel, address, n, grain, *slots)

    return run


_LARGEST: Final = (1 << 63) - 1


def with_fixed_numbers(
    program: Program, first: int, most: int = _LARGEST, row_length: int | None = None
) -> tuple[Program, list[int | float]]:
    """The program with these numbers as scalars in slots from `first` on, and the numbers.

    most: of these slots; further numbers stay constants. row_length: of a program that may ask for it.
    """
    numbers: list[int | float] = []
    instructions: list[Instruction] = []
    for step in program.instructions:
        number: int | float | None = None
        if step.primitive == "scalar" and step.value == ROW_LENGTH_SLOT:
            number = row_length
        elif isinstance(step.value, Parameter) and len(numbers) < most:
            number = step.value  # type: ignore[assignment]  # a Parameter is a float or an int
        if number is not None and (step.dtype.startswith("float") or -_LARGEST <= number <= _LARGEST):
            step = Instruction("scalar", (), step.dtype, first + len(numbers))
            numbers.append(float(number) if step.dtype.startswith("float") else int(number))
        instructions.append(step)
    return program._replace(instructions=tuple(instructions)), numbers
