"""Which plan an element-wise task gets: what is kept in the cores, the size of tiles, how many cores and columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from npu_tensor.kernels.elementwise.plan import Operand, Plan, carrier, leading_zeros

__all__ = ["RUN", "plan"]

CORE_BYTES: Final = 60 * 1024
"""For the buffers of a core, of 64 KiB: the rest is for the stack and what the compiler adds."""

COLUMN_BYTES: Final = 4096
"""For the values of one column operand in a core."""

MEMTILE_BYTES: Final = 384 * 1024
"""For objects in which several operands alternate, of 512 KiB."""

ALIGNMENT: Final = 64
"""Bytes: of the widest vector, which loads and stores must be aligned to on aie2p."""

WORD: Final = 4
"""Bytes: where transfers begin."""

WORTHWHILE: Final = 1024
"""Elements for which another core is used, and the smallest tile if there are several: below, locks cost more."""

ROUNDS: Final = 4
"""Tiles per core that make loading, computing and storing overlap."""

WASTE: Final = 1.25
"""How much longer a row may become by padding. Repeating the operand on the host costs one more stream instead."""

RUN: Final = 512
"""Elements of the innermost dimension in which a memtile's DMA walks a tile: the most that a dimension can have."""


class _Again(Exception):
    """The input at this position cannot be kept."""

    def __init__(self, position: int) -> None:
        self.position = position


def plan(
    shape: tuple[int, ...], inputs: tuple[Operand, ...], outputs: tuple[Operand, ...], lanes: int, columns: int
) -> Plan | str:
    """The plan for a collapsed shape on at most `columns` columns, or why there is none.

    lanes: elements per vector.
    """
    if not inputs:
        return "no tensor to stream: the host fills memory faster"
    if len(inputs) + len(outputs) > 5 or len(outputs) > 2:
        return f"{len(inputs)} inputs and {len(outputs)} outputs; a design has 5 host buffers, 2 of them for outputs"
    streamed = {position for position, operand in enumerate(inputs) if 0 not in operand.strides}
    while True:
        try:
            return _plan(shape, inputs, outputs, lanes, columns, streamed)
        except _Again as refused:
            streamed.add(refused.position)


def _plan(
    shape: tuple[int, ...],
    inputs: tuple[Operand, ...],
    outputs: tuple[Operand, ...],
    lanes: int,
    columns: int,
    streamed: set[int],
) -> Plan | str:
    """The plan in which all inputs but `streamed` are kept. Raises _Again."""
    kept = [position for position in range(len(inputs)) if position not in streamed]
    if len(kept) == len(inputs):  # The one that is repeated least becomes the stream.
        raise _Again(max(kept, key=lambda position: sum(map(bool, inputs[position].strides))))
    channels = _channels(sorted(streamed), inputs)
    if channels is None:
        return "more than two element sizes among its streams, and a core has two input channels"
    rows = tuple(position for position in kept if inputs[position].strides[0] == 0)
    by_row = tuple(position for position in kept if inputs[position].strides[-1] == 0 and position not in rows)
    bringing = carrier(channels, inputs)
    for position in kept:
        fits = bringing >= 0 and inputs[position].itemsize <= inputs[channels[bringing][0]].itemsize
        if not fits or position not in (*rows, *by_row):
            raise _Again(position)

    granule = max(lanes, *(ALIGNMENT // operand.itemsize for operand in (*inputs, *outputs)))
    buffered = [*(inputs[position] for position in streamed), *outputs]
    per_element = sum(2 * operand.itemsize for operand in buffered) + sum(inputs[row].itemsize for row in rows)
    most = (CORE_BYTES - COLUMN_BYTES * len(by_row)) // per_element // granule * granule
    pitch = _pitch(shape, inputs, rows, by_row, lanes, granule, most)
    width = _width((*shape[:-1], pitch), [inputs[position] for position in by_row], lanes, most)
    multiple = math.lcm(granule, width or 1, *_lengths((*shape[:-1], pitch), [inputs[row] for row in rows]))
    alternating = max(map(len, channels)) > 1
    if alternating and most > RUN:
        multiple = math.lcm(multiple, RUN)
    if kept and multiple > most:
        raise _Again((*rows, *by_row)[-1])

    elements = math.prod((*shape[:-1], pitch))
    tile, cores = _tile(elements, multiple, most // multiple * multiple, _cores(channels, outputs), columns)
    objects = -(-elements // (tile * cores))
    block = 1
    if alternating:
        both = 2 * tile * sum(inputs[position].itemsize for position in streamed)  # of two buffers
        block = max(1, min(MEMTILE_BYTES // both, -(-objects // columns)))
    blocks = -(-objects // block)
    used = min(columns, blocks)
    rounds = tuple(block * (blocks // used + (column < blocks % used)) for column in range(used))
    made = Plan(shape, pitch, tile, cores, rounds, channels, block, rows, by_row, width or tile, inputs, outputs)
    for position in by_row:
        values, itemsize = made.values(0), inputs[position].itemsize
        unaligned = any(made.first(column) // made.width * itemsize % WORD for column in range(used))
        if unaligned or values > made.kept_elements(position) or values * itemsize > COLUMN_BYTES:
            raise _Again(position)
    return made


def _lengths(shape: tuple[int, ...], rows: Sequence[Operand]) -> list[int]:
    """Elements of each row operand."""
    return [math.prod(shape[leading_zeros(row.strides) :]) for row in rows]


def _width(shape: tuple[int, ...], by_row: Sequence[Operand], lanes: int, most: int) -> int:
    """The longest row of which each column operand has one value and a tile can have whole ones; 0 without any."""
    width = 0
    for operand in by_row:
        width = math.gcd(width, math.prod(shape[len(shape) - leading_zeros(operand.strides[::-1]) :]))
    if width <= most:
        return width
    return max((part for part in range(lanes, most + 1, lanes) if width % part == 0), default=width)


def _channels(streamed: list[int], inputs: tuple[Operand, ...]) -> tuple[tuple[int, ...], ...] | None:
    """The streamed inputs on at most two channels; those that share one have elements of one size."""
    if len(streamed) <= 2:
        return tuple((position,) for position in streamed)
    sizes = sorted({inputs[position].itemsize for position in streamed})
    if len(sizes) == 1:
        return tuple(streamed[:2]), tuple(streamed[2:])
    if len(sizes) > 2:
        return None
    return tuple(tuple(p for p in streamed if inputs[p].itemsize == size) for size in sizes)


def _cores(channels: tuple[tuple[int, ...], ...], outputs: tuple[Operand, ...]) -> int:
    """Cores of one column that its memtile's 6 input and 6 output channels can serve."""
    if max(map(len, channels)) > 1:
        return 1
    into, out = len(channels), len(outputs)
    return next(cores for cores in (4, 2, 1) if into + cores * out <= 6 and cores * into + out <= 6)


def _pitch(
    shape: tuple[int, ...],
    inputs: tuple[Operand, ...],
    rows: tuple[int, ...],
    by_row: tuple[int, ...],
    lanes: int,
    granule: int,
    most: int,
) -> int:
    """The innermost extent, padded if kept inputs need that: whole rows must fill a tile, or whole vectors a row."""

    def fits(pitch: int) -> bool:
        return math.lcm(granule, *_lengths((*shape[:-1], pitch), [inputs[row] for row in rows])) <= most

    extent = shape[-1]
    if fits(extent) and (not by_row or extent % lanes == 0):
        return extent
    pitches = [-(-extent // unit) * unit for unit in (lanes, granule)]
    pitch = next((pitch for pitch in pitches if fits(pitch) and pitch <= WASTE * extent), None)
    if pitch is None:
        longest = min(rows, key=lambda row: leading_zeros(inputs[row].strides), default=None)
        raise _Again(by_row[0] if longest is None or (by_row and fits(pitches[0])) else longest)
    return pitch


def _tile(elements: int, multiple: int, most: int, cores: int, columns: int) -> tuple[int, int]:
    """Elements of a tile, and cores per column: as many as have something worthwhile to do."""
    worthwhile = -(-elements // max(WORTHWHILE, multiple))
    cores = max(count for count in (4, 2, 1) if count <= min(cores, worthwhile))
    workers = cores * min(columns, -(-worthwhile // cores))
    wanted = min(most, max(WORTHWHILE, -(-elements // (workers * ROUNDS))))
    rounds = -(-elements // (workers * wanted))
    return min(most, -(-elements // (workers * rounds * multiple)) * multiple), cores
