"""The dataflow design of an element-wise plan.

Each array column has its own share of the elements. With several cores in a column the memtile splits every input
object into one tile for each core and joins their tiles of the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.checks.limits import QUEUE_DEPTH
from npu_tensor.dataflow.columns import ColumnStream, Step, core_tiles, gather, issue, load_resident, pipeline, scatter
from npu_tensor.dataflow.design import (
    AccessPattern,
    Builder,
    Design,
    KernelFunction,
    ObjectFifo,
    ObjectType,
    Source,
    range_,
)
from npu_tensor.kernels.codegen import emitter
from npu_tensor.kernels.elementwise.cost import CallCost
from npu_tensor.kernels.elementwise.source import Formula, keep_text, map_text
from npu_tensor.kernels.elementwise.tiling import RUN, ElementwisePlan

__all__ = ["design"]

RUN_BYTES: Final = 1024
"""Innermost run of a transfer that is repeated: a power of two below the limit of 1023 words."""

POSITION: Final = ObjectType("int32", (16,))
"""Which of the resident values of column operands comes next; one word is used."""


def design(arch: str, plan: ElementwisePlan, formula: Formula, cost: CallCost) -> Design:
    """The design; its host buffers are the plan's inputs and then its outputs."""
    return _ElementwiseDesign(arch, plan, formula, cost).builder.build()


class _ElementwiseDesign:
    """tiles, results: the objects of the inputs' channels and of the outputs at a core. resident: core buffers."""

    def __init__(self, arch: str, plan: ElementwisePlan, formula: Formula, cost: CallCost) -> None:
        self.plan, self.formula = plan, formula
        self.builder = Builder("elementwise", arch, len(plan.rounds))
        names = [f"in{n}" for n in range(len(plan.inputs))] + [f"out{n}" for n in range(len(plan.outputs))]
        self.buffers = [
            self.builder.host_buffer(name, operand.dtype, math.prod(operand.padded))
            for name, operand in zip(names, plan.host_operands(), strict=True)
        ]
        self.tiles = [
            ObjectType(plan.inputs[channel[0]].dtype, (len(channel) * plan.tile,)) for channel in plan.channels
        ]
        self.results = [ObjectType(operand.dtype, (plan.tile,)) for operand in plan.outputs]
        self.resident = [ObjectType(plan.inputs[slot].dtype, (self._length(slot),)) for slot in plan.resident]
        self.map, self.keep = self._functions(cost)
        self.streams = [self._column(core_tiles(column, plan.cores)) for column in range(len(plan.rounds))]
        self._transfers()

    def _length(self, slot: int) -> int:
        """Elements of a resident input in a core: whole vectors."""
        needed = self.plan.tile if slot in self.plan.rows else self.plan.values(0)
        lanes = emitter.VECTOR_BYTES // self.plan.inputs[slot].itemsize
        return -(-needed // lanes) * lanes

    def _functions(self, cost: CallCost) -> tuple[KernelFunction, list[KernelFunction]]:
        """The function of a tile, and those that load resident inputs."""
        plan, words = self.plan, self.formula.words
        texts = [map_text(plan, self.formula), *(keep_text(plan, slot) for slot in plan.resident)]
        source = Source("elementwise", "\n".join(texts))
        arguments: list[ObjectType | str] = [*self.tiles, *self.resident, *self.results]
        arguments += [POSITION] if plan.columns else []
        arguments += [ObjectType("int32", (words,))] if words else []
        function = self.builder.function("nt_map", arguments, source, cost.cycles, cost.program_bytes)
        keep = []
        for slot, buffer in zip(plan.resident, self.resident, strict=True):
            arguments = [self.tiles[plan.carrier], buffer, "int32", "int32"]
            arguments += [POSITION, "int32"] if slot in plan.columns else []
            # A load and a store of half a vector per cycle, after some for the first.
            cycles = 20 + 2 * buffer.nbytes // emitter.VECTOR_BYTES
            keep.append(self.builder.function(f"nt_keep{slot}", arguments, source, cycles, 256))
        return function, keep

    def _column(self, cores: Sequence[Tile]) -> tuple[list[ColumnStream], list[ColumnStream]]:
        """Streams and workers of a column."""
        inputs = [self._input(tile, number, cores) for number, tile in enumerate(self.tiles)]
        outputs = [gather(self.builder, f"out{number}", type, cores) for number, type in enumerate(self.results)]
        for number, core in enumerate(cores):
            self._worker(core, [stream.cores[number] for stream in (*inputs, *outputs)])
        return inputs, outputs

    def _input(self, tile: ObjectType, number: int, cores: Sequence[Tile]) -> ColumnStream:
        """The stream of an input channel. Operands that share it alternate in the core's objects, tile by tile."""
        plan, parts, column = self.plan, len(self.plan.channels[number]), cores[0].column
        if parts == 1:
            return scatter(self.builder, f"in{number}", tile, cores)
        # The host sends a block of tiles of each operand; the memtile writes them so that the operands alternate.
        run = math.gcd(plan.tile, RUN)
        dims = [(parts, plan.tile), (plan.block, parts * plan.tile), (plan.tile // run, run), (run, 1)]
        block = ObjectType(tile.dtype, (plan.block * tile.elements,))
        memtile, name = Tile(column, 1), f"in{number}_{column}"
        host = self.builder.fifo(name, block, Tile(column, 0), [memtile], dims_from_stream=[dims])
        core = self.builder.fifo(f"{name}_{cores[0].row}", tile, memtile, cores)
        self.builder.forward(host, core)
        return ColumnStream(host, (core,))

    def _worker(self, tile: Tile, streams: Sequence[ObjectFifo]) -> None:
        """The core that computes every `plan.cores`-th tile of its column's share."""
        plan, builder, suffix = self.plan, self.builder, f"{tile.column}_{tile.row}"
        resident = [
            builder.core_buffer(f"kept{slot}_{suffix}", tile, type)
            for slot, type in zip(plan.resident, self.resident, strict=True)
        ]
        state: list[Any] = [builder.core_buffer(f"position_{suffix}", tile, POSITION)] if plan.columns else []
        words = [builder.parameter(f"words_{suffix}", tile, self.formula.words)] if self.formula.words else []
        first_row = (tile.row - 2) * plan.tile // plan.width

        def body(*ends: Any) -> None:
            for slot, keep, buffer in zip(plan.resident, self.keep, resident, strict=True):
                position = [*state, first_row] if slot in plan.columns else []
                load_resident(ends[plan.carrier], keep, buffer, 1, *position)
            for _ in range_(plan.rounds[tile.column]):
                tiles = [end.acquire(1) for end in ends]
                inputs, outputs = tiles[: len(plan.channels)], tiles[len(plan.channels) :]
                self.map(*inputs, *resident, *outputs, *state, *words)
                for end in ends:
                    end.release(1)

        builder.worker(tile, body, streams)

    # --- transfers

    def _transfers(self) -> None:
        """All results, resident inputs and single streams in one group; inputs that alternate in one for each block."""
        plan, buffers = self.plan, self.buffers
        whole: list[Step] = []
        for column, (inputs, outputs) in enumerate(self.streams):
            share = AccessPattern.linear(plan.tile * plan.cores * plan.rounds[column], plan.first(column))
            results = zip(outputs, buffers[len(plan.inputs) :], strict=True)
            whole += [Step(stream.host, buffer, share) for stream, buffer in results]
            carrier = inputs[plan.carrier].host
            whole += [Step(carrier, buffers[slot], self._resident_pattern(slot, column)) for slot in plan.resident]
            channels = zip(inputs, plan.channels, strict=True)
            whole += [Step(stream.host, buffers[slots[0]], share) for stream, slots in channels if len(slots) == 1]
        group = self.builder.group()
        issue(self.builder, whole, group)
        most = max(map(len, plan.channels))
        blocks = range(max(plan.rounds) // plan.block if most > 1 else 0)
        pipeline(self.builder, map(self._block, blocks), QUEUE_DEPTH // most)
        self.builder.finish(group)

    def _block(self, block: int) -> Iterator[Step]:
        """The fills of one block of the inputs that alternate, of which the last on a channel is waited for."""
        plan, elements = self.plan, self.plan.block * self.plan.tile
        for column, (inputs, _) in enumerate(self.streams):
            if block * plan.block < plan.rounds[column]:
                share = AccessPattern.linear(elements, plan.first(column) + block * elements)
                for stream, slots in zip(inputs, plan.channels, strict=True):
                    for slot in slots if len(slots) > 1 else ():
                        yield Step(stream.host, self.buffers[slot], share, slot == slots[-1])

    def _resident_pattern(self, slot: int, column: int) -> AccessPattern:
        """What brings a resident input to every core of a column: the same object for each."""
        plan, elements = self.plan, self.plan.resident_elements(slot)
        offset = plan.first(column) // plan.width if slot in plan.columns else 0
        if plan.cores == 1:
            return AccessPattern.linear(elements, offset)
        run = math.gcd(elements, RUN_BYTES // plan.inputs[slot].itemsize)
        return AccessPattern(offset, (plan.cores, 1, elements // run, run), (0, 0, run, 1))
