"""Simulated time: the cycles at which a run of a design would perform each operation on the array.

The actors in the array are workers, streams and the host. Each has a clock of its own that counts cycles from the start
of the run. A ring records when each object was passed on and when it was returned. Every ring has one producer and one
consumer, so these times do not depend on the order in which the simulator schedules them.

- A kernel call takes its cycles and CALL_CYCLES, an acquire or release LOCK_CYCLES, as in `dataflow.cost`.
- A stream starts to move a piece when its source has it and all its sinks have room. It moves STREAM_BYTES_PER_CYCLE.
- The controller writes runtime parameters, queues transfers one after another, and goes on some time after the end of
  what it waits for. A shim channel starts each transfer anew. `predict` charges the same cycles.
- All transfers share the bandwidth of the host memory, which counts short runs as `dataflow.cost.host_bytes` does. The
  device predicts its costs with the same bandwidth, see `runtime.npu_cost`.

The model ignores the dispatch, the latency of streams, streams that share a switch, and bank conflicts. A run never
takes less than the busiest core, the busiest channel or the host memory alone; filling and draining the pipeline add to
that. The prediction for a matrix product may still exceed its timeline, because it is at least the measured time of
such products.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final, Literal

from npu_tensor.dataflow.array import STREAM_BYTES_PER_CYCLE, Array, Tile
from npu_tensor.dataflow.checks.limits import QUEUE_DEPTH
from npu_tensor.dataflow.cost import LOCK_CYCLES, start_cycles
from npu_tensor.runtime.sim.ring import Ring
from npu_tensor.runtime.sim.timeline import Span, Timeline
from npu_tensor.runtime.sim.transfers import HostEnd, HostTask, StreamEnd

WINDOW: Final = 512
"""Cycles per window in which the bandwidth of the host memory is accounted."""

_ROUNDING: Final = 1e-6
"""Tolerance for sums of fractions, in cycles."""


class _RingTimes:
    """Times at which objects of a ring, and room for others, became available. Earlier ones count as cycle 0."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self._before = ring.produced, ring.consumed
        self._produced: list[int] = []
        self._consumed: list[int] = []

    def objects(self, count: int) -> int:
        """Return when the consumer could have `count` objects, which are now available."""
        number = self.ring.consumed + count - 1 - self._before[0]
        return self._produced[number] if number >= 0 else 0

    def room(self, count: int) -> int:
        """Return when the producer could have room for `count` objects, which is now available."""
        number = self.ring.produced + count - self.ring.depth - 1 - self._before[1]
        return self._consumed[number] if number >= 0 else 0

    def produce(self, count: int, now: int) -> None:
        self._produced += [now] * count

    def consume(self, count: int, now: int) -> None:
        self._consumed += [now] * count


class _HostMemory:
    """Bandwidth that all transfers share, in windows of time. Requests for a window are served in order."""

    def __init__(self, bytes_per_cycle: float) -> None:
        self._rate = bytes_per_cycle
        self._free: defaultdict[int, float] = defaultdict(lambda: bytes_per_cycle * WINDOW)
        self._moved = 0.0

    @property
    def busy(self) -> int:
        """Cycles that all transfers take together."""
        return ceil(self._moved / self._rate)

    def take(self, start: int, nbytes: float, pace: float) -> int:
        """Return the cycle by which `nbytes` have moved, from cycle `start` on and at most `pace` bytes per cycle."""
        self._moved += nbytes
        now = float(start)
        window = start // WINDOW
        while True:
            rest, free = (window + 1) * WINDOW - now, self._free[window]
            moved = min(nbytes, rest * min(pace, self._rate), free)
            if moved == nbytes:
                self._free[window] -= nbytes
                return ceil(now + nbytes * max(1 / pace, 1 / self._rate, rest / free) - _ROUNDING)
            self._free[window] -= moved
            nbytes -= moved
            window += 1
            now = float(window * WINDOW)


class RunClock:
    """Clocks of one run.

    Args:
        bytes_per_second: Bandwidth that all transfers share.
        parameter_words: Words that the controller writes before the first transfer.
    """

    def __init__(self, array: Array, rings: Iterable[Ring], bytes_per_second: float, parameter_words: int) -> None:
        self._array = array
        self._rings = {ring: _RingTimes(ring) for ring in rings}
        self._memory = _HostMemory(bytes_per_second / array.clock_hz)
        self._spans: list[Span] = []
        self.host = HostClock(array, ceil(parameter_words * array.parameter_seconds * array.clock_hz - _ROUNDING))

    def worker(self, tile: Tile, ahead: int) -> WorkerClock:
        """Return the clock of a worker. ahead: cycles that it has spent for this run before the run."""
        return WorkerClock(tile, ahead, self._rings, self._spans)

    def stream(self, fifo: str) -> StreamClock:
        """Return the clock of a stream."""
        return StreamClock(fifo, self._array, self._rings, self._memory, self._spans)

    def timeline(self, design: str) -> Timeline:
        """Return the timeline of the run until everything had ended."""
        spans = sorted(self._spans, key=lambda span: (span.tile, span.lane != "core", span.lane, span.start))
        cycles = max([self.host.now, self._memory.busy, *(span.end for span in spans)])
        return Timeline(design, self._array, cycles, tuple(spans))


@dataclass(eq=False)
class WorkerClock:
    """Clock of a core."""

    _tile: Tile
    _now: int
    _rings: dict[Ring, _RingTimes]
    _spans: list[Span]

    def acquire(self, ring: Ring, objects: int, produces: bool) -> None:
        """Record that the worker has the objects or the room that it waited for."""
        times = self._rings[ring]
        ready = times.room(objects) if produces else times.objects(objects)
        if ready > self._now:
            self._spans.append(Span(self._tile, "core", "wait", ring.fifo, self._now, ready))
            self._now = ready
        self._now += LOCK_CYCLES

    def release(self, ring: Ring, objects: int, produces: bool) -> None:
        """Record that the worker passes objects on, or returns them."""
        self._now += LOCK_CYCLES
        times = self._rings[ring]
        (times.produce if produces else times.consume)(objects, self._now)

    def call(self, symbol: str, cycles: int) -> None:
        """Record a function call of the worker. cycles: duration including the call's overhead."""
        end = self._now + cycles
        self._spans.append(Span(self._tile, "core", "compute", symbol, self._now, end))
        self._now = end


@dataclass(eq=False)
class StreamClock:
    """Clock of a stream and the DMA channels at its ends, which move in step."""

    _fifo: str
    _array: Array
    _rings: dict[Ring, _RingTimes]
    _memory: _HostMemory
    _spans: list[Span]
    _now: int = 0
    _latest: dict[StreamEnd, int] = field(default_factory=dict)
    """Index of the latest span of each end."""
    _task: HostTask | None = None

    def move(self, source: StreamEnd, sinks: Sequence[StreamEnd], nbytes: int) -> None:
        """Record the start of a move of `nbytes` bytes, all of which are available and have room."""
        start = max(self._now, self._ready(source, sends=True), *(self._ready(sink, sends=False) for sink in sinks))
        end = start + -(-nbytes // STREAM_BYTES_PER_CYCLE)
        for place in (source.place, *(sink.place for sink in sinks)):
            if not isinstance(place, Ring):
                share = place.transfer.ddr_bytes / place.transfer.nbytes
                end = max(end, self._memory.take(start, nbytes * share, STREAM_BYTES_PER_CYCLE * share))
        self._note(source, "out", start, end, nbytes)
        for sink in sinks:
            self._note(sink, "in", start, end, nbytes)
        self._now = end

    def _ready(self, end: StreamEnd, sends: bool) -> int:
        place = end.place
        if not isinstance(place, Ring):
            if place is not self._task:
                first, further = start_cycles("out" if sends else "in", self._array)
                place.started = max(place.started, self._now) + (first if self._task is None else further)
                self._task = place
            return place.started
        times = self._rings[place]
        return times.objects(1) if sends else times.room(1)

    def _note(self, end: StreamEnd, kind: Literal["in", "out"], start: int, until: int, nbytes: int) -> None:
        """Add a span, or extend the latest one if it continues with the same object without a pause."""
        latest = self._latest.get(end)
        if end.position and latest is not None and self._spans[latest].end == start:
            self._spans[latest] = self._spans[latest]._replace(end=until)
        else:
            self._latest[end] = len(self._spans)
            self._spans.append(Span(end.tile, f"{self._fifo} {kind}", kind, self._fifo, start, until))
        if end.position + nbytes == len(end.chunk):
            place = end.place
            if not isinstance(place, Ring):
                place.ended = until
            elif kind == "out":
                self._rings[place].consume(1, until)
            else:
                self._rings[place].produce(1, until)


class HostClock:
    """Clock of the controller, which starts transfers for the host and waits for them. now: first free cycle."""

    def __init__(self, array: Array, now: int) -> None:
        self.now = now
        self._array = array
        self._tasks: defaultdict[HostEnd, list[HostTask]] = defaultdict(list)

    def start(self, end: HostEnd, task: HostTask) -> None:
        """Record that the host has found room for a task in the queue of a channel."""
        self.now += self._array.queue_cycles if self._tasks else self._array.queue_start_cycles
        tasks = self._tasks[end]
        if len(tasks) >= QUEUE_DEPTH:
            self.now = max(self.now, tasks[-QUEUE_DEPTH].ended)
        task.started = self.now
        tasks.append(task)

    def finish(self, tasks: Iterable[HostTask]) -> None:
        """Record that the host has waited for tasks. Tokens of several arrive together."""
        self.now = max([self.now, *(task.ended + self._array.wait_cycles for task in tasks)])
