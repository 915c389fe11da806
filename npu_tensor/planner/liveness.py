"""Liveness: the last read of each value of a plan, and results that reuse the memory of an operand."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from types import MappingProxyType

from npu_tensor.task import Output, Task


def _items(task: Task) -> set[int]:
    return {source.item for source in task.inputs} | {output.item for output in task.outputs}


def last_reads(tasks: Sequence[Task], kept: Iterable[int]) -> list[list[int]]:
    """Return for each task the items that no later task reads, except those in `kept`."""
    seen = set(kept)
    by_task: list[list[int]] = []
    for task in reversed(tasks):
        unread = sorted(_items(task) - seen)
        seen.update(unread)
        by_task.append(unread)
    return by_task[::-1]


def with_donors(
    tasks: Sequence[Task],
    last_read: Sequence[Sequence[int]],
    on_accelerators: Container[int],
    replaced: Mapping[int, int],
) -> list[Task]:
    """Let results of element-wise ops and updates overwrite an operand that is not read again.

    The operand must have been made by an earlier task, because data from outside may have other owners. It must be
    read at exactly the positions that are written, and have the same number of bytes: a small result must not keep a
    large buffer alive.

    Args:
        tasks: Tasks in the order in which they run.
        last_read: Result of `last_reads`.
        on_accelerators: Positions of tasks that an accelerator may run. Values that such a task reads or makes may have
            copies on the device and are never overwritten.
        replaced: Items from outside that may be overwritten too, each with the item of its new value. Only an update
            or the new value itself may do so, because a run that fails must leave the old or the new value.

    Returns:
        Tasks whose outputs name the operand that they overwrite.
    """
    producers: dict[int, int] = {}
    shared: set[int] = set()
    for position, task in enumerate(tasks):
        if position in on_accelerators:
            shared |= _items(task)
    result = []
    for task, items in zip(tasks, last_read, strict=True):
        nbytes = {output.item: output.nbytes for output in task.outputs}
        own = {item: producers[item] for item in items if item in producers and item not in shared}
        new = {item: replaced[item] for item in items if item in replaced and item not in shared}
        if task.kind == "map":
            own |= {item: nbytes[value] for item, value in new.items() if value in nbytes}
            task = _donate(task, own, new)
        elif task.call is not None and task.call.op.updates:
            updated = task.inputs[0].item
            is_free = sum(source.item == updated for source in task.inputs) == 1 and (updated in own or updated in new)
            task = _donate(task, {updated: task.outputs[0].nbytes} if is_free else {})
        result.append(task)
        producers.update((output.item, output.nbytes) for output in task.outputs)
    return result


def _donate(task: Task, candidates: dict[int, int], only: Mapping[int, int] = MappingProxyType({})) -> Task:
    """Let the outputs of a task overwrite candidates, given with their bytes; `only` names their only new value."""
    if not candidates:
        return task
    outputs = list(task.outputs)
    for number, output in enumerate(outputs):
        fitting = (
            item
            for item, nbytes in candidates.items()
            if nbytes == output.nbytes and only.get(item, output.item) == output.item and _fits(task, item, output)
        )
        donor = next(fitting, None)
        if donor is not None:
            del candidates[donor]
            outputs[number] = output._replace(donor=donor)
    return task._replace(outputs=tuple(outputs))


def _fits(task: Task, item: int, output: Output) -> bool:
    reads = [source for source in task.inputs if source.item == item]
    return all(
        source.layout == output.layout and source.dtype is not None and source.dtype.itemsize == output.dtype.itemsize
        for source in reads
    )
