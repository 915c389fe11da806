"""Tracing a function on placeholders, and the record that a replay needs.

A tensor that a captured function computes and leaves outside, for example in a global list, has no value. Reading it
later raises CaptureError with the line that recorded it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import CodeType
from typing import Any, NamedTuple, TypeVar

from npu_tensor import ops
from npu_tensor.graph.aliasing import View
from npu_tensor.graph.history import Leaf, leaves, same
from npu_tensor.graph.nodes import PLACEHOLDER, Data, Node, source_line
from npu_tensor.graph.structure import Structure, pending_ops, structure_of
from npu_tensor.graph.tracing import Watch, watched
from npu_tensor.jit.preparation import prepared_nodes
from npu_tensor.jit.trees import flatten, rebuild
from npu_tensor.ops.declare import Call
from npu_tensor.planner.plan import Plan
from npu_tensor.planner.planner import plan
from npu_tensor.planner.planner import realize as realize_nodes
from npu_tensor.planner.selection import Selection
from npu_tensor.spec import Spec
from npu_tensor.tensor import Tensor, wrap

R = TypeVar("R")

# Placeholder for the tensors of a stored result, whose own nodes would keep data alive.
BLANK = Tensor.__new__(Tensor)


class Recorded(NamedTuple):
    """Op of a node and the instruction that recorded it."""

    call: Call | None
    where: tuple[CodeType, int] | None

    @property
    def line(self) -> str:
        """The recording line as "file.py:12", or ""."""
        return source_line(*self.where) if self.where else ""


class Derived(NamedTuple):
    """A result that shares memory with another tensor.

    Attributes:
        source: Number of an argument, a tensor from outside, or the position of another result.
        views: View ops that lead from the source to the result.
    """

    source: int | Tensor | Result
    views: tuple[Call, ...]


class Result(NamedTuple):
    """Position of an equal result among the results."""

    position: int


class Update(NamedTuple):
    """A tensor from outside, or the `grad` of a leaf, that each call changes.

    Attributes:
        target: Tensor, or leaf whose `grad` becomes another tensor.
        item: Item of the new value; None if the gradient is removed.
        spec: Shape and dtype of the new value.
        from_none: True if the gradient must be None before the call.
    """

    target: Tensor | Leaf
    item: int | None
    spec: Spec | None
    from_none: bool = False


class PlannedResult(NamedTuple):
    """A result that the plan computes."""

    item: int
    spec: Spec


class TracedPart(NamedTuple):
    """A part of a trace that one plan computes.

    Attributes:
        structure: Structure of the part.
        template: Values of all items, with the constants filled in.
        arguments: Items that are tensor arguments, each with the number of the argument.
        outside: Items that are tensors from outside the function.
        prepared: Items that an earlier stage has computed, each with its item there.
        recorded: Ops of the nodes, with their lines.
        persistent: See `PlanningContext`.
        replaced: See `PlanningContext`.
        plan: Plan that computes the items; None if there is nothing to compute.
    """

    structure: Structure
    template: list[Any]
    arguments: tuple[tuple[int, int], ...]
    outside: tuple[tuple[int, Tensor], ...]
    prepared: tuple[tuple[int, int], ...]
    recorded: tuple[Recorded, ...]
    persistent: frozenset[int]
    replaced: frozenset[tuple[int, int]] = frozenset()
    plan: Plan | None = None

    def planned(self, devices: Selection) -> TracedPart:
        """Return the stage with the plan in the cache, or with a new one if that is outdated."""
        if not self.structure.nodes:
            return self
        return self._replace(plan=plan(self.structure, devices, self.persistent, self.replaced))


class Trace(NamedTuple):
    """The parts of a trace that its replay needs.

    Attributes:
        specs: Shapes and dtypes of the arguments.
        preparation: TracedPart that computes values that depend only on constants and on tensors from outside.
        main: TracedPart that each call runs.
        results: One entry per result: a computed item, the node of a constant, a tensor from outside, the number of an
            argument, a view of another tensor, or the position of the same tensor among the results.
        result: Structure that the function returned, without its tensors.
        devices: Devices that the plans are made for.
        updates: Tensors and gradients outside that each call changes.
        draws: Generators that each call draws from, each with the items that are seeds drawn from it.
        touched: Tensors from outside that the function reads or changes.
        without_gradient: Leaves outside that had no gradient when the function read it.
        conditions: Functions of state outside, each with the result that the trace depends on.
        modules: Modules whose training mode the function has read.
        is_tracked: True if gradients pass through a result, so that each call has to record.
    """

    specs: tuple[Spec, ...]
    preparation: TracedPart
    main: TracedPart
    results: tuple[PlannedResult | Node | Tensor | int | Derived | Result, ...]
    result: Any
    devices: Selection
    updates: tuple[Update, ...]
    draws: tuple[tuple[Any, tuple[int, ...]], ...]
    touched: tuple[Tensor, ...]
    without_gradient: tuple[Leaf, ...]
    conditions: tuple[tuple[Callable[[], Any], Any], ...]
    modules: tuple[weakref.ref[Any], ...]
    is_tracked: bool

    @property
    def plans(self) -> list[Plan]:
        """Plans of the stages that compute something."""
        return [stage.plan for stage in (self.preparation, self.main) if stage.plan is not None]

    def planned(self) -> Trace:
        """Return the trace with the plans in the cache, or with new ones if they are outdated."""
        preparation, main = self.preparation.planned(self.devices), self.main.planned(self.devices)
        return self._replace(preparation=preparation, main=main)


def is_training(module: weakref.ref[Any]) -> bool:
    """Return the mode of a module; False if it is gone."""
    referent = module()
    return referent is not None and referent.training


def placeholder(tensor: Tensor) -> Tensor:
    """Return a tensor of the same shape and dtype without a value."""
    return wrap(Data(tensor._node.spec, PLACEHOLDER))


def call_traced(
    function: Callable[..., R], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Watch, R, list[Tensor]]:
    """Call a function on placeholders. Tensors from outside keep their values.

    Returns:
        The effects of the function, with the new values of tensors from outside in `changed` and `gradients`; its
        result; and the tensors in the result.

    Raises:
        CaptureError: The function reads a value or changes an argument.
    """
    outputs: list[Tensor] = []
    with watched() as watch:
        try:
            result = function(*args, **kwargs)
            flatten(result, outputs)
            for tensor in outputs:
                tensor._node  # noqa: B018  # Records the node if a write to another tensor has changed it.
        finally:
            watch.restore()
    return watch, result, outputs


def trace_call(
    function: Callable[..., Any], args: Any, kwargs: Any, tensors: list[Tensor], devices: Selection
) -> Trace:
    """Trace a call, with `tensors` among its arguments, that is to be planned for some devices.

    Raises:
        CaptureError: The function reads a value or changes an argument.
    """
    placeholders = [placeholder(tensor) for tensor in tensors]
    specs = tuple(tensor._node.spec for tensor in tensors)
    numbers = {tensor._node: number for number, tensor in enumerate(placeholders)}
    watch, result, outputs = call_traced(function, *rebuild((args, kwargs), placeholders))
    result = rebuild(result, [BLANK] * len(outputs))
    changes: list[tuple[Tensor | Leaf, Node | None, bool]] = []
    for changed, node in watch.changed.items():
        changes.append((changed, node, False))
    for leaf, (new, from_none) in watch.gradients.items():
        changes.append((leaf, None if new is None else new._node, from_none and new is not None))
    _realize_older([*(t._node for t in outputs), *(node for _, node, _ in changes if node is not None)], watch)
    # A computed value needs another item, which is the new value of a tensor from outside.
    changes = [(each, same(node) if node and node.value is not None else node, none) for each, node, none in changes]
    changed_nodes = [node for _, node, _ in changes if node is not None]
    own = {id(tensor) for tensor in placeholders}
    inside = [position for position, tensor in enumerate(outputs) if id(tensor) in own or tensor in watch.made]
    not_computed = {tensor: _given(tensor, numbers, watch) for tensor in outputs if tensor._node.value is not None}
    not_computed |= {tensor: tensor for position, tensor in enumerate(outputs) if position not in inside}
    derived = {p: v for p, v in _derived(outputs, numbers, watch).items() if p in inside or isinstance(v, Result)}
    roots = [t._node for position, t in enumerate(outputs) if t not in not_computed and position not in derived]
    is_tracked = any(isinstance(node.history, tuple) for node in (*roots, *changed_nodes))
    roots += changed_nodes
    # Callers may change the tensor that is returned for a constant; the constant itself must stay.
    constants = {tensor for tensor, value in not_computed.items() if isinstance(value, Node)}
    outside = {leaf: read for leaf, read in watch.reads.items() if watch.reader(leaf) is read and read not in constants}
    gradients = {id(leaf.gradient) for leaf in leaves()}  # A later call may replace them.
    varies = _varies([each for each, _, _ in changes if isinstance(each, Tensor)], gradients)
    varying = {*watch.draws, *numbers, *(node for node, read in outside.items() if varies(read))}
    prepared = prepared_nodes(roots, varying)
    preparation = _stage(structure_of(prepared, only_roots=True), numbers, outside)
    kept = preparation.structure.keep
    numbered = enumerate(preparation.structure.numbered)
    earlier = {node: item for position, (item, node) in numbered if position in kept}
    structure = structure_of(roots, pending_ops(roots, earlier), only_roots=True)
    main = _stage(structure, numbers, outside, earlier)
    items = {node: item for item, node in structure.numbered}
    planned = {t: PlannedResult(items[t._node], t._node.spec) for t in outputs if t._node in items}
    results = tuple(
        derived[p] if p in derived else not_computed[t] if t in not_computed else planned[t]
        for p, t in enumerate(outputs)
    )
    updates = tuple(
        Update(each, items[node], node.spec, none) if node else Update(each, None, None) for each, node, none in changes
    )
    read = [(weakref.ref(module), mode) for module, mode in watch.modules.values()]
    watch.modules.clear()  # Modules that the function has made are gone now.
    modes = {module: mode for module, mode in read if module() is not None}
    touched = tuple(tensor for number, tensor in watch.touched.items() if number not in own | gradients)
    new_items = {update.target: update.item for update in updates if update.item is not None}
    replaced = frozenset((item, new_items[tensor]) for item, tensor in main.outside if tensor in new_items)
    seeds = {stand_in: list[int]() for stand_in in watch.draws}
    for item, leaf in enumerate(structure.leaves):
        if type(leaf) is int and leaf in seeds:
            seeds[leaf].append(item)
    return Trace(
        specs=specs,
        preparation=preparation,
        main=main._replace(replaced=replaced),
        results=results,
        result=result,
        devices=devices,
        updates=updates,
        draws=tuple((generator, tuple(seeds[stand_in])) for stand_in, generator in watch.draws.items()),
        touched=touched,
        without_gradient=tuple(watch.without_gradient),
        conditions=(*watch.conditions, *((partial(is_training, module), mode) for module, mode in modes.items())),
        modules=tuple(modes),
        is_tracked=is_tracked,
    )


def _stage(
    structure: Structure,
    numbers: dict[Node, int],
    outside: dict[Node, Tensor],
    earlier: Mapping[Node, int] | None = None,
) -> TracedPart:
    """Return the stage that computes a structure; `earlier` are nodes that another stage has computed."""
    earlier = earlier or {}
    template: list[Any] = [None] * (len(structure.leaves) + len(structure.nodes))
    arguments: list[tuple[int, int]] = []
    read: list[tuple[int, Tensor]] = []
    prepared: list[tuple[int, int]] = []
    for item, leaf in enumerate(structure.leaves):
        if not isinstance(leaf, Node):
            template[item] = leaf
        elif leaf in earlier:
            prepared.append((item, earlier[leaf]))
        elif leaf in numbers:
            arguments.append((item, numbers[leaf]))
        elif leaf in outside:
            read.append((item, outside[leaf]))
        else:
            template[item] = leaf.value
    return TracedPart(
        structure=structure,
        template=template,
        arguments=tuple(arguments),
        outside=tuple(read),
        prepared=tuple(prepared),
        recorded=tuple(Recorded(node.call, node.where) for node in structure.nodes),
        persistent=frozenset(
            n for n, leaf in enumerate(structure.leaves) if isinstance(leaf, Node) and leaf not in numbers
        ),
    )


def _varies(written: Sequence[Tensor], gradients: set[int]) -> Callable[[Tensor], bool]:
    """Return a function that is True for written tensors, tensors that share memory with one, and gradients."""
    own = gradients | {id(each) for each in written}
    storages = {each._alias[0] for each in written if each._alias is not None}
    return lambda tensor: id(tensor) in own or (tensor._alias is not None and tensor._alias[0] in storages)


def _given(tensor: Tensor, numbers: dict[Node, int], watch: Watch) -> Node | Tensor | int:
    """Return the entry in `Trace.results` of a result that the plan does not compute."""
    node = tensor._node
    if node in numbers:
        return numbers[node]
    return tensor if watch.is_outside(node) else node


def _derived(outputs: list[Tensor], numbers: dict[Node, int], watch: Watch) -> dict[int, Derived | Result]:
    """Return the results that are views of arguments, of tensors from outside or of other results, by position.

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
        # The first of several tensors of one view is computed.
        own = (len(view.path), position)
        sources: list[tuple[int | Tensor | Result, View]] = [
            (numbers.get(each._node, each), each._alias[1])
            for each in watch.touched.values()
            if each._alias is not None and each._alias[0] is storage and watch.is_outside(each._node)
        ]
        results = [(Result(p), v) for p, s, v in members if s is storage and (len(v.path), p) < own]
        sources += sorted(results, key=lambda result: (len(result[1].path), result[0]))
        for source, seen in sources:
            if view.path[: len(seen.path)] == seen.path:
                same = ops.reshape.op.call((view.spec,), (view.spec.shape,))
                derived[position] = Derived(source, view.path[len(seen.path) :] or (same,))
                outputs[position]._node.handle = None  # Its value is not needed.
                break
    for position, storage, _ in members:
        if not storage.is_outside(watch):
            outputs[position]._alias = None  # Release the storage and its values.
    return derived


def _realize_older(roots: list[Node], watch: Watch) -> None:
    """Compute nodes recorded before tracing, so that they count as data read from outside."""
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
