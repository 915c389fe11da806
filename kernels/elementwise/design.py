"""The dataflow design of an element-wise plan.

Each array column has its own share of the elements. With several cores in a column the memtile splits every input
object into one tile for each core and joins their tiles of the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import (
    AccessPattern,
    Builder,
    Design,
    HostBuffer,
    KernelFunction,
    ObjectFifo,
    ObjectType,
    Source,
    range_,
)
from npu_tensor.kernels.codegen import emitter
from npu_tensor.kernels.elementwise.cost import Cost
from npu_tensor.kernels.elementwise.plan import Plan
from npu_tensor.kernels.elementwise.source import Formula, keep_text, map_text
from npu_tensor.kernels.elementwise.tiling import RUN

__all__ = ["design"]

QUEUE: Final = 4
"""Transfers that a channel of the shim takes before the host has to wait."""

RUN_BYTES: Final = 1024
"""Innermost run of a transfer that is repeated: a power of two below the limit of 1023 words."""

STACK: Final = 2048
"""Bytes: long programs hold more vectors than a core has registers. mlir-aie's own 1024 bytes keep 16 of them."""

POSITION: Final = ObjectType("int32", (16,))
"""Which of the kept values of column operands comes next; one word is used."""


class _Kernel(NamedTuple):
    """What all cores share: the functions, and the types of the objects and buffers they work on."""

    map: KernelFunction
    keep: list[KernelFunction]
    inputs: list[ObjectType]
    outputs: list[ObjectType]
    kept: list[ObjectType]
    words: int


class _Ends(NamedTuple):
    """The fifos of a column at the host."""

    inputs: list[ObjectFifo]
    outputs: list[ObjectFifo]


def design(arch: str, plan: Plan, formula: Formula, cost: Cost) -> Design:
    """The design; its host buffers are the plan's inputs and then its outputs."""
    builder = Builder("elementwise", arch, len(plan.rounds))
    names = [f"in{number}" for number in range(len(plan.inputs))] + [
        f"out{number}" for number in range(len(plan.outputs))
    ]
    buffers = [
        builder.host_buffer(name, operand.dtype, math.prod(operand.padded))
        for name, operand in zip(names, plan.host_operands(), strict=True)
    ]
    kernel = _kernel(builder, plan, formula, cost)
    ends = [_column(builder, plan, kernel, column) for column in range(len(plan.rounds))]
    _transfers(builder, plan, ends, buffers)
    return builder.build()


def _kernel(builder: Builder, plan: Plan, formula: Formula, cost: Cost) -> _Kernel:
    inputs = [ObjectType(plan.inputs[channel[0]].dtype, (len(channel) * plan.tile,)) for channel in plan.channels]
    outputs = [ObjectType(operand.dtype, (plan.tile,)) for operand in plan.outputs]
    kept = [ObjectType(plan.inputs[position].dtype, (_kept_length(plan, position),)) for position in plan.kept]
    texts = [map_text(plan, formula)]
    for position, buffer in zip(plan.kept, kept, strict=True):
        texts.append(keep_text(plan, position, buffer.nbytes // emitter.VECTOR_BYTES))
    unit = Source("elementwise", "\n".join(texts))
    arguments: list[ObjectType | str] = [*inputs, *kept, *outputs]
    if plan.columns:
        arguments.append(POSITION)
    if formula.words:
        arguments.append(ObjectType("int32", (formula.words,)))
    function = builder.function("nt_map", arguments, unit, cost.cycles, cost.program_bytes)
    keep = []
    for position, buffer in zip(plan.kept, kept, strict=True):
        arguments = [inputs[plan.carrier], buffer]
        if position in plan.columns:
            arguments += [POSITION, "int32"]
        # A load and a store of half a vector per cycle, after some for the first.
        cycles = 20 + 2 * buffer.nbytes // emitter.VECTOR_BYTES
        keep.append(builder.function(f"nt_keep{position}", arguments, unit, cycles, 256))
    return _Kernel(function, keep, inputs, outputs, kept, formula.words)


def _kept_length(plan: Plan, position: int) -> int:
    """Elements of a kept input in a core: whole vectors."""
    needed = plan.tile if position in plan.rows else plan.values(0)
    lanes = emitter.VECTOR_BYTES // plan.inputs[position].itemsize
    return -(-needed // lanes) * lanes


def _column(builder: Builder, plan: Plan, kernel: _Kernel, column: int) -> _Ends:
    """Fifos and workers of one column."""
    inputs = [_input(builder, plan, kernel.inputs[number], number, column) for number in range(len(plan.channels))]
    outputs = [_output(builder, plan, type, number, column) for number, type in enumerate(kernel.outputs)]
    for core in range(plan.cores):
        _worker(
            builder,
            plan,
            kernel,
            (column, core),
            [ends[core] for _, ends in inputs],
            [ends[core] for _, ends in outputs],
        )
    return _Ends([fifo for fifo, _ in inputs], [fifo for fifo, _ in outputs])


def _input(
    builder: Builder, plan: Plan, tile: ObjectType, number: int, column: int
) -> tuple[ObjectFifo, list[ObjectFifo]]:
    """The fifo that the host fills, and the ends of it that the cores read."""
    parts, name = len(plan.channels[number]), f"in{number}_{column}"
    shim, memtile, cores = Tile(column, 0), Tile(column, 1), _cores(plan, column)
    if plan.cores == parts == 1:
        fifo = builder.fifo(name, tile, shim, cores)
        return fifo, [fifo]
    ends = [builder.fifo(f"{name}_{core.row - 2}", tile, memtile, [core]) for core in cores]
    if parts == 1:
        fifo = builder.fifo(name, ObjectType(tile.dtype, (plan.cores * plan.tile,)), shim, [memtile])
        builder.split(fifo, ends)
        return fifo, ends
    # The host sends a block of tiles of each operand; the memtile writes them so that the operands alternate.
    run = math.gcd(plan.tile, RUN)
    dims = [(parts, plan.tile), (plan.block, parts * plan.tile), (plan.tile // run, run), (run, 1)]
    whole = ObjectType(tile.dtype, (plan.block * tile.elements,))
    fifo = builder.fifo(name, whole, shim, [memtile], dims_from_stream=[dims])
    builder.forward(fifo, ends[0])
    return fifo, ends


def _output(
    builder: Builder, plan: Plan, tile: ObjectType, number: int, column: int
) -> tuple[ObjectFifo, list[ObjectFifo]]:
    """The fifo that the host drains, and the ends of it that the cores write."""
    name, shim, memtile, cores = f"out{number}_{column}", Tile(column, 0), Tile(column, 1), _cores(plan, column)
    if plan.cores == 1:
        fifo = builder.fifo(name, tile, cores[0], [shim])
        return fifo, [fifo]
    ends = [builder.fifo(f"{name}_{core.row - 2}", tile, core, [memtile]) for core in cores]
    fifo = builder.fifo(name, ObjectType(tile.dtype, (plan.cores * plan.tile,)), memtile, [shim])
    builder.join(ends, fifo)
    return fifo, ends


def _cores(plan: Plan, column: int) -> list[Tile]:
    return [Tile(column, 2 + row) for row in range(plan.cores)]


def _worker(
    builder: Builder,
    plan: Plan,
    kernel: _Kernel,
    place: tuple[int, int],
    inputs: Sequence[ObjectFifo],
    outputs: Sequence[ObjectFifo],
) -> None:
    """The core that takes every `plan.cores`-th tile of its column's share."""
    column, core = place
    tile, suffix = Tile(column, 2 + core), f"{column}_{core}"
    kept = [
        builder.core_buffer(f"kept{position}_{suffix}", tile, type)
        for position, type in zip(plan.kept, kernel.kept, strict=True)
    ]
    state: list[Any] = []
    if plan.columns:
        state.append(builder.core_buffer(f"position_{suffix}", tile, POSITION))
    if kernel.words:
        state.append(builder.parameter(f"words_{suffix}", tile, kernel.words))
    first_row = core * plan.tile // plan.width

    def body(*ends: Any) -> None:
        carrier = ends[plan.carrier]
        for function, position, buffer in zip(kernel.keep, plan.kept, kept, strict=True):
            start = [state[0], first_row] if position in plan.columns else []
            function(carrier.acquire(1), buffer, *start)
            carrier.release(1)
        for _ in range_(plan.rounds[column]):
            tiles = [end.acquire(1) for end in ends]
            kernel.map(*tiles[: len(inputs)], *kept, *tiles[len(inputs) :], *state)
            for end in ends:
                end.release(1)

    builder.worker(tile, body, [*inputs, *outputs], STACK)


def _transfers(builder: Builder, plan: Plan, ends: Sequence[_Ends], buffers: Sequence[HostBuffer]) -> None:
    """All results, kept operands and single streams in one group; streams that alternate in one for each block."""
    outputs = buffers[len(plan.inputs) :]
    whole = builder.group()
    for column, (inputs, results) in enumerate(ends):
        share = AccessPattern.linear(plan.tile * plan.cores * plan.rounds[column], plan.first(column))
        for fifo, buffer in zip(results, outputs, strict=True):
            builder.drain(fifo, buffer, share, whole)
        for position in plan.kept:
            builder.fill(inputs[plan.carrier], buffers[position], _kept_pattern(plan, position, column), whole)
        for fifo, channel in zip(inputs, plan.channels, strict=True):
            if len(channel) == 1:
                builder.fill(fifo, buffers[channel[0]], share, whole)
    most = max(map(len, plan.channels))
    started: list[int] = []
    for block in range(max(plan.rounds) // plan.block if most > 1 else 0):
        if len(started) == QUEUE // most:
            builder.finish(started.pop(0))
        started.append(builder.group())
        for column, (inputs, _) in enumerate(ends):
            if block * plan.block < plan.rounds[column]:
                start = plan.first(column) + block * plan.block * plan.tile
                share = AccessPattern.linear(plan.block * plan.tile, start)
                for fifo, channel in zip(inputs, plan.channels, strict=True):
                    for position in channel if len(channel) > 1 else ():
                        last = position == channel[-1]
                        builder.fill(fifo, buffers[position], share, started[-1], wait=last)
    for group in (*started, whole):
        builder.finish(group)


def _kept_pattern(plan: Plan, position: int, column: int) -> AccessPattern:
    """What brings a kept input to every core of a column: the same object for each."""
    elements = plan.kept_elements(position)
    offset = plan.first(column) // plan.width if position in plan.columns else 0
    if plan.cores == 1:
        return AccessPattern.linear(elements, offset)
    run = math.gcd(elements, RUN_BYTES // plan.inputs[position].itemsize)
    return AccessPattern(offset, (plan.cores, 1, elements // run, run), (0, 0, run, 1))
