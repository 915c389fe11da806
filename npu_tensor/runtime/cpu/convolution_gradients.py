"""Transposed convolutions and gradients of the weights of convolutions, on channels-last images.

A transposed convolution is a product of windows for each phase: output places whose distance is the stride meet the
same elements of the kernel, at neighbouring positions of the image.

The gradient of a weight is a sum over all positions. Each of its elements multiplies the gradient of an output with an
element of the image. Tiles of outputs times channels stay in registers for a block of positions, which the innermost
caches hold for all elements of the kernel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor._util.forks import cached_property
from npu_tensor.dtypes import as_dtype
from npu_tensor.ops.declare import Layout
from npu_tensor.runtime.cpu.bound_loops import BoundLoops, Location, Packed, Slot
from npu_tensor.runtime.cpu.depthwise_gradient import bind_depthwise_gradient
from npu_tensor.runtime.cpu.gemm import Matrix, Scattered
from npu_tensor.runtime.cpu.ir_emitter import META, Emitter
from npu_tensor.runtime.cpu.kernels import (
    CpuKernel,
    bind_move,
    bind_product,
    bind_zeros,
    first_byte,
    plain_product,
)
from npu_tensor.runtime.cpu.loop_parts import LoopParts, place_of
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import Value
from npu_tensor.runtime.cpu.windows import Places, Windows, strided_offsets
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Cost, Expense, Output, Refusal, Task, TensorInput


def _reason_against(task: Task) -> str | None:
    if not task.attributes["channels_last"]:
        return "compiled for channels-last images only"
    if not task.outputs[0].dtype.is_floating_point:
        return "compiled for floats only"
    if not all(source.layout is not None and math.prod(source.layout.shape) for source in task.inputs):
        return "there is nothing to add"
    return None if math.prod(task.shape) else "there is nothing to compute"


class _SumsKernel(CpuKernel):
    """A kernel whose time is that of its multiplications."""

    macs: int

    @cached_property
    def cost(self) -> Cost:
        rates, threads = self.owner.rates, self.owner.threads
        seconds = self.macs / rates.macs["float32"]
        working = max(1, min(threads, int(seconds / rates.fork_seconds)))
        expenses = rates.expense(rates.launch_seconds), rates.expense(seconds / working, working)
        return Cost(Expense(*map(sum, zip(*expenses, strict=True))), self.task.outputs[0].nbytes)


# --- transposed convolutions


def transposed_kernel(processor: Processor, task: Task) -> TransposedKernel | Refusal:
    """Return the kernel of a transposed convolution, or the reason why there is none."""
    reason = _reason_against(task)
    return TransposedKernel(processor, task) if reason is None else Refusal(reason)


class _Phase(NamedTuple):
    """Places of a dimension that meet the same elements of the kernel: every stride-th one from `first` on.

    Attributes:
        first: First place.
        places: Number of places.
        tap: First element of the kernel, and the distance to the next.
        taps: Number of elements.
        start: Position of the image that the first place meets by the first element.
        gap: Distance from there to the position by the next element.
    """

    first: int
    places: int
    tap: tuple[int, int]
    taps: int
    start: int
    gap: int


def _phases(extent: int, size: int, step: int, gap: int, before: int) -> list[_Phase]:
    phases, apart = [], step // math.gcd(step, gap)
    for first in range(min(step, extent)):
        taps = [tap for tap in range(size) if (first + before - tap * gap) % step == 0]
        tap = taps[0] if taps else 0
        start, distance = (first + before - tap * gap) // step, apart * gap // step
        phases.append(_Phase(first, -(-(extent - first) // step), (tap, apart), len(taps), start, -distance))
    return phases


class TransposedKernel(_SumsKernel):
    """A transposed convolution."""

    def __init__(self, processor: Processor, task: Task) -> None:
        super().__init__(processor, task)
        image, weight = task.tensors
        self.groups = task.attributes["groups"]
        self.depthwise = self.groups == image.layout.shape[-1] == task.shape[-1]
        self.name = "depthwise transposed conv" if self.depthwise else "transposed conv"
        self.macs = math.prod(image.layout.shape) * math.prod(weight.layout.shape[1:])

    def _bind(self) -> BoundLoops:
        """Bind a product for each phase. Places that meet no element of the kernel are zeros."""
        (image, weight), (output,) = self.task.tensors, self.task.outputs
        attributes, parts = self.task.attributes, LoopParts(self.owner, self.task)
        befores = [before for before, _ in attributes["padding"]]
        extents, kernel = self.task.shape[1:-1], weight.layout.shape[2:]
        if self._is_product(image, extents, kernel, befores):
            parts.result(output)
            parts.add(self._product(image, weight))
            return parts.joined()
        if image.layout.strides[-1] != 1 or min(image.layout.strides) < 0:
            image = parts.copy(image)
        sizes = extents, kernel, attributes["stride"], attributes["dilation"], befores
        combined = [*itertools.product(*map(_phases, *sizes))]
        if all(phase.taps for phases in combined for phase in phases):
            parts.result(output)
        else:
            parts.add(bind_zeros(self.owner, output))
        for phases in combined:
            if all(phase.taps for phase in phases):
                parts.add(self._bind_phase(image, weight, attributes["stride"], phases))
        return parts.joined()

    def _is_product(
        self, image: TensorInput, extents: Sequence[int], kernel: Sequence[int], befores: Sequence[int]
    ) -> bool:
        """Return True if every place meets the only position by an element of its own."""
        is_single = self.groups == 1 == math.prod(image.layout.shape[1:-1])
        gaps = zip(self.task.attributes["dilation"], kernel, strict=True)
        is_dense = all(gap == 1 or size == 1 for gap, size in gaps)
        return is_single and tuple(extents) == tuple(kernel) and not any(befores) and is_dense

    def _product(self, image: TensorInput, weight: TensorInput) -> BoundLoops:
        rows, depth = image.layout.shape[0], image.layout.shape[-1]
        per_output, per_channel, *per_place = weight.layout.strides
        columns = Layout((*weight.layout.shape[2:], weight.layout.shape[1]), (*per_place, per_channel))
        count = math.prod(columns.shape)
        a = Matrix(image.dtype.name, (image.layout.strides[0], image.layout.strides[-1]))
        b = Scattered(weight.dtype.name, (), Layout((depth,), (per_output,)), columns)
        return self._multiply((rows, count, depth), a, b, (count, 1), (), image, weight)

    def _bind_phase(
        self, image: TensorInput, weight: TensorInput, stride: Sequence[int], phases: Sequence[_Phase]
    ) -> BoundLoops:
        outputs, per_group, *_ = weight.layout.shape
        per_output, per_channel, *per_place = weight.layout.strides
        groups = 1 if self.depthwise else self.groups
        channels, own = (1, self.task.shape[-1]) if self.depthwise else (outputs // groups, per_group)
        (batch, per_image), *extents, _ = zip(image.layout.shape, image.layout.strides, strict=True)
        places = tuple(
            Places(*extent, phase.places, phase.taps, 1, phase.gap, phase.start)
            for extent, phase in zip(extents, phases, strict=True)
        )
        result = contiguous_strides(self.task.shape)
        steps = [step * distance for step, distance in zip(stride, result[1:-1], strict=True)]
        counts = [phase.places for phase in phases]
        # Places are rows of one product as far as they are evenly spaced.
        rows, first = counts[-1], len(counts) - 1
        while first and steps[first - 1] == rows * steps[-1]:
            first -= 1
            rows *= counts[first]
        lines = [math.prod(counts[number + 1 :]) for number in range(first)]
        zeros = (0,) * first
        a = Windows(image.dtype.name, (per_image, channels, *zeros), (0, 0, *lines), channels, places, self.depthwise)
        apart = [phase.tap[1] * distance for phase, distance in zip(phases, per_place, strict=True)]
        b_rows = Layout((*(phase.taps for phase in phases), channels), (*apart, per_output))
        of_group = 0 if self.depthwise else channels * per_output
        b = Scattered(
            weight.dtype.name,
            (
                Layout((batch,), (0,)),
                Layout((groups,), (of_group,)),
                *(Layout((count,), (0,)) for count in counts[:first]),
            ),
            b_rows,
            Layout((own,), (per_output if self.depthwise else per_channel,)),
        )
        tap = sum(phase.tap[0] * distance for phase, distance in zip(phases, per_place, strict=True))
        place = sum(phase.first * distance for phase, distance in zip(phases, result[1:-1], strict=True))
        return self._multiply(
            (rows, own, math.prod(b_rows.shape)),
            a,
            b,
            (result[0], own, *steps[:first], steps[-1], 1),
            (batch, groups, *counts[:first]),
            image,
            weight,
            tap,
            place,
        )

    def _multiply(
        self,
        shape: tuple[int, int, int],
        a: Matrix | Windows,
        b: Scattered,
        strides: tuple[int, ...],
        batch: tuple[int, ...],
        image: TensorInput,
        weight: TensorInput,
        tap: int = 0,
        place: int = 0,
    ) -> BoundLoops:
        """Bind a product of the image and the weight from element `tap` on, to the result from element `place` on."""
        (output,) = self.task.outputs
        product = plain_product(self.owner, shape, a, b, Matrix(output.dtype.name, strides), batch)
        slots: list[Slot] = [Location(image.item, first_byte(image))]
        if len(product.packings) == 2:
            slots[0] = Packed(image.item, first_byte(image), product.packings[0])
        slots.append(Packed(weight.item, first_byte(weight) + tap * weight.dtype.itemsize, product.packings[-1]))
        return bind_product(product, (*slots, Location(output.item, place * output.dtype.itemsize)))


# --- gradients of weights

_TILES: Final = {16: {1: 8, 2: 6, 3: 4}, 32: {1: 8, 2: 8, 3: 8}}
"""Rows of a tile by the vector registers of the processor and the vectors of a row."""

_BLOCK_BYTES: Final = 20 << 10
"""Bytes of an image that are read for all elements of a kernel while level 1 holds them."""

_MOST_PANELS: Final = 4
"""Tiles of outputs that read the same block of an image."""

_META: Final = (
    *("images", "rows", "columns", "taps", "lines", "blocks", "panels", "item_panels", "block_images", "block_rows"),
    *("x_image", "x_group", "x_block", "x_step", "g_image", "g_group", "g_line", "g_step"),
    *("s_group", "s_block", "s_line", "s_tap"),
)
"""Leading numbers of the meta array. Tables follow: the place in the image of each tap, and of each row of positions,
and the place in the gradient of each row. Distances are in bytes.

Rows are all dimensions of the positions but the last one, which is `columns`. Lines are the outputs of a group.
"""


class _GradientSpec(NamedTuple):
    """Parameters of the kernel: type of the elements, vectors and rows of a tile."""

    element: str
    lanes: int
    vectors: int
    rows: int


def _module(spec: _GradientSpec, target: CpuTarget) -> str:
    """Return the module of a kernel that sums products over all positions.

    An item is a block of lanes of a group and some panels, which are lines of a tile.

    pointers  [sums, image, gradient]
    meta      see `_META`
    """
    e, (element, lanes, vectors, rows) = Emitter(target), spec
    type_, size = f"<{lanes} x {element}>", 4 if element == "float" else 8
    sums, image, gradient = e.addresses(3)
    meta = e.named_numbers(_META)
    tap_table = e.byte_offset(META, 8 * len(_META))
    image_table = e.byte_offset(tap_table, e.mul(meta["taps"], 8))
    gradient_table = e.byte_offset(image_table, e.mul(meta["rows"], 8))

    def entry(table: Value, number: Value) -> Value:
        return e.load_value("i64", e.byte_offset(table, e.mul(number, 8)))

    def moved(pointer: Value, *steps: tuple[Value, str]) -> Value:
        for number, name in steps:
            pointer = e.byte_offset(pointer, e.mul(number, meta[name]))
        return pointer

    def compute_item(item: Value, _: list[Value]) -> None:
        per_block = e.op("udiv", e.add(meta["panels"], e.sub(meta["item_panels"], 1)), meta["item_panels"])
        first = e.mul(e.op("urem", item, per_block), meta["item_panels"])
        end = e.smaller(e.add(first, meta["item_panels"]), meta["panels"])
        block = e.op("udiv", item, per_block)
        group, block = e.op("udiv", block, meta["blocks"]), e.op("urem", block, meta["blocks"])
        x = moved(image, (group, "x_group"), (block, "x_block"))
        g = moved(gradient, (group, "g_group"))
        s = moved(sums, (group, "s_group"), (block, "s_block"))

        def over_tiles(body: Any) -> None:
            """Emit a body for each panel and tap. It gets the lines, and the addresses of their sums."""

            def tile(panel: Value, tap: Value) -> None:
                lines = e.up_to(e.mul(panel, rows), rows, meta["lines"])
                body(tap, lines, [moved(s, (line, "s_line"), (tap, "s_tap")) for line in lines])

            e.loop(first, end, 1, (), lambda panel, _: e.loop(0, meta["taps"], 1, (), lambda tap, _: tile(panel, tap)))

        def clear(_: Value, lines: Sequence[Value], places: Sequence[Value]) -> None:
            for place in places:
                for j in range(vectors):
                    e.store_value(Value("zeroinitializer", type_), e.byte_offset(place, j * lanes * size), align=size)

        over_tiles(clear)

        def add_block(first_image: Value, first_row: Value) -> None:
            image_end = e.smaller(e.add(first_image, meta["block_images"]), meta["images"])
            row_end = e.smaller(e.add(first_row, meta["block_rows"]), meta["rows"])

            def add_tile(tap: Value, lines: Sequence[Value], places: Sequence[Value]) -> None:
                distances = [e.mul(line, meta["g_line"]) for line in lines]
                carried = [e.load_value(type_, place, j, align=size) for place in places for j in range(vectors)]

                def add_row(number: Value, row: Value, carried: list[Value]) -> list[Value]:
                    from_x = e.byte_offset(moved(x, (number, "x_image")), entry(image_table, row))
                    from_g = e.byte_offset(moved(g, (number, "g_image")), entry(gradient_table, row))
                    line = e.byte_offset(from_x, entry(tap_table, tap))
                    gs = [e.byte_offset(from_g, distance) for distance in distances]

                    def add_position(_: Value, carried: list[Value]) -> list[Value]:
                        x_offset, g_offset, *totals = carried
                        at = e.byte_offset(line, x_offset)
                        vector = [e.load_value(type_, at, j, align=size) for j in range(vectors)]
                        pairs = []
                        for each in gs:
                            one = e.load_value(element, e.byte_offset(each, g_offset), align=size)
                            pairs.append(zip(vector, [e.broadcast(one, lanes)] * vectors, strict=True))
                        flat = itertools.chain.from_iterable(pairs)
                        totals = [e.fma(a, b, total) for (a, b), total in zip(flat, totals, strict=True)]
                        return [e.add(x_offset, meta["x_step"]), e.add(g_offset, meta["g_step"]), *totals]

                    zero = e.constant(0, "i64")
                    return e.loop(0, meta["columns"], 1, [zero, zero, *carried], add_position)[2:]

                totals = e.loop(
                    first_image,
                    image_end,
                    1,
                    carried,
                    lambda number, carried: e.loop(
                        first_row, row_end, 1, carried, lambda row, carried: add_row(number, row, carried)
                    ),
                )
                for index, total in enumerate(totals):
                    place, j = places[index // vectors], index % vectors
                    e.store_value(total, e.byte_offset(place, j * lanes * size), align=size)

            over_tiles(add_tile)

        e.loop(
            0,
            meta["images"],
            meta["block_images"],
            (),
            lambda number, _: e.loop(0, meta["rows"], meta["block_rows"], (), lambda row, _: add_block(number, row)),
        )

    return e.kernel_of_items(compute_item)


def weight_gradient_kernel(processor: Processor, task: Task) -> WeightGradientKernel | Refusal:
    """Return the kernel of the gradient of a weight, or the reason why there is none."""
    reason = _reason_against(task)
    return WeightGradientKernel(processor, task) if reason is None else Refusal(reason)


class WeightGradientKernel(_SumsKernel):
    """The gradient of the weight of a convolution."""

    def __init__(self, processor: Processor, task: Task) -> None:
        super().__init__(processor, task)
        image, gradient = task.tensors
        outputs, groups = task.shape[0], int(task.attributes["groups"])
        self.depthwise = groups == image.layout.shape[-1] == outputs
        self.name = "depthwise weight gradient" if self.depthwise else "weight gradient"
        self.macs = math.prod(gradient.layout.shape) * math.prod(task.shape[1:])
        self.groups, self.channels, self.outputs = groups, task.shape[1], outputs // groups
        self.kernel = task.shape[2:]
        self.dtype = as_dtype("float64" if task.outputs[0].dtype.itemsize == 8 else "float32")
        target = processor.target
        lanes = max(1, target.lanes * 4 // self.dtype.itemsize)
        # Few channels are neighbours of those at the next element of the kernel, so that vectors hold several of these.
        run = self.kernel[-1] * self.channels
        is_dense = task.attributes["dilation"][-1] == 1
        self.by_runs = is_dense and self.channels < 2 * lanes and _waste(run, lanes) < _waste(self.channels, lanes)
        self.run = run if self.by_runs else self.channels
        tiles = _TILES[target.vector_registers]
        vectors = min((2, 3, 1), key=lambda count: -(-self.run // (count * lanes)) * count)
        self.width = vectors * lanes
        self.blocks = -(-self.run // self.width)
        self.taps = math.prod(self.kernel[:-1] if self.by_runs else self.kernel)
        rows = -(-self.outputs // -(-self.outputs // tiles[vectors]))
        self.spec = _GradientSpec("double" if lanes < target.lanes else "float", lanes, vectors, rows)

    def _bind(self) -> BoundLoops:
        """Bind the copy of the image, with its padding and by blocks of channels, the sums, and the copy of these."""
        (image, gradient), (output,) = self.task.tensors, self.task.outputs
        if self.depthwise:
            return bind_depthwise_gradient(self.owner, self.task)
        if self._is_product:
            return self._product(image, gradient)
        attributes, parts, size = self.task.attributes, LoopParts(self.owner, self.task), self.dtype.itemsize
        if gradient.dtype is not self.dtype:
            gradient = parts.copy(gradient, self.dtype)
        images, *counts, _ = gradient.layout.shape
        stride, dilation = attributes["stride"], attributes["dilation"]
        frame = [
            (count - 1) * step + gap * (extent - 1) + 1
            for count, step, gap, extent in zip(counts, stride, dilation, self.kernel, strict=True)
        ]
        copied = self._copy_image(parts, image, frame)
        x_image, x_group, x_block, *x_places, _ = copied.layout.strides
        if self.by_runs:
            x_block = self.width
        g_image, *g_places, g_channel = gradient.layout.strides
        steps = [step * place for step, place in zip(stride, x_places, strict=True)]
        gaps = [gap * place for gap, place in zip(dilation, x_places, strict=True)]
        rows = math.prod(counts[:-1])
        row_elements = stride[-2] * x_places[-2] if len(counts) > 1 else copied.layout.shape[-2] * x_places[-1]
        block_rows = max(1, min(rows, _BLOCK_BYTES // (row_elements * size)))
        block_images = max(1, _BLOCK_BYTES // (rows * row_elements * size)) if block_rows == rows else 1
        panels = -(-self.outputs // self.spec.rows)
        blocks = self.groups * self.blocks
        item_panels = max(1, min(_MOST_PANELS, panels * blocks // (4 * self.owner.pool.threads)))
        s_line, s_tap, s_block, s_group = self._places_of_sums()
        numbers = {
            "images": images,
            "rows": rows,
            "columns": counts[-1],
            "taps": self.taps,
            "lines": self.outputs,
            "blocks": self.blocks,
            "panels": panels,
            "item_panels": item_panels,
            "block_images": block_images,
            "block_rows": block_rows,
        }
        distances = {
            "x_image": x_image,
            "x_group": x_group,
            "x_block": x_block,
            "x_step": steps[-1],
            "g_image": g_image,
            "g_group": self.outputs * g_channel,
            "g_line": g_channel,
            "g_step": g_places[-1],
            "s_group": s_group,
            "s_block": s_block,
            "s_line": s_line,
            "s_tap": s_tap,
        }
        numbers |= {name: distance * size for name, distance in distances.items()}
        places = len(self.kernel) - self.by_runs
        tables = [
            strided_offsets(Layout(self.kernel[:places], tuple(gaps[:places]))) * size,
            strided_offsets(Layout(tuple(counts[:-1]), tuple(steps[:-1]))) * size,
            strided_offsets(Layout(tuple(counts[:-1]), tuple(g_places[:-1]))) * size,
        ]
        sums = parts.scratch(self.groups * self.outputs * self.taps * self.blocks * self.width * size)
        parts.loop(
            _module,
            self.spec,
            np.concatenate([np.array([numbers[name] for name in _META]), *tables]),
            blocks * -(-panels // item_panels),
            1,
            (sums, Location(copied.item), place_of(gradient)),
        )
        parts.result(output)
        self._copy_sums(parts, sums.item, output)
        return parts.joined()

    @property
    def _is_product(self) -> bool:
        """True if the kernel has one element, which meets every position inside the image."""
        image, gradient = (source.layout for source in self.task.inputs)
        assert image is not None
        assert gradient is not None
        stride, padding = self.task.attributes["stride"], self.task.attributes["padding"]
        sizes = zip(image.shape[1:-1], gradient.shape[1:-1], stride, padding, strict=True)
        is_inside = all(not pair[0] and (count - 1) * step < extent for extent, count, step, pair in sizes)
        return self.groups == 1 == math.prod(self.kernel) and is_inside

    def _product(self, image: TensorInput, gradient: TensorInput) -> BoundLoops:
        """Bind the product of the gradient and the image over all positions."""
        (output,) = self.task.outputs
        *positions, outputs = gradient.layout.shape
        of_image, *per_place, per_channel = image.layout.strides
        steps = [step * distance for step, distance in zip(self.task.attributes["stride"], per_place, strict=True)]
        a = Scattered(
            gradient.dtype.name,
            (),
            Layout((outputs,), gradient.layout.strides[-1:]),
            Layout(tuple(positions), gradient.layout.strides[:-1]),
        )
        b = Scattered(
            image.dtype.name,
            (),
            Layout(tuple(positions), (of_image, *steps)),
            Layout((self.channels,), (per_channel,)),
        )
        shape = (outputs, self.channels, math.prod(positions))
        product = plain_product(self.owner, shape, a, b, Matrix(output.dtype.name, (self.channels, 1)), ())
        factors = zip((gradient, image), product.packings, strict=True)
        packed = [Packed(source.item, first_byte(source), packing) for source, packing in factors]
        bound = bind_product(product, (*packed, Location(output.item)))
        return bound._replace(new=((output.item, output.nbytes),))

    def _places_of_sums(self) -> tuple[int, int, int, int]:
        """Return the distances of lines, taps, blocks and groups in the sums, whose last dimension is a block."""
        per_line = self.taps * self.width
        if self.by_runs:
            per_line *= self.blocks
            return per_line, self.blocks * self.width, self.width, self.outputs * per_line
        per_block = self.outputs * per_line
        return per_line, self.width, per_block, self.blocks * per_block

    def _copy_image(self, parts: LoopParts, image: TensorInput, frame: Sequence[int]) -> Output:
        """Bind a copy (batch, groups, blocks, *places, channels) of the places that the kernel meets."""
        images, *extents, _ = image.layout.shape
        per_image, *per_place, per_channel = image.layout.strides
        block = self.channels if self.by_runs else self.width
        shape = (images, self.groups, -(-self.channels // block), *frame, block)
        strides = contiguous_strides(shape)
        # Vectors of runs may read beyond the last one.
        nbytes = (math.prod(shape) + 2 * self.width) * self.dtype.itemsize
        whole = Output(parts.new_item(), self.dtype, Layout(shape, strides), nbytes)
        parts.add(bind_zeros(self.owner, whole))
        befores = [before for before, _ in self.task.attributes["padding"]]
        starts = [max(0, -before) for before in befores]
        ends = [min(extent, end - before) for extent, end, before in zip(extents, frame, befores, strict=True)]
        region = [end - start for start, end in zip(starts, ends, strict=True)]
        if min(region) < 1:
            return whole
        first = image.layout.offset + sum(a * b for a, b in zip(starts, per_place, strict=True))
        places = [start + before for start, before in zip(starts, befores, strict=True)]
        offset = sum(a * b for a, b in zip(places, strides[3:-1], strict=True))
        # Blocks are the last dimension but one, so that the image is read in its order.
        steps = (per_image, self.channels * per_channel, *per_place, block * per_channel, per_channel)
        to = (*strides[:2], *strides[3:-1], strides[2], strides[-1])
        for number, count, lanes in _split(self.channels, block):
            part = (images, self.groups, *region, count, lanes)
            source = image._replace(layout=Layout(part, steps, first + number * steps[-2]))
            into = Layout(part, to, offset + number * to[-2])
            parts.add(bind_move(self.owner, source, whole._replace(layout=into, donor=whole.item)))
        return whole

    def _copy_sums(self, parts: LoopParts, item: int, output: Output) -> None:
        """Bind the copy of the sums into the order of the weight."""
        line, tap, block, group = self._places_of_sums()
        per_tap, elements = contiguous_strides(self.kernel), math.prod(self.kernel)
        width = self.channels if self.by_runs else self.width
        per_place = [tap * distance for distance in per_tap]
        if self.by_runs:
            per_place = [*(tap * distance // self.kernel[-1] for distance in per_tap[:-1]), self.channels]
        for first, count, lanes in _split(self.channels, width):
            shape = (self.groups, self.outputs, count, lanes, *self.kernel)
            source = TensorInput(item, self.dtype, Layout(shape, (group, line, block, 1, *per_place), first * block))
            own = self.channels * elements
            strides = (self.outputs * own, own, width * elements, elements, *per_tap)
            into = Layout(shape, strides, output.layout.offset + first * width * elements)
            parts.add(bind_move(self.owner, source, output._replace(layout=into, donor=output.item)))


def _waste(count: int, lanes: int) -> float:
    """Return the lanes of whole vectors for each element."""
    return -(-count // lanes) * lanes / count


def _split(count: int, size: int) -> list[tuple[int, int, int]]:
    """Return the first block, the number of blocks and their size for the whole blocks, and for the rest."""
    whole, rest = divmod(count, size)
    parts = [(0, whole, size)] if whole else []
    return [*parts, (whole, 1, rest)] if rest else parts
