"""Which ops a device takes in one kernel, where its bounds alone do not say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from npu_tensor.planner.fuse.groups import Group, Grouper
from npu_tensor.planner.fuse.tasks import TaskMaker
from npu_tensor.task import Task

__all__ = ["Refit"]


class Refit:
    """Which ops join a kernel if a device is asked first.

    A kernel grows as long as the device takes it. What the device has no kernel for grows as its bounds allow, by ops
    that it has none for either. A kernel that only copies or converts is not worth cutting such a task.
    """

    def __init__(
        self, grouper: Grouper, maker: TaskMaker, takes: Callable[[Task], bool], whole: Sequence[Group]
    ) -> None:
        """whole: the groups that the device's bounds allow."""
        self._grouper = grouper
        self._task = maker.task
        self._takes = takes
        self._taken = {tuple(sorted(group.items)): takes(maker.task(group)) for group in whole}
        self._group_of = {item: items for items, taken in self._taken.items() if taken for item in items}
        self._found_alone: dict[Any, tuple[bool, bool]] = {}

    @property
    def needed(self) -> bool:
        """Whether the device refuses a kernel of several ops, and not all of these ops."""
        refused = [items for items, taken in self._taken.items() if len(items) > 1 and not taken]
        return any(self._alone(item)[0] for items in refused for item in items)

    def may_join(self, item: int, group: Group, joined: Group) -> bool:
        """Whether `group` should become `joined` by an op."""
        if item in self._group_of and self._group_of[item] == self._group_of.get(max(group.members)):
            return True  # on the way to a kernel that is known to be taken
        if self._is_taken(group):
            if self._is_taken(joined):
                return True
            if _computes(self._task(group)):
                return False
        if all(self._alone(item)):
            return False
        self._taken[tuple(sorted(joined.items))] = False
        return True

    def _is_taken(self, group: Group) -> bool:
        items = tuple(sorted(group.items))
        if items not in self._taken:
            self._taken[items] = self._takes(self._task(group))
        return self._taken[items]

    def _alone(self, item: int) -> tuple[bool, bool]:
        """Whether the device takes an op alone, and whether that computes anything.

        Equal ops, as the layers of a model have, are asked about once.
        """
        lowered = self._grouper.items[item]
        key = lowered["call"], *(layout for _, layout in lowered["domain"].operands), "copy" in lowered
        if key not in self._found_alone:
            group = self._grouper.alone(item)
            self._found_alone[key] = self._is_taken(group), _computes(self._task(group))
        return self._found_alone[key]


def _computes(task: Task) -> bool:
    return task.program is None or any(step.primitive != "load" for step in task.program.instructions)
