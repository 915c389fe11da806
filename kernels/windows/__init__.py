"""Family of windows that slide over images: maximum and mean pools, and depthwise convolutions with an epilogue.

Sums are float32. Images whose channels are neighbours in memory are read in place; the host reorders others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from npu_tensor.dataflow.array import STREAM_BYTES_PER_CYCLE
from npu_tensor.dataflow.checks.limits import LIMITS, WORD
from npu_tensor.dataflow.cost import RUN_BYTES
from npu_tensor.dtypes import DType, as_dtype
from npu_tensor.kernels.codegen.storage import EXACT
from npu_tensor.kernels.gemm.epilogue import Epilogue, Reads, epilogue
from npu_tensor.kernels.offer import HostOperand, Offer, Target, padded_shape
from npu_tensor.kernels.windows.design import Planes, Window, WindowProblem, WindowTiles, design
from npu_tensor.ops.declare import Layout
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Refusal, Task

__all__ = ["claim_convolution", "claim_pool"]

MOST: Final = 7
"""Largest extent of a window, step between windows and padding. Binaries depend on them."""
WIDTHS: Final = (28, 7, 4, 1)
"""Results of a row of a tile. Extents of images are often multiples of 7 or of 4."""
BLOCKS: Final = (96, 64, 32)
"""Channels of a tile."""
MOST_VECTORS: Final = 2
"""Upper bound on operands of the epilogue."""
TRANSFERS: Final = 3
"""Transfers of a tile at an edge of the image."""
MOST_TILES: Final = 1 << 12
"""Upper bound on tiles of a run; each transfer takes 120 bytes of instructions."""
Extents = tuple[int, int, int, int]
_RESULTS: Final = {"bfloat16": "bfloat16", "float32": "float32", "float16": "float32"}


def claim_pool(task: Task, target: Target) -> Offer | Refusal:
    """Return an offer for `pool_2d`, or the reason why there is none."""
    assert task.call is not None
    how = task.call.attributes
    if how["divisor"] is not None:
        return Refusal("windows: a divisor of its own")
    is_mean = how["mode"] == "avg"
    counted = sum(how["padding"], ()) if is_mean and how["count_include_pad"] else (0,) * 4
    return _offer(task, target, "sum" if is_mean else "maximum", how["kernel"], counted)


def claim_convolution(task: Task, target: Target) -> Offer | Refusal:
    """Return an offer for a depthwise convolution, or the reason why there is none."""
    assert task.call is not None
    if task.call.op.name != "conv_2d_dw" or not task.call.attributes["channels_last"]:
        return Refusal("no NPU kernel for this op")
    if len(task.outputs) != 1:
        return Refusal("windows: a convolution with several results")
    weight = task.inputs[1].layout
    assert weight is not None
    return _offer(task, target, "product", weight.shape[2:], (0,) * 4)


def _stored(dtype: DType | None, target: Target) -> str | Refusal:
    """Return the dtype of an image in host memory."""
    name = "" if dtype is None else dtype.name
    if name in EXACT and target.float32 == "exact":
        return Refusal(EXACT[name])
    if name not in _RESULTS:
        return Refusal(f"windows: images of {name}")
    return "float32" if name == "float32" and target.float32 == "emulate" else "bfloat16"


def _offer(task: Task, target: Target, combine: Any, kernel: Any, counted: Any) -> Offer | Refusal:
    assert task.call is not None
    how, dtype, output = task.call.attributes, task.inputs[0].dtype, task.outputs[0]
    stored, stated = _stored(dtype, target), _RESULTS.get(output.dtype.name)
    if isinstance(stored, Refusal):
        return stored
    if stated is None:
        return Refusal(f"windows: a result of {output.dtype.name}")
    image, result = (_channels_last(layout, how["channels_last"]) for layout in (task.inputs[0].layout, output.layout))
    count, height, width, channels = image.shape
    results = (result.shape[1], result.shape[2])
    down, across = (step if extent > 1 else 1 for step, extent in zip(how["stride"], results, strict=True))
    around: tuple[int, ...] = sum(how["padding"], ())
    if max(*kernel, down, across, *around) > MOST or min(around) < 0 or set(how["dilation"]) != {1}:
        return Refusal(f"windows: kernels have windows, steps and padding of up to {MOST}, and no dilation")
    if not math.prod(image.shape):
        return Refusal("windows: an image without elements")
    code, reads = None, Reads((), (), ())
    if combine == "product":
        found = epilogue(task, target.array.arch, "float32")
        if isinstance(found, Refusal):
            return found
        code, reads = found
        if reads.columns or len(reads.rows) > MOST_VECTORS:
            return Refusal("windows: an epilogue with other operands than two vectors along the channels")
    written_as = stored if combine == "maximum" else stated
    window = Window(combine, stored, written_as, kernel, (down, across), (around[0], around[2]), counted)
    # DMA moves whole words, and a tile has whole blocks.
    wide = max(channels + channels % 2, BLOCKS[-1])
    problem = _problem(window, code, len(reads.rows), target, (count, height, width, wide), results)
    if problem is None:
        return Refusal(f"windows: rows of {kernel} elements do not fit a core")
    tiles = problem.tiles
    if len(problem.starts) * math.prod(problem.parts) > MOST_TILES:
        return Refusal(f"windows: more than {MOST_TILES} tiles in one run")
    beyond = max(tiles.pixels - width, 0)
    source, planes = _placed(0, dtype, image, window.dtype, wide, beyond)
    written, places = _placed(None, output.dtype, result, window.result, wide, 0)
    if max(planes.steps[1], places.steps[1]) * 4 > LIMITS["shim"].stride * WORD:
        return Refusal("windows: rows lie too far apart for the DMA")
    held = list(_held(task, problem, reads.rows))
    return Offer(
        "windows",
        f"{tiles.cores} cores, tiles of {problem.band} x {tiles.width} results and {tiles.channels} channels",
        partial(design, problem, planes, places, tuple((host.dtype, math.prod(host.padded)) for host in held)),
        (source, *held, written),
        tuple((number, "float32") for number in reads.scalars),
    )


def _channels_last(layout: Layout | None, is_last: bool) -> Layout:
    assert layout is not None
    order = (0, 1, 2, 3) if is_last else (0, 2, 3, 1)
    return Layout(tuple(layout.shape[d] for d in order), tuple(layout.strides[d] for d in order), layout.offset)


def _problem(
    window: Window, code: Epilogue | None, vectors: int, target: Target, image: Extents, results: tuple[int, int]
) -> WindowProblem | None:
    """Divide the work among as many cores as possible so that reading rows and starting transfers take least time."""
    for cores in [1 << bits for bits in reversed(range((2 * target.columns).bit_length()))]:
        found: list[tuple[float, WindowProblem]] = []
        for block, width, bits in itertools.product(BLOCKS, WIDTHS, range(cores.bit_length())):
            tiles = WindowTiles(target.array.arch, window, code, vectors, width, block, cores)
            if block > image[3] or width > results[1] or not tiles.fits:
                continue
            problem = WindowProblem(tiles, image, results, results[0], 1 << bits)
            bands = min(-(-problem.groups // math.prod(problem.parts)), results[0])
            problem = problem._replace(band=-(-results[0] // bands))
            blocks, parts = len(problem.starts), math.prod(problem.parts)
            # One core writes the blocks of channels that overlap.
            if problem.shares <= max(blocks - bool(image[3] % block), 1) and problem.groups <= parts:
                rows = -(-blocks // problem.shares) * -(-parts // problem.groups) * problem.rows
                runs = tiles.pixels * RUN_BYTES if block < image[3] else 0
                reading = rows * (tiles.row.nbytes + runs) / STREAM_BYTES_PER_CYCLE
                found.append((max(reading, TRANSFERS * blocks * parts * target.array.queue_cycles), problem))
        if found:
            return min(found, key=lambda pair: pair[0])[1]
    return None


def _placed(
    number: int | None, dtype: DType | None, layout: Layout, stored: str, wide: int, beyond: int
) -> tuple[HostOperand, Planes]:
    """Return the host buffer of an image or, without a number, of the result, and its location there.

    It is in place if the DMA can walk it. beyond: pixels that are read after the last one.
    """
    count, height, width, channels = layout.shape
    *steps, channel = layout.strides
    words = all(step >= 0 and step * as_dtype(stored).itemsize % WORD == 0 for step in (layout.offset, *steps))
    if dtype == as_dtype(stored) and channel == 1 and channels == wide and words:
        first = layout.offset if number is None else 0
        used = (
            layout.offset
            - first
            + sum((n - 1) * step for n, step in zip(layout.shape, layout.strides, strict=True))
            + 1
        )
        padded = used + beyond * steps[2]
        host = HostOperand(number or 0, number is None, Layout((used,), (1,), first), (padded,), stored, None)
        return host, Planes(layout.offset - first, (steps[0], steps[1], steps[2]), padded)
    extents = padded_shape((count, height, width, wide), (count * height * width + beyond) * wide)
    dense = contiguous_strides(extents)
    host = HostOperand(number or 0, number is None, layout, extents, stored, None)
    return host, Planes(0, (dense[0], dense[1], dense[2]), math.prod(extents))


def _held(task: Task, problem: WindowProblem, rows: Sequence[int]) -> Iterator[HostOperand]:
    """Yield the host buffers of the weights (rows and columns of a window, channels) and the epilogue's operands."""
    tiles, wide = problem.tiles, problem.image[3]
    if tiles.epilogue is None:
        return
    weight = task.inputs[1].layout
    assert weight is not None
    order = Layout((*weight.shape[2:], weight.shape[0]), (*weight.strides[2:], weight.strides[0]), weight.offset)
    padded = padded_shape((*weight.shape[2:], wide), problem.weight_rows * wide)
    yield HostOperand(1, False, order, padded, tiles.window.dtype)
    for number in rows:
        layout = task.inputs[number].layout
        assert layout is not None
        vector = Layout(layout.shape[-1:], layout.strides[-1:], layout.offset)
        yield HostOperand(number, False, vector, (problem.vector_elements,), "float32")
