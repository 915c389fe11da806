"""Rules for the host's sequence: task groups, queues and buffer descriptors of the shims, waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.checks.index import Index, Violation
from npu_tensor.dataflow.checks.limits import QUEUE_DEPTH, SHIM_DESCRIPTORS
from npu_tensor.dataflow.design import Finish, ObjectFifo, Transfer


class _Started(NamedTuple):
    """Transfer and its position in the sequence."""

    order: int
    transfer: Transfer


def groups(index: Index) -> Iterator[Violation]:
    """Check that every group is finished after its last transfer."""
    last = {step.group: step for step in index.design.sequence}
    for group, step in last.items():
        if isinstance(step, Transfer):
            message = (
                f"group {group} is not finished after its transfer of fifo {step.fifo}; "
                "its buffer descriptors stay taken and nothing waits for it."
            )
            yield Violation("group", f"group {group}", message)


def waits(index: Index) -> Iterator[Violation]:
    """Check that the last drain of each fifo is waited for, else the run returns before its data have arrived."""
    last: dict[str, Transfer] = {}
    for transfer in index.transfers:
        if index.fifos[transfer.fifo].producer.kind != "shim":
            last[transfer.fifo] = transfer
    if not last:
        yield Violation("wait", index.design.name, f"{index.design.name} has no drain; a run would return at once.")
    for name, transfer in last.items():
        if not transfer.wait:
            message = (
                f"the last drain of fifo {name} into {transfer.buffer} is not waited for; the run would return before "
                "it ends."
            )
            yield Violation("wait", name, message)


def descriptors(index: Index) -> Iterator[Violation]:
    """Check the buffer descriptors of a shim tile. Each transfer uses one until its group is finished."""
    limit = SHIM_DESCRIPTORS.get(index.design.arch, 0)
    in_use: dict[Tile, list[int]] = defaultdict(list)
    most: dict[Tile, int] = {}
    for step in index.design.sequence:
        if isinstance(step, Finish):
            for tile, groups in in_use.items():
                in_use[tile] = [group for group in groups if group != step.group]
        else:
            tile = index.design.shim_ends[step.fifo].tile
            in_use[tile].append(step.group)
            most[tile] = max(most.get(tile, 0), len(in_use[tile]))
    for tile, count in most.items():
        if count > limit:
            message = f"{tile} has {count} transfers in unfinished groups, and can have {limit}; finish groups sooner."
            yield Violation("sequence descriptors", str(tile), message)


def queues(index: Index) -> Iterator[Violation]:
    """Check that a channel queues at most 4 transfers; more have to wait for the end of earlier ones."""
    most: dict[str, int] = {}
    for fifo, _, running in _running(index):
        most[fifo.name] = max(most.get(fifo.name, 0), len(running[fifo.name]))
    for name, count in most.items():
        if count > QUEUE_DEPTH:
            message = (
                f"{index.design.shim_ends[name].tile} gets {count} transfers of fifo {name} without a wait between, "
                f"and its channel queues {QUEUE_DEPTH}; finish a group with a waiting drain after {QUEUE_DEPTH}."
            )
            yield Violation("shim queue", name, message)


def overlaps(index: Index) -> Iterator[Violation]:
    """Check that concurrent transfers do not write where another one writes or reads. Only linear ones are compared.

    An array that reads what it writes gives different results each time (Xilinx/mlir-aie#3656).
    """
    violations: dict[Violation, None] = {}
    for fifo, transfer, running in _running(index):
        span = _span(index, transfer)
        fills = fifo.producer.kind == "shim"
        for name, started in running.items():
            others_fill = index.fifos[name].producer.kind == "shim"
            if span is None or name == fifo.name or (fills and others_fill):
                continue
            for _, other in started:
                theirs = _span(index, other) if other.buffer == transfer.buffer else None
                if theirs and span[0] < theirs[1] and theirs[0] < span[1]:
                    start = max(span[0], theirs[0])
                    message = (
                        f"a fill and a drain of fifos {name} and {fifo.name} use element {start} of {transfer.buffer} "
                        "at the same time; wait in between, or write elsewhere."
                        if fills or others_fill
                        else f"drains of fifos {name} and {fifo.name} both write element {start} of {transfer.buffer}, "
                        "and nothing decides which comes last."
                    )
                    violations[Violation("overlap", transfer.buffer, message)] = None
    yield from violations


def _running(index: Index) -> Iterator[tuple[ObjectFifo, Transfer, dict[str, list[_Started]]]]:
    """Yield after the start of each transfer: its fifo, itself, and by fifo the transfers not known to have ended.

    A channel works in order, so a wait ends all earlier transfers of its channel. Transfers that were started before
    the awaited one, or in its group, have fed it and have ended too.
    """
    running: dict[str, list[_Started]] = defaultdict(list)
    for order, step in enumerate(index.design.sequence):
        if isinstance(step, Transfer):
            running[step.fifo].append(_Started(order, step))
            yield index.fifos[step.fifo], step, running
            continue
        waited = [
            item.order
            for started in running.values()
            for item in started
            if item.transfer.group == step.group and item.transfer.wait
        ]
        if not waited:
            continue
        for name, started in running.items():
            ended = [item.order for item in started if item.transfer.group == step.group or item.order <= max(waited)]
            running[name] = [item for item in started if item.order > max(ended, default=-1)]


def _span(index: Index, transfer: Transfer) -> tuple[int, int] | None:
    """Return the start and end elements of a linear transfer, or None for others."""
    pattern = transfer.pattern
    if pattern.sizes[:-1] != (1, 1, 1) or pattern.strides[-1:] != (1,):
        return None
    return pattern.offset, pattern.offset + pattern.sizes[-1]
