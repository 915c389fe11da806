"""What resolving a program leaves behind: the operations that mlir-aie would have put into its MLIR module.

`str(module)` writes them like MLIR, one line each, close enough to read and for the stand-in's compiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from . import VERSION
from .types import MemRef, Value, converted
from .views import Attributes, View, block

__all__ = [
    "Acquire",
    "Argument",
    "Await",
    "BufferOp",
    "Call",
    "Core",
    "Fifo",
    "Free",
    "Function",
    "Link",
    "Load",
    "LoadPdi",
    "Loop",
    "MLIRError",
    "Module",
    "Release",
    "TileOp",
    "Transfer",
    "WriteParameter",
    "current",
    "making",
    "type_of",
]


class MLIRError(Exception):
    """The module does not verify."""


# --- operations


@dataclass(eq=False)
class TileOp:
    """kind: "shim", "memtile" or "core". Column and row are None where the compiler is to choose."""

    kind: str
    column: int | None
    row: int | None

    def __str__(self) -> str:
        place = ", ".join("?" if x is None else str(x) for x in (self.column, self.row))
        return f"%{self.kind}({place})"


@dataclass
class Fifo:
    """depths: of the producer and of each consumer. dims: pairs of size and stride; from_stream: per consumer."""

    name: str
    type: MemRef
    producer: TileOp
    consumers: list[TileOp]
    depths: list[int]
    dims_to_stream: list[tuple[int, int]]
    dims_from_stream: list[list[tuple[int, int]]]

    def __str__(self) -> str:
        consumers = ", ".join(map(str, self.consumers))
        dims = f" dimensionsToStream {self.dims_to_stream}" if self.dims_to_stream else ""
        if any(self.dims_from_stream):
            dims += f" dimensionsFromStream {self.dims_from_stream}"
        return f"aie.objectfifo @{self.name}({self.producer}, {{{consumers}}}, {self.depths}){dims} : {self.type}"


@dataclass
class Link:
    """One side has a single fifo. Offsets are elements of the single one's objects."""

    inputs: list[str]
    outputs: list[str]
    input_offsets: list[int]
    output_offsets: list[int]

    def __str__(self) -> str:
        return f"aie.objectfifo.link {self.inputs} -> {self.outputs} ({self.input_offsets} {self.output_offsets})"


@dataclass
class Function:
    """A declaration. object_file: what a core that calls it links."""

    symbol: str
    arguments: list[Any]
    object_file: str

    def __str__(self) -> str:
        arguments = ", ".join(map(str, self.arguments))
        return f'func.func private @{self.symbol}({arguments}) attributes {{link_with = "{self.object_file}"}}'


@dataclass
class BufferOp:
    """Memory of a core."""

    name: str
    tile: TileOp
    type: MemRef
    initial: bytes | None
    written_by_host: bool

    def __str__(self) -> str:
        initial = "" if self.initial is None else f" = 0x{self.initial.hex()}"
        return f"aie.buffer @{self.name}({self.tile}){initial} : {self.type}"


class Acquire(NamedTuple):
    fifo: str
    port: str
    objects: int
    number: int
    type: MemRef

    def __str__(self) -> str:
        return f"%{self.number} = aie.objectfifo.acquire @{self.fifo}({self.port}, {self.objects})"


class Release(NamedTuple):
    fifo: str
    port: str
    objects: int

    def __str__(self) -> str:
        return f"aie.objectfifo.release @{self.fifo}({self.port}, {self.objects})"


class Call(NamedTuple):
    function: str
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        arguments = [str(a.name) if isinstance(a, Value) else repr(a) for a in self.arguments]
        return f"func.call @{self.function}({', '.join(arguments)})"


class Load(NamedTuple):
    """A word of a buffer, by which its value is named."""

    buffer: str
    index: int


class Loop(NamedTuple):
    start: int
    stop: int | Load
    step: int
    body: list[Any]


@dataclass
class Core:
    """fifos: the ends that its worker was given, in order. endless: it starts over when it is done. attributes: those
    that were set on the operation, by name."""

    tile: TileOp
    stack_size: int | None
    fifos: list[str]
    endless: bool
    attributes: Attributes
    body: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        attributes = {"stack_size": self.stack_size, **self.attributes}
        given = "".join(f" {name} = {value}" for name, value in attributes.items() if value)
        return f"aie.core({self.tile}){given}{' endless' * self.endless}"


class Transfer(NamedTuple):
    """A DMA task at the shim end of a fifo, started when it is configured. token: whether it can be awaited."""

    number: int
    fifo: str
    argument: int
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    token: bool

    def __str__(self) -> str:
        return (
            f"%t{self.number} = aiex.dma_configure_task_for @{self.fifo} (%arg{self.argument}, offset {self.offset},"
            f" sizes {list(self.sizes)}, strides {list(self.strides)}) token {self.token}"
        )


class Await(NamedTuple):
    task: int
    group: int

    def __str__(self) -> str:
        return f"aiex.dma_await_task(%t{self.task})"


class Free(NamedTuple):
    task: int
    group: int

    def __str__(self) -> str:
        return f"aiex.dma_free_task(%t{self.task})"


class LoadPdi(NamedTuple):
    device: str

    def __str__(self) -> str:
        return f"aiex.npu.load_pdi {{device_ref = @{self.device}}}"


class WriteParameter(NamedTuple):
    buffer: str
    index: int
    value: int

    def __str__(self) -> str:
        return f"aiex.npu.rtp_write(@{self.buffer}, {self.index}, {self.value})"


class Argument(NamedTuple):
    number: int
    type: MemRef


# --- the module


class Module:
    """All of a design. Made while it is the current one; text by `str`."""

    def __init__(self) -> None:
        self.release = VERSION
        self.name = ""
        self.device = ""
        self.columns = 0
        self.arguments: list[MemRef] = []
        self.tiles: list[TileOp] = []
        self.fifos: list[Fifo] = []
        self.links: list[Link] = []
        self.functions: list[Function] = []
        self.buffers: list[BufferOp] = []
        self.cores: list[Core] = []
        self.sequence: list[Any] | None = None
        self.core: Core | None = None
        """The core whose function is running."""
        self._blocks: list[list[Any]] = []
        self._numbers = 0

    @property
    def context(self) -> Module:
        """What attributes are made in."""
        return self

    @property
    def body(self) -> Any:
        """The block of the module: a device, in which are the cores and all else."""
        cores = [View("aie.core", core.attributes) for core in self.cores]
        device = View("aie.device", Attributes(), [View("aie.tile", Attributes()), *cores])
        return block([device])

    def number(self) -> int:
        """A new one, for a value."""
        self._numbers += 1
        return self._numbers - 1

    def add(self, operation: Any) -> None:
        """Record an operation where the program is: in a core, in a loop, in the runtime sequence."""
        if not self._blocks:
            raise MLIRError(f"'{operation}' has no place: it belongs into a core or the runtime sequence")
        self._blocks[-1].append(operation)

    @contextmanager
    def block(self, operations: list[Any]) -> Iterator[None]:
        """Record into `operations`."""
        self._blocks.append(operations)
        try:
            yield
        finally:
            self._blocks.pop()

    def __str__(self) -> str:
        lines = [f"// stand-in for mlir-aie {self.release}", "module {", f"aie.device({self.device}) @{self.name} {{"]
        for operations in (self.tiles, self.fifos, self.links, self.functions, self.buffers):
            lines += map(str, operations)
        for core in self.cores:
            lines += [f"{core} {{", *_text(core.body), "}"]
        arguments = ", ".join(f"%arg{i}: {type}" for i, type in enumerate(self.arguments))
        lines += [f"aie.runtime_sequence @sequence({arguments}) {{", *_text(self.sequence or []), "}", "}", "}"]
        depth, text = 0, []
        for line in lines:
            depth -= line.startswith("}")
            text.append("  " * depth + line)
            depth += line.endswith("{")
        return "\n".join(text) + "\n"


def _text(operations: list[Any]) -> Iterator[str]:
    for operation in operations:
        if isinstance(operation, Loop):
            yield f"scf.for {operation.start} to {operation.stop} step {operation.step} {{"
            yield from _text(operation.body)
            yield "}"
        else:
            yield str(operation)


_current: ContextVar[Module | None] = ContextVar("standin_module", default=None)


def current() -> Module:
    """The module that is being made."""
    module = _current.get()
    if module is None:
        raise RuntimeError("An MLIR function requires a Context but none was provided")
    return module


@contextmanager
def making(module: Module) -> Iterator[Module]:
    """Make it the current one."""
    token = _current.set(module)
    try:
        yield module
    finally:
        _current.reset(token)


def type_of(given: Any) -> Any:
    """The type in the current module, see `converted`."""
    return converted(given, current())
