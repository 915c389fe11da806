"""Templates: ops that were recorded once, to be recorded again on other nodes without running Python functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from npu_tensor.graph.nodes import Node
from npu_tensor.ops.declare import Call


@dataclass(frozen=True, slots=True)
class Template:
    """Recorded ops. Their operands are numbered: the given nodes, constants, the results of the ops in order.

    Attributes:
        constants: Numbers and data that the ops read.
        ops: Call, numbers of the operands, and depth of each op.
        results: Numbers of the results.
    """

    constants: tuple[Any, ...]
    ops: tuple[tuple[Call, tuple[int, ...], int], ...]
    results: tuple[int, ...]

    def record(self, given: Sequence[Any], where: tuple[CodeType, int] | None) -> list[Node]:
        """Record the ops on other nodes of the same specs and return the results."""
        nodes = [*given, *self.constants]
        depth = max([node.depth for node in given if isinstance(node, Node)], default=0)
        for call, operands, own_depth in self.ops:
            inputs = tuple(map(nodes.__getitem__, operands))
            nodes.append(Node(call, inputs, call.spec, depth + own_depth, where))
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
    ordered = sorted(new, key=lambda node: node.order)
    constants: list[Any] = []
    for node in ordered:
        for operand in new[node]:
            if operand not in new and id(operand) not in numbers:
                numbers[id(operand)] = len(given) + len(constants)
                constants.append(operand)
    numbers |= {id(node): number for number, node in enumerate(ordered, len(given) + len(constants))}
    ops = []
    for node in ordered:
        assert node.call is not None
        operands = tuple([numbers[id(operand)] for operand in new[node]])
        ops.append((node.call, operands, max(1, node.depth - first_depth)))
    return Template(tuple(constants), tuple(ops), tuple([numbers[id(result)] for result in results]))
