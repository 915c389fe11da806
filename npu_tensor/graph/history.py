"""What is needed of a graph after it has run, while a function is differentiated."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from npu_tensor._util.user_warnings import user_line
from npu_tensor.errors import GradientError
from npu_tensor.graph.nodes import Data, Node, located, next_order

__all__ = ["Reached", "constant", "constants", "histories", "history", "own_histories", "require_constant"]

Reached = dict[Node, tuple[Any, ...]]
"""Nodes through which gradients pass, in the order of recording, with their inputs."""


class History:
    """What happens to the graph of a function while it is called to be differentiated.

    targets: the nodes of its arguments. inputs: of nodes that are computed, and so forget them. constant: nodes that
    count as constants. spans: numbers of the first node and of the first after the last of what was recorded as
    constant, see `Node.order`.
    """

    def __init__(self, targets: Sequence[Node]) -> None:
        self.targets: Final = frozenset(targets)
        self.thread: Final = threading.get_ident()
        self.inputs: Final[dict[Node, tuple[Any, ...]]] = {}
        self.constant: Final[set[Node]] = set()
        self.spans: Final[list[tuple[int, int]]] = []

    def _is_constant(self, node: Node) -> bool:
        return node in self.constant or any(start <= node.order < end for start, end in self.spans)

    def reached(self, roots: Iterable[Node]) -> Reached:
        """What depends on the targets, and `roots` on it."""
        inputs: Reached = {}
        stack = [*roots]
        while stack:
            node = stack.pop()
            if node not in inputs and not isinstance(node, Data):
                ends = node in self.targets or self._is_constant(node)
                inputs[node] = () if ends else node.inputs or self.inputs.get(node, ())
                stack += [operand for operand in inputs[node] if isinstance(operand, Node)]
        depends = set(self.targets)
        reached: Reached = {}
        for node in sorted(inputs, key=lambda each: each.order):
            if node in depends or any(operand in depends for operand in inputs[node] if isinstance(operand, Node)):
                depends.add(node)
                reached[node] = inputs[node]
        return reached


histories: Final[list[History]] = []
"""Of all threads. Empty nearly always, which is cheap to test."""


@contextmanager
def history(targets: Sequence[Node]) -> Iterator[History]:
    """Write the history of what this thread records in a with block, as a function of some nodes."""
    written = History(targets)
    histories.append(written)
    try:
        yield written
    finally:
        histories.remove(written)


def own_histories() -> list[History]:
    """Those that this thread writes."""
    return [each for each in histories if each.thread == threading.get_ident()]


def require_constant(name: str, *nodes: Node) -> None:
    """GradientError if a function without a derivative is given what depends on an argument."""
    for each in own_histories():
        if each.reached(nodes):
            text = f"{name} has no derivative; pass x.detach() to take x as a constant"
            raise located(GradientError(), text, user_line(sys._getframe(1)))


def constant(node: Node) -> None:
    """Let no gradient pass through a node."""
    for each in own_histories():
        each.constant.add(node)


@contextmanager
def constants() -> Iterator[None]:
    """Let no gradient pass through what this thread records in a with block."""
    before, start = own_histories(), next_order()
    try:
        yield
    finally:
        for each in before:
            each.spans.append((start, next_order()))
