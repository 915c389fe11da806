"""Replays: captured functions that run again with other values."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from npu_tensor.errors import CaptureError
from npu_tensor.graph.aliasing import Storage
from npu_tensor.graph.history import Leaf, leaf_of, leaves
from npu_tensor.graph.nodes import ONE_OWNER, Data, Node, being_written
from npu_tensor.jit.trace import Derived, PlannedResult, Result, Trace, TracedPart
from npu_tensor.jit.trees import rebuild
from npu_tensor.planner.planner import realize as realize_nodes
from npu_tensor.spec import Spec
from npu_tensor.tensor import Tensor, named, rename, views_of

Replay = Callable[[tuple[Tensor, ...]], Any]

MISS = object()
"""Result of a replay that does not fit the arguments."""

STALE = object()
"""Result of a replay that no longer fits the tensors from outside."""

Place = tuple[Leaf | None, Tensor | None]
"""A tensor from outside, or the leaf whose gradient it is. The gradient may be another tensor at each call."""


def miss(tensors: tuple[Tensor, ...]) -> Any:
    return MISS


def replay_of(trace: Trace, recorded: bool) -> Replay:
    """Return the function that fills in the values, runs the plan and wraps the results.

    Args:
        trace: The trace.
        recorded: True if gradients were enabled. The replay then takes no arguments that need them.
    """
    main, specs, draws = trace.main, trace.specs, trace.draws
    plan, template, arguments, ops = main.plan, main.template, main.arguments, main.recorded
    prepare, prepared = _preparation(trace.preparation), main.prepared
    replaced = dict(main.replaced)
    leaf_with = {id(leaf.gradient): leaf for leaf in leaves() if leaf.gradient is not None}
    places = [(item, tensor, _place(tensor, leaf_with)) for item, tensor in main.outside]
    read_gradients = [leaf for _, _, (leaf, _) in places if leaf is not None]
    read_leaves = [(item, leaf) for item, _, (leaf, _) in places if leaf is not None and item not in replaced]
    read = [(item, tensor) for item, tensor, (leaf, _) in places if leaf is None and item not in replaced]
    written = [(each.target, each.item, each.spec) for each in trace.updates if isinstance(each.target, Tensor)]
    spec_of = {id(target): spec for target, _, spec in written}
    overwritten = [
        (item, place, replaced[item], spec_of[id(tensor)]) for item, tensor, place in places if item in replaced
    ]
    in_place = {id(tensor) for item, tensor, _ in places if item in replaced}
    changes = [(_place(target, leaf_with), new, spec) for target, new, spec in written if id(target) not in in_place]
    gradients = [(each.target, each.item, each.spec) for each in trace.updates if isinstance(each.target, Leaf)]
    shared = trace.touched
    sharing, moves = Storage.sharing(shared), Storage.moves
    changed = frozenset(target for target, _, _ in written if id(target) not in leaf_with)
    without_gradient, conditions = trace.without_gradient, trace.conditions
    from_none = [each.target for each in trace.updates if each.from_none and isinstance(each.target, Leaf)]
    wrapped = _results(trace)

    def replay(tensors: tuple[Tensor, ...]) -> Any:
        nonlocal moves
        if len(tensors) != len(specs):
            return MISS
        nodes = []
        for tensor, spec in zip(tensors, specs):  # noqa: B905  # The lengths are equal.
            node = tensor._current or tensor._node
            if node.spec is not spec or (recorded and node.history is not None):
                return MISS
            nodes.append(node)
        if moves != Storage.moves:
            if Storage.sharing(shared) != sharing:
                return STALE
            moves = Storage.moves
        if changed and _share_memory(tensors, changed):
            return MISS
        for leaf in without_gradient:
            if leaf.gradient is not None:
                return STALE
        for current, captured in conditions:
            if current() != captured:
                return STALE
        for leaf in from_none:
            if leaf.gradient is not None:
                raise CaptureError(
                    "a leaf had no gradient when the function was captured, and has one now; call zero_grad() in the "
                    "function, before backward()"
                )
        values = template.copy()
        for leaf in read_gradients:
            if leaf.gradient is None:
                return STALE
        for item, tensor in read:
            node = tensor._current or tensor._node
            values[item] = _value(node) if node.value is None else node.value
        for item, leaf in read_leaves:
            values[item] = _value(leaf.gradient._node)
        if prepared:
            kept = prepare()
            for item, earlier in prepared:
                values[item] = kept[earlier]
        for item, number in arguments:
            node = nodes[number]
            values[item] = _value(node) if node.value is None else node.value
        for generator, items in draws:
            seed = generator.draw()
            for item in items:
                values[item] = seed
        if overwritten:
            assert plan is not None
            targets = [(item, _tensor_at(place), new, spec) for item, place, new, spec in overwritten]
            _run_overwriting(targets, values, functools.partial(plan.run, values, ops, True))
        elif plan is not None:
            plan.run(values, ops, True)
        for place, new, new_spec in changes:
            assert new is not None
            assert new_spec is not None
            rename(_tensor_at(place), Data(new_spec, values[new]))
        for leaf, new, new_spec in gradients:
            leaf.gradient = None if new is None or new_spec is None else named(new_spec, values[new])
        return wrapped(tensors, values)

    return replay


def _preparation(stage: TracedPart) -> Callable[[], list[Any]]:
    """Return a function that returns the values of a stage, computed again when a tensor from outside has changed.

    Values are immutable, so a tensor with another value names another node. Weak references do not keep a value that
    is written in place from having one owner.
    """
    plan, template, recorded = stage.plan, stage.template, stage.recorded
    items, tensors = [item for item, _ in stage.outside], [tensor for _, tensor in stage.outside]
    latest: tuple[list[weakref.ref[Node]], list[Any]] | None = None

    def prepare() -> list[Any]:
        nonlocal latest
        nodes = [tensor._current or tensor._node for tensor in tensors]
        ready = latest  # Another thread may replace it at any time.
        if ready is not None and [reference() for reference in ready[0]] == nodes:
            return ready[1]
        values = template.copy()
        for item, node in zip(items, nodes, strict=True):
            values[item] = _value(node)
        assert plan is not None
        plan.run(values, recorded, True)
        for item in items:
            values[item] = None  # The tensor owns it.
        latest = [weakref.ref(node) for node in nodes], values
        return values

    return prepare


def _place(tensor: Tensor, leaf_with: dict[int, Leaf]) -> Place:
    leaf = leaf_with.get(id(tensor))
    return (None, tensor) if leaf is None else (leaf, None)


def _tensor_at(place: Place) -> Any:
    leaf, tensor = place
    return tensor if leaf is None else leaf.gradient


def _value(node: Node) -> Any:
    if node.value is None:
        realize_nodes((node,))
    return node.value


def _share_memory(tensors: Sequence[Tensor], changed: frozenset[Tensor]) -> bool:
    """Return True if an argument is, or shares memory with, a tensor from outside that the function changes."""
    for tensor in tensors:
        if tensor in changed:
            return True
        alias = tensor._alias
        if alias is not None and any(each._alias is not None and each._alias[0] is alias[0] for each in changed):
            return True
    return False


def _run_overwriting(
    overwritten: list[tuple[int, Tensor, int, Spec | None]], values: list[Any], run: Callable[[], None]
) -> None:
    """Run a plan that writes over the values of tensors from outside: old item, tensor, new item and new spec.

    Meanwhile these tensors name pending nodes, for which other threads wait.
    """
    writes: list[_Write] = []
    try:
        for item, tensor, new, _ in overwritten:
            before = tensor._node
            _value(before)
            pending = Node(None, (), before.spec, 0, None, history=leaf_of(before))
            write = _Write(tensor, before, pending, new)
            being_written[pending] = get_ident(), write.copy_before
            writes.append(write)
            tensor._name(pending)
            del before
            values[item] = _own_value(write)
        run()
        for write in writes:
            write.pending.value = values[write.new]
    except BaseException:
        for write in writes:  # The tensor keeps the new node, because the memory may hold the new value.
            write.pending.value = write.before.value
        raise
    finally:
        for write in writes:
            being_written.pop(write.pending, None)
    for write, (*_, spec) in zip(writes, overwritten, strict=True):
        assert spec is not None
        if write.tensor._alias is not None or spec is not write.pending.spec:
            rename(write.tensor, Data(spec, write.pending.value))


@dataclass(slots=True)
class _Write:
    """A write over the value of a tensor from outside, which names a pending node meanwhile."""

    tensor: Tensor
    before: Node
    pending: Node
    new: int  # item of the new value

    def copy_before(self) -> Any:
        return self.before.value.copy()


def _own_value(write: _Write) -> Any:
    """Return the old value, or a copy if it has other owners."""
    node = write.before
    value = node.value
    has_one_owner = sys.getrefcount(node) <= ONE_OWNER and sys.getrefcount(value) <= ONE_OWNER
    return value if has_one_owner and value.is_overwritable else value.copy()


def _results(trace: Trace) -> Callable[[tuple[Tensor, ...], list[Any]], Any]:
    """Return the function that wraps the computed values in the structure that the captured function returned."""
    single = isinstance(trace.result, Tensor)
    if single and isinstance(trace.results[0], PlannedResult):
        only = trace.results[0]
        return lambda tensors, values: named(only.spec, values[only.item])
    # Views follow their sources, and results that are returned again follow both.
    ranks = {Derived: 1, Result: 2}
    in_order = sorted(enumerate(trace.results), key=lambda each: ranks.get(type(each[1]), 0))
    build = functools.partial(rebuild, trace.result)

    def wrapped(tensors: tuple[Tensor, ...], values: list[Any]) -> Any:
        results: list[Any] = [None] * len(in_order)
        for position, result in in_order:
            if isinstance(result, PlannedResult):
                results[position] = named(result.spec, values[result.item])
            elif isinstance(result, int):
                results[position] = tensors[result]
            elif isinstance(result, Node):
                results[position] = named(result.spec, result.value)
            elif isinstance(result, Derived):
                results[position] = views_of(_source(result.source, tensors, results), result.views)
            elif isinstance(result, Result):
                results[position] = results[result.position]
            else:
                results[position] = result
        return results[0] if single else build(results)

    return wrapped


def _source(source: int | Tensor | Result, tensors: tuple[Tensor, ...], results: list[Any]) -> Any:
    if isinstance(source, Result):
        return results[source.position]
    return tensors[source] if isinstance(source, int) else source
