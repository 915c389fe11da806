"""The last stage: from recorded nodes to values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npu_tensor.config import config
from npu_tensor.graph.nodes import PLACEHOLDER, Node, no_value_yet
from npu_tensor.graph.structure import Structure, pending_ops, structure_of
from npu_tensor.planner import selection
from npu_tensor.planner.parts import parts
from npu_tensor.planner.planner import plan
from npu_tensor.planner.selection import Selection

__all__ = ["realize", "shorten"]


def realize(nodes: Sequence[Node], wait: bool = True, chosen: Selection | None = None) -> None:
    """Compute the values of `nodes` and of every intermediate result that a living Tensor names.

    wait: whether asynchronous devices have ended their work when this returns; reading a value waits for it.
    chosen: for other devices than the default ones.
    """
    chosen = selection.active if chosen is None else chosen
    if len(nodes) == 1 and _realize_single(nodes[0], wait, chosen):
        return
    pending = pending_ops(nodes)
    todo = parts(pending, nodes)
    if len(todo) == 1:
        _realize_part(structure_of(nodes, pending), wait, chosen)
        return
    del pending  # Values that only later parts read end with these.
    _realize_parts(todo, chosen)
    if wait:
        selection.synchronize()


def shorten(node: Node, longest: int) -> None:
    """Run the beginning of a chain of more than `longest` ops, up to the latest iteration of the loop that records it.

    That iteration is not cut, so that it has the structure of the others when it runs.
    """
    todo = parts(pending_ops((node,)), (node,))
    del todo[-1]
    _realize_parts(todo, selection.active)
    for each, inputs in pending_ops((node,)).items():
        each.depth = 1 + max((operand.depth for operand in inputs if isinstance(operand, Node)), default=0)
    if node.depth > longest:
        realize((node,), wait=False)


def _realize_parts(todo: list[list[Node]], chosen: Selection) -> None:
    """Run parts of a graph, as `parts` finds them. Empties the list, which would keep the values of the results."""
    todo.reverse()
    while todo:
        _realize_part(structure_of(todo.pop()), False, chosen)


def _realize_part(structure: Structure, wait: bool, chosen: Selection) -> None:
    if not structure.nodes:
        return
    ready = plan(structure, chosen)
    values: list[Any] = [None] * ready.size
    for item, leaf in structure.leaves:
        value = leaf.value if isinstance(leaf, Node) else leaf
        if value is PLACEHOLDER:
            raise no_value_yet()
        values[item] = value
    ready.run(values, structure.nodes, wait)
    for item, node in structure.nodes:
        value = values[item]
        if value is not None and item in structure.keep:
            node.value = value
            node.inputs = ()
        node.depth = 0


def _realize_single(node: Node, wait: bool, chosen: Selection) -> bool:
    """The short way for one op whose operands are all data: most of what a user does line by line.

    The key of its plan is its call, see `Structure.key`.
    """
    ready = chosen.plans.get(node.call)
    if ready is None or ready.builds_before is not None or (chosen.accelerators and config.fallback != "allow"):
        return False
    values: list[Any] = []
    inputs = node.inputs
    if node.value is not None:  # another thread was faster; it sets the value before it drops the inputs
        return True
    for operand in inputs:
        if isinstance(operand, Node):
            operand = operand.value
            if operand is None or operand is PLACEHOLDER:
                return False
            if chosen.measure is not None and getattr(operand, "home", None) is not None:
                return False  # Where it lies counts.
        values.append(operand)
    values.append(None)
    ready.run(values, ((len(inputs), node),), wait)
    node.value = values[-1]
    node.inputs = ()
    node.depth = 0
    return True
