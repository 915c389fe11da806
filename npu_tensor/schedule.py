"""From recorded nodes to values: capture, plan (cached by structure), run.

A `Plan` is made once per distinct structure and holds no data: the networkx graph, its tasks, the kernel of each and
the bound steps. Running it fills a list of values, one per item.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from npu_tensor import events, logs
from npu_tensor.config import config
from npu_tensor.errors import BuildError, DeviceError, LaunchError, NpuTensorError
from npu_tensor.fuse import Tasks, share_common, tasks
from npu_tensor.graph import LOCATED, PLACEHOLDER, Capture, Node, capture, digraph, no_value_yet
from npu_tensor.lifetimes import last_uses, with_donors
from npu_tensor.ops.declare import Call, keep
from npu_tensor.runtime.memory import Allocator
from npu_tensor.runtime.reference import ReferenceDevice
from npu_tensor.task import AsynchronousDevice, Device, HostDevice, Kernel, Refusal, Step, Task
from npu_tensor.user_warnings import warn

if TYPE_CHECKING:
    import networkx as nx

    from npu_tensor.runtime.device_uri import DeviceUri

__all__ = [
    "USER_ERRORS",
    "Placed",
    "Plan",
    "allocator",
    "before_planning",
    "default_device",
    "devices",
    "host_devices",
    "host_step",
    "launch_error",
    "placement_changed",
    "plan",
    "realize",
    "reset",
    "reset_plans",
    "set_default_device",
    "synchronize",
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
    asynchronous: devices of steps that return before their work is done.
    """

    graph: nx.DiGraph
    placed: tuple[Placed, ...]
    steps: tuple[tuple[Step, tuple[int, ...]], ...]
    aliases: tuple[tuple[int, int], ...]
    size: int
    asynchronous: tuple[AsynchronousDevice, ...] = ()

    def run(self, values: list[Any], wait: bool = True) -> None:
        """Run all steps on the list of values, whose leaves are filled in; leaves kept items in it.

        wait: whether asynchronous devices have ended their work when this returns.
        """
        if events.listeners or config.debug:
            self._run_observed(values)
        else:
            for step, dying in self.steps:
                step(values)
                for item in dying:
                    values[item] = None
        for item, base in self.aliases:
            values[item] = values[base]
        for device in self.asynchronous:
            if wait:
                device.synchronize()
            else:
                device.submit()

    def _run_observed(self, values: list[Any]) -> None:
        for (step, dying), placed in zip(self.steps, self.placed, strict=True):
            start = time.perf_counter()
            step(values)
            for device in self.asynchronous:
                device.synchronize()  # so that the time is that of this step
            seconds = time.perf_counter() - start
            out = ", ".join(f"{o.dtype.short}{list(o.layout.shape)}" for o in placed.task.outputs)
            events.emit(events.KernelRan(placed.task.name, placed.kernel.device, out, seconds, self))
            if config.debug >= 2:
                print(f"{placed.kernel.device} {placed.task.name} {out} {seconds * 1e6:.1f} us")
            for item in dying:
                values[item] = None


@dataclass(slots=True)
class _Placement:
    """Which devices take tasks, in order of preference (opened at first use), and the plans made for them.

    single_plans: plans of one op on data, by call: item i is operand i, the result comes last.
    """

    uri: str
    devices: list[Device] = field(default_factory=list)
    plans: dict[tuple[Any, ...], Plan] = field(default_factory=dict)
    single_plans: dict[Call, Plan] = field(default_factory=dict)


_lock = threading.RLock()


def _in_child() -> None:
    """The thread that may have held the lock does not exist in a forked process."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

_host_devices: list[HostDevice] = []
_opened_devices: dict[str, Device] = {}
_placements: dict[str, _Placement] = {}
_active = _Placement("")
"""At first one without a URI: `default_device` reads the setting when it is asked."""

placement_changed: list[Callable[[], None]] = []
"""Called after another default device was set."""

before_planning: list[Callable[[], None]] = []
"""Called before a plan is made."""


@cache
def allocator() -> Allocator:
    """The memory of every tensor on this machine's processor."""
    return Allocator(config.pool_bytes)


def host_devices() -> list[HostDevice]:
    """The CPU device, where it can be had, and the NumPy reference, which takes everything."""
    if not _host_devices:
        found: list[HostDevice] = []
        if config.cpu_compile:
            try:
                from npu_tensor.runtime.cpu.device import CpuDevice

                found.append(CpuDevice(allocator()))
            except ImportError as error:
                warn(f"the CPU compiler cannot be used, NumPy runs everything: {error}")
        found.append(ReferenceDevice(allocator()))
        _host_devices.extend(found)
    return _host_devices


def devices() -> list[Device]:
    """The devices in order of preference; those of the host come last and take what the others refuse.

    A device that NPU_TENSOR_DEVICE names and that is not there is left out with a warning, unless NPU_TENSOR_FALLBACK
    forbids the CPU. Raises DeviceError for what is no device.
    """
    if not _active.devices:
        uris = default_device()
        try:
            opened = _opened(uris, alone=config.fallback == "error")
        except DeviceError as error:
            raise DeviceError(f"{config.origin('device')}={uris!r}: {error}", error.code) from None
        _active.devices.extend([*opened, *host_devices()])
    return _active.devices


def _opened(uris: str, alone: bool) -> list[Device]:
    """The devices that can be had; with a warning for each of the others, unless nothing was named that could take
    their place. alone: whether the CPU cannot, because it was not named.
    """
    from npu_tensor.runtime.device_uri import split_uris
    from npu_tensor.runtime.devices import preferred_uris

    wanted = preferred_uris(uris)
    found: list[Device] = []
    missing: list[DeviceError] = []
    for uri in wanted:
        try:
            found.append(_device_at(uri))
        except DeviceError as error:
            missing.append(error)
    instead = bool(found) or not alone or len(split_uris(uris)) > len(wanted)
    if missing and not instead:
        raise missing[0]
    for left_out in missing:
        warn(f"left out: {left_out}")
    return found


def _device_at(uri: DeviceUri) -> Device:
    """One object per URI: what was opened stays open."""
    device = _opened_devices.get(uri.text)
    if device is None:
        from npu_tensor.runtime.devices import open_device

        device = _opened_devices[uri.text] = open_device(uri, allocator(), host_step)
    return device


def host_step(task: Task) -> Step:
    """The step that computes a task on this machine's processor; the NumPy reference takes every task."""
    for device in host_devices():
        answer = device.claim(task)
        if not isinstance(answer, Refusal):
            try:
                return answer.bind()
            except BuildError:
                continue
    raise AssertionError(f"the processor does not take {task.name}")


def synchronize() -> None:
    """Wait until everything that asynchronous devices were asked for has ended. Raises what went wrong."""
    for device in list(_opened_devices.values()):
        if isinstance(device, AsynchronousDevice):
            device.synchronize()


def default_device() -> str:
    """The URIs that were given to `set_default_device`, or in NPU_TENSOR_DEVICE."""
    if not _active.uri:
        _active.uri = config.device
        _placements.setdefault(_active.uri, _active)
    return _active.uri


def set_default_device(uris: str) -> None:
    """Let the devices at `uris` take tasks, separated by commas, the preferred one first. Raises DeviceError.

    Plans are kept per value, so changing back costs nothing.
    """
    global _active
    with _lock:
        made = _placements.get(uris)
        if made is None:
            made = _placements[uris] = _Placement(uris, [*_opened(uris, alone=True), *host_devices()])
        _active = made
    for changed in placement_changed:
        changed()


def reset_plans() -> None:
    """Forget all plans; those of functions captured by jit stay."""
    with _lock:
        for placement in _placements.values():
            placement.plans, placement.single_plans = {}, {}  # Those that are being made do not come back.


def reset() -> None:
    """Forget all plans and devices, so that settings of the devices are read again."""
    reset_plans()
    _host_devices.clear()
    _opened_devices.clear()
    _warn_of_fallback.cache_clear()
    _active.devices.clear()
    _placements.clear()
    if _active.uri:
        _placements[_active.uri] = _active
    from npu_tensor.runtime.devices import close_devices

    close_devices()  # Last: it waits, and an interrupt may end that.


class _Draft(NamedTuple):
    """A plan whose kernels are not bound yet: the graph, and what each kernel does.

    answers: of the devices before the host's, for each task. Those of the host's are asked when it is their turn.
    """

    devices: tuple[Device, ...]
    graph: nx.DiGraph
    size: int
    cut: Tasks
    aliases: tuple[tuple[int, int], ...]
    needed_after: set[int]
    answers: list[tuple[Task, list[Kernel | Refusal]]]


def plan(found: Capture) -> Plan:
    """The plan of a captured structure, from the cache or new. Other threads may plan while kernels are built."""
    ready = _active.plans.get(found.signature)
    if ready is not None:
        return ready
    logs.follow_setting()
    for prepare in before_planning:
        prepare()
    start = time.perf_counter()
    with _lock:
        draft, plans = _draft(found, tuple(devices())), _active.plans
    _prepare(draft)
    with _lock:
        ready = plans.get(found.signature)
        if ready is None:
            ready = _bound(draft, len(found.nodes), start)
            while len(plans) >= MAX_PLANS:
                plans.pop(next(iter(plans)))
            plans[found.signature] = ready
    return ready


def _draft(found: Capture, devices: tuple[Device, ...]) -> _Draft:
    graph = digraph(found)
    size = max(graph, default=-1) + 1
    merged = share_common(graph)
    cut = tasks(graph, devices[0].fusion)
    # Twins share a buffer, and so do views that cover the whole of what they view.
    aliases = {**cut.aliases, **{item: twin for item, twin in merged.items() if item in found.keep}}
    ordered = tuple((item, _root(item, aliases)) for item in aliases)
    needed_after = {base for _, base in ordered} | {item for item in found.keep if item not in aliases}
    others = devices[: -len(host_devices())]
    answers = [[device.claim(task) for device in others] for task in cut.tasks]
    elsewhere = {position for position, given in enumerate(answers) if any(map(_takes, given))}
    work = with_donors(cut.tasks, needed_after, elsewhere)
    return _Draft(devices, graph, size, cut, ordered, needed_after, list(zip(work, answers, strict=True)))


def _takes(answer: Kernel | Refusal) -> bool:
    return not isinstance(answer, Refusal)


def _prepare(draft: _Draft) -> None:
    """Let every device build what it is the first to take, several at once."""
    wanted: dict[int, list[Kernel]] = {}
    for _, answers in draft.answers:
        for number, answer in enumerate(answers):
            if not isinstance(answer, Refusal):
                wanted.setdefault(number, []).append(answer)
                break
    for number, kernels in wanted.items():
        draft.devices[number].prepare(kernels)


def _bound(draft: _Draft, nodes: int, start: float) -> Plan:
    import networkx as nx

    placed = tuple(_place(task, answer, draft.devices) for task, answer in draft.answers)
    dying = last_uses(draft.cut.tasks, draft.needed_after)
    steps = tuple((entry.step, tuple(items)) for entry, items in zip(placed, dying, strict=True))
    used = {entry.kernel.device for entry in placed}
    asynchronous = tuple(
        device for device in draft.devices if isinstance(device, AsynchronousDevice) and device.uri in used
    )
    made = Plan(nx.freeze(draft.graph), placed, steps, draft.aliases, draft.size, asynchronous)
    seconds = time.perf_counter() - start
    if events.listeners:
        events.emit(events.PlanBuilt(nodes, len(steps), seconds, made))
    if config.debug:
        print(f"plan: {nodes} ops in {len(steps)} kernels, {seconds * 1e3:.1f} ms")
    return made


def _root(item: int, aliases: dict[int, int]) -> int:
    while item in aliases:
        item = aliases[item]
    return item


def _place(task: Task, answers: Sequence[Kernel | Refusal], devices: Sequence[Device]) -> Placed:
    """The first device that claims the task and can build its kernel. answers: of the first devices."""
    refusals: list[str] = []
    for number, device in enumerate(devices):
        if refusals and device is host_devices()[0]:
            _fall_back(task.name, "; ".join(refusals))
        answer = answers[number] if number < len(answers) else device.claim(task)
        reason = answer.reason
        if not isinstance(answer, Refusal):
            start = time.perf_counter()
            try:
                step = answer.bind()
            except (BuildError, DeviceError) as error:
                reason = str(error)
            else:
                if events.listeners:
                    events.emit(events.KernelBuilt(task.name, device.uri, time.perf_counter() - start))
                return Placed(task, answer, step, tuple(refusals))
        refusals.append(reason)
        if events.listeners:
            events.emit(events.Fallback(task.name, device.uri, reason))
    raise AssertionError(f"no device takes {task.name}: {'; '.join(refusals)}")


def _fall_back(op: str, reason: str) -> None:
    """What `config.fallback` says about an op that the preferred devices refuse. Raises DeviceError."""
    if config.fallback == "error":
        raise DeviceError(
            f"{op} does not run on {default_device()}: {reason}. {config.origin('fallback')} forbids the CPU; with "
            "NPU_TENSOR_FALLBACK=allow it runs there, and nt.explain gives the reason for every op"
        )
    if config.fallback == "warn":
        _warn_of_fallback(op, default_device(), reason)


@cache
def _warn_of_fallback(op: str, device: str, reason: str) -> None:
    """Once per op, device and reason."""
    warn(f"{op} runs on the CPU and not on {device}: {reason}")


def realize(nodes: Sequence[Node], wait: bool = True) -> None:
    """Compute the values of `nodes` and of every intermediate result that a living Tensor names.

    wait: whether asynchronous devices have ended their work when this returns; whoever looks at a value waits for it.
    """
    if len(nodes) == 1 and _realize_single(nodes[0], wait):
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
    _run(made, values, [node for _, node in found.nodes], wait)
    for item, node in found.nodes:
        value = values[item]
        if value is not None and item in found.keep:
            node.value = value
            node.inputs = ()
            node.depth = 0
    (_, last), *others = reversed(found.nodes)
    # Another thread may have changed the placement meanwhile.
    lasting = _active.plans.get(found.signature) is made
    if lasting and not others and last.call is not None and len(last.call.operands) == made.size - 1:
        keep(_active.single_plans, last.call, made)


def _realize_single(node: Node, wait: bool) -> bool:
    """The short way for one op whose operands are all data: most of what a user does line by line."""
    made = _active.single_plans.get(node.call)  # type: ignore[arg-type]
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
    _run(made, values, (node,), wait)
    node.value = values[-1]
    node.inputs = ()
    node.depth = 0
    return True


def _run(made: Plan, values: list[Any], nodes: Sequence[Node], wait: bool) -> None:
    """Run a plan; a step that fails raises LaunchError, errors that the user's values cause keep their class."""
    try:
        made.run(values, wait)
    except NpuTensorError as error:
        lines = dict.fromkeys(node.line for node in nodes if node.call is error.call)
        located = type(error)(f"{error}{LOCATED}{', '.join(lines)})" if lines else str(error))
        vars(located).update(vars(error))
        raise located from error.__cause__
    except MemoryError:
        raise
    except Exception as error:
        raise launch_error(error, [node.line for node in nodes]) from error


def launch_error(error: Exception, lines: Iterable[str]) -> LaunchError:
    """What to raise when a step failed; names the lines that recorded its plan's ops."""
    shown = ", ".join(dict.fromkeys(filter(None, lines)))
    return LaunchError(f"{type(error).__name__}: {error} (ops recorded at {shown})")
