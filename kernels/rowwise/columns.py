"""Fifos from the host to several cores of every column and back, and the order in which the host moves rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.checks.limits import LIMITS, PROGRAM_MEMORY, QUEUE_DEPTH
from npu_tensor.dataflow.design import AccessPattern, Builder, HostBuffer, ObjectFifo, ObjectType
from npu_tensor.kernels.offer import HostOperand

__all__ = [
    "CORE_BYTES",
    "FUNCTION_BYTES",
    "STACK",
    "Port",
    "Ports",
    "Step",
    "connect",
    "cores_per_column",
    "host_buffers",
    "issue",
    "keep",
    "schedule",
    "tiles",
]

STACK: Final = 2048
"""Bytes of a core's stack: loops over several vectors of 64 bytes spill some of them."""

CORE_BYTES: Final = LIMITS["core"].memory - STACK - 2048
"""Bytes of a core's memory for buffers; the rest is for the stack, constants of the C++ and the compiler's counters."""

FUNCTION_BYTES: Final = PROGRAM_MEMORY - 4096
"""Bytes of a core's program memory for functions. What is left over is for the statements around their calls."""


class Port(NamedTuple):
    """A stream between the host and all cores. type: of one core's object."""

    name: str
    type: ObjectType
    output: bool
    depth: int = 2


class Ports(NamedTuple):
    """The fifos of a design: at the host by port and column, at the cores by port and tile."""

    host: dict[tuple[str, int], ObjectFifo]
    core: dict[tuple[str, Tile], ObjectFifo]


class Step(NamedTuple):
    """A transfer that the host makes."""

    fifo: ObjectFifo
    buffer: HostBuffer
    pattern: AccessPattern


def cores_per_column(inputs: int, outputs: int) -> int:
    """How many cores of a column the channels of its memtile can serve."""
    channels = LIMITS["memtile"].channels
    return max(
        cores for cores in (1, 2, 3, 4) if inputs + cores * outputs <= channels and cores * inputs + outputs <= channels
    )


def connect(builder: Builder, columns: int, cores: int, ports: Sequence[Port]) -> Ports:
    """Declare the fifos of `ports` for the first `cores` cores of each column, split or joined by the memtile."""
    made = Ports({}, {})
    for column in range(columns):
        tiles = [Tile(column, 2 + row) for row in range(cores)]
        for port in ports:
            shim, memtile = Tile(column, 0), Tile(column, 1)
            name = f"{port.name}_{column}"
            if cores == 1:
                ends = (tiles[0], [shim]) if port.output else (shim, tiles)
                fifo = builder.fifo(name, port.type, ends[0], ends[1], port.depth)
                made.host[port.name, column] = made.core[port.name, tiles[0]] = fifo
                continue
            whole = ObjectType(port.type.dtype, (cores * port.type.elements,))
            outer = (memtile, [shim]) if port.output else (shim, [memtile])
            parent = builder.fifo(name, whole, outer[0], outer[1])
            children = []
            for tile in tiles:
                ends = (tile, [memtile]) if port.output else (memtile, [tile])
                children.append(builder.fifo(f"{name}_{tile.row}", port.type, ends[0], ends[1], port.depth))
                made.core[port.name, tile] = children[-1]
            if port.output:
                builder.join(children, parent)
            else:
                builder.split(parent, children)
            made.host[port.name, column] = parent
    return made


def tiles(columns: int, cores: int) -> list[Tile]:
    """The first `cores` core tiles of each column."""
    return [Tile(column, 2 + row) for column in range(columns) for row in range(cores)]


def host_buffers(builder: Builder, operands: Sequence[HostOperand]) -> dict[tuple[bool, int | None], HostBuffer]:
    """Declare the host buffers of a design; by whether it is an output, and its number, which scratch has not."""
    made = {}
    for operand in operands:
        name = "scratch" if operand.number is None else f"{'output' if operand.output else 'input'}{operand.number}"
        made[operand.output, operand.number] = builder.host_buffer(name, operand.dtype, math.prod(operand.padded))
    return made


def keep(builder: Builder, steps: Sequence[Step]) -> None:
    """Send what stays in the cores, as much at a time as the queues of the shim channels take."""
    waiting: list[Step] = []
    for step in steps:
        if sum(other.fifo is step.fifo for other in waiting) == QUEUE_DEPTH:
            _send(builder, waiting)
            waiting = []
        waiting.append(step)
    _send(builder, waiting)


def _send(builder: Builder, steps: Sequence[Step]) -> None:
    if steps:
        group = builder.group()
        for step in steps:
            builder.fill(step.fifo, step.buffer, step.pattern, group, wait=True)
        builder.finish(group)


def schedule(builder: Builder, rounds: Iterable[Sequence[Step]]) -> None:
    """Issue rounds of transfers, of which the drains of a round end after its fills.

    As many rounds are under way at a time as the queues of the shim channels and their buffer descriptors allow, half
    of them while the others end.
    """
    rounds = [list(steps) for steps in rounds]
    size = QUEUE_DEPTH
    for steps in rounds:
        in_queue = max(Counter(step.fifo.name for step in steps).values())
        on_tile = max(Counter(_column(step.fifo) for step in steps).values())
        size = min(size, QUEUE_DEPTH // in_queue, LIMITS["shim"].descriptors // on_tile)
    half, others = max(1, size // 2), int(size > 1)
    open_groups: list[int] = []
    for start in range(0, len(rounds), half):
        group = builder.group()
        for steps in rounds[start : start + half]:
            issue(builder, steps, group)
        open_groups.append(group)
        if len(open_groups) > others:
            builder.finish(open_groups.pop(0))
    for group in open_groups:
        builder.finish(group)


def issue(builder: Builder, steps: Iterable[Step], group: int) -> None:
    """Add transfers to a group, fills first."""
    for step in steps:
        if step.fifo.producer.kind == "shim":
            builder.fill(step.fifo, step.buffer, step.pattern, group)
    for step in steps:
        if step.fifo.producer.kind != "shim":
            builder.drain(step.fifo, step.buffer, step.pattern, group)


def _column(fifo: ObjectFifo) -> int:
    return fifo.producer.column  # Fifos to and from the host stay in their column.
