"""Events of the package. Logs, profiles, progress bars and tests listen to them.

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
    """Base of all events.

    Events of an NPU may be emitted later and in another thread. Events of planning are emitted under the planning
    lock, so a listener must not wait for other threads.

    In all events, `kernel` is the name of a kernel, `device` the URI of a device, `seconds` a duration, and `key` has
    the 64 hexadecimal digits of a kernel's Artifact.

    Attributes:
        when: Time of creation, by time.perf_counter.
        thread: Thread of creation, by threading.get_ident.
    """

    when: float = field(default_factory=time.perf_counter, kw_only=True, repr=False, compare=False)
    thread: int = field(default_factory=threading.get_ident, kw_only=True, repr=False, compare=False)

    # Defined once for all events: a dataclass would compile these methods for every class at import.

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
    """Part of a larger event, which carries it. Outside of such an event, it is emitted by itself."""


@dataclass(frozen=True, repr=False, eq=False)
class KernelBuilt(Part):
    """A kernel became executable: compiled, or found in a cache. Part of PlanBuilt."""

    kernel: str
    device: str
    seconds: float


@dataclass(frozen=True, repr=False, eq=False)
class PlanBuilt(Event):
    """A graph of a new structure was planned.

    Attributes:
        nodes: Number of nodes of the graph.
        steps: Number of steps of the plan.
        seconds: Total time.
        plan: The finished Plan.
        compile_seconds: Part of the time until every kernel was found or compiled.
        kernels: One entry per step.
        graph: Planned graph, a networkx.DiGraph that only this event holds.
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
    """A back end starts to compile a kernel.

    A thread of the build emits this event and BuildFinished; with NPU_TENSOR_JIT=background at any time.
    """

    kernel: str
    key: str
    backend: str


@dataclass(frozen=True, repr=False, eq=False)
class BuildFinished(Event):
    """A compilation has ended.

    Attributes:
        error: Message of the compiler; empty after a success.
    """

    kernel: str
    key: str
    backend: str
    seconds: float
    error: str = ""


@dataclass(frozen=True, repr=False, eq=False)
class CodeGenerated(Event):
    """Code of kernels for the processor was generated.

    Attributes:
        language: Language of the code.
        name: Name of its functions.
        text: The code.
    """

    language: str
    name: str
    text: str = field(repr=False)


@dataclass(frozen=True, repr=False, eq=False)
class CacheHit(Event):
    """A kernel was found and needs no compilation. `where` is "memory", "precompiled" or "cache"."""

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
    """Kernels, `entries` of them, were removed from the cache on disk, which freed `nbytes` bytes."""

    entries: int
    nbytes: int


@dataclass(frozen=True, repr=False, eq=False)
class Phase(Part):
    """Phase of a step on a device, which ended at `when`. Part of KernelRan.

    By itself, it is the transfer of a result from another device by a thread.

    Attributes:
        name: "convert" between the layouts of a tensor and a kernel, "sync" between caches or memories, "dispatch"
            until the device has the request, or "run" until the device is done.
    """

    name: Literal["convert", "sync", "dispatch", "run"]
    device: str
    seconds: float


@dataclass(frozen=True, repr=False, eq=False)
class KernelSimulated(Part):
    """Counters of a simulated array for one run of a design. Part of KernelRan.

    Attributes:
        cycles: Cycles of the busiest core.
        stream_bytes: Bytes through the busiest DMA channel.
        ddr_bytes: Bytes between host memory and array.
        seconds: Predicted time on the real array.
        limit: Resource that determines this time.
        timeline: Activity of every tile in this run or the first one of its design, a `runtime.sim.timeline.Timeline`;
            None unless timelines are recorded.
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
    """A kernel has ended.

    Attributes:
        out: Spec of the result.
        seconds: Time from launch to the end of its work.
        plan: The Plan, or None.
        step: Number of the kernel in the plan.
        lines: Lines that recorded its ops.
        phases: Phases of the time that the device reports.
        simulated: Counters of a simulated array, or None.
        kernels: Number of kernels, if an NPU ran several in one launch without separate times.
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
        """Start time, by time.perf_counter."""
        return self.when - self.seconds

    @property
    def placed(self) -> Sequence[Any]:
        """Task and kernel of each; empty without a plan."""
        plan: Any = self.plan
        return plan.placed[self.step : self.step + self.kernels] if plan is not None else ()

    def phase(self, name: str) -> float:
        """Return the seconds of one phase. A CPU kernel has phases of the NPUs that it reads from before it runs."""
        if name == "run" and all(phase.device != self.device for phase in self.phases):
            return max(0.0, self.seconds - sum(phase.seconds for phase in self.phases))
        return sum(phase.seconds for phase in self.phases if phase.name == name)


@dataclass(frozen=True, repr=False, eq=False)
class PlanRan(Event):
    """All steps of a plan have ended. `seconds` includes the time between the steps."""

    seconds: float
    plan: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, repr=False, eq=False)
class ContextOpened(Event):
    """A kernel was loaded into a hardware context of an NPU. `contexts` counts those of this process."""

    kernel: str
    device: str
    contexts: int


@dataclass(frozen=True, repr=False, eq=False)
class ContextClosed(Event):
    """A hardware context was closed to make room. `contexts` counts the remaining ones of this process."""

    kernel: str
    device: str
    contexts: int


@dataclass(frozen=True, repr=False, eq=False)
class DeviceFault(Event):
    """A launch on an NPU failed. The CPU repeats the affected launches; without fallback, an error is raised.

    Attributes:
        kernel: The kernel that failed, if it is known.
        cause: Cause, in words.
        launches: Number of affected launches.
    """

    kernel: str
    device: str
    cause: str
    launches: int


@dataclass(frozen=True, repr=False, eq=False)
class Fallback(Event):
    """The preferred kernel refused an op, with a reason."""

    op: str
    device: str
    reason: str


@dataclass(frozen=True, repr=False, eq=False)
class LaunchDivided(Event):
    """Kernels that could share a launch are launched one by one.

    Attributes:
        kernels: Ops of the kernels.
    """

    kernels: str
    device: str
    reason: str


Listener = Callable[[Event], object]

# Hot paths test this list before they build an event.
listeners: list[Listener] = []


def emit(event: Event) -> None:
    """Pass `event` to every listener, in the order of subscription."""
    for listener in tuple(listeners):
        listener(event)


P = TypeVar("P", bound=Part)


class Parts(list[Part]):
    """Parts of an event, collected by `collect_parts`."""

    def of(self, kind: type[P]) -> tuple[P, ...]:
        """Return the parts of one class, in order."""
        return tuple(part for part in self if isinstance(part, kind))


class _Collector(threading.local):
    """Parts of the current event of a thread, or None."""

    parts: Parts | None = None


_collector = _Collector()


@contextmanager
def collect_parts() -> Iterator[Parts]:
    """Collect the parts that this thread emits in a with block, for an event that is emitted after it."""
    outer = _collector.parts
    parts = _collector.parts = Parts()
    try:
        yield parts
    finally:
        _collector.parts = outer


def collected(part: Event) -> bool:
    """Add a part to the current event of this thread, and return True if there is one."""
    if _collector.parts is None or not isinstance(part, Part):
        return False
    _collector.parts.append(part)
    return True


def emit_part(part: Part) -> None:
    """Add a part to the current event of this thread, or emit it by itself."""
    if not collected(part):
        emit(part)


def keep_listening(listener: Listener, wanted: bool) -> bool:
    """Subscribe or unsubscribe `listener` if needed, and return True if this call subscribed it."""
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
