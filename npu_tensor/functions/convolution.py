"""Convolution of tensors (batch, channels, *places); the batch may be omitted.

The places are the last one, two or three dimensions. A convolution is one op, before its bias is added.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from npu_tensor import ops
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.creation import zeros
from npu_tensor.functions.register import composite, wide
from npu_tensor.functions.shape import pad
from npu_tensor.functions.templated import templated
from npu_tensor.ops.conv import CONVOLUTIONS, TRANSPOSED
from npu_tensor.ops.rules import integer_extents
from npu_tensor.tensor import Tensor, record

Sizes = int | Sequence[int]


def each_place(name: str, value: Sizes, places: int, least: int = 1) -> tuple[int, ...]:
    """Return one number per place dimension. Raise ArgumentError for a wrong count or a number below `least`."""
    numbers = integer_extents(value if isinstance(value, (tuple, list)) else (value,))
    if len(numbers) not in (1, places) or min(numbers) < least:
        raise ArgumentError(f"{name} must be one integer or {places}, of {least} or more, not {value!r}")
    return numbers * places if len(numbers) == 1 else numbers


_EXTENTS: Final = ("width", "height, width", "depth, height, width")


def for_places(name: str, *ggml: str) -> Callable[[Callable[[int], Callable[..., Any]]], None]:
    """Publish the functions that the decorated one makes for 1, 2 and 3 place dimensions: <name>1d, <name>2d, <name>3d.

    Docstrings may hold {name}; {extents}, such as "height, width"; and for examples {x}, a tensor of one channel with
    3 elements in each dimension, and {kernel}, a weight with 2.

    Args:
        name: Common part of the names.
        *ggml: GGML's names, in the same order; missing ones have no counterpart.
    """

    def decorate(make: Callable[[int], Callable[..., Any]]) -> None:
        for places, (extents, named) in enumerate(itertools.zip_longest(_EXTENTS, ggml, fillvalue=""), 1):
            function, public = make(places), f"{name}{places}d"
            x, kernel = f"nt.arange({3**places}.0).reshape(1{', 3' * places})", f"nt.ones(1, 1{', 2' * places})"
            function.__doc__ = (function.__doc__ or "").format(name=public, extents=extents, x=x, kernel=kernel)
            composite(public, method=False, ggml=named)(templated(function))

    return decorate


def require_places(input: Tensor, places: int) -> None:
    """Raise ShapeError unless input has `places` dimensions after the channels."""
    if input.ndim not in (places + 1, places + 2):
        raise ShapeError(f"needs (channels, *places) or (batch, channels, *places) with {places} places")


# --- convolution


def _batched(input: Tensor, weight: Tensor, places: int, order: str) -> Tensor:
    """Return the input with a batch. Raise ShapeError for a wrong number of dimensions of either operand."""
    if input.ndim not in (places + 1, places + 2) or weight.ndim != places + 2:
        raise ShapeError(f"needs (batch, channels, *places) and {order}, {places} places")
    return input if input.ndim == places + 2 else input.reshape(1, *input.shape)


def _sum_dtype(input: Tensor) -> str | None:
    """Return the dtype of sums that are rounded after the bias has been added."""
    return "float32" if input.dtype.is_floating_point and input.dtype.itemsize == 2 else None


def _offset(result: Tensor, bias: Tensor | None, input: Tensor) -> Tensor:
    """Add the bias to sums, and give them the form of the input: its dtype, and a batch if it has one."""
    outputs = result.shape[1]
    if bias is not None:
        if bias.shape != (outputs,):
            raise ShapeError(f"bias must have the shape [{outputs}], one element per output, not {list(bias.shape)}")
        result = result + wide(bias).reshape(outputs, *(1 for _ in result.shape[2:]))
    if input.ndim < result.ndim:
        result = result.reshape(*result.shape[1:])
    return result if result.dtype is input.dtype else result.to(input.dtype)


def _around(
    padding: Sizes | str, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[tuple[int, int]]:
    """Return padding before and after each place dimension. "same" keeps the extents, "valid" adds nothing."""
    if padding == "valid":
        padding = 0
    if not isinstance(padding, str):
        return [(width, width) for width in each_place("padding", padding, len(kernel), 0)]
    if padding != "same" or any(step != 1 for step in stride):
        raise ArgumentError(f"padding must be 'valid', 'same' with a stride of 1, or integers, not {padding!r}")
    added = [step * (size - 1) for size, step in zip(kernel, dilation, strict=True)]
    return [(width // 2, width - width // 2) for width in added]


@for_places("conv", "IM2COL", "CONV_2D, CONV_2D_DW", "CONV_3D")
def _convolution(places: int) -> Callable[..., Tensor]:
    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Tensor:
        """Convolve (batch, channels, {extents}) with a kernel, which is not flipped, as in PyTorch.

        Args:
            input: Floats (batch, channels, {extents}).
            weight: Kernel (outputs, channels / groups, {extents}).
            bias: Offset (outputs); None for 0.
            padding: Zeros at both ends of each dimension, "same" or "valid".

        >>> nt.{name}({x}, {kernel})
        """
        batch = _batched(input, weight, places, "(outputs, channels / groups, *places)")
        steps, dilations = each_place("stride", stride, places), each_place("dilation", dilation, places)
        around = tuple(_around(padding, weight.shape[2:], steps, dilations))
        is_depthwise = places == 2 and groups == batch.shape[1] == weight.shape[0]
        convolve = ops.conv_2d_dw if is_depthwise else CONVOLUTIONS[places - 1]
        attributes = steps, around, dilations, groups, False, _sum_dtype(input)
        result = record(convolve.op, (batch, weight), attributes)
        return _offset(result, bias, input)

    return conv


@for_places("conv_transpose", "CONV_TRANSPOSE_1D", "CONV_TRANSPOSE_2D")
def _transposed_convolution(places: int) -> Callable[..., Tensor]:
    def conv_transpose(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
    ) -> Tensor:
        """Compute the transpose of a convolution, which is its gradient.

        Args:
            input: Floats (batch, channels, {extents}).
            weight: Kernel (channels, outputs / groups, {extents}).
            bias: Offset (outputs); None for 0.
            padding: Elements removed at both ends of each dimension.
            output_padding: Elements added at the end of each dimension.

        >>> nt.{name}({kernel}, {kernel})
        """
        batch = _batched(input, weight, places, "(channels, outputs / groups, *places)")
        steps, dilations = each_place("stride", stride, places), each_place("dilation", dilation, places)
        cropped = each_place("padding", padding, places, 0)
        added = each_place("output_padding", output_padding, places, 0)
        if any(extra >= max(both) for extra, *both in zip(added, steps, dilations, strict=True)):
            raise ArgumentError(f"output_padding must be less than stride or dilation, not {output_padding!r}")
        sizes = zip(batch.shape[2:], weight.shape[2:], steps, dilations, cropped, added, strict=True)
        extents = tuple(
            (count - 1) * step + gap * (size - 1) + 1 + extra - 2 * crop
            for count, size, step, gap, crop, extra in sizes
        )
        around = tuple((crop, crop) for crop in cropped)
        result = TRANSPOSED[places - 1](
            batch, weight, extents, steps, around, dilations, groups, out_dtype=_sum_dtype(input)
        )
        return _offset(result, bias, input)

    return conv_transpose


@composite(method=False, ggml="IM2COL")
def unfold(input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """Gather the elements under a kernel at each of its positions.

    Args:
        input: Tensor (batch, channels, height, width).

    Returns:
        Tensor (batch, channels * elements of the kernel, positions).

    >>> nt.unfold(nt.arange(9.0).reshape(1, 1, 3, 3), 2)
    """
    require_places(input, 2)
    *lead, channels = input.shape[:-2]
    columns = columns_of(input, each_place("kernel_size", kernel_size, 2), stride, padding, dilation)
    height, width, *counts = columns.shape[-4:]
    return columns.reshape(*lead, channels * height * width, math.prod(counts))


def columns_of(input: Tensor, kernel: Sequence[int], stride: Sizes, padding: Sizes, dilation: Sizes) -> Tensor:
    """Return the elements at each place of a kernel for all its positions: (*lead, *kernel, *positions)."""
    places = len(kernel)
    steps, dilations = each_place("stride", stride, places), each_place("dilation", dilation, places)
    around, extents, counts, widths = _around(padding, kernel, steps, dilations), input.shape[-places:], [], list[int]()
    for extent, size, step, gap, (before, after) in zip(extents, kernel, steps, dilations, around, strict=True):
        span = gap * (size - 1) + 1
        if extent + before + after < span:
            raise ShapeError(f"a kernel of extent {span} does not fit {extent} with padding {(before, after)}")
        counts.append((extent + before + after - span) // step + 1)
        widths = [before, max((counts[-1] - 1) * step + span - extent - before, 0), *widths]
    view = pad(input, widths) if any(widths) else input
    lead = view.ndim - places
    for dim, place in enumerate(zip(counts, kernel, steps, dilations, strict=True), lead):
        view = ops.windows(view, dim, *place)
    dims = range(view.ndim)
    return ops.permute(view, *dims[:lead], *dims[lead + places :], *dims[lead : lead + places])


@composite(method=False, ggml="COL2IM_1D")
def fold(
    input: Tensor, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """Add columns where `unfold` took them from: the transpose of `unfold`.

    Args:
        input: Tensor (batch, channels * elements of a kernel, positions).
        output_size: Height and width of the result.

    Returns:
        Tensor (batch, channels, height, width).

    >>> nt.fold(nt.ones(1, 4, 4), 3, 2)
    """
    if input.ndim not in (2, 3):
        raise ShapeError(f"needs (channels * elements, positions) or a batch of it, not {list(input.shape)}")
    extents, kernel = each_place("output_size", output_size, 2), each_place("kernel_size", kernel_size, 2)
    steps, dilations = each_place("stride", stride, 2), each_place("dilation", dilation, 2)
    widths = each_place("padding", padding, 2, 0)
    spans = [step * (size - 1) + 1 for size, step in zip(kernel, dilations, strict=True)]
    counts = [
        (extent + 2 * width - span) // step + 1
        for extent, width, span, step in zip(extents, widths, spans, steps, strict=True)
    ]
    *lead, rows, positions = input.shape
    if rows % math.prod(kernel) or positions != math.prod(counts):
        expected = f"(channels * {math.prod(kernel)}, {math.prod(counts)})"
        raise ShapeError(f"needs {expected} for an output of {list(extents)}, not {list(input.shape)}")
    columns = wide(input).reshape(*lead, rows // math.prod(kernel), *kernel, *counts)
    around = [extent + 2 * width for extent, width in zip(extents, widths, strict=True)]
    result = zeros(*lead, columns.shape[-5], *around, dtype=columns.dtype)
    for place in np.ndindex(*kernel):
        starts = (offset * gap for offset, gap in zip(place, dilations, strict=True))
        sizes = zip(starts, counts, steps, strict=True)
        bounds = tuple(slice(start, start + (count - 1) * step + 1, step) for start, count, step in sizes)
        part = result[(..., *bounds)]
        part._assign(part + columns[(..., *place, slice(None), slice(None))])
    (top, left), (height, width) = widths, extents
    return result[..., top : top + height, left : left + width].to(input.dtype)
