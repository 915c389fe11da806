"""Predicted time of a design: its data movement and computation, divided by the rates of the array.

The same `Counters` come from `count`, which reads the design, and from the simulator, which counts operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from npu_tensor.dataflow.array import STREAM_BYTES_PER_CYCLE, Array, Tile
from npu_tensor.dataflow.checks.balance import Flow
from npu_tensor.dataflow.checks.index import Index, walk
from npu_tensor.dataflow.design import AccessPattern, Design, FunctionCall, KernelFunction, Loop, Statement

__all__ = [
    "CALL_CYCLES",
    "LOCK_CYCLES",
    "RUN_BYTES",
    "Channel",
    "Counters",
    "Limit",
    "Prediction",
    "count",
    "host_bytes",
    "predict",
]

CALL_CYCLES: Final = 20
"""Cycles of a core around one kernel call: arguments, branch, saved registers and return. An assumption."""

LOCK_CYCLES: Final = 10
"""Cycles of one acquire or release that does not wait, including the selection of the buffer. An assumption."""

RUN_BYTES: Final = 64
"""Overhead of a contiguous run of host memory, in bytes: about one beat of the bus.

It reproduces the rates that amd/IRON publishes for products on npu2: 10 GB/s in runs of 16 bytes, 39 in runs of 128 and
47 to 52 in runs of a kilobyte and more.
"""

Limit = Literal["compute", "stream", "ddr"]


class Channel(NamedTuple):
    """DMA channel that one end of a fifo uses. direction: "out" of the tile's memory into the stream, or "in"."""

    tile: Tile
    fifo: str
    direction: Literal["in", "out"]


@dataclass(frozen=True)
class Counters:
    """Counters of one run.

    Attributes:
        cycles: Cycles per core: kernel calls, plus CALL_CYCLES for each, and LOCK_CYCLES for each acquire and release.
        stream_bytes: Bytes per DMA channel.
        ddr_bytes: Bytes between host memory and array, as counted by `host_bytes`.
        transfers: DMA tasks that the host starts.
    """

    cycles: Mapping[Tile, int]
    stream_bytes: Mapping[Channel, int]
    ddr_bytes: int
    transfers: int


class Prediction(NamedTuple):
    """Predicted seconds of one run within a launch, the limiting resource, and the seconds of each resource alone."""

    seconds: float
    limit: Limit
    compute: float
    stream: float
    ddr: float


def predict(counters: Counters, array: Array) -> Prediction:
    """Predict the seconds of a run within a launch: the maximum of busiest core, busiest DMA channel and host memory.

    The three overlap, because every fifo is double buffered. Filling and draining the pipeline and reading the
    instruction stream are ignored. The families charge conflicts of memory banks.
    """
    compute = max(counters.cycles.values(), default=0) / array.clock_hz
    stream = max(counters.stream_bytes.values(), default=0) / (STREAM_BYTES_PER_CYCLE * array.clock_hz)
    ddr = counters.ddr_bytes / array.ddr_bytes_per_second
    parts: dict[Limit, float] = {"compute": compute, "stream": stream, "ddr": ddr}
    limit = max(parts, key=lambda part: parts[part])
    return Prediction(parts[limit], limit, compute, stream, ddr)


def host_bytes(pattern: AccessPattern, itemsize: int) -> int:
    """Return the bytes that a transfer costs the host memory: every contiguous run but the last adds RUN_BYTES.

    A single run costs only the bytes that it moves.
    """
    run = 1
    for size, stride in zip(reversed(pattern.sizes), reversed(pattern.strides), strict=True):
        if size != 1 and stride != run:
            break
        run *= size
    runs = pattern.elements // run
    return pattern.elements * itemsize + (runs - 1) * RUN_BYTES


def count(design: Design) -> Counters:
    """Count the work of one run from the design alone.

    The transfers determine how often every worker repeats its body.
    """
    flow = Flow(Index(design))
    functions = {function.symbol: function for function in design.functions}
    cycles = {}
    for worker in design.workers:
        statements = walk(worker.body, flow.index.words)
        body = sum(_cycles(statement, functions) * repeats for statement, repeats in statements)
        rounds, _ = flow.rounds.get(worker.tile, (0, ""))
        cycles[worker.tile] = int(rounds * body)
    stream_bytes = {}
    for fifo in design.fifos:
        if fifo.name in flow.objects and fifo.shared_memory is None:
            nbytes = int(flow.objects[fifo.name][0] * fifo.type.nbytes)
            stream_bytes[Channel(fifo.producer, fifo.name, "out")] = nbytes
            stream_bytes.update({Channel(tile, fifo.name, "in"): nbytes for tile in fifo.consumers})
    itemsizes = {buffer.name: buffer.type.itemsize for buffer in design.host_buffers}
    transfers = flow.index.transfers
    ddr_bytes = sum(host_bytes(transfer.pattern, itemsizes[transfer.buffer]) for transfer in transfers)
    return Counters(cycles, stream_bytes, ddr_bytes, len(transfers))


def _cycles(statement: Statement, functions: Mapping[str, KernelFunction]) -> int:
    """Return the cycles of one statement, without those of a loop's body."""
    if isinstance(statement, FunctionCall):
        return CALL_CYCLES + functions[statement.function].cycles
    return 0 if isinstance(statement, Loop) else LOCK_CYCLES
