"""ObjectFifos, their handles and the links of memtiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npu_tensor.dataflow import design
from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import Dim, Dims

from .._module import MLIRError, current, memory_type
from ..helpers.taplib import TensorAccessPattern

HOST = object()
"""Whom the ends on the shim belong to."""


def _dims(dims: Any) -> Dims:
    """Dimensions of a DMA's walk: a list of tuples. Anything else becomes text that is not an attribute, as do NumPy's
    integers, which are written by `repr`."""
    right = isinstance(dims, list) and all(isinstance(dim, tuple) and len(dim) == 2 for dim in dims)
    if not right or any(type(number) is not int for dim in dims for number in dim):
        raise MLIRError(f"#aie<bd_dim_layout_array[{dims}]>: expected integer value")
    return tuple(Dim(size, stride) for size, stride in dims)


class ObjectFifo:
    """A queue of objects from one producer to one or several consumers."""

    def __init__(self, obj_type: Any, *, depth: int, name: str, dims_to_stream: Any = None) -> None:
        if depth < 1:
            raise ValueError(f"Default ObjectFifo depth must be > 0, but got {depth}")
        self.obj_type = obj_type
        self.depth = depth
        self.name = name
        self.dims_to_stream = dims_to_stream
        self._producer: Handle | None = None
        self._consumers: list[Handle] = []
        self.links: list[Link] = []
        self._resolved = False

    def prod(self, tile: Tile | None = None) -> Handle:
        """The only producer handle."""
        if self._producer is None:
            self._producer = Handle(self, True, [], tile)
        return self._producer

    def cons(self, dims_from_stream: Any = None, tile: Tile | None = None) -> Handle:
        """A new consumer handle, with every call."""
        self._consumers.append(Handle(self, False, dims_from_stream or [], tile))
        return self._consumers[-1]

    def resolve(self) -> None:
        """Once, with the links that begin or end in it."""
        if self._resolved:
            return
        self._resolved = True
        for end, handles in (("Prod", [self._producer]), ("Cons", self._consumers)):
            if not handles or any(handle is None or handle.tile is None for handle in handles):
                raise ValueError(f"{end} endpoint not set for ObjectFifo(name='{self.name}')")
        current().fifos.append(
            design.ObjectFifo(
                self.name,
                memory_type(self.obj_type),
                self._producer.tile,
                tuple(handle.tile for handle in self._consumers),
                self.depth,
                _dims(self.dims_to_stream or []),
                tuple(_dims(handle.dims_from_stream) for handle in self._consumers),
            )
        )
        for link in self.links:
            link.resolve()


class Handle:
    """One end of a fifo. tile: where it is, once it belongs to a worker, to a link or to the host."""

    def __init__(self, fifo: ObjectFifo, is_producer: bool, dims_from_stream: Any, shim: Tile | None) -> None:
        self.fifo = fifo
        self.dims_from_stream = dims_from_stream
        self.shim = shim
        self.tile: Tile | None = None
        self._is_producer = is_producer
        self._owner: object = None

    def belongs_to(self, owner: object, tile: Tile | None) -> None:
        """ValueError if it belongs to something else."""
        if self._owner not in (None, owner):
            raise ValueError(f"Endpoint already set for ObjectFifoHandle {self.fifo.name}")
        self._owner, self.tile = owner, tile

    def acquire(self, num_elem: int) -> Any:
        """Hold that many objects in total: one object, or a list of several."""
        self._check(num_elem)
        number = current().number()
        current().add(design.Acquire(self.fifo.name, num_elem, number))
        objects = [design.Element(number, position) for position in range(num_elem)]
        return objects[0] if num_elem == 1 else objects

    def release(self, num_elem: int) -> None:
        """Give the first held objects on."""
        self._check(num_elem)
        current().add(design.Release(self.fifo.name, num_elem))

    def _check(self, num_elem: int) -> None:
        if not 1 <= num_elem <= self.fifo.depth:
            raise ValueError(f"Number of elements {num_elem} must be 1 or more, and at most depth {self.fifo.depth}")

    def join(
        self,
        offsets: list[int],
        *,
        tile: Tile,
        depths: Any,
        obj_types: Any,
        names: Any,
        dims_to_stream: Any = None,
        dims_from_stream: Any = None,
    ) -> list[ObjectFifo]:
        """New fifos whose objects a memtile puts into one object of this one."""
        if not self._is_producer:
            raise ValueError("Cannot join() a cons ObjectFifoHandle")
        fifos = _parts(offsets, depths, obj_types, names, dims_to_stream)
        from_stream = dims_from_stream or [[]] * len(offsets)
        Link([f.cons(dims) for f, dims in zip(fifos, from_stream, strict=True)], [self], tile, offsets)
        return fifos

    def split(
        self, offsets: list[int], *, tile: Tile, depths: Any, obj_types: Any, names: Any, dims_to_stream: Any = None
    ) -> list[ObjectFifo]:
        """New fifos into which a memtile cuts the objects of this one."""
        if self._is_producer:
            raise ValueError("Cannot split() a prod ObjectFifoHandle")
        fifos = _parts(offsets, depths, obj_types, names, dims_to_stream)
        Link([self], [fifo.prod() for fifo in fifos], tile, offsets)
        return fifos

    def forward(self, *, tile: Tile, obj_type: Any, name: str, depth: int, dims_to_stream: Any = None) -> ObjectFifo:
        """A new fifo to which a memtile passes the objects of this one on."""
        to_stream = [dims_to_stream] if dims_to_stream else None
        return self.split([0], tile=tile, depths=[depth], obj_types=[obj_type], names=[name], dims_to_stream=to_stream)[
            0
        ]

    def fill(self, source: Any, *, tap: TensorAccessPattern, group: Any, wait: bool = False) -> None:
        """Start a transfer from a host buffer into the fifo."""
        if not self._is_producer:
            raise ValueError("fill() is only valid on a producer ObjectFifoHandle")
        group.start(self, source, tap, wait)

    def drain(self, dest: Any, *, tap: TensorAccessPattern, group: Any, wait: bool = False) -> None:
        """Start a transfer from the fifo to a host buffer."""
        if self._is_producer:
            raise ValueError("drain() is only valid on a consumer ObjectFifoHandle")
        group.start(self, dest, tap, wait)


def _parts(offsets: Sequence[int], depths: Any, types: Any, names: Any, to_stream: Any) -> list[ObjectFifo]:
    lists = zip(offsets, depths, types, names, to_stream or [None] * len(offsets), strict=True)
    return [ObjectFifo(type, depth=depth, name=name, dims_to_stream=to) for _, depth, type, name, to in lists]


class Link:
    """A memtile between fifos."""

    def __init__(self, sources: list[Handle], results: list[Handle], tile: Tile, offsets: list[int]) -> None:
        self._fifos = [[handle.fifo for handle in handles] for handles in (sources, results)]
        self._tile = tile
        self._offsets = offsets
        self._resolved = False
        for handle in (*sources, *results):
            handle.belongs_to(self, tile)
            handle.fifo.links.append(self)

    def resolve(self) -> None:
        """Once, after all its fifos."""
        if self._resolved:
            return
        self._resolved = True
        for fifo in (*self._fifos[0], *self._fifos[1]):
            fifo.resolve()
        inputs, outputs = (tuple(fifo.name for fifo in fifos) for fifos in self._fifos)
        current().links.append(design.Link(self._tile, inputs, outputs, tuple(self._offsets)))
