"""Dataflow designs as data: the equivalent of an IRON description, without IRON.

A `Design` describes the work of each tile and the data movement between tiles. It has two parts. Its `Configuration` is
compiled to a binary: tiles, fifos, functions and the bodies of workers. Its sequence is the host's part of a run: it
writes runtime parameters and starts transfers. Designs for different extents can therefore share a configuration: a
worker repeats its body as often as data arrive, and a loop inside reads its number of iterations from a runtime
parameter.

A design is made with a `Builder`, whose calls look like IRON's, and is frozen. `check` validates it, the simulator runs
it, and the build lowers it to mlir-aie; none of them changes it. Sizes, strides and offsets are in elements, outermost
first.

    d = Builder("negate", "aie2p", columns=1)
    x, y = d.host_buffer("x", "int32", 4096), d.host_buffer("y", "int32", 4096)
    tile_type = ObjectType("int32", (256,))
    source = Source("negate", '#include <aie_api/aie.hpp> ...')
    negate = d.function("nt_negate", [tile_type, tile_type], source, cycles=40)
    fx = d.fifo("x0", tile_type, producer=Tile(0, 0), consumers=[Tile(0, 2)])
    fy = d.fifo("y0", tile_type, producer=Tile(0, 2), consumers=[Tile(0, 0)])

    def body(source, result):
        for _ in range_(16):
            a, b = source.acquire(1), result.acquire(1)
            negate(a, b)
            source.release(1)
            result.release(1)

    d.worker(Tile(0, 2), body, [fx, fy])
    d.fill(fx, x, AccessPattern.linear(4096))
    d.drain(fy, y, AccessPattern.linear(4096))
    design = d.build()
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Self
from weakref import WeakKeyDictionary, ref

import numpy as np

from npu_tensor._util.forks import cached_property, new_lock
from npu_tensor.dataflow.array import ARRAYS, Array, Tile
from npu_tensor.dtypes import as_dtype
from npu_tensor.errors import ArgumentError

DEFAULT_STACK: Final = 2048
"""Bytes of a core's memory for its stack.

Fused code keeps more vectors than a core has registers. Buffers begin at the end of the stack, so an overflow
overwrites them. mlir-aie's own default is 1024, of which frames of matrix products took 960 bytes with llvm-aie 21 and
take 1216 with 22 (mlir-air#1980). A build compares the compiler's figures with it (runtime/build/stack.py).
"""


LONGEST_NAME: Final = 100
"""Maximum characters of the name of a configuration, and thus of its binary files."""


class ObjectType(NamedTuple):
    """Type of one object of a fifo, one core buffer or one pointer argument."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return as_dtype(self.dtype).itemsize

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.elements * self.itemsize

    @property
    def numpy(self) -> np.dtype[Any]:
        """NumPy dtype of the elements."""
        return as_dtype(self.dtype).numpy

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


class Dim(NamedTuple):
    """One dimension of the order in which a DMA reads or writes an object."""

    size: int
    stride: int


Dims = tuple[Dim, ...]


class AccessPattern(NamedTuple):
    """Elements of a host buffer that a transfer moves, in order: four nested loops from an offset."""

    offset: int
    sizes: tuple[int, int, int, int]
    strides: tuple[int, int, int, int]

    @classmethod
    def linear(cls, elements: int, offset: int = 0) -> AccessPattern:
        """Return a pattern of `elements` contiguous elements from `offset`."""
        return cls(offset, (1, 1, 1, elements), (0, 0, 0, 1))

    @property
    def elements(self) -> int:
        """Number of elements that are moved."""
        return math.prod(self.sizes)

    def moved(self, elements: int) -> AccessPattern:
        """Return the pattern shifted by `elements`."""
        return AccessPattern(self.offset + elements, self.sizes, self.strides)


@dataclass(frozen=True)
class ObjectFifo:
    """Queue of objects from one tile to one or several others, which all receive every object.

    A shim tile is the host (a transfer), a memtile is a link, a core tile is its worker.

    Attributes:
        name: Name of the fifo.
        type: Type of its objects.
        producer: Tile that produces objects.
        consumers: Tiles that consume them.
        depth: Objects that each end can hold.
        dims_to_stream: Order in which the producing DMA reads an object; empty for in order.
        dims_from_stream: Orders in which the DMA of each consumer writes it, one entry per consumer; empty for in
            order.
    """

    name: str
    type: ObjectType
    producer: Tile
    consumers: tuple[Tile, ...]
    depth: int = 2
    dims_to_stream: Dims = ()
    dims_from_stream: tuple[Dims, ...] = ()

    @property
    def shared_memory(self) -> Tile | None:
        """Core whose memory holds the objects if they need no DMA; else None.

        A single producer and consumer need no DMA if their cores share access to a memory, unless a DMA has to reorder.
        A core reaches its own memory and that of its neighbours above, below and to the west. The producer's memory is
        preferred.
        """
        if len(self.consumers) != 1 or self.dims_to_stream or any(self.dims_from_stream):
            return None
        producer, consumer = self.producer, self.consumers[0]
        if producer.kind != "core" or consumer.kind != "core":
            return None
        step = (consumer.column - producer.column, consumer.row - producer.row)
        if step in ((0, 0), (1, 0), (0, 1), (0, -1)):
            return producer
        return consumer if step == (-1, 0) else None


@dataclass(frozen=True)
class Link:
    """Link in a memtile, which takes objects from the fifos `inputs` and passes them on to the fifos `outputs`.

    One side is a single fifo. A split has one input, a join one output, a forward one of each and no offsets.

    Attributes:
        tile: Memtile of the link.
        inputs: Names of the input fifos.
        outputs: Names of the output fifos.
        offsets: Start of each fifo of the other side in the single fifo's object, in elements.
    """

    tile: Tile
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    offsets: tuple[int, ...] = ()

    @property
    def kind(self) -> Literal["split", "join", "forward"]:
        """Kind of link in IRON's terms."""
        return "split" if len(self.outputs) > 1 else "join" if len(self.inputs) > 1 else "forward"

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the fifos whose objects are parts of the single fifo's objects; empty for a forward."""
        return {"split": self.outputs, "join": self.inputs, "forward": ()}[self.kind]


@dataclass(frozen=True)
class Source:
    """C++ of one object file, with <aie_api/aie.hpp> and the headers in kernels/include.

    flags: further compiler arguments, such as "-DROWS=4".
    """

    name: str
    text: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class KernelFunction:
    """Function of a source, extern "C". Pointer arguments are ObjectTypes, numbers are dtype names.

    Equality ignores `cycles` and `program_bytes`.

    Attributes:
        symbol: Name of the function.
        arguments: Types of its arguments.
        source: Source that defines it.
        cycles: Predicted cycles of one call, which may differ among designs of one configuration.
        program_bytes: Estimated bytes of its machine code.
    """

    symbol: str
    arguments: tuple[ObjectType | str, ...]
    source: Source
    cycles: int = field(default=0, compare=False)
    program_bytes: int = field(default=1024, compare=False)

    def __call__(self, *arguments: Any) -> None:
        """Record a call; only inside the body of a worker."""
        names = tuple(a.name if isinstance(a, (CoreBuffer, RuntimeParameter)) else a for a in arguments)
        _recorder().blocks[-1].append(FunctionCall(self.symbol, names))


@dataclass(frozen=True)
class HostBuffer:
    """Buffer in host memory that transfers read or write: an argument of the design, in order of declaration."""

    name: str
    type: ObjectType


@dataclass(frozen=True)
class CoreBuffer:
    """Memory of one core that no DMA touches. It keeps its contents between runs.

    Attributes:
        name: Name of the buffer.
        tile: Core whose memory it is.
        type: Dtype and extents.
        initial: Contents in bytes when the design is loaded; None leaves them undefined.
        address: Address in the core's memory; None leaves it to the compiler.
    """

    name: str
    tile: Tile
    type: ObjectType
    initial: bytes | None = None
    address: int | None = None

    def __getitem__(self, number: int) -> Word:
        """Return the placeholder for one of its int32 elements in a worker's body."""
        return Word(self.name, number)


class Word(NamedTuple):
    """One word of a runtime parameter or core buffer: the iterations of a loop, or an int32 argument of a function."""

    memory: str
    number: int


@dataclass(frozen=True)
class RuntimeParameter:
    """Words of type int32 in a core's memory that every run writes before its first transfer.

    They are part of the instruction stream and not of the binary. The sequence defines the values of the last ones
    (`Builder.write`). The earlier ones are passed with every run, the same for all parameters of a design. A float32 is
    passed as its bits. A worker may read them only after it has acquired an object that the run's own transfers bring.
    """

    name: str
    tile: Tile
    words: int

    def __getitem__(self, number: int) -> Word:
        """Return the placeholder for one of its words in a worker's body."""
        return Word(self.name, number)

    @property
    def type(self) -> ObjectType:
        """Type of the kernel function's pointer argument."""
        return ObjectType("int32", (self.words,))


# --- the function of a worker, as statements


class Element(NamedTuple):
    """Held object, by its position among those returned by the acquire with the number `acquire`."""

    acquire: int
    position: int


class Acquire(NamedTuple):
    """Statement that waits until `objects` objects of a fifo are held.

    number: reference for Elements; unique in its worker.
    """

    fifo: str
    objects: int
    number: int


class Release(NamedTuple):
    """Statement that releases the first `objects` held objects of a fifo."""

    fifo: str
    objects: int


class FunctionCall(NamedTuple):
    """Statement that calls a kernel function.

    Its arguments are held objects, core buffers and runtime parameters (by name), words, and numbers.
    """

    function: str
    arguments: tuple[Element | str | Word | int | float, ...]


class Loop(NamedTuple):
    """Statement that repeats `body` for a number of iterations, which may be a run's parameter.

    It leaves the number of held objects unchanged.
    """

    rounds: int | Word
    body: tuple[Statement, ...]


Statement = Acquire | Release | FunctionCall | Loop


@dataclass(frozen=True)
class Worker:
    """Work that one core repeats. fifos: the ends it uses, in the order of the body's parameters."""

    tile: Tile
    fifos: tuple[str, ...]
    body: tuple[Statement, ...]
    stack_size: int = DEFAULT_STACK


# --- what the host does


class Transfer(NamedTuple):
    """One DMA task at the shim end of a fifo: from a host buffer if the fifo starts there, else to it.

    wait: True if the end of its group waits for it. Groups are numbers; `Finish` ends one.
    """

    fifo: str
    buffer: str
    pattern: AccessPattern
    group: int
    wait: bool


class Finish(NamedTuple):
    """Step that waits for the group's waiting transfers and frees the buffer descriptors of all of them."""

    group: int


class ShimEnd(NamedTuple):
    """Connection of a fifo with the host: a channel of a column's shim. direction: "out" of the shim, or "in"."""

    column: int
    direction: Literal["in", "out"]
    channel: int

    @property
    def tile(self) -> Tile:
        """Shim tile."""
        return Tile(self.column, 0)


@dataclass(frozen=True)
class Configuration:
    """Part of a design that determines the binary: everything on the array. Hashable and comparable.

    arguments: number of host buffers of its designs, which the binary declares.
    """

    name: str
    arch: str
    columns: int
    arguments: int
    fifos: tuple[ObjectFifo, ...]
    links: tuple[Link, ...]
    functions: tuple[KernelFunction, ...]
    core_buffers: tuple[CoreBuffer, ...]
    parameters: tuple[RuntimeParameter, ...]
    workers: tuple[Worker, ...]

    @property
    def array(self) -> Array:
        """Generation of the array."""
        return ARRAYS[self.arch]

    def fifo(self, name: str) -> ObjectFifo:
        """Return the fifo of a name; raise KeyError if there is none."""
        return self._fifos[name]

    @cached_property
    def _fifos(self) -> dict[str, ObjectFifo]:
        return {fifo.name: fifo for fifo in self.fifos}

    @cached_property
    def shim_ends(self) -> dict[str, ShimEnd]:
        """Shim ends of the fifos that the host fills or drains, by name.

        mlir-aie counts channels in the order of names.
        """
        counts: Counter[tuple[int, str]] = Counter()
        ends = {}
        for fifo in sorted(self.fifos, key=lambda fifo: fifo.name):
            for number, tile in enumerate((fifo.producer, *fifo.consumers)):
                if tile.kind == "shim":
                    direction: Literal["in", "out"] = "in" if number else "out"
                    ends[fifo.name] = ShimEnd(tile.column, direction, counts[tile.column, direction])
                    counts[tile.column, direction] += 1
        return ends

    def shared(self) -> Self:
        """Return the canonical object among all live configurations, or designs, equal to this one."""
        # Weak, because it may refer to the object itself.
        reference: ref[Self] | None = vars(self).get("_shared")
        if reference is None or (shared := reference()) is None:
            with _lock:
                reference = _canonical.get(self)
                shared = self if reference is None else reference() or self
                if shared is self:
                    _canonical[self] = ref(self)
            vars(self)["_shared"] = ref(shared)
        return shared

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without cached values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


_canonical: Final[WeakKeyDictionary[Configuration, ref[Any]]] = WeakKeyDictionary()
_lock = new_lock()


class LastWords(NamedTuple):
    """Values of the last words of a runtime parameter in every run of a design, or of all words that a core computes.

    memory: the parameter, or a core buffer of type int32 that a function fills before a loop reads it.
    """

    memory: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class Design(Configuration):
    """Complete kernel except for its data: a configuration, and the host's part of a run."""

    host_buffers: tuple[HostBuffer, ...]
    values: tuple[LastWords, ...]
    sequence: tuple[Transfer | Finish, ...]

    @cached_property
    def configuration(self) -> Configuration:
        """Configuration without the host's part: one object for all live designs that share it."""
        return Configuration(**_parts(self)).shared()

    @cached_property
    def written(self) -> frozenset[str]:
        """Names of the host buffers that the array writes."""
        transfers = (step for step in self.sequence if isinstance(step, Transfer))
        return frozenset(transfer.buffer for transfer in transfers if self.shim_ends[transfer.fifo].direction == "in")

    @cached_property
    def run_words(self) -> int:
        """Number of words of each runtime parameter that are passed with every run."""
        values = dict(self.values)
        return max([0, *[p.words - len(values.get(p.name, ())) for p in self.parameters]])


_FIELDS: Final = tuple([field.name for field in fields(Configuration)])


def _parts(configuration: Configuration) -> dict[str, Any]:
    """Return the arguments of `Configuration`."""
    return {name: getattr(configuration, name) for name in _FIELDS}


# --- making one


class _Recorder:
    """Recorder of the statements of one worker while its body runs."""

    def __init__(self) -> None:
        self.blocks: list[list[Statement]] = [[]]
        self.acquires = 0


_recording: ContextVar[_Recorder | None] = ContextVar("recording", default=None)


def _recorder() -> _Recorder:
    recorder = _recording.get()
    if recorder is None:
        raise ArgumentError("this is only possible inside the body of a worker")
    return recorder


def range_(count: int | Word) -> Iterator[int]:
    """Record a loop on the core. The body is recorded once, so nothing may depend on the index, which is always 0."""
    blocks = _recorder().blocks
    blocks.append([])
    yield 0
    body = tuple(blocks.pop())
    if count == 1:  # mlir-aie mishandles loops of one round (its issue 1547)
        blocks[-1].extend(body)
    elif count and body:
        blocks[-1].append(Loop(count, body))


class _End:
    """End of a fifo at a worker while its body is recorded."""

    def __init__(self, fifo: ObjectFifo) -> None:
        self._fifo = fifo

    def acquire(self, count: int) -> Any:
        """Hold `count` objects in total: return an Element for 1, a tuple of them for more."""
        recorder = _recorder()
        number = recorder.acquires
        recorder.acquires += 1
        recorder.blocks[-1].append(Acquire(self._fifo.name, count, number))
        elements = tuple(Element(number, position) for position in range(count))
        return elements[0] if count == 1 else elements

    def release(self, count: int) -> None:
        """Release the first `count` held objects."""
        _recorder().blocks[-1].append(Release(self._fifo.name, count))


class SequenceBuilder:
    """Builder of the host's part of a run; `build` freezes it as a design.

    sequence = SequenceBuilder(configuration)
    x = sequence.host_buffer("x", "int32", 4096)
    sequence.fill(configuration.fifo("x0"), x, AccessPattern.linear(4096))
    """

    def __init__(self, configuration: Configuration | None) -> None:
        self._configuration = configuration
        self._host_buffers: list[HostBuffer] = []
        self._values: dict[str, tuple[int, ...]] = {}
        self._sequence: list[Transfer | Finish] = []
        self._groups = 0
        self._open: int | None = None

    @property
    def configuration(self) -> Configuration:
        """Configuration that the sequence runs on."""
        assert self._configuration is not None
        return self._configuration

    def host_buffer(self, name: str, dtype: str, elements: int) -> HostBuffer:
        """Declare the next argument of the design."""
        buffer = HostBuffer(name, ObjectType(dtype, (elements,)))
        self._host_buffers.append(buffer)
        return buffer

    def write(self, parameter: RuntimeParameter, values: Sequence[int]) -> None:
        """Set the last words of a runtime parameter, the same in every run of this sequence."""
        self._values[parameter.name] = tuple(values)

    def expect(self, buffer: CoreBuffer, values: Sequence[int]) -> None:
        """State the words that a core computes in every run of this sequence, for checks. Loops may read them."""
        self._values[buffer.name] = tuple(values)

    def group(self) -> int:
        """Open a new group for transfers and return its number."""
        self._groups += 1
        return self._groups - 1

    def finish(self, group: int) -> None:
        """End a group: wait for its transfers that are to be waited for."""
        self._sequence.append(Finish(group))

    def fill(
        self, fifo: ObjectFifo, buffer: HostBuffer, pattern: AccessPattern, group: int | None = None, wait: bool = False
    ) -> None:
        """Send a part of a host buffer into a fifo. Without a group it belongs to the one that `build` ends."""
        self.transfer(fifo, buffer, pattern, group, wait)

    def drain(self, fifo: ObjectFifo, buffer: HostBuffer, pattern: AccessPattern, group: int | None = None) -> None:
        """Write the output of a fifo to a part of a host buffer."""
        self.transfer(fifo, buffer, pattern, group)

    def transfer(
        self,
        fifo: ObjectFifo,
        buffer: HostBuffer,
        pattern: AccessPattern,
        group: int | None = None,
        wait: bool | None = None,
    ) -> None:
        """Add a fill or a drain, depending on the direction of the fifo. wait: None waits for drains only."""
        if group is None:
            if self._open is None:
                self._open = self.group()
            group = self._open
        wait = fifo.producer.kind != "shim" if wait is None else wait
        self._sequence.append(Transfer(fifo.name, buffer.name, pattern, group, wait))

    def build(self, cycles: Mapping[str, int] = MappingProxyType({})) -> Design:
        """Return the frozen design.

        cycles: predicted cycles per call, by symbol, for functions whose cycles depend on the design.
        """
        sequence = list(self._sequence)
        if self._open is not None:
            sequence.append(Finish(self._open))
        configuration = self.configuration
        if len(self._host_buffers) != configuration.arguments:
            counts = f"{configuration.arguments} host buffers, and not {len(self._host_buffers)}"
            raise ArgumentError(f"designs of the configuration {configuration.name} have {counts}")
        parts = _parts(configuration)
        if cycles:
            functions = [replace(f, cycles=cycles.get(f.symbol, f.cycles)) for f in configuration.functions]
            parts["functions"] = tuple(functions)
        design = Design(
            **parts,
            host_buffers=tuple(self._host_buffers),
            values=tuple(map(LastWords, self._values.keys(), self._values.values())),
            sequence=tuple(sequence),
        )
        # Comparing configurations takes as long as building many sequences.
        vars(design)["configuration"] = configuration.shared()
        return design


class Builder(SequenceBuilder):
    """Builder of a configuration and its sequence. See the module's text for an example."""

    def __init__(self, name: str, arch: str, columns: int, arguments: int | None = None) -> None:
        """Create a builder. arguments: number of host buffers of the designs, if they are not declared here."""
        super().__init__(None)
        self.name = name[:LONGEST_NAME]
        self.arch = arch
        self.columns = columns
        self.arguments = arguments
        self._fifos: list[ObjectFifo] = []
        self._links: list[Link] = []
        self._functions: dict[KernelFunction, KernelFunction] = {}
        self._core_buffers: list[CoreBuffer] = []
        self._parameters: list[RuntimeParameter] = []
        self._workers: list[Worker] = []

    @property
    def configuration(self) -> Configuration:
        """Configuration of all declarations so far."""
        return Configuration(
            self.name,
            self.arch,
            self.columns,
            len(self._host_buffers) if self.arguments is None else self.arguments,
            tuple(self._fifos),
            tuple(self._links),
            tuple(self._functions),
            tuple(self._core_buffers),
            tuple(self._parameters),
            tuple(self._workers),
        )

    def fifo(
        self,
        name: str,
        type: ObjectType,
        producer: Tile,
        consumers: Sequence[Tile],
        depth: int = 2,
        dims_to_stream: Sequence[tuple[int, int]] = (),
        dims_from_stream: Sequence[Sequence[tuple[int, int]]] = (),
    ) -> ObjectFifo:
        """Declare a fifo."""
        fifo = ObjectFifo(
            name,
            type,
            producer,
            tuple(consumers),
            depth,
            _dims(dims_to_stream),
            tuple(_dims(dims) for dims in dims_from_stream),
        )
        self._fifos.append(fifo)
        return fifo

    def split(self, parent: ObjectFifo, children: Sequence[ObjectFifo]) -> None:
        """Let the memtile that consumes `parent` cut each object into one object of each child, in their order."""
        names = tuple(child.name for child in children)
        self._links.append(Link(parent.consumers[0], (parent.name,), names, _offsets(children)))

    def join(self, children: Sequence[ObjectFifo], parent: ObjectFifo) -> None:
        """Let the memtile that produces `parent` put one object of each child into each of its objects."""
        names = tuple(child.name for child in children)
        self._links.append(Link(parent.producer, names, (parent.name,), _offsets(children)))

    def forward(self, source: ObjectFifo, result: ObjectFifo) -> None:
        """Let the memtile between two fifos pass the objects on."""
        self._links.append(Link(result.producer, (source.name,), (result.name,)))

    def function(
        self,
        symbol: str,
        arguments: Sequence[ObjectType | str],
        source: Source,
        cycles: int = 0,
        program_bytes: int = 1024,
    ) -> KernelFunction:
        """Declare a function of a source. Equal declarations are merged."""
        function = KernelFunction(symbol, tuple(arguments), source, cycles, program_bytes)
        return self._functions.setdefault(function, function)

    def core_buffer(
        self, name: str, tile: Tile, type: ObjectType, initial: bytes | None = None, address: int | None = None
    ) -> CoreBuffer:
        """Declare memory of a core."""
        if initial is not None and len(initial) != type.nbytes:
            raise ArgumentError(f"buffer {name}: {len(initial)} initial bytes for {type}")
        buffer = CoreBuffer(name, tile, type, initial, address)
        self._core_buffers.append(buffer)
        return buffer

    def parameter(self, name: str, tile: Tile, words: int) -> RuntimeParameter:
        """Declare int32 words that every run writes into a core's memory first."""
        parameter = RuntimeParameter(name, tile, words)
        self._parameters.append(parameter)
        return parameter

    def worker(
        self,
        tile: Tile,
        body: Callable[..., None],
        arguments: Sequence[Any],
        stack_size: int = DEFAULT_STACK,
    ) -> Worker:
        """Record the work of a core.

        `body` is called once, with an end for each fifo and all other arguments unchanged.
        """
        recorder = _Recorder()
        token = _recording.set(recorder)
        try:
            body(*(_End(a) if isinstance(a, ObjectFifo) else a for a in arguments))
        finally:
            _recording.reset(token)
        if len(recorder.blocks) != 1:
            raise ArgumentError(f"{tile}: a loop over range_ was left before its end")
        fifos = tuple(a.name for a in arguments if isinstance(a, ObjectFifo))
        worker = Worker(tile, fifos, tuple(recorder.blocks[0]), stack_size)
        self._workers.append(worker)
        return worker


def _dims(dims: Sequence[tuple[int, int]]) -> Dims:
    return tuple(Dim(*dim) for dim in dims)


def _offsets(children: Sequence[ObjectFifo]) -> tuple[int, ...]:
    """Return the starts of objects that lie one after another, in elements."""
    return tuple(accumulate((child.type.elements for child in children[:-1]), initial=0))
