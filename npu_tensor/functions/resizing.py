"""Images of other extents: interpolation, and channels that become places."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npu_tensor import ops
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.convolution import Sizes, each_place
from npu_tensor.functions.neural import require_float, wide
from npu_tensor.functions.register import composite
from npu_tensor.tensor import Tensor, from_array

__all__: list[str] = []


def _nearest(input: Tensor, dim: int, count: int, scale: float, align_corners: bool) -> Tensor:
    if input.ndim == 4 and count == 2 * input.shape[dim]:  # as PyTorch does with two places, whatever the factor
        return ops.take(input, from_array(np.arange(count) // 2), dim)
    index = np.minimum(np.floor(np.arange(count, dtype=np.float32) * np.float32(scale)), input.shape[dim] - 1)
    return ops.take(input, from_array(index.astype(np.int64)), dim)


def _linear(input: Tensor, dim: int, count: int, scale: float, align_corners: bool) -> Tensor:
    extent = input.shape[dim]
    if align_corners:
        place = np.arange(count) * ((extent - 1) / max(count - 1, 1))
    else:
        place = np.maximum((np.arange(count) + 0.5) * scale - 0.5, 0)
    lower = np.minimum(place.astype(np.int64), extent - 1)
    weight = from_array((place - lower).astype(input.dtype.numpy).reshape(count, *(1 for _ in range(-1 - dim))))
    low = ops.take(input, from_array(lower), dim)
    high = ops.take(input, from_array(np.minimum(lower + 1, extent - 1)), dim)
    return low * (1 - weight) + high * weight


_MODES: dict[str, tuple[Callable[..., Tensor], int | None]] = {
    "nearest": (_nearest, None),
    "linear": (_linear, 1),
    "bilinear": (_linear, 2),
}
"""How a dimension is resized, and how many there must be."""


@composite(method=False, ggml="UPSCALE")
def interpolate(
    input: Tensor,
    size: Sizes | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """(batch, channels, *places) with other extents: `size`, or those of input times scale_factor, rounded down.

    mode: "nearest", or "linear" for one place dimension and "bilinear" for two. align_corners: whether the outermost
    elements keep their values; only for the linear ones.

    >>> nt.interpolate(nt.tensor([[[1.0, 2.0]]]), scale_factor=2)
    """
    places = input.ndim - 2
    method, needed = _MODES.get(mode, (None, None))
    if method is None or places < 1 or needed not in (None, places):
        raise ArgumentError(f"mode must be nearest, linear or bilinear and fit {max(places, 0)} places, not {mode!r}")
    if (size is None) == (scale_factor is None):
        raise ArgumentError("give size or scale_factor, not both")
    if align_corners and needed is None:
        raise ArgumentError("align_corners is for linear and bilinear")
    extents = input.shape[2:]
    if size is not None:
        counts = each_place("size", size, places)
        scales = [extent / count for extent, count in zip(extents, counts, strict=True)]
    else:
        factors: Any = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * places
        if len(factors) != places or not all(0 < factor < math.inf for factor in factors):
            raise ArgumentError(f"scale_factor must be one positive number or {places}, not {scale_factor!r}")
        counts = tuple(math.floor(extent * factor) for extent, factor in zip(extents, factors, strict=True))
        scales = [1 / factor for factor in factors]
    if min(*extents, *counts) < 1:
        raise ShapeError(f"{list(extents)} cannot be resized to {list(counts)}")
    dtype = require_float(input) if needed else input.dtype
    result = wide(input) if needed else input
    for axis, (count, scale) in enumerate(zip(counts, scales, strict=True)):
        # As in PyTorch, an extent that stays is copied whatever the factor, but by "nearest" only of two places.
        if count != extents[axis] or (places != 2 and not needed):
            result = method(result, axis - places, count, scale, bool(align_corners))
    return result.to(dtype)


@composite(method=False)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., channels * factor^2, height, width) as (..., channels, height * factor, width * factor).

    >>> nt.pixel_shuffle(nt.arange(4.0).reshape(1, 4, 1, 1), 2)
    """
    factor = upscale_factor
    if input.ndim < 3 or factor < 1 or input.shape[-3] % (factor * factor):
        raise ShapeError(f"needs (..., channels, height, width) with channels divisible by {factor * factor}")
    *lead, channels, height, width = input.shape
    depth = channels // (factor * factor)
    apart = input.reshape(math.prod(lead), depth, factor, factor, height, width).permute(0, 1, 4, 2, 5, 3)
    return apart.reshape(*lead, depth, height * factor, width * factor)


@composite(method=False)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(..., channels, height, width) as (..., channels * factor^2, height / factor, width / factor).

    >>> nt.pixel_unshuffle(nt.arange(4.0).reshape(1, 1, 2, 2), 2)
    """
    factor = downscale_factor
    if input.ndim < 3 or factor < 1 or any(extent % factor for extent in input.shape[-2:]):
        raise ShapeError(f"needs (..., channels, height, width) with height and width divisible by {factor}")
    *lead, channels, height, width = input.shape
    rows, columns = height // factor, width // factor
    apart = input.reshape(math.prod(lead), channels, rows, factor, columns, factor).permute(0, 1, 3, 5, 2, 4)
    return apart.reshape(*lead, channels * factor * factor, rows, columns)
