"""Binds a program to the shapes and layouts of its operands: one compiled loop.

Everything that depends only on structure (addresses of code, strides, grains) is worked out here; a run only allocates
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
from npu_tensor.runtime.cpu.bound_loops import BoundLoop, BoundLoops, Location, Number, Slot
from npu_tensor.runtime.cpu.collapse import Space, collapse
from npu_tensor.runtime.cpu.cpu_cost import grain
from npu_tensor.runtime.cpu.loop_kernel import length_class
from npu_tensor.runtime.cpu.map_kernel import LoopOperand, LoopSpec, tile_count
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.task import Input, Output

# Outputs larger than a core complex's last-level cache are written past it: the next kernel could not read them there.
STREAMING_BYTES = 24 << 20

# Elements between neighbours of a result up to which a longer inner dimension is better than a contiguous one.
NEAR_STEP = 16

# Upper bound on transposed inputs of a map that are copied to the stack by tiles of up to 32 KiB each.
MOST_TRANSPOSED = 4


def bind_loop(
    owner: Processor,
    program: Program,
    shape: tuple[int, ...],
    rows: int,
    inputs: Sequence[Input],
    outputs: Sequence[Output],
    together: int = 1,
) -> BoundLoops:
    """Compile a program for the collapsed form of `shape`, and bind the loop that runs it.

    Args:
        owner: Processor that compiles and runs the loop.
        program: Program of each element or row.
        shape: Iteration space.
        rows: Number of trailing dimensions that are one row.
        inputs: Operands.
        outputs: Results.
        together: Number of neighbouring elements of a map that run in one thread.
    """
    layouts = [output.layout for output in outputs]
    layouts += [source.layout for source in inputs if source.layout is not None]
    space = collapse(shape, tuple(layouts), rows)
    program, fixed = with_fixed_numbers(program, len(inputs), row_length=space.row_length)
    columns = bool(rows) and _runs_across_rows(program, space, inputs, len(outputs))
    if not rows and together == 1:
        space = _with_longer_rows(space, owner.target.lanes)
    space, tiles = _as_tiles(space, rows, len(outputs), owner.target.lanes)
    streaming = rows == 0 and sum(output.nbytes for output in outputs) > STREAMING_BYTES
    operands, meta = _operands(program, space, inputs, outputs, fixed, columns, tiles)
    length = None if space.runs else length_class(program, space.inner, owner.target.lanes, columns)
    flat = streaming and not space.outer
    kernel = owner.loop(LoopSpec(program, operands, len(space.outer), flat, columns, length, space.runs))
    elements = math.prod(space.outer) * space.inner
    n = space.rows if rows else tile_count(space.outer, space.inner) if tiles else elements
    piece = grain(n, elements, program, owner.pool.threads)
    if columns:  # Whole cache lines of neighbouring rows, and whole vectors of them.
        piece = (piece + 63) & ~63
    if together > 1:
        piece = n if tiles else -(-piece // together) * together
    slots = (*(Location(output.item) for output in outputs), *slots_of(inputs, program))
    loop = BoundLoop(kernel, meta.ctypes.data, n, piece, slots)
    new = tuple([(output.item, output.nbytes) for output in outputs if output.donor is None])
    overwritten = tuple([(output.item, output.donor) for output in outputs if output.donor is not None])
    return BoundLoops((loop,), new, overwritten, (meta,))


def slots_of(inputs: Sequence[Input], program: Program, first: int = 0, with_offset: bool = False) -> list[Slot]:
    """Return the arguments of a kernel for operands.

    Args:
        inputs: The operands.
        program: Program that reads them.
        first: Slot of the first operand.
        with_offset: True for addresses of first elements, False for addresses of the memory.
    """
    numbers = number_types(program)
    return [
        Number(source.item, numbers.get(slot, float))
        if source.layout is None or source.dtype is None
        else Location(source.item, source.layout.offset * source.dtype.itemsize if with_offset else 0)
        for slot, source in enumerate(inputs, first)
    ]


def number_types(program: Program) -> dict[int, type]:
    """Return the type of each scalar slot: float, int or bool. A bool has the bits of an int, and 0.5 is true."""
    return {
        i.value: float if i.dtype.startswith("float") else bool if i.dtype == "bool" else int
        for i in program.instructions
        if i.primitive == "scalar"
    }


def _runs_across_rows(program: Program, space: Space, inputs: Sequence[Input], outputs: int) -> bool:
    """Return True if lanes should run across rows: the large operands jump along a row but not across rows.

    That form stores a value that is constant along a row once, so every result with one value per element must vary.
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


def _with_longer_rows(space: Space, lanes: int) -> Space:
    """Exchange an inner dimension that is shorter than a vector with the next one that is not, as in RGB images.

    Measured on a Zen 3, 50,000 rows of 3: 4 to 9 times as fast. Dimensions further out have steps beyond a cache line.
    """
    axis = next((axis for axis in range(len(space.outer) - 1, -1, -1) if space.outer[axis] >= lanes), None)
    if space.inner >= lanes or axis is None or any(abs(steps[axis]) > NEAR_STEP for steps in space.outer_strides[:1]):
        return space

    def exchanged(outer: tuple[int, ...], inner: int) -> tuple[int, ...]:
        return (*outer[:axis], inner, *outer[axis + 1 :])

    return space._replace(
        outer=exchanged(space.outer, space.inner),
        inner=space.outer[axis],
        outer_strides=tuple(map(exchanged, space.outer_strides, space.inner_strides)),
        inner_strides=tuple(strides[axis] for strides in space.outer_strides),
    )


def _as_tiles(space: Space, rows: int, outputs: int, lanes: int) -> tuple[Space, bool]:
    """Return the space, and True if a map should go over tiles: some inputs jump along rows but not across them.

    The outer dimension along which most of these inputs are contiguous becomes the innermost outer one. It is walked
    from its end if most of them are reversed along it.
    """
    if rows or space.inner < lanes or any(stride != 1 for stride in space.inner_strides[:outputs]):
        return space, False
    jumping = [
        strides
        for strides, inner in zip(space.outer_strides[outputs:], space.inner_strides[outputs:], strict=True)
        if inner not in (0, 1)
    ]
    counts = {
        (axis, step): sum(strides[axis] == step for strides in jumping)
        for axis, extent in enumerate(space.outer)
        for step in (1, -1)
        if extent >= lanes
    }
    if not any(counts.values()):
        return space, False
    best, step = max(counts, key=counts.__getitem__)

    def moved(extents: tuple[int, ...]) -> tuple[int, ...]:
        return (*extents[:best], *extents[best + 1 :], extents[best])

    outer, strides = moved(space.outer), [moved(strides) for strides in space.outer_strides]
    offsets = space.offsets
    if step < 0:
        offsets = tuple(start + (outer[-1] - 1) * s[-1] for start, s in zip(offsets, strides, strict=True))
        strides = [(*rest, -last) for *rest, last in strides]
    return space._replace(outer=outer, offsets=offsets, outer_strides=tuple(strides)), True


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
) -> tuple[tuple[LoopOperand, ...], np.ndarray[Any, Any]]:
    """Return the kernel's operands, and the sizes, strides and fixed numbers of `meta`; see loop_kernel."""
    numbers = number_types(program)
    operands: list[LoopOperand] = []
    meta = [space.inner, *space.outer]
    strides_of = iter(zip(space.offsets, space.outer_strides, space.inner_strides, strict=True))
    transposed = 0
    tensors: list[Input | Output] = [*outputs, *inputs]
    for number, tensor in enumerate(tensors):
        if tensor.layout is None or tensor.dtype is None:
            kind = numbers.get(number - len(outputs), float)
            operands.append(LoopOperand("float64" if kind is float else "int64", "scalar"))
            meta += [0] * (len(space.outer) + 2)
            continue
        offset, strides, inner = next(strides_of)
        stride = strides[-1] if columns else inner
        access = (_OUTPUT_ACCESS if number < len(outputs) else _INPUT_ACCESS).get(stride, "strided")
        if stride == 0 and any(strides[len(strides) - space.runs :]):
            access = "run"
        if tiles and stride not in (0, 1) and strides[-1] == 1 and transposed < MOST_TRANSPOSED:
            access = "transposed"
            transposed += 1
        operands.append(LoopOperand(tensor.dtype.name, access, columns and not inner and number >= len(outputs)))
        meta += [offset, *strides, inner]
    for value in fixed:
        is_float = isinstance(value, float)
        operands.append(LoopOperand("float64" if is_float else "int64", "fixed"))
        (bits,) = struct.unpack("q", struct.pack("d" if is_float else "q", value))
        meta += [bits, *([0] * (len(space.outer) + 1))]
    return tuple(operands), np.array(meta, np.int64)


_LARGEST: Final = (1 << 63) - 1


def with_fixed_numbers(
    program: Program, first: int, most: int = _LARGEST, row_length: int | None = None
) -> tuple[Program, list[int | float]]:
    """Return the program with some constants replaced by scalars in slots, and the numbers.

    Args:
        program: The program.
        first: First slot.
        most: Upper bound on slots; further numbers stay constants.
        row_length: Row length, for a program that reads it.
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
