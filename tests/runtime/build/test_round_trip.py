"""Programs for mlir-aie make the design that they were written for: for every family, under the stand-in for mlir-aie.

The program's text is run under the stand-in, which records what the program would say in MLIR; the design of the
record must be the original. NPU_TENSOR_TEST_ALL=1 runs every example for every array; otherwise the arrays take turns,
and only some run for fewer columns.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import pytest
from designs import EXAMPLES, NARROW, WHOLE, Example, example
from iron_round_trip import compare

from npu_tensor.dataflow.array import Arch, Tile
from npu_tensor.dataflow.check import check
from npu_tensor.dataflow.design import (
    AccessPattern,
    Acquire,
    Design,
    Dim,
    Finish,
    FunctionCall,
    Loop,
    ObjectType,
    Release,
)
from npu_tensor.runtime.build.iron_program import program

ALL = os.environ.get("NPU_TENSOR_TEST_ALL") == "1"

CASES = [
    pytest.param(example, arch, columns, id=f"{example.id}-{arch}-{columns}")
    for number, example in enumerate(EXAMPLES)
    for arch, columns in (*WHOLE, *NARROW)
    if ALL or number % 8 == 0 or (arch, columns) == WHOLE[number % len(WHOLE)]
]


@pytest.mark.parametrize(("example", "arch", "columns"), CASES)
def test_a_program_makes_its_design(example: Example, arch: Arch, columns: int) -> None:
    original = example.make(arch, columns)
    assert check(original) == []
    compare(program(original), original)


# --- every part of a design counts


def first(parts: tuple[Any, ...], **change: Callable[[Any], Any]) -> tuple[Any, ...]:
    """The parts, the first of which that has something there with a field changed."""
    ((name, new),) = change.items()
    place = next(i for i, part in enumerate(parts) if getattr(part, name, None))
    part: Any = parts[place]
    replace = dataclasses.replace if dataclasses.is_dataclass(part) else type(part)._replace
    return (*parts[:place], replace(part, **{name: new(getattr(part, name))}), *parts[place + 1 :])


def changed(part: str, **change: Callable[[Any], Any]) -> Callable[[Design], Design]:
    """The design with one field of the first of its fifos, of its links, ... changed."""

    def call(design: Design) -> Design:
        fields: dict[str, Any] = {part: first(getattr(design, part), **change)}
        return dataclasses.replace(design, **fields)

    return call


def in_body(kind: type, **change: Callable[[Any], Any]) -> Callable[[Design], Design]:
    """The design with the first statement of that kind changed in its first worker."""

    def body(statements: tuple[Any, ...]) -> tuple[Any, ...]:
        for place, statement in enumerate(statements):
            if isinstance(statement, kind):
                return (*statements[:place], *first((statement,), **change), *statements[place + 1 :])
            if isinstance(statement, Loop):
                inner = statement._replace(body=body(statement.body))
                return (*statements[:place], inner, *statements[place + 1 :])
        raise LookupError(kind)

    return changed("workers", body=body)


def with_address(design: Design) -> Design:
    """Give the first core buffer an address."""
    buffer, *others = design.core_buffers
    return dataclasses.replace(design, core_buffers=(dataclasses.replace(buffer, address=8256), *others))


def moved(design: Design) -> Design:
    """Move all parts from core (0, 2) to core (0, 4)."""

    def place(tile: Tile) -> Tile:
        return Tile(0, 4) if tile == Tile(0, 2) else tile

    fifos = tuple(
        dataclasses.replace(f, producer=place(f.producer), consumers=tuple(map(place, f.consumers)))
        for f in design.fifos
    )
    workers = tuple(dataclasses.replace(worker, tile=place(worker.tile)) for worker in design.workers)
    return dataclasses.replace(design, fifos=fifos, workers=workers)


def shorter(dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return (dims[0]._replace(size=dims[0].size - 1), *dims[1:])


def reversed_pair(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    return (parts[1], parts[0], *parts[2:])


def more_words(design: Design) -> Design:
    """One more in every runtime parameter, and in the argument of the kernel that takes them."""
    (function,) = design.functions
    (words,) = {parameter.words for parameter in design.parameters}
    arguments = (*function.arguments[:-1], ObjectType("int32", (words + 1,)))
    return dataclasses.replace(
        design,
        functions=(dataclasses.replace(function, arguments=arguments),),
        parameters=tuple(dataclasses.replace(parameter, words=words + 1) for parameter in design.parameters),
    )


def pattern(**change: Any) -> Callable[[AccessPattern], AccessPattern]:
    return lambda old: old._replace(**{name: new(getattr(old, name)) for name, new in change.items()})


CHANGES: dict[str, tuple[str, Callable[[Design], Design]]] = {
    "columns": ("window", lambda design: dataclasses.replace(design, columns=3)),
    "host buffer's type": (
        "gelu",
        changed("host_buffers", type=lambda type: type._replace(shape=(50_000,))),
    ),
    "host buffer": ("window", changed("sequence", buffer=lambda _: "y")),
    "depth": ("gelu", changed("fifos", depth=lambda depth: depth + 1)),
    "dtype of objects": (
        "concat",
        changed("fifos", type=lambda type: type._replace(dtype="float32")),
    ),
    "order to the stream": ("linear-gelu", changed("fifos", dims_to_stream=shorter)),
    "order from the stream": (
        "linear-gelu",
        changed("fifos", dims_from_stream=lambda d: (shorter(d[0]), *d[1:])),
    ),
    "tile": ("window", moved),
    "offset in a link": (
        "gelu",
        changed("links", offsets=lambda offsets: (offsets[0] + 4, *offsets[1:])),
    ),
    "parts of a link": ("gelu", changed("links", outputs=reversed_pair)),
    "C++": (
        "gelu",
        changed("functions", source=lambda source: dataclasses.replace(source, text="// other")),
    ),
    "flags": (
        "gelu",
        changed("functions", source=lambda source: dataclasses.replace(source, flags=("-DN=4",))),
    ),
    "object file of one of several functions": (
        "linear-gelu",
        changed("functions", source=lambda source: dataclasses.replace(source, name="other")),
    ),
    "initial bytes": ("rope-factors", changed("core_buffers", initial=lambda bytes: b"\7" + bytes[1:])),
    "no initial bytes": ("rope-factors", changed("core_buffers", initial=lambda _: None)),
    "address": ("linear-gelu", with_address),
    "runtime words": ("runtime-word", more_words),
    "stack": ("gelu", changed("workers", stack_size=lambda size: size + 4)),
    "rounds": ("window", in_body(Loop, rounds=lambda rounds: rounds + 1)),
    "acquired objects": ("window", in_body(Acquire, objects=lambda objects: objects + 1)),
    "released objects": ("window", in_body(Release, objects=lambda objects: objects + 1)),
    "order of a core": ("window", in_body(Loop, body=reversed_pair)),
    "arguments of a call": ("window", in_body(FunctionCall, arguments=reversed_pair)),
    "number in a call": ("rope", in_body(FunctionCall, arguments=lambda arguments: (*arguments[:-1], 2.5))),
    "order of transfers": (
        "gelu",
        lambda design: dataclasses.replace(design, sequence=reversed_pair(design.sequence)),
    ),
    "start": ("window", changed("sequence", pattern=pattern(offset=lambda offset: offset + 64))),
    "size": ("window", changed("sequence", pattern=pattern(sizes=lambda sizes: (*sizes[:3], 64)))),
    "step": (
        "transpose-int32",
        changed("sequence", pattern=pattern(strides=lambda steps: (*steps[:2], 77, 1))),
    ),
    "wait": ("gelu", changed("sequence", wait=lambda _: False)),
    "group": (
        "gelu",
        lambda design: dataclasses.replace(
            design, sequence=(design.sequence[0]._replace(group=7), *design.sequence[1:], Finish(7))
        ),
    ),
}


REFUSED = {
    "unknown argument": ("gelu", "depth=2", "deepness=2", "deepness"),
    "argument by place": ("window", "ObjectFifo(int32_64, name=", "ObjectFifo(int32_64, ", "positional"),
    "dims that are no tuples": ("linear-gelu", "dims_to_stream=[(4, 256)", "dims_to_stream=[[4, 256]", "bd_dim_layout"),
    "sizes that are no list": ("window", "[1, 1, 1, 2048]", "(1, 1, 1, 2048)", "copy"),
    "objects beyond the depth": ("window", "acquire(3)", "acquire(5)", "depth 4"),
    "contents in bfloat16": ("rope-factors", "], np.float32)", "], bfloat16)", "buffer"),
    "number of NumPy": ("rope", "64, 64", "np.int32(64), 64", "must all be Value"),
    "open group": ("gelu", ".finish()", "", "Failed to close"),
    "fifo without a producer": ("window", ".prod(tile=", ".cons(tile=", "Prod endpoint not set"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_stand_in_refuses_what_mlir_aie_refuses(case: str) -> None:
    name, old, new, words = REFUSED[case]
    original = example(name).make("aie2", 1)
    text = program(original)
    assert old in text
    with pytest.raises(Exception, match=words):
        compare(text.replace(old, new), original)


@pytest.mark.parametrize("change", CHANGES)
def test_a_program_of_another_design_is_a_difference(change: str) -> None:
    name, make = CHANGES[change]
    original = example(name).make("aie2", 4)
    other = make(original)
    compare(program(other), other)
    with pytest.raises(AssertionError):
        compare(program(other), original)
