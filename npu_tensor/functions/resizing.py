"""Images of other extents: interpolation, channels rearranged as places, samples at coordinates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from npu_tensor import ops
from npu_tensor.dtypes import float32, int64, uint8
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.convolution import Sizes, each_place
from npu_tensor.functions.creation import arange, ones, zeros_like
from npu_tensor.functions.pooling import adapted
from npu_tensor.functions.register import composite, require_float, wide
from npu_tensor.functions.shape import gather, meshgrid, stack
from npu_tensor.functions.templated import templated
from npu_tensor.tensor import Tensor

_MODES: Final[Mapping[str, tuple[str, int | None]]] = {
    "nearest": ("nearest", None),
    "nearest-exact": ("nearest-exact", None),
    "linear": ("linear", 1),
    "bilinear": ("linear", 2),
    "bicubic": ("cubic", 2),
    "trilinear": ("linear", 3),
}
"""Mode of the op and required number of place dimensions, by public mode."""

_CUBIC: Final = -0.75
"""Parameter of the cubic kernel of `grid_sample`, as in PyTorch."""

_ANTIALIASED: Final = ("bilinear", "bicubic")


@composite(method=False, ggml="UPSCALE")
def interpolate(
    input: Tensor,
    size: Sizes | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize (batch, channels, *places).

    Args:
        input: Tensor (batch, channels, *places); floats, or uint8 for "bilinear" and "bicubic", or any dtype for the
            first three modes.
        size: Extents of the result.
        scale_factor: Factors of the extents in place of `size`; the results are rounded down.
        mode: "nearest", "nearest-exact", "area" (means of parts), "linear" for one place dimension, "bilinear" and
            "bicubic" for two, "trilinear" for three.
        align_corners: True to keep the values of the outermost elements; not for the first three modes.
        recompute_scale_factor: True to compute the factors from the extents.
        antialias: True to include all elements in a smaller result, for "bilinear" and "bicubic".

    >>> nt.interpolate(nt.tensor([[[1.0, 2.0]]]), scale_factor=2)
    """
    places = input.ndim - 2
    if mode == "area" and 1 <= places <= 3:
        return adapted(input, _counts(input.shape[2:], size, scale_factor)[0], places)
    own, needed = _MODES.get(mode, (None, None))
    if own is None or places < 1 or needed not in (None, places):
        names = ", ".join([*_MODES, "area"])
        raise ArgumentError(f"mode must be one of {names} and fit {max(places, 0)} places, not {mode!r}")
    if align_corners and needed is None:
        raise ArgumentError("align_corners is not for nearest, nearest-exact and area")
    if antialias and mode not in _ANTIALIASED:
        raise ArgumentError(f"antialias is for {' and '.join(_ANTIALIASED)}, not {mode}")
    extents = input.shape[2:]
    counts, scales = _counts(extents, size, scale_factor)
    if recompute_scale_factor:
        scales = tuple([extent / count for extent, count in zip(extents, counts, strict=True)])
    if needed == 2 and input.dtype is uint8:
        return _resize_bytes(input, own, counts, scales, bool(align_corners), antialias)
    if needed:
        require_float(input)
    return ops.upscale(input, own, counts, scales, bool(align_corners), antialias)


def _resize_bytes(
    image: Tensor, mode: str, counts: Sequence[int], scales: Sequence[float], align_corners: bool, antialias: bool
) -> Tensor:
    """Resize the columns, then the rows of images of bytes; both results are rounded to bytes, as in PyTorch."""
    narrow, steps = (image.shape[2], counts[1]), (1.0, scales[1])
    for size, step in ((narrow, steps), (tuple(counts), (scales[0], 1.0))):
        resized = ops.upscale(image.to(float32), mode, size, step, align_corners, antialias)
        image = (resized + 0.5).floor().clamp(0, 255).to(uint8)
    return image


def _counts(
    extents: Sequence[int], size: Sizes | None, scale_factor: float | Sequence[float] | None
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the extents of the result and the distance of its elements in the input."""
    places = len(extents)
    if (size is None) == (scale_factor is None):
        raise ArgumentError("give size or scale_factor, not both")
    if size is not None:
        counts = each_place("size", size, places)
        scales = tuple([extent / count for extent, count in zip(extents, counts, strict=True)])
    else:
        factors: Any = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * places
        if len(factors) != places or not all(0 < factor < math.inf for factor in factors):
            raise ArgumentError(f"scale_factor must be one positive number or {places}, not {scale_factor!r}")
        counts = tuple(math.floor(extent * factor) for extent, factor in zip(extents, factors, strict=True))
        scales = tuple([1 / factor for factor in factors])
    if min(*extents, *counts) < 1:
        raise ShapeError(f"{list(extents)} cannot be resized to {list(counts)}")
    return counts, scales


@composite(method=False)
def upsample(
    input: Tensor,
    size: Sizes | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Resize like `interpolate`.

    >>> nt.upsample(nt.tensor([[[1.0, 2.0]]]), scale_factor=2)
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


@composite(method=False)
def upsample_nearest(
    input: Tensor, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """Resize like `interpolate` to the nearest elements.

    >>> nt.upsample_nearest(nt.tensor([[[1.0, 2.0]]]), scale_factor=2)
    """
    return interpolate(input, size, scale_factor)


@composite(method=False)
def upsample_bilinear(
    input: Tensor, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """Resize like `interpolate` with mode="bilinear" and aligned corners.

    >>> nt.upsample_bilinear(nt.ones(1, 1, 2, 2), scale_factor=2)
    """
    return interpolate(input, size, scale_factor, "bilinear", True)


@composite(method=False)
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleave the channels of the groups of (batch, groups * n, ...).

    >>> nt.channel_shuffle(nt.arange(4.0).reshape(1, 4, 1), 2)
    """
    if input.ndim < 3 or groups < 1 or input.shape[1] % groups:
        raise ShapeError(f"needs (batch, channels, ...) with channels divisible by {groups}, not {list(input.shape)}")
    apart = input.reshape(input.shape[0], groups, input.shape[1] // groups, *input.shape[2:])
    return apart.transpose(1, 2).reshape(input.shape)


@composite(method=False)
@templated
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Rearrange (..., channels * factor^2, height, width) to (..., channels, height * factor, width * factor).

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
@templated
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Rearrange (..., channels, height, width) to (..., channels * factor^2, height / factor, width / factor).

    >>> nt.pixel_unshuffle(nt.arange(4.0).reshape(1, 1, 2, 2), 2)
    """
    factor = downscale_factor
    if input.ndim < 3 or factor < 1 or any(extent % factor for extent in input.shape[-2:]):
        raise ShapeError(f"needs (..., channels, height, width) with height and width divisible by {factor}")
    *lead, channels, height, width = input.shape
    rows, columns = height // factor, width // factor
    apart = input.reshape(math.prod(lead), channels, rows, factor, columns, factor).permute(0, 1, 3, 5, 2, 4)
    return apart.reshape(*lead, channels * factor * factor, rows, columns)


# --- samples at coordinates in a tensor


@composite(method=False)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """Return the coordinates of a grid after affine maps, for `grid_sample`.

    Coordinates go from -1 to 1, x first.

    Args:
        theta: Maps (batch, places, places + 1).
        size: Extents (batch, channels, *places) of the grid.
        align_corners: True if -1 and 1 are the centres of the outermost elements, False if they are their edges.

    Returns:
        Tensor (batch, *places, number of places).

    >>> nt.affine_grid(nt.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2))
    """
    places = len(size) - 2
    if places not in (2, 3) or theta.shape != (size[0], places, places + 1):
        raise ShapeError(f"maps {list(theta.shape)} do not fit a size of {list(size)}")
    axes = []
    for extent in size[2:]:
        centres = (arange(extent, dtype=theta.dtype) * 2 + 1) / extent - 1
        if align_corners:
            centres = arange(extent, dtype=theta.dtype) * (2 / max(extent - 1, 1)) - (extent > 1)
        axes.append(centres)
    grids = meshgrid(*axes)
    homogeneous = stack([*reversed(grids), ones(*size[2:], dtype=theta.dtype)], -1).reshape(-1, places + 1)
    return (homogeneous @ theta.mT).reshape(size[0], *size[2:], places)


@composite(method=False)
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Sample input at coordinates.

    Args:
        input: Floats (batch, channels, *places), with two or three places.
        grid: Coordinates (batch, *out, number of places) from -1 to 1, as returned by `affine_grid`.
        mode: "bilinear" (trilinear for three places), "nearest", or "bicubic" for two places.
        padding_mode: Values outside: "zeros", "border" or "reflection".
        align_corners: True if -1 and 1 are the centres of the outermost elements, False if they are their edges.

    Returns:
        Tensor (batch, channels, *out).

    >>> nt.grid_sample(nt.arange(4.0).reshape(1, 1, 2, 2), nt.zeros(1, 1, 1, 2), align_corners=True)
    """
    require_float(input)
    require_float(grid)
    x, coordinates = input, grid
    if input.dtype is not grid.dtype or input.dtype.itemsize == 2:
        x = wide(input)
        coordinates = wide(grid).to(x.dtype)
    sample = _bicubic_samples if mode == "bicubic" else partial(ops.samples_at, mode=mode)
    result: Tensor = sample(x, coordinates, padding_mode=padding_mode, align_corners=bool(align_corners))
    return result.to(input.dtype)


def _bicubic_samples(x: Tensor, grid: Tensor, padding_mode: str, align_corners: bool) -> Tensor:
    """Sample an image by the 4x4 elements around each coordinate."""
    if x.ndim != 4 or grid.ndim != 4 or grid.shape[-1] != 2 or grid.shape[0] != x.shape[0]:
        raise ShapeError(f"bicubic needs an image of two places and its grid, not {list(x.shape)}, {list(grid.shape)}")
    axes = []
    for axis, extent in enumerate(x.shape[2:]):
        scale, shift = ((extent - 1) / 2, 0.0) if align_corners else (extent / 2, 0.5)
        place = ((grid[..., 1 - axis] + 1) * scale - shift).unsqueeze(-1)
        taps = place.detach().floor() + arange(-1.0, 3.0, dtype=x.dtype)
        distance = (place - taps).abs()
        near = ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance.square() + 1
        far = (((distance - 5) * distance + 8) * distance - 4) * _CUBIC
        weights = ops.where_op(distance <= 1, near, far)
        if padding_mode == "zeros":
            weights = ops.where_op((taps >= 0) & (taps < extent), weights, 0.0)
        elif padding_mode == "reflection":
            low, span = (0.0, extent - 1.0) if align_corners else (-0.5, float(extent))
            rest = (taps - low).abs() % (2 * span) if span else zeros_like(taps)
            taps = ops.where_op(rest > span, 2 * span - rest, rest) + low
        axes.append((taps.to(int64).clamp(0, extent - 1), weights))
    (rows, of_row), (columns, of_column) = axes
    index = rows.unsqueeze(-1) * x.shape[3] + columns.unsqueeze(-2)
    taken = gather(x.flatten(2), 2, index.reshape(len(x), 1, -1).expand(-1, x.shape[1], -1))
    weights = of_row.unsqueeze(-1) * of_column.unsqueeze(-2)
    return (taken.reshape(*x.shape[:2], *index.shape[1:]) * weights.unsqueeze(1)).sum((-2, -1))
