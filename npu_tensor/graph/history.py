"""Which nodes are tracked: those through which gradients pass keep what they were made of after they have run.

A node is tracked if it is recorded from a tracked one while gradients are enabled. It begins with leaves, tensors that
require gradients, and with the arguments of a function that is differentiated.
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
from npu_tensor.graph.nodes import Node, located
from npu_tensor.ops.declare import Call

__all__ = [
    "GradMode",
    "Leaf",
    "Reached",
    "Tracked",
    "active",
    "depends",
    "differentiated",
    "forget",
    "grad_mode",
    "is_tracked",
    "leaf_node",
    "leaf_of",
    "leaves",
    "reached",
    "require_constant",
    "same",
    "same_value",
    "track",
]

active: Final[dict[int, Any]] = {}
"""What asks for gradients: leaves that live, by identity, and functions that are differentiated. Mostly empty."""

Reached = dict[Node, tuple[Any, ...]]
"""Nodes through which gradients pass, in the order of recording, with their inputs."""


class Leaf:
    """A tensor that requires a gradient, whatever value it names.

    gradient: its `grad`, a Tensor, or None. is_frozen: True while the tensor requires none but keeps the one it has.
    """

    __slots__ = ("__weakref__", "gradient", "is_frozen")

    def __init__(self) -> None:
        self.gradient: Any = None
        self.is_frozen = False
        number = id(self)
        active[number] = weakref.ref(self, lambda _: active.pop(number, None))


def leaves() -> list[Leaf]:
    """Those that live."""
    living = (each() for each in list(active.values()) if isinstance(each, weakref.ref))
    return [leaf for leaf in living if leaf is not None]


class Tracked(Node):
    """A node through which gradients pass. See `Node.history`."""

    __slots__ = ()


class _Mode(threading.local):
    enabled = True


grad_mode: Final = _Mode()
"""Whether what this thread records is tracked."""


class GradMode(ContextDecorator):
    """A context, and a decorator, in which what is recorded is tracked or is not."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = bool(enabled)
        self._before: list[bool] = []

    def _recreate_cm(self) -> GradMode:
        return GradMode(self.enabled)

    def __call__(self, func: Any) -> Any:
        """Return a function that runs in the mode. The body of a generator does whenever it is resumed.

        Raises TypeError for an async function: between its awaits, other tasks of the thread would run in the mode.
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
    """Whether a value depends, as floats do, on tracked ones."""
    return call.spec.dtype.is_floating_point and any(isinstance(each, Tracked) for each in inputs)


def is_tracked(call: Call, inputs: Iterable[Any]) -> bool:
    """Whether what is being recorded is."""
    return depends(call, inputs) and grad_mode.enabled


def track(node: Node, history: tuple[Any, ...] | Leaf) -> Node:
    """The node, tracked from now on."""
    node.__class__ = Tracked
    node.history = history
    return node


def same(node: Node) -> Node:
    """Another node of the same value: a view of all of it."""
    spec = node.spec
    return Node(ops.reshape.op.call((spec,), (spec.shape,)), (node,), spec, node.depth + 1, node.where)


def same_value(node: Node) -> Node:
    """Return another node of the same value, which shares the value if there is one. It is not tracked."""
    value, own = node.value, same(node)
    if value is not None:
        own.value, own.inputs, own.depth = value, (), 0
    return own


def leaf_node(node: Node, leaf: Leaf) -> Node:
    """Return a node of the same value that a leaf can name."""
    return track(same_value(node), leaf)


def leaf_of(node: Node) -> Leaf | None:
    """The leaf that names a node."""
    history = node.history if isinstance(node, Tracked) else None
    return history if isinstance(history, Leaf) else None


@contextmanager
def differentiated() -> Iterator[None]:
    """A with block in which a function is called to be differentiated."""
    block = object()
    active[id(block)] = block
    try:
        with GradMode(True):
            yield
    finally:
        del active[id(block)]


def reached(roots: Iterable[Node], targets: Collection[Node] = ()) -> Reached:
    """What depends on the targets, or on any leaf if there are none, and `roots` on it.

    GradientError for what a backward pass to the leaves has freed.
    """
    inputs: Reached = {}
    stack = [*roots]
    while stack:
        node = stack.pop()
        if node in inputs or not isinstance(node, Tracked):
            continue
        history = () if node in targets else node.history
        if history is None and not targets:
            text = "backward a second time through a graph that was freed; say retain_graph=True the first time"
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
    """End the tracking of nodes that depend on nothing tracked but each other, or if not `enabled`, of all.

    nodes: in the order of recording.
    """
    for node in nodes:
        assert node.call is not None
        if not (enabled and depends(node.call, node.history)):
            del node.history
            node.__class__ = Node


def require_constant(name: str, *nodes: Node) -> None:
    """GradientError if a function without a derivative is given what is tracked."""
    if grad_mode.enabled and any(isinstance(node, Tracked) for node in nodes):
        text = f"{name} has no derivative; pass x.detach() to take x as a constant"
        raise located(GradientError(), text, user_line(sys._getframe(1)))
