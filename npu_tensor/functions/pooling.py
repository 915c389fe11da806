"""Pools of tensors (batch, channels, *places) with 1, 2 or 3 place dimensions; the batch may be omitted."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import bool_, float64, int64
from npu_tensor.errors import ArgumentError, DTypeError, ShapeError
from npu_tensor.functions.convolution import Sizes, each_place, for_places, require_places
from npu_tensor.functions.creation import zeros
from npu_tensor.functions.register import require_float, wide
from npu_tensor.ops.rules import integer_extents
from npu_tensor.spec import contiguous_strides
from npu_tensor.tensor import Tensor, from_array


def _kernel_and_steps(kernel_size: Sizes, stride: Sizes | None, places: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the extents of the windows and the steps between them, which default to the extents."""
    kernel = each_place("kernel_size", kernel_size, places)
    if stride is None or (isinstance(stride, Sequence) and not stride):
        return kernel, kernel
    return kernel, each_place("stride", stride, places)


def _count(ceil_mode: bool, extent: int, span: int, stride: int, padding: tuple[int, int]) -> int:
    """Return the number of positions of a window. ceil_mode includes one that begins inside and ends beyond."""
    rest = extent + sum(padding) - span
    if not ceil_mode:
        return rest // stride + 1
    count = -(-rest // stride) + 1
    return count - ((count - 1) * stride >= extent + padding[0])


def windows_of_pool(
    extents: Sequence[int], kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes, ceil_mode: bool
) -> tuple[tuple[Any, ...], ...]:
    """Return kernel, stride, padding, dilation and counts as the pool ops take them."""
    kernel, steps = _kernel_and_steps(kernel_size, stride, len(extents))
    widths, gaps = each_place("padding", padding, len(kernel), 0), each_place("dilation", dilation, len(kernel))
    if any(2 * width > size for width, size in zip(widths, kernel, strict=True)):
        raise ArgumentError(f"padding must be at most half of the kernel's extents {list(kernel)}, not {padding!r}")
    spans = [gap * (size - 1) + 1 for size, gap in zip(kernel, gaps, strict=True)]
    around = tuple([(width, width) for width in widths])
    counts = tuple(map(functools.partial(_count, ceil_mode), extents, spans, steps, around))
    if min(counts) < 1:
        raise ShapeError(f"a kernel of extents {spans} does not fit {list(extents)} with padding {list(around)}")
    return kernel, steps, around, gaps, counts


_POOLS: Final = (ops.pool_1d, ops.pool_2d, ops.pool_3d)
"""Ops by number of place dimensions, less one."""


def _batched(op: Callable[..., Tensor], input: Tensor, places: int, *attributes: Any) -> Tensor:
    """Record an op of (batch, channels, *places), also for a tensor without a batch."""
    if input.ndim == places + 2:
        return op(input, *attributes)
    return op(input.unsqueeze(0), *attributes).squeeze(0)


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
            stride: Steps between windows; None for kernel_size.
            return_indices: True to also return the position of each element in its channel.

        >>> nt.{name}({x}, 2, stride=1)
        """
        if input.dtype is bool_:
            raise DTypeError("not defined for bool; convert with .to(...)")
        require_places(input, places)
        pool = _POOLS[places - 1]
        windows = windows_of_pool(input.shape[-places:], kernel_size, stride, padding, dilation, ceil_mode)
        result = _batched(pool, input, places, "max", *windows)
        if not return_indices:
            return result

        def positions(batch: Tensor) -> Any:
            call = pool.op.call((batch._node.spec,), ("max", *windows, True, None, False))
            return ops.max_pool_positions(batch, call)

        return result, _batched(positions, wide(input), places)

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
            stride: Steps between windows; None for kernel_size.
            count_include_pad: True if zeros of the padding count, as in GGML's POOL_2D and not in its POOL_1D.
            divisor_override: Divisor of the sum in place of the number of elements.

        >>> nt.{name}({x}, 2, stride=1)
        """
        if divisor_override == 0:
            raise ArgumentError("divisor_override must not be 0")
        require_places(input, places)
        windows = windows_of_pool(input.shape[-places:], kernel_size, stride, padding, 1, ceil_mode)
        how = (*windows, count_include_pad, divisor_override)
        if input.dtype is int64:  # quotients are truncated; the factor makes whole ones at least whole
            means = _batched(_POOLS[places - 1], input.to(float64), places, "avg", *how)
            return (means * (1 + 1e-12)).to(int64)
        require_float(input)
        return _batched(_POOLS[places - 1], input, places, "avg", *how)

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
        require_places(input, places)
        require_float(input)
        kernel, *windows = windows_of_pool(input.shape[-places:], kernel_size, stride, 0, 1, ceil_mode)
        elements: int = math.prod(kernel)
        means = _batched(_POOLS[places - 1], wide(input) ** norm_type, places, "avg", kernel, *windows)
        # The same as in PyTorch, also if a window ends beyond the input and averages fewer elements.
        return ((means.sign() * means.abs().relu() * elements) ** (1.0 / norm_type)).to(input.dtype)

    return lp_pool


def adapted(input: Tensor, output_size: Sizes | Sequence[int | None] | None, places: int, mode: str = "avg") -> Tensor:
    """Reduce each place dimension to the given number of parts. The result is never the input itself."""
    require_places(input, places)
    require_float(input)
    several = isinstance(output_size, (tuple, list))
    sizes: Sequence[Any] = output_size if several else (output_size,) * places  # type: ignore[assignment]
    if len(sizes) != places or any(parts is not None and parts < 0 for parts in sizes):
        raise ArgumentError(f"output_size must be one integer or {places}, none negative, or None, not {output_size!r}")
    extents = input.shape[-places:]
    counts = integer_extents(extent if parts is None else parts for extent, parts in zip(extents, sizes, strict=True))
    if not math.prod(counts):
        return zeros(*input.shape[:-places], *counts, dtype=input.dtype)
    if not math.prod(extents):
        raise ShapeError(f"{list(extents)} has no elements for {list(counts)} parts")
    if mode == "avg" and all(count == 1 for count in counts):
        return input.mean([*range(input.ndim - places, input.ndim)], keepdim=True)
    if all(extent % count == 0 for extent, count in zip(extents, counts, strict=True)):
        kernel = tuple(extent // count for extent, count in zip(extents, counts, strict=True))
        return _batched(_POOLS[places - 1], input, places, mode, *windows_of_pool(extents, kernel, None, 0, 1, False))
    return _batched(ops.adaptive_pool, input, places, mode, counts)


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
    def adaptive_max_pool(
        input: Tensor, output_size: Sizes | Sequence[int | None] | None, return_indices: bool = False
    ) -> Any:
        """Return the maxima of output_size parts of ({extents}), which may overlap by one element; None keeps all.

        Args:
            input: Tensor (batch, channels, {extents}).
            output_size: Number of parts, one number or one per place.
            return_indices: True to also return the position of each element in its channel.

        >>> nt.{name}({x}, 2)
        """
        result = adapted(input, output_size, places, "max")
        return (result, _positions_of_parts(input, result.shape[-places:])) if return_indices else result

    return adaptive_max_pool


def _positions_of_parts(input: Tensor, counts: tuple[int, ...]) -> Tensor:
    """Return the positions in a channel of the largest elements of `counts` parts of its extents."""
    lead, extents = input.shape[: -len(counts)], input.shape[-len(counts) :]
    along = []  # positions (parts, elements of a part); the last element fills parts that are shorter by one
    for extent, count in zip(extents, counts, strict=True):
        starts = np.arange(count) * extent // max(count, 1)
        ends = -(-np.arange(1, count + 1) * extent // max(count, 1))
        along.append(np.minimum(starts[:, None] + np.arange(max(ends - starts, default=1)), ends[:, None] - 1))
    places = np.zeros((1,) * (2 * len(counts)), np.int64)
    for axis, (each, stride) in enumerate(zip(along, contiguous_strides(extents), strict=True)):
        around = [1] * places.ndim
        around[axis], around[axis + len(counts)] = each.shape
        places = places + each.reshape(around) * stride
    positions = from_array(places.reshape(*counts, math.prod(each.shape[1] for each in along)))
    elements = input.reshape(*lead, math.prod(extents))[..., positions]
    return positions.expand(elements.shape).gather(-1, elements.argmax(-1, True)).squeeze(-1)
