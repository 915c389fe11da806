"""From the graph of ops to tasks: folding of views, fusion.

Views are folded into their consumers as strides. Element-wise ops join the kernel that consumes them, or that
produces them in the case of a row-wise op or a matrix product, by joining their expressions. What only an operand of a
matrix product needs becomes its prologue, unless the kernel that produces its inputs can take it. An op joins a kernel
only if all its consumers are in that kernel, so nothing is computed twice and no cycle can arise.

The bounds of a device are rough: whether it has a kernel for a task shows when it is asked. What it refuses is cut
again into kernels as large as it takes them; what it takes no part of stays together for the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from npu_tensor.graph.structure import Structure, digraph
from npu_tensor.planner.fuse.groups import Grouper
from npu_tensor.planner.fuse.lower import Lowering, lower
from npu_tensor.planner.fuse.refit import Refit
from npu_tensor.planner.fuse.tasks import TaskMaker
from npu_tensor.task import Fusion, Task

__all__ = ["Tasks", "cut", "cuts"]


class Tasks(NamedTuple):
    """A graph cut into kernels.

    tasks: in an order in which they can run. aliases: items that share the buffer of another one, and that one. kept:
    items with buffers of their own whose values are needed afterwards.
    """

    tasks: list[Task]
    aliases: tuple[tuple[int, int], ...]
    kept: frozenset[int]


def cuts(lowering: Lowering, fusion: Fusion, takes: Callable[[Task], bool] | None = None) -> Iterator[Tasks]:
    """Tasks within the bounds of a device, and then others if it refuses some of these that it takes parts of.

    takes: whether the device has a kernel for a task; None for one that takes all. The last cut is that with most on
    the device.
    """
    maker = TaskMaker(lowering.items)
    grouper = Grouper(lowering.items, fusion, lambda group: maker.task(group).rows > 0)
    groups = grouper.groups()
    yield Tasks([maker.task(group) for group in groups], lowering.aliases, lowering.kept)
    if takes is None:
        return
    refit = Refit(grouper, maker, takes, groups)
    if refit.needed:
        smaller = grouper.groups(refit.may_join)
        yield Tasks([maker.task(group) for group in smaller], lowering.aliases, lowering.kept)


def cut(structure: Structure, fusion: Fusion) -> Tasks:
    """Cut a graph into tasks within the bounds of a device."""
    return next(cuts(lower(digraph(structure, merge=True)), fusion))
