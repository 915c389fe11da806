"""The data ops that are compiled: loops over elements that run one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor._util.cache_sizes import PROGRAMS
from npu_tensor.dtypes import float32, float64, int64
from npu_tensor.ops.contraction import rope_rates
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Program, ProgramBuilder, as_parameter
from npu_tensor.ops.random_numbers import normal_numbers, uniform_numbers
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Output, Refusal, Task, TensorInput


class Composed(NamedTuple):
    """Consecutive map tasks, with the item numbers and values of their additional inputs."""

    tasks: tuple[Task, ...]
    constants: Mapping[int, np.ndarray[Any, Any]]


# Converted from int64 once, as the reference does.
_SEQUENCES: Final = frozenset({"int32", "int64", "float32"})


def _sequence(task: Task) -> Composed | Refusal:
    """Return the tasks of `arange_from` on integers."""
    (output,) = task.outputs
    assert task.call is not None
    if output.dtype.name not in _SEQUENCES or any(number is not int for number in task.call.operands):
        return Refusal("compiled for integers as int32, int64 and float32 only")
    builder = ProgramBuilder()
    start, step = (builder.scalar(slot, "int64") for slot in range(2))
    position: Any = builder.emit("index")
    program = builder.program([(start + position * step).astype(output.dtype.register)])
    return Composed((task._replace(kind="map", program=program),), {})


def _rotation(task: Task) -> Composed | Refusal:
    """Return the tasks of `rotate` on (..., tokens, heads, features) in float32.

    A table has the cosine and the sine of one pair of one token, which all heads share. A pair of features (a, b)
    becomes (a cos - b sin, b cos + a sin): both are a feature times cos plus its partner times sin, with a sign.

    Angles, less whole turns, are exact to 5e-7 radians for positions below 2^31.
    """
    x, positions, *factors = task.tensors
    (output,) = task.outputs
    if x.dtype is float64:
        return Refusal("compiled for floats of up to 32 bits")
    attributes = task.attributes
    size, neox = attributes["n_dims"], attributes["mode"] == "neox"
    # Distance of the features of a pair, and of two pairs.
    partner, following = (size // 2, 1) if neox else (1, 2)
    numbers = 1 + max([source.item for source in task.inputs] + [output.item])
    rates_item, signs_item, cosines_item, sines_item = range(numbers, numbers + 4)
    rates, magnitude = rope_rates(**{name: attributes[name] for name in _RATES})
    *lead, tokens, heads, features = task.shape
    table = (tokens, size // 2)
    table_bytes = math.prod(table) * float32.itemsize
    cosines, sines = (
        Output(item, float32, Layout(table, contiguous_strides(table)), table_bytes)
        for item in (cosines_item, sines_item)
    )
    angles = _map_task(
        task,
        table,
        [
            _over(positions, table, (0, None)),
            TensorInput(rates_item, float64, Layout(table, (0, 1))),
            *(_over(source, table, (None, 0)) for source in factors),
        ],
        [cosines, sines],
        _table_program(positions.dtype.register, float(magnitude), bool(factors)),
    )

    pairs = (*lead, tokens, heads, 2, size // 2)
    *outer, step = x.layout.strides
    own = Layout(pairs, (*outer, partner * step, following * step), x.layout.offset)
    other = Layout(pairs, (*outer, -partner * step, following * step), x.layout.offset + partner * step)
    by_token = Layout(pairs, (*(0 for _ in lead), size // 2, 0, 0, 1))
    by_side = Layout(pairs, (*(0 for _ in lead), 0, 0, 1, 0))
    *outer, step = output.layout.strides
    turned = output._replace(layout=Layout(pairs, (*outer, partner * step, following * step), output.layout.offset))
    products = _map_task(
        task,
        pairs,
        [
            x._replace(layout=own),
            x._replace(layout=other),
            TensorInput(cosines_item, float32, by_token),
            TensorInput(sines_item, float32, by_token),
            TensorInput(signs_item, float32, by_side),
        ],
        [turned],
        _PRODUCTS,
    )
    tasks = [angles, products]
    if size < features:
        shape = (*lead, tokens, heads, features - size)
        rest = [Layout(shape, y.strides, y.offset + size * y.strides[-1]) for y in (x.layout, output.layout)]
        copied = output._replace(layout=rest[1], donor=output.item)
        tasks.append(_map_task(task, shape, [x._replace(layout=rest[0])], [copied], _COPY))
    return Composed(tuple(tasks), {rates_item: rates, signs_item: np.array([-1, 1], np.float32)})


_RATES = ("n_dims", "base", "scale", "n_ctx_orig", "ext_factor", "attn_factor", "beta_fast", "beta_slow")


def _map_task(
    task: Task, shape: tuple[int, ...], inputs: list[TensorInput], outputs: list[Output], program: Program
) -> Task:
    return Task("map", task.items, task.ops, tuple(inputs), tuple(outputs), shape, program=program)


def _over(source: TensorInput, shape: tuple[int, ...], axes: tuple[int | None, ...]) -> TensorInput:
    """Return the operand over another shape; `axes` has its dimension for each axis, None to repeat it."""
    strides = tuple(0 if axis is None else source.layout.strides[axis] for axis in axes)
    return source._replace(layout=Layout(shape, strides, source.layout.offset))


@lru_cache(maxsize=PROGRAMS)
def _table_program(positions: str, magnitude: float, with_factors: bool) -> Program:
    """Return the program of a rotation table with slots for positions, radians per position and their divisors.

    Angles are reduced to half a turn in float64, because float32 has only 24 bits for the many turns of a far position.
    Cached, because all layers of a model have the same rotation and recording it is slow.
    """
    builder = ProgramBuilder()
    position: Any = builder.load(0, positions).astype("float64")
    angle = position * builder.load(1, "float64")
    if with_factors:
        angle = angle / builder.load(2, "float32").astype("float64")
    turns = angle * (0.5 / math.pi)
    reduced = ((turns - np.rint(turns)) * (2 * math.pi)).astype("float32")
    return builder.program([np.cos(reduced) * magnitude, np.sin(reduced) * magnitude])


def _program(slots: int, formula: Callable[..., Any]) -> Program:
    builder = ProgramBuilder()
    return builder.program([formula(*(builder.load(slot, "float32") for slot in range(slots)))])


# A feature, its partner, cosine, sine, and the sign of the sine.
_PRODUCTS: Final = _program(5, lambda own, other, cosine, sine, sign: own * cosine + other * (sign * sine))
_COPY: Final = _program(1, lambda x: x)


def _padding(task: Task) -> Composed | Refusal:
    """Return the tasks of `pad_widths`: copy the operand, and fill the space around it or copy parts of it there."""
    (source,), (output,) = task.tensors, task.outputs
    widths, mode = task.attributes["widths"], task.attributes["mode"]
    if mode != "constant" and any(width < 0 for each in widths for width in each):
        return Refusal("compiled for constants only if widths are negative")
    shape = tuple(n + min(b, 0) + min(a, 0) for n, (b, a) in zip(source.layout.shape, widths, strict=True))
    part, place = (
        Layout(shape, strides, offset + sum(max(sign * b, 0) * s for s, (b, _) in zip(strides, widths, strict=True)))
        for (_, strides, offset), sign in ((source.layout, -1), (output.layout, 1))
    )
    builder = ProgramBuilder()
    copy = builder.program([builder.load(0, output.dtype.register)])
    source = source._replace(layout=part)
    if mode != "constant":
        copied = _map_task(task, shape, [source], [output._replace(layout=place)], copy)
        return Composed((copied, *_copied_edges(task, place, copy)), {})
    builder = ProgramBuilder()
    fill = builder.program([builder.constant(as_parameter(task.attributes["value"]), output.dtype.register)])
    copied = _map_task(task, shape, [source], [output._replace(layout=place, donor=output.item)], copy)
    return Composed((_map_task(task, task.shape, [], [output], fill), copied), {})


def _copied_edges(task: Task, center: Layout, copy: Program) -> Iterator[Task]:
    """Return the tasks that copy elements of a padded tensor to its edges, the last dimension first.

    Each copy of a dimension includes the edges of those after it.
    """
    (output,) = task.outputs
    step = {"reflect": -1, "replicate": 0, "circular": 1}[task.attributes["mode"]]
    shape, strides, offset = center
    for axis in reversed(range(len(shape))):
        (before, after), extent, stride = task.attributes["widths"][axis], shape[axis], strides[axis]
        # First elements to write and to read, relative to the first element that is not padding.
        starts = (
            (-before, {-1: before, 0: 0, 1: extent - before}[step]),
            (extent, {-1: extent - 2, 0: extent - 1, 1: 0}[step]),
        )
        for width, (first, read) in zip((before, after), starts, strict=True):
            if width:
                extents = (*shape[:axis], width, *shape[axis + 1 :])
                read_strides = (*strides[:axis], step * stride, *strides[axis + 1 :])
                edge = TensorInput(output.item, output.dtype, Layout(extents, read_strides, offset + read * stride))
                written = output._replace(layout=Layout(extents, strides, offset + first * stride), donor=output.item)
                yield _map_task(task, extents, [edge], [written], copy)
        shape, offset = (*shape[:axis], task.shape[axis], *shape[axis + 1 :]), offset - before * stride


def _triangle(task: Task) -> Composed | Refusal:
    """Return the task of `tril` or `triu`: a choice by the numbers of row and column."""
    (source,), (output,) = task.tensors, task.outputs
    register, (*lead, rows, columns) = output.dtype.register, task.shape
    if register == "bool":
        return Refusal("compiled for numbers only")
    program = _triangle_program(task.ops[0] == "tril", register)
    item = 1 + max(source.item, output.item)
    # Rows are counted from the first element of the diagonal.
    numbers = {item: np.arange(rows) + task.attributes["diagonal"], item + 1: np.arange(columns)}
    zeros = (0,) * len(lead)
    row, column = (
        TensorInput(place, int64, Layout(task.shape, (*zeros, *steps)))
        for place, steps in zip(numbers, ((1, 0), (0, 1)), strict=True)
    )
    return Composed((_map_task(task, task.shape, [source, row, column], [output], program),), numbers)


@lru_cache(maxsize=PROGRAMS)
def _triangle_program(lower: bool, register: str) -> Program:
    builder = ProgramBuilder()
    x: Any = builder.load(0, register)
    row: Any = builder.load(1, "int64")
    column: Any = builder.load(2, "int64")
    kept = column <= row if lower else column >= row
    kept_or_zero: Any = np.where(kept, x, 0)
    return builder.program([kept_or_zero])


def _draw(numbers: Callable[..., Any], task: Task) -> Composed:
    """Return the task of `random_uniform` or `random_normal`: a function of the seed and the position."""
    (output,) = task.outputs
    return Composed((task._replace(kind="map", program=_draw_program(numbers, output.dtype.name)),), {})


@lru_cache(maxsize=PROGRAMS)
def _draw_program(numbers: Callable[..., Any], dtype: str) -> Program:
    builder = ProgramBuilder()
    return builder.program([numbers(builder.scalar(0, "int64"), builder.emit("index"), dtype)])


COMPOSED: Final[Mapping[str, Callable[[Task], Composed | Refusal]]] = MappingProxyType(
    {
        "arange_from": _sequence,
        "pad_widths": _padding,
        "random_normal": partial(_draw, normal_numbers),
        "random_uniform": partial(_draw, uniform_numbers),
        "rotate": _rotation,
        "tril": _triangle,
        "triu": _triangle,
    }
)
"""By the name of the op."""

COMPILED: Final = frozenset(
    (
        "adaptive_pool",
        "arange_from",
        "attention",
        "attention_backward",
        "concat",
        "conv_transpose_1d",
        "conv_transpose_2d",
        "conv_transpose_3d",
        "conv_weight_gradient",
        "cumprod",
        "cumsum",
        "dequantize",
        "gather_along",
        "gru",
        "gru_backward",
        "linear_quantized",
        "lstm",
        "lstm_backward",
        "max_pool_backward",
        "max_pool_positions",
        "pad_widths",
        "pool_1d",
        "pool_2d",
        "pool_3d",
        "put",
        "random_normal",
        "random_uniform",
        "resample_backward",
        "rnn",
        "rnn_backward",
        "rotate",
        "running_extreme",
        "samples_at",
        "samples_at_backward_0",
        "samples_at_backward_1",
        "scatter_along",
        "search_places",
        "take",
        "take_points",
        "top_indices",
        "tril",
        "triu",
        "upscale",
        "write_strided",
    )
)
"""Data ops with a kernel, the names in `cpu_device.KERNELS`, for those who must not load a compiler."""
