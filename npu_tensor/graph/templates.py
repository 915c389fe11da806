"""Templates: ops that were recorded once, to be recorded again on other nodes without running Python functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from npu_tensor import ops
from npu_tensor.graph.index_checks import check_indices
from npu_tensor.graph.nodes import Node, next_order
from npu_tensor.ops.declare import Call

_new = object.__new__


@dataclass(frozen=True, slots=True)
class Template:
    """Recorded ops. Their operands are numbered: the given nodes, constants, the results of the ops in order.

    Attributes:
        constants: Numbers and data that the ops read.
        ops: Call, numbers of the operands, and depth of each op, and whether gradients pass through it.
        results: Numbers of the results.
    """

    constants: tuple[Any, ...]
    ops: tuple[tuple[Call, tuple[int, ...], int, bool], ...]
    results: tuple[int, ...]

    def record(self, given: Sequence[Any], where: tuple[CodeType, int] | None) -> list[Node]:
        """Record the ops on other nodes of the same specs and return the results."""
        nodes = [*given, *self.constants]
        depth = max([node.depth for node in given if isinstance(node, Node)], default=0)
        for call, operands, own_depth, is_tracked in self.ops:
            inputs = tuple([nodes[operand] for operand in operands])
            if call.op.indices is not None:
                check_indices(call, inputs, where)
            node: Node = _new(Node)  # without a call of __init__, as in `npu_tensor.tensor.record`
            node.call = call
            node.inputs = inputs
            node.history = inputs if is_tracked else None
            node.spec = call.spec
            node.depth = depth + own_depth
            node.where = where
            node.value = None
            node.order = next_order()
            node.handle = None
            nodes.append(node)
        return [nodes[result] for result in self.results]


def template_of(given: Sequence[Any], results: Sequence[Node]) -> Template:
    """Return the template of the ops that have been recorded from distinct nodes, and numbers, to results."""
    numbers = {id(each): number for number, each in enumerate(given) if isinstance(each, Node)}
    first_depth = max([node.depth for node in given if isinstance(node, Node)], default=0)
    new: dict[Node, tuple[Any, ...]] = {}
    stack = [*results]
    while stack:
        node = stack.pop()
        if node not in new and id(node) not in numbers and node.value is None:
            new[node] = node.inputs
            stack += [operand for operand in node.inputs if isinstance(operand, Node)]
    recorded, same = _with_short_views(sorted(new, key=lambda node: node.order), results)
    results = [same.get(result, result) for result in results]
    read = {*results}
    for node, (_, operands) in reversed(recorded.items()):
        if node in read:
            read.update(operands)
    ordered = [node for node in recorded if node in read]
    constants: list[Any] = []
    for node in ordered:
        for operand in recorded[node][1]:
            if operand not in recorded and id(operand) not in numbers:
                numbers[id(operand)] = len(given) + len(constants)
                constants.append(operand)
    numbers |= {id(node): number for number, node in enumerate(ordered, len(given) + len(constants))}
    steps = []
    for node in ordered:
        call, operands = recorded[node]
        places = tuple([numbers[id(each)] for each in operands])
        steps.append((call, places, max(1, node.depth - first_depth), node.history is not None))
    return Template(tuple(constants), tuple(steps), tuple([numbers[id(result)] for result in results]))


_Recorded = tuple[Call, tuple[Any, ...]]


def _with_short_views(nodes: Sequence[Node], results: Sequence[Node]) -> tuple[dict[Node, _Recorded], dict[Node, Node]]:
    """Return the calls of nodes with their operands, where a view of a view is a view of its base.

    Also return the views that show all of their base as it is, each with the base. Results stay distinct nodes, and so
    does a view without gradients of a tracked base, as `detach` returns.
    """
    recorded: dict[Node, _Recorded] = {}
    same: dict[Node, Node] = {}
    distinct = {*results}
    for node in nodes:
        assert node.call is not None
        call, operands = node.call, tuple([same.get(each, each) for each in node.inputs])
        if call.op in (ops.permute.op, ops.reshape.op):
            base = operands[0]
            if base in recorded and recorded[base][0].op is call.op:
                (inner, (base,)) = recorded[base]
                call, operands = _composed(inner, call), (base,)
            in_order = call.op is ops.reshape.op or call.attributes["dims"] == tuple(range(call.spec.ndim))
            is_free = node not in distinct or (base in recorded and base not in distinct)
            is_detached = node.history is None and base.history is not None
            if in_order and call.spec is base.spec and is_free and not is_detached:
                same[node] = base
                if node in distinct:
                    distinct.add(base)
                continue
        recorded[node] = call, operands
    return recorded, same


def _composed(inner: Call, outer: Call) -> Call:
    """Return the view that two views of one op make together."""
    attribute: tuple[int, ...] = outer.spec.shape
    if outer.op is ops.permute.op:
        attribute = tuple([inner.attributes["dims"][dim] for dim in outer.attributes["dims"]])
    return outer.op.call(inner.operands, (attribute,))
