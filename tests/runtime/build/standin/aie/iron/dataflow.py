"""ObjectFifos, their handles and the links of memtiles."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from .._standin import since
from .._standin.record import Acquire, Fifo, Link, MLIRError, Release, current, type_of
from .._standin.signatures import checked
from .._standin.types import MemRef, Value
from .device import AIETileType, AnyMemTile, Tile, typed

__all__ = ["ObjectFifo", "ObjectFifoEndpoint", "ObjectFifoHandle", "ObjectFifoLink", "pairs"]


class ObjectFifoEndpoint:
    """What an end of a fifo belongs to: a worker, a link or the host."""

    def __init__(self, tile: Any) -> None:
        self._tile = tile

    @property
    def tile(self) -> Any:
        """Where it is."""
        return self._tile


def pairs(dims: Sequence[Sequence[int]] | None) -> list[tuple[int, int]]:
    """Dimensions of a DMA's walk: a list of tuples. Anything else becomes text that is no attribute, as do NumPy's
    integers, which are written by `repr`."""
    found = [] if dims is None else dims
    right = isinstance(found, list) and all(isinstance(dim, tuple) and len(dim) == 2 for dim in found)
    if not right or any(type(number) is not int for dim in found for number in dim):
        raise MLIRError(f"#aie<bd_dim_layout_array[{dims}]>: expected integer value")
    return [(size, stride) for size, stride in found]


class ObjectFifo:
    """A queue of objects from one producer to one or several consumers."""

    _numbers = itertools.count()

    @checked("ObjectFifo")
    def __init__(
        self,
        obj_type: Any,
        depth: int | None,
        name: str | None,
        dims_to_stream: Any,
        dims_from_stream_per_cons: Any,
    ) -> None:
        if depth is not None and depth < 1:
            raise ValueError(f"Default ObjectFifo depth must be > 0, but got {depth}")
        self.name = f"of{next(ObjectFifo._numbers)}" if name is None else name
        self.obj_type = obj_type
        self.depth = depth
        self.dims_to_stream = dims_to_stream
        self.dims_from_stream_per_cons = dims_from_stream_per_cons
        self._prod: ObjectFifoHandle | None = None
        self._cons: list[ObjectFifoHandle] = []
        self._op: Fifo | None = None

    @checked("ObjectFifo.prod")
    def prod(self, depth: int | None, tile: Tile | None = None) -> ObjectFifoHandle:
        """The only producer handle."""
        if self._prod is None:
            self._prod = ObjectFifoHandle(self, True, depth, None, tile)
        elif depth is None and self.depth is None:
            raise ValueError("If depth is None, then depth must be specified.")
        elif depth is not None and depth < 1:
            raise ValueError(f"Depth must be > 1, but got {depth}")
        elif tile is not None and not _same_place(self._prod.shim_tile, tile):
            raise ValueError(f"Producer handle for {self.name} already pinned, cannot re-pin to {tile}.")
        return self._prod

    @checked("ObjectFifo.cons")
    def cons(self, depth: int | None, dims_from_stream: Any, tile: Tile | None = None) -> ObjectFifoHandle:
        """A new consumer handle, with every call."""
        if depth is None:
            if self.depth is None:
                raise ValueError("If depth is None, then depth must be specified.")
            depth = self.depth
        handle = ObjectFifoHandle(self, False, depth, dims_from_stream, tile)
        self._cons.append(handle)
        return handle

    @property
    def op(self) -> Fifo:
        """What it resolved to."""
        if self._op is None:
            raise RuntimeError("Cannot get operation; class not resolved.")
        return self._op

    def endpoints(self, producing: bool) -> list[ObjectFifoEndpoint]:
        """What its producer, or its consumers, belong to; ValueError if it is used at one end only."""
        handles = self._cons if not producing else [self._prod] if self._prod else []
        end = "Prod" if producing else "Cons"
        if not handles or any(handle.endpoint is None for handle in handles):
            raise ValueError(f"{end} endpoint not set for ObjectFifo(name='{self.name}')")
        return [handle.endpoint for handle in handles]  # type: ignore[misc]

    def resolve(self) -> None:
        """Once."""
        if self._op is not None:
            return
        (producer,) = self.endpoints(True)
        consumers = self.endpoints(False)
        memory = type_of(self.obj_type)
        if not isinstance(memory, MemRef):
            raise TypeError(f"{self.obj_type} is no NumPy array type")
        assert self._prod is not None
        self._op = Fifo(
            self.name,
            memory,
            producer.tile.op,
            [consumer.tile.op for consumer in consumers],
            [handle.depth for handle in (self._prod, *self._cons)],
            pairs(self.dims_to_stream),
            [pairs(handle.dims_from_stream) for handle in self._cons],
        )
        current().fifos.append(self._op)
        for endpoint in (producer, *consumers):
            if isinstance(endpoint, ObjectFifoLink):
                endpoint.resolve()


def _same_place(a: Tile | None, b: Tile | None) -> bool:
    return a is b if a is None or b is None else (a.col, a.row) == (b.col, b.row)


class ObjectFifoHandle:
    """One end of a fifo."""

    def __init__(
        self, fifo: ObjectFifo, is_prod: bool, depth: int | None, dims_from_stream: Any, tile: Tile | None
    ) -> None:
        depth = depth if depth is not None else fifo.depth
        if not depth:
            raise ValueError("Must specify either ObjectFifoHandle depth or ObjectFifo default depth; both are None.")
        if depth < 1:
            raise ValueError(f"Depth must be > 0 but is {depth}")
        self._is_prod = is_prod
        self._object_fifo = fifo
        self.depth = depth
        self.shim_tile = tile
        self.dims_from_stream = None if is_prod else dims_from_stream or fifo.dims_from_stream_per_cons
        self._endpoint: ObjectFifoEndpoint | None = None

    @property
    def name(self) -> str:
        """Of the fifo."""
        return self._object_fifo.name

    @property
    def handle_type(self) -> str:
        """Which end."""
        return "prod" if self._is_prod else "cons"

    @property
    def endpoint(self) -> ObjectFifoEndpoint | None:
        """What this end belongs to; it can be set once."""
        return self._endpoint

    @endpoint.setter
    def endpoint(self, endpoint: ObjectFifoEndpoint) -> None:
        if self._endpoint and self._endpoint != endpoint:
            raise ValueError(
                f"Endpoint already set for ObjectFifoHandle {self.name}.{self.handle_type}:"
                f" Set to {self._endpoint}, trying to set to {endpoint}"
            )
        self._endpoint = endpoint

    def all_of_endpoints(self) -> list[ObjectFifoEndpoint]:
        """Of the fifo."""
        return self._object_fifo.endpoints(True) + self._object_fifo.endpoints(False)

    @checked("ObjectFifoHandle.acquire")
    def acquire(self, num_elem: int) -> Any:
        """Hold that many objects in total: one object, or a list of several."""
        if self.depth < num_elem:
            raise ValueError(f"Number of elements to acquire {num_elem} must be smaller than depth {self.depth}")
        if num_elem < 1:
            raise ValueError("Must consume at least one element")
        module, op = current(), self._object_fifo.op
        number = module.number()
        module.add(Acquire(op.name, self.handle_type, num_elem, number, op.type))
        objects = [Value(op.type, (number, position)) for position in range(num_elem)]
        return objects[0] if num_elem == 1 else objects

    @checked("ObjectFifoHandle.release")
    def release(self, num_elem: int) -> None:
        """Give the first held objects on."""
        if self.depth < num_elem:
            raise ValueError(f"Number of elements to release {num_elem} must be smaller than depth {self.depth}")
        if num_elem < 1:
            raise ValueError("Must produce at least one element")
        current().add(Release(self._object_fifo.op.name, self.handle_type, num_elem))

    @checked("ObjectFifoHandle.join")
    def join(
        self,
        offsets: list[int],
        tile: Any,
        depths: Any,
        obj_types: Any,
        names: Any,
        dims_to_stream: Any,
        dims_from_stream: Any,
    ) -> list[ObjectFifo]:
        """New fifos whose objects a memtile puts into one object of this one."""
        if not self._is_prod:
            raise ValueError(f"Cannot join() a {self.handle_type} ObjectFifoHandle")
        parts = self._parts(offsets, depths, obj_types, names, dims_to_stream, dims_from_stream, "_join")
        fifos = [ObjectFifo(type, name=name, depth=d, dims_to_stream=to) for type, name, d, to, _ in parts]
        ends = [fifo.cons(depth=part[2], dims_from_stream=part[4]) for fifo, part in zip(fifos, parts, strict=True)]
        ObjectFifoLink(ends, [self], tile, offsets, [])
        return fifos

    @checked("ObjectFifoHandle.split")
    def split(
        self,
        offsets: list[int],
        tile: Any,
        depths: Any,
        obj_types: Any,
        names: Any,
        dims_to_stream: Any,
        dims_from_stream: Any,
    ) -> list[ObjectFifo]:
        """New fifos into which a memtile cuts the objects of this one."""
        if self._is_prod:
            raise ValueError(f"Cannot split() a {self.handle_type} ObjectFifoHandle")
        parts = self._parts(offsets, depths, obj_types, names, dims_to_stream, dims_from_stream, "_split")
        fifos = [
            ObjectFifo(type, name=name, depth=d, dims_to_stream=to, dims_from_stream_per_cons=from_)
            for type, name, d, to, from_ in parts
        ]
        ObjectFifoLink([self], [fifo.prod() for fifo in fifos], tile, [], offsets)
        return fifos

    @checked("ObjectFifoHandle.forward")
    def forward(
        self, tile: Any, obj_type: Any, depth: Any, name: Any, dims_to_stream: Any, dims_from_stream: Any
    ) -> ObjectFifo:
        """A new fifo to which a memtile passes the objects of this one on."""
        if self._is_prod:
            raise ValueError(f"Cannot forward a {self.handle_type} ObjectFifoHandle")
        (fifo,) = self.split(
            [0],
            tile,
            [depth] if depth else None,
            [obj_type] if obj_type else None,
            [name] if name else [f"{self.name}_fwd"],
            [dims_to_stream] if dims_to_stream else None,
            [dims_from_stream] if dims_from_stream else None,
        )
        return fifo

    def _parts(self, offsets: Any, depths: Any, types: Any, names: Any, to: Any, from_: Any, suffix: str) -> Any:
        count = len(offsets)
        lists = {
            "depths": depths if depths is not None else [self.depth] * count,
            "obj_types": types if types is not None else [self._object_fifo.obj_type] * count,
            "names": names if names is not None else [f"{self.name}{suffix}{i}" for i in range(count)],
            "dims_to_stream": to if to is not None else [[]] * count,
            "dims_from_stream": from_ if from_ is not None else [[]] * count,
        }
        for which, values in lists.items():
            if len(values) != count:
                raise ValueError(f"Number of {which} does not match number of offsets")
        found = list(zip(*lists.values(), strict=True))
        return [(type, name, depth, to, from_) for depth, type, name, to, from_ in found]

    if since("1.4.0"):

        @checked("ObjectFifoHandle.fill")
        def fill(self, source: Any, tap: Any, wait: bool, group: Any) -> None:
            """Start a transfer from a host buffer into the fifo."""
            from .runtime import start_transfer

            if not self._is_prod:
                raise ValueError("fill() is only valid on a producer ObjectFifoHandle")
            start_transfer(self, source, tap, wait, group)

        @checked("ObjectFifoHandle.drain")
        def drain(self, dest: Any, tap: Any, wait: bool, group: Any) -> None:
            """Start a transfer from the fifo to a host buffer."""
            from .runtime import start_transfer

            if self._is_prod:
                raise ValueError("drain() is only valid on a consumer ObjectFifoHandle")
            start_transfer(self, dest, tap, wait, group)

    def resolve(self) -> None:
        """The fifo."""
        self._object_fifo.resolve()


class ObjectFifoLink(ObjectFifoEndpoint):
    """A memtile between fifos."""

    def __init__(
        self,
        sources: list[ObjectFifoHandle],
        results: list[ObjectFifoHandle],
        tile: Any,
        source_offsets: list[int],
        result_offsets: list[int],
    ) -> None:
        if not sources or not results:
            raise ValueError("An ObjectFifoLink must have at least one source and one destination")
        self.sources = sources
        self.results = results
        self.offsets = source_offsets, result_offsets
        for handle in (*sources, *results):
            handle.endpoint = self
        tile = AnyMemTile if tile is None else tile
        super().__init__(typed(tile, tile.tile_type or AIETileType.MemTile))
        self._resolved = False

    def resolve(self) -> None:
        """Once, after all its fifos."""
        if self._resolved:
            return
        self._resolved = True
        for handle in (*self.sources, *self.results):
            handle.resolve()
        inputs, outputs = [h.name for h in self.sources], [h.name for h in self.results]
        current().links.append(Link(inputs, outputs, list(self.offsets[0]), list(self.offsets[1])))
