"""Tracked nodes: nodes through which gradients pass keep their inputs after they have run.

A node is tracked if it is recorded from a tracked one while gradients are enabled. The first tracked nodes are leaves
(tensors that require gradients) and the arguments of a function that is differentiated. `Node.history` of a tracked
node has its inputs, the leaf that names it, or FREED.
"""

from __future__ import annotations

import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ContextDecorator, contextmanager
from functools import wraps
from operator import attrgetter
from typing import Any, Final

from npu_tensor import ops
from npu_tensor._util.user_warnings import user_line
from npu_tensor.errors import GradientError
from npu_tensor.graph.nodes import Node, located, next_order
from npu_tensor.ops.declare import Call

active: Final[dict[int, Any]] = {}
"""Living leaves by identity, and functions that are being differentiated. Empty in most programs."""

retained: Final[weakref.WeakValueDictionary[int, Any]] = weakref.WeakValueDictionary()
"""Tensors that get gradients although they are not leaves, by identity. Empty in most programs."""

FREED: Final = object()
"""History of a node whose inputs a backward pass has freed."""

Reached = dict[Node, tuple[Any, ...]]
"""Nodes through which gradients pass, in the order of recording, with their inputs."""


class Leaf:
    """A tensor that requires a gradient, independent of the value that it names.

    Attributes:
        gradient: Tensor in its `grad`, or None.
        is_frozen: True while the tensor requires no gradient but keeps the one it has, and for a retained result.
        order: Position among nodes and leaves in the order of creation.
        loss: Weak reference to the tensor whose backward pass was the last to add to the gradient, or None.
    """

    __slots__ = ("__weakref__", "gradient", "is_frozen", "loss", "order")

    def __init__(self) -> None:
        self.gradient: Any = None
        self.is_frozen = False
        self.order = next_order()
        self.loss: weakref.ref[Any] | None = None
        number = id(self)
        active[number] = weakref.ref(self, lambda _: active.pop(number, None))


def leaves() -> list[Leaf]:
    """Return the living leaves."""
    living = (each() for each in list(active.values()) if isinstance(each, weakref.ref))
    return [leaf for leaf in living if leaf is not None]


class _Mode(threading.local):
    enabled = True


grad_mode: Final = _Mode()
"""State of the thread: `enabled` is True if the nodes that it records are tracked."""


class GradMode(ContextDecorator):
    """A context manager and decorator that enables or disables tracking."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = bool(enabled)
        self._before: list[bool] = []

    def _recreate_cm(self) -> GradMode:
        return GradMode(self.enabled)

    def __call__(self, func: Any) -> Any:
        """Return a function that runs in the mode. The body of a generator runs in it whenever it is resumed.

        Raises:
            TypeError: The function is async. Other tasks of the thread would run in the mode between its awaits.
        """
        if inspect.iscoroutinefunction(func) or inspect.isasyncgenfunction(func):
            name = "enable_grad" if self.enabled else "no_grad"
            raise TypeError(f"{name} cannot decorate an async function; write `with {name}():` between two awaits")
        return self._resumed(func) if inspect.isgeneratorfunction(func) else super().__call__(func)

    def _resumed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Any:
            inner = function(*args, **kwargs)
            resume, value = inner.send, None
            try:
                while True:
                    with GradMode(self.enabled):
                        given = resume(value)
                    try:
                        resume, value = inner.send, (yield given)
                    except GeneratorExit:
                        with GradMode(self.enabled):
                            inner.close()
                        raise
                    except BaseException as error:
                        resume, value = inner.throw, error
            except StopIteration as end:
                return end.value

        return generator

    def __enter__(self) -> None:
        self._before.append(grad_mode.enabled)
        grad_mode.enabled = self.enabled

    def __exit__(self, *error: object) -> None:
        grad_mode.enabled = self._before.pop()


def depends(call: Call, inputs: Iterable[Any]) -> bool:
    """Return True if a value is floating point and has a tracked input."""
    for each in inputs:
        if isinstance(each, Node) and each.history is not None:
            return call.spec.dtype.is_floating_point
    return False


def is_tracked(call: Call, inputs: Iterable[Any]) -> bool:
    """Return True if the op that is being recorded is tracked."""
    return grad_mode.enabled and depends(call, inputs)


def same(node: Node, history: Any = None) -> Node:
    """Return another node of the same value: a view of all elements."""
    spec = node.spec
    call = ops.reshape.op.call((spec,), (spec.shape,))
    return Node(call, (node,), spec, node.depth + 1, node.where, history=history)


def same_value(node: Node, history: Any = None) -> Node:
    """Return another node of the same value, which shares a computed value."""
    value, own = node.value, same(node, history)
    if value is not None:
        own.value, own.inputs, own.depth = value, (), 0
    return own


def leaf_node(node: Node, leaf: Leaf) -> Node:
    """Return a node of the same value that a leaf can name."""
    return same_value(node, leaf)


def leaf_of(node: Node) -> Leaf | None:
    """Return the leaf that names a node, or None."""
    return node.history if isinstance(node.history, Leaf) else None


@contextmanager
def differentiated() -> Iterator[None]:
    """Enable tracking in a with block in which a function is differentiated."""
    block = object()
    active[id(block)] = block
    try:
        with GradMode(True):
            yield
    finally:
        del active[id(block)]


def reached(roots: Iterable[Node], targets: Collection[Node] = ()) -> Reached:
    """Return the nodes between the targets, or all leaves if there are none, and the roots.

    Raises:
        GradientError: A backward pass has freed a node on the way.
    """
    inputs: Reached = {}
    stack = [*roots]
    first = min((target.order for target in targets), default=-1)  # Older nodes do not depend on the targets.
    while stack:
        node = stack.pop()
        if node in inputs or node.history is None:
            continue
        history = () if node in targets else node.history
        if history is FREED and node.order > first:
            text = "backward a second time through a graph that was freed; pass retain_graph=True the first time"
            raise located(GradientError(), text, node.where)
        inputs[node] = history if isinstance(history, tuple) else ()
        stack += [operand for operand in inputs[node] if isinstance(operand, Node)]
    ordered = {node: inputs[node] for node in sorted(inputs, key=attrgetter("order"))}
    if not targets:
        return ordered
    through: Reached = {}
    for node, operands in ordered.items():
        if node in targets or any(operand in through for operand in operands if isinstance(operand, Node)):
            through[node] = operands
    return through


def forget(nodes: Iterable[Node], enabled: bool) -> None:
    """Stop tracking nodes, in the order of recording, unless they depend on a tracked one outside if `enabled`."""
    for node in nodes:
        assert node.call is not None
        if not (enabled and isinstance(node.history, tuple) and depends(node.call, node.history)):
            node.history = None


def require_constant(name: str, *nodes: Node) -> None:
    """Raise GradientError if an argument of a function without a derivative is tracked."""
    if grad_mode.enabled and any(node.history is not None for node in nodes):
        text = f"{name} has no derivative; pass x.detach() to take x as a constant"
        raise located(GradientError(), text, user_line(sys._getframe(1)))
