"""From recorded nodes to values: plans are looked up or made, by one stage after the other, and run."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from npu_tensor import events
from npu_tensor._util.cache_sizes import PLANS
from npu_tensor._util.interrupts import import_whole
from npu_tensor.config import config
from npu_tensor.errors import DeviceError, DimensionError, DivisionError
from npu_tensor.graph.nodes import PLACEHOLDER, Node, Overwriting, located, no_value_yet
from npu_tensor.graph.structure import Structure, is_loss, item_graph, pending_ops, structure_of
from npu_tensor.graph.tracing import watches
from npu_tensor.planner import selection
from npu_tensor.planner.parts import LONGEST, parts
from npu_tensor.planner.plan import Plan
from npu_tensor.planner.selection import Selection
from npu_tensor.runtime.store.background import builds

if TYPE_CHECKING:
    from npu_tensor.planner.device_choice import DeviceValue

VALUE_ERRORS: Final = DimensionError, DivisionError
"""Errors that ops raise because of the values that they read."""


def realize(nodes: Sequence[Node], wait: bool = True, chosen: Selection | None = None) -> None:
    """Compute the values of `nodes` and of every intermediate result that a living Tensor names.

    Args:
        nodes: Nodes to compute.
        wait: True to return only after asynchronous devices have finished. Reading a value waits in any case.
        chosen: Devices; None for the default ones.
    """
    try:
        _compute(nodes, wait, chosen)
    except VALUE_ERRORS as error:
        _restore(nodes, error.call)
        raise


def _restore(nodes: Sequence[Node], call: object) -> None:
    """Restore the previous values of tensors whose pending writes depend on a failed op, as in PyTorch."""
    failed: set[Node] = set()
    for node, inputs in pending_ops(nodes).items():
        if node.call is call:  # Several nodes may share the call; not all of them need fail.
            _try(node)
        if node.value is None and (node.call is call or not failed.isdisjoint(inputs)):
            before = inputs.before() if isinstance(inputs, Overwriting) else None
            if before is not None and before not in failed and _try(before):
                node.value, node.inputs, node.depth = before.value, (), 0
            else:
                failed.add(node)


def _try(node: Node) -> bool:
    with suppress(*VALUE_ERRORS):
        _compute((node,))
    return node.value is not None


def _compute(nodes: Sequence[Node], wait: bool = True, chosen: Selection | None = None) -> None:
    chosen = selection.active if chosen is None else chosen
    pending = pending_ops(nodes)
    for_gradients = is_loss(nodes)
    if len(pending) <= LONGEST:
        _realize_part(structure_of(nodes, pending, for_gradients=for_gradients), wait, chosen)
        return
    todo = parts(pending, nodes)
    del pending  # It would keep the values that later parts read, as `todo` would.
    while todo:
        _realize_part(structure_of(todo.pop(0), for_gradients=for_gradients), False, chosen)
    if wait:
        selection.synchronize()


def shorten(node: Node, longest: int) -> None:
    """Run the beginning of a chain of more than `longest` ops, up to the latest iteration of the loop that records it.

    That iteration is not cut, so that it runs with the same structure as the others.
    """
    todo = parts(pending_ops((node,)), (node,))[:-1]
    while todo:
        realize(todo.pop(0), wait=False)
    for each, inputs in pending_ops((node,)).items():
        each.depth = 1 + max((operand.depth for operand in inputs if isinstance(operand, Node)), default=0)
    if node.depth > longest:
        realize((node,), wait=False)


def _realize_part(structure: Structure, wait: bool, chosen: Selection) -> None:
    if not structure.nodes:
        return
    ready = plan(structure, chosen)
    values = structure.values()
    if PLACEHOLDER in values:
        item = values.index(PLACEHOLDER)
        readers = zip(structure.nodes, structure.operands, strict=True)
        reader = next(node for node, operands in readers if item in operands)
        raise no_value_yet(None if watches else reader)
    ready.run(values, structure.nodes, wait)
    for position in structure.keep:
        value = values[ready.first_op + position]
        if value is not None:
            node = structure.nodes[position]
            node.value = value
            node.inputs = ()
    for node in structure.nodes:
        node.depth = 0


def plan(
    structure: Structure,
    chosen: Selection | None = None,
    persistent: frozenset[int] | None = None,
    replaced: frozenset[tuple[int, int]] = frozenset(),
) -> Plan:
    """Return the plan of a structure from the cache, or make it. Other threads can plan while kernels are built.

    The default devices are used if `chosen` is None. See `PlanningContext` for the other arguments.
    """
    chosen = selection.active if chosen is None else chosen
    if chosen.accelerators is None:
        with selection.lock:
            selection.accelerators(chosen)  # It also decides whether costs count.
    resident: tuple[DeviceValue, ...] = ()
    key: Any = structure.key
    if chosen.accelerators and config.fallback != "allow":
        key = (key, config.fallback)  # An op on the processor may be an error or a warning.
    if chosen.measure is not None:
        resident = tuple(_resident(enumerate(structure.leaves)))
    if resident or (persistent is not None and chosen.accelerators):
        key = (key, resident, persistent)  # Accelerators may store constants in an order of their own.
    if replaced:
        key = (key, replaced)
    ready = chosen.plans.get(key)
    if ready is not None and not ready.outdated:
        return ready
    config.read_followed()
    return _planned(structure, key, chosen, resident, persistent, replaced)


def _planned(
    structure: Structure,
    key: Any,
    chosen: Selection,
    resident: tuple[DeviceValue, ...],
    persistent: frozenset[int] | None,
    replaced: frozenset[tuple[int, int]],
) -> Plan:
    """Make a plan and store it in the cache. Two threads that plan the same structure get the same plan."""
    import_whole("npu_tensor.planner.binding", "npu_tensor.planner.device_choice")  # Imported with the first plan.
    from npu_tensor.planner.binding import bind, prepare
    from npu_tensor.planner.channels_last import with_channels_last
    from npu_tensor.planner.device_choice import PlanningContext, choose_devices
    from npu_tensor.planner.fuse.lower import lower

    start, builds_before = time.perf_counter(), builds.finished
    with selection.lock, _paused_collector():
        context = PlanningContext(
            accelerators=selection.accelerators(chosen),
            measure=chosen.measure,
            resident=resident,
            persistent=persistent,
            replaced=dict(replaced),
            numbers={item: leaf for item, leaf in enumerate(structure.leaves) if not isinstance(leaf, Node)},
            uris=chosen.key.uris,
            without_host=chosen.key.without_host,
            fallback=config.fallback,
        )
        plans = chosen.plans
        size = len(structure.leaves) + len(structure.nodes)
        graph = item_graph(structure, merge=True)
        has_accelerators = bool(context.accelerators)
        graph, size, origins = with_channels_last(graph, size, products=has_accelerators, planes=not has_accelerators)
        placement = choose_devices(lower(graph), context)
    drafted = time.perf_counter()
    prepare(placement, context)
    with selection.lock, _paused_collector():
        ready = plans.get(key)
        if ready is not None and not ready.outdated:
            return ready
        with events.collect_parts() as parts:
            try:
                ready = bind(placement, context, size, len(structure.leaves), origins, builds_before)
            except DeviceError as error:
                # The op may be part of the function that the user has called, such as argsort of sort.
                lines = dict.fromkeys(node.line for node in structure.nodes if node.call is error.call)
                raise located(error, str(error), ", ".join(lines)) from error.__cause__
        if events.listeners:
            ops, now, drawn = len(structure.nodes), time.perf_counter(), graph.networkx()
            kernels = parts.of(events.KernelBuilt)
            events.emit(events.PlanBuilt(ops, len(ready.placed), now - start, ready, now - drafted, kernels, drawn))
        while len(plans) >= PLANS and key not in plans:
            plans.pop(next(iter(plans)))
        plans[key] = ready
    return ready


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Pause the garbage collector: a plan consists of many objects that stay alive."""
    enabled = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if enabled:
            gc.enable()


def _resident(leaves: Iterable[tuple[int, Any]]) -> Iterator[DeviceValue]:
    from npu_tensor.planner.device_choice import DeviceValue

    for item, leaf in leaves:
        home = getattr(leaf.value, "home", None) if isinstance(leaf, Node) else None
        if home is not None:
            fetched = getattr(leaf.value, "host", None) is not None
            yield DeviceValue(item, home, 0 if fetched else leaf.value.nbytes)
