"""Instruction stream of a launch: the operations of the NPU's controller, as 32-bit words.

    words = instructions(design, {"scale_0_2": 0x4800})  # address of the runtime parameter: `parameter_addresses`
    words.astype("<u4").tofile("kernel_insts.bin")
    words, places = stream(program, [addresses])         # of several runs

The words are those that mlir-aie 1.4.1 emits for the IRON program of the design: a header of four words and the writes
of runtime parameters. Each transfer has a buffer descriptor of the shim's DMA, the patch that adds the host buffer's
address to it, and a push to the queue of its channel. A finished group waits for the token of each of its transfers. A
new extent of an existing configuration therefore needs no compiler. Operations, registers and fields were read in
mlir-aie's lowering (AIEDmaToNpu, AIEDMATasksToNPU) and compared with its words.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.array_program import ArrayProgram, HostSlice
from npu_tensor.dataflow.checks.limits import ITERATIONS, LIMITS, WORD
from npu_tensor.dataflow.design import AccessPattern, Design, Finish, ShimEnd
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.build.iron_program import device_columns, parameter_words

# --- operations: the first word of each

WRITE: Final = 0x00
BLOCK_WRITE: Final = 0x01
MASK_WRITE: Final = 0x03
LOAD_PDI: Final = 0x08
SYNC: Final = 0x80
ADDRESS_PATCH: Final = 0x81

TRANSLATED: Final = 5
APERTURE: Final = 0x80000000
"""Number of host buffers whose addresses the firmware translates for the array if the stream comes with an xclbin.

APERTURE must be added to the addresses of all others (AIETargetNPU.cpp).
"""

# --- registers of a shim tile

DESCRIPTORS: Final = 0x1D000
DESCRIPTOR_BYTES: Final = 0x20
CHANNELS: Final = {"in": 0x1D200, "out": 0x1D210}
"""Registers of the first channel that writes to host memory ("in" to the shim), and of the first that reads it."""
CHANNEL_BYTES: Final = 0x8
CONTROLLER: Final = 0xF00
"""Bits of a channel's control register: tokens go to the controller with the packet id 15."""
CONTROLLER_MASK: Final = 0x1F00

HEADER: Final = 4
"""Words before the first operation."""
WRITE_WORDS: Final = 6
WRITE_VALUE: Final = 4
"""Words of an operation that writes a word, and the position of the value among them."""
VERSION: Final = 0x0100
MEMTILE_ROWS: Final = 1
DEVICE: Final = {"aie2": 3, "aie2p": 4}
BURST: Final = {"aie2": 2, "aie2p": 3}
"""Codes of the longest burst of a shim in mlir-aie: 256 bytes, or 512."""
CACHE: Final = 2 << 24
VALID: Final = 1 << 25


def instructions(design: Design, addresses: Mapping[str, int]) -> NDArray[np.uint32]:
    """Return the words of a launch of a single design, which `check` accepts. See `stream`."""
    return stream(ArrayProgram.of(design), [addresses])[0]


def stream(
    program: ArrayProgram, addresses: Sequence[Mapping[str, int]]
) -> tuple[NDArray[np.uint32], tuple[list[int], ...]]:
    """Return the words of a program, and the positions of each word that its runs set, in order.

    Words that are set per run are markers, which the run replaces by its values. A program of several configurations
    loads each where it begins. The words are then those of the sequence of `iron_launch` before aiecc numbers the
    configurations and expands their loading. `addresses` has, for each configuration, the address of each runtime
    parameter by name, in bytes from the start of its tile's memory.

    Raises ArgumentError if an address is missing, or a transfer does not fit into a buffer descriptor.
    """
    operations = _Stream()
    places: list[list[int]] = []
    loaded = 0 if len(program.configurations) == 1 else None
    for run in program.runs:
        number = program.configurations.index(run.design.configuration)
        if number != loaded:
            operations.load()
            loaded = number
        places += operations.run(run.design, run.slices, addresses[number])
    return operations.with_header(program), tuple(places)


def buffer_descriptor(pattern: AccessPattern, itemsize: int, burst: int) -> list[int]:
    """Return the eight words of a shim's buffer descriptor for a host buffer with elements of `itemsize` bytes.

    The outermost size is part of the push to the queue instead; its stride is in the descriptor. Raises ArgumentError
    for a size or a stride out of range.
    """
    offset = pattern.offset * itemsize
    _within("the offset in words", _words("the offset", offset), 0, 2**30 - 1)
    length, *walk = _walk(pattern.sizes, pattern.strides, itemsize, burst)
    return [length, offset, *walk]


@lru_cache(maxsize=1024)
def _walk(
    sizes: tuple[int, int, int, int], strides: tuple[int, int, int, int], itemsize: int, burst: int
) -> tuple[int, ...]:
    """Return a buffer descriptor without its offset; many transfers of a sequence differ in the offset only."""
    limits = LIMITS["shim"]
    repeat, third, second, first = sizes
    width = _words("sizes[3]", first * itemsize)
    length = third * second * width
    _within("sizes[0]", repeat, 1, ITERATIONS)
    _within("sizes[1:] in words", length, 1, limits.length)
    inner = middle = outer = iteration = 0
    # A contiguous transfer needs no walk, and its sizes then have no limits of their own.
    neighbours = strides[3] == 1 and (second == 1 or strides[2] == first)
    if not neighbours or (third > 1 and strides[1] != first * second):
        _within("sizes[2]", second, 1, limits.wrap)
        _within("sizes[3] in words", width, 1, limits.wrap)
        inner = width << 20 | (_step(strides, 3, itemsize) if strides[3] != 1 else 0)
        middle = second << 20 | (_step(strides, 2, itemsize) if second > 1 else 0)
        outer = _step(strides, 1, itemsize) if third > 1 else 0
    if repeat > 1 and strides[0]:
        iteration = repeat - 1 << 20 | _step(strides, 0, itemsize)
    return length, 0, inner, burst << 30 | middle, CACHE | outer, iteration, VALID


def _step(strides: Sequence[int], dimension: int, itemsize: int) -> int:
    """Return the field for a stride: in words, minus one."""
    name = f"strides[{dimension}]"
    words = _words(name, strides[dimension] * itemsize)
    _within(f"{name} in words", words, 1, LIMITS["shim"].stride)
    return words - 1


def _words(name: str, nbytes: int) -> int:
    if nbytes % WORD:
        raise ArgumentError(f"{name} is {nbytes} bytes, and must be a multiple of {WORD}")
    return nbytes // WORD


def _within(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ArgumentError(f"{name} is {value}, and can be {least} to {most}")


def _registers(column: int, row: int) -> int:
    """Return the base address of the memory and the registers of a tile."""
    return column << 25 | row << 20


class _Stream:
    """Collector of operations."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self.operations = 0

    def run(self, design: Design, slices: Sequence[HostSlice], addresses: Mapping[str, int]) -> list[list[int]]:
        """Append a run of a design with host buffers in arguments; return the positions of the words that it sets."""
        places = self._parameters(design, addresses)
        ends, burst = design.configuration.shim_ends, BURST[design.arch]
        buffers = {
            buffer.name: (place, buffer.type.itemsize)
            for place, buffer in zip(slices, design.host_buffers, strict=True)
        }
        every = range(LIMITS["shim"].descriptors)
        free = {end.column: list(every) for end in ends.values()}  # Heaps: the smallest number is used first.
        groups: defaultdict[int, list[tuple[ShimEnd, int, bool]]] = defaultdict(list)
        for step in design.sequence:
            if isinstance(step, Finish):
                for end, descriptor, wait in groups.pop(step.group, ()):
                    heappush(free[end.column], descriptor)
                    if wait:
                        self._sync(end)
                continue
            end, (place, itemsize) = ends[step.fifo], buffers[step.buffer]
            if not free[end.column]:
                raise ArgumentError(
                    f"{Tile(end.column, 0)}: the transfer of fifo {step.fifo} finds all"
                    f" {LIMITS['shim'].descriptors} buffer descriptors taken; finish groups sooner"
                )
            descriptor = heappop(free[end.column])
            try:
                words = buffer_descriptor(step.pattern, itemsize, burst)
            except ArgumentError as error:
                raise ArgumentError(f"{Tile(end.column, 0)}: the transfer of fifo {step.fifo}: {error}") from None
            self._start(end, descriptor, words, place, step.pattern.sizes[0] - 1, step.wait)
            groups[step.group].append((end, descriptor, step.wait))
        return places

    def load(self) -> None:
        """Append the reconfiguration of the array."""
        self.words += LOAD_PDI, 0, 0, 0
        self.operations += 1

    def with_header(self, unit: Design | ArrayProgram) -> NDArray[np.uint32]:
        """Return all words, with the header for a design or program."""
        rows, nbytes = 2 + unit.array.core_rows, WORD * (HEADER + len(self.words))
        first = rows << 24 | DEVICE[unit.array.arch] << 16 | VERSION
        header = [first, MEMTILE_ROWS << 8 | device_columns(unit), self.operations, nbytes]
        return np.array(array("I", header + self.words))

    def _parameters(self, design: Design, addresses: Mapping[str, int]) -> list[list[int]]:
        """Write the runtime parameters. Return the positions of each word of a run, which all parameters share."""
        places: list[list[int]] = [[] for _ in range(design.run_words)]
        for parameter, values in zip(design.parameters, parameter_words(design), strict=True):
            if parameter.name not in addresses:
                raise ArgumentError(f"{design.name}: the address of runtime parameter {parameter.name} is not known")
            value = HEADER + len(self.words) + WRITE_VALUE
            for number, places_of_word in enumerate(places):
                places_of_word.append(value + WRITE_WORDS * number)
            self._write(_registers(*parameter.tile) + addresses[parameter.name], values)
        return places

    def _write(self, address: int, values: Sequence[int]) -> None:
        """Write consecutive words."""
        for place, value in enumerate(values):
            self.words += WRITE, 0, address + WORD * place, 0, value & 0xFFFFFFFF, 24
        self.operations += len(values)

    def _start(
        self, end: ShimEnd, descriptor: int, words: Sequence[int], place: HostSlice, repeat: int, token: bool
    ) -> None:
        """Write a buffer descriptor, let the controller add the address of the host buffer, and queue it."""
        base, offset = _registers(end.column, 0), words[1] + place.offset
        if place.argument >= TRANSLATED:
            _within("the offset in a buffer that firmware does not translate", offset, 0, APERTURE - 1)
            offset += APERTURE
        address = base + DESCRIPTORS + DESCRIPTOR_BYTES * descriptor
        self.words += BLOCK_WRITE, 0, address, 48, *words
        self.words += ADDRESS_PATCH, 48, 0, 0, 0, 0, address + WORD, 0, place.argument, 0, offset, 0
        self.operations += 2 + token
        control = base + CHANNELS[end.direction] + CHANNEL_BYTES * end.channel
        if token:
            self.words += MASK_WRITE, 0, control, 0, CONTROLLER, CONTROLLER_MASK, 28
        self._write(control + WORD, [token << 31 | repeat << 16 | descriptor])

    def _sync(self, end: ShimEnd) -> None:
        """Wait for a token of a channel: from one column and one row, from the shim's row 0."""
        direction = int(end.direction == "out")
        self.words += SYNC, 16, end.column << 16 | direction, end.channel << 24 | 1 << 16 | 1 << 8
        self.operations += 1
