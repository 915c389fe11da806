"""Modules of several devices, whose @main configures the array and runs the sequences of the others.

As aiecc takes them: AIEMaterializeRuntimeSequences.cpp and AIEUtils.cpp, and the verifiers of memref's subview and
reinterpret_cast.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from .record import MLIRError

__all__ = ["Configure", "Part", "Run", "launch"]


class Part(NamedTuple):
    """Bytes of an argument of @main, from an offset on."""

    argument: int
    offset: int
    nbytes: int


class Run(NamedTuple):
    """Of a runtime sequence, with what it takes."""

    sequence: str
    parts: tuple[Part, ...]


class Configure(NamedTuple):
    """A device, and what runs while the array is as it says."""

    device: str
    runs: list[Run]


class _Value(NamedTuple):
    type: str
    part: Part


BYTES = {"i8": 1, "i16": 2, "bf16": 2, "i32": 4, "f32": 4, "i64": 8}
NAME = r"%[A-Za-z_0-9]+"
DEVICE = re.compile(r"  aie\.device\((\w+)\) @(\w+) \{")
SEQUENCE = re.compile(r"    aie\.runtime_sequence @(\w+)\((.*)\) \{")
ARGUMENT = re.compile(rf"({NAME}): (memref<\w+>)")
MEMREF = re.compile(r"memref<(\d+)x(\w+)(?:, strided<\[1\](?:, offset: (\d+))?>)?>")
CONFIGURE = re.compile(r"aiex\.configure @(\w+) \{")
SUBVIEW = re.compile(rf"({NAME}) = memref\.subview ({NAME})\[(\d+)\] \[(\d+)\] \[1\] : (.+) to (.+)")
CAST = re.compile(
    rf"({NAME}) = memref\.reinterpret_cast ({NAME}) to offset: \[0\], sizes: \[(\d+)\], strides: \[1\] : (.+) to (.+)"
)
RUN = re.compile(r"aiex\.run @(\w+)\((.*)\) : \((.*)\)")


def launch(text: str) -> list[Configure]:
    """What the sequence of @main does, in order. Raises MLIRError for a module that aiecc refuses."""
    types, sequences, main = _devices(text)
    if len(set(types.values())) != 1:
        raise MLIRError(f"devices of several types: {types}")
    (arguments,) = sequences["main"].values()
    values = {
        name: _Value(type, Part(number, 0, _nbytes(type))) for number, (name, type) in enumerate(arguments.items())
    }
    found: list[Configure] = []
    inside = False
    for line in main:
        if match := CONFIGURE.fullmatch(line):
            if inside or match[1] not in types:
                raise MLIRError(f"'aiex.configure' op cannot be here, or no device is called {match[1]}")
            found.append(Configure(match[1], []))
            inside = True
        elif line == "}" and inside:
            inside = False
        elif not inside:
            raise MLIRError(f"{line} outside of aiex.configure")
        elif match := RUN.fullmatch(line):
            found[-1].runs.append(_run(match, sequences.get(found[-1].device, {}), values))
        else:
            name, value = _value(line, values)
            if name in values:
                raise MLIRError(f"redefinition of SSA value '{name}'")
            values[name] = value
    return found


def _devices(text: str) -> tuple[dict[str, str], dict[str, dict[str, dict[str, str]]], list[str]]:
    """Types of devices, the arguments of their sequences, and the lines of the sequence of @main."""
    types: dict[str, str] = {}
    sequences: dict[str, dict[str, dict[str, str]]] = {}
    main: list[str] = []
    names: Counter[str] = Counter()
    sequence = None
    lines = text.rstrip("\n").split("\n")
    if lines[0] != "module {" or lines[-1] != "}":
        raise MLIRError("expected a module")
    for line in lines[1:-1]:
        if match := DEVICE.fullmatch(line):
            names[match[2]] += 1
            types[match[2]], device = match[1], match[2]
        elif match := SEQUENCE.fullmatch(line):
            sequence = match[1]
            names[f"{device}.{sequence}"] += 1
            sequences.setdefault(device, {})[sequence] = dict(ARGUMENT.findall(match[2]))
        elif line == "    }":
            sequence = None
        elif line == "  }":
            device = ""
        elif not device:
            raise MLIRError(f"{line} belongs to no device")
        elif sequence is not None and device == "main":
            main.append(line.strip())
    if repeated := [name for name, count in names.items() if count > 1]:
        raise MLIRError(f"redefinition of symbols {repeated}")
    return types, sequences, main


def _run(match: re.Match[str], sequences: dict[str, dict[str, str]], values: dict[str, _Value]) -> Run:
    name, given, types = match[1], match[2].split(", "), match[3].split(", ")
    if name not in sequences:
        raise MLIRError(f"'aiex.run' op no such runtime sequence in the device: {name}")
    for number, (value, type, taken) in enumerate(zip(given, types, sequences[name].values(), strict=True)):
        if value not in values:
            raise MLIRError(f"use of undeclared SSA value name '{value}'")
        if not values[value].type == type == taken:
            raise MLIRError(f"'aiex.run' op argument {number} type mismatch: {values[value].type}, {type}, {taken}")
    return Run(name, tuple(values[value].part for value in given))


def _value(line: str, values: dict[str, _Value]) -> tuple[str, _Value]:
    """A part of another value."""
    if match := SUBVIEW.fullmatch(line):
        name, of, offset, size, source, result = match.groups()
        extent, element = _shape(source)
        if result != f"memref<{size}x{element}, strided<[1], offset: {offset}>>":
            raise MLIRError(f"'memref.subview' op expected another result type than {result}")
        if int(offset) + int(size) > extent:
            raise MLIRError(f"'memref.subview' op runs out of bounds: {line}")
    elif match := CAST.fullmatch(line):
        name, of, size, source, result = match.groups()
        offset, element = "0", _shape(source)[1]
        if result != f"memref<{size}x{element}>" or int(size) > _shape(source)[0]:
            raise MLIRError(f"'memref.reinterpret_cast' op expected another result type than {result}")
    else:
        raise MLIRError(f"cannot be traced to an argument of the runtime sequence: {line}")
    if of not in values or values[of].type != source:
        raise MLIRError(f"use of value '{of}' expects another type: {source}")
    start = values[of].part
    begin = start.offset + int(offset) * BYTES[element]
    return name, _Value(result, Part(start.argument, begin, int(size) * BYTES[element]))


def _shape(type: str) -> tuple[int, str]:
    match = MEMREF.fullmatch(type)
    if match is None or match[2] not in BYTES:
        raise MLIRError(f"{type} is no contiguous memory of one dimension")
    return int(match[1]), match[2]


def _nbytes(type: str) -> int:
    extent, element = _shape(type)
    return extent * BYTES[element]
