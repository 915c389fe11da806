"""The dataflow design of an element-wise plan.

Each array column has its own share of the elements. With several cores in a column the memtile splits every input
object into one tile for each core and joins their tiles of the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.checks.limits import QUEUE_DEPTH
from npu_tensor.dataflow.columns import Step, Stream, core_tiles, gather, issue, load_resident, pipeline, scatter
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
from npu_tensor.kernels.elementwise.plan import RUN, ElementwisePlan
from npu_tensor.kernels.elementwise.source import Formula, keep_text, map_text

__all__ = ["design"]

RUN_BYTES: Final = 1024
"""Innermost run of a transfer that is repeated: a power of two below the limit of 1023 words."""

STACK: Final = 2048
"""Bytes: long programs hold more vectors than a core has registers. mlir-aie's own 1024 bytes keep 16 of them."""

POSITION: Final = ObjectType("int32", (16,))
"""Which of the resident values of column operands comes next; one word is used."""


class _Functions(NamedTuple):
    """What all cores share: the function of a tile, those that load resident inputs, and these inputs' core buffers."""

    map: KernelFunction
    keep: list[KernelFunction]
    resident: list[ObjectType]


def design(arch: str, plan: ElementwisePlan, formula: Formula, cost: Cost) -> Design:
    """The design; its host buffers are the plan's inputs and then its outputs."""
    builder = Builder("elementwise", arch, len(plan.rounds))
    names = [f"in{n}" for n in range(len(plan.inputs))] + [f"out{n}" for n in range(len(plan.outputs))]
    buffers = [
        builder.host_buffer(name, operand.dtype, math.prod(operand.padded))
        for name, operand in zip(names, plan.host_operands(), strict=True)
    ]
    tiles = [ObjectType(plan.inputs[channel[0]].dtype, (len(channel) * plan.tile,)) for channel in plan.channels]
    results = [ObjectType(operand.dtype, (plan.tile,)) for operand in plan.outputs]
    functions = _functions(builder, plan, formula, cost, tiles, results)
    streams = []
    for column in range(len(plan.rounds)):
        cores = core_tiles(column, plan.cores)
        inputs = [_input(builder, plan, type, number, cores) for number, type in enumerate(tiles)]
        outputs = [gather(builder, f"out{number}", type, cores) for number, type in enumerate(results)]
        streams.append((inputs, outputs))
        for core, tile in enumerate(cores):
            ends = [stream.cores[core] for stream in (*inputs, *outputs)]
            _worker(builder, plan, formula, functions, tile, ends)
    _transfers(builder, plan, streams, buffers)
    return builder.build()


def _functions(
    builder: Builder,
    plan: ElementwisePlan,
    formula: Formula,
    cost: Cost,
    tiles: Sequence[ObjectType],
    results: Sequence[ObjectType],
) -> _Functions:
    resident = [ObjectType(plan.inputs[slot].dtype, (_resident_length(plan, slot),)) for slot in plan.resident]
    texts = [map_text(plan, formula), *(keep_text(plan, slot) for slot in plan.resident)]
    source = Source("elementwise", "\n".join(texts))
    arguments: list[ObjectType | str] = [*tiles, *resident, *results]
    arguments += [POSITION] if plan.columns else []
    arguments += [ObjectType("int32", (formula.words,))] if formula.words else []
    function = builder.function("nt_map", arguments, source, cost.cycles, cost.program_bytes)
    keep = []
    for slot, buffer in zip(plan.resident, resident, strict=True):
        position: list[ObjectType | str] = [POSITION, "int32"] if slot in plan.columns else []
        # A load and a store of half a vector per cycle, after some for the first.
        cycles = 20 + 2 * buffer.nbytes // emitter.VECTOR_BYTES
        arguments = [tiles[plan.carrier], buffer, "int32", "int32", *position]
        keep.append(builder.function(f"nt_keep{slot}", arguments, source, cycles, 256))
    return _Functions(function, keep, resident)


def _resident_length(plan: ElementwisePlan, slot: int) -> int:
    """Elements of a resident input in a core: whole vectors."""
    needed = plan.tile if slot in plan.rows else plan.values(0)
    lanes = emitter.VECTOR_BYTES // plan.inputs[slot].itemsize
    return -(-needed // lanes) * lanes


def _input(builder: Builder, plan: ElementwisePlan, tile: ObjectType, number: int, cores: Sequence[Tile]) -> Stream:
    """The stream of an input channel. Operands that share it alternate in the core's objects, tile by tile."""
    parts, column = len(plan.channels[number]), cores[0].column
    if parts == 1:
        return scatter(builder, f"in{number}", tile, cores)
    # The host sends a block of tiles of each operand; the memtile writes them so that the operands alternate.
    run = math.gcd(plan.tile, RUN)
    dims = [(parts, plan.tile), (plan.block, parts * plan.tile), (plan.tile // run, run), (run, 1)]
    block = ObjectType(tile.dtype, (plan.block * tile.elements,))
    memtile, name = Tile(column, 1), f"in{number}_{column}"
    host = builder.fifo(name, block, Tile(column, 0), [memtile], dims_from_stream=[dims])
    core = builder.fifo(f"{name}_{cores[0].row}", tile, memtile, cores)
    builder.forward(host, core)
    return Stream(host, (core,))


def _worker(
    builder: Builder,
    plan: ElementwisePlan,
    formula: Formula,
    functions: _Functions,
    tile: Tile,
    streams: Sequence[ObjectFifo],
) -> None:
    """The core that computes every `plan.cores`-th tile of its column's share."""
    core, suffix = tile.row - 2, f"{tile.column}_{tile.row}"
    resident = [
        builder.core_buffer(f"kept{slot}_{suffix}", tile, type)
        for slot, type in zip(plan.resident, functions.resident, strict=True)
    ]
    state: list[Any] = [builder.core_buffer(f"position_{suffix}", tile, POSITION)] if plan.columns else []
    words = [builder.parameter(f"words_{suffix}", tile, formula.words)] if formula.words else []
    first_row = core * plan.tile // plan.width

    def body(*ends: Any) -> None:
        for slot, keep, buffer in zip(plan.resident, functions.keep, resident, strict=True):
            position = [*state, first_row] if slot in plan.columns else []
            load_resident(ends[plan.carrier], keep, buffer, 1, *position)
        for _ in range_(plan.rounds[tile.column]):
            tiles = [end.acquire(1) for end in ends]
            inputs, outputs = tiles[: len(plan.channels)], tiles[len(plan.channels) :]
            functions.map(*inputs, *resident, *outputs, *state, *words)
            for end in ends:
                end.release(1)

    builder.worker(tile, body, streams, STACK)


def _transfers(
    builder: Builder,
    plan: ElementwisePlan,
    streams: Sequence[tuple[list[Stream], list[Stream]]],
    buffers: Sequence[HostBuffer],
) -> None:
    """All results, resident inputs and single streams in one group; inputs that alternate in one for each block."""
    whole: list[Step] = []
    for column, (inputs, outputs) in enumerate(streams):
        share = AccessPattern.linear(plan.tile * plan.cores * plan.rounds[column], plan.first(column))
        results = zip(outputs, buffers[len(plan.inputs) :], strict=True)
        whole += [Step(stream.host, buffer, share) for stream, buffer in results]
        carrier = inputs[plan.carrier].host
        whole += [Step(carrier, buffers[slot], _resident_pattern(plan, slot, column)) for slot in plan.resident]
        channels = zip(inputs, plan.channels, strict=True)
        whole += [Step(stream.host, buffers[slots[0]], share) for stream, slots in channels if len(slots) == 1]
    group = builder.group()
    issue(builder, whole, group)
    most = max(map(len, plan.channels))
    if most > 1:
        blocks = range(max(plan.rounds) // plan.block)
        pipeline(builder, (_block(plan, streams, buffers, block) for block in blocks), QUEUE_DEPTH // most)
    builder.finish(group)


def _block(
    plan: ElementwisePlan,
    streams: Sequence[tuple[list[Stream], list[Stream]]],
    buffers: Sequence[HostBuffer],
    block: int,
) -> list[Step]:
    """The fills of one block of the inputs that alternate, of which the last on a channel is waited for."""
    steps = []
    for column, (inputs, _) in enumerate(streams):
        if block * plan.block < plan.rounds[column]:
            share = AccessPattern.linear(plan.block * plan.tile, plan.first(column) + block * plan.block * plan.tile)
            for stream, slots in zip(inputs, plan.channels, strict=True):
                if len(slots) > 1:
                    steps += [Step(stream.host, buffers[slot], share, slot == slots[-1]) for slot in slots]
    return steps


def _resident_pattern(plan: ElementwisePlan, slot: int, column: int) -> AccessPattern:
    """What brings a resident input to every core of a column: the same object for each."""
    elements = plan.resident_elements(slot)
    offset = plan.first(column) // plan.width if slot in plan.columns else 0
    if plan.cores == 1:
        return AccessPattern.linear(elements, offset)
    run = math.gcd(elements, RUN_BYTES // plan.inputs[slot].itemsize)
    return AccessPattern(offset, (plan.cores, 1, elements // run, run), (0, 0, run, 1))
