"""From recorded nodes to values: capture, plan (cached by structure), run.

A `Plan` is made once per distinct structure and holds no data: the networkx graph, its tasks, the kernel of each and
the bound steps. Running it fills a list of values, one per item.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.errors import BuildError, LaunchError, NpuTensorError
from npu_tensor.fuse import share_common, tasks
from npu_tensor.graph import LOCATED, PLACEHOLDER, Capture, Node, capture, digraph, no_value_yet
from npu_tensor.lifetimes import last_uses, with_donors
from npu_tensor.ops.declare import Call, keep
from npu_tensor.runtime.memory import Allocator
from npu_tensor.runtime.reference import ReferenceDevice
from npu_tensor.task import Device, Kernel, Refusal, Step, Task

if TYPE_CHECKING:
    import networkx as nx

__all__ = [
    "USER_ERRORS",
    "Placed",
    "Plan",
    "allocator",
    "devices",
    "launch_error",
    "plan",
    "realize",
    "reset",
    "reset_plans",
]

MAX_PLANS = 4096
"""Plans kept; the oldest goes first. A plan of one op takes about 50 KB with its graph and code."""


USER_ERRORS = (NpuTensorError, MemoryError)
"""Failures of a step that come from the user's values or machine and keep their class."""


class Placed(NamedTuple):
    """A task, the kernel that runs it and its bound step, with the reasons of devices that refused."""

    task: Task
    kernel: Kernel
    step: Step
    refusals: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What will run for one structure. `graph` is frozen; item numbers index the list of values.

    steps: each with the items that nobody needs afterwards. aliases: kept views -> item whose buffer they share.
    """

    graph: nx.DiGraph
    placed: tuple[Placed, ...]
    steps: tuple[tuple[Step, tuple[int, ...]], ...]
    aliases: tuple[tuple[int, int], ...]
    size: int

    def run(self, values: list[Any]) -> None:
        """Run all steps on the list of values, whose leaves are filled in; leaves kept items in it."""
        if events.listeners or config.debug:
            self._run_observed(values)
        else:
            for step, dying in self.steps:
                step(values)
                for item in dying:
                    values[item] = None
        for item, base in self.aliases:
            values[item] = values[base]

    def _run_observed(self, values: list[Any]) -> None:
        for (step, dying), placed in zip(self.steps, self.placed, strict=True):
            start = time.perf_counter()
            step(values)
            seconds = time.perf_counter() - start
            out = ", ".join(f"{o.dtype.short}{list(o.layout.shape)}" for o in placed.task.outputs)
            events.emit(events.KernelRan(placed.task.name, placed.kernel.device, out, seconds))
            if config.debug >= 2:
                print(f"{placed.kernel.device} {placed.task.name} {out} {seconds * 1e6:.1f} us")
            for item in dying:
                values[item] = None


_plans: dict[tuple[Any, ...], Plan] = {}
_single_plans: dict[Call, Plan] = {}
"""Plans of one op on data, by call: item i is operand i, the result comes last."""
_lock = threading.RLock()
_devices: list[Device] = []


@cache
def allocator() -> Allocator:
    """The memory of every tensor on this machine's processor."""
    return Allocator(config.pool_bytes)


def devices() -> list[Device]:
    """The devices in order of preference. The last one is the NumPy reference, which takes everything."""
    if not _devices:
        found: list[Device] = []
        if config.cpu_compile:
            try:
                from npu_tensor.runtime.cpu.device import CpuDevice

                found.append(CpuDevice(allocator()))
            except ImportError as error:
                warnings.warn(f"the CPU compiler cannot be used, NumPy runs everything: {error}", stacklevel=2)
        found.append(ReferenceDevice(allocator()))
        _devices.extend(found)
    return _devices


def reset_plans() -> None:
    """Forget all plans; those of functions captured by jit stay."""
    with _lock:
        _plans.clear()
        _single_plans.clear()


def reset() -> None:
    """Forget all plans and devices, so that settings of the CPU device are read again."""
    reset_plans()
    _devices.clear()


def plan(found: Capture) -> Plan:
    """The plan of a captured structure, from the cache or new."""
    ready = _plans.get(found.signature)
    if ready is None:
        with _lock:
            ready = _plans.get(found.signature)
            if ready is None:
                ready = _make(found)
                while len(_plans) >= MAX_PLANS:
                    _plans.pop(next(iter(_plans)))
                _plans[found.signature] = ready
    return ready


def _make(found: Capture) -> Plan:
    start = time.perf_counter()
    graph = digraph(found)
    size = max(graph, default=-1) + 1
    merged = share_common(graph)
    cut = tasks(graph)
    # Twins share a buffer, and so do views that cover the whole of what they view.
    aliases = {**cut.aliases, **{item: twin for item, twin in merged.items() if item in found.keep}}
    ordered = tuple((item, _root(item, aliases)) for item in aliases)
    needed_after = {base for _, base in ordered} | {item for item in found.keep if item not in aliases}
    placed = tuple(_place(task) for task in with_donors(cut.tasks, needed_after))
    dying = last_uses(cut.tasks, needed_after)
    steps = tuple((entry.step, tuple(items)) for entry, items in zip(placed, dying, strict=True))
    import networkx as nx

    made = Plan(nx.freeze(graph), placed, steps, ordered, size)
    seconds = time.perf_counter() - start
    if events.listeners:
        events.emit(events.PlanBuilt(len(found.nodes), len(steps), seconds))
    if config.debug:
        print(f"plan: {len(found.nodes)} ops in {len(steps)} kernels, {seconds * 1e3:.1f} ms")
    return made


def _root(item: int, aliases: dict[int, int]) -> int:
    while item in aliases:
        item = aliases[item]
    return item


def _place(task: Task) -> Placed:
    """The first device that claims the task and can build its kernel."""
    refusals: list[str] = []
    for device in devices():
        answer = device.claim(task)
        reason = answer.reason
        if not isinstance(answer, Refusal):
            start = time.perf_counter()
            try:
                step = answer.bind()
            except BuildError as error:
                reason = str(error)
            else:
                if events.listeners:
                    events.emit(events.KernelBuilt(task.name, device.uri, time.perf_counter() - start))
                return Placed(task, answer, step, tuple(refusals))
        refusals.append(reason)
        if events.listeners:
            events.emit(events.Fallback(task.name, device.uri, reason))
    raise AssertionError(f"no device takes {task.name}: {'; '.join(refusals)}")


def realize(nodes: Sequence[Node]) -> None:
    """Compute the values of `nodes` and of every intermediate result that a living Tensor names."""
    if len(nodes) == 1 and _realize_single(nodes[0]):
        return
    found = capture(nodes)
    if not found.nodes:
        return
    made = plan(found)
    values: list[Any] = [None] * made.size
    for item, leaf in found.leaves:
        value = leaf.value if isinstance(leaf, Node) else leaf
        if value is PLACEHOLDER:
            raise no_value_yet()
        values[item] = value
    _run(made, values, [node for _, node in found.nodes])
    for item, node in found.nodes:
        value = values[item]
        if value is not None and item in found.keep:
            node.value = value
            node.inputs = ()
            node.depth = 0
    (_, last), *others = reversed(found.nodes)
    if not others and last.call is not None and len(last.call.operands) == made.size - 1:
        keep(_single_plans, last.call, made)


def _realize_single(node: Node) -> bool:
    """The short way for one op whose operands are all data: most of what a user does line by line."""
    made = _single_plans.get(node.call)  # type: ignore[arg-type]
    if made is None:
        return False
    values = []
    inputs = node.inputs
    if node.value is not None:  # another thread was faster; it sets the value before it drops the inputs
        return True
    for operand in inputs:
        if isinstance(operand, Node):
            operand = operand.value
            if operand is None or operand is PLACEHOLDER:
                return False
        values.append(operand)
    values.append(None)
    _run(made, values, (node,))
    node.value = values[-1]
    node.inputs = ()
    node.depth = 0
    return True


def _run(made: Plan, values: list[Any], nodes: Sequence[Node]) -> None:
    """Run a plan; a step that fails raises LaunchError, errors that the user's values cause keep their class."""
    try:
        made.run(values)
    except NpuTensorError as error:
        lines = dict.fromkeys(node.line for node in nodes if node.call is error.call)
        raise type(error)(f"{error}{LOCATED}{', '.join(lines)})" if lines else str(error)) from error.__cause__
    except MemoryError:
        raise
    except Exception as error:
        raise launch_error(error, [node.line for node in nodes]) from error


def launch_error(error: Exception, lines: Iterable[str]) -> LaunchError:
    """What to raise when a step failed; names the lines that recorded its plan's ops."""
    shown = ", ".join(dict.fromkeys(filter(None, lines)))
    return LaunchError(f"{type(error).__name__}: {error} (ops recorded at {shown})")
