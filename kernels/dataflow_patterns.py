"""Patterns of dataflow for core functions that users write: how tensors become objects of a core, and results leave it.

A pattern makes an `Offer` for any `CoreFunction`. All columns of the array work on consecutive parts of the tensors; a
column's memtile gives every core its own objects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from npu_tensor.dataflow.array import Arch, Array, Tile
from npu_tensor.dataflow.checks.limits import LIMITS, QUEUE_DEPTH
from npu_tensor.dataflow.columns import Step, core_tiles, cores_per_column, gather, issue, pipeline, scatter
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source, range_
from npu_tensor.dtypes import as_dtype
from npu_tensor.errors import ShapeError
from npu_tensor.kernels.gemm import folded, tiled
from npu_tensor.kernels.gemm.epilogue import Epilogue, Reads
from npu_tensor.kernels.gemm.tiling import SUMS, GemmProblem, OwnProduct, ranked
from npu_tensor.kernels.offer import HostOperand, Offer, Target
from npu_tensor.kernels.rowwise.row_layout import row_layout
from npu_tensor.ops.declare import Layout
from npu_tensor.task import Refusal, Task

Shape = tuple[int, ...]
ALIGNMENT: Final = 64
"""Multiple of the bytes of an object, so that vectors of any width are aligned."""
MOST_ELEMENTS: Final = 1 << 20
"""Most elements of one transfer: a shim DMA repeats runs of at most 1,024 elements 1,023 times, or nearly so."""

CORE_CHANNELS: Final = LIMITS["core"].channels
"""DMA channels of a core in each direction."""


class ObjectSizes(NamedTuple):
    """Elements of the operands' and of the result's object in memory, and of those that are data, not padding.

    steps: Scalar operations that an element of the result takes at least.
    """

    operands: tuple[int, ...]
    result: int
    data: int
    steps: int = 1


class CoreFunction(NamedTuple):
    """C++ of a core, and the way it is used.

    Attributes:
        name: Name of the function.
        source: Its C++.
        operands: Names and dtypes of the operands.
        result: Dtype of the results.
        results: Number of results, which are planes of one tensor if there are several.
        pointers: Pointers per operand: 1, or the rows of a window.
        numbers: Number of int32 parameters at the end, each of which gets the elements of an object.
        tile: Elements of an object for `map`.
        depth: Buffers of a stream; 1 makes a core wait for its transfers, 2 lets both overlap.
        columns: Most columns of the array that are used.
        cores: Most cores of a column that are used.
        cycles: Function that predicts the cycles of a call, or returns why there can be none.
    """

    name: str
    source: Source
    operands: tuple[tuple[str, str], ...]
    result: str
    results: int
    pointers: int
    numbers: int
    tile: int
    depth: int
    columns: int
    cores: int
    cycles: Callable[[CoreFunction, Arch, ObjectSizes], int | str]


class Pattern(NamedTuple):
    """A way to divide tensors among cores.

    Attributes:
        result_shape: Function from the operands' shapes to that of a result. Raises ShapeError.
        claim: Function from the core function, a task and a target to an offer.
        window: True if the core function takes pointers to an odd number of consecutive rows of one operand.
        results: Most results of the core function.
        trials: Shapes that `CustomKernel.test` tries; nothing for shapes around that of a tile.
        operand_shapes: Function from the shape of a trial to those of the operands; None if all are equal.
    """

    result_shape: Callable[[list[Shape]], Shape]
    claim: Callable[[CoreFunction, Task, Target], Offer | Refusal]
    window: bool = False
    results: int = 1
    trials: tuple[Shape, ...] = ((1, 1), (3, 17), (5, 64), (70, 1000))
    operand_shapes: Callable[[Shape], list[Shape]] | None = None


class CorePlan(NamedTuple):
    """Objects of a run.

    Attributes:
        sizes: Elements of the objects.
        columns: Columns.
        cores: Cores of a column.
        rounds: Objects of each core.
    """

    sizes: ObjectSizes
    columns: int
    cores: int
    rounds: int

    @property
    def objects(self) -> int:
        """Number of objects in a host buffer, with those that pad it."""
        return self.columns * self.cores * self.rounds


def _equal(shapes: list[Shape]) -> Shape:
    if not all(shape == shapes[0] for shape in shapes):
        raise ShapeError(f"operands must have equal shapes, not {', '.join(str(list(shape)) for shape in shapes)}")
    return shapes[0]


def _rows(shapes: list[Shape]) -> Shape:
    shape = _equal(shapes)
    if not shape:
        raise ShapeError("operands need a dimension for the elements of a row")
    return shape


def _without_last(shapes: list[Shape]) -> Shape:
    return _rows(shapes)[:-1]


def _claim_map(function: CoreFunction, task: Task, target: Target) -> Offer | Refusal:
    sizes = ObjectSizes((function.tile,) * len(function.operands), function.tile, function.tile)
    layout = task.tensors[0].layout
    return _offer(function, task, target, -(-math.prod(layout.shape) // function.tile), sizes)


def _claim_rows(function: CoreFunction, task: Task, target: Target, reduces: bool = False) -> Offer | Refusal:
    layout = task.tensors[0].layout
    width, rows = layout.shape[-1], math.prod(layout.shape[:-1])
    pitch = _pitch(function, width, reduces)
    sizes = ObjectSizes((pitch,) * len(function.operands), 1 if reduces else pitch, width)
    return _offer(function, task, target, rows, sizes)


def _pitch(function: CoreFunction, width: int, reduces: bool) -> int:
    """Return the elements of a padded row, so that all objects have a multiple of ALIGNMENT bytes."""
    itemsizes = [as_dtype(dtype).itemsize for _, dtype in function.operands]
    unit = ALIGNMENT // min(itemsizes if reduces else [*itemsizes, as_dtype(function.result).itemsize])
    return -(-width // unit) * unit


def _offer(function: CoreFunction, task: Task, target: Target, objects: int, sizes: ObjectSizes) -> Offer | Refusal:
    channels = _channels(function)
    if len(channels) > CORE_CHANNELS:
        types = ", ".join(dict.fromkeys(dtype for _, dtype in function.operands))
        return Refusal(
            f"{function.name}: {len(function.operands)} operands of {types}; a core has {CORE_CHANNELS} input "
            "channels, and operands that share one have the same type"
        )
    cores = min(cores_per_column(target.array, len(channels), function.results), function.cores)
    columns = min(target.columns, function.columns, -(-objects // cores))
    cores = min(cores, -(-objects // columns))
    plan = CorePlan(sizes, columns, cores, -(-objects // (columns * cores)))
    read = zip(task.tensors, function.operands, sizes.operands, strict=True)
    operands = [
        _host(index, False, tensor.layout, dtype, plan, size) for index, (tensor, (_, dtype), size) in enumerate(read)
    ]
    plane = output = task.outputs[0].layout
    if function.results > 1:
        plane = Layout(output.shape[1:], output.strides[1:], output.offset)
    result = _host(0, True, plane, function.result, plan, sizes.result)
    if function.results > 1:
        (shape, strides, offset), padded = result.layout, result.padded
        stacked = Layout((function.results, *shape), (output.strides[0], *strides), offset)
        result = result._replace(layout=stacked, padded=(function.results, *padded))
    cycles = function.cycles(function, target.array.arch, sizes)
    if isinstance(cycles, str):
        return Refusal(cycles)
    reason = f"{cores * columns} cores, {plan.rounds} objects of {sizes.data} elements each"
    return Offer("custom", reason, partial(design, function, target.array, plan, cycles), (*operands, result))


def _channels(function: CoreFunction) -> list[tuple[int, ...]]:
    """Return the operands of each input channel: one each, or all of a type if there are more than channels."""
    operands = function.operands
    if len(operands) <= CORE_CHANNELS:
        return [(index,) for index in range(len(operands))]
    types = dict.fromkeys(dtype for _, dtype in operands)
    return [tuple(index for index, (_, dtype) in enumerate(operands) if dtype == each) for each in types]


def _host(index: int, is_result: bool, layout: Layout, dtype: str, plan: CorePlan, size: int) -> HostOperand:
    """Return the host buffer of a tensor: rows if its objects are padded ones, else all elements in a line."""
    if size > plan.sizes.data:
        return row_layout(layout, 1).host(index, is_result, dtype, plan.objects, size)
    return row_layout(layout, 0).host(index, is_result, dtype, plan.objects * size, 1)


def design(function: CoreFunction, array: Array, plan: CorePlan, cycles: int) -> Design:
    """Build the design of a plan. Its host buffers are the operands and the planes of the results.

    Operands that share a channel alternate: the host sends one object of each in turn, and a core acquires them all.
    """
    sizes, results = plan.sizes, function.results
    builder = Builder(function.name, array.arch, plan.columns)
    types = [ObjectType(dtype, (size,)) for (_, dtype), size in zip(function.operands, sizes.operands, strict=True)]
    names = [name for name, _ in function.operands]
    buffers = [
        builder.host_buffer(f"in{index}_{name}", type_.dtype, plan.objects * type_.elements)
        for index, (name, type_) in enumerate(zip(names, types, strict=True))
    ]
    buffers += [builder.host_buffer("result", function.result, results * plan.objects * sizes.result)] * results
    types += [ObjectType(function.result, (sizes.result,))] * results
    starts = [*[0] * len(function.operands), *(plane * plan.objects * sizes.result for plane in range(results))]
    call = builder.function(function.name, [*types, *["int32"] * function.numbers], function.source, cycles)
    inputs = _channels(function)
    # Positions of the arguments that each channel carries: operands, then results.
    channels = [*inputs, *((position,) for position in range(len(names), len(types)))]

    def body(*ends: Any) -> None:
        held: dict[int, Any] = {}
        for end, positions in zip(ends, channels, strict=True):
            objects = end.acquire(len(positions))
            held.update(zip(positions, objects if len(positions) > 1 else [objects], strict=True))
        call(*[held[position] for position in range(len(types))], *[sizes.data] * function.numbers)
        for end, positions in zip(ends, channels, strict=True):
            end.release(len(positions))

    streams = []
    for column in range(plan.columns):
        tiles = core_tiles(column, plan.cores)
        of_column = [
            scatter(
                builder, f"in{channel}_{'_'.join(names[position] for position in positions)}", types[positions[0]],
                tiles, len(positions) - 1 + function.depth,
            )
            for channel, positions in enumerate(inputs)
        ]  # fmt: skip
        of_column += [
            gather(builder, f"result{plane or ''}", types[-1], tiles, function.depth) for plane in range(results)
        ]
        for row, tile in enumerate(tiles):
            builder.worker(tile, body, [stream.cores[row] for stream in of_column])
        streams.append(of_column)

    def step(column: int, channel: int, position: int, start: int, rounds: int, wait: bool | None = None) -> Step:
        elements = plan.cores * types[position].elements
        pattern = AccessPattern.linear(rounds * elements, starts[position] + (column * plan.rounds + start) * elements)
        return Step(streams[column][channel].host, buffers[position], pattern, wait)

    most_rounds = max(MOST_ELEMENTS // (plan.cores * max(sizes.operands)), 1)
    single = [(channel, *positions) for channel, positions in enumerate(channels) if len(positions) == 1]
    shared = [(channel, each) for channel, positions in enumerate(inputs) if len(positions) > 1 for each in positions]

    def part(start: int) -> Iterator[Step]:
        rounds = min(most_rounds, plan.rounds - start)
        for column in range(plan.columns):
            for channel, position in single:
                yield step(column, channel, position, start, rounds)

    def turns(start: int) -> Iterator[list[Step]]:
        for turn in range(start, min(start + most_rounds, plan.rounds)):
            for channel, position in shared:
                yield [step(column, channel, position, turn, 1, True) for column in range(plan.columns)]

    parts = range(0, plan.rounds, most_rounds)
    if not shared:
        pipeline(builder, map(part, parts), 2)
        return builder.build()
    for start in parts:
        group = builder.group()
        issue(builder, part(start), group)
        pipeline(builder, turns(start), len(inputs) * QUEUE_DEPTH, len(single))
        builder.finish(group)
    return builder.build()


# --- rows with their neighbours


class BandPlan(NamedTuple):
    """Bands of rows, one for each core. rows: Rows of the image. bands: First rows of the bands, and the end."""

    sizes: ObjectSizes
    rows: int
    bands: tuple[int, ...]


BANDS: Final = 2
"""Bands of a column: each has a channel of the shim tile in both directions."""
RUN_BYTES: Final = 1024
"""Bytes of the innermost run of a repeated row: a power of two below the limit of 1023 words."""


def _claim_neighbours(function: CoreFunction, task: Task, target: Target) -> Offer | Refusal:
    layout = task.tensors[0].layout
    if math.prod(layout.shape[:-2]) != 1:
        return Refusal(f"{function.name}: {math.prod(layout.shape[:-2])} images, and the pattern takes one")
    (rows, width), output = layout.shape[-2:], task.outputs[0].layout
    pitch = _pitch(function, width, False)
    sizes = ObjectSizes((pitch,), pitch, width)
    cycles = function.cycles(function, target.array.arch, sizes)
    if isinstance(cycles, str):
        return Refusal(cycles)
    count = min(BANDS * min(target.columns, function.columns), rows)
    plan = BandPlan(sizes, rows, tuple(rows * band // count for band in range(count + 1)))
    hosts = tuple(
        HostOperand(0, is_result, Layout(of.shape[-2:], of.strides[-2:], of.offset), (rows, pitch), dtype)
        for is_result, of, dtype in ((False, layout, function.operands[0][1]), (True, output, function.result))
    )
    reason = f"{count} cores, bands of {-(-rows // count)} rows"
    return Offer("custom", reason, partial(band_design, function, target.array, plan, cycles), hosts)


def band_design(function: CoreFunction, array: Array, plan: BandPlan, cycles: int) -> Design:
    """Build the design of a plan. Beyond the first and the last row, these are repeated."""
    size, count, halo = plan.sizes.result, len(plan.bands) - 1, function.pointers // 2
    builder = Builder(function.name, array.arch, -(-count // BANDS))
    operand, result = ObjectType(function.operands[0][1], (size,)), ObjectType(function.result, (size,))
    image = builder.host_buffer("image", operand.dtype, plan.rows * size)
    output = builder.host_buffer("result", result.dtype, plan.rows * size)
    run = math.gcd(size, RUN_BYTES // operand.itemsize)
    types: list[ObjectType | str] = [*[operand] * function.pointers, result, *["int32"] * function.numbers]
    call = builder.function(function.name, types, function.source, cycles)

    def body(source: Any, results: Any, words: Any) -> None:
        def step() -> None:
            call(*source.acquire(function.pointers), results.acquire(1), *[plan.sizes.data] * function.numbers)
            source.release(1)
            results.release(1)

        step()  # words are there after the first object
        for _ in range_(words[0]):
            step()
        source.release(2 * halo)

    for band in range(count):
        column, row = divmod(band, BANDS)
        shim, core = Tile(column, 0), Tile(column, 2 + row)
        first, end = plan.bands[band : band + 2]
        source = builder.fifo(f"rows_{band}", operand, shim, [core], 2 * halo + function.depth)
        results = builder.fifo(f"results_{band}", result, core, [shim], function.depth)
        words = builder.parameter(f"more_{band}", core, 1)
        builder.worker(core, body, [source, results, words])
        builder.write(words, [end - first - 1])
        start, stop = max(first - halo, 0), min(end + halo, plan.rows)
        above, below = start - (first - halo), end + halo - stop
        if above:
            builder.fill(source, image, AccessPattern(0, (above, 1, size // run, run), (0, 0, run, 1)))
        builder.fill(source, image, AccessPattern.linear((stop - start) * size, start * size))
        if below:
            last = (plan.rows - 1) * size
            builder.fill(source, image, AccessPattern(last, (below, 1, size // run, run), (0, 0, run, 1)))
        builder.drain(results, output, AccessPattern.linear((end - first) * size, first * size))
    return builder.build()


def _image(shapes: list[Shape]) -> Shape:
    if len(shapes) != 1 or len(shapes[0]) < 2:
        raise ShapeError(f"takes one image of two dimensions, not {', '.join(str(list(shape)) for shape in shapes)}")
    return shapes[0]


# --- matrix products

_STORE: Final = {
    "float32": Epilogue((), (), "nt::load<float, 16>(sums + j)"),
    "int32": Epilogue((), (), "nt::load<int32, 16>(sums + j)"),
}
_TILE: Final = "namespace tile {{ constexpr unsigned m = {}, k = {}, n = {}, r = {}, s = {}, t = {}; }}\n"
"""Extents of a call's product, and of the blocks in which its operands lie, for the core function."""


def _claim_gemm(function: CoreFunction, task: Task, target: Target) -> Offer | Refusal:
    (_, left), (_, right) = function.operands
    word = SUMS.get(left)
    if left != right or word is None or word != function.result:
        return Refusal(
            f"{function.name}: no sums of products of {left} and {right} in {function.result}; equal operands of "
            "bfloat16 or float32 take float, int8 and int16 take int32"
        )
    if function.numbers:
        return Refusal(f"{function.name}: takes numbers; the extents of tiles are constants of namespace `tile`")
    operands = folded(task)
    m, k, n = *operands.a.shape[-2:], operands.b.shape[-1]
    columns = min(target.columns, function.columns)
    batch = math.prod(operands.batch)
    problem = GemmProblem(target.array.arch, columns, left, word, m, n, k, batch, transposed=False)
    tilings = ranked(problem)
    if not tilings:
        return Refusal(f"{function.name}: no tiles for a product of {m} x {k} x {n}")
    tiling, blocks = tilings[0], problem.blocks
    rows = blocks.rows * blocks.r
    text = _TILE.format(rows, tiling.k, tiling.n, *blocks[:3]) + function.source.text
    sizes = ObjectSizes((rows * tiling.k, tiling.k * tiling.n), rows * tiling.n, rows * tiling.n, tiling.k)
    cycles = function.cycles(function._replace(source=Source(function.name, text)), target.array.arch, sizes)
    if isinstance(cycles, str):
        return Refusal(cycles)
    problem = problem._replace(product=OwnProduct(function.name, text, cycles))
    offer = tiled(task, problem, operands, _STORE[word], Reads((), (), ()), tiling)
    return offer if isinstance(offer, Refusal) else offer._replace(family="custom")


def _product(shapes: list[Shape]) -> Shape:
    a, b = shapes if len(shapes) == 2 else ((), ())
    if min(len(a), len(b)) < 2 or a[:-2] != b[:-2] or a[-1] != b[-2]:
        raise ShapeError(
            f"takes matrices (..., M, K) and (..., K, N), not {', '.join(str([*each]) for each in shapes)}"
        )
    return (*a[:-1], b[-1])


def _factors(shape: Shape) -> list[Shape]:
    if len(shape) < 3:
        raise ShapeError(f"a product is given as (..., M, K, N), not {list(shape)}")
    *batch, m, k, n = shape
    return [(*batch, m, k), (*batch, k, n)]


PATTERNS: Final[Mapping[str, Pattern]] = {
    "map": Pattern(_equal, _claim_map, results=2, trials=()),
    "rows": Pattern(_rows, _claim_rows, results=2),
    "reduce": Pattern(_without_last, partial(_claim_rows, reduces=True), results=2),
    "neighbours": Pattern(_image, _claim_neighbours, window=True),
    "gemm": Pattern(
        _product, _claim_gemm, trials=((1, 1, 1), (3, 17, 5), (2, 8, 9, 4), (70, 300, 90)), operand_shapes=_factors
    ),
}
