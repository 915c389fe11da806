"""GGML's ROPE: rows rotated by angles proportional to their positions, in the normal and the neox order of pairs.

A segment is one head of a token, or the fewest heads that end on a word. The cores receive segments and positions and
compute cosines and sines themselves, once for neighbours of one position. A position thus costs 4 bytes of host memory
instead of two tables. Angles are counted in units of 2^-32 turns, in which the product with a position wraps by itself.
Tokens and heads are not part of the binary: there are two sizes of objects.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from npu_tensor.dataflow.array import Arch, Tile
from npu_tensor.dataflow.columns import core_tiles, gather, scatter
from npu_tensor.dataflow.design import (
    AccessPattern,
    Builder,
    Configuration,
    Design,
    KernelFunction,
    ObjectType,
    SequenceBuilder,
    Source,
    range_,
)
from npu_tensor.dtypes import float32
from npu_tensor.kernels.codegen.cycles import SCALAR_STEP, function
from npu_tensor.kernels.codegen.storage import rounding_refusal
from npu_tensor.kernels.movement.copies import pattern
from npu_tensor.kernels.offer import HostOperand, Offer, Target, padded_shape
from npu_tensor.ops.contraction import rope_rates
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import joined
from npu_tensor.task import Refusal, Task

OBJECT_ELEMENTS: Final = 4096
"""Elements of one object: 8 KiB as bfloat16 and 16 KiB as float32. A core holds two objects of each."""
LONGEST_ROW: Final = 1024
"""Upper bound on the features of a row. Their tables, rates and factors take another 12 KiB of a core."""
SMALL: Final = 16
"""Ratio of the segments in large and in small objects."""
OBJECT_SEGMENTS: Final = 1
"""Overhead of acquiring and releasing objects, in segments that a core could rotate in that time."""
MOST_SEGMENTS: Final = 256
"""Upper bound on the segments of one object: the positions of a round take 4 KiB, twice."""
TABLE_LANES: Final = 32
"""Granularity of rates and tables, which are padded to it as nt/rope.hpp expects."""

PROGRAM_BYTES: Final = 8192
"""Estimated bytes of the machine code, most of it sine and cosine."""


class RopePlan(NamedTuple):
    """Division of the rows.

    Attributes:
        features: Features of a row.
        heads: Heads of one segment.
        segments: Segments of one object, which a core processes at a time.
        cores: Cores of a column.
        output: Dtype of the result.
        rounds: Objects for all cores of a column, divided among the columns. The configuration does not depend on it.
    """

    features: int
    heads: int
    segments: int
    cores: int
    output: str
    rounds: int = 0

    @property
    def elements(self) -> int:
        """Elements of one object."""
        return self.segments * self.heads * self.features

    @property
    def places(self) -> int:
        """Positions of one round."""
        return self.cores * self.segments


class Angles(NamedTuple):
    """Rotation angles.

    Attributes:
        turns: Turns of each pair for one position.
        magnitude: Factor of all results.
        n_dims: Features that are rotated.
        neighbours: True if neighbouring features form pairs, False if the two halves do.
        divided: True if a tensor of factors divides the turns.
    """

    turns: tuple[float, ...]
    magnitude: float
    n_dims: int
    neighbours: bool
    divided: bool

    @property
    def pairs(self) -> int:
        """Entries of a core's tables."""
        return -(-len(self.turns) // TABLE_LANES) * TABLE_LANES

    def whole_turns(self) -> bytes:
        """Return the fractional turns in units of 2^-32."""
        steps = np.zeros(self.pairs, np.uint64)
        steps[: len(self.turns)] = np.rint(np.array(self.turns) % 1 * 2**32)
        return steps.astype(np.uint32).tobytes()

    def floats(self) -> bytes:
        """Return the turns as float32."""
        turns = np.zeros(self.pairs, np.float32)
        turns[: len(self.turns)] = self.turns
        return turns.tobytes()


class RotationTable(NamedTuple):
    """Order of a single position in a host buffer: a row per factor of a head's features, all of which are rotated.

    The result is x times the first two rows plus the other number of each pair times the last two. Each factor is the
    sum of two bfloat16 numbers.

    Attributes:
        angles: Rotation angles.
        offset: Place of the position in the tensor's own buffer.
    """

    angles: Angles
    offset: int

    def write(self, elements: np.ndarray[Any, Any], memory: np.ndarray[Any, Any]) -> None:
        """Fill the host buffer (bytes) from the flat buffer of positions."""
        turns, magnitude, features, neighbours, _ = self.angles
        angle = 2 * np.pi * (np.array(turns) * float(elements[self.offset]) % 1)
        cosine, sine = magnitude * np.cos(angle), magnitude * np.sin(angle)
        pairs = np.stack([[cosine, cosine], [-sine, sine]]).astype(np.float32)
        factors = (pairs.transpose(0, 2, 1) if neighbours else pairs).reshape(2, 1, features)
        high = factors.astype(ml_dtypes.bfloat16)
        table = np.concatenate([high, (factors - high.astype(np.float32)).astype(ml_dtypes.bfloat16)], axis=1)
        memory[: table.nbytes] = table.reshape(-1).view(np.uint8)


def claim(task: Task, target: Target) -> Offer | Refusal:
    """Return an offer for `rotate` on bfloat16, and on float16 and float32 if they may be rounded to bfloat16."""
    x, positions, *factors = task.tensors
    if (refusal := rounding_refusal("rope", x.dtype, target)) is not None:
        return refusal
    *lead, tokens, heads, features = x.layout.shape
    if features > LONGEST_ROW:
        return Refusal(f"rope: rows of {features} features, more than {LONGEST_ROW}")
    angles = angles_of(task.attributes, bool(factors))
    if angles is None:
        return Refusal("rope: the parameters do not give finite angles")
    cores = target.array.core_rows * target.columns
    together = _heads(heads, features)
    if together is None:
        return Refusal(f"rope: {heads} heads of {features} features do not end on words of 4 bytes")
    # One position for each segment, with steps of 0 along dimensions that share it.
    places = joined(
        Layout((math.prod(lead), tokens, heads // together), (0, *positions.layout.strides, 0), positions.layout.offset)
    )
    rows, segments = joined(x.layout), math.prod(places.shape)
    output = "float32" if x.dtype is float32 else "bfloat16"
    plan = _plan(segments, together, features, target, output)
    size = plan.rounds * plan.cores * plan.elements
    # The last object of positions extends beyond them if factors made it longer.
    reach = (plan.rounds - 1) * plan.places + _place_words(plan, angles)
    operands = [
        HostOperand(0, False, rows, padded_shape(rows.shape, size), "bfloat16", None),
        HostOperand(1, False, places, padded_shape(places.shape, reach), "int32"),
    ]
    if factors:
        _, steps, offset = factors[0].layout
        used = Layout((len(angles.turns),), steps, offset)
        operands.append(HostOperand(2, False, used, (_place_words(plan, angles),), "float32", 1))
    result = Layout((math.prod(x.layout.shape),), (1,), task.outputs[0].layout.offset)
    operands.append(HostOperand(0, True, result, (size,), plan.output))
    sizes = [math.prod(operand.padded) for operand in operands]
    reason = f"objects of {plan.segments * together} rows of {features}, on {cores} cores"
    return Offer("rope", reason, lambda: _design(task.name, target, plan, angles, sizes), tuple(operands))


def angles_of(attributes: dict[str, Any], divided: bool) -> Angles | None:
    """Compute the angles from the attributes of `rotate`; return None if any is infinite or NaN."""
    try:
        with np.errstate(all="ignore"):
            rates, magnitude = rope_rates(**{name: value for name, value in attributes.items() if name != "mode"})
    except ZeroDivisionError:
        return None
    if not (np.isfinite(rates).all() and math.isfinite(magnitude)):
        return None
    turns = tuple((rates / (2 * np.pi)).tolist())
    return Angles(turns, float(magnitude), attributes["n_dims"], attributes["mode"] == "normal", divided)


def _heads(heads: int, features: int) -> int | None:
    """Return the heads of a segment: as few as end on a word of bfloat16 numbers."""
    fitting = (together for together in range(1, heads + 1) if heads % together == 0 and together * features % 2 == 0)
    return next((together for together in fitting if together * features <= OBJECT_ELEMENTS), None)


def _plan(segments: int, heads: int, features: int, target: Target, output: str) -> RopePlan:
    """Choose large objects, or small ones if large ones would be padding. Every column has at least one."""
    cores, most = target.array.core_rows, min(OBJECT_ELEMENTS // (heads * features), MOST_SEGMENTS)

    def plan(number: int) -> RopePlan:
        rounds = max(target.columns, -(-segments // (cores * number)))
        return RopePlan(features, heads, number, cores, output, rounds)

    def passing(plan: RopePlan) -> int:
        """Count the segments that pass through a core, plus the overhead of changing objects."""
        return -(-plan.rounds // target.columns) * (plan.segments + OBJECT_SEGMENTS)

    return min(map(plan, (most, max(1, most // SMALL))), key=passing)


def _place_words(plan: RopePlan, angles: Angles) -> int:
    """Return the words of an object with positions. Factors use the same objects and come first in every run."""
    return max(plan.places, angles.pairs) if angles.divided else plan.places


def _design(name: str, target: Target, plan: RopePlan, angles: Angles, sizes: list[int]) -> Design:
    columns = target.columns
    configuration = _configuration(name, target.array.arch, columns, plan._replace(rounds=0), angles)
    sequence = SequenceBuilder(configuration)
    x = sequence.host_buffer("x", "bfloat16", sizes[0])
    places = sequence.host_buffer("positions", "int32", sizes[1])
    factors = sequence.host_buffer("factors", "float32", sizes[2]) if angles.divided else None
    y = sequence.host_buffer("y", plan.output, sizes[-1])
    words, elements = _place_words(plan, angles), plan.cores * plan.elements
    firsts = [plan.rounds * column // columns for column in range(columns + 1)]
    for column, first in enumerate(firsts[:-1]):
        rounds = firsts[column + 1] - first
        rows, positions, results = (configuration.fifo(f"{fifo}_{column}") for fifo in ("x", "positions", "y"))
        if factors is not None:
            sequence.fill(positions, factors, AccessPattern.linear(words))
        objects = pattern(first * plan.places, [(rounds, plan.places), (words, 1)], 1)
        assert objects is not None
        share = AccessPattern.linear(rounds * elements, first * elements)
        sequence.fill(positions, places, objects)
        sequence.fill(rows, x, share)
        sequence.drain(results, y, share)
    for parameter in configuration.parameters:
        column = parameter.tile.column
        sequence.write(parameter, [firsts[column + 1] - firsts[column]])
    return sequence.build()


@lru_cache(maxsize=64)
def _configuration(name: str, arch: Arch, columns: int, plan: RopePlan, angles: Angles) -> Configuration:
    """Return the configuration that serves any number of rounds."""
    builder = Builder(name, arch, columns, arguments=4 if angles.divided else 3)
    rotate, divide = _functions(builder, plan, angles, arch)
    place_type, (turns, table) = ObjectType("int32", (_place_words(plan, angles),)), _core_types(angles)
    constants = plan.segments, plan.heads, plan.features, angles.n_dims, angles.pairs, angles.magnitude

    def body(
        x: Any, positions: Any, y: Any, table: Any, turns: Any, first: int, rates: Any = None, words: Any = None
    ) -> None:
        if divide:
            divide(positions.acquire(1), rates, turns, angles.pairs)
            positions.release(1)
        # Without factors, the body consists of a single round.
        for _ in range_(words[0]) if divide else [0]:
            rotate(x.acquire(1), positions.acquire(1), y.acquire(1), turns, table, first, *constants)
            for end in (x, positions, y):
                end.release(1)

    for column in range(columns):
        cores = core_tiles(column, plan.cores)
        rows = scatter(builder, "x", ObjectType("bfloat16", (plan.elements,)), cores)
        results = gather(builder, "y", ObjectType(plan.output, (plan.elements,)), cores)
        # A memtile has too few channels to split the positions too, so every core receives all of its column.
        positions = builder.fifo(f"positions_{column}", place_type, Tile(column, 0), cores)
        for row, (tile, source, result) in enumerate(zip(cores, rows.cores, results.cores, strict=True)):
            suffix = f"{tile.column}_{tile.row}"
            arguments: list[Any] = [
                builder.core_buffer(f"table_{suffix}", tile, table),
                builder.core_buffer(f"turns_{suffix}", tile, turns, None if divide else angles.whole_turns()),
                row * plan.segments,
            ]
            if divide:
                rates = ObjectType("float32", turns.shape)
                arguments.append(builder.core_buffer(f"rates_{suffix}", tile, rates, angles.floats()))
                arguments.append(builder.parameter(f"rounds_{suffix}", tile, 1))
            builder.worker(tile, body, [source, positions, result, *arguments])
    return builder.configuration


def _core_types(angles: Angles) -> tuple[ObjectType, ObjectType]:
    """Return the types of a core's turns and of its table of cosines and sines."""
    return ObjectType("int32", (angles.pairs,)), ObjectType("bfloat16", (4 * angles.pairs,))


def _functions(
    builder: Builder, plan: RopePlan, angles: Angles, arch: Arch
) -> tuple[KernelFunction, KernelFunction | None]:
    """Return the function that rotates the segments of an object, and the one that divides turns by factors, if any."""
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
    places, (turns, table) = ObjectType("int32", (_place_words(plan, angles),)), _core_types(angles)
    turn = function("rope neighbours" if angles.neighbours else "rope halves", arch)
    turning = turn.loop(-(-angles.n_dims // 64)) + -(-(plan.features - angles.n_dims) // 16) * turn.store
    table_rounds = angles.pairs // 16
    filling = function("rope_table", arch).loop(table_rounds)
    x, y = (ObjectType(dtype, (plan.elements,)) for dtype in ("bfloat16", plan.output))
    cycles = plan.segments * (SCALAR_STEP + filling + plan.heads * turning)
    arguments: list[ObjectType | str] = [x, places, y, turns, table, *["int32"] * 6, "float32"]
    rotate = builder.function("nt_rope", arguments, source, cycles, PROGRAM_BYTES)
    if not angles.divided:
        return rotate, None
    rates = ObjectType("float32", turns.shape)
    dividing = function("rope_divide", arch).loop(table_rounds)
    return rotate, builder.function("nt_rope_divide", [places, rates, turns, "int32"], source, dividing)
