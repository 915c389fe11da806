"""Dataflow designs of row-wise plans: functions, workers and transfers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from npu_tensor.dataflow.array import Arch, Tile
from npu_tensor.dataflow.checks.limits import QUEUE_DEPTH, SHIM_DESCRIPTORS
from npu_tensor.dataflow.columns import ColumnStream, Step, core_tiles, gather, pipeline, scatter
from npu_tensor.dataflow.design import (
    AccessPattern,
    Builder,
    Configuration,
    CoreBuffer,
    Design,
    HostBuffer,
    KernelFunction,
    ObjectType,
    RuntimeParameter,
    SequenceBuilder,
    Source,
    Word,
    range_,
)
from npu_tensor.kernels.codegen.cycles import function
from npu_tensor.kernels.rowwise.cost import row_bytes, walk_bytes, walk_cost
from npu_tensor.kernels.rowwise.program import RowWalk
from npu_tensor.kernels.rowwise.source import chunks_source, partial_bytes, pass_inputs, rows_source, state_bytes
from npu_tensor.kernels.rowwise.tiling import ChunkedRows, WholeRows, pieces


def design(plan: WholeRows | ChunkedRows, arch: Arch) -> Design:
    """Build the design of a plan. Its host buffers are the plan's operands."""
    configuration = _configuration(plan.form, arch)
    if isinstance(plan, ChunkedRows):
        return _ChunkedSequence(plan, configuration).builder.build()
    return _WholeSequence(plan, configuration).builder.build({"nt_rows": plan.batch * plan.cycles(arch)})


@lru_cache(maxsize=256)
def _configuration(form: WholeRows | ChunkedRows, arch: Arch) -> Configuration:
    """Return the configuration that serves all plans of a form."""
    if isinstance(form, ChunkedRows):
        return _ChunkedConfiguration(form, arch).builder.configuration
    return _WholeConfiguration(form, arch).builder.configuration


class _RowwiseConfiguration:
    """Common part of the configurations: streams and resident inputs.

    The plan's counts are words of runtime parameters that the sequence writes, after those of a run.

    Attributes:
        streams: For every column, the streams of the inputs by slot, and those of the outputs.
    """

    def __init__(self, plan: WholeRows | ChunkedRows, arch: Arch, source: Source, depth: int) -> None:
        self.plan = plan
        row = self.row = plan.row
        self.builder = Builder(plan.task.name, arch, plan.columns, plan.arguments)
        types = {slot: plan.object_type(row.inputs[slot], output=False) for slot in row.streams}
        self.results = [plan.object_type(output, output=True) for output in row.outputs]
        self.streams: list[tuple[dict[int, ColumnStream], list[ColumnStream]]] = []
        for column in range(plan.columns):
            cores = core_tiles(column, plan.cores)
            inputs = {slot: scatter(self.builder, f"in{slot}", type, cores, depth) for slot, type in types.items()}
            outputs = [gather(self.builder, f"out{n}", type, cores, depth) for n, type in enumerate(self.results)]
            self.streams.append((inputs, outputs))
        words = len(row.numbers) + len(plan.counts)
        # mlir-aie adds a word per fifo, and the order of two buffers of equal size is unknown.
        spare = words == len(types) + len(self.results)
        self.words = [ObjectType("int32", (words + spare,))] if words else []
        self.pointers_to_words = self.words if row.numbers else []
        self.source = source
        carrier = plan.carrier_type
        copying = function("keep", arch).loop(carrier.nbytes // 64)
        self.keep = {
            slot: self.function(f"keep{slot}", [carrier, plan.resident_type(slot)], 2, copying, 256)
            for slot in row.kept
        }

    def function(
        self, name: str, pointers: Sequence[ObjectType], numbers: int, cycles: int, program_bytes: int
    ) -> KernelFunction:
        """Declare nt_<name>, whose last arguments are `numbers` integers."""
        arguments: list[ObjectType | str] = [*pointers, *["int32"] * numbers]
        return self.builder.function(f"nt_{name}", arguments, self.source, cycles, program_bytes)

    def core_memory(self, tile: Tile) -> tuple[dict[int, CoreBuffer], list[RuntimeParameter], dict[str, Word]]:
        """Return the resident inputs of a core, its words if functions read them, and the counts."""
        name = f"{tile.column}_{tile.row}"
        types = {slot: self.plan.resident_type(slot) for slot in self.keep}
        resident = {slot: self.builder.core_buffer(f"kept{slot}_{name}", tile, type) for slot, type in types.items()}
        words = [self.builder.parameter(f"parameters_{name}", tile, *type.shape) for type in self.words]
        counts = {name: words[0][len(self.row.numbers) + place] for place, name in enumerate(self.plan.counts)}
        return resident, words if self.row.numbers else [], counts

    @abstractmethod
    def body(self, tile: Tile) -> Callable[..., None]:
        """Return the body of a core's worker; its arguments are the ends of all streams."""

    def workers(self) -> None:
        """Add the workers of all cores."""
        for column, (inputs, outputs) in enumerate(self.streams):
            for number, tile in enumerate(core_tiles(column, self.plan.cores)):
                ends = [stream.cores[number] for stream in (*inputs.values(), *outputs)]
                self.builder.worker(tile, self.body(tile), ends)

    def load(self, carrier: Any, resident: dict[int, CoreBuffer]) -> None:
        """Load the resident inputs, in a worker's body, from the stream that brings them first."""
        for slot, buffer in resident.items():
            objects = self.plan.resident_objects(slot)
            nbytes = buffer.type.nbytes // objects
            for number in range(objects):
                self.keep[slot](carrier.acquire(1), buffer, nbytes, number * nbytes)
                carrier.release(1)


class _RowwiseSequence:
    """Common part of the sequences: host buffers, transfers and resident inputs."""

    def __init__(self, plan: WholeRows | ChunkedRows, configuration: Configuration) -> None:
        self.plan = plan
        self.row = plan.row
        self.carrier = plan.carrier
        self.columns = range(plan.columns)
        self.configuration = configuration
        self.builder = SequenceBuilder(configuration)
        self.inputs: dict[int | None, HostBuffer] = {}
        self.outputs: dict[int | None, HostBuffer] = {}
        for operand in plan.operands():
            name = "scratch" if operand.number is None else f"{'output' if operand.output else 'input'}{operand.number}"
            buffer = self.builder.host_buffer(name, operand.dtype, math.prod(operand.padded))
            (self.outputs if operand.output else self.inputs)[operand.number] = buffer

    def write(self, counts: Callable[[Tile], Mapping[str, int]]) -> None:
        """Write the counts to the cores."""
        names, numbers = self.plan.counts, len(self.row.numbers)
        for parameter in self.configuration.parameters:
            values = counts(parameter.tile)
            words = [values[name] for name in names]
            self.builder.write(parameter, words + [0] * (parameter.words - numbers - len(words)))

    def fill(self, slot: int, column: int, pattern: AccessPattern, buffer: HostBuffer | None = None) -> Step:
        """Return a fill of an input's stream from its own host buffer or another one."""
        return Step(self.configuration.fifo(f"in{slot}_{column}"), buffer or self.inputs[slot], pattern)

    def drain(self, output: int, column: int, pattern: AccessPattern, buffer: HostBuffer | None = None) -> Step:
        """Return a drain of an output's stream into its own host buffer or another one."""
        return Step(self.configuration.fifo(f"out{output}_{column}"), buffer or self.outputs[output], pattern)

    def send_resident(self, patterns: Iterable[tuple[int, AccessPattern]]) -> None:
        """Send resident inputs to all columns, as many at a time as the queues of the shim channels hold."""
        rounds: list[list[Step]] = []
        for number, (slot, pattern) in enumerate(patterns):
            if number % QUEUE_DEPTH == 0:
                rounds.append([])
            for column in self.columns:
                step = self.fill(self.carrier, column, pattern, self.inputs[slot])
                rounds[-1].append(step._replace(wait=True))
        pipeline(self.builder, rounds, 1)

    def schedule(self, rounds: Iterable[Iterable[Step]]) -> None:
        """Schedule rounds of transfers, each with its fills first.

        The queues of the shim channels and their buffer descriptors limit the transfers in flight. Half of these start
        while the others end.
        """
        ordered = [_fills_first(steps) for steps in rounds]
        descriptors = SHIM_DESCRIPTORS[self.builder.configuration.arch]
        size = QUEUE_DEPTH
        for steps in ordered:
            in_queue = max(Counter(step.fifo.name for step in steps).values())
            on_tile = max(Counter(step.fifo.producer.column for step in steps).values())
            size = min(size, QUEUE_DEPTH // in_queue, descriptors // on_tile)
        half = max(1, size // 2)
        groups = (ordered[start : start + half] for start in range(0, len(ordered), half))
        pipeline(self.builder, map(chain.from_iterable, groups), 2 if size > 1 else 1)


class _WholeConfiguration(_RowwiseConfiguration):
    """Configuration for rows that fit into a core's memory."""

    plan: WholeRows

    def __init__(self, plan: WholeRows, arch: Arch) -> None:
        row = plan.row
        source = rows_source(row, plan.ends_full, plan.loops, plan.carrier, plan.values)
        super().__init__(plan, arch, source, plan.depth)
        pointers = [plan.input_type(slot) for slot, operand in enumerate(row.inputs) if operand.access != "number"]
        pointers += [*self.results, *[plan.value_type] * len(plan.values), *self.pointers_to_words]
        self.rows = self.function("rows", pointers, 4, 0, plan.program_bytes)
        self.workers()

    def body(self, tile: Tile) -> Callable[..., None]:
        plan, (resident, words, counts) = self.plan, self.core_memory(tile)
        name = f"{tile.column}_{tile.row}"
        values = [self.builder.core_buffer(f"value{n}_{name}", tile, plan.value_type) for n in plan.values]

        def body(*ends: Any) -> None:
            streams = dict(zip(self.row.streams, ends, strict=False))
            self.load(streams[plan.carrier], resident)
            for _ in range_(counts["rounds"]) if resident else (0,):
                inputs = {**resident, **{slot: end.acquire(1) for slot, end in streams.items()}}
                results = [end.acquire(1) for end in ends[len(streams) :]]
                pointers = [*(inputs[slot] for slot in sorted(inputs)), *results, *values, *words]
                self.rows(*pointers, plan.batch, counts["length"], plan.pitch, plan.result_bytes)
                for end in ends:
                    end.release(1)

        return body


class _WholeSequence(_RowwiseSequence):
    """Transfers of rows that fit into a core's memory."""

    plan: WholeRows

    def __init__(self, plan: WholeRows, configuration: Configuration) -> None:
        super().__init__(plan, configuration)
        counts = {"length": plan.task.length, "rounds": plan.rounds}
        self.write(lambda _: counts)
        patterns = []
        for slot in self.row.kept:
            elements = plan.resident_type(slot).elements // plan.resident_objects(slot)
            for number in range(plan.resident_objects(slot)):
                pattern = AccessPattern(number * elements, (plan.cores, 1, 1, elements), (0, 0, 0, 1))
                patterns.append((slot, pattern))
        self.send_resident(patterns)
        self.schedule([self._transfers()])

    def _transfers(self) -> list[Step]:
        plan, steps = self.plan, list[Step]()
        for column in self.columns:
            first = column * plan.share
            for slot in self.row.streams:
                elements = plan.row_elements(self.row.inputs[slot], output=False)
                for start, count, times in pieces(first, plan.share, plan.host_rows(slot)):
                    pattern = AccessPattern(start * elements, (times, 1, 1, count * elements), (0, 0, 0, 1))
                    steps.append(self.fill(slot, column, pattern))
            for number, operand in enumerate(self.row.outputs):
                elements = plan.row_elements(operand, output=True)
                pattern = AccessPattern.linear(plan.share * elements, first * elements)
                steps.append(self.drain(number, column, pattern))
        return steps


class _ChunkedConfiguration(_RowwiseConfiguration):
    """Configuration for rows that pass through the cores in chunks."""

    plan: ChunkedRows

    def __init__(self, plan: ChunkedRows, arch: Arch) -> None:
        row = plan.row
        super().__init__(plan, arch, chunks_source(row, plan.task.length == plan.pitch, plan.loop), 2)
        self.state = ObjectType("int32", (state_bytes(row) // 4,))
        self.functions = self._functions(arch)
        self.workers()

    def _functions(self, arch: Arch) -> dict[str, KernelFunction]:
        plan, row = self.plan, self.row
        per_row = [plan.input_type(slot) for slot in plan.per_row]
        state = [self.state, *self.pointers_to_words]
        functions: dict[str, KernelFunction] = {}

        def declare(name: str, pointers: list[ObjectType], numbers: int, cycles: int, program_bytes: int) -> None:
            functions[name] = self.function(name, pointers, numbers, cycles, program_bytes)

        for number, walk in enumerate(plan.walks):
            cost = walk_cost(row, walk, arch, plan.loop)
            chunks = [plan.input_type(slot) for slot in pass_inputs(row, walk)]
            chunks += [self.results[output] for output in walk.outputs]
            declare(f"walk{number}", [*chunks, *state], 4, cost.of(row.lanes, plan.chunk), walk_bytes(row, walk))
            declare(f"total{number}", [*per_row, *state], 1, cost.row, row_bytes(row) if number == 0 else 256)
            if number in plan.exchanges:
                declare(f"give{number}", [self.state, plan.result_type], 0, 50, 256)
                declare(f"merge{number}", [plan.carrier_type, self.state], 1, 20 * plan.members, 256)
        if plan.stored:
            declare("store", [*per_row, *(self.results[number] for number in plan.stored), *state], 1, 200, 1024)
        return functions

    def body(self, tile: Tile) -> Callable[..., None]:
        plan, row, functions = self.plan, self.row, self.functions
        resident, words, counts = self.core_memory(tile)
        name = f"state_{tile.column}_{tile.row}"
        state = self.builder.core_buffer(name, tile, self.state, bytes(self.state.nbytes))
        begin, length = counts.get("begin", 0), counts["length"]
        step = plan.cores * plan.chunk if plan.group else plan.chunk

        def body(*ends: Any) -> None:
            inputs = dict(zip(row.streams, ends, strict=False))
            outputs = ends[len(inputs) :]
            carrier = inputs[plan.carrier]
            self.load(carrier, resident)

            def chunk(number: int, walk: RowWalk, per_row: Mapping[int, Any]) -> None:
                slots = pass_inputs(row, walk)
                streamed = [slot for slot in slots if row.inputs[slot].access == "full"]
                operands = {**resident, **per_row, **{slot: inputs[slot].acquire(1) for slot in streamed}}
                results = [outputs[output].acquire(1) for output in walk.outputs]
                pointers = [*(operands[slot] for slot in slots), *results, state, *words]
                functions[f"walk{number}"](*pointers, begin, step, length, plan.chunk)
                for end in [*map(inputs.get, streamed), *(outputs[output] for output in walk.outputs)]:
                    end.release(1)

            for _ in range_(counts["rounds"]) if resident else (0,):
                per_row = {slot: inputs[slot].acquire(1) for slot in plan.per_row}
                for number, walk in enumerate(plan.walks):
                    chunk(number, walk, per_row)  # The counts belong to this run once one of its objects has arrived.
                    for _ in range_(counts["more"]):
                        chunk(number, walk, per_row)
                    if number in plan.exchanges:
                        functions[f"give{number}"](state, outputs[0].acquire(1))
                        outputs[0].release(1)
                        states, _ = plan.exchange_objects[plan.exchanges.index(number)]
                        for merged in range(0, plan.members, states):
                            functions[f"merge{number}"](carrier.acquire(1), state, min(states, plan.members - merged))
                            carrier.release(1)
                    functions[f"total{number}"](*per_row.values(), state, *words, length)
                if plan.stored:
                    results = [outputs[output].acquire(1) for output in plan.stored]
                    functions["store"](*per_row.values(), *results, state, *words, length)
                    for output in plan.stored:
                        outputs[output].release(1)
                for slot in per_row:
                    inputs[slot].release(1)

        return body


class _ChunkedSequence(_RowwiseSequence):
    """Transfers of rows that pass through the cores in chunks."""

    plan: ChunkedRows

    def __init__(self, plan: ChunkedRows, configuration: Configuration) -> None:
        super().__init__(plan, configuration)
        counts = {"length": plan.task.length, "more": plan.chunks - 1, "rounds": plan.rounds}

        def begin(tile: Tile) -> int:
            return tile.column % max(1, plan.group) * plan.share + (tile.row - 2) * plan.chunk

        self.write(lambda tile: {**counts, "begin": begin(tile)})
        patterns = []
        for slot in self.row.kept:  # The host buffer holds one copy for each core of a column.
            objects, elements = plan.resident_objects(slot), plan.resident_type(slot).elements
            part = elements // objects
            patterns.append((slot, AccessPattern(0, (1, objects, plan.cores, part), (0, part, elements, 1))))
        self.send_resident(patterns)
        if not plan.group:
            self.schedule([self._round(number) for number in range(plan.rounds)])
        else:
            pipeline(self.builder, (steps for number in range(plan.rounds) for steps in self._shared_round(number)), 1)

    def _round(self, number: int) -> list[Step]:
        """Return all transfers of a round in which every core has a row of its own."""
        plan, steps = self.plan, list[Step]()
        for column in self.columns:
            first = (number * plan.columns + column) * plan.cores
            for slot in self.row.streams:
                if slot not in plan.per_row:
                    times = sum(slot in pass_inputs(self.row, walk) for walk in plan.walks)
                    steps.append(self.fill(slot, column, self._chunks(first % plan.host_rows(slot), times)))
            for output, operand in enumerate(self.row.outputs):
                if operand.access == "full":
                    steps.append(self.drain(output, column, self._chunks(first, 1)))
        return steps + self._numbers(number) + self._results(number)

    def _chunks(self, first: int, times: int) -> AccessPattern:
        """Return the pattern of a column's rows from row `first` on, chunk by chunk in turn, repeated `times` times."""
        plan = self.plan
        if plan.cores == 1:
            return AccessPattern(first * plan.pitch, (times, 1, 1, plan.pitch), (0, 0, 0, 1))
        sizes = (times, plan.chunks, plan.cores, plan.chunk)
        return AccessPattern(first * plan.pitch, sizes, (0, plan.chunk, plan.pitch, 1))

    def _shared_round(self, number: int) -> Iterable[list[Step]]:
        """Yield one row for each group of columns, pass by pass. Partial results pass through the host in between."""
        plan, share, pitch = self.plan, self.plan.share, self.plan.pitch
        first = number * plan.batch
        places = [(column, first + column // plan.group, column % plan.group * share) for column in self.columns]
        steps, exchanges = self._numbers(number), plan.exchanges
        for index, walk in enumerate(plan.walks):
            chunks: list[Step] = []
            for slot in pass_inputs(self.row, walk):
                if self.row.inputs[slot].access == "full":
                    rows = plan.host_rows(slot)
                    for column, row, start in places:
                        pattern = AccessPattern.linear(share, row % rows * pitch + start)
                        chunks.append(self.fill(slot, column, pattern))
            for output in walk.outputs:
                for column, row, start in places:
                    chunks.append(self.drain(output, column, AccessPattern.linear(share, row * pitch + start)))
            steps = [*chunks, *steps] if index == 0 else [*steps, *chunks]
            if index in exchanges:
                yield _fills_first(steps + self._give(index))
                steps = self._take(index)
        yield _fills_first(steps + self._results(number))

    def _numbers(self, number: int) -> list[Step]:
        """Return the fills of inputs with one element per row, for one round."""
        plan, steps = self.plan, list[Step]()
        for slot in plan.per_row:
            elements = self.row.inputs[slot].vector
            for column in self.columns:
                if plan.group:
                    row = number * plan.batch + column // plan.group
                    pattern = AccessPattern(row * elements, (plan.cores, 1, 1, elements), (0, 0, 0, 1))
                else:
                    share = plan.cores * elements
                    pattern = AccessPattern.linear(share, (number * plan.columns + column) * share)
                steps.append(self.fill(slot, column, pattern))
        return steps

    def _results(self, number: int) -> list[Step]:
        """Return the drains of outputs with one element per row, for one round. Every core of a group has them."""
        plan, steps = self.plan, list[Step]()
        for output in plan.stored:
            elements = plan.cores * plan.object_type(self.row.outputs[output], output=True).elements
            for column in self.columns:
                offset = (number * plan.columns + column) * elements
                steps.append(self.drain(output, column, AccessPattern.linear(elements, offset)))
        return steps

    def _give(self, index: int) -> list[Step]:
        """Return the drains of a pass's partial results to the scratch buffer."""
        plan = self.plan
        elements = plan.cores * plan.result_type.elements
        first = plan.exchanges.index(index) * plan.columns
        return [
            self.drain(0, column, AccessPattern.linear(elements, (first + column) * elements), self.inputs[None])
            for column in self.columns
        ]

    def _take(self, index: int) -> list[Step]:
        """Return the fills that bring the partial results of all cores of a group to each of them."""
        plan, step, scratch = self.plan, self.plan.result_type.elements, self.inputs[None]
        exchange = plan.exchanges.index(index)
        states, objects = plan.exchange_objects[exchange]
        state = partial_bytes(self.row, plan.walks[index]) // self.row.outputs[0].itemsize
        steps = []
        for column in self.columns:
            member = (exchange * plan.columns + column // plan.group * plan.group) * plan.cores
            for number in range(objects):
                offset = (member + number * states) * step
                pattern = AccessPattern(offset, (plan.cores, 1, states, state), (0, 0, step, 1))
                steps.append(self.fill(plan.carrier, column, pattern, scratch))
        return steps


def _fills_first(steps: Iterable[Step]) -> list[Step]:
    return sorted(steps, key=lambda step: step.fifo.producer.kind != "shim")
