"""Helpers for the columns of a design: streams between the host and several cores, and windows of transfers.

A column's memtile splits each object of an input into one object for each core, and joins their results:

    x = scatter(builder, "x", tile_type, core_tiles(column, 4))
    y = gather(builder, "y", tile_type, core_tiles(column, 4))
    for core, source, result in zip(core_tiles(column, 4), x.cores, y.cores):
        builder.worker(core, body, [source, result])
    pipeline(builder, ([Step(x.host, a, part), Step(y.host, b, part)] for part in parts), in_flight=2)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from npu_tensor.dataflow.array import Array, Tile
from npu_tensor.dataflow.checks.limits import LIMITS, QUEUE_DEPTH, SHIM_DESCRIPTORS
from npu_tensor.dataflow.design import (
    AccessPattern,
    Builder,
    HostBuffer,
    ObjectFifo,
    ObjectType,
    SequenceBuilder,
)

Dims = Sequence[tuple[int, int]]


class ColumnStream(NamedTuple):
    """Stream between the host and cores of one column: the fifo at the shim, and the fifo of each core."""

    host: ObjectFifo
    cores: tuple[ObjectFifo, ...]


class Step(NamedTuple):
    """Transfer at the shim end of a fifo. wait: True if its group waits for it; None for drains only."""

    fifo: ObjectFifo
    buffer: HostBuffer
    pattern: AccessPattern
    wait: bool | None = None


def core_tiles(column: int, cores: int) -> list[Tile]:
    """Return the first `cores` core tiles of a column."""
    return [Tile(column, 2 + row) for row in range(cores)]


def cores_per_column(array: Array, inputs: int, outputs: int) -> int:
    """Return the number of cores that a memtile can serve with `inputs` and `outputs` streams each."""
    channels = LIMITS["memtile"].channels
    most, least = max(inputs, outputs), min(inputs, outputs)
    return max(cores for cores in range(1, array.core_rows + 1) if cores == 1 or cores * most + least <= channels)


def divide(columns: int, first_parts: Any, second_parts: Any) -> tuple[Any, Any]:
    """Divide columns between the two ways in which a task is cut; the numbers of parts may be arrays.

    Returns powers of two, whose product is at most `columns`, that minimize the rounds of the busiest column. Fewer
    columns win ties. Neither factor exceeds its number of parts, because a column without work waits forever.
    """
    powers = [1 << bits for bits in range(columns.bit_length())]
    pairs = np.array([(a, b) for a in powers for b in powers if a * b <= columns])
    a, b = (np.asarray(number)[..., None] for number in (first_parts, second_parts))
    rounds = -(-a // pairs[:, 0]) * -(-b // pairs[:, 1]) + np.prod(pairs, 1) / 1024
    rounds = np.where((pairs[:, 0] <= a) & (pairs[:, 1] <= b), rounds, np.inf)
    best = pairs[np.argmin(rounds, -1)]
    return best[..., 0], best[..., 1]


def scatter(builder: Builder, name: str, type: ObjectType, cores: Sequence[Tile], depth: int = 2) -> ColumnStream:
    """Add a stream from the host to `cores` with an object of `type` for each.

    It passes through the memtile unless there is only one core.
    """
    column = cores[0].column
    shim, memtile, name = Tile(column, 0), Tile(column, 1), f"{name}_{column}"
    if len(cores) == 1:
        fifo = builder.fifo(name, type, shim, cores, depth)
        return ColumnStream(fifo, (fifo,))
    parent = builder.fifo(name, _joined(type, len(cores)), shim, [memtile])
    parts = tuple(builder.fifo(f"{name}_{core.row}", type, memtile, [core], depth) for core in cores)
    builder.split(parent, parts)
    return ColumnStream(parent, parts)


def multicast(
    builder: Builder,
    name: str,
    type: ObjectType,
    cores: Sequence[Tile],
    host: ObjectType | None = None,
    dims_from_stream: Dims = (),
    dims_to_stream: Dims = (),
) -> ColumnStream:
    """Add a stream from the host through the memtile to `cores`, which all receive the same objects of `type`.

    Args:
        builder: Configuration to extend.
        name: Name of the stream.
        type: Objects at the cores.
        cores: Cores of a column.
        host: Objects at the host; by default those at the cores.
        dims_from_stream: Order in which the memtile writes an object into its memory; by default the order of arrival.
        dims_to_stream: Order in which the memtile reads an object to send it.
    """
    column = cores[0].column
    shim, memtile, name = Tile(column, 0), Tile(column, 1), f"{name}_{column}"
    orders = [dims_from_stream] if dims_from_stream else []
    parent = builder.fifo(name, host or type, shim, [memtile], dims_from_stream=orders)
    fifo = builder.fifo(f"{name}_{cores[0].row}", type, memtile, cores, dims_to_stream=dims_to_stream)
    builder.forward(parent, fifo)
    return ColumnStream(parent, (fifo,) * len(cores))


def gather(
    builder: Builder, name: str, type: ObjectType, cores: Sequence[Tile], depth: int = 2, dims_to_stream: Dims = ()
) -> ColumnStream:
    """Add a stream from `cores` to the host, the reverse of `scatter`.

    dims_to_stream: Order in which the memtile reads the joined objects to send them.
    """
    column = cores[0].column
    shim, memtile, name = Tile(column, 0), Tile(column, 1), f"{name}_{column}"
    if len(cores) == 1 and not dims_to_stream:
        fifo = builder.fifo(name, type, cores[0], [shim], depth)
        return ColumnStream(fifo, (fifo,))
    parent = builder.fifo(name, _joined(type, len(cores)), memtile, [shim], dims_to_stream=dims_to_stream)
    parts = tuple(builder.fifo(f"{name}_{core.row}", type, core, [memtile], depth) for core in cores)
    if len(parts) == 1:
        builder.forward(parts[0], parent)
    else:
        builder.join(parts, parent)
    return ColumnStream(parent, parts)


def _joined(type: ObjectType, cores: int) -> ObjectType:
    return ObjectType(type.dtype, (cores * type.elements,))


def issue(builder: SequenceBuilder, steps: Iterable[Step], group: int) -> None:
    """Add transfers to a group."""
    for step in steps:
        builder.transfer(step.fifo, step.buffer, step.pattern, group, step.wait)


def pipeline(builder: SequenceBuilder, rounds: Iterable[Iterable[Step]], in_flight: int, held: int = 0) -> None:
    """Issue one group of transfers after another.

    Args:
        builder: Sequence to extend.
        rounds: Transfers of each group.
        in_flight: Groups at a time; fewer if their transfers need more descriptors than a shim tile may use, or more
            places than the queue of a channel has.
        held: Descriptors of a shim tile that other groups use.
    """
    descriptors = SHIM_DESCRIPTORS[builder.configuration.arch] - held
    groups: list[tuple[int, Counter[Tile | str]]] = []
    for steps in map(list, rounds):
        needed: Counter[Tile | str] = Counter(_shim(step.fifo) for step in steps)
        needed.update(step.fifo.name for step in steps)
        while groups and (
            len(groups) == in_flight
            or any(
                count + sum(used[key] for _, used in groups) > (QUEUE_DEPTH if isinstance(key, str) else descriptors)
                for key, count in needed.items()
            )
        ):
            builder.finish(groups.pop(0)[0])
        groups.append((builder.group(), needed))
        issue(builder, steps, groups[-1][0])
    for group, _ in groups:
        builder.finish(group)


def _shim(fifo: ObjectFifo) -> Tile:
    return next(tile for tile in (fifo.producer, *fifo.consumers) if tile.kind == "shim")
