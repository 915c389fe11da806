"""Convolutions of channels-last images as products of windows of the image, read where they are, and packed weights.

Images of few channels may also be planes in memory: a window is then one run of places per line and channel.
"""

from __future__ import annotations

import math
from typing import Final

from npu_tensor._util.forks import cached_property
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import reshaped
from npu_tensor.runtime.cpu.bind_loop import number_types, slots_of, with_fixed_numbers
from npu_tensor.runtime.cpu.bound_loops import BoundLoops, Packed, Slot
from npu_tensor.runtime.cpu.cpu_cost import convolution_cost
from npu_tensor.runtime.cpu.gemm import Matrix, Scattered
from npu_tensor.runtime.cpu.kernels import CpuKernel, bind_packing, bind_product
from npu_tensor.runtime.cpu.loop_parts import LoopParts, place_of
from npu_tensor.runtime.cpu.pool import MAX_SLOTS
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.windows import Places, Windows, places_met
from npu_tensor.runtime.cpu.winograd import bind_winograd, suits_winograd
from npu_tensor.task import Cost, Input, Output, Refusal, Task, TensorInput

MOST_ENTRIES: Final = 1 << 26
"""Upper bound on positions times elements of a kernel whose offsets are in a table."""

MOST_TAPS: Final = 512
"""Upper bound on the elements of a depthwise kernel, whose addresses are on the stack."""

MOST_ELEMENTS: Final = 1 << 28
"""Upper bound on the elements of an image with such a table: offsets are int32."""


def convolution_kernel(processor: Processor, task: Task) -> ConvolutionKernel | Refusal:
    """Return the kernel of a convolution, or the reason why there is none."""
    if not task.attributes["channels_last"]:
        return Refusal("compiled for channels-last images only")
    if not math.prod(task.shape):
        return Refusal("there is nothing to compute")
    image, weight, *_ = task.tensors
    entries = math.prod(task.shape[1:-1]) * math.prod(weight.layout.shape[2:])
    is_large = entries > MOST_ENTRIES or math.prod(image.layout.shape[1:]) >= MOST_ELEMENTS
    if is_large and any(map(any, task.attributes["padding"])):
        return Refusal("compiled for smaller images, or images without padding")
    return ConvolutionKernel(processor, task)


class ConvolutionKernel(CpuKernel):
    """A convolution with its epilogue. Depthwise ones are sums of products per channel."""

    def __init__(self, processor: Processor, task: Task) -> None:
        super().__init__(processor, task)
        image, weight, *_ = task.tensors
        self.groups = task.attributes["groups"]
        taps = math.prod(weight.layout.shape[2:])
        self.depthwise = self.groups == image.layout.shape[-1] == weight.layout.shape[0] and taps <= MOST_TAPS
        self.winograd = suits_winograd(task)
        self.name = "depthwise conv" if self.depthwise else "Winograd conv" if self.winograd else "conv"
        if len(task.program.instructions) > 1:
            self.reason += ", fused epilogue"

    @cached_property
    def cost(self) -> Cost:
        return convolution_cost(self.task, self.owner.rates, self.owner.threads, self.depthwise, self.winograd)

    def _bind(self) -> BoundLoops:
        """Bind the product of every group. Operands that vectors cannot read are copied first."""
        task, owner, parts = self.task, self.owner, LoopParts(self.owner, self.task)
        if self.winograd:
            return bind_winograd(owner, task)
        image, weight = task.tensors[:2]
        if not self._is_readable(image):
            image = parts.copy(image)
        rest = [
            source if source.layout is None or self._is_by_rows(source.layout) else parts.copy(source)
            for source in task.inputs[2:]
        ]
        groups, rows, outputs = 1 if self.depthwise else self.groups, math.prod(task.shape[1:-1]), task.shape[-1]
        a, b, depth = self._operands(image, weight, groups)
        slots = MAX_SLOTS - len(task.outputs) - len(rest) - 2
        program, fixed = with_fixed_numbers(task.program, 1 + len(rest), slots)
        numbers = number_types(program)
        product = owner.product(
            (rows, outputs // groups, depth),
            a=a,
            b=b,
            outputs=tuple(self._matrix(output, groups) for output in task.outputs),
            epilogue=program,
            operands=(
                *(self._matrix(source, groups, numbers.get(slot)) for slot, source in enumerate(rest, 1)),
                *(Matrix("int64" if type(number) is int else "float64") for number in fixed),
            ),
            batch=(task.shape[0], groups),
            threads=owner.pool.threads,
        )
        more: list[Slot] = [*slots_of(rest, program, 1, with_offset=True), *fixed]
        from_image, from_weight = place_of(image), place_of(weight)
        packed: Slot = from_weight
        if product.packings:
            *of_image, of_weight = product.packings
            packed = Packed(*from_weight, of_weight)
            for packing in of_image:
                loops, from_image = bind_packing(packing, [from_image], parts.new_item())
                parts.add(loops)
        results = [parts.result(output) for output in task.outputs]
        parts.add(bind_product(product, (from_image, packed, *results, *more)))
        return parts.joined()

    def _is_readable(self, image: TensorInput) -> bool:
        """Return True if the channels or places are neighbours, and offsets from the first element not negative."""
        return (image.layout.strides[-1] == 1 or self._has_planes(image)) and min(image.layout.strides) >= 0

    def _has_planes(self, image: TensorInput) -> bool:
        """Return True if each channel is a plane, and lines of the kernel are runs of at least as many elements."""
        attributes, weight = self.task.attributes, self.task.tensors[1]
        is_inside = not any(map(any, attributes["padding"])) and attributes["dilation"][-1] == 1
        is_wide = self.groups == 1 and 0 < image.layout.shape[-1] <= weight.layout.shape[-1]
        return is_inside and is_wide and image.layout.strides[-1] != 1 == image.layout.strides[-2]

    def _is_by_rows(self, layout: Layout) -> bool:
        """Return True if all places are evenly spaced, and channels neighbours or the same element."""
        return layout.strides[-1] in (0, 1) and self._by_rows(layout) is not None

    def _by_rows(self, layout: Layout) -> Layout | None:
        """Return a layout over the result with all places as one dimension."""
        return reshaped(layout, (layout.shape[0], math.prod(layout.shape[1:-1]), layout.shape[-1]))

    def _matrix(self, tensor: Input | Output, groups: int, number: type | None = None) -> Matrix:
        """Return a result or an operand of the epilogue over batch, groups, rows and columns."""
        if tensor.layout is None or tensor.dtype is None:
            return Matrix("int64" if number in (int, bool) else "float64")
        layout = self._by_rows(tensor.layout)
        assert layout is not None
        batch, row, column = (
            0 if extent == 1 else stride for extent, stride in zip(layout.shape, layout.strides, strict=True)
        )
        return Matrix(tensor.dtype.name, (batch, layout.shape[-1] // groups * column, row, column))

    def _operands(
        self, image: TensorInput, weight: TensorInput, groups: int
    ) -> tuple[Windows | Matrix, Scattered | Matrix, int]:
        """Return the windows, the weight as a matrix (places and channels, outputs), and the length of a sum.

        Images of one place are the rows of a matrix.
        """
        attributes, strides = self.task.attributes, image.layout.strides
        outputs, channels, *kernel = weight.layout.shape
        per_output, per_channel, *per_place = weight.layout.strides
        has_one_place = {*image.layout.shape[1:-1], *kernel} == {1} and not any(map(any, attributes["padding"]))
        if groups == 1 and has_one_place:
            return self._matrix(image, 1), Matrix(weight.dtype.name, (0, 0, per_channel, per_output)), channels
        places = places_met(image.layout, self.task.shape[1:-1], kernel, attributes)
        own = outputs // groups
        rows = Layout((*kernel, channels), (*per_place, per_channel))
        if self._has_planes(image):
            places.insert(0, Places(channels, strides[-1], 1, channels, 1, 1, 0))
            rows, channels = Layout((channels, *kernel), (per_channel, *per_place)), 1
        a = Windows(image.dtype.name, (strides[0], channels), (0, 0), channels, tuple(places), self.depthwise)
        b = Scattered(
            weight.dtype.name,
            (Layout((image.layout.shape[0],), (0,)), Layout((groups,), (own * per_output,))),
            rows,
            Layout((own,), (per_output,)),
        )
        return a, b, math.prod(rows.shape)
