"""Convolution and pooling of tensors (batch, channels, *places); the batch may be left out.

The places are the last one or two dimensions. What an element of a kernel meets at all its positions is one strided
slice of the input, and a convolution is a matrix product with these. A pool is taken along one dimension after the
other: of few elements as the maximum or the sum of such slices, of many as a reduction of windows, which are a view.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import bool_
from npu_tensor.errors import ArgumentError, DTypeError, ShapeError
from npu_tensor.functions.neural import require_float, wide
from npu_tensor.functions.register import composite
from npu_tensor.functions.shape import joined, pad
from npu_tensor.ops.rules import integer_extents
from npu_tensor.tensor import Tensor, from_array

__all__ = ["Sizes", "columns_of", "each_place", "require_places"]

Sizes = int | Sequence[int]


def each_place(name: str, value: Sizes, places: int, least: int = 1) -> tuple[int, ...]:
    """One number for each place dimension. ArgumentError for another number of them, or for one below `least`."""
    numbers = integer_extents(value if isinstance(value, (tuple, list)) else (value,))
    if len(numbers) not in (1, places) or min(numbers) < least:
        raise ArgumentError(f"{name} must be one integer or {places}, of {least} or more, not {value!r}")
    return numbers * places if len(numbers) == 1 else numbers


# A pool along a dimension is made of slices up to this many elements: where each second element at least is read, by
# whole vectors, and where they lie further apart. Longer windows are faster as rows.
MOST_SLICES: Final = (24, 8)


# A depthwise convolution with a kernel up to this many elements is a sum of slices, one for each; a product would leave
# most of its tiles empty.
MOST_TERMS: Final = 49


class _Framed(NamedTuple):
    """The input with what is around it, as far as a kernel gets, and how many positions that has in each dimension."""

    tensor: Tensor
    counts: tuple[int, ...]


def _framed(
    input: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    fill: float = 0,
    ceil_mode: bool = False,
) -> _Framed:
    """The input with `fill` around it, for a kernel; see `_count` for ceil_mode."""
    places = len(kernel)
    extents = input.shape[-places:]
    spans = [step * (size - 1) + 1 for size, step in zip(kernel, dilation, strict=True)]
    counts = tuple(map(functools.partial(_count, ceil_mode), extents, spans, stride, padding))
    if min(counts) < 1:
        raise ShapeError(f"a kernel of extents {spans} does not fit {list(extents)} with padding {list(padding)}")
    widths = []
    for extent, span, step, count, (before, _) in zip(extents, spans, stride, counts, padding, strict=True):
        widths += [max((count - 1) * step + span - extent - before, 0), before]
    return _Framed(_padded(input, widths[::-1], fill), counts)


def _padded(input: Tensor, widths: Sequence[int], fill: float = 0) -> Tensor:
    return pad(input, widths, value=fill) if any(widths) else input


def _windows(framed: _Framed, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Tensor:
    """What each element of a kernel meets at each of its positions: a view (*lead, *kernel, *counts)."""
    view = framed.tensor
    places = len(kernel)
    lead = view.ndim - places
    for dim, place in enumerate(zip(framed.counts, kernel, stride, dilation, strict=True), lead):
        view = ops.windows(view, dim, *place)
    dims = range(view.ndim)
    return ops.permute(view, *dims[:lead], *dims[lead + places :], *dims[lead : lead + places])


def _bounds(start: int, count: int, step: int) -> tuple[int, int, int]:
    return start, start + (count - 1) * step + 1, step


def _count(ceil_mode: bool, extent: int, span: int, stride: int, padding: tuple[int, int]) -> int:
    """Positions of a window along a dimension. ceil_mode: also the one that begins inside and ends beyond."""
    rest = extent + sum(padding) - span
    if not ceil_mode:
        return rest // stride + 1
    count = -(-rest // stride) + 1
    return count - ((count - 1) * stride >= extent + padding[0])


# --- convolution


def _convolved(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes | str,
    dilation: Sizes,
    groups: int,
    places: int,
) -> Tensor:
    if input.ndim not in (places + 1, places + 2) or weight.ndim != places + 2:
        raise ShapeError(f"needs (batch, channels, *places) and (outputs, channels / groups, *places), {places} places")
    *lead, channels = input.shape[:-places]
    outputs, per_group, *kernel = weight.shape
    if groups < 1 or outputs % groups:
        raise ShapeError(f"groups must divide the {outputs} outputs of the weight, not be {groups}")
    if channels != per_group * groups:
        raise ShapeError(f"input has {channels} channels, but weight takes {per_group * groups}, with groups={groups}")
    if bias is not None and bias.shape != (outputs,):
        raise ShapeError(f"bias must have the shape [{outputs}], one element per output, not {list(bias.shape)}")
    steps, dilations = each_place("stride", stride, places), each_place("dilation", dilation, places)
    batch, elements = math.prod(lead), math.prod(kernel)
    grouped = input.reshape(batch, groups, per_group, *input.shape[-places:])
    framed = _framed(grouped, kernel, steps, _around(padding, kernel, steps, dilations), dilations)
    columns = _windows(framed, kernel, steps, dilations)
    if per_group == 1 and groups == outputs and elements <= MOST_TERMS:
        products = _by_channel(columns, weight)
    else:
        products = ops.contract(
            weight.reshape(groups, outputs // groups, per_group * elements),
            columns.reshape(batch, groups, per_group * elements, math.prod(framed.counts)),
            "float32" if input.dtype.is_floating_point and input.dtype.itemsize == 2 else None,
        )
    result = products.reshape(*lead, outputs, *framed.counts)
    if bias is not None:
        result = result + wide(bias).reshape(outputs, *(1 for _ in kernel))
    return result.to(input.dtype)


def _by_channel(columns: Tensor, weight: Tensor) -> Tensor:
    """A depthwise convolution: each channel with weights of its own (channels, 1, *kernel).

    columns: as `_windows` returns them, (batch, channels, 1, *kernel, *counts).
    """
    every = slice(None), slice(None), slice(None)
    shape = weight.shape[:2] + (1,) * (weight.ndim - 2)
    places = np.ndindex(*weight.shape[2:])
    terms = [wide(columns[every + place]) * wide(weight[(..., *place)].reshape(shape)) for place in places]
    return functools.reduce(ops.add, terms)


def _around(
    padding: Sizes | str, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[tuple[int, int]]:
    """Elements before and after each place dimension. "same" keeps the extents, "valid" adds nothing."""
    if padding == "valid":
        padding = 0
    if not isinstance(padding, str):
        return [(width, width) for width in each_place("padding", padding, len(kernel), 0)]
    if padding != "same" or any(step != 1 for step in stride):
        raise ArgumentError(f"padding must be 'valid', 'same' with a stride of 1, or integers, not {padding!r}")
    added = [step * (size - 1) for size, step in zip(kernel, dilation, strict=True)]
    return [(width // 2, width - width // 2) for width in added]


@composite(method=False, ggml="IM2COL")
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of (batch, channels, width) with weight (outputs, channels / groups, width), plus bias (outputs,).

    padding: zeros at both ends, "same" or "valid". The kernel is not flipped, as in PyTorch.

    >>> nt.conv1d(nt.arange(5.0).reshape(1, 1, 5), nt.tensor([[[1.0, -1.0]]]))
    """
    return _convolved(input, weight, bias, stride, padding, dilation, groups, 1)


@composite(method=False, ggml="CONV_2D, CONV_2D_DW")
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of (batch, channels, height, width) with weight (outputs, channels / groups, height, width).

    bias (outputs,) is added. padding: zeros on all sides, "same" or "valid". The kernel is not flipped, as in PyTorch.

    >>> nt.conv2d(nt.arange(9.0).reshape(1, 1, 3, 3), nt.ones(1, 1, 2, 2))
    """
    return _convolved(input, weight, bias, stride, padding, dilation, groups, 2)


def _transposed(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    output_padding: Sizes,
    groups: int,
    dilation: Sizes,
    places: int,
) -> Tensor:
    """One convolution for each position between two steps, whose kernel is every stride-th element, interleaved."""
    if input.ndim not in (places + 1, places + 2) or weight.ndim != places + 2:
        raise ShapeError(f"needs (batch, channels, *places) and (channels, outputs / groups, *places), {places} places")
    *lead, channels = input.shape[:-places]
    outputs = weight.shape[1] * groups
    if groups < 1 or channels != weight.shape[0] or channels % groups:
        raise ShapeError(f"a weight for {weight.shape[0]} channels in {groups} groups does not fit {channels} channels")
    steps, dilations = each_place("stride", stride, places), each_place("dilation", dilation, places)
    cropped, added = each_place("padding", padding, places, 0), each_place("output_padding", output_padding, places, 0)
    if any(extra >= max(both) for extra, *both in zip(added, steps, dilations, strict=True)):
        raise ArgumentError(f"output_padding must be less than stride or dilation, not {output_padding!r}")
    front, terms = list(weight.shape[:2]), []
    widths: list[int] = []
    for dim, (gap, step, crop, extra) in enumerate(zip(dilations, steps, cropped, added, strict=True)):
        size, extent = weight.shape[2 + dim], input.shape[dim - places]
        span = gap * (size - 1) + 1
        terms.append(-(-span // step))
        front += [terms[-1], step]
        end = (extent - 1) * step + span + extra - crop
        widths = [-crop, end - (extent + terms[-1] - 1) * step, *widths]
    if min(terms) < 1:
        raise ShapeError(f"a kernel of extents {list(weight.shape[2:])}")
    kernel = _dilated(weight, dilations)
    ends = [count * step - extent for count, step, extent in zip(terms, steps, kernel.shape[2:], strict=True)]
    kernel = _padded(kernel, [width for end in reversed(ends) for width in (0, end)]).reshape(*front)
    kernel = kernel.flip(tuple(range(2, kernel.ndim, 2)))
    # (groups, channels, outputs, *(terms, step)) to (groups, outputs, *step, channels, *terms)
    kernel = kernel.reshape(groups, channels // groups, *kernel.shape[1:])
    kernel = kernel.permute(0, 2, *range(4, kernel.ndim, 2), 1, *range(3, kernel.ndim, 2))
    kernel = kernel.reshape(outputs * math.prod(steps), channels // groups, *terms)
    result = _convolved(wide(input), wide(kernel), None, 1, [count - 1 for count in terms], 1, groups, places)
    extents = result.shape[-places:]
    result = result.reshape(*lead, outputs, *steps, *extents)
    dims, first = range(len(lead) + 1), len(lead) + 1
    result = result.permute(*dims, *(dim for place in range(first, first + places) for dim in (place + places, place)))
    whole = (extent * step for extent, step in zip(extents, steps, strict=True))
    result = _padded(result.reshape(*lead, outputs, *whole), widths)
    if bias is not None:
        result = result + wide(bias).reshape(outputs, *(1 for _ in extents))
    return result.to(input.dtype)


def _dilated(weight: Tensor, dilations: Sequence[int]) -> Tensor:
    """A kernel (.., *places) with dilation - 1 zeros between its elements."""
    for dim, gap in enumerate(dilations, 2):
        if gap > 1:
            after = (0, 0) * (weight.ndim - dim - 1)
            apart = pad(weight.unsqueeze(dim + 1), (*after, 0, gap - 1))
            weight = apart.flatten(dim, dim + 1).narrow(dim, 0, gap * (weight.shape[dim] - 1) + 1)
    return weight


@composite(method=False, ggml="CONV_TRANSPOSE_1D")
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transpose of `conv1d`, its gradient, with weight (channels, outputs / groups, width).

    padding: elements less at both ends; output_padding: elements more at the end.

    >>> nt.conv_transpose1d(nt.tensor([[[1.0, 2.0]]]), nt.tensor([[[1.0, 10.0]]]), stride=2)
    """
    return _transposed(input, weight, bias, stride, padding, output_padding, groups, dilation, 1)


@composite(method=False, ggml="CONV_TRANSPOSE_2D")
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transpose of `conv2d`, its gradient, with weight (channels, outputs / groups, height, width).

    padding: elements less on all sides; output_padding: elements more at the ends.

    >>> nt.conv_transpose2d(nt.tensor([[[[1.0, 2.0]]]]), nt.ones(1, 1, 2, 2), stride=2)
    """
    return _transposed(input, weight, bias, stride, padding, output_padding, groups, dilation, 2)


@composite(method=False, ggml="IM2COL")
def unfold(
    input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """What a kernel over (batch, channels, height, width) meets: (batch, channels * elements of it, positions).

    >>> nt.unfold(nt.arange(9.0).reshape(1, 1, 3, 3), 2)
    """
    require_places(input, 2)
    *lead, channels = input.shape[:-2]
    columns = columns_of(input, each_place("kernel_size", kernel_size, 2), stride, padding, dilation)
    height, width, *counts = columns.shape[-4:]
    return columns.reshape(*lead, channels * height * width, math.prod(counts))


def columns_of(input: Tensor, kernel: Sequence[int], stride: Sizes, padding: Sizes, dilation: Sizes) -> Tensor:
    """What each element of a kernel meets at each of its positions: (*lead, *kernel, *positions)."""
    places = len(kernel)
    steps, dilations = each_place("stride", stride, places), each_place("dilation", dilation, places)
    framed = _framed(input, kernel, steps, _around(padding, kernel, steps, dilations), dilations)
    return _windows(framed, kernel, steps, dilations)


# --- pooling


def require_places(input: Tensor, places: int) -> None:
    """ShapeError for another number of place dimensions."""
    if input.ndim not in (places + 1, places + 2):
        raise ShapeError(f"needs (channels, *places) or (batch, channels, *places) with {places} places")


def _kernel_and_steps(kernel_size: Sizes, stride: Sizes | None, places: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The extents of a pool's windows and the steps between them, which are their extents where no stride is given."""
    kernel = each_place("kernel_size", kernel_size, places)
    return kernel, kernel if stride is None else each_place("stride", stride, places)


def _pooled(
    framed: _Framed,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    join: Callable[[Tensor, Tensor], Tensor],
    reduce: Callable[[Tensor, int], Tensor],
) -> Tensor:
    """All elements of each window as one. join: the op that does this to two tensors; reduce: to a dimension."""
    result = framed.tensor
    lead = result.ndim - len(kernel)
    dims = range(lead, result.ndim)
    for dim, size, step, gap, count in zip(dims, kernel, stride, dilation, framed.counts, strict=True):
        if size > MOST_SLICES[step > 2]:
            result = reduce(ops.windows(result, dim, count, size, step, gap), -1)
            continue
        whole = [(0, extent, 1) for extent in result.shape]
        bounds = [(*whole[:dim], _bounds(n * gap, count, step), *whole[dim + 1 :]) for n in range(size)]
        result = functools.reduce(join, [ops.slice_(result, each) for each in bounds])
    return result


def _half_padding(padding: Sizes, kernel: Sequence[int]) -> list[tuple[int, int]]:
    widths = each_place("padding", padding, len(kernel), 0)
    if any(2 * width > size for width, size in zip(widths, kernel, strict=True)):
        raise ArgumentError(f"padding must be at most half of the kernel's extents {list(kernel)}, not {padding!r}")
    return [(width, width) for width in widths]


def _largest(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    places: int,
) -> Tensor:
    require_places(input, places)
    if input.dtype is bool_:
        raise DTypeError("not defined for bool; convert with .to(...)")
    kernel, steps = _kernel_and_steps(kernel_size, stride, places)
    lowest = -math.inf if input.dtype.is_floating_point else np.iinfo(input.dtype.numpy).min
    around, dilations = _half_padding(padding, kernel), each_place("dilation", dilation, places)
    framed = _framed(input, kernel, steps, around, dilations, lowest, ceil_mode)
    return _pooled(framed, kernel, steps, dilations, ops.maximum, Tensor.amax)


@composite(method=False, ggml="POOL_1D")
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest element of each window of (batch, channels, width); stride defaults to kernel_size."""
    return _largest(input, kernel_size, stride, padding, dilation, ceil_mode, 1)


@composite(method=False, ggml="POOL_2D")
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest element of each window of (batch, channels, height, width); stride defaults to kernel_size.

    ceil_mode: windows that begin inside the input may end beyond it.

    >>> nt.max_pool2d(nt.arange(16.0).reshape(1, 1, 4, 4), 2)
    """
    return _largest(input, kernel_size, stride, padding, dilation, ceil_mode, 2)


def _averaged(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    places: int,
    divisor: int | None = None,
) -> Tensor:
    require_places(input, places)
    dtype = require_float(input)
    if divisor == 0:
        raise ArgumentError("divisor_override must not be 0")
    kernel, steps = _kernel_and_steps(kernel_size, stride, places)
    around = _half_padding(padding, kernel)
    framed = _framed(wide(input), kernel, steps, around, (1,) * places, 0, ceil_mode)
    total = _pooled(framed, kernel, steps, (1,) * places, ops.add, Tensor.sum)
    if divisor is not None:
        return (total / divisor).to(dtype)
    sizes = np.ones((), np.float32)
    for extent, size, step, count, (before, after) in zip(
        input.shape[-places:], kernel, steps, framed.counts, around, strict=True
    ):
        start = np.arange(count) * step - before
        end = np.minimum(start + size, extent + after)
        if not count_include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, extent)
        sizes = np.multiply.outer(sizes, (end - start).astype(np.float32))
    alike = sizes.min() == sizes.max()
    return (total / (float(sizes.flat[0]) if alike else from_array(sizes))).to(dtype)


@composite(method=False, ggml="POOL_1D")
def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of (batch, channels, width); stride defaults to kernel_size.

    GGML's POOL_1D divides by the number of elements that are not padding, as count_include_pad=False does; its POOL_2D
    counts the padding.
    """
    return _averaged(input, kernel_size, stride, padding, ceil_mode, count_include_pad, 1)


@composite(method=False, ggml="POOL_2D")
def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of (batch, channels, height, width); stride defaults to kernel_size.

    count_include_pad: whether the zeros of the padding count; divisor_override: what to divide the sum by instead.

    >>> nt.avg_pool2d(nt.arange(16.0).reshape(1, 1, 4, 4), 2)
    """
    return _averaged(input, kernel_size, stride, padding, ceil_mode, count_include_pad, 2, divisor_override)


def _adapted(input: Tensor, output_size: int | Sequence[int | None] | None, places: int) -> Tensor:
    require_places(input, places)
    dtype, result = require_float(input), wide(input)
    several = isinstance(output_size, (tuple, list))
    sizes: Sequence[Any] = output_size if several else (output_size,) * places  # type: ignore[assignment]
    if len(sizes) != places or any(parts is not None and parts < 0 for parts in sizes):
        raise ArgumentError(f"output_size must be one integer or {places}, none negative, or None, not {output_size!r}")
    for dim, parts in enumerate(sizes, -places):
        extent = result.shape[dim]
        if parts is None or parts == extent:
            continue
        if not parts:
            result = result.narrow(dim, 0, 0)
            continue
        (parts,) = each_place("output_size", parts, 1)
        bounds = [(i * extent // parts, -(-(i + 1) * extent // parts)) for i in range(parts)]
        means = [result.narrow(dim, start, end - start).mean(dim, True) for start, end in bounds]
        result = joined(means, result.ndim + dim)
    return result.to(dtype)


@composite(method=False)
def adaptive_avg_pool1d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    """The means of output_size parts, which may overlap by one element, of the width; None keeps it.

    >>> nt.adaptive_avg_pool1d(nt.arange(6.0).reshape(1, 6), 2)
    """
    return _adapted(input, output_size, 1)


@composite(method=False)
def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    """The means of output_size parts, which may overlap by one element, of height and width; None keeps an extent.

    >>> nt.adaptive_avg_pool2d(nt.arange(16.0).reshape(1, 4, 4), (2, 1))
    """
    return _adapted(input, output_size, 2)
