"""Family of 2-d convolutions with channels last, float32 or int32 sums and an element-wise epilogue.

bfloat16 and int8 are native. If the target allows it, float32 is emulated or rounded to bfloat16, and float16 passes
through bfloat16. Images with whole pieces of channels are read in place. The host stores weights in the order of the
stream.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.dataflow.checks.limits import ITERATIONS, LIMITS, WORD
from npu_tensor.kernels.conv.design import Code, design
from npu_tensor.kernels.conv.residual import split
from npu_tensor.kernels.conv.tiling import (
    DEPTH,
    HEAD_WORDS,
    LEAST_OUTPUTS,
    MOST_OUTPUTS,
    ConvProblem,
    ConvTiling,
    Pair,
    ranked,
)
from npu_tensor.kernels.gemm import MOST_APART, MOST_TRANSFERS, RESULTS, operand_dtype, vector_layout
from npu_tensor.kernels.gemm.epilogue import MOST_OPERANDS, PROGRAM_BYTES, Reads, epilogue
from npu_tensor.kernels.gemm.tiling import SUMS, WHOLE_WORDS
from npu_tensor.kernels.offer import HostOperand, Located, Offer, Target, first_offer, in_place, packed
from npu_tensor.ops.declare import Layout
from npu_tensor.task import Refusal, Task, TensorInput

__all__ = ["claim"]

Array = np.ndarray[Any, Any]

LONGEST: Final = 1 << 15
"""Upper bound on the extents of an image: two fit into a word."""


class WeightOrder(NamedTuple):
    """Order of weights in the host buffer: objects [channels / 8][kernel][outputs / t][8][t] of each group.

    A gap for row operands and a head precede the weights of an object.

    Attributes:
        layout: Layout of the weights (outputs, channels, *kernel).
        dtype: Dtype of the host buffer.
        channels: Channels in the host buffer. Further ones are zeros.
        depth: Channels of an object.
        fold: Rows and columns of the kernel that are joined to the channels.
        starts: First output of each group.
        outputs: Outputs of a group.
        t: Outputs of a block product.
        gap: Words of row operands.
        head: Words of the head.
    """

    layout: Layout
    dtype: str
    channels: int
    depth: int
    fold: Pair
    starts: tuple[int, ...]
    outputs: int
    t: int
    gap: int
    head: tuple[int, ...]

    def write(self, elements: Array, memory: Array) -> None:
        """Fill the host buffer (bytes) from the flat buffer of the weights."""
        strides = tuple(stride * elements.itemsize for stride in self.layout.strides)
        weights = np.lib.stride_tricks.as_strided(elements[self.layout.offset :], self.layout.shape, strides)
        outputs, channels, rows, columns = weights.shape
        down, across = self.fold
        tall, wide = -(-rows // down), -(-columns // across)
        extents = (self.starts[-1] + self.outputs, self.channels // (down * across), tall * down, wide * across)
        padded = np.zeros(extents, self.dtype)
        with np.errstate(all="ignore"):
            padded[:outputs, :channels, :rows, :columns] = weights
        folded = padded.reshape(*extents[:2], tall, down, wide, across).transpose(0, 3, 5, 1, 2, 4)
        groups = np.stack([folded[start : start + self.outputs] for start in self.starts])
        blocks = groups.reshape(len(groups), -1, self.t, self.channels // DEPTH, DEPTH, tall * wide)
        ordered = np.ascontiguousarray(blocks.transpose(0, 3, 5, 1, 4, 2)).view(np.uint8)
        head = np.zeros(self.gap + HEAD_WORDS, np.int32)
        head[self.gap : self.gap + len(self.head)] = np.array(self.head, np.uint32).view(np.int32)
        count = len(groups) * (self.channels // self.depth)
        objects = memory[: count * head.nbytes + ordered.nbytes].reshape(count, -1)
        objects[:, : head.nbytes] = head.view(np.uint8)
        objects[:, head.nbytes :] = ordered.reshape(count, -1)


def claim(task: Task, target: Target) -> Offer | Refusal:
    """Return a design for a conv task, or the reason why there is none."""
    assert task.call is not None
    attributes = task.attributes
    if task.call.op.name != "conv_2d":
        return Refusal("no NPU kernel for this op")
    if not attributes["channels_last"]:
        return Refusal("conv_2d: an image with channels first")
    if len(task.outputs) != 1:
        return Refusal("conv_2d: several results")
    if not all(0 <= number < 256 for pair in attributes["padding"] for number in pair):
        return Refusal(f"conv_2d: a padding of {list(attributes['padding'])}")
    operand = operand_dtype(task.tensors[0].dtype, target)
    if isinstance(operand, Refusal):
        return operand
    result = RESULTS.get(task.outputs[0].dtype.name)
    if target.array.blocks[operand].s != DEPTH or result is None:
        return Refusal(f"conv_2d: {operand} operands and a result of {task.outputs[0].dtype.name}")
    parts = split(task, target.array.arch)
    if isinstance(parts, Refusal):
        return parts
    room = PROGRAM_BYTES - (parts.code.program_bytes if parts else 0)
    code = epilogue(parts.task if parts else task, target.array.arch, SUMS[operand], room)
    if isinstance(code, Refusal):
        return code
    first, reads = code
    if reads.columns:
        return Refusal("conv_2d: an epilogue with one number per pixel")
    if parts is None:
        return _offer(task, target, operand, result, Code(first, None), reads, None)
    if parts.dtype != ("bfloat16" if operand == "bfp16" else operand):
        return Refusal(f"conv_2d: {operand} operands and another image of {parts.dtype}")
    if len(reads.rows) >= MOST_OPERANDS:
        return Refusal(f"conv_2d: an epilogue with {len(reads.rows)} operands and another image")
    return _offer(task, target, operand, result, Code(first, parts.code), reads, parts.number)


def _offer(
    task: Task, target: Target, operand: str, result: str, code: Code, reads: Reads, residual: int | None
) -> Offer | Refusal:
    image, weights = (source.layout for source in task.tensors[:2])
    attributes = task.attributes
    outputs, channels, *kernel = weights.shape
    if 0 in weights.shape or 0 in image.shape:
        return Refusal("a sum of no products")
    image, stride, dilation = _without_gaps(task, image, kernel)
    batch, *extents, _ = image.shape
    _, *places, _ = task.shape
    if max(*extents, *places) >= LONGEST:
        return Refusal(f"conv_2d: an image of {extents[0]} x {extents[1]}")
    groups, most_outputs = attributes["groups"], MOST_OUTPUTS
    if groups > 1:
        most_outputs = math.gcd(outputs // groups, MOST_OUTPUTS)
    problem = ConvProblem(
        target.array.arch,
        target.columns,
        operand,
        result,
        _pair(kernel),
        stride,
        dilation,
        0,
        most_outputs,
        len(reads.rows),
        code.epilogue.vector_cycles,
        code.residual.vector_cycles if code.residual else 0,
        0,
        -(-outputs // WHOLE_WORDS) * WHOLE_WORDS,
        groups,
        batch,
        _pair(extents),
        _pair(places),
        _pair([before for before, _ in attributes["padding"]]),
    )
    problem = problem._replace(channels=-(-channels // problem.piece) * problem.piece)
    problem, image, fold = _folded(problem, image, any(map(any, attributes["padding"])))
    problem = problem._replace(read=math.gcd(problem.channels, problem.most_read))
    if problem.channels // problem.read > ITERATIONS:
        most = problem.most_read
        unit = math.lcm(most, math.prod(fold))
        problem = problem._replace(channels=-(-problem.channels // unit) * unit, read=most)
    if problem.channels // problem.read > ITERATIONS:
        return Refusal(f"conv_2d: {problem.channels} channels; {ITERATIONS * problem.most_read} are the most")
    # A core needs the channels of one group only, which the host does not pad.
    if groups > 1 and (problem.channels != channels or most_outputs < LEAST_OUTPUTS):
        return Refusal(f"conv_2d: {groups} groups of {channels} channels and {outputs // groups} outputs")
    tilings = ranked(problem)
    if not tilings:
        return Refusal(f"conv_2d: a kernel of {kernel[0]} x {kernel[1]} does not fit a core")
    return first_offer(partial(_tiled, task, problem, image, fold, code, reads, residual, tiling) for tiling in tilings)


def _pair(numbers: Any) -> Pair:
    first, second = numbers
    return first, second


def _without_gaps(task: Task, image: Layout, kernel: list[int]) -> tuple[Layout, Pair, Pair]:
    """Return the image, stride and dilation without the rows and columns that a kernel of one element skips."""
    attributes = task.attributes
    shape, strides = list(image.shape), list(image.strides)
    stride, dilation = list(attributes["stride"]), list(attributes["dilation"])
    for axis, size in enumerate(kernel):
        if size == 1:
            dilation[axis] = 1
        if size == 1 and not any(attributes["padding"][axis]):
            shape[axis + 1] = task.shape[axis + 1]
            strides[axis + 1] *= stride[axis]
            stride[axis] = 1
    return Layout(tuple(shape), tuple(strides), image.offset), _pair(stride), _pair(dilation)


def _folded(problem: ConvProblem, image: Layout, pads: bool) -> tuple[ConvProblem, Layout, Pair]:
    """Join rows and columns to the channels, as many as a stride is wide, if that takes fewer products.

    Returns:
        The problem, the image (batch, rows, columns, *fold, channels), and the rows and columns that are joined.
    """
    down, across = fold = problem.stride
    (batch, _, _, channels), (step, row, pixel, channel) = image.shape, image.strides
    least = problem.piece // math.gcd(problem.piece, down * across)
    depth = -(-channels // least) * least * down * across
    kernel = _pair([-(-size // each) for size, each in zip(problem.kernel, fold, strict=True)])
    extents = _pair([count - 1 + size for count, size in zip(problem.places, kernel, strict=True)])
    fits = all(size * each <= extent for size, each, extent in zip(extents, fold, problem.image, strict=True))
    is_plain = fits and not pads and problem.dilation == (1, 1) and problem.groups == 1
    if not is_plain or depth * math.prod(kernel) >= problem.channels * problem.taps:
        return problem, image, (1, 1)
    strides = (step, row * down, pixel * across, row, pixel, channel)
    folded = Layout((batch, *extents, *fold, channels), strides, image.offset)
    return problem._replace(kernel=kernel, stride=(1, 1), channels=depth, image=extents), folded, fold


def _tiled(
    task: Task,
    problem: ConvProblem,
    image: Layout,
    fold: Pair,
    code: Code,
    reads: Reads,
    residual: int | None,
    tiling: ConvTiling,
) -> Offer | Refusal:
    groups, boxes = tiling.work(problem)
    transfers = groups * boxes * (4 + problem.row_operands + (residual is not None))
    if transfers > MOST_TRANSFERS:
        return Refusal(f"conv_2d: {transfers} transfers in one run; {MOST_TRANSFERS} are the most")
    rows, columns, outputs = tiling.padded(problem)
    needed = (*tiling.pixels(problem), problem.groups * problem.channels)
    x, located = _images(0, task.tensors[0], image, needed, True, problem)
    size, result_size = problem.product.sizes
    # The longest strides lead from row to row of the image, and from core to core of the result.
    farthest = max(located.strides[1] * size, tiling.tile(problem)[0] * columns * outputs * result_size)
    if farthest > LIMITS["shim"].stride * WORD:
        return Refusal("conv_2d: rows lie too far apart for the DMA")
    weights = task.tensors[1].layout
    starts = tuple(min(group * tiling.outputs, outputs - tiling.outputs) for group in range(groups))
    order = WeightOrder(
        weights,
        problem.product.stored,
        problem.channels,
        tiling.channels,
        fold,
        starts,
        tiling.outputs,
        problem.product.blocks.t,
        problem.row_operands * tiling.outputs,
        tuple(tiling.head(problem)),
    )
    elements = groups * (problem.channels // tiling.channels) * tiling.weight_bytes(problem) // size
    vectors = [
        HostOperand(
            number,
            False,
            vector_layout(task.inputs[number], -1),
            (outputs,),
            reads.word(number, problem.product.word),
        )
        for number in reads.rows
    ]
    added: list[tuple[HostOperand, Located]] = []
    if residual is not None:
        source = task.inputs[residual]
        assert isinstance(source, TensorInput)
        # Boxes are as large as those of the image, and begin where their results do.
        down, across = (last + size for last, size in zip(tiling.last(problem), tiling.pixels(problem), strict=True))
        depth = starts[-1] + tiling.residual_objects(problem) * problem.read
        added = [_images(residual, source, source.layout, (down, across, depth), False, problem)]
    shape = (problem.batch, rows, columns, outputs)
    scalars = tuple((number, reads.word(number, problem.product.word)) for number in reads.scalars)
    scalars += code.residual.scalars if code.residual else ()
    return Offer(
        "conv",
        _reason(task, problem, tiling),
        partial(design, problem, tiling, code, located, added[0][1] if added else None),
        (
            x,
            HostOperand(1, False, weights, (elements,), problem.product.stored, order=order),
            *vectors,
            *[host for host, _ in added],
            HostOperand(0, True, task.outputs[0].layout, shape, problem.result),
        ),
        scalars,
        problem.operand == "bfp16",
    )


def _images(
    number: int, operand: TensorInput, layout: Layout, needed: tuple[int, int, int], whole: bool, problem: ConvProblem
) -> tuple[HostOperand, Located]:
    """Return the host buffer of images, in place if possible, and their location.

    Args:
        number: Index of the task's input.
        operand: Input of the task.
        layout: Location of the images. Dimensions before the last may be parts of the channels.
        needed: Rows, columns and channels up to which transfers read an image.
        whole: True if channels after the last one must be zero.
        problem: The convolution.
    """
    batch, *extents, last = layout.shape
    (step, row, pixel, *_, channel), stored, fold = layout.strides, problem.product.stored, extents[2:]
    extents = [*extents[:2], math.prod(fold) * last]
    tall, wide, channels = (max(extent, size) for extent, size in zip(extents, needed, strict=True))
    elements = layout.offset + (batch - 1) * step + (tall - 1) * row + (wide - 1) * pixel + channels
    size = problem.product.sizes[0]
    even = all(each >= 0 and each * size % WORD == 0 for each in (layout.offset, step, row, pixel))
    fits = operand.dtype.name == stored and channel == 1 and not fold and not (whole and channels != last)
    # The stride of a dimension that is broadcast, or of one element, can be 0, which a DMA does not have here.
    near = min(row, pixel) > 0 and max(row, pixel) * size <= LIMITS["shim"].stride * WORD
    if fits and even and near and elements <= MOST_APART * math.prod(layout.shape):
        return in_place(HostOperand(number, False, layout, (), stored), elements)
    host, located = packed(
        HostOperand(number, False, layout, (batch, tall, wide, *fold, channels // math.prod(fold)), stored)
    )
    return host, located._replace(strides=located.strides[:3])


def _reason(task: Task, problem: ConvProblem, tiling: ConvTiling) -> str:
    """Describe the design for `explain`."""
    rows, columns = tiling.tile(problem)
    factors = "bfp16 (eight bfloat16 numbers share an exponent)" if problem.operand == "bfp16" else problem.operand
    parts = [f"{factors} products; {rows} x {columns} pixels and {tiling.outputs} outputs per core"]
    stored = task.tensors[0].dtype
    if stored.name != problem.product.stored:
        parts.append(f"{stored.name} operands become {problem.product.stored}")
    return "; ".join(parts)
