"""Tracing runs a function on placeholders and notes its effects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from npu_tensor.errors import CaptureError
from npu_tensor.graph.history import same_value
from npu_tensor.graph.nodes import Node, next_order, place_of


@dataclass(slots=True, eq=False)
class Watch:
    """Effects of a function while it is traced.

    Attributes:
        before: Order number at the start.
        created: Data nodes that the function has made.
        made: Tensors that it has made.
        reads: Tensors that it has read and may not have made, by their nodes.
        touched: Tensors that it has read or changed and has not made, by identity.
        changes: Lines, as code object and offset, that tried to change an argument.
        changed: Tensors from outside that it has changed, with functions that undo it; after the trace, with their new
            nodes.
        gradients: Leaves whose gradient it has set, each with the gradient before (after the trace, the new one) and a
            flag that is True if it was added to None.
        modules: Modules whose training mode it has read, with the mode, by identity.
        conditions: Functions of state outside, each with its result now. Other results need another trace.
        copies: Tensors that are views in a plain call but copies in a capture.
        lost: Lines that have changed such a copy in place, by its identity, unless it has been stored since.
        without_gradient: Leaves from outside whose gradient it has read as None.
        draws: Generators that it draws seeds from, by the numbers that stand for the seeds, in order.
        seeded: Generators that it seeds itself.
    """

    before: int = field(default_factory=next_order)
    created: set[Node] = field(default_factory=set)
    made: set[Any] = field(default_factory=set)
    reads: dict[Node, Any] = field(default_factory=dict)
    touched: dict[int, Any] = field(default_factory=dict)
    changes: list[tuple[CodeType, int] | None] = field(default_factory=list)
    changed: dict[Any, Any] = field(default_factory=dict)
    gradients: dict[Any, tuple[Any, bool]] = field(default_factory=dict)
    modules: dict[int, tuple[Any, bool]] = field(default_factory=dict)
    conditions: list[tuple[Callable[[], Any], Any]] = field(default_factory=list)
    copies: set[Any] = field(default_factory=set)
    lost: dict[int, tuple[CodeType, int] | None] = field(default_factory=dict)
    without_gradient: set[Any] = field(default_factory=set)
    draws: dict[int, Any] = field(default_factory=dict)
    seeded: set[Any] = field(default_factory=set)
    _outside: set[Node] = field(default_factory=set)

    def is_outside(self, node: Node) -> bool:
        """Return True if the node, or the tensor whose value it derives, is older than the call of the function."""
        return (node.order < self.before and node not in self.created) or node in self._outside

    def has_made_leaf(self, leaf: Any) -> bool:
        """Return True if the function has made the leaf. A replay makes none, and leaves its gradient unchanged."""
        return bool(leaf.order > self.before)

    def touch(self, tensor: Any) -> None:
        """Note a tensor that the function reads or changes."""
        if tensor not in self.made:
            self.touched[id(tensor)] = tensor

    def read(self, tensor: Any) -> None:
        """Note a tensor that the function reads. A second tensor that names the same node gets its own node."""
        self.touch(tensor)
        node = tensor._node
        if (self.is_outside(node) or node.call is None) and self.reads.setdefault(node, tensor) is not tensor:
            own = same_value(node, None if node.history is None else (node,))
            self._outside.add(own)
            self.reads[own] = tensor
            tensor._name(own)

    def reader(self, node: Node) -> Any:
        """Return the tensor from outside that the function has read through this node, if it still names the node."""
        tensor = self.reads.get(node)
        return tensor if tensor is not None and tensor._node is node else None

    def draw(self, generator: Any) -> int:
        """Return a number that stands for the seed that each call of the traced function will draw."""
        stand_in = -(2**62) - len(self.draws)
        self.draws[stand_in] = generator
        return stand_in

    def outside_since(self, order: int, node: Node) -> None:
        """Mark a node and its operands recorded since `order` as older than the function."""
        stack = [node]
        while stack:
            node = stack.pop()
            if node.order > order and node not in self._outside:
                self._outside.add(node)
                stack += [operand for operand in node.inputs if isinstance(operand, Node)]

    def restore(self) -> None:
        """Restore tensors from outside to their state before the call, and note their new state."""
        back = list(self.changed.values())
        self.changed = {tensor: tensor._node for tensor in self.changed}
        for each in back:
            each()
        for leaf, (gradient, is_added) in self.gradients.items():
            self.gradients[leaf] = leaf.gradient, is_added
            leaf.gradient = gradient

    def refuse(self, where: tuple[CodeType, int] | None) -> CaptureError:
        """Return the error of changing a tensor from outside. Tracing fails even if the function catches it."""
        self.changes.append(where)
        return outside_change(where)


def outside_change(where: tuple[CodeType, int] | None) -> CaptureError:
    """Return the error of a traced function that changes an argument on a line."""
    return CaptureError(
        f"a function that is captured cannot change its arguments{place_of(where)}. Return the new value instead"
    )


watches: dict[int, Watch] = {}
"""Watches of functions that are being traced, by thread identifier. Nearly always empty, which is cheap to test."""


def current_watch() -> Watch | None:
    """Return the watch of the function that this thread traces, if it traces one."""
    return watches.get(threading.get_ident()) if watches else None


@contextmanager
def watched() -> Iterator[Watch]:
    """Watch a function that runs in a with block in this thread.

    Raises:
        CaptureError: The function changed an argument, which keeps its value.
    """
    thread = threading.get_ident()
    watch = watches[thread] = Watch()
    try:
        yield watch
    finally:
        del watches[thread]
    if watch.changes:
        raise outside_change(watch.changes[0])
    for where in watch.lost.values():
        raise CaptureError(
            "x[i] with a tensor i is a copy while a function is captured, and an in-place op on it does not change x"
            f"{place_of(where)}. Write x[i] = value, or pass i as a Python integer"
        )
