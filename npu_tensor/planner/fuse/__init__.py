"""From the graph of ops to tasks: folding of views, fusion.

Views are folded into their consumers as strides. Element-wise ops join the kernel that consumes them; after a row-wise
op or a matrix product they join the kernel that produces their operand. Ops that only an operand of a matrix product
needs become its prologue, unless the kernel that produces their inputs can take them. An op joins a kernel only if all
its consumers are in that kernel, so nothing is computed twice and no cycle can arise.

The bounds of a device are rough: the device itself decides if it has a kernel for a task. A refused task is cut again
into the largest kernels that the device takes. Ops that it does not take stay together for the processor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from npu_tensor.graph.structure import Structure, digraph
from npu_tensor.planner.fuse.groups import Grouper
from npu_tensor.planner.fuse.lower import Lowering, lower
from npu_tensor.planner.fuse.refit import Refit
from npu_tensor.planner.fuse.tasks import TaskMaker
from npu_tensor.task import Fusion, Task

__all__ = ["Partition", "cut", "partitions"]


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
        takes: Returns True if the device has a kernel for a task; None for a device that takes all tasks.

    Returns:
        One partition, and a second one with smaller tasks if the device refuses tasks but takes parts of them.
    """
    maker = TaskMaker(lowering.items)
    grouper = Grouper(lowering.items, fusion, lambda group: maker.task(group).rows > 0)
    groups = grouper.groups()
    found = [groups]
    if takes is not None:
        refit = Refit(grouper, maker, takes, groups)
        if refit.needed:
            found.append(grouper.groups(refit.may_join))
    return [Partition([maker.task(group) for group in each], lowering.aliases, lowering.kept) for each in found]


def cut(structure: Structure, fusion: Fusion) -> Partition:
    """Cut a graph into tasks within the bounds of a device."""
    return partitions(lower(digraph(structure, merge=True)), fusion)[0]
