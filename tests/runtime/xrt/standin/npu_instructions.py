"""Decoder of instruction streams: the actions of an NPU's controller, as the sequence of a design.

    design = read_stream(words, configuration, addresses, sizes)

Operations and registers as AMD's headers have them (xaiengine's transactions, AM020 and the register references of
AIE-ML); nothing of the encoder is used. A write into the memory of a core is that of a runtime parameter.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import (
    AccessPattern,
    Configuration,
    Design,
    Finish,
    HostBuffer,
    LastWords,
    ObjectFifo,
    ObjectType,
    Transfer,
    Word,
)

LENGTHS = {0x00: 6, 0x01: 12, 0x03: 7, 0x80: 4, 0x81: 12}
"""Words of each operation: write, block write of a descriptor, masked write, wait for a token, address patch."""


class StreamError(ValueError):
    """The controller would stop, or do what no design can mean."""


def read_stream(
    words: np.ndarray[Any, np.dtype[np.uint32]],
    configuration: Configuration,
    addresses: Mapping[str, int],
    sizes: Sequence[int],
) -> list[Design]:
    """Return designs whose sequences together equal the words. Each rewrite of parameters starts another design.

    Args:
        words: Words of the instruction stream.
        configuration: Configuration of the array.
        addresses: Addresses of runtime parameters in the memory of their tiles.
        sizes: Sizes of the host buffers, in bytes.
    """
    stream = words.tolist()
    if len(stream) < 4 or stream[3] != 4 * len(stream):
        raise StreamError(f"{len(stream)} words, and the header says {stream[3:4]} bytes")
    reader = _Reader(configuration, addresses)
    place = 4
    for _ in range(stream[2]):
        length = LENGTHS.get(stream[place]) if place < len(stream) else None
        if length is None or place + length > len(stream):
            raise StreamError(f"no operation at word {place}")
        reader.run(stream[place : place + length])
        place += length
    if place != len(stream):
        raise StreamError(f"{len(stream) - place} words behind the last operation")
    buffers = tuple(HostBuffer(f"b{n}", ObjectType("int32", (size // 4,))) for n, size in enumerate(sizes))
    parts = {field.name: getattr(configuration, field.name) for field in fields(Configuration)}
    return [
        Design(**parts, host_buffers=buffers, values=_values(configuration, words), sequence=tuple(steps))
        for words, steps in reader.runs
    ]


def _values(configuration: Configuration, words: Mapping[Word, int]) -> tuple[LastWords, ...]:
    """Return the words written to each runtime parameter. Raises StreamError for incomplete writes."""
    values = []
    for parameter in configuration.parameters:
        written = [words[parameter[number]] for number in range(parameter.words) if parameter[number] in words]
        if len(written) != parameter.words:
            raise StreamError(f"{len(written)} of {parameter.words} words of parameter {parameter.name} are written")
        values.append(LastWords(parameter.name, tuple(written)))
    return tuple(values)


def reach(designs: Sequence[Design]) -> dict[int, int]:
    """Return the bytes that transfers reach, by host buffer."""
    ends: dict[int, int] = {}
    for step in (step for design in designs for step in design.sequence):
        if isinstance(step, Transfer):
            offset, sizes, strides = step.pattern
            last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
            number = int(step.buffer[1:])
            ends[number] = max(ends.get(number, 0), 4 * (last + 1))
    return ends


def written(designs: Sequence[Design]) -> list[int]:
    """The numbers of the host buffers that designs write."""
    drained = {
        step.buffer
        for design in designs
        for step in design.sequence
        if isinstance(step, Transfer) and design.fifo(step.fifo).producer.kind != "shim"
    }
    return [number for number, buffer in enumerate(designs[0].host_buffers) if buffer.name in drained]


class _Reader:
    def __init__(self, configuration: Configuration, addresses: Mapping[str, int]) -> None:
        self.words = {
            (_place(parameter.tile), addresses[parameter.name] + 4 * number): parameter[number]
            for parameter in configuration.parameters
            for number in range(parameter.words)
        }
        self.ends = _shim_ends(configuration)
        self.runs: list[tuple[dict[Word, int], list[Transfer | Finish]]] = [({}, [])]
        self.descriptors: dict[int, list[int]] = {}
        self.arguments: dict[int, tuple[int, int]] = {}
        self.tokens: set[int] = set()
        self.tasks: defaultdict[tuple[int, str, int], deque[int]] = defaultdict(deque)
        """Groups of one transfer each whose tokens were not waited for, by channel."""

    def run(self, words: list[int]) -> None:
        """One operation."""
        match words:
            case [0x00, _, address, _, value, 24]:
                self._write(address, value)
            case [0x01, _, address, 48, *descriptor]:
                self.descriptors[address] = descriptor
            case [0x03, _, address, _, 0xF00, 0x1F00, 28]:
                self.tokens.add(address)
            case [0x80, 16, channel, end]:
                if end & 0xFFFFFF != 0x010100:
                    raise StreamError(f"a token of more than one tile: {end:#x}")
                self._wait((channel >> 16, "out" if channel & 0xFF else "in", end >> 24))
            case [0x81, 48, _, _, _, _, address, _, argument, _, offset, _]:
                if address - 4 not in self.descriptors:
                    raise StreamError(f"the patch of {address:#x}, where no descriptor is")
                # From the sixth on, firmware does not translate addresses of host buffers.
                self.arguments[address - 4] = argument, offset - (argument >= 5) * 0x8000_0000
            case _:
                raise StreamError(f"an operation that is none: {words}")

    def _write(self, address: int, value: int) -> None:
        tile, register = address >> 20, address & 0xFFFFF
        if (tile, register) in self.words:
            if self.runs[-1][1]:
                self.runs.append(({}, []))
            self.runs[-1][0][self.words[tile, register]] = value
            return
        queue, rest = divmod(register - 0x1D204, 8)
        if tile & 0x1F or rest or not 0 <= queue < 4:
            raise StreamError(f"a write to {address:#x}, where nothing is")
        end = (tile >> 5, "out" if queue >= 2 else "in", queue % 2)
        base = (tile << 20) + 0x1D000 + 0x20 * (value & 0xF)
        if end not in self.ends or base not in self.arguments:
            raise StreamError(f"a task of channel {end} with descriptor {base:#x}, of which one is not there")
        waited = value >> 31
        if waited and address - 4 not in self.tokens:
            raise StreamError(f"the tokens of channel {end} go nowhere")
        steps = self.runs[-1][1]
        group = len(steps)
        argument, offset = self.arguments[base]
        pattern = _pattern(self.descriptors[base], offset, 1 + (value >> 16 & 0xFF))
        steps.append(Transfer(self.ends[end].name, f"b{argument}", pattern, group, bool(waited)))
        if waited:
            self.tasks[end].append(group)

    def _wait(self, end: tuple[int, str, int]) -> None:
        if not self.tasks[end]:
            raise StreamError(f"a token of channel {end} that never comes")
        self.runs[-1][1].append(Finish(self.tasks[end].popleft()))


def _place(tile: Tile) -> int:
    return tile.column << 5 | tile.row


def _shim_ends(configuration: Configuration) -> dict[tuple[int, str, int], ObjectFifo]:
    """Fifos by column, direction and channel of the shim; mlir-aie counts channels in the order of IRON's names."""
    ends: dict[tuple[int, str, int], ObjectFifo] = {}
    for fifo in sorted(configuration.fifos, key=lambda fifo: fifo.name):
        for tile, direction in ((fifo.producer, "out"), *((consumer, "in") for consumer in fifo.consumers)):
            if tile.kind == "shim":
                channel = sum(end[:2] == (tile.column, direction) for end in ends)
                ends[tile.column, direction, channel] = fifo
    return ends


def _pattern(descriptor: list[int], offset: int, repeat: int) -> AccessPattern:
    """Return the words that a shim buffer descriptor accesses. `offset` is that of its patch, in bytes."""
    length, _, packet, inner, middle, outer, iteration, valid = descriptor
    if packet or not valid >> 25 & 1 or offset % 4:
        raise StreamError(f"a descriptor that is not valid: {descriptor}")
    width = inner >> 20
    if not width:
        sizes, strides = (1, 1, length), (0, 0, 1)
    else:
        rows = max(1, middle >> 20 & 0x3FF)
        planes = length // (width * rows)
        sizes = (planes, rows, width)
        strides = ((outer & 0xFFFFF) + 1, (middle & 0xFFFFF) + 1, (inner & 0xFFFFF) + 1)
    step = (iteration & 0xFFFFF) + 1 if iteration else 0
    if iteration and (iteration >> 20 & 0x3F) + 1 != repeat:
        raise StreamError(f"a task that repeats {repeat} times a descriptor of {descriptor[6] >> 20} iterations")
    return AccessPattern(offset // 4, (repeat, *sizes), (step, *strides))
