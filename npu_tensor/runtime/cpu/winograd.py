"""3x3 convolutions with 16 multiplications in place of 36, by Winograd's minimal filtering F(2x2, 3x3).

A 2x2 tile of the result is A^T [(G g G^T) * (B^T d B)] A, of a 4x4 tile d of the image and the kernel g; the tiles of d
overlap (Lavin and Gray, arXiv 1509.09308, section 4.1). Summed over channels, the element-wise products are 16 matrix
products. Three loops do the rest: one transforms all tiles of the image, one the results, with the epilogue, and one
the weights, once. Rounding errors are about twice those of direct sums. An infinite
pixel makes all results of its tiles NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache, partial
from operator import add
from typing import Any, Final, NamedTuple, TypeVar

from npu_tensor.dtypes import float32
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.expression import Program, ProgramBuilder
from npu_tensor.runtime.cpu.bind_loop import bind_loop
from npu_tensor.runtime.cpu.bound_loops import BoundLoop, BoundLoops, Location, Packed
from npu_tensor.runtime.cpu.gemm import Launch, LaunchedLoop, Matrix, Packing, Scattered
from npu_tensor.runtime.cpu.kernels import bind_move, bind_product, bind_zeros, first_byte, plain_product
from npu_tensor.runtime.cpu.loop_parts import LoopParts
from npu_tensor.runtime.cpu.pool import MAX_SLOTS
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.windows import Places, Windows
from npu_tensor.runtime.memory import Buffer
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Input, Output, Task, TensorInput

_LEAST_CHANNELS: Final = 48
_LEAST_TILES: Final = 16
"""Channels and tiles below which direct sums are faster, on a Zen 3."""

_MOST_TILES: Final = 1.5
"""Upper bound on the tiles by those that the result would fill, since tiles at odd edges are not full."""

_BAND_BYTES: Final = 2 << 20
"""Upper bound on the transformed elements of image and result of a band, per thread. Measured on a Zen 3: 1 MiB is up
to 1.1 times as slow, 8 MiB are up to 1.4 times as slow.
"""

_MOST_BANDS: Final = 16
"""Upper bound on the bands of an image, since each has loops of its own."""

_LINE: Final = 64 // float32.itemsize
"""Elements of a cache line."""

_PLACES: Final = [(i, j) for i in range(4) for j in range(4)]
_QUARTERS: Final = [(0, 0), (0, 1), (1, 0), (1, 1)]

_Tensor = TypeVar("_Tensor", TensorInput, Output)

Line = Sequence[Any]
"""Elements of a row or column of a tile: symbols, whose operators mypy does not know."""


def suits_winograd(task: Task) -> bool:
    """Return True if a channels-last convolution has the form and a size for which Winograd's way is faster."""
    (image, weight), rest = task.tensors[:2], task.inputs[2:]
    attributes, (outputs, channels, *kernel) = task.attributes, weight.layout.shape
    if kernel != [3, 3] or attributes["groups"] != 1 or {*attributes["stride"], *attributes["dilation"]} != {1}:
        return False
    batch, height, width, _ = task.shape
    return (
        image.dtype == weight.dtype == float32
        and min(channels, outputs) >= _LEAST_CHANNELS
        and _MOST_TILES * height * width >= 4 * _tiles(height) * _tiles(width)
        and batch * height * width // 4 >= _LEAST_TILES
        and len(_PLACES) + len(_QUARTERS) * (len(rest) + len(task.outputs)) <= MAX_SLOTS
    )


def bind_winograd(owner: Processor, task: Task) -> BoundLoops:
    """Bind a convolution of channels-last images for which `suits_winograd` is True."""
    (image, weight), rest = task.tensors[:2], task.inputs[2:]
    batch, height, width, outputs = task.shape
    parts = LoopParts(owner, task)
    if any(map(any, task.attributes["padding"])) or height % 2 or width % 2:
        image = _pad(parts, task, image)
    channels, transformed, product = image.layout.shape[-1], parts.new_item(), parts.new_item()
    to_tiles, to_results = _image_program(), cache(partial(_result_program, task.program, len(rest)))
    bound_products = cache(partial(_bind_products, owner, weight, transformed, product))
    most = 0
    for band in _bands((batch, _tiles(height), _tiles(width)), channels + outputs, owner.pool.threads):
        shape = (*band.tiles, channels)
        sources = [band.of(image, channels, place) for place in _PLACES]
        loops = [bind_loop(owner, to_tiles, shape, 0, sources, _planes(transformed, shape))]
        loops.append(bound_products(math.prod(band.tiles)))
        products = _planes(product, (*band.tiles, outputs))
        for part, quarters in band.parts(height, width):
            terms: list[Input] = [TensorInput(product, float32, part.within(band, plane.layout)) for plane in products]
            for quarter in quarters:
                terms += [each if each.layout is None else part.of(each, outputs, quarter) for each in rest]
            results = [part.of(output, outputs, quarter) for quarter in quarters for output in task.outputs]
            loops.append(bind_loop(owner, to_results(quarters), (*part.tiles, outputs), 0, terms, results))
        for loop in loops:
            parts.add(loop._replace(new=()))
        most = max(most, math.prod(band.tiles))
    sizes = ((transformed, channels), (product, outputs))
    parts.add(BoundLoops((), tuple([(number, _nbytes(most * width)) for number, width in sizes])))
    for output in task.outputs:
        parts.result(output)
    return parts.joined()


def _tiles(extent: int) -> int:
    """Return the number of tiles that cover an extent of the result."""
    return -(-extent // 2)


class _Band(NamedTuple):
    """Part of the tiles of all images.

    Attributes:
        first: Its first image, row and column of tiles.
        tiles: Images, rows and columns of tiles.
    """

    first: tuple[int, int, int]
    tiles: tuple[int, int, int]

    def parts(self, height: int, width: int) -> Iterator[tuple[_Band, tuple[tuple[int, int], ...]]]:
        """Divide the band into full tiles and those at odd edges of the result, with the quarters that exist."""
        (image, *first), (images, *tiles) = self
        rows, columns = (
            [(start, min(end, extent // 2), 2), (max(start, extent // 2), end, 1)]
            for start, end, extent in zip(first, map(add, first, tiles), (height, width), strict=True)
        )
        for top, bottom, high in rows:
            for left, right, wide in columns:
                if top < bottom and left < right:
                    part = _Band((image, top, left), (images, bottom - top, right - left))
                    yield part, tuple([quarter for quarter in _QUARTERS if quarter[0] < high and quarter[1] < wide])

    def within(self, band: _Band, layout: Layout) -> Layout:
        """Return the elements of this part in an array over the tiles of a band."""
        steps = zip(self.first, band.first, layout.strides[:3], strict=True)
        offset = layout.offset + sum((own - other) * stride for own, other, stride in steps)
        return Layout((*self.tiles, *layout.shape[3:]), layout.strides, offset)

    def of(self, tensor: _Tensor, channels: int, place: tuple[int, int]) -> _Tensor:
        """Return the elements of a tensor that are at one place of each tile."""
        batch, row, column, channel = tensor.layout.strides
        image, *corner = self.first
        top, left = (2 * start + step for start, step in zip(corner, place, strict=True))
        offset = tensor.layout.offset + image * batch + top * row + left * column
        layout = Layout((*self.tiles, channels), (batch, 2 * row, 2 * column, channel), offset)
        return tensor._replace(layout=layout)


def _bands(tiles: tuple[int, int, int], channels: int, threads: int) -> Iterator[_Band]:
    """Divide the tiles into whole images, or rows of tiles of one image, whose transformed elements fit into caches."""
    batch, rows, columns = tiles
    most = max(1, rows // _MOST_BANDS, threads * _BAND_BYTES // (len(_PLACES) * float32.itemsize * channels * columns))
    images, band = (most // rows, rows) if most >= rows else (1, -(-rows // -(-rows // most)))
    for image in range(0, batch, images):
        for row in range(0, rows, band):
            yield _Band((image, row, 0), (min(images, batch - image), min(band, rows - row), columns))


def _bind_products(owner: Processor, weight: TensorInput, transformed: int, product: int, count: int) -> BoundLoops:
    """Bind the 16 products of `count` tiles and the transformed weights."""
    outputs, channels, *_ = weight.layout.shape
    places = (Places(count, channels, count, 1, 1, 1, 0),)
    a = Windows("float32", (_plane_step(count * channels),), (0,), channels, places)
    planes = Layout((len(_PLACES),), (_plane_step(channels * outputs),))
    b = Scattered("float32", (planes,), Layout((channels,), (outputs,)), Layout((outputs,), (1,)))
    result = Matrix("float32", (_plane_step(count * outputs), outputs, 1))
    gemm = plain_product(owner, (count, outputs, channels), a, b, result, (len(_PLACES),))
    packing = _weight_packing(owner, weight, gemm.packings[0])
    packed = Packed(weight.item, first_byte(weight), packing)
    return bind_product(gemm, (Location(transformed), packed, Location(product)))


def _plane_step(size: int) -> int:
    """Return the distance between planes of `size` elements, an odd number of cache lines.

    L1 then holds a line of each plane. Distances that are multiples of 4 KiB would put all of them into one set.
    """
    return (-(-size // _LINE) | 1) * _LINE


def _nbytes(size: int) -> int:
    """Return the bytes of 16 planes of `size` elements."""
    return len(_PLACES) * _plane_step(size) * float32.itemsize


def _planes(item: int, shape: tuple[int, ...]) -> list[Output]:
    """Return 16 arrays of a shape, one after the other in the memory of an item."""
    step, strides = _plane_step(math.prod(shape)), contiguous_strides(shape)
    return [Output(item, float32, Layout(shape, strides, number * step), 0) for number in range(len(_PLACES))]


def _pad(parts: LoopParts, task: Task, image: TensorInput) -> TensorInput:
    """Copy an image into zeros, and return the larger image."""
    batch, height, width, _ = task.shape
    shape = (batch, 2 * _tiles(height) + 2, 2 * _tiles(width) + 2, image.layout.shape[-1])
    whole = Layout(shape, contiguous_strides(shape))
    result = Output(parts.new_item(), float32, whole, math.prod(shape) * float32.itemsize)
    paddings = zip(task.attributes["padding"], whole.strides[1:3], strict=True)
    offset = sum(before * stride for (before, _), stride in paddings)
    parts.add(bind_zeros(parts.owner, result))
    inner = result._replace(layout=Layout(image.layout.shape, whole.strides, offset), donor=result.item)
    parts.add(bind_move(parts.owner, image, inner))
    return TensorInput(result.item, float32, whole)


# --- transformations


def _both_ways(tile: Sequence[Line], transform: Callable[[Line], list[Any]]) -> list[Any]:
    """Transform the columns of a tile, then its rows. Return the elements row by row."""
    columns = [transform(column) for column in zip(*tile, strict=True)]
    return [element for row in zip(*columns, strict=True) for element in transform(row)]


def _of_image(d: Line) -> list[Any]:
    return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]


def _of_kernel(g: Line) -> list[Any]:
    ends, middle = (g[0] + g[2]) * 0.5, g[1] * 0.5
    return [g[0], ends + middle, ends - middle, g[2]]


def _of_result(m: Line) -> list[Any]:
    return [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]


def _loaded_tile(builder: ProgramBuilder, size: int) -> list[Line]:
    return [[builder.load(i * size + j, "float32") for j in range(size)] for i in range(size)]


def _image_program() -> Program:
    builder = ProgramBuilder()
    return builder.program(_both_ways(_loaded_tile(builder, 4), _of_image))


def _result_program(epilogue: Program, operands: int, quarters: Sequence[tuple[int, int]]) -> Program:
    """Return the program that transforms a tile of products, and applies the epilogue to some of the four results."""
    builder = ProgramBuilder()
    totals = dict(zip(_QUARTERS, _both_ways(_loaded_tile(builder, 4), _of_result), strict=True))
    results: list[Any] = []
    for number, quarter in enumerate(quarters):
        first = len(_PLACES) + number * operands - 1
        values: list[Any] = []
        for primitive, inputs, dtype, value in epilogue.instructions:
            if primitive == "load" and value == 0:
                values.append(totals[quarter])
            else:
                slot = first + value if primitive in ("load", "scalar") else value
                values.append(builder.emit(primitive, [values[number] for number in inputs], dtype, slot))
        results += [values[number] for number in epilogue.outputs]
    return builder.program(results)


class _WeightPacking(NamedTuple):
    """Packing of weights that are transformed before."""

    key: Hashable
    transform: BoundLoop
    nbytes: int
    packing: Packing
    keep: Any

    @property
    def loop(self) -> LaunchedLoop:
        return self.packing.loop

    def run(self, launch: Launch, allocate: Callable[[int], Buffer], sources: Sequence[int | float]) -> Buffer:
        transformed = allocate(self.nbytes)
        kernel, meta, n, grain, slots = self.transform
        results = [transformed.address] * len(_PLACES)
        launch(kernel, meta, n, grain, *results, *[sources[0]] * (len(slots) - len(results)))
        return self.packing.run(launch, allocate, [transformed.address])


def _weight_packing(owner: Processor, weight: TensorInput, packing: Packing) -> _WeightPacking:
    outputs, channels, *_ = weight.layout.shape
    per_output, per_channel, *steps = weight.layout.strides
    builder = ProgramBuilder()
    program = builder.program(_both_ways(_loaded_tile(builder, 3), _of_kernel))
    shape = (channels, outputs)
    sources = [
        weight._replace(layout=Layout(shape, (per_channel, per_output), i * steps[0] + j * steps[1]))
        for i in range(3)
        for j in range(3)
    ]
    loops = bind_loop(owner, program, shape, 0, sources, _planes(-1, shape))
    nbytes = _nbytes(math.prod(shape))
    return _WeightPacking(("winograd", packing.key, weight.layout.strides), loops.loops[0], nbytes, packing, loops.keep)
