"""Statements of an IRON program that create the array of a design and the host's sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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


class ModuleStatements:
    """Generator of statements; each method yields those of one part.

    The statements use dictionaries that the program keeps: `fifos` by name, `ends` with the consuming ends, in order,
    of fifos that have several, `parameters`, and `host` with the ends that the host fills or drains, by fifo.
    """

    def __init__(self, design: Design, names: Names, device: str) -> None:
        self._design = design
        self._names = names
        self._device = device
        self._fifos = {fifo.name: fifo for fifo in design.fifos}
        self._elements = {buffer.name: buffer.type.elements for buffer in design.host_buffers}
        self._joined = {name for link in design.links if link.kind == "join" for name in link.inputs}

    def kernels(self) -> Iterator[str]:
        """Yield the functions that cores call."""
        for function in self._design.functions:
            types = [self._names.types[a] if isinstance(a, ObjectType) else dtype_text(a) for a in function.arguments]
            name = self._names.symbols[function.symbol]
            yield f'{name} = Kernel("{function.symbol}", "{function.source.name}.o", [{", ".join(types)}])'

    def parameters(self) -> Iterator[str]:
        """Yield the runtime parameters."""
        for parameter in self._design.parameters:
            yield f'parameters["{parameter.name}"] = {self._buffer(parameter)}'

    def fifos(self) -> Iterator[str]:
        """Yield the fifos that no link makes."""
        linked = {child.name for link in self._design.links for child in self._children(link)}
        for fifo in self._design.fifos:
            if fifo.name not in linked:
                type, options = self._names.types[fifo.type], f"depth={fifo.depth}{_to_stream(fifo)}"
                yield f'fifos["{fifo.name}"] = ObjectFifo({type}, name="{fifo.name}", {options})'
                yield from self._ends(fifo)

    def links(self) -> Iterator[str]:
        """Yield splits, joins and forwards, with their output fifos."""
        for link in self._design.links:
            yield self._forward(link) if link.kind == "forward" else self._partition(link)
            for child in self._children(link):
                yield from self._ends(child)

    def workers(self, placed: Sequence[PlacedWorker]) -> Iterator[str]:
        """Yield the workers, with their buffers."""
        memory = {item.name: item for item in self._design.core_buffers}
        for worker, core, names, functions in placed:
            arguments = [self.end(name, worker.tile) for name in worker.fifos]
            arguments += [self._buffer(memory[n]) if n in memory else f'parameters["{n}"]' for n in names]
            arguments += [self._names.symbols[symbol] for symbol in functions]
            options = f"tile={tile_text(worker.tile)}, stack_size={worker.stack_size}, dynamic_objfifo_lowering=True"
            if any(memory[name].address is not None for name in names if name in memory):
                # The other scheme reserves only one bank for a buffer with an address.
                options += ', allocation_scheme="basic-sequential"'
            yield f"workers.append(Worker({core.name}, [{', '.join(arguments)}], {options}))"

    def end(self, name: str, tile: Tile) -> str:
        """Return the end of a fifo at a tile."""
        fifo = self._fifos[name]
        if fifo.producer == tile:
            return f'fifos["{name}"].prod({_on_shim(tile)})'
        position, first = fifo.consumers.index(tile), self._first_end(fifo)
        single = len(fifo.consumers) - first == 1
        return self._consumer(fifo, position) if single else f'ends["{name}"][{position - first}]'

    def _first_end(self, fifo: ObjectFifo) -> int:
        """Return the first consumer that the program has to make; a join makes one of each of its inputs."""
        return int(fifo.name in self._joined)

    def _ends(self, fifo: ObjectFifo) -> Iterator[str]:
        calls = [self._consumer(fifo, position) for position in range(self._first_end(fifo), len(fifo.consumers))]
        if len(calls) > 1:
            same = f"[{calls[0]} for _ in range({len(calls)})]"
            yield f'ends["{fifo.name}"] = {same if len(set(calls)) == 1 else list_text(calls)}'

    def _consumer(self, fifo: ObjectFifo, position: int) -> str:
        dims = fifo.dims_from_stream[position] if fifo.dims_from_stream else ()
        arguments = [f"dims_from_stream={dims_text(dims)}"] * bool(dims)
        arguments += filter(None, [_on_shim(fifo.consumers[position])])
        return f'fifos["{fifo.name}"].cons({", ".join(arguments)})'

    def _children(self, link: Link) -> list[ObjectFifo]:
        return [self._fifos[name] for name in (link.inputs if link.kind == "join" else link.outputs)]

    def _forward(self, link: Link) -> str:
        (child,) = self._children(link)
        place, type = f"tile={tile_text(link.tile)}", self._names.types[child.type]
        arguments = f'{place}, obj_type={type}, name="{child.name}", depth={child.depth}{_to_stream(child)}'
        return f'fifos["{child.name}"] = {self.end(link.inputs[0], link.tile)}.forward({arguments})'

    def _partition(self, link: Link) -> str:
        """Return a split or a join."""
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
        if buffer.address is not None:
            options += f", address={buffer.address}"
        if buffer.initial is None:
            return f"Buffer({options})"
        return f"Buffer({options}, initial_value={self._names.contents[buffer.type, buffer.initial]})"

    # --- the host's sequence

    def host_ends(self) -> Iterator[str]:
        """Yield the ends that the host uses, in this sequence or another one of the configuration."""
        for fifo in self._design.fifos:
            for shim in (tile for tile in (fifo.producer, *fifo.consumers) if tile.kind == "shim"):
                yield f'host["{fifo.name}"] = {self.end(fifo.name, shim)}'

    def sequence(self) -> str:
        """Return the end of the program, beginning with the runtime sequence, which mlir-aie calls."""
        types = [self._names.types[buffer.type] for buffer in self._design.host_buffers]
        lines = wrapped(f"def sequence({', '.join([*self._names.hosts.values(), '*_'])}):", "    ")
        if self._design.parameters:
            lines += [
                "        for name, words in PARAMETERS.items():",
                "            for number, word in enumerate(words):",
                "                parameters[name][number] = word",
            ]
        steps = statements_text(map(self._step, self._design.sequence), "        ")
        lines += ["        groups = defaultdict(TaskGroup)", steps, ""]
        lines += wrapped(f"runtime = Runtime(sequence, [{', '.join([*types, '*host.values()'])}])", "    ")
        workers = ", workers=workers" * bool(self._design.workers)
        return "\n".join([*lines, f"    return Program({self._device}(), runtime{workers}).resolve_program()"])

    def _step(self, step: Transfer | Finish) -> str:
        if isinstance(step, Finish):
            return f"groups[{step.group}].finish()"
        offset, sizes, strides = step.pattern
        pattern = f"({self._elements[step.buffer]},), {offset}, {list(sizes)}, {list(strides)}"
        arguments = [self._names.hosts[step.buffer], f"tap=TensorAccessPattern({pattern})"]
        arguments += [f"group=groups[{step.group}]", *["wait=True"] * step.wait]
        verb = "fill" if self._fifos[step.fifo].producer.kind == "shim" else "drain"
        return f'host["{step.fifo}"].{verb}({", ".join(arguments)})'


def _on_shim(tile: Tile) -> str:
    """Return the tile of a fifo's end if no worker and no link determines it."""
    return f"tile={tile_text(tile)}" if tile.kind == "shim" else ""


def _to_stream(fifo: ObjectFifo) -> str:
    return f", dims_to_stream={dims_text(fifo.dims_to_stream)}" if fifo.dims_to_stream else ""
