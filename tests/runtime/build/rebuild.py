"""The design again, from what the stand-in recorded while it resolved a program.

    module = namespace["module"]()
    assert normal(rebuild(module, design)) == normal(design)

IRON knows neither C++ nor cycles, and host buffers have no names there: these come from the original.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import (
    AccessPattern,
    Acquire,
    CoreBuffer,
    Design,
    Dim,
    Element,
    Finish,
    FunctionCall,
    HostBuffer,
    KernelFunction,
    Link,
    Loop,
    ObjectFifo,
    ObjectType,
    Release,
    RuntimeParameter,
    Statement,
    Transfer,
    Word,
    Worker,
)
from npu_tensor.runtime.build.iron_program import MARKER

__all__ = ["normal", "parameter_words", "rebuild"]

ARCHES = {"npu1": "aie2", "npu2": "aie2p"}


def rebuild(module: Any, original: Design) -> Design:
    """Everything that the module says; AssertionError where it says what no design can."""
    host = [
        HostBuffer(buffer.name, _type(argument))
        for buffer, argument in zip(original.host_buffers, module.arguments, strict=True)
    ]
    written = parameter_words(module)
    buffers = [buffer for buffer in module.buffers if buffer.name not in written]
    assert not any(buffer.written_by_host for buffer in buffers), "a runtime parameter that the host never writes"
    parameters = tuple(_parameter(buffer) for buffer in module.buffers if buffer.name in written)
    return Design(
        original.name,
        ARCHES[module.device.partition("_")[0]],
        _columns(module, original),
        len(host),
        tuple(map(_fifo, module.fifos)),
        tuple(_link(link, module) for link in module.links),
        tuple(_function(function, original) for function in module.functions),
        tuple(CoreBuffer(buffer.name, _tile(buffer.tile), _type(buffer.type), buffer.initial) for buffer in buffers),
        parameters,
        tuple(map(_worker, module.cores)),
        tuple(host),
        tuple((p.name, tuple(value for value in written[p.name] if value < MARKER)) for p in parameters),
        tuple(_sequence(module.sequence, host)),
    )


def parameter_words(module: Any) -> dict[str, list[int]]:
    """What the sequence writes into each buffer before its first transfer: the words from 0 on."""
    words: dict[str, list[int]] = {}
    started = False
    for operation in module.sequence:
        if type(operation).__name__ == "WriteParameter":
            assert not started, f"{operation} after a transfer"
            assert operation.index == len(words.setdefault(operation.buffer, [])), f"{operation} out of order"
            words[operation.buffer].append(operation.value)
        started = started or type(operation).__name__ == "Transfer"
    return words


def _columns(module: Any, original: Design) -> int:
    """Those of the device; it is all of the array where the design wants more than 4 columns of 8."""
    wide = original.columns > 4 and module.columns == original.array.columns
    return original.columns if wide else module.columns


def _type(type: Any) -> ObjectType:
    return ObjectType(type.dtype, type.shape)


def _tile(tile: Any) -> Tile:
    assert tile.column is not None, "a tile that the compiler is to choose"
    assert tile.row is not None
    return Tile(tile.column, tile.row)


def _fifo(fifo: Any) -> ObjectFifo:
    (depth,) = set(fifo.depths)
    from_stream = tuple(tuple(Dim(*dim) for dim in dims) for dims in fifo.dims_from_stream)
    return ObjectFifo(
        fifo.name,
        _type(fifo.type),
        _tile(fifo.producer),
        tuple(map(_tile, fifo.consumers)),
        depth,
        tuple(Dim(*dim) for dim in fifo.dims_to_stream),
        from_stream,
    )


def _link(link: Any, module: Any) -> Link:
    (tile,) = {_tile(fifo.producer) for fifo in module.fifos if fifo.name in link.outputs}
    offsets = link.input_offsets or link.output_offsets
    return Link(tile, tuple(link.inputs), tuple(link.outputs), tuple(offsets))


def _function(function: Any, original: Design) -> KernelFunction:
    (known,) = [known for known in original.functions if known.symbol == function.symbol]
    arguments = tuple(_type(type) if hasattr(type, "shape") else type.dtype for type in function.arguments)
    return dataclasses.replace(known, arguments=arguments)


def _parameter(buffer: Any) -> RuntimeParameter:
    assert buffer.type.dtype == "int32"
    assert buffer.initial is None
    (words,) = buffer.type.shape
    return RuntimeParameter(buffer.name, _tile(buffer.tile), words)


def _worker(core: Any) -> Worker:
    assert core.endless, "a core that ends cannot run twice"
    return Worker(_tile(core.tile), tuple(core.fifos), tuple(_statements(core.body)), core.stack_size)


def _statements(body: list[Any]) -> Iterator[Statement]:
    for operation in body:
        match type(operation).__name__:
            case "Acquire":
                yield Acquire(operation.fifo, operation.objects, operation.number)
            case "Release":
                yield Release(operation.fifo, operation.objects)
            case "Call":
                yield FunctionCall(operation.function, tuple(map(_argument, operation.arguments)))
            case "Loop":
                assert (operation.start, operation.step) == (0, 1)
                stop = operation.stop
                yield Loop(stop if isinstance(stop, int) else Word(*stop), tuple(_statements(operation.body)))
            case other:
                raise AssertionError(f"{other} in a core")


def _argument(value: Any) -> Element | str | Word | int | float:
    if isinstance(value, (int, float)):
        return value
    if type(value.name).__name__ == "Load":
        return Word(*value.name)
    return value.name if isinstance(value.name, str) else Element(*value.name)


def _sequence(operations: list[Any], host: list[HostBuffer]) -> Iterator[Transfer | Finish]:
    """Operations that end transfers of one group are its Finish."""
    ends = {end.task: end.group for end in operations if type(end).__name__ in ("Await", "Free")}
    awaited = {end.task for end in operations if type(end).__name__ == "Await"}

    def group_of(operation: Any) -> int | None:
        return operation.group if type(operation).__name__ in ("Await", "Free") else None

    for group, run in groupby(operations, group_of):
        if group is not None:
            ended = {end.task for end in run}
            assert ended == {task for task, own in ends.items() if own == group}, "a group that ends in two places"
            yield Finish(group)
            continue
        for operation in run:
            if type(operation).__name__ != "Transfer":
                continue
            assert operation.token == (operation.number in awaited)
            sizes = (1,) * (4 - len(operation.sizes)) + operation.sizes
            strides = (0,) * (4 - len(operation.strides)) + operation.strides
            pattern = AccessPattern(operation.offset, sizes, strides)
            buffer = host[operation.argument].name
            yield Transfer(operation.fifo, buffer, pattern, ends[operation.number], operation.token)


# --- what makes no difference


def normal(design: Design) -> Design:
    """The design in one order of its parts, with acquires and groups numbered from 0 in order of appearance.

    The stride of a leading dimension of size 1 means nothing; IRON makes it 0. A fifo without dims_from_stream has
    none for every consumer. A split into one part or a join of one is a link between two fifos like any other.
    """
    groups: dict[int, int] = {}
    for step in design.sequence:
        if isinstance(step, Transfer):
            groups.setdefault(step.group, len(groups))
    return dataclasses.replace(
        design,
        fifos=tuple(sorted(map(_normal_fifo, design.fifos), key=lambda fifo: fifo.name)),
        links=tuple(sorted(map(_normal_link, design.links), key=lambda link: (link.tile, link.inputs, link.outputs))),
        functions=tuple(sorted(design.functions, key=lambda function: function.symbol)),
        core_buffers=tuple(sorted(design.core_buffers, key=lambda buffer: buffer.name)),
        parameters=tuple(sorted(design.parameters, key=lambda parameter: parameter.name)),
        values=tuple(sorted((name, values) for name, values in design.values if values)),
        workers=tuple(sorted(map(_normal_worker, design.workers), key=lambda worker: worker.tile)),
        sequence=tuple(
            step._replace(group=groups[step.group], pattern=_normal_pattern(step.pattern))
            if isinstance(step, Transfer)
            else Finish(groups[step.group])
            for step in design.sequence
        ),
    )


def _normal_fifo(fifo: ObjectFifo) -> ObjectFifo:
    dims = fifo.dims_from_stream or ((),) * len(fifo.consumers)
    ends = sorted(zip(fifo.consumers, dims, strict=True))
    return dataclasses.replace(
        fifo, consumers=tuple(tile for tile, _ in ends), dims_from_stream=tuple(dims for _, dims in ends)
    )


def _normal_link(link: Link) -> Link:
    single = len(link.inputs) == len(link.outputs) == 1 and link.offsets == (0,)
    return dataclasses.replace(link, offsets=()) if single else link


def _normal_worker(worker: Worker) -> Worker:
    numbers: dict[int, int] = {}

    def renumbered(body: tuple[Statement, ...]) -> Iterator[Statement]:
        for statement in body:
            if isinstance(statement, Acquire):
                yield statement._replace(number=numbers.setdefault(statement.number, len(numbers)))
            elif isinstance(statement, Loop):
                yield Loop(statement.rounds, tuple(renumbered(statement.body)))
            elif isinstance(statement, FunctionCall):
                arguments = (
                    Element(numbers[a.acquire], a.position) if isinstance(a, Element) else a
                    for a in statement.arguments
                )
                yield FunctionCall(statement.function, tuple(arguments))
            else:
                yield statement

    return dataclasses.replace(worker, body=tuple(renumbered(worker.body)))


def _normal_pattern(pattern: AccessPattern) -> AccessPattern:
    strides = list(pattern.strides)
    for position in range(3):
        if pattern.sizes[position] != 1:
            break
        strides[position] = 0
    return pattern._replace(strides=tuple(strides))  # type: ignore[arg-type]
