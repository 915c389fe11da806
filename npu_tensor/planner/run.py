"""The last stage: from recorded nodes to values."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from npu_tensor.errors import DimensionError, DivisionError
from npu_tensor.graph.nodes import PLACEHOLDER, Node, Overwriting, no_value_yet
from npu_tensor.graph.structure import Structure, is_loss, pending_ops, structure_of
from npu_tensor.graph.tracing import watches
from npu_tensor.planner import selection
from npu_tensor.planner.parts import LONGEST, parts
from npu_tensor.planner.planner import plan
from npu_tensor.planner.selection import Selection

VALUE_ERRORS: Final = DimensionError, DivisionError
"""Errors that ops raise because of the values that they read."""


def realize(nodes: Sequence[Node], wait: bool = True, chosen: Selection | None = None) -> None:
    """Compute the values of `nodes` and of every intermediate result that a living Tensor names.

    Args:
        nodes: Nodes to compute.
        wait: True to return only after asynchronous devices have finished. Reading a value waits in any case.
        chosen: Devices; None for the default ones.
    """
    try:
        _compute(nodes, wait, chosen)
    except VALUE_ERRORS as error:
        _restore(nodes, error.call)
        raise


def _restore(nodes: Sequence[Node], call: object) -> None:
    """Restore the previous values of tensors whose pending writes depend on a failed op, as in PyTorch."""
    failed: set[Node] = set()
    for node, inputs in pending_ops(nodes).items():
        if node.call is call:  # Several nodes may share the call; not all of them need fail.
            _try(node)
        if node.value is None and (node.call is call or not failed.isdisjoint(inputs)):
            before = inputs.before() if isinstance(inputs, Overwriting) else None
            if before is not None and before not in failed and _try(before):
                node.value, node.inputs, node.depth = before.value, (), 0
            else:
                failed.add(node)


def _try(node: Node) -> bool:
    with suppress(*VALUE_ERRORS):
        _compute((node,))
    return node.value is not None


def _compute(nodes: Sequence[Node], wait: bool = True, chosen: Selection | None = None) -> None:
    chosen = selection.active if chosen is None else chosen
    pending = pending_ops(nodes)
    for_gradients = is_loss(nodes)
    if len(pending) <= LONGEST:
        _realize_part(structure_of(nodes, pending, for_gradients=for_gradients), wait, chosen)
        return
    todo = parts(pending, nodes)
    del pending  # It would keep the values that later parts read, as `todo` would.
    while todo:
        _realize_part(structure_of(todo.pop(0), for_gradients=for_gradients), False, chosen)
    if wait:
        selection.synchronize()


def shorten(node: Node, longest: int) -> None:
    """Run the beginning of a chain of more than `longest` ops, up to the latest iteration of the loop that records it.

    That iteration is not cut, so that it runs with the same structure as the others.
    """
    todo = parts(pending_ops((node,)), (node,))[:-1]
    while todo:
        realize(todo.pop(0), wait=False)
    for each, inputs in pending_ops((node,)).items():
        each.depth = 1 + max((operand.depth for operand in inputs if isinstance(operand, Node)), default=0)
    if node.depth > longest:
        realize((node,), wait=False)


def _realize_part(structure: Structure, wait: bool, chosen: Selection) -> None:
    if not structure.nodes:
        return
    ready = plan(structure, chosen)
    values = structure.values()
    if PLACEHOLDER in values:
        item = values.index(PLACEHOLDER)
        readers = zip(structure.nodes, structure.operands, strict=True)
        reader = next(node for node, operands in readers if item in operands)
        raise no_value_yet(None if watches else reader)
    ready.run(values, structure.nodes, wait)
    for position in structure.keep:
        value = values[ready.first_op + position]
        if value is not None:
            node = structure.nodes[position]
            node.value = value
            node.inputs = ()
    for node in structure.nodes:
        node.depth = 0
