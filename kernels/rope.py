"""GGML's ROPE: rows turned by angles proportional to their positions, in the normal and the neox order of pairs.

A segment is some heads of one token, which share their angles. The cores get segments and positions and compute
cosines and sines themselves, so that a position costs 4 bytes of host memory and not two tables. Angles are counted in
turns of 2^32 steps, in which the product with a position wraps by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.dataflow.array import Arch, Tile
from npu_tensor.dataflow.design import (
    AccessPattern,
    Builder,
    CoreBuffer,
    Design,
    KernelFunction,
    ObjectFifo,
    ObjectType,
    Source,
    range_,
)
from npu_tensor.dtypes import bfloat16, float16, float32
from npu_tensor.kernels.codegen.cycles import CASTS, CYCLES
from npu_tensor.kernels.movement.copies import pattern
from npu_tensor.kernels.offer import HostOperand, Offer, Target
from npu_tensor.ops.contraction import rope_rates
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import joined
from npu_tensor.task import Refusal, Task

__all__ = ["claim"]

CORES: Final = 4
"""Cores of a column."""
OBJECT_ELEMENTS: Final = 4096
"""Of one object: 8 KiB as bfloat16 and 16 KiB as float32, of which a core holds two each."""
LONGEST_ROW: Final = 1024
"""Features: the tables, rates and factors of so many take 12 KiB of a core besides."""
MOST_SEGMENTS: Final = 256
"""Of one object: the positions of a round take 4 KiB, twice."""
STACK: Final = 2048
"""Bytes: sine and cosine keep more than fits the registers."""
TABLE_LANES: Final = 32
"""Rates and tables are filled up to a multiple of this, as nt/rope.hpp expects."""

# Assumed, for both generations: turning 32 pairs, of which aie2 multiplies 16 at once; what a row and a segment add;
# splitting and storing the sines and cosines of 16 pairs.
TURN_CYCLES: Final = 40
ROW_CYCLES: Final = 20
SEGMENT_CYCLES: Final = 20
SPLIT_CYCLES: Final = 12
PROGRAM_BYTES: Final = 8192
"""Estimate of the machine code, most of it sine and cosine."""


class Plan(NamedTuple):
    """How the rows are cut.

    features, heads: of one segment. segments: of one object, which a core takes at a time. rounds: objects for all
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
    def places(self) -> int:
        """Positions of one round."""
        return CORES * self.segments


class Angles(NamedTuple):
    """turns: of each pair for one position. magnitude: what all results are multiplied by. n_dims: features that are
    turned. neighbours: whether these form pairs, and not their halves. divided: whether a tensor of factors divides
    the turns.
    """

    turns: np.ndarray[Any, np.dtype[np.float64]]
    magnitude: float
    n_dims: int
    neighbours: bool
    divided: bool

    @property
    def pairs(self) -> int:
        """Entries of a core's tables."""
        return -(-len(self.turns) // TABLE_LANES) * TABLE_LANES


def claim(task: Task, target: Target) -> Offer | Refusal:
    """An offer for `rotate` on bfloat16, and on float16 and float32 if the target lets them be rounded to bfloat16."""
    x, positions, *factors = task.inputs
    if x.dtype not in (bfloat16, float16, float32):
        return Refusal(f"rope: no kernel for {x.dtype}")
    allowed = {float32: ("bfloat16",), float16: ("bfloat16", "emulate")}
    if x.dtype in allowed and target.float32 not in allowed[x.dtype]:
        return Refusal(f"rope: rounds {x.dtype} to bfloat16, the policy for float32 is {target.float32}")
    assert x.layout is not None
    assert positions.layout is not None
    assert task.call is not None
    *lead, tokens, heads, features = x.layout.shape
    if features > LONGEST_ROW:
        return Refusal(f"rope: rows of {features} features, more than {LONGEST_ROW}")
    angles = _angles(task.call.attributes, bool(factors))
    if angles is None:
        return Refusal("rope: the parameters do not give finite angles")
    cores = CORES * target.columns
    together = _heads(math.prod(lead) * tokens, heads, features, cores)
    if together is None:
        return Refusal(f"rope: {heads} heads of {features} features do not end on words of 4 bytes")
    # One position for each segment, by steps of 0 along dimensions that share it.
    spread = Layout(
        (math.prod(lead), tokens, heads // together), (0, *positions.layout.strides, 0), positions.layout.offset
    )
    rows, places = joined(x.layout), joined(spread)
    segments = math.prod(spread.shape)
    period = math.lcm(*(segments // math.gcd(segments, layout.shape[0]) for layout in (rows, places)))
    plan = _plan(segments, period, together, features, cores, "float32" if x.dtype is float32 else "bfloat16")
    size = plan.rounds * CORES * plan.elements
    result = Layout((math.prod(x.layout.shape),), (1,), task.outputs[0].layout.offset)
    # The last object of positions reaches beyond them if factors made it longer.
    reach = (plan.rounds - 1) * plan.places + _place_words(plan, angles)
    operands = [
        HostOperand(0, False, rows, _padded(rows, size), "bfloat16"),
        HostOperand(1, False, places, _padded(places, reach), "int32"),
    ]
    if factors:
        assert factors[0].layout is not None
        _, steps, offset = factors[0].layout
        used = Layout((len(angles.turns),), steps, offset)
        operands.append(HostOperand(2, False, used, (_place_words(plan, angles),), "float32", 1))
    operands.append(HostOperand(0, True, result, (size,), plan.output))
    sizes = [math.prod(operand.padded) for operand in operands]

    def design() -> Design:
        return _design(task.name, target, plan, angles, sizes)

    busy = CORES * min(target.columns, plan.rounds)
    reason = f"objects of {plan.segments * together} rows of {features}, on {busy} of {cores} cores"
    return Offer("rope", reason, design, tuple(operands))


def _angles(attributes: dict[str, Any], divided: bool) -> Angles | None:
    """From the attributes of `rotate`; None if there is something infinite or no number."""
    try:
        with np.errstate(all="ignore"):
            rates, magnitude = rope_rates(**{name: value for name, value in attributes.items() if name != "mode"})
    except ZeroDivisionError:
        return None
    if not (np.isfinite(rates).all() and math.isfinite(magnitude)):
        return None
    return Angles(rates / (2 * np.pi), float(magnitude), attributes["n_dims"], attributes["mode"] == "normal", divided)


def _heads(tokens: int, heads: int, features: int, cores: int) -> int | None:
    """Heads of a segment: as many as fit an object, but few enough for all cores to have some."""
    fitting = [
        together
        for together in range(heads, 0, -1)
        if heads % together == 0 and together * features <= OBJECT_ELEMENTS and together * features % 2 == 0
    ]
    return next((together for together in fitting if tokens * heads // together >= cores), min(fitting, default=None))


def _padded(layout: Layout, elements: int) -> tuple[int, ...]:
    """The extents of a host buffer of so many elements at least, filled up at the end."""
    return (-(-elements // math.prod(layout.shape[1:])), *layout.shape[1:])


def _plan(segments: int, period: int, heads: int, features: int, cores: int, output: str) -> Plan:
    """The segments of an object: many, but none that only fill up the last round if that can be."""
    most = max(1, min(OBJECT_ELEMENTS // (heads * features), -(-segments // cores), MOST_SEGMENTS))

    def total(number: int) -> int:
        step = math.lcm(period, CORES * number)
        return -(-segments // step) * step

    number = min(range(most, 0, -1), key=lambda number: (total(number), -number))
    return Plan(features, heads, number, total(number) // (CORES * number), output)


def _place_words(plan: Plan, angles: Angles) -> int:
    """Words of an object with positions. Those of a column take the factors too, which come first in every run."""
    return max(plan.places, angles.pairs) if angles.divided else plan.places


class _Functions(NamedTuple):
    """What turns the segments of an object, and what divides the turns by factors, if there are any."""

    rotate: KernelFunction
    divide: KernelFunction | None


class _Ends(NamedTuple):
    """The fifos of a column that the host fills and drains."""

    x: ObjectFifo
    places: ObjectFifo
    y: ObjectFifo


def _design(name: str, target: Target, plan: Plan, angles: Angles, sizes: list[int]) -> Design:
    builder = Builder(name, target.array.arch, target.columns)
    x = builder.host_buffer("x", "bfloat16", sizes[0])
    places = builder.host_buffer("positions", "int32", sizes[1])
    factors = builder.host_buffer("factors", "float32", sizes[2]) if angles.divided else None
    y = builder.host_buffer("y", plan.output, sizes[-1])
    functions = _functions(builder, plan, angles, target.array.arch)
    elements, words = CORES * plan.elements, _place_words(plan, angles)
    columns = min(target.columns, plan.rounds)
    first = 0
    for column in range(columns):
        rounds = plan.rounds * (column + 1) // columns - first
        ends = _column(builder, column, plan, angles, functions, rounds)
        if factors is not None:
            builder.fill(ends.places, factors, AccessPattern.linear(words))
        objects = pattern(first * plan.places, [(rounds, plan.places), (words, 1)], 1)
        assert objects is not None
        builder.fill(ends.places, places, objects)
        builder.fill(ends.x, x, AccessPattern.linear(rounds * elements, first * elements))
        builder.drain(ends.y, y, AccessPattern.linear(rounds * elements, first * elements))
        first += rounds
    return builder.build()


def _functions(builder: Builder, plan: Plan, angles: Angles, arch: Arch) -> _Functions:
    stored = {"bfloat16": "bfloat16", "float32": "float"}[plan.output]
    text = f"""#include <nt/rope.hpp>

extern "C" void nt_rope(const bfloat16 *x, const int32 *positions, {stored} *y, const int32 *turns, bfloat16 *memory,
                        int32 first, int32 segments, int32 heads, int32 features, int32 dims, int32 pairs,
                        float magnitude) {{
    aie::set_rounding(aie::rounding_mode::conv_even);
    nt::RopeTable table(memory, pairs);
    for (int32 segment = first; segment < first + segments; ++segment) {{
        if (segment == first || positions[segment] != positions[segment - 1])
            table.fill(positions[segment], turns, magnitude);
        for (int32 head = 0; head < heads; ++head, x += features, y += features)
            nt::rotate_row<{str(angles.neighbours).lower()}>(x, table, y, features, dims);
    }}
}}

extern "C" void nt_rope_divide(const int32 *factors, const float *rates, int32 *turns, int32 pairs) {{
    aie::set_rounding(aie::rounding_mode::conv_even);
    nt::divide_turns(rates, factors, turns, pairs);
}}
"""
    source = Source("rope", text)
    places, turns = ObjectType("int32", (_place_words(plan, angles),)), ObjectType("int32", (angles.pairs,))
    turning = ROW_CYCLES + TURN_CYCLES * -(-angles.n_dims // 64) + plan.features - angles.n_dims
    filling = angles.pairs // 16 * _table_cycles(CYCLES[arch])
    rotate = builder.function(
        "nt_rope",
        [
            ObjectType("bfloat16", (plan.elements,)),
            places,
            ObjectType(plan.output, (plan.elements,)),
            turns,
            ObjectType("bfloat16", (4 * angles.pairs,)),
            *["int32"] * 6,
            "float32",
        ],
        source,
        plan.segments * (SEGMENT_CYCLES + filling + plan.heads * turning),
        PROGRAM_BYTES,
    )
    if not angles.divided:
        return _Functions(rotate, None)
    rates = ObjectType("float32", (angles.pairs,))
    return _Functions(rotate, builder.function("nt_rope_divide", [places, rates, turns, "int32"], source, filling))


def _table_cycles(table: Mapping[tuple[str, str], tuple[int, int]]) -> int:
    """Of RopeTable::fill for 16 pairs."""
    full, half = 0, 1
    angle = table["mul", "int32"][full] + CASTS["int32", "float32"] + table["mul", "float32"][full]
    waves = table["sin", "float32"][half] + table["cos", "float32"][half] + 2 * table["mul", "float32"][half]
    return angle + waves + SPLIT_CYCLES


def _column(builder: Builder, column: int, plan: Plan, angles: Angles, functions: _Functions, rounds: int) -> _Ends:
    """Four cores that share what the column gets in each round."""
    rotate, divide = functions
    x, places, y, turns, table = (part for part in rotate.arguments if isinstance(part, ObjectType))
    shim, memtile = Tile(column, 0), Tile(column, 1)
    cores = [Tile(column, 2 + row) for row in range(CORES)]
    # A memtile has too few channels to part the positions too, so every core sees all of its column.
    ends = _Ends(
        builder.fifo(f"x_{column}", ObjectType(x.dtype, (CORES * x.elements,)), shim, [memtile]),
        builder.fifo(f"positions_{column}", places, shim, cores),
        builder.fifo(f"y_{column}", ObjectType(y.dtype, (CORES * y.elements,)), memtile, [shim]),
    )
    sources = [builder.fifo(f"x_{tile.column}_{tile.row}", x, memtile, [tile]) for tile in cores]
    results = [builder.fifo(f"y_{tile.column}_{tile.row}", y, tile, [memtile]) for tile in cores]
    builder.split(ends.x, sources)
    builder.join(results, ends.y)

    constants = plan.segments, plan.heads, plan.features, angles.n_dims, angles.pairs, angles.magnitude

    def one_round(x: Any, positions: Any, y: Any, turns: CoreBuffer, table: CoreBuffer, first: int) -> None:
        rotate(x.acquire(1), positions.acquire(1), y.acquire(1), turns, table, first, *constants)
        x.release(1)
        positions.release(1)
        y.release(1)

    def one_run(
        x: Any, positions: Any, y: Any, turns: CoreBuffer, table: CoreBuffer, first: int, rates: CoreBuffer
    ) -> None:
        assert divide is not None
        divide(positions.acquire(1), rates, turns, angles.pairs)
        positions.release(1)
        for _ in range_(rounds):
            one_round(x, positions, y, turns, table, first)

    for row, (tile, source, result) in enumerate(zip(cores, sources, results, strict=True)):
        place = f"{tile.column}_{tile.row}"
        memory = builder.core_buffer(f"table_{place}", tile, table)
        if divide is None:
            own = builder.core_buffer(f"turns_{place}", tile, turns, _whole_turns(angles))
            builder.worker(tile, one_round, [source, ends.places, result, own, memory, row * plan.segments], STACK)
        else:
            own = builder.core_buffer(f"turns_{place}", tile, turns)
            rates = builder.core_buffer(f"rates_{place}", tile, ObjectType("float32", turns.shape), _floats(angles))
            builder.worker(tile, one_run, [source, ends.places, result, own, memory, row * plan.segments, rates], STACK)
    return ends


def _whole_turns(angles: Angles) -> bytes:
    """The turns in units of 2^-32, without whole ones."""
    steps = np.zeros(angles.pairs, np.uint64)
    steps[: len(angles.turns)] = np.rint(angles.turns % 1 * 2**32)
    return steps.astype(np.uint32).tobytes()


def _floats(angles: Angles) -> bytes:
    turns = np.zeros(angles.pairs, np.float32)
    turns[: len(angles.turns)] = angles.turns
    return turns.tobytes()
