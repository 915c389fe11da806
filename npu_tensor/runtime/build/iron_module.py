"""Statements of an IRON program that make the array of a design, and what the host does with it.

The generations of mlir-aie differ in what a program has to say; `DIALECTS` has a row for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import (
    CoreBuffer,
    Design,
    Finish,
    Link,
    ObjectFifo,
    ObjectType,
    RuntimeParameter,
    Transfer,
)
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.build.iron_cores import PlacedWorker
from npu_tensor.runtime.build.iron_names import (
    Names,
    dims_text,
    dtype_text,
    list_text,
    statements_text,
    tile_text,
    wrapped,
)

__all__ = ["DIALECTS", "Dialect", "ModuleStatements", "dialect"]


class Dialect(NamedTuple):
    """How one generation of mlir-aie writes things, read in its sources between March and August 2026.

    since: the first release that speaks it.
    sequence_function: whether the runtime takes the host's work as a function, in which fifo handles fill and drain,
        instead of recording calls of its own methods.
    """

    name: str
    since: tuple[int, ...]
    sequence_function: bool


DIALECTS: Final[dict[str, Dialect]] = {
    row.name: row
    for row in (
        Dialect("1.3.4", (1, 3, 3), sequence_function=False),
        Dialect("1.4", (1, 4), sequence_function=True),
    )
}


def dialect(version: str) -> Dialect:
    """The dialect of a release of mlir-aie, such as "1.4.1" or "1.3.5.dev10+g01ab", which leads to 1.3.5.

    ArgumentError for what is no version, is older than 1.3.3 or is not 1.x.
    """
    numbers = re.match(r"v?(1(?:\.\d+)*)(?!\d)", version.strip())
    release = tuple(map(int, numbers[1].split("."))) if numbers else ()
    for row in reversed(DIALECTS.values()):
        if release >= row.since:
            return row
    known = ", ".join(DIALECTS)
    raise ArgumentError(f"no IRON dialect for mlir-aie {version!r}; choose one of {known}, or a release since 1.3.3")


class ModuleStatements:
    """Each method yields statements, which use the dictionaries that the program keeps: `fifos` by name, `ends` with
    the consuming ends, in order, of fifos that have several, `parameters`, and `host` with the ends that the host fills
    or drains, by fifo.
    """

    def __init__(self, design: Design, dialect: Dialect, names: Names, device: str) -> None:
        self._design = design
        self._dialect = dialect
        self._names = names
        self._device = device
        self._fifos = {fifo.name: fifo for fifo in design.fifos}
        self._elements = {buffer.name: buffer.type.elements for buffer in design.host_buffers}
        self._joined = {name for link in design.links if link.kind == "join" for name in link.inputs}

    def kernels(self) -> Iterator[str]:
        """The functions that cores call."""
        for function in self._design.functions:
            types = [self._names.types[a] if isinstance(a, ObjectType) else dtype_text(a) for a in function.arguments]
            name = self._names.symbols[function.symbol]
            yield f'{name} = Kernel("{function.symbol}", "{function.source.name}.o", [{", ".join(types)}])'

    def parameters(self) -> Iterator[str]:
        """The runtime parameters."""
        for parameter in self._design.parameters:
            yield f'parameters["{parameter.name}"] = {self._buffer(parameter)}'

    def fifos(self) -> Iterator[str]:
        """All that do not come out of a link."""
        linked = {child.name for link in self._design.links for child in self._children(link)}
        for fifo in self._design.fifos:
            if fifo.name not in linked:
                type, options = self._names.types[fifo.type], f"depth={fifo.depth}{_to_stream(fifo)}"
                yield f'fifos["{fifo.name}"] = ObjectFifo({type}, name="{fifo.name}", {options})'
                yield from self._ends(fifo)

    def links(self) -> Iterator[str]:
        """Splits, joins and forwards, with the fifos that come out of them."""
        for link in self._design.links:
            yield self._forward(link) if link.kind == "forward" else self._partition(link)
            for child in self._children(link):
                yield from self._ends(child)

    def workers(self, placed: Sequence[PlacedWorker]) -> Iterator[str]:
        """The workers, with their buffers."""
        memory = {item.name: item for item in self._design.core_buffers}
        for worker, core, names, functions, numbers in placed:
            arguments = [self.end(name, worker.tile) for name in worker.fifos]
            arguments += [self._buffer(memory[n]) if n in memory else f'parameters["{n}"]' for n in names]
            arguments += [self._names.symbols[symbol] for symbol in functions]
            arguments += [repr(number) for number in numbers]
            options = f"tile={tile_text(worker.tile)}, stack_size={worker.stack_size}, dynamic_objfifo_lowering=True"
            yield f"workers.append(Worker({core.name}, [{', '.join(arguments)}], {options}))"

    def end(self, name: str, tile: Tile) -> str:
        """The end of a fifo at a tile."""
        fifo = self._fifos[name]
        if fifo.producer == tile:
            return f'fifos["{name}"].prod({self._on_shim(tile)})'
        position, first = fifo.consumers.index(tile), self._first_end(fifo)
        single = len(fifo.consumers) - first == 1
        return self._consumer(fifo, position) if single else f'ends["{name}"][{position - first}]'

    def _on_shim(self, tile: Tile) -> str:
        """What tells the end of a fifo its tile, where a transfer does not."""
        return f"tile={tile_text(tile)}" if tile.kind == "shim" and self._dialect.sequence_function else ""

    def _first_end(self, fifo: ObjectFifo) -> int:
        """The first consumer that the program has to make: a join has made one of each of its inputs."""
        return int(fifo.name in self._joined)

    def _ends(self, fifo: ObjectFifo) -> Iterator[str]:
        calls = [self._consumer(fifo, position) for position in range(self._first_end(fifo), len(fifo.consumers))]
        if len(calls) > 1:
            same = f"[{calls[0]} for _ in range({len(calls)})]"
            yield f'ends["{fifo.name}"] = {same if len(set(calls)) == 1 else list_text(calls)}'

    def _consumer(self, fifo: ObjectFifo, position: int) -> str:
        dims = fifo.dims_from_stream[position] if fifo.dims_from_stream else ()
        arguments = [f"dims_from_stream={dims_text(dims)}"] * bool(dims)
        arguments += filter(None, [self._on_shim(fifo.consumers[position])])
        return f'fifos["{fifo.name}"].cons({", ".join(arguments)})'

    def _children(self, link: Link) -> list[ObjectFifo]:
        return [self._fifos[name] for name in (link.inputs if link.kind == "join" else link.outputs)]

    def _forward(self, link: Link) -> str:
        (child,) = self._children(link)
        place, type = f"tile={tile_text(link.tile)}", self._names.types[child.type]
        arguments = f'{place}, obj_type={type}, name="{child.name}", depth={child.depth}{_to_stream(child)}'
        return f'fifos["{child.name}"] = {self.end(link.inputs[0], link.tile)}.forward({arguments})'

    def _partition(self, link: Link) -> str:
        """A split or a join."""
        children = self._children(link)
        (parent,) = link.inputs if link.kind == "split" else link.outputs
        dims = {"dims_to_stream": [child.dims_to_stream for child in children]}
        if link.kind == "join":
            dims["dims_from_stream"] = [(child.dims_from_stream or ((),))[0] for child in children]
        arguments = [
            f"[{', '.join(map(str, link.offsets))}]",
            f"tile={tile_text(link.tile)}",
            f"obj_types={list_text([self._names.types[child.type] for child in children])}",
            "names=[" + ", ".join(f'"{child.name}"' for child in children) + "]",
            f"depths={list_text([str(child.depth) for child in children])}",
            *(f"{name}={list_text(list(map(dims_text, each)))}" for name, each in dims.items() if any(each)),
        ]
        call = f"{self.end(parent, link.tile)}.{link.kind}({', '.join(arguments)})"
        return f"for fifo in {call}:\n    fifos[fifo.name] = fifo"

    def _buffer(self, buffer: CoreBuffer | RuntimeParameter) -> str:
        options = f'{self._names.types[buffer.type]}, name="{buffer.name}"'
        if isinstance(buffer, RuntimeParameter):
            return f"Buffer({options}, use_write_rtp=True)"
        if buffer.initial is None:
            return f"Buffer({options})"
        return f"Buffer({options}, initial_value={self._names.contents[buffer.type, buffer.initial]})"

    # --- what the host does

    def host_ends(self) -> Iterator[str]:
        """The ends that the host uses."""
        moved = {step.fifo for step in self._design.sequence if isinstance(step, Transfer)}
        for fifo in self._design.fifos:
            if fifo.name in moved:
                yield f'host["{fifo.name}"] = {self.end(fifo.name, _shim(fifo))}'

    def sequence(self) -> str:
        """From the runtime sequence to the end of the function."""
        return self._function() if self._dialect.sequence_function else self._recorded()

    def _function(self) -> str:
        """The host's work as a function, which mlir-aie calls."""
        types = [self._names.types[buffer.type] for buffer in self._design.host_buffers]
        lines = wrapped(f"def sequence({', '.join([*self._names.hosts.values(), '*_'])}):", "    ")
        if self._design.parameters:
            lines += [
                "        for name, words in PARAMETERS.items():",
                "            for number, word in enumerate(words):",
                "                parameters[name][number] = word",
            ]
        lines += ["        groups = defaultdict(TaskGroup)", self._steps(), ""]
        lines += wrapped(f"runtime = Runtime(sequence, [{', '.join([*types, '*host.values()'])}])", "    ")
        workers = ", workers=workers" * bool(self._design.workers)
        return "\n".join([*lines, f"    return Program({self._device}(), runtime{workers}).resolve_program()"])

    def _recorded(self) -> str:
        """The host's work as calls of the runtime, which mlir-aie records."""
        types = [self._names.types[buffer.type] for buffer in self._design.host_buffers]
        buffers = ", ".join(self._names.hosts.values())
        lines = []
        if self._design.parameters:
            lines += [
                "    def write(*buffers):",
                "        for buffer, words in zip(buffers, PARAMETERS.values()):",
                "            for number, word in enumerate(words):",
                "                buffer[number] = word",
                "",
            ]
        # With one argument alone mlir-aie yields it, with several a tuple.
        target = f"({buffers})" if len(types) > 1 else buffers
        lines += ["    runtime = Runtime()"]
        lines += wrapped(f"with runtime.sequence({', '.join(types)}) as {target}:", "    ")
        lines += ["        runtime.start(*workers)"] * bool(self._design.workers)
        lines += ["        runtime.inline_ops(write, list(parameters.values()))"] * bool(self._design.parameters)
        lines += ["        groups = defaultdict(runtime.task_group)", self._steps(), ""]
        return "\n".join([*lines, f"    return Program({self._device}(), runtime).resolve_program()"])

    def _steps(self) -> str:
        step = self._function_step if self._dialect.sequence_function else self._recorded_step
        return statements_text(map(step, self._design.sequence), "        ")

    def _function_step(self, step: Transfer | Finish) -> str:
        if isinstance(step, Finish):
            return f"groups[{step.group}].finish()"
        arguments = [self._names.hosts[step.buffer], self._pattern(step), f"group=groups[{step.group}]"]
        arguments += ["wait=True"] * step.wait
        return f'host["{step.fifo}"].{self._verb(step)}({", ".join(arguments)})'

    def _recorded_step(self, step: Transfer | Finish) -> str:
        if isinstance(step, Finish):
            return f"runtime.finish_task_group(groups[{step.group}])"
        arguments = [f'host["{step.fifo}"]', self._names.hosts[step.buffer], self._pattern(step)]
        arguments += [f"task_group=groups[{step.group}]", *["wait=True"] * step.wait]
        arguments += [f"tile={tile_text(_shim(self._fifos[step.fifo]))}"]
        return f"runtime.{self._verb(step)}({', '.join(arguments)})"

    def _verb(self, transfer: Transfer) -> str:
        return "fill" if self._fifos[transfer.fifo].producer.kind == "shim" else "drain"

    def _pattern(self, transfer: Transfer) -> str:
        offset, sizes, strides = transfer.pattern
        elements = self._elements[transfer.buffer]
        return f"tap=TensorAccessPattern(({elements},), {offset}, {list(sizes)}, {list(strides)})"


def _to_stream(fifo: ObjectFifo) -> str:
    return f", dims_to_stream={dims_text(fifo.dims_to_stream)}" if fifo.dims_to_stream else ""


def _shim(fifo: ObjectFifo) -> Tile:
    """Where the host fills or drains it."""
    return next(tile for tile in (fifo.producer, *fifo.consumers) if tile.kind == "shim")
