"""To trace means to run a function on placeholders and to note what it records."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType

from npu_tensor.errors import CaptureError
from npu_tensor.graph.nodes import Node, next_order, place_of

__all__ = ["Watch", "outside_change", "watched", "watches"]


class Watch:
    """What a function does while it is traced, so that a change of a handle from outside is refused.

    before: order number at the start. created: data nodes that the function made. changes: the lines, as code object
    and offset, that tried to change a handle from outside.
    """

    __slots__ = ("_outside", "before", "changes", "created")

    def __init__(self) -> None:
        self.before = next_order()
        self.created: set[Node] = set()
        self.changes: list[tuple[CodeType, int] | None] = []
        self._outside: set[Node] = set()

    def is_outside(self, node: Node) -> bool:
        """Whether the node existed before the function was called, or derives the value of a handle that did."""
        return (node.order < self.before and node not in self.created) or node in self._outside

    def outside_since(self, order: int, node: Node) -> None:
        """Count a node, and what it is made of that was recorded since `order`, as older than the function."""
        stack = [node]
        while stack:
            node = stack.pop()
            if node.order > order and node not in self._outside:
                self._outside.add(node)
                stack += [operand for operand in node.inputs if isinstance(operand, Node)]

    def refuse(self, where: tuple[CodeType, int] | None) -> CaptureError:
        """The error of changing a handle from outside. Tracing fails also if the function catches it."""
        self.changes.append(where)
        return outside_change(where)


def outside_change(where: tuple[CodeType, int] | None) -> CaptureError:
    """The error of a traced function that changes a handle from outside on a line."""
    return CaptureError(
        "a function that is captured cannot change its arguments or tensors from outside the function"
        f"{place_of(where)}. "
        "Return the new value instead"
    )


watches: dict[int, Watch] = {}
"""By thread identifier, the function that is being traced there. Empty nearly always, which is cheap to test."""


@contextmanager
def watched() -> Iterator[Watch]:
    """Watch a function that runs in a with block in this thread. CaptureError if it changed handles from outside.

    These keep their values.
    """
    thread = threading.get_ident()
    watch = watches[thread] = Watch()
    try:
        yield watch
    finally:
        del watches[thread]
    if watch.changes:
        raise outside_change(watch.changes[0])
