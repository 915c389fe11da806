"""What a function records when it is called on placeholders, and what of that a replay needs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from npu_tensor import ops
from npu_tensor.graph.aliasing import View
from npu_tensor.graph.nodes import PLACEHOLDER, Capture, Data, Node, Watch, capture, outside_change, watches
from npu_tensor.jit.trees import flatten, rebuild
from npu_tensor.ops.declare import Call
from npu_tensor.planner.plan import Plan
from npu_tensor.planner.schedule import plan
from npu_tensor.planner.schedule import realize as realize_nodes
from npu_tensor.planner.selection import Selection
from npu_tensor.spec import Spec
from npu_tensor.tensor import Tensor, wrap

__all__ = ["Captured", "capture_call"]

R = TypeVar("R")

# Marks the places of tensors in a stored result, whose own nodes would keep data alive.
BLANK = Tensor.__new__(Tensor)


class Recorded(NamedTuple):
    """What stays of a node: where it was recorded."""

    line: str


class Graph(NamedTuple):
    """What a function has recorded, and what it is planned for. lasting: see `Costs`."""

    found: Capture
    devices: Selection
    lasting: frozenset[int]

    def plan(self) -> Plan:
        """From the cache, unless that one is outdated."""
        return plan(*self)


class Derived(NamedTuple):
    """A result that shares memory with another tensor, by the view ops that lead from that one to it.

    source: the number of an argument, a tensor from outside, or the result in `Result`.
    """

    source: int | Tensor | Result
    views: tuple[Call, ...]


class Result(NamedTuple):
    """The position of a result among the results."""

    position: int


class Captured(NamedTuple):
    """What one signature's replay needs.

    specs: of the arguments. template: the plan's list of values with constants filled in. arguments: (item, number
    of the tensor argument). outside: (item, tensor from outside the function). results: (item, spec); the node of a
    constant that the function made; the tensor itself where the function returns one from outside, or the number of an
    argument that it returns; what it is a view of; or the same tensor among the results. result: what the function
    returned. recorded: the items of the ops. graph: what the plan was made for.
    """

    specs: tuple[Spec, ...]
    plan: Plan | None
    template: list[Any]
    arguments: tuple[tuple[int, int], ...]
    outside: tuple[tuple[int, Tensor], ...]
    results: tuple[tuple[int, Spec] | Node | Tensor | int | Derived | Result, ...]
    result: Any
    recorded: tuple[tuple[int, Recorded], ...]
    graph: Graph | None = None


def capture_call(
    function: Callable[..., Any], args: Any, kwargs: Any, tensors: list[Tensor], devices: Selection
) -> Captured:
    """What a call with these arguments records, planned for some devices. tensors: those among the arguments.

    Raises CaptureError where the function reads a value or changes a tensor from outside.
    """
    placeholders = [wrap(Data(t._node.spec, PLACEHOLDER)) for t in tensors]
    specs = tuple(tensor._node.spec for tensor in tensors)
    numbers = {placeholder._node: number for number, placeholder in enumerate(placeholders)}
    outputs: list[Tensor] = []
    watch, result = _watched(function, rebuild(args, placeholders), rebuild(kwargs, placeholders), outputs)
    result = rebuild(result, [BLANK] * len(outputs))
    _realize_older([tensor._node for tensor in outputs], watch)
    given = {tensor: _given(tensor, numbers, watch) for tensor in outputs if tensor._node.value is not None}
    derived = _derived(outputs, numbers, watch)
    roots = [t._node for position, t in enumerate(outputs) if t not in given and position not in derived]
    found = _capture_results(roots)
    items = {node: item for item, node in found.nodes}
    results = tuple(
        derived[p] if p in derived else given[t] if t in given else (items[t._node], t._node.spec)
        for p, t in enumerate(outputs)
    )
    if not roots:
        return Captured(specs, None, [], (), (), results, result, ())
    lasting = frozenset(item for item, leaf in found.leaves if isinstance(leaf, Node) and leaf not in numbers)
    graph = Graph(found, devices, lasting)
    made = graph.plan()
    template: list[Any] = [None] * made.size
    arguments: list[tuple[int, int]] = []
    outside: list[tuple[int, Tensor]] = []
    # Who gets such a result may change the handle that is captured, and only that; the constant stays.
    constants = {tensor for tensor, value in given.items() if isinstance(value, Node)}
    for item, leaf in found.leaves:
        if not isinstance(leaf, Node):
            template[item] = leaf
        elif leaf in numbers:
            arguments.append((item, numbers[leaf]))
        elif (handle := leaf.tensor) is not None and handle not in constants:
            outside.append((item, handle))
        else:
            template[item] = leaf.value
    recorded = tuple((item, Recorded(node.line)) for item, node in found.nodes)
    return Captured(specs, made, template, tuple(arguments), tuple(outside), results, result, recorded, graph)


def _watched(function: Callable[..., R], args: Any, kwargs: Any, outputs: list[Tensor]) -> tuple[Watch, R]:
    """Call a function on placeholders. CaptureError if it changes handles from outside, which keep their values.

    outputs: gets the tensors of the result.
    """
    thread = threading.get_ident()
    watch = watches[thread] = Watch()
    try:
        result = function(*args, **kwargs)
        flatten(result, outputs)
        for tensor in outputs:
            tensor._node  # noqa: B018  # which is recorded here if a write to another tensor has changed it
    finally:
        del watches[thread]
    if watch.changes:
        raise outside_change(watch.changes[0])
    return watch, result


def _given(tensor: Tensor, numbers: dict[Node, int], watch: Watch) -> Node | Tensor | int:
    """What `Captured.results` says of a result that is not computed by the plan."""
    node = tensor._node
    if node in numbers:
        return numbers[node]
    return tensor if watch.is_outside(node) else node


def _derived(outputs: list[Tensor], numbers: dict[Node, int], watch: Watch) -> dict[int, Derived | Result]:
    """The results that are views of arguments, of tensors from outside or of other results, by position.

    A tensor that is returned several times is one result.
    """
    derived: dict[int, Derived | Result] = {}
    first: dict[int, int] = {}
    for position, output in enumerate(outputs):
        if first.setdefault(id(output), position) != position:
            derived[position] = Result(first[id(output)])
    members = [(position, *alias) for position in first.values() if (alias := outputs[position]._alias) is not None]
    for position, storage, view in members:
        if watch.is_outside(outputs[position]._node):
            continue
        # Of several handles of one view the first is computed.
        own = (len(view.path), position)
        sources: list[tuple[int | Tensor | Result, View]] = [
            (numbers.get(member._node, member), member._alias[1])
            for member in storage.living()
            if watch.is_outside(member._node)
        ]
        results = [(Result(p), v) for p, s, v in members if s is storage and (len(v.path), p) < own]
        sources += sorted(results, key=lambda result: (len(result[1].path), result[0]))
        for source, seen in sources:
            if view.path[: len(seen.path)] == seen.path:
                same = ops.reshape.op.call((view.spec,), (view.spec.shape,))
                derived[position] = Derived(source, view.path[len(seen.path) :] or (same,))
                outputs[position]._node.handle = None  # whose value is not needed
                break
    for position, storage, _ in members:
        if not storage.is_outside(watch):
            outputs[position]._alias = None  # so that the storage and what it keeps are gone
    return derived


def _realize_older(roots: list[Node], watch: Watch) -> None:
    """Compute what was recorded before the capture, so that it counts as data read from outside."""
    seen = set(roots)
    stack = list(roots)
    older = []
    while stack:
        node = stack.pop()
        if node.value is not None:
            continue
        if watch.is_outside(node):
            older.append(node)
            continue
        for operand in node.inputs:
            if isinstance(operand, Node) and operand not in seen:
                seen.add(operand)
                stack.append(operand)
    realize_nodes(older)


def _capture_results(roots: list[Node]) -> Capture:
    """What a function has recorded for its results. CaptureError if a tensor outside the function names a part of it.

    For some moments, that may be a frame of the function itself: sampling profilers hold the frames of other threads.
    """
    escaped: list[Node] = []
    for seconds in (0, 1e-3, 1e-2, 1e-1):
        if seconds:
            time.sleep(seconds)
        found = capture(roots)
        kept = [node for item, node in found.nodes if item in found.keep and node not in roots]
        escaped = [node for node in kept if node.tensor is not None]
        if not escaped:
            return found
    raise outside_change(escaped[0].where)
