"""Gradients of the weights of depthwise convolutions, on channels-last images that are read in place.

Each element of a weight is a sum over all positions. Chunks of rows of positions have sums of their own, which a second
loop adds. Within a row, the sums of some channels and neighbouring elements of the kernel stay in registers. Positions
that meet the padding are left out: each element of the kernel has its own range of positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from npu_tensor.dtypes import as_dtype
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import ProgramBuilder
from npu_tensor.runtime.cpu.bind_loop import bind_loop
from npu_tensor.runtime.cpu.bound_loops import BoundLoops
from npu_tensor.runtime.cpu.ir_emitter import META, Emitter
from npu_tensor.runtime.cpu.loop_parts import LoopParts, place_of
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import Value
from npu_tensor.runtime.cpu.windows import places_met, strided_offsets, window_offsets
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Task, TensorInput

_TAPS: Final = {16: {3: 4, 2: 6, 1: 8}, 32: {3: 8, 2: 8, 1: 8}}
"""Elements of the kernel whose sums stay in registers, by the vector registers and the vectors of channels."""

_MOST_CHUNKS: Final = 128
"""Upper bound on chunks: threads up to 24 get equal shares, and the order of additions is that of one thread."""

_POSITIONS_PER_TAP: Final = 16
"""Least positions of a chunk for each element of the kernel, so that the sums are much smaller than the image."""

_PART_CHANNELS: Final = 48
"""Channels of an item. Fewer would be short runs of memory."""

_META: Final = (
    *("rows", "all_rows", "chunk_rows", "parts", "part_blocks", "blocks", "last_channel", "row_taps", "columns"),
    *("groups", "inside", "inside_end", "x_image", "x_step", "g_image", "g_step"),
)
"""Leading numbers of the meta array. Tables follow: for each element of a row of the kernel its distance in the image,
its first position and the end of its positions; the place in the gradient of each row of positions; the place in the
image of each row and element of the kernel in the other dimensions, -1 outside. Distances are in bytes.

Rows are all dimensions of the positions of an image but the last one. `columns` are the elements of a row of the
kernel, `groups` the tiles of such a row. All of its elements meet the image from position `inside` to `inside_end`.
"""


class _Spec(NamedTuple):
    """Parameters of the kernel: type of the elements, vectors of channels, and elements of the kernel of a tile."""

    element: str
    lanes: int
    vectors: int
    taps: int


def _module(spec: _Spec, target: CpuTarget) -> str:
    """Return the module of a kernel that sums products over chunks of positions.

    An item is a chunk and a part of the channels.

    pointers  [sums, image, gradient]
    meta      see `_META`
    """
    e, (element, lanes, vectors, taps) = Emitter(target), spec
    type_, size = f"<{lanes} x {element}>", 4 if element == "float" else 8
    width = lanes * vectors * size
    sums, image, gradient = e.addresses(3)
    meta = e.named_numbers(_META)
    tap_table = e.byte_offset(META, 8 * len(_META))
    g_table = e.byte_offset(tap_table, e.mul(meta["columns"], 24))
    x_table = e.byte_offset(g_table, e.mul(meta["rows"], 8))
    block_bytes = e.mul(e.mul(meta["row_taps"], meta["columns"]), width)

    def entry(table: Value, number: Value, index: int = 0) -> Value:
        return e.load_value("i64", e.byte_offset(table, e.mul(number, 8)), index)

    def loaded(pointer: Value) -> list[Value]:
        return [e.load_value(type_, pointer, j, align=size) for j in range(vectors)]

    def stored(values: Sequence[Value], pointer: Value) -> None:
        for j, value in enumerate(values):
            e.store_value(value, e.byte_offset(pointer, j * lanes * size), align=size)

    def add(begin: Value, end: Value, x: Sequence[Value], g: Value, totals: Sequence[Value]) -> list[Value]:
        """Emit the products of some elements of the kernel with a range of positions."""

        def add_position(_: Value, carried: list[Value]) -> list[Value]:
            x_offset, g_offset, *totals = carried
            factors = loaded(e.byte_offset(g, g_offset))
            values = [value for each in x for value in loaded(e.byte_offset(each, x_offset))]
            totals = [e.fma(a, b, total) for a, b, total in zip(values, factors * len(x), totals, strict=True)]
            return [e.add(x_offset, meta["x_step"]), e.add(g_offset, meta["g_step"]), *totals]

        offsets = [e.mul(begin, meta[name]) for name in ("x_step", "g_step")]
        return e.loop(begin, end, 1, [*offsets, *totals], add_position)[2:]

    def add_group(group: Value, x: Value, g: Value, s: Value) -> None:
        numbers = e.up_to(e.mul(group, taps), taps, meta["columns"])
        entries = [e.byte_offset(tap_table, e.mul(number, 24)) for number in numbers]
        places = [e.byte_offset(s, e.mul(number, width)) for number in numbers]
        xs = [e.byte_offset(x, e.load_value("i64", each)) for each in entries]
        totals = [loaded(place) for place in places]
        for tap, each in enumerate(entries):
            first, end = (e.load_value("i64", each, index) for index in (1, 2))
            totals[tap] = add(first, e.smaller(end, meta["inside"]), [xs[tap]], g, totals[tap])
            totals[tap] = add(meta["inside_end"], end, [xs[tap]], g, totals[tap])
        flat = add(meta["inside"], meta["inside_end"], xs, g, [value for total in totals for value in total])
        for tap, place in enumerate(places):
            stored(flat[tap * vectors : (tap + 1) * vectors], place)

    def compute_item(item: Value, _: list[Value]) -> None:
        chunk, part = e.op("udiv", item, meta["parts"]), e.op("urem", item, meta["parts"])
        first_row, first = e.mul(chunk, meta["chunk_rows"]), e.mul(part, meta["part_blocks"])
        end_row = e.smaller(e.add(first_row, meta["chunk_rows"]), meta["all_rows"])
        end = e.smaller(e.add(first, meta["part_blocks"]), meta["blocks"])
        own = e.byte_offset(sums, e.mul(e.mul(chunk, meta["blocks"]), block_bytes))
        zeros = [Value("zeroinitializer", type_)] * vectors
        begin, stop = e.mul(first, block_bytes), e.mul(end, block_bytes)
        e.loop(begin, stop, width, (), lambda offset, _: stored(zeros, e.byte_offset(own, offset)))

        def add_row(row: Value, _: list[Value]) -> None:
            number, within = e.op("udiv", row, meta["rows"]), e.op("urem", row, meta["rows"])
            from_g = e.byte_offset(gradient, e.add(e.mul(number, meta["g_image"]), entry(g_table, within)))
            from_x = e.byte_offset(image, e.mul(number, meta["x_image"]))
            x_entries = e.byte_offset(x_table, e.mul(e.mul(within, meta["row_taps"]), 8))

            def add_block(block: Value, _: list[Value]) -> None:
                channel = e.smaller(e.mul(block, width), meta["last_channel"])
                x, g = e.byte_offset(from_x, channel), e.byte_offset(from_g, channel)
                s = e.byte_offset(own, e.mul(block, block_bytes))

                def add_row_of_kernel(tap: Value, _: list[Value]) -> None:
                    offset = entry(x_entries, tap)
                    line, to = e.byte_offset(x, offset), e.byte_offset(s, e.mul(e.mul(tap, meta["columns"]), width))
                    groups = e.select(e.compare("sge", offset, 0), meta["groups"], 0)
                    e.loop(0, groups, 1, (), lambda group, _: add_group(group, line, g, to))

                e.loop(0, meta["row_taps"], 1, (), add_row_of_kernel)

            e.loop(first, end, 1, (), add_block)

        e.loop(first_row, end_row, 1, (), add_row)

    return e.kernel_of_items(compute_item)


def _spec(dtype: str, channels: int, columns: int, target: CpuTarget) -> _Spec:
    """Return the tile with the fewest loads."""
    size, most = (8, target.lanes // 2) if dtype == "float64" else (4, target.lanes)
    lanes = min(1 << (channels.bit_length() - 1), max(1, most))
    whole = -(-channels // lanes)

    def loads(tile: tuple[int, int]) -> int:
        vectors, taps = tile
        groups = -(-columns // taps)
        return -(-whole // vectors) * vectors * groups * (1 + -(-columns // groups))

    tiles = [tile for tile in _TAPS[target.vector_registers].items() if tile[0] <= channels // lanes]
    vectors, taps = min(tiles, key=loads)
    return _Spec("double" if size == 8 else "float", lanes, vectors, -(-columns // -(-columns // taps)))


def bind_depthwise_gradient(owner: Processor, task: Task) -> BoundLoops:
    """Bind the sums over chunks of positions, and the sum of these."""
    (output,), channels, kernel, parts = task.outputs, task.shape[0], task.shape[2:], LoopParts(owner, task)
    dtype = as_dtype("float64" if output.dtype.itemsize == 8 else "float32")
    size = dtype.itemsize
    image, gradient = (
        source
        if source.dtype is dtype and source.layout.strides[-1] == 1 and min(source.layout.strides) >= 0
        else parts.copy(source, dtype)
        for source in task.tensors
    )
    spec = _spec(dtype.name, channels, kernel[-1], owner.target)
    width = spec.lanes * spec.vectors
    images, *counts, _ = gradient.layout.shape
    *places, last = places_met(image.layout, counts, kernel, task.attributes)
    extent, distance, _, _, step, gap, start = last
    # Positions that each element of a row of the kernel meets inside the image.
    starts = np.arange(kernel[-1], dtype=np.int64) * gap + start
    firsts = np.clip(-(starts // step), 0, counts[-1])
    ends = np.maximum(firsts, np.clip(-((starts - extent) // step), 0, counts[-1]))
    inside = int(firsts.max())
    rows, taps, blocks = math.prod(counts[:-1]), math.prod(kernel), -(-channels // width)
    least = -(-_POSITIONS_PER_TAP * taps // counts[-1])
    chunk_rows = max(1, min(max(least, -(-images * rows // _MOST_CHUNKS)), images * rows))
    chunks, part_blocks = -(-images * rows // chunk_rows), -(-_PART_CHANNELS // width)
    channel_parts = -(-blocks // part_blocks)
    numbers = {
        "rows": rows,
        "all_rows": images * rows,
        "chunk_rows": chunk_rows,
        "parts": channel_parts,
        "part_blocks": part_blocks,
        "blocks": blocks,
        "last_channel": (channels - width) * size,
        "row_taps": taps // kernel[-1],
        "columns": kernel[-1],
        "groups": -(-kernel[-1] // spec.taps),
        "inside": inside,
        "inside_end": max(inside, int(ends.min())),
        "x_image": image.layout.strides[0] * size,
        "x_step": step * distance * size,
        "g_image": gradient.layout.strides[0] * size,
        "g_step": gradient.layout.strides[-2] * size,
    }
    g_rows = strided_offsets(Layout(tuple(counts[:-1]), gradient.layout.strides[1:-2]))
    x_rows = window_offsets(places)
    tables = [
        np.stack([starts * distance * size, firsts, ends], axis=1),
        g_rows * size,
        np.where(x_rows < 0, -1, x_rows * size),
    ]
    meta = np.concatenate([np.array([numbers[name] for name in _META]), *(table.ravel() for table in tables)])
    per_chunk = blocks * taps * width
    sums = parts.scratch(chunks * per_chunk * size)
    parts.loop(_module, spec, meta, chunks * channel_parts, 1, (sums, place_of(image), place_of(gradient)))
    parts.result(output)
    builder = ProgramBuilder()
    one = builder.load(0, dtype.name)
    program = builder.program([one if chunks == 1 else builder.emit("row_sum", [one])])
    # The last block may begin with channels of the one before.
    rest = channels % width
    for first, count, lanes in ((0, channels // width, width), (blocks - 1, 1, rest)):
        if not count * lanes:
            continue
        shape = (count, lanes, *kernel, chunks)
        strides = (taps * width, 1, *(each * width for each in contiguous_strides(kernel)), per_chunk)
        source = TensorInput(sums.item, dtype, Layout(shape, strides, first * taps * width + width - lanes))
        into = (width * taps, taps, *contiguous_strides(kernel), 0)
        layout = Layout(shape, into, output.layout.offset + first * width * taps)
        result = output._replace(layout=layout, donor=output.item)
        parts.add(bind_loop(owner, program, shape, int(chunks > 1), [source], [result]))
    return parts.joined()
