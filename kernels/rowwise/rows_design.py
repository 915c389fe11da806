"""The dataflow design for rows that fit into a core's memory: functions, workers and transfers."""

from __future__ import annotations

from typing import Any

from npu_tensor.dataflow.array import Arch, Tile
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, KernelFunction, ObjectFifo, ObjectType, range_
from npu_tensor.kernels.rowwise.columns import STACK, Port, Step, connect, host_buffers, keep, schedule, tiles
from npu_tensor.kernels.rowwise.rows import RowsPlan, pieces
from npu_tensor.kernels.rowwise.source import rows_source

__all__ = ["rows_design"]


def rows_design(plan: RowsPlan, arch: Arch) -> Design:
    """The design of a plan; its host buffers are the plan's operands."""
    row = plan.row
    builder = Builder("rowwise", arch, plan.columns)
    buffers = host_buffers(builder, plan.operands())
    ports = [Port(f"in{slot}", plan.object_type(row.inputs[slot], False), False, plan.depth) for slot in row.streams]
    ports += [Port(f"out{n}", plan.object_type(output, True), True, plan.depth) for n, output in enumerate(row.outputs)]
    fifos = connect(builder, plan.columns, plan.cores, ports)
    functions = _functions(builder, plan, arch)
    for tile in tiles(plan.columns, plan.cores):
        _worker(builder, plan, tile, [fifos.core[port.name, tile] for port in ports], functions)

    columns = range(plan.columns)
    brought = []
    for slot in row.kept:
        elements = plan.kept_type(slot).elements // plan.brought(slot)
        for number in range(plan.brought(slot)):
            pattern = AccessPattern(number * elements, (plan.cores, 1, 1, elements), (0, 0, 0, 1))
            brought += [Step(fifos.host[f"in{plan.carrier}", c], buffers[False, slot], pattern) for c in columns]
    keep(builder, brought)
    steps = []
    for column in columns:
        first = column * plan.share
        for slot in row.streams:
            elements = plan.row_elements(row.inputs[slot], output=False)
            for start, count, times in pieces(first, plan.share, plan.host_rows[slot]):
                pattern = AccessPattern(start * elements, (times, 1, 1, count * elements), (0, 0, 0, 1))
                steps.append(Step(fifos.host[f"in{slot}", column], buffers[False, slot], pattern))
        for number, operand in enumerate(row.outputs):
            elements = plan.row_elements(operand, output=True)
            pattern = AccessPattern.linear(plan.share * elements, first * elements)
            steps.append(Step(fifos.host[f"out{number}", column], buffers[True, number], pattern))
    schedule(builder, [steps])
    return builder.build()


def _functions(builder: Builder, plan: RowsPlan, arch: Arch) -> dict[str, KernelFunction]:
    row = plan.row
    source = rows_source(row, plan.length % row.lanes == 0, plan.carrier, plan.values)
    carrier = plan.object_type(row.inputs[plan.carrier], output=False)
    made = {}
    for slot in row.kept:
        arguments: list[ObjectType | str] = [carrier, plan.kept_type(slot), "int32", "int32"]
        made[f"keep{slot}"] = builder.function(f"nt_keep{slot}", arguments, source, carrier.nbytes // 32, 256)
    pointers: list[ObjectType | str] = [
        plan.kept_type(slot) if operand.access == "same" else plan.object_type(operand, output=False)
        for slot, operand in enumerate(row.inputs)
        if operand.access != "number"
    ]
    pointers += [plan.object_type(operand, output=True) for operand in row.outputs]
    pointers += [plan.value_type] * len(plan.values)
    pointers += [ObjectType("int32", (len(row.numbers),))] if row.numbers else []
    made["rows"] = builder.function(
        "nt_rows", [*pointers, *["int32"] * 4], source, plan.together * plan.cycles(arch), plan.program_bytes
    )
    return made


def _worker(
    builder: Builder, plan: RowsPlan, tile: Tile, fifos: list[ObjectFifo], functions: dict[str, KernelFunction]
) -> None:
    row = plan.row
    name = f"{tile.column}_{tile.row}"
    kept = {slot: builder.core_buffer(f"kept{slot}_{name}", tile, plan.kept_type(slot)) for slot in row.kept}
    values = [builder.core_buffer(f"value{n}_{name}", tile, plan.value_type) for n in plan.values]
    words = [builder.parameter(f"parameters_{name}", tile, len(row.numbers))] if row.numbers else []

    def body(*ends: Any) -> None:
        streams = dict(zip(row.streams, ends, strict=False))
        for slot, buffer in kept.items():
            nbytes = buffer.type.nbytes // plan.brought(slot)
            for number in range(plan.brought(slot)):
                functions[f"keep{slot}"](streams[plan.carrier].acquire(1), buffer, nbytes, number * nbytes)
                streams[plan.carrier].release(1)
        for _ in range_(plan.rounds):
            held = {**kept, **{slot: end.acquire(1) for slot, end in streams.items()}}
            results = [end.acquire(1) for end in ends[len(streams) :]]
            pointers = [held[slot] for slot in sorted(held)]
            buffers = [*pointers, *results, *values, *words]
            functions["rows"](*buffers, plan.together, plan.length, plan.pitch, plan.slot)
            for end in ends:
                end.release(1)

    builder.worker(tile, body, fifos, STACK)
