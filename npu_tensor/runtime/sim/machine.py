"""State of a configuration in the array: memory, fifos, workers and DMAs, and the sequences that the host runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.checks.index import FifoEnd, Index, fifo_ends
from npu_tensor.dataflow.cost import Channel, Counters, tasks_of, waits_of
from npu_tensor.dataflow.design import CoreBuffer, Design, Finish, Link, ObjectFifo, Worker
from npu_tensor.errors import LaunchError, LaunchTimeout
from npu_tensor.runtime.sim.clocks import RunClock, StreamClock
from npu_tensor.runtime.sim.coroutines import Gate, Scheduler
from npu_tensor.runtime.sim.host_compiler import Entry
from npu_tensor.runtime.sim.ring import Ring
from npu_tensor.runtime.sim.tile_memory import Bytes, TileMemory
from npu_tensor.runtime.sim.transfers import (
    HostEnd,
    HostTask,
    HostTransfer,
    RingSink,
    RingSource,
    StreamEnd,
    object_access,
)
from npu_tensor.runtime.sim.worker import CoreEnd, CoreWorker


class Stream:
    """Stream that moves the bytes of a fifo from its producing end to all consuming ends.

    A stream has negligible memory, so the DMA channels at its ends move in step. clock: clock of a timed run.
    """

    clock: StreamClock | None = None

    def __init__(self, fifo: str, source: StreamEnd, sinks: Sequence[StreamEnd]) -> None:
        self.fifo = fifo
        self.source = source
        self.sinks = sinks
        self.nbytes = 0
        if isinstance(source, RingSource):
            source.sinks = sinks

    def run(self) -> None:
        """Run the coroutine of the stream."""
        source, sinks = self.source, self.sinks
        while True:
            source.wait()
            chunk, start = source.chunk, source.position
            n = len(chunk) - start
            for sink in sinks:
                sink.wait()
                n = min(n, len(sink.chunk) - sink.position)
            if self.clock is not None:
                self.clock.move(source, sinks, n)
            data = chunk[start : start + n]
            for sink in sinks:
                stop = sink.position + n
                sink.chunk[sink.position : stop] = data
                sink.position = stop
                if stop == len(sink.chunk):
                    sink.finish()
            self.nbytes += n
            source.position = start + n
            if source.position == len(chunk):
                source.finish()


class HostSequence:
    """Sequence of a design as run by the host."""

    def __init__(self, design: Design) -> None:
        types = {buffer.name: buffer.type for buffer in design.host_buffers}
        self.buffers = tuple(types)
        self.cycles = {function.symbol: function.cycles for function in design.functions}
        values = dict(design.values)
        self.values = {parameter.name: values.get(parameter.name, ()) for parameter in design.parameters}
        self.computed = [(each, values[each.name]) for each in design.core_buffers if each.name in values]
        self.steps = [
            step if isinstance(step, Finish) else HostTransfer(step, types[step.buffer].itemsize)
            for step in design.sequence
        ]
        self.ddr_bytes = sum(step.ddr_bytes for step in self.steps if isinstance(step, HostTransfer))
        self.tasks, self.waits = tasks_of(design), waits_of(design)
        self.parameter_words = sum(parameter.words for parameter in design.parameters)


class Machine:
    """State of a loaded configuration. design: any design of that configuration."""

    def __init__(self, design: Design, entries: Mapping[str, Entry]) -> None:
        self._design = design
        self._scheduler = Scheduler()
        self._memory = TileMemory()
        self.rings: list[Ring] = []
        self._progress = Gate(self._scheduler)
        self._index = Index(design)
        self._core_rings: dict[tuple[str, Tile], Ring] = {}
        self._places: dict[tuple[str, Tile], list[Ring]] = {}
        self._host_ends: dict[str, HostEnd] = {}
        for link in design.links:
            self._add_link(link)
        self._streams = []
        for fifo in design.fifos:
            home = self._index.shared.get(fifo.name)
            if home is None:
                source, *sinks = map(self._end, fifo_ends(fifo))
                self._streams.append(Stream(fifo.name, source, sinks))
            else:
                self._core_ring(fifo, home, fifo.producer, *fifo.consumers)
        self._buffers: dict[str, Bytes] = {}
        for name, item in self._index.memory.items():
            kind = "buffer" if isinstance(item, CoreBuffer) else "parameter"
            block = self._buffers[name] = self._memory.allocate(item.type.nbytes, f"{kind} {name}")
            if isinstance(item, CoreBuffer) and item.initial is not None:
                block[:] = np.frombuffer(item.initial, np.uint8)
        self._workers = [self._worker(worker, entries) for worker in design.workers]
        for stream in self._streams:
            self._scheduler.start(stream.run)
        for worker in self._workers:
            self._scheduler.start(worker.run)

    # --- fifos

    def _slots(self, fifo: ObjectFifo, tile: Tile, depth: int) -> list[Bytes]:
        return [
            self._memory.allocate(fifo.type.nbytes, f"object {i} of fifo {fifo.name} in {tile}") for i in range(depth)
        ]

    def _ring(self, fifo: ObjectFifo, tile: Tile, slots: Sequence[Bytes]) -> Ring:
        ring = Ring(self._scheduler, fifo.name, tile, slots)
        self.rings.append(ring)
        return ring

    def _core_ring(self, fifo: ObjectFifo, tile: Tile, *users: Tile) -> Ring:
        """Add the buffers of a fifo in a core's memory, for the workers of `users`."""
        ring = self._ring(fifo, tile, self._slots(fifo, tile, self._index.buffers(fifo, tile)))
        self._core_rings.update({(fifo.name, user): ring for user in users})
        return ring

    def _add_link(self, link: Link) -> None:
        """Add one set of buffers for both sides.

        For a split or join they are objects of its single fifo. Each part of them is a ring of its own, because the
        compiler gives each its own descriptors and locks. For a forward they are the larger objects, to which the dims
        of both sides apply (mlir-aie sets the length of both descriptors to it).
        """
        whole = self._index.stored(link)
        parts = [self._index.fifos[name] for name in link.parts] or [whole]
        slots = self._slots(whole, link.tile, whole.depth)
        places = []
        for part, offset in zip(parts, link.offsets or (0,), strict=True):
            start = offset * part.type.itemsize
            places.append(self._ring(part, link.tile, [slot[start : start + part.type.nbytes] for slot in slots]))
        for names in (link.inputs, link.outputs):
            for number, name in enumerate(names):
                self._places[name, link.tile] = places if len(names) == 1 else [places[number]]

    def _end(self, end: FifoEnd) -> StreamEnd:
        """Add the channel at a fifo's end: of the host, or of the rings of a tile, one for each part of a link."""
        fifo, tile, direction, dims = end
        if tile.kind == "shim":
            host = HostEnd(self._scheduler, fifo.name, tile, self._progress, drains=direction == "in")
            self._host_ends[fifo.name] = host
            return host
        rings = self._places.get((fifo.name, tile)) or [self._core_ring(fifo, tile, tile)]
        types = [self._index.fifos[ring.fifo].type for ring in rings]
        accesses = [object_access(dims, type.elements, type.itemsize) for type in types]
        return (RingSource if direction == "out" else RingSink)(fifo.name, rings, accesses)

    def _worker(self, worker: Worker, entries: Mapping[str, Entry]) -> CoreWorker:
        ends = {
            name: CoreEnd(self._core_rings[name, worker.tile], produces=not self._index.consumes(worker, name))
            for name in worker.fifos
        }
        return CoreWorker(worker.tile, worker.body, ends, self._buffers, entries)

    # --- runs

    def run(
        self, sequence: HostSequence, buffers: Sequence[Bytes], words: Sequence[int], clock: RunClock | None = None
    ) -> Counters:
        """Run a sequence on the buffers until it has ended and everything in the array waits.

        clock: clock of a timed run.
        """
        for name, values in sequence.values.items():
            bits = [word & 0xFFFFFFFF for word in (*words, *values)]
            self._buffers[name][:] = np.array(bits, np.uint32).view(np.uint8)
        memory = dict(zip(sequence.buffers, buffers, strict=True))
        ended = False

        def host() -> None:
            nonlocal ended
            self._run_steps(sequence.steps, memory, clock)
            ended = True

        for worker in self._workers:
            worker.cycles, worker.cycles_of = 0, sequence.cycles
            worker.clock = None if clock is None else clock.worker(worker.tile, worker.ahead)
        for stream in self._streams:
            stream.nbytes = 0
            stream.clock = None if clock is None else clock.stream(stream.fifo)
        self._scheduler.start(host)
        self._scheduler.run()
        owner = self._memory.overwritten()
        if owner is not None:
            raise LaunchError(f"{self._design.name}: a kernel function wrote outside of {owner}")
        if not ended:
            raise LaunchTimeout(f"{self._design.name} does not end:\n" + "\n".join(self._scheduler.complaints))
        leftovers = self._leftovers()
        if leftovers:
            raise LaunchError(f"{self._design.name} leaves data in the array: {'; '.join(leftovers)}")
        counters = self._counters(sequence)
        for buffer, expected in sequence.computed:
            found = tuple(self._buffers[buffer.name].view(np.int32).tolist())
            if counters.cycles[buffer.tile] and found != expected:
                raise LaunchError(f"{self._design.name}: the core computes {found} in {buffer.name}, not {expected}")
        return counters

    def close(self) -> None:
        """End the coroutines, in the thread that created this machine."""
        self._scheduler.close()

    def _run_steps(
        self, steps: Sequence[HostTransfer | Finish], memory: Mapping[str, Bytes], clock: RunClock | None
    ) -> None:
        """Run the coroutine of the host."""
        groups: dict[int, list[tuple[HostEnd, HostTask]]] = {}
        for step in steps:
            if isinstance(step, Finish):
                waited = groups.pop(step.group, [])
                while any(not task.done for _, task in waited):
                    self._progress.wait(partial(_unfinished, waited))
                if clock is not None:
                    clock.host.finish(task for _, task in waited)
            else:
                end = self._host_ends[step.transfer.fifo]
                task = HostTask(step, memory[step.transfer.buffer])
                end.start(task)
                if clock is not None:
                    clock.host.start(end, task)
                if step.transfer.wait:
                    groups.setdefault(step.transfer.group, []).append((end, task))

    def _counters(self, sequence: HostSequence) -> Counters:
        stream_bytes = {}
        for stream in self._streams:
            if stream.nbytes:
                for end in fifo_ends(self._index.fifos[stream.fifo]):
                    stream_bytes[Channel(end.tile, stream.fifo, end.direction)] = stream.nbytes
        return Counters(
            {worker.tile: worker.cycles for worker in self._workers},
            stream_bytes,
            sequence.ddr_bytes,
            sequence.tasks,
            sequence.waits,
            sequence.parameter_words,
        )

    def _leftovers(self) -> list[str]:
        """Return the fifos, with their tiles, that hold data now."""
        ends = [end for stream in self._streams for end in (stream.source, *stream.sinks) if end.expects]
        holders = {(ring.fifo, ring.tile) for ring in self.rings if ring.held} | {(end.fifo, end.tile) for end in ends}
        return [f"fifo {fifo} in {tile}" for fifo, tile in sorted(holders)]


def _unfinished(waited: Sequence[tuple[HostEnd, HostTask]]) -> str:
    return "\n".join(
        f"host waits for fifo {end.fifo} in {end.tile}: {end.moved(task)} of {task.transfer.nbytes} bytes moved"
        for end, task in waited
        if not task.done
    )
