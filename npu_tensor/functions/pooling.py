"""Pools of tensors (batch, channels, *places) with 1, 2 or 3 place dimensions; the batch may be omitted.

A pool is computed along one dimension after the other: for few elements as the maximum or the sum of strided slices,
for many as a reduction of windows, which are a view.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import bool_
from npu_tensor.errors import ArgumentError, DTypeError
from npu_tensor.functions.convolution import (
    Framed,
    Sizes,
    bounds_of,
    each_place,
    for_places,
    in_frame,
    require_places,
    windows_of,
)
from npu_tensor.functions.creation import zeros
from npu_tensor.functions.neural import require_float, wide
from npu_tensor.functions.shape import joined
from npu_tensor.tensor import Tensor, from_array

__all__ = ["adapted"]

# Largest window that is pooled as slices: if at least each second element is read (by whole vectors), and if they lie
# further apart. Longer windows are faster as rows.
MOST_SLICES: Final = (24, 8)


def _kernel_and_steps(kernel_size: Sizes, stride: Sizes | None, places: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the extents of the windows and the steps between them, which default to the extents."""
    kernel = each_place("kernel_size", kernel_size, places)
    return kernel, kernel if stride is None else each_place("stride", stride, places)


def _pooled(
    framed: Framed,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    join: Callable[[Tensor, Tensor], Tensor],
    reduce: Callable[[Tensor, int], Tensor],
) -> Tensor:
    """Combine the elements of each window by `join` of two tensors or by `reduce` of a dimension."""
    result = framed.tensor
    lead = result.ndim - len(kernel)
    dims = range(lead, result.ndim)
    for dim, size, step, gap, count in zip(dims, kernel, stride, dilation, framed.counts, strict=True):
        if size > MOST_SLICES[step > 2]:
            result = reduce(ops.windows(result, dim, count, size, step, gap), -1)
            continue
        whole = [(0, extent, 1) for extent in result.shape]
        bounds = [(*whole[:dim], bounds_of(n * gap, count, step), *whole[dim + 1 :]) for n in range(size)]
        result = functools.reduce(join, [ops.slice_(result, each) for each in bounds])
    return result


def _half_padding(padding: Sizes, kernel: Sequence[int]) -> list[tuple[int, int]]:
    widths = each_place("padding", padding, len(kernel), 0)
    if any(2 * width > size for width, size in zip(widths, kernel, strict=True)):
        raise ArgumentError(f"padding must be at most half of the kernel's extents {list(kernel)}, not {padding!r}")
    return [(width, width) for width in widths]


@for_places("max_pool", "POOL_1D", "POOL_2D")
def _max_pool(places: int) -> Callable[..., Any]:
    def max_pool(
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """Return the largest element of each window of (batch, channels, {extents}).

        Args:
            input: Tensor (batch, channels, {extents}).
            kernel_size: Extents of the window, one number or one per place.
            stride: Steps between windows; None for kernel_size.
            padding: Elements added at both ends, one number or one per place.
            dilation: Steps between elements of the kernel, one number or one per place.
            ceil_mode: True if the last windows may end beyond the input.
            return_indices: True to also return the position of each element in its channel.

        >>> nt.{name}({x}, 2, stride=1)
        """
        require_places(input, places)
        if input.dtype is bool_:
            raise DTypeError("not defined for bool; convert with .to(...)")
        kernel, steps = _kernel_and_steps(kernel_size, stride, places)
        lowest = -math.inf if input.dtype.is_floating_point else np.iinfo(input.dtype.numpy).min
        around, dilations = _half_padding(padding, kernel), each_place("dilation", dilation, places)
        framed = in_frame(input, kernel, steps, around, dilations, lowest, ceil_mode)
        largest = _pooled(framed, kernel, steps, dilations, ops.maximum, Tensor.amax)
        if not return_indices:
            return largest
        columns = windows_of(framed, kernel, steps, dilations)
        lead = columns.ndim - 2 * places
        chosen = columns.reshape(*columns.shape[:lead], math.prod(kernel), *framed.counts).argmax(lead)
        index, rest = chosen * 0, chosen
        for dim in reversed(range(places)):  # the last dimension varies fastest in a kernel
            start = np.arange(framed.counts[dim]) * steps[dim] - around[dim][0]
            place = rest % kernel[dim] * dilations[dim] + from_array(start.reshape(-1, *(1,) * (places - dim - 1)))
            index, rest = index + place * math.prod(input.shape[input.ndim - places + dim + 1 :]), rest // kernel[dim]
        return largest, index

    return max_pool


@for_places("max_unpool")
def _max_unpool(places: int) -> Callable[..., Tensor]:
    def max_unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        """Put the elements of a maximum pool of (batch, channels, {extents}) where they were, and zeros elsewhere.

        Args:
            input: Elements from the pool, (batch, channels, extents of the pool).
            indices: Positions from the pool.
            kernel_size: Extents of the window, one number or one per place.
            stride: Steps between windows; None for kernel_size.
            padding: Elements added at both ends, one number or one per place.
            output_size: Extents of the result, if kernel, stride and padding allow several.

        >>> nt.{name}({x}, {x}.long(), 1)
        """
        require_places(input, places)
        kernel, steps = _kernel_and_steps(kernel_size, stride, places)
        lead = input.shape[: input.ndim - places]
        if output_size is None:
            widths = each_place("padding", padding, places, 0)
            extents = [
                (count - 1) * step + size - 2 * width
                for count, step, size, width in zip(input.shape[-places:], steps, kernel, widths, strict=True)
            ]
        else:
            extents = list(output_size)[-places:]
        rows = (math.prod(lead), math.prod(input.shape[-places:]))
        result = zeros(rows[0], math.prod(extents), dtype=input.dtype)
        return result.scatter(1, indices.reshape(rows), input.reshape(rows)).reshape(*lead, *extents)

    return max_unpool


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
    framed = in_frame(wide(input), kernel, steps, around, (1,) * places, 0, ceil_mode)
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


@for_places("avg_pool", "POOL_1D", "POOL_2D")
def _avg_pool(places: int) -> Callable[..., Tensor]:
    def avg_pool(
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        """Return the mean of each window of (batch, channels, {extents}).

        Args:
            input: Tensor (batch, channels, {extents}).
            kernel_size: Extents of the window, one number or one per place.
            stride: Steps between windows; None for kernel_size.
            padding: Elements added at both ends, one number or one per place.
            ceil_mode: True if the last windows may end beyond the input.
            count_include_pad: True if zeros of the padding count, as in GGML's POOL_2D and not in its POOL_1D.
            divisor_override: Divisor of the sum in place of the number of elements.

        >>> nt.{name}({x}, 2, stride=1)
        """
        return _averaged(input, kernel_size, stride, padding, ceil_mode, count_include_pad, places, divisor_override)

    return avg_pool


@for_places("lp_pool")
def _lp_pool(places: int) -> Callable[..., Tensor]:
    def lp_pool(
        input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> Tensor:
        """Return (sum of x ** norm_type) ** (1 / norm_type) of each window of (batch, channels, {extents}).

        >>> nt.{name}({x}, 2, 2, stride=1)
        """
        if not norm_type:
            raise ArgumentError("norm_type must not be 0")
        kernel = each_place("kernel_size", kernel_size, places)
        means = _averaged(wide(input) ** norm_type, kernel, stride, 0, ceil_mode, True, places)
        # The same as in PyTorch, also if a window ends beyond the input and averages fewer elements.
        return ((means.sign() * means.abs().relu() * math.prod(kernel)) ** (1.0 / norm_type)).to(input.dtype)

    return lp_pool


def adapted(
    input: Tensor,
    output_size: Sizes | Sequence[int | None] | None,
    places: int,
    reduce: Callable[[Tensor, int, bool], Tensor] = Tensor.mean,
) -> Tensor:
    """Reduce each place dimension to the given number of parts. The result is never the input itself."""
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
        parts_of = [reduce(result.narrow(dim, start, end - start), dim, True) for start, end in bounds]
        result = joined(parts_of, result.ndim + dim)
    result = result.to(dtype)
    return result.clone() if result is input else result


@for_places("adaptive_avg_pool")
def _adaptive_avg_pool(places: int) -> Callable[..., Tensor]:
    def adaptive_avg_pool(input: Tensor, output_size: Sizes | Sequence[int | None] | None) -> Tensor:
        """Return the means of output_size parts of ({extents}), which may overlap by one element; None keeps all.

        >>> nt.{name}({x}, 2)
        """
        return adapted(input, output_size, places)

    return adaptive_avg_pool


@for_places("adaptive_max_pool")
def _adaptive_max_pool(places: int) -> Callable[..., Tensor]:
    def adaptive_max_pool(input: Tensor, output_size: Sizes | Sequence[int | None] | None) -> Tensor:
        """Return the maxima of output_size parts of ({extents}), which may overlap by one element; None keeps all.

        >>> nt.{name}({x}, 2)
        """
        return adapted(input, output_size, places, Tensor.amax)

    return adaptive_max_pool
