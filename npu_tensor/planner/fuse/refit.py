"""Fusion for a device that refuses tasks within its bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from npu_tensor.planner.fuse.groups import Group, Grouper
from npu_tensor.planner.fuse.tasks import TaskMaker
from npu_tensor.task import Task

__all__ = ["Refit"]


class Refit:
    """Joins ops only if the device has a kernel for the result.

    A kernel grows as long as the device takes it. A refused kernel grows within the bounds of the device by ops that
    the device refuses too. Such a task is not cut for a kernel that only copies or converts.

    Args:
        grouper: Groups of the graph.
        maker: Tasks of the groups.
        takes: Returns True if the device has a kernel for a task.
        whole: Groups within the bounds of the device.
    """

    def __init__(
        self, grouper: Grouper, maker: TaskMaker, takes: Callable[[Task], bool], whole: Sequence[Group]
    ) -> None:
        self._grouper = grouper
        self._task = maker.task
        self._takes = takes
        self._accepted = {tuple(sorted(group.items)): takes(maker.task(group)) for group in whole}
        self._group_of = {item: items for items, accepted in self._accepted.items() if accepted for item in items}
        self._single_ops: dict[Any, tuple[bool, bool]] = {}

    @property
    def needed(self) -> bool:
        """True if the device refuses a kernel of several ops, but takes some of these ops."""
        refused = [items for items, accepted in self._accepted.items() if len(items) > 1 and not accepted]
        return any(self._single_op(item)[0] for items in refused for item in items)

    def may_join(self, item: int, group: Group, joined: Group) -> bool:
        """Return True if `group` should become `joined`, which has one more op."""
        if item in self._group_of and self._group_of[item] == self._group_of.get(max(group.members)):
            return True  # The kernel of the complete group is known to be accepted.
        if self._is_accepted(group):
            if self._is_accepted(joined):
                return True
            if _computes(self._task(group)):
                return False
        if all(self._single_op(item)):
            return False
        self._accepted[tuple(sorted(joined.items))] = False
        return True

    def _is_accepted(self, group: Group) -> bool:
        items = tuple(sorted(group.items))
        if items not in self._accepted:
            self._accepted[items] = self._takes(self._task(group))
        return self._accepted[items]

    def _single_op(self, item: int) -> tuple[bool, bool]:
        """Return whether the device takes an op alone, and whether that op computes anything.

        The device is asked once about equal ops, such as those of equal layers.
        """
        lowered = self._grouper.items[item]
        key = lowered["call"], *(layout for _, layout in lowered["domain"].operands), "copy" in lowered
        if key not in self._single_ops:
            group = self._grouper.single(item)
            self._single_ops[key] = self._is_accepted(group), _computes(self._task(group))
        return self._single_ops[key]


def _computes(task: Task) -> bool:
    return task.program is None or any(step.primitive != "load" for step in task.program.instructions)
