"""The dataflow design for rows that pass through the cores in parts: functions, workers and transfers."""

from __future__ import annotations

from typing import Any

from npu_tensor.dataflow.array import Arch, Tile
from npu_tensor.dataflow.design import (
    AccessPattern,
    Builder,
    Design,
    HostBuffer,
    KernelFunction,
    ObjectFifo,
    ObjectType,
    range_,
)
from npu_tensor.kernels.rowwise.columns import (
    STACK,
    Port,
    Ports,
    Step,
    connect,
    host_buffers,
    issue,
    keep,
    schedule,
    tiles,
)
from npu_tensor.kernels.rowwise.cost import row_bytes, walk_bytes, walk_cost
from npu_tensor.kernels.rowwise.parts import PartsPlan
from npu_tensor.kernels.rowwise.source import carrier_slot, part_inputs, parts_source, state_bytes, totals_bytes

__all__ = ["parts_design"]


def parts_design(plan: PartsPlan, arch: Arch) -> Design:
    """The design of a plan; its host buffers are the plan's operands."""
    row = plan.row
    builder = Builder("rowwise", arch, plan.columns)
    buffers = host_buffers(builder, plan.operands())
    ports = [Port(f"in{slot}", plan.object_type(row.inputs[slot], output=False), False) for slot in plan.row.streams]
    ports += [Port(f"out{n}", plan.object_type(operand, output=True), True) for n, operand in enumerate(row.outputs)]
    fifos = connect(builder, plan.columns, plan.cores, ports)
    functions = _functions(builder, plan, arch)
    for tile in tiles(plan.columns, plan.cores):
        _worker(builder, plan, tile, [fifos.core[port.name, tile] for port in ports], functions)
    host = _Host(plan, fifos, buffers)
    keep(builder, [step for slot in row.kept for step in host.kept(slot)])
    if not plan.team:
        schedule(builder, [host.rows(number) for number in range(plan.rounds)])
    else:
        for number in range(plan.rounds):
            _team_round(builder, plan, host, number)
    return builder.build()


def _team_round(builder: Builder, plan: PartsPlan, host: _Host, number: int) -> None:
    """One row for each team, walk by walk. After a walk that reduces, what the cores found goes through the host."""
    steps: list[Step] = []
    for walk in range(len(plan.walks)):
        steps += host.walk(number, walk)
        if walk in plan.exchanges:
            _run(builder, steps + host.given(walk))
            steps = host.taken(walk)
    _run(builder, steps + host.results(number))


def _run(builder: Builder, steps: list[Step]) -> None:
    group = builder.group()
    issue(builder, steps, group)
    builder.finish(group)


class _Host:
    """The transfers of a design."""

    def __init__(self, plan: PartsPlan, fifos: Ports, buffers: dict[tuple[bool, int | None], HostBuffer]) -> None:
        self.plan = plan
        self.fifos = fifos
        self.buffers = buffers

    def fill(self, slot: int, column: int, pattern: AccessPattern) -> Step:
        """Into the stream of an input."""
        return Step(self.fifos.host[f"in{slot}", column], self.buffers[False, slot], pattern)

    def drain(self, output: int, column: int, pattern: AccessPattern) -> Step:
        """Out of the stream of an output."""
        return Step(self.fifos.host[f"out{output}", column], self.buffers[True, output], pattern)

    def kept(self, slot: int) -> list[Step]:
        """An input that stays, to the cores of all columns. The host buffer has it once for each core of a column."""
        plan = self.plan
        brought, elements = plan.brought(slot), plan.kept_type(slot).elements
        part = elements // brought
        pattern = AccessPattern(0, (1, brought, plan.cores, part), (0, part, elements, 1))
        buffer = self.buffers[False, slot]
        return [Step(self.fifos.host[f"in{carrier_slot(plan.row)}", c], buffer, pattern) for c in range(plan.columns)]

    def rows(self, number: int) -> list[Step]:
        """All transfers of a round in which every core has a row of its own."""
        plan, steps = self.plan, list[Step]()
        for column in range(plan.columns):
            first = (number * plan.columns + column) * plan.cores
            for slot in plan.row.streams:
                if plan.row.inputs[slot].access == "row":
                    continue
                times = sum(slot in part_inputs(plan.row, walk) for walk in plan.walks)
                steps.append(self.fill(slot, column, self.parts(first % plan.host_rows(slot), times)))
            for output, operand in enumerate(plan.row.outputs):
                if operand.access == "full":
                    steps.append(self.drain(output, column, self.parts(first, 1)))
        return steps + self.numbers(number) + self.results(number)

    def parts(self, first: int, times: int) -> AccessPattern:
        """Rows of the cores of a column from row `first` on, part by part in turn, `times` over."""
        plan = self.plan
        if plan.cores == 1:
            return AccessPattern(first * plan.pitch, (times, 1, 1, plan.pitch), (0, 0, 0, 1))
        sizes = (times, plan.parts, plan.cores, plan.part)
        return AccessPattern(first * plan.pitch, sizes, (0, plan.part, plan.pitch, 1))

    def walk(self, number: int, walk: int) -> list[Step]:
        """The transfers of one walk of a team."""
        plan, steps = self.plan, list[Step]()
        for column in range(plan.columns):
            row = number * plan.together + column // plan.team
            start = column % plan.team * plan.share
            for slot in part_inputs(plan.row, plan.walks[walk]):
                if plan.row.inputs[slot].access == "full":
                    offset = row % plan.host_rows(slot) * plan.pitch + start
                    steps.append(self.fill(slot, column, AccessPattern.linear(plan.share, offset)))
            for output in plan.walks[walk].outputs:
                steps.append(self.drain(output, column, AccessPattern.linear(plan.share, row * plan.pitch + start)))
        return steps + (self.numbers(number) if walk == 0 else [])

    def numbers(self, number: int) -> list[Step]:
        """The inputs with one element per row, for one round."""
        plan, steps = self.plan, list[Step]()
        for slot in plan.row.streams:
            if plan.row.inputs[slot].access != "row":
                continue
            for column in range(plan.columns):
                elements = plan.row.inputs[slot].vector
                if plan.team:
                    row = number * plan.together + column // plan.team
                    pattern = AccessPattern(row * elements, (plan.cores, 1, 1, elements), (0, 0, 0, 1))
                else:
                    row = (number * plan.columns + column) * plan.cores
                    pattern = AccessPattern.linear(plan.cores * elements, row * elements)
                steps.append(self.fill(slot, column, pattern))
        return steps

    def results(self, number: int) -> list[Step]:
        """The outputs with one element per row, for one round. Every core of a team has them."""
        plan, steps = self.plan, list[Step]()
        for output, operand in enumerate(plan.row.outputs):
            if operand.access == "row":
                elements = plan.cores * plan.object_type(operand, output=True).elements
                for column in range(plan.columns):
                    offset = (number * plan.columns + column) * elements
                    steps.append(self.drain(output, column, AccessPattern.linear(elements, offset)))
        return steps

    def given(self, walk: int) -> list[Step]:
        """What the cores found in a walk, to the scratch buffer."""
        plan = self.plan
        elements = plan.cores * plan.ends[len(plan.row.streams)].elements
        first = plan.exchanges.index(walk) * plan.columns
        return [
            Step(
                self.fifos.host["out0", column],
                self.buffers[False, None],
                AccessPattern.linear(elements, (first + column) * elements),
            )
            for column in range(plan.columns)
        ]

    def taken(self, walk: int) -> list[Step]:
        """The same, of all cores of a team to each of them."""
        plan = self.plan
        exchange = plan.exchanges.index(walk)
        states, objects = plan.found[exchange]
        step = plan.ends[len(plan.row.streams)].elements
        state = totals_bytes(plan.row, plan.walks[walk]) // plan.row.outputs[0].itemsize
        steps = []
        for column in range(plan.columns):
            member = (exchange * plan.columns + column // plan.team * plan.team) * plan.cores
            for number in range(objects):
                offset = (member + number * states) * step
                pattern = AccessPattern(offset, (plan.cores, 1, states, state), (0, 0, step, 1))
                fifo = self.fifos.host[f"in{carrier_slot(plan.row)}", column]
                steps.append(Step(fifo, self.buffers[False, None], pattern))
        return steps


def _functions(builder: Builder, plan: PartsPlan, arch: Arch) -> dict[str, KernelFunction]:
    row = plan.row
    source = parts_source(row, plan.length % row.lanes == 0)
    state = ObjectType("int32", (state_bytes(row) // 4,))
    words = [ObjectType("int32", (len(row.numbers),))] if row.numbers else []
    types: dict[int, ObjectType | str] = {
        slot: plan.kept_type(slot) if operand.access == "same" else plan.object_type(operand, output=False)
        for slot, operand in enumerate(row.inputs)
        if operand.access != "number"
    }
    results: list[ObjectType | str] = [plan.object_type(operand, output=True) for operand in row.outputs]
    made: dict[str, KernelFunction] = {}

    def declare(name: str, arguments: list[ObjectType | str], cycles: int, program_bytes: int) -> None:
        made[name] = builder.function(f"nt_{name}", arguments, source, cycles, program_bytes)

    rows = [types[slot] for slot, operand in enumerate(row.inputs) if operand.access == "row"]
    for slot in plan.row.kept:
        declare(f"keep{slot}", [plan.carrier, types[slot], "int32", "int32"], plan.carrier.nbytes // 32, 256)
    for number, walk in enumerate(plan.walks):
        cycles = walk_cost(row, walk, arch).of(row.lanes, plan.part)
        taken = [types[slot] for slot in part_inputs(row, walk)] + [results[output] for output in walk.outputs]
        declare(f"walk{number}", [*taken, state, *words, *["int32"] * 4], cycles, walk_bytes(row, walk))
        cost = walk_cost(row, walk, arch)
        declare(f"total{number}", [*rows, state, *words, "int32"], cost.row, row_bytes(row) if number == 0 else 256)
        if number in plan.exchanges:
            declare(f"give{number}", [state, results[0]], 50, 256)
            declare(f"merge{number}", [plan.carrier, state, "int32"], 20 * plan.members, 256)
    stored = [results[number] for number, operand in enumerate(row.outputs) if operand.access == "row"]
    if stored:
        declare("store", [*rows, *stored, state, *words, "int32"], 200, 1024)
    return made


def _worker(
    builder: Builder, plan: PartsPlan, tile: Tile, fifos: list[ObjectFifo], functions: dict[str, KernelFunction]
) -> None:
    row = plan.row
    name = f"{tile.column}_{tile.row}"
    kept = {slot: builder.core_buffer(f"kept{slot}_{name}", tile, plan.kept_type(slot)) for slot in plan.row.kept}
    nbytes = state_bytes(row)
    state = builder.core_buffer(f"state_{name}", tile, ObjectType("int32", (nbytes // 4,)), bytes(nbytes))
    words = [builder.parameter(f"parameters_{name}", tile, len(row.numbers))] if row.numbers else []
    begin, step = 0, plan.part
    if plan.team:
        begin = tile.column % plan.team * plan.share + (tile.row - 2) * plan.part
        step = plan.cores * plan.part

    def body(*ends: Any) -> None:
        inputs = dict(zip(plan.row.streams, ends, strict=False))
        outputs = ends[len(inputs) :]
        carrier = inputs[carrier_slot(row)]
        for slot, buffer in kept.items():
            for number in range(plan.brought(slot)):
                nbytes = plan.carrier.nbytes
                functions[f"keep{slot}"](carrier.acquire(1), buffer, nbytes, number * nbytes)
                carrier.release(1)
        for _ in range_(plan.rounds):
            numbers = {slot: end.acquire(1) for slot, end in inputs.items() if row.inputs[slot].access == "row"}
            for number, walk in enumerate(plan.walks):
                taken = [slot for slot in part_inputs(row, walk) if row.inputs[slot].access == "full"]
                for _ in range_(plan.parts):
                    held = {**kept, **numbers, **{slot: inputs[slot].acquire(1) for slot in taken}}
                    results = [outputs[output].acquire(1) for output in walk.outputs]
                    pointers = [held[slot] for slot in part_inputs(row, walk)]
                    functions[f"walk{number}"](*pointers, *results, state, *words, begin, step, plan.length, plan.part)
                    for end in [*(inputs[slot] for slot in taken), *(outputs[output] for output in walk.outputs)]:
                        end.release(1)
                if number in plan.exchanges:
                    functions[f"give{number}"](state, outputs[0].acquire(1))
                    outputs[0].release(1)
                    states, _ = plan.found[plan.exchanges.index(number)]
                    for merged in range(0, plan.members, states):
                        functions[f"merge{number}"](carrier.acquire(1), state, min(states, plan.members - merged))
                        carrier.release(1)
                functions[f"total{number}"](*numbers.values(), state, *words, plan.length)
            stored = [number for number, operand in enumerate(row.outputs) if operand.access == "row"]
            if stored:
                results = [outputs[output].acquire(1) for output in stored]
                functions["store"](*numbers.values(), *results, state, *words, plan.length)
                for output in stored:
                    outputs[output].release(1)
            for slot in numbers:
                inputs[slot].release(1)

    builder.worker(tile, body, fifos, STACK)
