"""Index of a design with all lookups that the rules need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from npu_tensor._util.forks import cached_property
from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import (
    Acquire,
    CoreBuffer,
    Design,
    Dims,
    Link,
    Loop,
    ObjectFifo,
    RuntimeParameter,
    Statement,
    Transfer,
    Word,
    Worker,
)
from npu_tensor.dtypes import as_dtype
from npu_tensor.errors import DTypeError


class Violation(NamedTuple):
    """Limit that a design exceeds.

    Attributes:
        rule: Name of the rule, such as "core memory".
        where: Tile, fifo, buffer or function.
        message: Sentence with both, the value found and the limit, and a fix if that is clear.
    """

    rule: str
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"


class FifoEnd(NamedTuple):
    """One end of a fifo. direction: seen from the tile's DMA, "out" for the producer. dims: its order of elements."""

    fifo: ObjectFifo
    tile: Tile
    direction: Literal["in", "out"]
    dims: Dims


def fifo_ends(fifo: ObjectFifo) -> list[FifoEnd]:
    """Return the ends of a fifo, the producer before the consumers."""
    orders = fifo.dims_from_stream or ((),) * len(fifo.consumers)
    consumers = [FifoEnd(fifo, tile, "in", dims) for tile, dims in zip(fifo.consumers, orders, strict=False)]
    return [FifoEnd(fifo, fifo.producer, "out", fifo.dims_to_stream), *consumers]


class BufferPool(NamedTuple):
    """Buffers of a fifo in the memory of a tile, and the locks that guard them."""

    tile: Tile
    fifo: ObjectFifo
    buffers: int
    locks: int


class Descriptors(NamedTuple):
    """Buffer descriptors that the DMA at one end cycles through: their number, and the bytes of the longest."""

    end: FifoEnd
    number: int
    nbytes: int


def dtype_name(name: str) -> str:
    """Return the full name of a dtype, or "" if it is unknown."""
    try:
        return as_dtype(name).name
    except DTypeError:
        return ""


def walk(
    body: Iterable[Statement], words: Mapping[Word, int] = MappingProxyType({}), repeats: int = 1
) -> Iterator[tuple[Statement, int]]:
    """Yield every statement of a body in textual order, and how often one round of the body runs it.

    words: values of runtime parameters. A loop whose iterations are not among them counts as one iteration.
    """
    for statement in body:
        yield statement, repeats
        if isinstance(statement, Loop):
            rounds = statement.rounds if isinstance(statement.rounds, int) else words.get(statement.rounds, 1)
            yield from walk(statement.body, words, repeats * rounds)


class Index:
    """Lookups of a design by name and by tile. Attributes after `link_at` require valid references."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.fifos = {fifo.name: fifo for fifo in design.fifos}
        self.functions = {function.symbol: function for function in design.functions}
        self.host_buffers = {buffer.name: buffer for buffer in design.host_buffers}
        items: list[CoreBuffer | RuntimeParameter] = [*design.core_buffers, *design.parameters]
        self.memory = {item.name: item for item in items}
        self.workers = {worker.tile: worker for worker in design.workers}
        self.words = {
            Word(name, (self.memory[name].type.elements if name in self.memory else 0) - len(values) + number): value
            for name, values in design.values
            for number, value in enumerate(values)
        }
        self.transfers = [step for step in design.sequence if isinstance(step, Transfer)]

    @cached_property
    def ends(self) -> list[FifoEnd]:
        """Ends of all fifos, each producer before its consumers."""
        return [end for fifo in self.design.fifos for end in fifo_ends(fifo)]

    @cached_property
    def link_at(self) -> dict[tuple[str, Tile], Link]:
        """Link that uses the end of a fifo at a tile."""
        return {(name, link.tile): link for link in self.design.links for name in (*link.inputs, *link.outputs)}

    @cached_property
    def shared(self) -> dict[str, Tile]:
        """Fifos that need no DMA, with the tile whose memory holds their objects."""
        return {fifo.name: home for fifo in self.design.fifos if (home := fifo.shared_memory) is not None}

    @cached_property
    def channels(self) -> list[FifoEnd]:
        """Ends that use a DMA channel."""
        return [end for end in self.ends if end.fifo.name not in self.shared]

    @cached_property
    def largest_acquire(self) -> dict[tuple[str, Tile], int]:
        """Largest acquire by fifo and tile of the worker, in objects."""
        largest: dict[tuple[str, Tile], int] = {}
        for worker in self.design.workers:
            for statement, _ in walk(worker.body):
                if isinstance(statement, Acquire):
                    key = (statement.fifo, worker.tile)
                    largest[key] = max(largest.get(key, 0), statement.objects)
        return largest

    def buffers(self, fifo: ObjectFifo, tile: Tile) -> int:
        """Return the buffers of a core's end. With a DMA there is one more than it holds, for prefetching."""
        if fifo.name in self.shared:
            return fifo.depth
        largest = self.largest_acquire.get((fifo.name, tile), 0)
        if not largest or (largest == 1 and fifo.depth == 1):
            return fifo.depth
        return largest + 1

    def stored(self, link: Link) -> ObjectFifo:
        """Return the fifo whose objects the memtile of a link holds: the larger ones, by elements."""
        source, result = self.fifos[link.inputs[0]], self.fifos[link.outputs[0]]
        if link.kind == "forward":
            return source if source.type.elements >= result.type.elements else result
        return source if link.kind == "split" else result

    @cached_property
    def pools(self) -> list[BufferPool]:
        """Buffers of all fifos."""
        pools = []
        for fifo in self.design.fifos:
            home = self.shared.get(fifo.name)
            if home is not None:
                pools.append(BufferPool(home, fifo, fifo.depth, 2))
        for end in self.channels:
            if end.tile.kind == "shim":
                pools.append(BufferPool(end.tile, end.fifo, 0, 2))
            elif end.tile.kind == "core":
                pools.append(BufferPool(end.tile, end.fifo, self.buffers(end.fifo, end.tile), 2))
        for link in self.design.links:
            stored = self.stored(link)
            pools.append(BufferPool(link.tile, stored, stored.depth, 2 * max(len(link.inputs), len(link.outputs))))
        return pools

    @cached_property
    def descriptors(self) -> list[Descriptors]:
        """Descriptors of the DMA of every core and memtile, in the order of `channels`."""
        descriptors = []
        for end in self.channels:
            if end.tile.kind == "core":
                descriptors.append(Descriptors(end, self.buffers(end.fifo, end.tile), end.fifo.type.nbytes))
            elif end.tile.kind == "memtile":
                descriptors.append(self._link_descriptors(end, self.link_at[end.fifo.name, end.tile]))
        return descriptors

    def _link_descriptors(self, end: FifoEnd, link: Link) -> Descriptors:
        stored = self.stored(link)
        if not link.parts:
            return Descriptors(end, stored.depth, stored.type.nbytes)
        if end.fifo.name not in link.parts:  # the whole object, which moves part by part
            longest = max(self.fifos[name].type.nbytes for name in link.parts)
            return Descriptors(end, stored.depth * len(link.parts), longest)
        return Descriptors(end, stored.depth, end.fifo.type.nbytes)

    def consumes(self, worker: Worker, name: str) -> bool:
        """Return True if a worker takes objects from a fifo, and False if it produces them."""
        return self.fifos[name].producer != worker.tile
