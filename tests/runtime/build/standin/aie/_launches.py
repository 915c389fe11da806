"""Modules of several devices, whose @main configures the array and runs the sequences of the others.

As aiecc takes them: AIEMaterializeRuntimeSequences.cpp and AIEUtils.cpp, and the verifiers of memref's subview and
reinterpret_cast. All memory is words of 32 bits.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from ._module import MLIRError


class Part(NamedTuple):
    """Bytes of an argument of @main, from an offset on."""

    argument: int
    offset: int
    nbytes: int


class Run(NamedTuple):
    """Run of a runtime sequence, with its arguments."""

    sequence: str
    parts: tuple[Part, ...]


class Configure(NamedTuple):
    """Configuration of a device, and the runs with this configuration."""

    device: str
    runs: list[Run]


class _Value(NamedTuple):
    type: str
    part: Part


NAME = r"%[A-Za-z_0-9]+"
DEVICE = re.compile(r"  aie\.device\((\w+)\) @(\w+) \{\n(.*?)^  \}\n", re.MULTILINE | re.DOTALL)
SEQUENCE = re.compile(r"    aie\.runtime_sequence @(\w+)\(([^\n]*)\) \{\n(.*?)^    \}\n", re.MULTILINE | re.DOTALL)
ARGUMENT = re.compile(rf"({NAME}): (memref<\w+>)")
MEMREF = re.compile(r"memref<(\d+)xi32(?:, strided<\[1\](?:, offset: (\d+))?>)?>")
CONFIGURE = re.compile(r"aiex\.configure @(\w+) \{")
SUBVIEW = re.compile(rf"({NAME}) = memref\.subview ({NAME})\[(\d+)\] \[(\d+)\] \[1\] : (.+) to (.+)")
CAST = re.compile(
    rf"({NAME}) = memref\.reinterpret_cast ({NAME}) to offset: \[0\], sizes: \[(\d+)\], strides: \[1\] : (.+) to (.+)"
)
RUN = re.compile(r"aiex\.run @(\w+)\((.*)\) : \((.*)\)")


def launch(text: str) -> list[Configure]:
    """Return the steps of the sequence of @main, in order. Raise MLIRError for a module that aiecc refuses."""
    devices = DEVICE.findall(text)
    names = Counter(name for _, name, _ in devices)
    if len({kind for kind, _, _ in devices}) != 1 or max(names.values()) > 1:
        raise MLIRError(f"devices of several types, or of one name: {names}")
    sequences = {name: {sequence: parts for sequence, *parts in SEQUENCE.findall(body)} for _, name, body in devices}
    ((arguments, main),) = sequences["main"].values()
    values = {
        name: _Value(type, Part(number, 0, 4 * _words(type)))
        for number, (name, type) in enumerate(ARGUMENT.findall(arguments))
    }
    steps: list[Configure] = []
    inside = False
    for line in map(str.strip, main.splitlines()):
        if match := CONFIGURE.fullmatch(line):
            if inside or match[1] not in sequences:
                raise MLIRError(f"'aiex.configure' op cannot be here, or no device is called {match[1]}")
            steps.append(Configure(match[1], []))
            inside = True
        elif not inside:
            raise MLIRError(f"{line} outside of aiex.configure")
        elif line == "}":
            inside = False
        elif match := RUN.fullmatch(line):
            steps[-1].runs.append(_run(match, sequences[steps[-1].device], values))
        else:
            name, value = _value(line, values)
            if name in values:
                raise MLIRError(f"redefinition of SSA value '{name}'")
            values[name] = value
    return steps


def _run(match: re.Match[str], sequences: dict[str, list[str]], values: dict[str, _Value]) -> Run:
    name, arguments, types = match[1], match[2].split(", "), match[3].split(", ")
    if name not in sequences:
        raise MLIRError(f"'aiex.run' op no such runtime sequence in the device: {name}")
    declared = [type for _, type in ARGUMENT.findall(sequences[name][0])]
    if not [values[value].type for value in arguments] == types == declared:
        raise MLIRError(f"'aiex.run' op argument type mismatch: {match[0]}")
    return Run(name, tuple(values[value].part for value in arguments))


def _value(line: str, values: dict[str, _Value]) -> tuple[str, _Value]:
    """A part of another value."""
    if match := SUBVIEW.fullmatch(line):
        name, of, offset, size, source, result = match.groups()
        expected = f"memref<{size}xi32, strided<[1], offset: {offset}>>"
    elif match := CAST.fullmatch(line):
        name, of, size, source, result = match.groups()
        offset, expected = "0", f"memref<{size}xi32>"
    else:
        raise MLIRError(f"cannot be traced to an argument of the runtime sequence: {line}")
    if result != expected or values[of].type != source or int(offset) + int(size) > _words(source):
        raise MLIRError(f"out of bounds, or with other types than its own: {line}")
    start = values[of].part
    return name, _Value(result, Part(start.argument, start.offset + 4 * int(offset), 4 * int(size)))


def _words(type: str) -> int:
    match = MEMREF.fullmatch(type)
    if match is None:
        raise MLIRError(f"{type} is no contiguous memory of one dimension")
    return int(match[1])
