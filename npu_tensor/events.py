"""One stream of events. Whatever has an effect emits one; logs, profiles, progress bars and tests listen.

with events.listen(print):
    y.realize()
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

__all__ = [
    "BuildFinished",
    "BuildStarted",
    "CacheDamaged",
    "CacheEvicted",
    "CacheHit",
    "CodeGenerated",
    "ContextClosed",
    "ContextOpened",
    "DeviceFault",
    "Event",
    "Fallback",
    "KernelBuilt",
    "KernelRan",
    "KernelSimulated",
    "LaunchDivided",
    "Part",
    "Phase",
    "PlanBuilt",
    "PlanRan",
    "emit",
    "keep_listening",
    "listen",
    "listeners",
]


@dataclass(frozen=True, repr=False, eq=False)
class Event:
    """The base of all events. when, thread: where it was made, by time.perf_counter and threading.get_ident.

    An NPU's events may be emitted later, and in another thread. Those of planning are emitted under its lock: a
    listener must not wait for other threads.
    """

    when: float = field(default_factory=time.perf_counter, kw_only=True, repr=False, compare=False)
    thread: int = field(default_factory=threading.get_ident, kw_only=True, repr=False, compare=False)

    # Written once for all events: a dataclass would compile these methods for every class at import.

    def __repr__(self) -> str:
        shown = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[object, ...]:
        return tuple([getattr(self, each.name) for each in fields(self) if each.compare])


@dataclass(frozen=True, repr=False, eq=False)
class Part(Event):
    """A part of a larger event, which carries it. It is emitted on its own only outside of any such event."""


@dataclass(frozen=True, repr=False, eq=False)
class KernelBuilt(Part):
    """A kernel became executable: compiled, or found in a cache. Part of PlanBuilt."""

    kernel: str
    device: str
    seconds: float


@dataclass(frozen=True, repr=False, eq=False)
class PlanBuilt(Event):
    """A graph of a new structure was planned. `plan` is the finished Plan.

    seconds: in all. compile_seconds: of them, until every kernel was found or compiled. kernels: one per step. graph:
    what was planned, a networkx.DiGraph that nothing else keeps.
    """

    nodes: int
    steps: int
    seconds: float
    plan: object = field(default=None, repr=False, compare=False)
    compile_seconds: float = 0.0
    kernels: tuple[KernelBuilt, ...] = ()
    graph: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, repr=False, eq=False)
class BuildStarted(Event):
    """A back end starts to compile a kernel. key: 64 hexadecimal digits, as in the kernel's Artifact.

    It comes from a thread of the build, as BuildFinished does; with NPU_TENSOR_JIT=background at any time.
    """

    kernel: str
    key: str
    backend: str


@dataclass(frozen=True, repr=False, eq=False)
class BuildFinished(Event):
    """A compilation that was started has ended. error: what the compiler says; empty if it went well."""

    kernel: str
    key: str
    backend: str
    seconds: float
    error: str = ""


@dataclass(frozen=True, repr=False, eq=False)
class CodeGenerated(Event):
    """Code of kernels for the processor was generated. language: of `text`. name: of the functions in it."""

    language: str
    name: str
    text: str = field(repr=False)


@dataclass(frozen=True, repr=False, eq=False)
class CacheHit(Event):
    """A kernel was found and needed no compilation. where: "memory", "precompiled" or "cache"."""

    kernel: str
    key: str
    where: str


@dataclass(frozen=True, repr=False, eq=False)
class CacheDamaged(Event):
    """A file of a cached kernel differs from what was written; it is not used, and the kernel is built again."""

    kernel: str
    path: str
    reason: str


@dataclass(frozen=True, repr=False, eq=False)
class CacheEvicted(Event):
    """Kernels left the cache on disk, to make room or because it was cleared. nbytes: what they took."""

    entries: int
    nbytes: int


@dataclass(frozen=True, repr=False, eq=False)
class Phase(Part):
    """What a device did for a step in the `seconds` until `when`. Part of KernelRan.

    On its own: a thread fetched a result from another device.

    name: "convert", between the order of a tensor and that of a kernel; "sync", between caches or memories;
    "dispatch", until the device was asked; "run", until it was done.
    """

    name: Literal["convert", "sync", "dispatch", "run"]
    device: str
    seconds: float


@dataclass(frozen=True, repr=False, eq=False)
class KernelSimulated(Part):
    """What a simulated array counted while it ran a design. Part of KernelRan.

    cycles: of the busiest core. stream_bytes: through the busiest DMA channel. ddr_bytes: between host memory and
    array. seconds: predicted for the real array; limit: what that time follows from. timeline: what every tile did
    when, in this run or the first one of its design, a `runtime.sim.timeline.Timeline`, if somebody records them.
    """

    kernel: str
    device: str
    cycles: int
    stream_bytes: int
    ddr_bytes: int
    seconds: float
    limit: str
    timeline: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, repr=False, eq=False)
class KernelRan(Event):
    """Kernel number `step` of `plan`, a Plan, has just ended.

    seconds: from launch to the end of its work. lines: where its ops were recorded. phases: where the time went, as
    far as the device says. simulated: what a simulated array counted. kernels: how many, where an NPU had several in
    one launch and does not say what each took.
    """

    kernel: str
    device: str
    out: str
    seconds: float
    plan: object = field(default=None, repr=False, compare=False)
    step: int = 0
    lines: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = ()
    simulated: KernelSimulated | None = None
    kernels: int = 1

    @property
    def start(self) -> float:
        """When it began, by time.perf_counter."""
        return self.when - self.seconds

    @property
    def placed(self) -> Sequence[Any]:
        """The task and the kernel of each; nothing without a plan."""
        plan: Any = self.plan
        return plan.placed[self.step : self.step + self.kernels] if plan is not None else ()

    def phase(self, name: str) -> float:
        """Return the seconds of one phase. A kernel on the CPU has those of NPUs that it reads from, then it runs."""
        if name == "run" and all(phase.device != self.device for phase in self.phases):
            return max(0.0, self.seconds - sum(phase.seconds for phase in self.phases))
        return sum(phase.seconds for phase in self.phases if phase.name == name)


@dataclass(frozen=True, repr=False, eq=False)
class PlanRan(Event):
    """All steps of `plan`, a Plan, have ended. `seconds` is for all of them and what is between them."""

    seconds: float
    plan: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, repr=False, eq=False)
class ContextOpened(Event):
    """A kernel was loaded into a hardware context of an NPU. contexts: how many this process has there now."""

    kernel: str
    device: str
    contexts: int


@dataclass(frozen=True, repr=False, eq=False)
class ContextClosed(Event):
    """A hardware context was given up to make room. contexts: how many this process has left there."""

    kernel: str
    device: str
    contexts: int


@dataclass(frozen=True, repr=False, eq=False)
class DeviceFault(Event):
    """A launch on an NPU failed, and the CPU computes `launches` launches that it has taken along, or raises if strict.

    kernel: the one that failed, as far as is known.
    """

    kernel: str
    device: str
    cause: str
    launches: int


@dataclass(frozen=True, repr=False, eq=False)
class Fallback(Event):
    """An op was not taken by the preferred kernel; `reason` says why."""

    op: str
    device: str
    reason: str


@dataclass(frozen=True, repr=False, eq=False)
class LaunchDivided(Event):
    """Kernels that could be one launch are launched one by one; `reason` says why. kernels: their ops."""

    kernels: str
    device: str
    reason: str


Listener = Callable[[Event], object]

# Hot paths test this list before they build an event.
listeners: list[Listener] = []


def emit(event: Event) -> None:
    """Hand `event` to every listener, in the order in which they subscribed."""
    for listener in tuple(listeners):
        listener(event)


P = TypeVar("P", bound=Part)


class Parts(list[Part]):
    """What `collect_parts` has collected."""

    def of(self, kind: type[P]) -> tuple[P, ...]:
        """The parts of one kind, in order."""
        return tuple(part for part in self if isinstance(part, kind))


class _Collector(threading.local):
    """The parts of the event that is under way in a thread; None if there is none."""

    parts: Parts | None = None


_collector = _Collector()


@contextmanager
def collect_parts() -> Iterator[Parts]:
    """Collect the parts that this thread emits in a with block, for the event that is emitted afterwards."""
    outer = _collector.parts
    parts = _collector.parts = Parts()
    try:
        yield parts
    finally:
        _collector.parts = outer


def collected(part: Event) -> bool:
    """Add a part to the event that is under way in this thread. Returns whether there is one."""
    if _collector.parts is None or not isinstance(part, Part):
        return False
    _collector.parts.append(part)
    return True


def emit_part(part: Part) -> None:
    """Add a part to the event that is under way in this thread, or emit it on its own."""
    if not collected(part):
        emit(part)


def keep_listening(listener: Listener, wanted: bool) -> bool:
    """Subscribe `listener` or unsubscribe it, unless it is so already. Returns whether this call has subscribed it."""
    listens = listener in listeners
    if wanted and not listens:
        listeners.append(listener)
    elif listens and not wanted:
        listeners.remove(listener)
    return wanted and not listens


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Subscribe `listener` for the duration of a with block."""
    listeners.append(listener)
    try:
        yield
    finally:
        listeners.remove(listener)
