"""From a structure to its plan: the stages of planning, called one after the other."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from npu_tensor import events
from npu_tensor._util.cache_sizes import PLANS
from npu_tensor._util.interrupts import import_whole
from npu_tensor.config import config
from npu_tensor.errors import DeviceError
from npu_tensor.graph.nodes import Node, located
from npu_tensor.graph.structure import Structure, item_graph
from npu_tensor.planner import selection
from npu_tensor.planner.plan import Plan
from npu_tensor.planner.selection import Selection
from npu_tensor.runtime.store.background import builds

if TYPE_CHECKING:
    from npu_tensor.planner.device_choice import DeviceValue


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
