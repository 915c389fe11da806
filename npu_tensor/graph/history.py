"""What is needed of a graph after it has run, while a function is differentiated."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from npu_tensor.graph.nodes import Node, next_order

__all__ = ["History", "constant", "constants", "histories", "history"]


class History:
    """What happens to the graph of a function while it is called to be differentiated.

    inputs: of nodes that are computed, and so forget them. constant: nodes that count as constants. spans: numbers
    of the first node and of the first after the last of what was recorded as constant, see `Node.order`.
    """

    def __init__(self) -> None:
        self.thread: Final = threading.get_ident()
        self.inputs: Final[dict[Node, tuple[Any, ...]]] = {}
        self.constant: Final[set[Node]] = set()
        self.spans: Final[list[tuple[int, int]]] = []

    def is_constant(self, node: Node) -> bool:
        """Whether no gradient passes through a node."""
        return node in self.constant or any(start <= node.order < end for start, end in self.spans)


histories: Final[list[History]] = []
"""Of all threads. Empty nearly always, which is cheap to test."""


@contextmanager
def history() -> Iterator[History]:
    """Write the history of what this thread records in a with block."""
    written = History()
    histories.append(written)
    try:
        yield written
    finally:
        histories.remove(written)


def _own() -> list[History]:
    return [each for each in histories if each.thread == threading.get_ident()]


def constant(node: Node) -> None:
    """Let no gradient pass through a node."""
    for each in _own():
        each.constant.add(node)


@contextmanager
def constants() -> Iterator[None]:
    """Let no gradient pass through what this thread records in a with block."""
    before, start = _own(), next_order()
    try:
        yield
    finally:
        for each in before:
            each.spans.append((start, next_order()))
