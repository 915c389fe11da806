"""From the graph of ops to tasks: folding of views, fusion.

Views are folded into their consumers as strides. Element-wise ops join the kernel that consumes them; after a row-wise
op or a matrix product they join the kernel that produces their operand. Ops that only an operand of a matrix product
needs become its prologue, unless the kernel that produces their inputs can take them. An op joins a kernel only if all
its consumers are in that kernel, so nothing is computed twice and no cycle can arise.

The bounds of a device are rough: the device itself decides if it has a kernel for a task. A refused task is cut again
into the largest kernels that the device takes. Ops that it does not take stay together for the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from npu_tensor.graph.structure import Structure, item_graph
from npu_tensor.planner.channels_last import with_channels_last
from npu_tensor.planner.fuse.groups import Group, Grouper
from npu_tensor.planner.fuse.lower import Lowering, lower
from npu_tensor.planner.fuse.tasks import TaskMaker
from npu_tensor.task import Fusion, Task


class Partition(NamedTuple):
    """A graph cut into tasks.

    Attributes:
        tasks: Tasks in an order in which they can run.
        aliases: Items that share the buffer of another item, each with that item.
        kept: Items with buffers of their own whose values are needed after the run.
    """

    tasks: list[Task]
    aliases: tuple[tuple[int, int], ...]
    kept: frozenset[int]


def partitions(lowering: Lowering, fusion: Fusion, takes: Callable[[Task], bool] | None = None) -> list[Partition]:
    """Cut a graph into tasks within the bounds of a device.

    Args:
        lowering: The lowered graph.
        fusion: Bounds of the device.
        takes: Returns True if the device has a kernel for a task, and is cheap to call again; None for a device that
            takes all tasks.

    Returns:
        One partition, and a second one with smaller tasks if the device refuses tasks but takes parts of them.
    """
    maker = TaskMaker(lowering.items)
    grouper = Grouper(lowering.items, fusion, lambda group: maker.task(group).rows > 0)
    groups = grouper.groups()
    found = [groups]
    if takes is not None:
        refit = _Refit(grouper, maker, takes, groups)
        if refit.needed:
            found.append(grouper.groups(refit.may_join))
    return [Partition([maker.task(group) for group in each], lowering.aliases, lowering.kept) for each in found]


def cut(structure: Structure, fusion: Fusion) -> Partition:
    """Cut a graph into tasks within the bounds of a device."""
    size = len(structure.leaves) + len(structure.nodes)
    graph, _, _ = with_channels_last(item_graph(structure, merge=True), size)
    return partitions(lower(graph), fusion)[0]


class _Refit:
    """Joins ops only if the device has a kernel for the result.

    A kernel grows as long as the device takes it. A refused kernel grows within the bounds of the device, as in
    `whole`, by ops that the device refuses too. Such a task is not cut for a kernel that only copies or converts.
    """

    def __init__(
        self, grouper: Grouper, maker: TaskMaker, takes: Callable[[Task], bool], whole: Sequence[Group]
    ) -> None:
        self._grouper = grouper
        self._task = maker.task
        self._takes = takes
        tasks = [maker.task(group) for group in whole]
        self._refused = {task.items for task in tasks if not takes(task)}
        self._task_of = {item: task.items for task in tasks if task.items not in self._refused for item in task.items}
        self._single_ops: dict[Any, tuple[bool, bool]] = {}

    @property
    def needed(self) -> bool:
        """True if the device refuses a kernel of several ops, but takes some of these ops."""
        return any(self._single_op(item)[0] for items in self._refused if len(items) > 1 for item in items)

    def may_join(self, item: int, group: Group, joined: Group) -> bool:
        """Return True if `group` should become `joined`, which has one more op."""
        if item in self._task_of and self._task_of[item] == self._task_of.get(self._grouper.last(group)):
            return True  # The kernel of the complete group is known to be accepted.
        if self._is_accepted(group):
            if self._is_accepted(joined):
                return True
            if _computes(self._task(group)):
                return False
        if all(self._single_op(item)):
            return False
        self._refused.add(self._task(joined).items)
        return True

    def _is_accepted(self, group: Group) -> bool:
        task = self._task(group)
        return task.items not in self._refused and self._takes(task)

    def _single_op(self, item: int) -> tuple[bool, bool]:
        """Return True if the device takes an op alone, and True if that op computes anything.

        The device is asked once about equal ops, such as those of equal layers.
        """
        lowered = self._grouper.items[item]
        key = lowered["call"], *(layout for _, layout in lowered["domain"].operands), "copy" in lowered
        if key not in self._single_ops:
            group = self._grouper.single(item)
            self._single_ops[key] = self._is_accepted(group), _computes(self._task(group))
        return self._single_ops[key]


def _computes(task: Task) -> bool:
    return task.kind == "data" or any(step.primitive != "load" for step in task.program.instructions)
