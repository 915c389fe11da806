"""Check that an IRON program reproduces its design under the stand-in for mlir-aie."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from iron_standin import installed

from npu_tensor.dataflow.design import (
    AccessPattern,
    Acquire,
    Design,
    Element,
    Finish,
    FunctionCall,
    HostBuffer,
    KernelFunction,
    Link,
    Loop,
    ObjectFifo,
    Source,
    Statement,
    Worker,
)
from npu_tensor.runtime.build.iron_program import marker


def compare(text: str, original: Design) -> None:
    """AssertionError unless the program makes the design, with every call; its C++ and its parameters included."""
    namespace: dict[str, Any] = {"__name__": "program"}
    with installed():
        exec(compile(text, "program.py", "exec"), namespace)
        module, again = namespace["module"](), namespace["module"]()
    assert str(module) == str(again)
    result, expected = _normal(module.design), _normal(original)
    for field in dataclasses.fields(Design):
        assert getattr(result, field.name) == getattr(expected, field.name), field.name
    assert all(module.dynamic)
    for function in original.functions:
        name = f"{function.source.name}.cc"
        assert namespace["SOURCES"][name] == function.source.text
        assert namespace.get("FLAGS", {}).get(name, []) == list(function.source.flags)
    # The sequence begins with the words of all parameters: those of the design, or the marker of a run's value.
    values = dict(original.values)
    words = [
        (parameter.name, word, value)
        for number, parameter in enumerate(original.parameters)
        for word, value in enumerate(
            [*(marker(number, word) for word in range(original.run_words)), *values.get(parameter.name, ())]
        )
    ]
    assert module.sequence[: len(words)] == words
    assert len(module.sequence) == len(words) + len(original.sequence)


def _normal(design: Design) -> Design:
    """Return the part of a design that a program expresses, in a canonical order.

    Host buffers have no names there, functions no C++, and a part of more than 4 of 8 columns is all of them. The
    stride of a leading dimension of size 1 means nothing. A fifo without dims_from_stream has none for every consumer.
    A split into one part or a join of one is a link between two fifos like any other. Acquires and groups are numbered
    from 0 in order of appearance.
    """
    host = {buffer.name: f"arg{number}" for number, buffer in enumerate(design.host_buffers)}
    groups: dict[int, int] = {}
    for step in design.sequence:
        groups.setdefault(step.group, len(groups))
    return dataclasses.replace(
        design,
        name="",
        columns=design.columns if design.columns <= 4 else 8,
        arguments=len(host),
        fifos=tuple(sorted(map(_normal_fifo, design.fifos), key=lambda fifo: fifo.name)),
        links=tuple(sorted(map(_normal_link, design.links), key=lambda link: (link.tile, link.inputs, link.outputs))),
        functions=tuple(sorted(map(_normal_function, design.functions), key=lambda function: function.symbol)),
        core_buffers=tuple(sorted(design.core_buffers, key=lambda buffer: buffer.name)),
        parameters=tuple(sorted(design.parameters, key=lambda parameter: parameter.name)),
        values=(),
        workers=tuple(sorted(map(_normal_worker, design.workers), key=lambda worker: worker.tile)),
        host_buffers=tuple(HostBuffer(host[buffer.name], buffer.type) for buffer in design.host_buffers),
        sequence=tuple(
            Finish(groups[step.group])
            if isinstance(step, Finish)
            else step._replace(
                buffer=host[step.buffer], group=groups[step.group], pattern=_normal_pattern(step.pattern)
            )
            for step in design.sequence
        ),
    )


def _normal_function(function: KernelFunction) -> KernelFunction:
    return dataclasses.replace(function, source=Source(function.source.name, ""))


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
