"""When the values of a plan are no longer needed, and which results can take over the memory of a dying operand."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from types import MappingProxyType

from npu_tensor.task import Output, Task

__all__ = ["last_uses", "with_donors"]


def _items(task: Task) -> set[int]:
    return {source.item for source in task.inputs} | {output.item for output in task.outputs}


def last_uses(tasks: Sequence[Task], kept: Iterable[int]) -> list[list[int]]:
    """For each task, the items that nobody reads after it; those of `kept` are needed for ever."""
    seen = set(kept)
    by_task: list[list[int]] = []
    for task in reversed(tasks):
        dying = sorted(_items(task) - seen)
        seen.update(dying)
        by_task.append(dying)
    return by_task[::-1]


def with_donors(
    tasks: Sequence[Task],
    dying: Sequence[Sequence[int]],
    elsewhere: Container[int] = (),
    replaced: Mapping[int, int] = MappingProxyType({}),
) -> list[Task]:
    """The tasks, where the result of an element-wise op or an update overwrites a temporary operand that dies with it.

    The operand must have been made by an earlier task (data from outside may have other owners), be read at exactly
    the positions that are written, and have elements of the same size and as many: a small result must not keep a
    large buffer alive. dying: by task, as `last_uses` finds them. elsewhere: positions of tasks that another device
    than the processor may run: what it has read or made may have copies there, and is never overwritten. replaced:
    items from outside that may be overwritten too, by an update or by their new values, which are given: what else is
    computed must not be left there by a run that fails.
    """
    producers: dict[int, int] = {}
    shared: set[int] = set()
    for position, task in enumerate(tasks):
        if position in elsewhere:
            shared |= _items(task)
    result = []
    for task, items in zip(tasks, dying, strict=True):
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
    """candidates: items and their bytes. only: of some of them, the item of the one output that may overwrite them."""
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
    readings = [source for source in task.inputs if source.item == item]
    return all(
        source.layout == output.layout and source.dtype is not None and source.dtype.itemsize == output.dtype.itemsize
        for source in readings
    )
