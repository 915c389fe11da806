"""Predicted time of a design: what it moves and computes, against the rates of the array.

The same `Counters` come from `count`, which reads the design, and from the simulator, which counts what happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, NamedTuple

from npu_tensor.dataflow.array import STREAM_BYTES_PER_CYCLE, Array, Tile
from npu_tensor.dataflow.design import (
    AccessPattern,
    Acquire,
    Call,
    Design,
    KernelFunction,
    Link,
    Loop,
    ObjectFifo,
    Release,
    Statement,
    Transfer,
    Worker,
)

__all__ = [
    "CALL_CYCLES",
    "LOCK_CYCLES",
    "SHORT_RUN_BYTES",
    "Channel",
    "Counters",
    "Limit",
    "Prediction",
    "count",
    "host_bytes",
    "predict",
    "uses_dma",
]

CALL_CYCLES: Final = 20
"""Cycles of a core around one kernel call: arguments, branch, saved registers and return. An assumption."""

LOCK_CYCLES: Final = 10
"""Cycles of one acquire or release that does not wait, with the choice of the buffer. An assumption."""

SHORT_RUN_BYTES: Final = 256
"""A shorter contiguous run of host memory takes the shim as long as one of this length.

It is the longest burst of the older array. The rule also explains what was published for bfloat16 products on npu1
(arXiv 2512.13282): rows of 56 elements instead of 224 lower the throughput from 3.12 to 1.27 TOPS.
"""

Limit = Literal["compute", "stream", "ddr", "dispatch"]


class Channel(NamedTuple):
    """A DMA channel that one end of a fifo uses. direction: "out" of the tile's memory into the stream, or "in"."""

    tile: Tile
    fifo: str
    direction: Literal["in", "out"]


@dataclass(frozen=True)
class Counters:
    """Of one run: cycles per core, bytes per DMA channel, bytes between host memory and array.

    cycles: of kernel calls, with CALL_CYCLES for each, and LOCK_CYCLES for each acquire and release. ddr_bytes: as
    `host_bytes` counts them. transfers: DMA tasks that the host starts.
    """

    cycles: Mapping[Tile, int]
    stream_bytes: Mapping[Channel, int]
    ddr_bytes: int
    transfers: int


class Prediction(NamedTuple):
    """Predicted seconds of one run, what limits it, and the time that each resource alone would take."""

    seconds: float
    limit: Limit
    compute: float
    stream: float
    ddr: float
    dispatch: float

    @property
    def busy(self) -> float:
        """Seconds without the dispatch: how long the array works."""
        return max(self.compute, self.stream, self.ddr)


def predict(counters: Counters, array: Array) -> Prediction:
    """Seconds of a run: the busiest core, the busiest DMA channel or the host memory, and the dispatch.

    The three overlap, because every fifo is double buffered; the dispatch does not. Filling and draining the pipeline,
    bank conflicts and the reading of the instruction stream are left out.
    """
    compute = max(counters.cycles.values(), default=0) / array.clock_hz
    stream = max(counters.stream_bytes.values(), default=0) / (STREAM_BYTES_PER_CYCLE * array.clock_hz)
    ddr = counters.ddr_bytes / array.ddr_bytes_per_second
    parts: dict[Limit, float] = {"compute": compute, "stream": stream, "ddr": ddr, "dispatch": array.dispatch_seconds}
    return Prediction(
        max(compute, stream, ddr) + array.dispatch_seconds,
        max(parts, key=lambda part: parts[part]),
        compute,
        stream,
        ddr,
        array.dispatch_seconds,
    )


def uses_dma(fifo: ObjectFifo) -> bool:
    """Whether the objects travel: one consumer on a neighbouring core reads them where the producer wrote them.

    Unless a DMA has to change their order.
    """
    if len(fifo.consumers) != 1 or fifo.producer.kind != "core" or fifo.consumers[0].kind != "core":
        return True
    if fifo.dims_to_stream or any(fifo.dims_from_stream):
        return True
    consumer = fifo.consumers[0]
    return abs(consumer.column - fifo.producer.column) + abs(consumer.row - fifo.producer.row) > 1


def host_bytes(pattern: AccessPattern, itemsize: int) -> int:
    """Bytes that a transfer costs the host memory: contiguous runs count as SHORT_RUN_BYTES at least.

    The last run of a transfer may be shorter: one small transfer costs what it moves.
    """
    run = 1
    for size, stride in zip(reversed(pattern.sizes), reversed(pattern.strides), strict=True):
        if size != 1 and stride != run:
            break
        run *= size
    runs = pattern.elements // run
    return (runs - 1) * max(run * itemsize, SHORT_RUN_BYTES) + run * itemsize


class _Pass(NamedTuple):
    """One pass of a worker's body: cycles, and how many objects of each fifo it gives on."""

    cycles: int
    released: Counter[str]


def _pass(statements: Iterable[Statement], functions: Mapping[str, KernelFunction]) -> _Pass:
    cycles, released = 0, Counter[str]()
    for statement in statements:
        match statement:
            case Call(function, _):
                cycles += CALL_CYCLES + functions[function].cycles
            case Loop(rounds, body):
                inner = _pass(body, functions)
                cycles += rounds * inner.cycles
                released.update({fifo: rounds * objects for fifo, objects in inner.released.items()})
            case Release(fifo, objects):
                cycles += LOCK_CYCLES
                released[fifo] += objects
            case Acquire():
                cycles += LOCK_CYCLES
    return _Pass(cycles, released)


def count(design: Design) -> Counters:
    """The counters of one run, from the design alone: the transfers tell how often every worker repeats its body."""
    fifos = {fifo.name: fifo for fifo in design.fifos}
    functions = {function.symbol: function for function in design.functions}
    passes = {worker.tile: _pass(worker.body, functions) for worker in design.workers}
    buffers = {buffer.name: buffer for buffer in design.host_buffers}
    transfers = [step for step in design.sequence if isinstance(step, Transfer)]
    objects: dict[str, Fraction] = {}
    for transfer in transfers:
        nbytes = transfer.pattern.elements * buffers[transfer.buffer].type.itemsize
        objects[transfer.fifo] = objects.get(transfer.fifo, Fraction(0)) + Fraction(
            nbytes, fifos[transfer.fifo].type.nbytes
        )
    rounds = _spread(objects, fifos, design.links, design.workers, passes)
    stream_bytes = {}
    for name, number in objects.items():
        fifo = fifos[name]
        if uses_dma(fifo):
            nbytes = int(number * fifo.type.nbytes)
            stream_bytes[Channel(fifo.producer, name, "out")] = nbytes
            stream_bytes.update({Channel(tile, name, "in"): nbytes for tile in fifo.consumers})
    return Counters(
        {tile: int(rounds.get(tile, 0) * one.cycles) for tile, one in passes.items()},
        stream_bytes,
        sum(host_bytes(transfer.pattern, buffers[transfer.buffer].type.itemsize) for transfer in transfers),
        len(transfers),
    )


def _spread(
    objects: dict[str, Fraction],
    fifos: Mapping[str, ObjectFifo],
    links: Iterable[Link],
    workers: Iterable[Worker],
    passes: Mapping[Tile, _Pass],
) -> dict[Tile, Fraction]:
    """Complete `objects`, how many pass each fifo in a run, through links and workers. The passes of each worker."""
    rounds: dict[Tile, Fraction] = {}
    known = -1
    while known != len(objects):
        known = len(objects)
        for link in links:
            ends = (*link.inputs, *link.outputs)
            seen = next((name for name in ends if name in objects), None)
            if seen is None:
                continue
            # A split or join passes one object of every fifo; a forward passes bytes, whatever the objects are.
            for name in ends:
                scale = Fraction(1)
                if link.kind == "forward":
                    scale = Fraction(fifos[seen].type.nbytes, fifos[name].type.nbytes)
                objects.setdefault(name, objects[seen] * scale)
        for worker in workers:
            released = passes[worker.tile].released
            seen = next((name for name in worker.fifos if name in objects and released[name]), None)
            if seen is not None:
                rounds[worker.tile] = objects[seen] / released[seen]
                for name in worker.fifos:
                    objects.setdefault(name, rounds[worker.tile] * released[name])
    return rounds
