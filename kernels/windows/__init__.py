"""Family of windows that slide over images: maximum and mean pools, and depthwise convolutions with an epilogue.

Sums are float32. Images whose channels are neighbours in memory are read in place; the host reorders others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from npu_tensor.dataflow.array import STREAM_BYTES_PER_CYCLE
from npu_tensor.dataflow.checks.limits import LIMITS, WORD
from npu_tensor.dataflow.cost import RUN_BYTES
from npu_tensor.dtypes import DType, as_dtype
from npu_tensor.kernels.codegen.storage import EXACT
from npu_tensor.kernels.gemm import vector_layout
from npu_tensor.kernels.gemm.epilogue import PROGRAM_BYTES, Epilogue, Reads, epilogue
from npu_tensor.kernels.offer import HostOperand, Located, Offer, Target, in_place, packed, padded_shape
from npu_tensor.kernels.windows.design import COMPUTE_BYTES, Combine, Window, WindowProblem, WindowTiles, design
from npu_tensor.ops.declare import Layout
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
RESULTS: Final = {"bfloat16": "bfloat16", "float32": "float32", "float16": "float32"}
"""Dtype of a mean or a sum of products in its host buffer."""
Pair = tuple[int, int]
Extents = tuple[int, int, int, int]


def claim_pool(task: Task, target: Target) -> Offer | Refusal:
    """Return an offer for `pool_2d`, or the reason why there is none."""
    how = task.attributes
    if how["divisor"] is not None:
        return Refusal("windows: a divisor of its own")
    if how["mode"] == "max":
        return _offer(task, target, "maximum", how["kernel"])
    (above, below), (before, after) = how["padding"] if how["count_include_pad"] else ((0, 0), (0, 0))
    return _offer(task, target, "sum", how["kernel"], (above, below, before, after))


def claim_convolution(task: Task, target: Target) -> Offer | Refusal:
    """Return an offer for `conv_2d_dw`, or the reason why there is none."""
    if not task.attributes["channels_last"]:
        return Refusal("no NPU kernel for this op")
    if len(task.outputs) != 1:
        return Refusal("windows: a convolution with several results")
    weight = task.tensors[1].layout
    return _offer(task, target, "product", (weight.shape[2], weight.shape[3]))


def _stored(dtype: DType, target: Target) -> str | Refusal:
    """Return the dtype of an image in host memory."""
    name = dtype.name
    if name in EXACT and target.float32 == "exact":
        return Refusal(EXACT[name])
    if name not in RESULTS:
        return Refusal(f"windows: images of {name}")
    return "float32" if name == "float32" and target.float32 == "emulate" else "bfloat16"


def _offer(
    task: Task, target: Target, combine: Combine, kernel: Pair, counted: Extents = (0, 0, 0, 0)
) -> Offer | Refusal:
    how, source, output = task.attributes, task.tensors[0], task.outputs[0]
    stored, result_dtype = _stored(source.dtype, target), RESULTS.get(output.dtype.name)
    if isinstance(stored, Refusal):
        return stored
    if result_dtype is None:
        return Refusal(f"windows: a result of {output.dtype.name}")
    image, result = (_channels_last(each.layout, how["channels_last"]) for each in (source, output))
    count, height, width, channels = image.shape
    results = (result.shape[1], result.shape[2])
    down, across = (step if extent > 1 else 1 for step, extent in zip(how["stride"], results, strict=True))
    around: tuple[int, ...] = sum(how["padding"], ())
    if max(*kernel, down, across, *around) > MOST or min(around) < 0 or set(how["dilation"]) != {1}:
        return Refusal(f"windows: kernels have windows, steps and padding of up to {MOST}, and no dilation")
    if not math.prod(image.shape):
        return Refusal("windows: an image without elements")
    if combine == "maximum":
        result_dtype = stored
    window = Window(combine, stored, result_dtype, kernel, (down, across), (around[0], around[2]), counted)
    code, reads = None, Reads((), (), ())
    if combine == "product":
        room = min(COMPUTE_BYTES - window.program_bytes, PROGRAM_BYTES)
        found = epilogue(task, target.array.arch, "float32", room)
        if isinstance(found, Refusal):
            return found
        code, reads = found
        if reads.columns or len(reads.rows) > MOST_VECTORS:
            return Refusal("windows: an epilogue with other operands than two vectors along the channels")
    # DMA moves whole words, and a tile has whole blocks.
    wide = max(channels + channels % 2, BLOCKS[-1])
    problem = _problem(window, code, len(reads.rows), target, (count, height, width, wide), results)
    if problem is None:
        return Refusal(f"windows: {kernel[0]} x {kernel[1]} elements and the ops after them do not fit a core")
    tiles = problem.tiles
    if len(problem.starts) * math.prod(problem.parts) > MOST_TILES:
        return Refusal(f"windows: more than {MOST_TILES} tiles in one run")
    padded = (count, height, width, wide)
    read, planes = _placed(HostOperand(0, False, image, padded, window.dtype, None), source.dtype, tiles.pixels - width)
    padded = (count, *results, wide)
    written, places = _placed(HostOperand(0, True, result, padded, window.result, None), output.dtype)
    if max(planes.strides[1], places.strides[1]) * 4 > LIMITS["shim"].stride * WORD:
        return Refusal("windows: rows lie too far apart for the DMA")
    held = list(_held(task, problem, reads.rows))
    return Offer(
        "windows",
        f"{tiles.cores} cores, tiles of {problem.band} x {tiles.width} results and {tiles.channels} channels",
        partial(design, problem, planes, places, tuple((host.dtype, math.prod(host.padded)) for host in held)),
        (read, *held, written),
        tuple((number, "float32") for number in reads.scalars),
    )


def _channels_last(layout: Layout, is_last: bool) -> Layout:
    order = (0, 1, 2, 3) if is_last else (0, 2, 3, 1)
    return Layout(tuple(layout.shape[d] for d in order), tuple(layout.strides[d] for d in order), layout.offset)


def _problem(
    window: Window, code: Epilogue | None, vectors: int, target: Target, image: Extents, results: Pair
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


def _placed(host: HostOperand, dtype: DType, more: int = 0) -> tuple[HostOperand, Located]:
    """Return the buffer of an image, in place if the DMA can walk it, and the image's location in the buffer.

    Args:
        host: Buffer into which the host packs the image.
        dtype: Dtype of the image.
        more: Pixels that are read after the last one, if positive.
    """
    layout, beyond = host.layout, max(more, 0)
    *steps, channel = layout.strides
    places = [layout.offset, *steps]
    walks = all(place * as_dtype(host.dtype).itemsize % WORD == 0 for place in places) and min(steps) > 0
    if dtype == as_dtype(host.dtype) and channel == 1 and layout.shape[3] == host.padded[3] and walks:
        return in_place(host, layout.bounds[1] + 1 + beyond * steps[2])
    extents = padded_shape(host.padded, math.prod(host.padded) + beyond * host.padded[3])
    return packed(host._replace(padded=extents))


def _held(task: Task, problem: WindowProblem, rows: Sequence[int]) -> Iterator[HostOperand]:
    """Yield the host buffers of the weights (rows and columns of a window, channels) and the epilogue's operands."""
    tiles, wide = problem.tiles, problem.image[3]
    if tiles.epilogue is None:
        return
    weight = task.tensors[1].layout
    order = Layout((*weight.shape[2:], weight.shape[0]), (*weight.strides[2:], weight.strides[0]), weight.offset)
    padded = padded_shape((*weight.shape[2:], wide), problem.weight_rows * wide)
    yield HostOperand(1, False, order, padded, tiles.window.dtype)
    for number in rows:
        vector = vector_layout(task.inputs[number], -1)
        yield HostOperand(number, False, vector, (problem.vector_elements,), "float32")
