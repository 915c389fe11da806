"""Predicted time of a design: its data movement and computation, divided by the rates of the array.

The same `Counters` come from `count`, which reads the design, and from the simulator, which counts operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from npu_tensor.dataflow.array import RATES, STREAM_BYTES_PER_CYCLE, Array, Tile
from npu_tensor.dataflow.checks.balance import Flow
from npu_tensor.dataflow.checks.index import Index, fifo_ends, walk
from npu_tensor.dataflow.design import AccessPattern, Design, FunctionCall, KernelFunction, Loop, Statement, Transfer

CALL_CYCLES: Final[int] = RATES["both"]["call_cycles"]
"""Cycles of a core around one kernel call."""

LOCK_CYCLES: Final[int] = RATES["both"]["lock_cycles"]
"""Cycles of one acquire or release that does not wait, including the selection of the buffer."""

RUN_BYTES: Final[int] = RATES["both"]["run_bytes"]
"""Overhead of a contiguous run of host memory, in bytes."""

Limit = Literal["compute", "stream", "ddr", "control"]


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
        tasks: Transfers per shim channel, started by the controller.
        waits: Waits of the controller with no other transfer in flight.
        parameter_words: Words of runtime parameters that the controller writes.
    """

    cycles: Mapping[Tile, int]
    stream_bytes: Mapping[Channel, int]
    ddr_bytes: int
    tasks: Mapping[Channel, int]
    waits: int
    parameter_words: int

    @property
    def transfers(self) -> int:
        """Number of transfers of all channels."""
        return sum(self.tasks.values())


class Prediction(NamedTuple):
    """Predicted seconds of one run within a launch, the limiting resource, and the seconds of each resource alone.

    `overhead` is added to the slowest of them: runtime parameters, the first transfer's start, and waits.
    """

    seconds: float
    limit: Limit
    compute: float
    stream: float
    ddr: float
    control: float
    overhead: float


def predict(counters: Counters, array: Array) -> Prediction:
    """Predict the seconds of a run within a launch.

    The busiest core, the busiest DMA channel, the host memory and the controller, which queues transfers, overlap,
    because every fifo is double buffered. Parameters, the first transfer and waits for everything in flight do not.
    Filling and draining the pipeline is ignored. The families charge conflicts of memory banks.
    """
    clock, tasks = array.clock_hz, counters.tasks
    stream = 0.0
    for channel, nbytes in counters.stream_bytes.items():
        first, further = start_cycles(channel.direction, array)
        starts = first + (tasks[channel] - 1) * further if channel in tasks else 0
        stream = max(stream, nbytes / STREAM_BYTES_PER_CYCLE + starts)
    parts: dict[Limit, float] = {
        "compute": max(counters.cycles.values(), default=0) / clock,
        "stream": stream / clock,
        "ddr": counters.ddr_bytes / array.ddr_bytes_per_second,
        "control": max(0, counters.transfers - 1) * array.queue_cycles / clock,
    }
    limit = max(parts, key=lambda part: parts[part])
    cycles = array.queue_start_cycles * bool(tasks) + array.wait_cycles * counters.waits
    overhead = cycles / clock + counters.parameter_words * array.parameter_seconds
    compute, stream, ddr, control = parts.values()
    return Prediction(parts[limit] + overhead, limit, compute, stream, ddr, control, overhead)


def start_cycles(direction: Literal["in", "out"], array: Array) -> tuple[int, int]:
    """Return the cycles in which a shim channel starts the first transfer of a run, and each further one."""
    if direction == "out":
        return array.read_start_cycles, array.read_cycles
    return array.write_start_cycles, array.write_cycles


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
    stream_bytes: dict[Channel, int] = {}
    for fifo in design.fifos:
        objects, _ = flow.objects.get(fifo.name, (0, ""))
        if objects and fifo.shared_memory is None:
            nbytes = int(objects * fifo.type.nbytes)
            stream_bytes |= {Channel(end.tile, fifo.name, end.direction): nbytes for end in fifo_ends(fifo)}
    itemsizes = {buffer.name: buffer.type.itemsize for buffer in design.host_buffers}
    transfers = flow.index.transfers
    ddr_bytes = sum(host_bytes(transfer.pattern, itemsizes[transfer.buffer]) for transfer in transfers)
    words = sum(parameter.words for parameter in design.parameters)
    return Counters(cycles, stream_bytes, ddr_bytes, tasks_of(design), waits_of(design), words)


def tasks_of(design: Design) -> dict[Channel, int]:
    """Return the number of transfers of each shim channel."""
    tasks: Counter[Channel] = Counter()
    for step in design.sequence:
        if isinstance(step, Transfer):
            end = design.shim_ends[step.fifo]
            tasks[Channel(end.tile, step.fifo, end.direction)] += 1
    return dict(tasks)


def waits_of(design: Design) -> int:
    """Count the waits of a sequence after which no group of transfers is unfinished."""
    waits, unfinished = 0, dict[int, bool]()
    for step in design.sequence:
        if isinstance(step, Transfer):
            unfinished[step.group] = unfinished.get(step.group, False) or step.wait
        else:
            waits += unfinished.pop(step.group, False) and not unfinished
    return waits


def _cycles(statement: Statement, functions: Mapping[str, KernelFunction]) -> int:
    """Return the cycles of one statement, without those of a loop's body."""
    if isinstance(statement, FunctionCall):
        return CALL_CYCLES + functions[statement.function].cycles
    return 0 if isinstance(statement, Loop) else LOCK_CYCLES
