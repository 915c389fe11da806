"""DMA channels at the ends of streams.

Each end exposes the bytes of one object, or of one piece of a transfer, in stream order as its `chunk`. That is the
memory itself if the access to it is contiguous. Otherwise it is a copy, made when the chunk begins (source) or written
back when it is full (sink).
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.checks.limits import QUEUE_DEPTH
from npu_tensor.dataflow.cost import host_bytes
from npu_tensor.dataflow.design import AccessPattern, Dim, Transfer
from npu_tensor.ops.layouts import merged
from npu_tensor.runtime.sim.coroutines import Gate, Scheduler
from npu_tensor.runtime.sim.ring import Ring
from npu_tensor.runtime.sim.tile_memory import Bytes

_LARGEST_CHUNK: Final = 1 << 20
"""Upper bound on the bytes of host memory that one access copies, unless they are contiguous.

A fill reads this much ahead of the array, and a drain writes it at once.
"""


class StridedAccess(NamedTuple):
    """Nested loops over elements of `itemsize` bytes from byte `start`. strides: in bytes."""

    start: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def nbytes(self) -> int:
        """Number of bytes that are accessed."""
        return math.prod(self.sizes) * self.itemsize

    @property
    def contiguous(self) -> bool:
        """True if the access is one contiguous run."""
        return self.strides == (self.itemsize,)

    def view(self, memory: Bytes) -> np.ndarray[Any, Any]:
        """Return the elements in the order of the access. Raises ValueError if it exceeds the memory."""
        return np.ndarray(self.sizes, f"u{self.itemsize}", memory, self.start, self.strides)


def _merged(dims: Iterable[Dim]) -> list[Dim]:
    """Return the same access with as few loops as possible, at least one."""
    dims = tuple(dims)
    sizes, (strides,) = merged([dim.size for dim in dims], [[dim.stride for dim in dims]])
    return list(map(Dim, sizes, strides)) or [Dim(1, 1)]


def _access(start: int, dims: Sequence[Dim], itemsize: int) -> StridedAccess:
    return StridedAccess(
        start * itemsize, tuple(dim.size for dim in dims), tuple(dim.stride * itemsize for dim in dims), itemsize
    )


def object_access(dims: Sequence[Dim], elements: int, itemsize: int) -> StridedAccess:
    """Return the access of dims_to_stream or dims_from_stream to an object; in order without dims."""
    return _access(0, _merged(dims or [Dim(elements, 1)]), itemsize)


def pattern_accesses(pattern: AccessPattern, itemsize: int) -> list[StridedAccess]:
    """Return the accesses of a pattern to a host buffer, in pieces that differ only in their starts."""
    dims = _merged(map(Dim, pattern.sizes, pattern.strides))
    inner = len(dims) - 1
    while inner > 0 and math.prod(dim.size for dim in dims[inner - 1 :]) * itemsize <= _LARGEST_CHUNK:
        inner -= 1
    outer = itertools.product(*([index * stride for index in range(size)] for size, stride in dims[:inner]))
    return [_access(pattern.offset + sum(offsets), dims[inner:], itemsize) for offsets in outer]


_NOTHING: Final[Bytes] = np.empty(0, np.uint8)


class StreamEnd(ABC):
    """One end of a stream: the fifo whose objects move here, its tile, and the position in `chunk`."""

    def __init__(self, fifo: str, tile: Tile) -> None:
        self.fifo = fifo
        self.tile = tile
        self.chunk: Bytes = _NOTHING
        self.position = 0

    @property
    @abstractmethod
    def place(self) -> Ring | HostTask:
        """Location of the chunk: an object of a ring, or a piece of a transfer."""

    def wait(self) -> None:
        """Wait until the chunk has bytes that may move."""
        if self.position == len(self.chunk):
            self.chunk, self.position = self.next_chunk(), 0

    @abstractmethod
    def next_chunk(self) -> Bytes:
        """Wait for the next chunk and return it."""

    @abstractmethod
    def finish(self) -> None:
        """Complete the chunk after all its bytes have moved."""

    @property
    @abstractmethod
    def expects(self) -> bool:
        """True if an object or transfer has begun here that needs more bytes."""


class _Staging:
    """Memory for one object or piece in stream order."""

    def __init__(self, access: StridedAccess) -> None:
        self.key = access.sizes, access.itemsize
        self.flat: Bytes = np.empty(access.nbytes, np.uint8)
        self.shaped: np.ndarray[Any, Any] = self.flat.view(f"u{access.itemsize}").reshape(access.sizes)


class RingEnd(StreamEnd):
    """Channel of a core or memtile: one object of each ring in turn (several for the parts of a split or join)."""

    def __init__(self, fifo: str, rings: Sequence[Ring], accesses: Sequence[StridedAccess]) -> None:
        super().__init__(fifo, rings[0].tile)
        self._rings = rings
        self._turn = 0
        pairs = list(zip(rings, accesses, strict=True))
        self._objects = [[slot[: access.nbytes] for slot in ring.slots] for ring, access in pairs]
        self._views = [[access.view(slot) for slot in ring.slots] for ring, access in pairs]
        self._stagings = [None if access.contiguous else _Staging(access) for access in accesses]

    @property
    def place(self) -> Ring:
        return self._rings[self._turn]

    @property
    def expects(self) -> bool:
        return 0 < self.position < len(self.chunk)

    def _next(self) -> None:
        self._turn = (self._turn + 1) % len(self._rings)


class RingSource(RingEnd):
    """Source that sends objects to `sinks`. In a join, each object belongs to the fifo that it came from."""

    sinks: Sequence[StreamEnd] = ()

    def __init__(self, fifo: str, rings: Sequence[Ring], accesses: Sequence[StridedAccess]) -> None:
        super().__init__(fifo, rings, accesses)
        self.fifo = rings[0].fifo

    def _is_missed(self) -> bool:
        return self._turn > 0 or any(sink.expects for sink in self.sinks)

    def next_chunk(self) -> Bytes:
        turn = self._turn
        ring, staging = self._rings[turn], self._stagings[turn]
        ring.wait_for_objects(1, self._is_missed)
        slot = ring.consumed % ring.depth
        if staging is None:
            return self._objects[turn][slot]
        staging.shaped[...] = self._views[turn][slot]
        return staging.flat

    def finish(self) -> None:
        self._rings[self._turn].consume(1)
        self._next()
        self.fifo = self._rings[self._turn].fifo


class RingSink(RingEnd):
    """Sink that receives objects."""

    def next_chunk(self) -> Bytes:
        turn = self._turn
        ring, staging = self._rings[turn], self._stagings[turn]
        ring.wait_for_room(1)
        return self._objects[turn][ring.produced % ring.depth] if staging is None else staging.flat

    def finish(self) -> None:
        turn = self._turn
        ring, staging = self._rings[turn], self._stagings[turn]
        if staging is not None:
            self._views[turn][ring.produced % ring.depth][...] = staging.shaped
        ring.produce(1)
        self._next()


class HostTransfer:
    """Prepared transfer of a design."""

    def __init__(self, transfer: Transfer, itemsize: int) -> None:
        self.transfer = transfer
        self.accesses = pattern_accesses(transfer.pattern, itemsize)
        self.nbytes = transfer.pattern.elements * itemsize
        self.ddr_bytes = host_bytes(transfer.pattern, itemsize)


class HostTask:
    """One run of a transfer on one buffer. started, ended: cycles of a timed run."""

    def __init__(self, transfer: HostTransfer, memory: Bytes) -> None:
        self.transfer = transfer
        self.memory = memory
        self.pieces = 0
        self.moved = 0
        self.started = self.ended = 0

    @property
    def done(self) -> bool:
        """True if all bytes have moved."""
        return self.pieces == len(self.transfer.accesses)


class HostEnd(StreamEnd):
    """Channel of a shim tile: processes the tasks in its queue in order. progress: wait point of the host."""

    def __init__(self, scheduler: Scheduler, fifo: str, tile: Tile, progress: Gate, *, drains: bool) -> None:
        super().__init__(fifo, tile)
        self.queue: deque[HostTask] = deque()
        self.progress = progress
        self._drains = drains
        self._idle = Gate(scheduler)
        self._access: StridedAccess | None = None
        self._staging: _Staging | None = None

    def start(self, task: HostTask) -> None:
        """Queue a task as the host; waits while the queue is full."""
        while len(self.queue) >= QUEUE_DEPTH:
            self.progress.wait(lambda: f"host: the queue of fifo {self.fifo} in {self.tile} is full")
        self.queue.append(task)
        self._idle.open()

    def next_chunk(self) -> Bytes:
        while not self.queue:
            self._idle.wait(self._says)
        task = self.queue[0]
        access = task.transfer.accesses[task.pieces]
        self._access = access
        if access.contiguous:
            return task.memory[access.start : access.start + access.nbytes]
        if self._staging is None or (access.sizes, access.itemsize) != self._staging.key:
            self._staging = _Staging(access)
        if not self._drains:
            self._staging.shaped[...] = access.view(task.memory)
        return self._staging.flat

    def finish(self) -> None:
        task, access = self.queue[0], self._access
        assert access is not None
        if self._drains and not access.contiguous:
            assert self._staging is not None
            access.view(task.memory)[...] = self._staging.shaped
        task.pieces += 1
        task.moved += access.nbytes
        if task.done:
            self.queue.popleft()
            self.progress.open()

    def moved(self, task: HostTask) -> int:
        """Return the bytes of a task that have moved."""
        return task.moved + (self.position if self.queue[0] is task and self.position < len(self.chunk) else 0)

    @property
    def place(self) -> HostTask:
        return self.queue[0]

    @property
    def expects(self) -> bool:
        return bool(self.queue)

    def _says(self) -> str | None:
        return f"fifo {self.fifo}: producer waits, no transfer drains it in {self.tile}" if self._drains else None
