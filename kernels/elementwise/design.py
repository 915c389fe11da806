"""Dataflow design of an element-wise plan.

Each array column has its own share of the elements. With several cores in a column, the memtile splits every input
object into one tile for each core and joins their result tiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

from npu_tensor.dataflow.array import STREAM_BYTES_PER_CYCLE, Arch, Tile
from npu_tensor.dataflow.checks.limits import QUEUE_DEPTH
from npu_tensor.dataflow.columns import ColumnStream, Step, core_tiles, gather, issue, multicast, pipeline, scatter
from npu_tensor.dataflow.cost import CALL_CYCLES, LOCK_CYCLES
from npu_tensor.dataflow.design import (
    AccessPattern,
    Builder,
    Configuration,
    Design,
    KernelFunction,
    ObjectFifo,
    ObjectType,
    SequenceBuilder,
    Source,
    range_,
)
from npu_tensor.dtypes import as_dtype
from npu_tensor.kernels.codegen import cycles as tables
from npu_tensor.kernels.codegen import emitter
from npu_tensor.kernels.elementwise.source import LONG, Formula, chosen, counts, keep_text, map_text
from npu_tensor.kernels.elementwise.tiling import RUN, ElementwiseForm, ElementwisePlan

RUN_BYTES: Final = 1024
"""Bytes of the innermost run of a repeated transfer: a power of two below the limit of 1023 words."""

STATE: Final = ObjectType("int32", (16,))
"""State of a core with resident operands; four words are used."""


PROGRAM_BYTES: Final = 12 * 1024
"""Program memory for the tile function, in bytes, out of 16 KiB. The rest is for the functions that keep operands and
for the loops around the calls.
"""

TIE: Final = 0.01


class CallCost(NamedTuple):
    """Predicted cycles of one call, estimated bytes of machine code, and vectors that a round of the loop computes."""

    cycles: int
    program_bytes: int
    unrolled: int = 1


def cost(plan: ElementwisePlan, formula: Formula, arch: Arch) -> CallCost:
    """Compute the cost of the tile function: one step per vector, and a loop per row if there are column operands."""
    program, tile, choice = formula.program, plan.form.tile, chosen(plan.form, formula)
    memory = dict(zip(program.outputs, plan.form.outputs, strict=True))
    for number, (primitive, _, _, slot) in enumerate(program.instructions):
        if primitive == "load":
            memory[number] = plan.form.inputs[formula.slots[slot]]
    step = tables.work(program, arch, formula.lanes, choice.precision, choice.numbers, choice.forms, memory)
    loops = -(-tile // plan.width) if plan.form.columns else 1
    trips = -(-tile // formula.lanes // loops)
    size = tables.program_bytes(program, choice.precision, choice.numbers, choice.forms, formula.approximate or "aie2")
    unrolled = max(1, min(step.unrolled, trips, PROGRAM_BYTES // size))
    together = step.times(unrolled)
    rounds = -(-trips // unrolled)
    if not plan.form.columns:
        return CallCost(together.loop(rounds), unrolled * size, unrolled)
    each = together.overlapped(LONG if unrolled == 1 and trips >= LONG else 1)
    row = together.straight + tables.LOOP_CYCLES + (rounds - 1) * each
    return CallCost(loops * row, (unrolled + (unrolled == 1)) * size, unrolled)


def cycles(plan: ElementwisePlan, call: CallCost) -> float:
    """Predict the cycles of the busiest column: the maximum of its computation and its widest stream.

    The smaller of both counts with a small weight to break ties.
    """
    form, rounds = plan.form, max(plan.rounds)
    ends = len(form.channels) + len(form.outputs)
    widest = max(as_dtype(dtype).itemsize for dtype in (*form.inputs, *form.outputs)) * max(map(len, form.channels))
    stream = form.cores * form.tile * widest / STREAM_BYTES_PER_CYCLE
    compute = call.cycles + CALL_CYCLES + 2 * ends * LOCK_CYCLES
    return rounds * (max(compute, stream) + TIE * (compute + stream))


def design(arch: str, plan: ElementwisePlan, formula: Formula, cost: CallCost) -> Design:
    """Build the design. Its host buffers are the plan's inputs followed by its outputs."""
    return _Sequence(plan, configuration(arch, plan.form, formula, cost._replace(cycles=0))).build(cost)


@lru_cache(maxsize=256)
def configuration(arch: str, form: ElementwiseForm, formula: Formula, call: CallCost) -> Configuration:
    """Return the configuration that serves all shapes."""
    return _ConfigurationBuilder(arch, form, formula, call).builder.configuration


class _ConfigurationBuilder:
    """Builder of a configuration.

    Attributes:
        tiles: Objects of the input channels at a core.
        results: Objects of the outputs at a core.
        resident: Core buffers of resident inputs.
    """

    def __init__(self, arch: str, form: ElementwiseForm, formula: Formula, call: CallCost) -> None:
        self.form, self.formula = form, formula
        arguments = len(form.inputs) + len(form.outputs)
        self.builder = Builder(formula.name, arch, form.array_columns, arguments)
        self.tiles = [ObjectType(form.inputs[channel[0]], (len(channel) * form.tile,)) for channel in form.channels]
        self.results = [ObjectType(dtype, (form.tile,)) for dtype in form.outputs]
        self.resident = [
            ObjectType(form.inputs[slot], (form.kept_bytes(slot) // form.itemsize(slot),)) for slot in form.resident
        ]
        self.words = [ObjectType("int32", (words,))] if (words := formula.words + len(counts(form))) else []
        self.map, self.keep = self._functions(call)
        for column in range(form.array_columns):
            self._column(core_tiles(column, form.cores))

    def _functions(self, call: CallCost) -> tuple[KernelFunction, list[KernelFunction]]:
        """Return the tile function and the functions that load resident inputs."""
        form, formula = self.form, self.formula
        texts = [map_text(form, formula, call.unrolled), *(keep_text(form, formula, slot) for slot in form.resident)]
        source = Source("elementwise", "\n".join(texts))
        state = [STATE] if form.resident else []
        arguments: list[ObjectType | str] = [*self.tiles, *self.resident, *self.results, *state, *self.words]
        function = self.builder.function("nt_map", arguments, source, 0, call.program_bytes)
        keep = []
        for slot, buffer in zip(form.resident, self.resident, strict=True):
            cycles = tables.function("keep", self.builder.arch).loop(form.object_bytes // emitter.VECTOR_BYTES)
            arguments = [self.tiles[form.carrier], buffer, STATE, *self.words]
            keep.append(self.builder.function(f"nt_keep{slot}", arguments, source, cycles, 256))
        return function, keep

    def _column(self, cores: Sequence[Tile]) -> None:
        """Add the streams and workers of a column."""
        inputs = [self._input(tile, number, cores) for number, tile in enumerate(self.tiles)]
        outputs = [gather(self.builder, f"out{number}", type, cores) for number, type in enumerate(self.results)]
        for number, core in enumerate(cores):
            self._worker(core, [stream.cores[number] for stream in (*inputs, *outputs)])

    def _input(self, tile: ObjectType, number: int, cores: Sequence[Tile]) -> ColumnStream:
        """Return the stream of an input channel.

        Operands that share it alternate in the core's objects, tile by tile.
        """
        form, parts = self.form, len(self.form.channels[number])
        if parts == 1:
            return scatter(self.builder, f"in{number}", tile, cores)
        # The host sends a block of tiles of each operand; the memtile writes them so that the operands alternate.
        run = math.gcd(form.tile, RUN)
        dims = [(parts, form.tile), (form.block, parts * form.tile), (form.tile // run, run), (run, 1)]
        block = ObjectType(tile.dtype, (form.block * tile.elements,))
        return multicast(self.builder, f"in{number}", tile, cores, block, dims)

    def _worker(self, tile: Tile, streams: Sequence[ObjectFifo]) -> None:
        """Add the core that computes every `cores`-th tile of its column's share."""
        form, builder, suffix = self.form, self.builder, f"{tile.column}_{tile.row}"
        resident = [
            builder.core_buffer(f"kept{slot}_{suffix}", tile, type)
            for slot, type in zip(form.resident, self.resident, strict=True)
        ]
        state: list[Any] = []
        if resident:
            state = [builder.core_buffer(f"state_{suffix}", tile, STATE, bytes(STATE.nbytes))]
        words = [builder.parameter(f"words_{suffix}", tile, *type.shape) for type in self.words]
        word = {name: words[0][self.formula.words + place] for place, name in enumerate(counts(form))}

        def body(*ends: Any) -> None:
            for slot, keep, buffer in zip(form.resident, self.keep, resident, strict=True):
                carrier = ends[form.carrier]

                def take(keep: KernelFunction = keep, buffer: Any = buffer, carrier: Any = carrier) -> None:
                    keep(carrier.acquire(1), buffer, *state, *words)
                    carrier.release(1)

                take()
                for _ in range_(word[f"more{slot}"]) if slot in form.rows else ():
                    take()
            for _ in range_(word["rounds"]) if form.resident else (0,):
                tiles = [end.acquire(1) for end in ends]
                inputs, outputs = tiles[: len(form.channels)], tiles[len(form.channels) :]
                self.map(*inputs, *resident, *outputs, *state, *words)
                for end in ends:
                    end.release(1)

        builder.worker(tile, body, streams)


class _Sequence:
    """Transfers of one plan."""

    def __init__(self, plan: ElementwisePlan, configuration: Configuration) -> None:
        self.plan, self.form, self.configuration = plan, plan.form, configuration
        self.builder = SequenceBuilder(configuration)
        names = [f"in{n}" for n in range(len(plan.inputs))] + [f"out{n}" for n in range(len(plan.outputs))]
        self.buffers = [
            self.builder.host_buffer(name, operand.dtype, math.prod(operand.padded))
            for name, operand in zip(names, plan.host_operands(), strict=True)
        ]

    def build(self, cost: CallCost) -> Design:
        """Build the design.

        Results, resident inputs and single streams form one group; alternating inputs form one group per block.
        """
        plan, form = self.plan, self.form
        if form.resident:
            for parameter in self.configuration.parameters:
                self.builder.write(parameter, self._counts(parameter.tile))
        columns = range(form.array_columns)
        resident = list(zip(*map(self._resident, columns), strict=True))
        # The queue of a channel is short, and the stream that follows needs one of its entries.
        early = max(0, len(resident) - QUEUE_DEPTH + 1)
        waited = [[step._replace(wait=True) for step in steps] for steps in resident[:early]]
        rounds = (chain.from_iterable(waited[start : start + QUEUE_DEPTH]) for start in range(0, early, QUEUE_DEPTH))
        pipeline(self.builder, rounds, 1)
        group = self.builder.group()
        issue(self.builder, chain.from_iterable(map(self._results, columns)), group)
        issue(self.builder, chain.from_iterable(resident[early:]), group)
        issue(self.builder, chain.from_iterable(map(self._streams, columns)), group)
        most = max(map(len, form.channels))
        blocks = range(max(plan.rounds) // form.block if most > 1 else 0)
        held = len(resident[early:]) + sum(len(slots) == 1 for slots in form.channels) + len(plan.outputs)
        pipeline(self.builder, map(self._block, blocks), QUEUE_DEPTH // most, held)
        self.builder.finish(group)
        return self.builder.build({"nt_map": cost.cycles})

    def _counts(self, tile: Tile) -> list[int]:
        """Return the runtime parameter words of a core, see `counts`."""
        plan, tile_elements, cores = self.plan, self.form.tile, self.form.cores
        first = plan.first(tile.column) + (tile.row - 2) * tile_elements
        values = {"rounds": plan.rounds[tile.column]}
        if self.form.rows:
            values |= {"period": plan.period, "start": first % plan.period}
            values["step"] = cores * tile_elements % plan.period
            values |= {f"more{slot}": plan.objects(slot) - 1 for slot in self.form.rows}
        if self.form.columns:
            width, others = plan.width, (cores - 1) * tile_elements
            values |= {"width": width, "value": first // width - plan.first_value(tile.column)}
            values |= {"left": width - first % width, "skip_values": others // width, "skip_left": others % width}
        return [values[name] for name in counts(self.form)]

    def _share(self, column: int) -> AccessPattern:
        """Return the access pattern for the elements of an array column."""
        elements = self.form.tile * self.form.cores * self.plan.rounds[column]
        return AccessPattern.linear(elements, self.plan.first(column))

    def _results(self, column: int) -> Iterator[Step]:
        for number, buffer in enumerate(self.buffers[len(self.plan.inputs) :]):
            yield Step(self._fifo(f"out{number}", column), buffer, self._share(column))

    def _streams(self, column: int) -> Iterator[Step]:
        """Yield the transfers of inputs that have a channel of their own."""
        for number, slots in enumerate(self.form.channels):
            if len(slots) == 1:
                yield Step(self._fifo(f"in{number}", column), self.buffers[slots[0]], self._share(column))

    def _fifo(self, name: str, column: int) -> ObjectFifo:
        return self.configuration.fifo(f"{name}_{column}")

    def _block(self, block: int) -> Iterator[Step]:
        """Yield the fills of one block of alternating inputs. The last one on each channel is waited for."""
        plan, form = self.plan, self.form
        elements = form.block * form.tile
        for column in range(form.array_columns):
            if block * form.block < plan.rounds[column]:
                share = AccessPattern.linear(elements, plan.first(column) + block * elements)
                for number, slots in enumerate(form.channels):
                    for slot in slots if len(slots) > 1 else ():
                        yield Step(self._fifo(f"in{number}", column), self.buffers[slot], share, slot == slots[-1])

    def _resident(self, column: int) -> Iterator[Step]:
        """Yield the transfers of resident inputs, the same objects for every core of a column."""
        plan, form = self.plan, self.form
        for slot in form.resident:
            fifo, buffer = self._fifo(f"in{form.carrier}", column), self.buffers[slot]
            first = plan.first_value(column) if slot in form.columns else 0
            objects, elements = plan.objects(slot), form.object_elements(slot)
            if form.cores == 1:
                yield Step(fifo, buffer, AccessPattern.linear(objects * elements, first))
                continue
            run = math.gcd(elements, RUN_BYTES // form.itemsize(slot))
            for offset in range(first, first + objects * elements, elements):
                pattern = AccessPattern(offset, (form.cores, 1, elements // run, run), (0, 0, run, 1))
                yield Step(fifo, buffer, pattern)
