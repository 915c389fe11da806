"""From the graph of ops to tasks: common subexpressions, folding of views, fusion.

Views are folded into their consumers as strides. Element-wise ops join the kernel that consumes them, or that
produces them in the case of a row-wise op or a matrix product, by joining their expressions. What only an operand of a
matrix product needs becomes its prologue, unless the kernel that produces its inputs can take it. An op joins a kernel
only if all its consumers are in that kernel, so nothing is computed twice and no cycle can arise.

The bounds of a device are rough: whether it has a kernel for a task shows when it is asked. What it refuses is cut
again into kernels as large as it takes them; what it takes no part of stays together for the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from npu_tensor.graph.nodes import Capture, digraph
from npu_tensor.planner.fuse.forms import Forms
from npu_tensor.planner.fuse.groups import Group, Grouper
from npu_tensor.planner.fuse.refit import Refit
from npu_tensor.planner.fuse.sharing import share_common
from npu_tensor.planner.fuse.tasks import TaskMaker
from npu_tensor.task import Fusion, Task

__all__ = ["Cutter", "Tasks", "cut"]


class Tasks(NamedTuple):
    """A captured graph cut into kernels.

    tasks: in an order in which they can run. aliases: items that share the buffer of another one, and that one. kept:
    items with buffers of their own whose values are needed afterwards.
    """

    tasks: list[Task]
    aliases: tuple[tuple[int, int], ...]
    kept: set[int]


class Cutter:
    """Cuts a captured graph into tasks. graph: what was captured, with every common subexpression once."""

    def __init__(self, found: Capture) -> None:
        self.graph = digraph(found)
        merged = share_common(self.graph)
        self._forms = Forms(self.graph)
        # Twins share a buffer, and so do views that cover the whole of what they view.
        twins = {item: twin for item, twin in merged.items() if item in found.keep}
        bases = {**self._forms.views.aliases, **twins}
        self._aliases = tuple((item, _root(item, bases)) for item in bases)
        self._kept = {base for _, base in self._aliases} | {item for item in found.keep if item not in bases}

    def cut(self, fusion: Fusion) -> Tasks:
        """Tasks within the bounds of a device."""
        return next(self.cuts(fusion, lambda task: True))

    def cuts(self, fusion: Fusion, takes: Callable[[Task], bool]) -> Iterator[Tasks]:
        """Tasks within the bounds of a device, and then others if it refuses some of these that it takes parts of.

        takes: whether the device has a kernel for a task. The last cut is that with most on the device.
        """
        grouper, maker = Grouper(self._forms, fusion), TaskMaker(self._forms)
        groups = grouper.groups()
        yield self._tasks(maker, groups)
        refit = Refit(grouper, maker, takes, groups)
        if refit.needed:
            yield self._tasks(maker, grouper.groups(refit.may_join))

    def _tasks(self, maker: TaskMaker, groups: Iterable[Group]) -> Tasks:
        return Tasks([maker.task(group) for group in groups], self._aliases, self._kept)


def _root(item: int, bases: Mapping[int, int]) -> int:
    while item in bases:
        item = bases[item]
    return item


def cut(found: Capture, fusion: Fusion) -> Tasks:
    """Cut a captured graph into tasks within the bounds of a device."""
    return Cutter(found).cut(fusion)
