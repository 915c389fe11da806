"""Statements for what the host does in an IRON program: the runtime sequence, and making the module."""

from __future__ import annotations

from collections.abc import Iterator

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import Design, Finish, ObjectFifo, Transfer
from npu_tensor.runtime.build import iron_loops
from npu_tensor.runtime.build.iron_array import ArrayStatements
from npu_tensor.runtime.build.iron_dialect import Dialect
from npu_tensor.runtime.build.iron_loops import wrapped
from npu_tensor.runtime.build.iron_names import Names, tile_text

__all__ = ["HostStatements"]


class HostStatements:
    """They use the dictionary `host`, by name of the fifo the end that the host fills or drains."""

    def __init__(self, design: Design, dialect: Dialect, names: Names, device: str) -> None:
        self._design = design
        self._dialect = dialect
        self._names = names
        self._device = device
        self._fifos = {fifo.name: fifo for fifo in design.fifos}
        self._elements = {buffer.name: buffer.type.elements for buffer in design.host_buffers}

    def ends(self, array: ArrayStatements) -> Iterator[str]:
        """The ends that the host uses."""
        moved = {step.fifo for step in self._design.sequence if isinstance(step, Transfer)}
        for fifo in self._design.fifos:
            if fifo.name in moved:
                yield f'host["{fifo.name}"] = {array.end(fifo.name, _shim(fifo))}'

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
        placer = "SequentialPlacer()" * self._dialect.placer
        made = f"Program({self._device}(), runtime).resolve_program({placer})"
        if not self._design.workers or self._dialect.dynamic_argument:
            return "\n".join([*lines, f"    return {made}"])
        lines += [
            f"    made = {made}",
            "    # The cores choose the buffers of their FIFOs while they run, not the compiler.",
            "    for device in made.body.operations:",
            "        for op in device.operation.regions[0].blocks[0].operations:",
            '            if op.operation.name == "aie.core":',
            '                op.operation.attributes["dynamic_objfifo_lowering"] = BoolAttr.get(True, made.context)',
            "    return made",
        ]
        return "\n".join(lines)

    def _steps(self) -> str:
        step = self._function_step if self._dialect.sequence_function else self._recorded_step
        return iron_loops.text([step(each) for each in self._design.sequence], "        ")

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
        arguments += [f"{self._dialect.placement}={tile_text(_shim(self._fifos[step.fifo]))}"]
        return f"runtime.{self._verb(step)}({', '.join(arguments)})"

    def _verb(self, transfer: Transfer) -> str:
        return "fill" if self._fifos[transfer.fifo].producer.kind == "shim" else "drain"

    def _pattern(self, transfer: Transfer) -> str:
        offset, sizes, strides = transfer.pattern
        elements = self._elements[transfer.buffer]
        return f"tap=TensorAccessPattern(({elements},), {offset}, {list(sizes)}, {list(strides)})"


def _shim(fifo: ObjectFifo) -> Tile:
    """Where the host fills or drains it."""
    return next(tile for tile in (fifo.producer, *fifo.consumers) if tile.kind == "shim")
