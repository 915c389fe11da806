"""State of a configuration in the array: memory, fifos, workers and DMAs, and the sequences that the host runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.checks.index import Index
from npu_tensor.dataflow.cost import Channel, Counters, tasks_of, waits_of
from npu_tensor.dataflow.design import Design, Dims, Finish, Link, ObjectFifo, ObjectType
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
    StridedAccess,
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


class _TypedRing(NamedTuple):
    """Buffers that a channel uses, and the type of their objects."""

    ring: Ring
    type: ObjectType


class HostSequence:
    """Sequence of a design as run by the host. run_words: words of each runtime parameter that are set per run."""

    def __init__(self, design: Design) -> None:
        types = {buffer.name: buffer.type for buffer in design.host_buffers}
        self.buffers = tuple(types)
        self.run_words = design.run_words
        self.cycles = {function.symbol: function.cycles for function in design.functions}
        values = dict(design.values)
        self.values = [values.get(parameter.name, ()) for parameter in design.parameters]
        self.computed = [(each, values[each.name]) for each in design.core_buffers if each.name in values]
        self.steps = [
            step if isinstance(step, Finish) else HostTransfer(step, types[step.buffer].itemsize)
            for step in design.sequence
        ]
        self.transfers = [step for step in self.steps if isinstance(step, HostTransfer)]
        self.tasks, self.waits = tasks_of(design), waits_of(design)
        self.parameter_words = sum(parameter.words for parameter in design.parameters)


class Machine:
    """State of a loaded configuration. design: any design of that configuration."""

    def __init__(self, design: Design, entries: Mapping[str, Entry]) -> None:
        self._design = design
        self._fifos = {fifo.name: fifo for fifo in design.fifos}
        self._scheduler = Scheduler()
        self._memory = TileMemory()
        self.rings: list[Ring] = []
        self._progress = Gate(self._scheduler)
        self._index = Index(design)
        self._core_rings: dict[tuple[str, Tile], Ring] = {}
        self._places: dict[tuple[str, Tile], list[_TypedRing]] = {}
        self._host_ends: dict[str, HostEnd] = {}
        for link in design.links:
            self._add_link(link)
        self._streams = []
        for fifo in design.fifos:
            home = self._index.shared.get(fifo.name)
            if home is None:
                self._streams.append(self._stream(fifo))
            else:
                self._core_ring(fifo, home, fifo.producer, *fifo.consumers)
        self._buffers: dict[str, Bytes] = {}
        self._parameters = [
            self._memory.allocate(parameter.type.nbytes, f"parameter {parameter.name}")
            for parameter in design.parameters
        ]
        self._workers = self._make_workers(entries)
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
        inputs = [self._fifos[name] for name in link.inputs]
        outputs = [self._fifos[name] for name in link.outputs]
        whole = max((*inputs, *outputs), key=lambda fifo: fifo.type.nbytes)
        parts = {"split": outputs, "join": inputs, "forward": [whole]}[link.kind]
        slots = self._slots(whole, link.tile, whole.depth)
        places = []
        for part, offset in zip(parts, link.offsets or (0,), strict=True):
            start = offset * part.type.itemsize
            ring = self._ring(part, link.tile, [slot[start : start + part.type.nbytes] for slot in slots])
            places.append(_TypedRing(ring, part.type))
        for fifos in (inputs, outputs):
            for number, fifo in enumerate(fifos):
                self._places[fifo.name, link.tile] = places if len(fifos) == 1 else [places[number]]

    def _stream(self, fifo: ObjectFifo) -> Stream:
        source: StreamEnd
        if fifo.producer.kind == "shim":
            source = self._host_end(fifo, fifo.producer, drains=False)
        else:
            source = RingSource(fifo.name, *self._accessed(fifo, fifo.producer, fifo.dims_to_stream))
        sinks: list[StreamEnd] = []
        for tile in fifo.consumers:
            if tile.kind == "shim":
                sinks.append(self._host_end(fifo, tile, drains=True))
            else:
                sinks.append(RingSink(fifo.name, *self._accessed(fifo, tile, _dims_from(fifo, tile))))
        return Stream(fifo.name, source, sinks)

    def _accessed(self, fifo: ObjectFifo, tile: Tile, dims: Dims) -> tuple[list[Ring], list[StridedAccess]]:
        """Return the rings of a channel of a core or memtile, and the access to the objects of each."""
        places = self._places.get((fifo.name, tile)) or [_TypedRing(self._core_ring(fifo, tile, tile), fifo.type)]
        accesses = [object_access(dims, type.elements, type.itemsize) for _, type in places]
        return [ring for ring, _ in places], accesses

    def _host_end(self, fifo: ObjectFifo, tile: Tile, *, drains: bool) -> HostEnd:
        end = HostEnd(self._scheduler, fifo.name, tile, self._progress, drains=drains)
        self._host_ends[fifo.name] = end
        return end

    # --- workers

    def _make_workers(self, entries: Mapping[str, Entry]) -> list[CoreWorker]:
        design = self._design
        memory = {parameter.name: block for parameter, block in zip(design.parameters, self._parameters, strict=True)}
        for buffer in design.core_buffers:
            block = self._memory.allocate(buffer.type.nbytes, f"buffer {buffer.name}")
            if buffer.initial is not None:
                block[:] = np.frombuffer(buffer.initial, np.uint8)
            self._buffers[buffer.name] = memory[buffer.name] = block
        workers = []
        for worker in design.workers:
            ends = {}
            for name in worker.fifos:
                produces = self._fifos[name].producer == worker.tile
                ends[name] = CoreEnd(self._core_rings[name, worker.tile], produces)
            workers.append(CoreWorker(worker.tile, worker.body, ends, memory, entries))
        return workers

    # --- runs

    def run(
        self, sequence: HostSequence, buffers: Sequence[Bytes], words: Sequence[int], clock: RunClock | None = None
    ) -> Counters:
        """Run a sequence on the buffers until it has ended and everything in the array waits.

        clock: clock of a timed run.
        """
        for block, values in zip(self._parameters, sequence.values, strict=True):
            bits = [word & 0xFFFFFFFF for word in (*words, *values)]
            block[:] = np.array(bits, np.uint32).view(np.uint8)
        memory = dict(zip(sequence.buffers, buffers, strict=True))
        before = self._counts()
        ended = False

        def host() -> None:
            nonlocal ended
            self._run_steps(sequence.steps, memory, clock)
            ended = True

        for worker in self._workers:
            worker.cycles_of = sequence.cycles
            worker.clock = None if clock is None else clock.worker(worker.tile, worker.ahead)
        for stream in self._streams:
            stream.clock = None if clock is None else clock.stream(stream.fifo)
        self._scheduler.start(host)
        self._scheduler.run()
        owner = self._memory.overwritten()
        if owner is not None:
            raise LaunchError(f"{self._design.name}: a kernel function wrote outside of {owner}")
        if not ended:
            raise LaunchTimeout(f"{self._design.name} does not end:\n" + "\n".join(self._complaints()))
        leftovers = self._leftovers()
        if leftovers:
            raise LaunchError(f"{self._design.name} leaves data in the array: {'; '.join(leftovers)}")
        counters = self._counters(sequence, before)
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

    def _complaints(self) -> list[str]:
        gates = [self._progress]
        for ring in self.rings:
            gates += ring.gates
        for end in self._host_ends.values():
            gates += end.gates
        return [complaint for gate in gates if (complaint := gate.complaint) is not None]

    def _counts(self) -> tuple[list[int], list[int]]:
        return [worker.cycles for worker in self._workers], [stream.nbytes for stream in self._streams]

    def _counters(self, sequence: HostSequence, before: tuple[list[int], list[int]]) -> Counters:
        cycles, nbytes = (
            [new - old for new, old in zip(*pair, strict=True)] for pair in zip(self._counts(), before, strict=True)
        )
        stream_bytes = {}
        for stream, moved in zip(self._streams, nbytes, strict=True):
            fifo = self._fifos[stream.fifo]
            if moved:
                stream_bytes[Channel(fifo.producer, fifo.name, "out")] = moved
                stream_bytes.update({Channel(tile, fifo.name, "in"): moved for tile in fifo.consumers})
        return Counters(
            {worker.tile: count for worker, count in zip(self._workers, cycles, strict=True)},
            stream_bytes,
            sum(transfer.ddr_bytes for transfer in sequence.transfers),
            sequence.tasks,
            sequence.waits,
            sequence.parameter_words,
        )

    def _leftovers(self) -> list[str]:
        """Return the fifos, with their tiles, that hold data now."""
        ends = [end for stream in self._streams for end in (stream.source, *stream.sinks) if end.expects]
        holders = {(ring.fifo, ring.tile) for ring in self.rings if ring.held} | {(end.fifo, end.tile) for end in ends}
        return [f"fifo {fifo} in {tile}" for fifo, tile in sorted(holders)]


def _dims_from(fifo: ObjectFifo, tile: Tile) -> Dims:
    return fifo.dims_from_stream[fifo.consumers.index(tile)] if fifo.dims_from_stream else ()


def _unfinished(waited: Sequence[tuple[HostEnd, HostTask]]) -> str:
    return "\n".join(
        f"host waits for fifo {end.fifo} in {end.tile}: {end.moved(task)} of {task.transfer.nbytes} bytes moved"
        for end, task in waited
        if not task.done
    )
