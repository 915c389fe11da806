"""Simulated time: when everything in a run of a design would happen on the array.

Who works in the array is a worker, a stream or the host, each with a clock of its own that counts cycles from the
start of the run. A ring notes when each object was passed on and each was given back. Every ring has one producer and
one consumer, so that these times do not depend on the order in which the simulator lets them take turns.

- A kernel call takes its cycles and CALL_CYCLES, an acquire or release LOCK_CYCLES, as in `dataflow.cost`.
- A stream begins with a piece when its source has it and all its sinks have room, and moves STREAM_BYTES_PER_CYCLE.
- All transfers share the bandwidth of the host memory, which counts short runs as `dataflow.cost.host_bytes` does. It
  is the one by which the device predicts its costs, see `runtime.npu_cost`.

Left out: the dispatch, what it takes to start a transfer and to load a buffer descriptor, the latency of host memory
and of streams, streams that share a switch, and bank conflicts. So a run never takes less than the busiest core, the
busiest channel or the host memory alone; filling and draining the pipeline come on top. What is predicted of a matrix
product may still be longer than its timeline: it is at least what such products were measured to take.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final, Literal

from npu_tensor.dataflow.array import STREAM_BYTES_PER_CYCLE, Array, Tile
from npu_tensor.dataflow.checks.limits import QUEUE_DEPTH
from npu_tensor.dataflow.cost import LOCK_CYCLES
from npu_tensor.runtime.sim.ring import Ring
from npu_tensor.runtime.sim.timeline import Span, Timeline
from npu_tensor.runtime.sim.transfers import HostEnd, HostTask, StreamEnd

__all__ = ["HostClock", "RunClock", "StreamClock", "WorkerClock"]

WINDOW: Final = 512
"""Cycles for which the host memory's bandwidth is accounted for together."""

_ROUNDING: Final = 1e-6
"""Cycles by which sums of fractions may be too large."""


class _RingTimes:
    """When objects of a ring became available, and room for others. What was so before the run is so at cycle 0."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self._before = ring.produced, ring.consumed
        self._produced: list[int] = []
        self._consumed: list[int] = []

    def objects(self, count: int) -> int:
        """When the consumer could have `count` objects, which are there by now."""
        number = self.ring.consumed + count - 1 - self._before[0]
        return self._produced[number] if number >= 0 else 0

    def room(self, count: int) -> int:
        """When the producer could have room for `count` objects, which is there by now."""
        number = self.ring.produced + count - self.ring.depth - 1 - self._before[1]
        return self._consumed[number] if number >= 0 else 0

    def produce(self, count: int, now: int) -> None:
        self._produced += [now] * count

    def consume(self, count: int, now: int) -> None:
        self._consumed += [now] * count


class _HostMemory:
    """The bandwidth that all transfers share, in windows of time. Who asks first for a window is served first."""

    def __init__(self, bytes_per_cycle: float) -> None:
        self._rate = bytes_per_cycle
        self._free: defaultdict[int, float] = defaultdict(lambda: bytes_per_cycle * WINDOW)
        self._moved = 0.0

    @property
    def busy(self) -> int:
        """Cycles that all transfers take together."""
        return ceil(self._moved / self._rate)

    def take(self, start: int, nbytes: float, pace: float) -> int:
        """The cycle by which `nbytes` have moved, from cycle `start` on and `pace` bytes per cycle at most."""
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
    """The clocks of one run. bytes_per_second: that all transfers share."""

    def __init__(self, array: Array, rings: Iterable[Ring], bytes_per_second: float) -> None:
        self._array = array
        self._rings = {ring: _RingTimes(ring) for ring in rings}
        self._memory = _HostMemory(bytes_per_second / array.clock_hz)
        self._spans: list[Span] = []
        self.host = HostClock()

    def worker(self, tile: Tile, ahead: int) -> WorkerClock:
        """The clock of a worker. ahead: cycles that it has spent for this run before it."""
        return WorkerClock(tile, ahead, self._rings, self._spans)

    def stream(self, fifo: str) -> StreamClock:
        """The clock of a stream."""
        return StreamClock(fifo, self._rings, self._memory, self._spans)

    def timeline(self, design: str) -> Timeline:
        """What happened until everything had ended."""
        spans = sorted(self._spans, key=lambda span: (span.tile, span.lane != "core", span.lane, span.start))
        cycles = max([self.host.now, self._memory.busy, *(span.end for span in spans)])
        return Timeline(design, self._array, cycles, tuple(spans))


@dataclass(eq=False)
class WorkerClock:
    """Of a core."""

    _tile: Tile
    _now: int
    _rings: dict[Ring, _RingTimes]
    _spans: list[Span]

    def acquire(self, ring: Ring, objects: int, produces: bool) -> None:
        """The worker has what it waited for."""
        times = self._rings[ring]
        ready = times.room(objects) if produces else times.objects(objects)
        if ready > self._now:
            self._spans.append(Span(self._tile, "core", "wait", ring.fifo, self._now, ready))
            self._now = ready
        self._now += LOCK_CYCLES

    def release(self, ring: Ring, objects: int, produces: bool) -> None:
        """The worker passes objects on, or gives them back."""
        self._now += LOCK_CYCLES
        times = self._rings[ring]
        (times.produce if produces else times.consume)(objects, self._now)

    def call(self, symbol: str, cycles: int) -> None:
        """The worker has called a function, which takes so many cycles with everything around it."""
        end = self._now + cycles
        self._spans.append(Span(self._tile, "core", "compute", symbol, self._now, end))
        self._now = end


@dataclass(eq=False)
class StreamClock:
    """Of a stream and the DMA channels at its ends, which move in step."""

    _fifo: str
    _rings: dict[Ring, _RingTimes]
    _memory: _HostMemory
    _spans: list[Span]
    _now: int = 0
    _latest: dict[StreamEnd, int] = field(default_factory=dict)
    """The number of the latest span of each end."""

    def move(self, source: StreamEnd, sinks: Sequence[StreamEnd], nbytes: int) -> None:
        """So many bytes begin to move, all of which are there and have room."""
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
            return place.started
        times = self._rings[place]
        return times.objects(1) if sends else times.room(1)

    def _note(self, end: StreamEnd, kind: Literal["in", "out"], start: int, until: int, nbytes: int) -> None:
        """A span, or a longer one if this goes on with the same object without a pause."""
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
    """Of the host, which starts transfers and waits for them."""

    def __init__(self) -> None:
        self.now = 0
        self._tasks: defaultdict[HostEnd, list[HostTask]] = defaultdict(list)

    def start(self, end: HostEnd, task: HostTask) -> None:
        """The host has found room for a task in the queue of a channel."""
        tasks = self._tasks[end]
        if len(tasks) >= QUEUE_DEPTH:
            self.now = max(self.now, tasks[-QUEUE_DEPTH].ended)
        task.started = self.now
        tasks.append(task)

    def finish(self, tasks: Iterable[HostTask]) -> None:
        """The host has waited for tasks."""
        self.now = max([self.now, *(task.ended for task in tasks)])
