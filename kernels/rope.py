"""GGML's ROPE: rows turned by angles proportional to their positions, in the normal and the neox order of pairs.

A segment is some heads of one token, which share their angles. The cores get segments and positions and compute
cosines and sines themselves, so that a position costs 4 bytes of host memory and not two tables. Angles are counted in
turns of 2^32 steps, in which the product with a position wraps by itself.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import (
    AccessPattern,
    Builder,
    CoreBuffer,
    Design,
    HostBuffer,
    KernelFunction,
    ObjectFifo,
    ObjectType,
    Source,
)
from npu_tensor.dtypes import bfloat16, float16, float32
from npu_tensor.kernels.copies import Copy, Loop, collapse
from npu_tensor.kernels.offer import HostOperand, Offer, Target
from npu_tensor.ops.contraction import rope_rates
from npu_tensor.ops.declare import Layout
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Refusal, Task

__all__ = ["claim"]

CORES: Final = 4
"""Cores of a column."""
OBJECT_ELEMENTS: Final = 4096
"""Of one object: 8 KiB as bfloat16 and 16 KiB as float32, of which a core holds two each."""
LONGEST_ROW: Final = 2048
"""Features: their table and rates take 12 KiB of a core besides."""
TABLE_LANES: Final = 32
"""Rates and tables are filled up to a multiple of this, as nt/rope.hpp expects."""

# Assumed, for both generations: angles, sines and cosines of 16 pairs; turning 32 pairs; what a row and a segment add.
TABLE_CYCLES: Final = 400
TURN_CYCLES: Final = 40
ROW_CYCLES: Final = 20
SEGMENT_CYCLES: Final = 20


class Plan(NamedTuple):
    """features, heads: of one segment. segments: of one object, which a core takes at a time. rounds: objects for all
    four cores of a column; the columns share them. output: dtype of the result.
    """

    features: int
    heads: int
    segments: int
    rounds: int
    output: str

    @property
    def elements(self) -> int:
        """Of one object."""
        return self.segments * self.heads * self.features

    @property
    def total(self) -> int:
        """Segments of all rounds."""
        return self.rounds * CORES * self.segments


def claim(task: Task, target: Target) -> Offer | Refusal:
    """An offer for `rotate` on bfloat16, and on float16 and float32 by rounding them to bfloat16."""
    if len(task.inputs) > 2:
        return Refusal("rope: frequency factors are data, and angles are computed from constants")
    x, positions = task.inputs
    if x.dtype not in (bfloat16, float16, float32):
        return Refusal(f"rope: no kernel for {x.dtype}")
    if x.dtype is float32 and target.float32 != "bfloat16":
        return Refusal(f"rope: rounds float32 to bfloat16, the policy for float32 is {target.float32}")
    assert x.layout is not None
    assert positions.layout is not None
    assert task.call is not None
    *lead, tokens, heads, features = x.layout.shape
    if features > LONGEST_ROW:
        return Refusal(f"rope: rows of {features} features, more than {LONGEST_ROW}")
    cores = CORES * target.columns
    together = _heads(math.prod(lead) * tokens, heads, features, cores)
    if together is None:
        return Refusal(f"rope: {heads} heads of {features} features do not end on words of 4 bytes")
    # One position for each segment, by steps of 0 along dimensions that share it.
    places = Layout(
        (math.prod(lead), tokens, heads // together), (0, *positions.layout.strides, 0), positions.layout.offset
    )
    x_layout, place_layout = _as_few(x.layout), _as_few(places)
    result = Layout((math.prod(x.layout.shape),), (1,), task.outputs[0].layout.offset)
    segments = math.prod(places.shape)
    period = math.lcm(*(segments // math.gcd(segments, layout.shape[0]) for layout in (x_layout, place_layout)))
    output = "float32" if x.dtype is float32 else "bfloat16"
    plan = _plan(segments, period, together, features, cores, output)
    size = plan.rounds * CORES * plan.elements
    operands = (
        HostOperand(0, False, x_layout, _padded(x_layout, size), "bfloat16"),
        HostOperand(1, False, place_layout, _padded(place_layout, plan.total), "int32"),
        HostOperand(0, True, result, (size,), output),
    )
    attributes = task.call.attributes

    def design() -> Design:
        return _design(task.name, target, plan, attributes)

    used = CORES * min(target.columns, plan.rounds)
    return Offer("rope", f"{plan.segments} x {together} rows to a core at a time, {used} cores", design, operands)


def _heads(tokens: int, heads: int, features: int, cores: int) -> int | None:
    """Heads of a segment: as many as fit an object, but few enough for all cores to have some."""
    fitting = [
        together
        for together in range(heads, 0, -1)
        if heads % together == 0 and together * features <= OBJECT_ELEMENTS and together * features % 2 == 0
    ]
    return next((together for together in fitting if tokens * heads // together >= cores), min(fitting, default=None))


def _as_few(layout: Layout) -> Layout:
    """The same elements in the same order with as few dimensions as possible."""
    steps = contiguous_strides(layout.shape)
    loops = collapse(Copy(tuple(map(Loop, layout.shape, layout.strides, steps)), 0, 0)).loops or (Loop(1, 1, 1),)
    return Layout(tuple(loop.extent for loop in loops), tuple(loop.source for loop in loops), layout.offset)


def _padded(layout: Layout, elements: int) -> tuple[int, ...]:
    """The extents of a host buffer of so many elements, filled up at the end."""
    return (elements // math.prod(layout.shape[1:]), *layout.shape[1:])


def _plan(segments: int, period: int, heads: int, features: int, cores: int, output: str) -> Plan:
    """The segments of an object: many, but none that only fill up the last round if that can be."""
    most = max(1, min(OBJECT_ELEMENTS // (heads * features), -(-segments // cores)))

    def total(number: int) -> int:
        step = math.lcm(period, CORES * number)
        return -(-segments // step) * step

    number = min(range(most, 0, -1), key=lambda number: (total(number), -number))
    return Plan(features, heads, number, total(number) // (CORES * number), output)


class _Ends(NamedTuple):
    """The fifos of a column that the host fills and drains."""

    source: ObjectFifo
    positions: ObjectFifo
    result: ObjectFifo


def _design(name: str, target: Target, plan: Plan, attributes: dict[str, Any]) -> Design:
    builder = Builder(name, target.array.arch, target.columns)
    size = plan.rounds * CORES * plan.elements
    buffers = (
        builder.host_buffer("x", "bfloat16", size),
        builder.host_buffer("positions", "int32", plan.total),
        builder.host_buffer("y", plan.output, size),
    )
    rates, magnitude = rope_rates(**{name: value for name, value in attributes.items() if name != "mode"})
    rotate = _function(builder, plan, attributes["n_dims"], attributes["mode"] == "normal", magnitude)
    pairs = rotate.arguments[3]
    assert isinstance(pairs, ObjectType)
    steps = np.zeros(pairs.elements, np.int64)
    steps[: len(rates)] = np.rint(rates / (2 * np.pi) % 1 * 2**32)
    columns = min(target.columns, plan.rounds)
    first = 0
    for column in range(columns):
        rounds = plan.rounds * (column + 1) // columns - first
        ends = _column(builder, column, plan, rotate, steps.astype(np.uint32).tobytes())
        _transfers(builder, ends, plan, buffers, first, rounds)
        first += rounds
    return builder.build()


def _function(builder: Builder, plan: Plan, n_dims: int, neighbours: bool, magnitude: float) -> KernelFunction:
    """What turns the segments of one object."""
    pairs = -(-n_dims // 2 // TABLE_LANES) * TABLE_LANES
    row = f"nt::rotate_row<{str(neighbours).lower()}, {plan.features}, {n_dims}, {pairs}>"
    stored = {"bfloat16": "bfloat16", "float32": "float"}[plan.output]
    text = f"""#include <nt/rope.hpp>

extern "C" void nt_rope(const bfloat16 *__restrict x, const int32 *__restrict positions, {stored} *__restrict y,
                        const int32 *__restrict turns, bfloat16 *__restrict memory, int32 first) {{
  positions += first;
  aie::set_rounding(aie::rounding_mode::conv_even);
  nt::RopeTable<{pairs}> table(memory);
  for (unsigned segment = 0; segment < {plan.segments}; ++segment) {{
    if (segment == 0 || positions[segment] != positions[segment - 1])
      table.fill(positions[segment], turns, {float(np.float32(magnitude))!r}f);
    for (unsigned head = 0; head < {plan.heads}; ++head, x += {plan.features}, y += {plan.features})
      {row}(x, table, y);
  }}
}}
"""
    turning = ROW_CYCLES + TURN_CYCLES * -(-n_dims // 64) + plan.features - n_dims
    cycles = plan.segments * (SEGMENT_CYCLES + pairs // 16 * TABLE_CYCLES + plan.heads * turning)
    arguments: list[ObjectType | str] = [
        ObjectType("bfloat16", (plan.elements,)),
        ObjectType("int32", (CORES * plan.segments,)),
        ObjectType(plan.output, (plan.elements,)),
        ObjectType("int32", (pairs,)),
        ObjectType("bfloat16", (4 * pairs,)),
        "int32",
    ]
    return builder.function("nt_rope", arguments, Source("rope", text), cycles, 6144)


def _column(builder: Builder, column: int, plan: Plan, rotate: KernelFunction, turns: bytes) -> _Ends:
    """Four cores that share what the column gets in each round."""
    x, positions, y, rates, table = (part for part in rotate.arguments if isinstance(part, ObjectType))
    shim, memtile = Tile(column, 0), Tile(column, 1)
    cores = [Tile(column, 2 + row) for row in range(CORES)]
    whole = ObjectType(x.dtype, (CORES * x.elements,)), ObjectType(y.dtype, (CORES * y.elements,))
    # A memtile has too few channels to part the positions too, so every core sees all of its column.
    ends = _Ends(
        builder.fifo(f"x_{column}", whole[0], shim, [memtile]),
        builder.fifo(f"positions_{column}", positions, shim, cores),
        builder.fifo(f"y_{column}", whole[1], memtile, [shim]),
    )
    sources = [builder.fifo(f"x_{tile.column}_{tile.row}", x, memtile, [tile]) for tile in cores]
    results = [builder.fifo(f"y_{tile.column}_{tile.row}", y, tile, [memtile]) for tile in cores]
    builder.split(ends.source, sources)
    builder.join(results, ends.result)

    def body(x: Any, positions: Any, y: Any, rates: CoreBuffer, table: CoreBuffer, first: int) -> None:
        rotate(x.acquire(1), positions.acquire(1), y.acquire(1), rates, table, first)
        x.release(1)
        positions.release(1)
        y.release(1)

    for row, (tile, source, result) in enumerate(zip(cores, sources, results, strict=True)):
        own = builder.core_buffer(f"turns_{tile.column}_{tile.row}", tile, rates, turns)
        memory = builder.core_buffer(f"table_{tile.column}_{tile.row}", tile, table)
        builder.worker(tile, body, [source, ends.positions, result, own, memory, row * plan.segments])
    return ends


def _transfers(
    builder: Builder,
    ends: _Ends,
    plan: Plan,
    buffers: tuple[HostBuffer, HostBuffer, HostBuffer],
    first: int,
    rounds: int,
) -> None:
    """What a column gets: neighbouring rounds."""
    x, positions, y = buffers
    elements, places = CORES * plan.elements, CORES * plan.segments
    builder.fill(ends.source, x, AccessPattern.linear(rounds * elements, first * elements))
    builder.fill(ends.positions, positions, AccessPattern.linear(rounds * places, first * places))
    builder.drain(ends.result, y, AccessPattern.linear(rounds * elements, first * elements))
