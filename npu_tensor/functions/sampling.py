"""Images and volumes sampled at coordinates in a tensor."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from npu_tensor import ops
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.creation import arange, ones
from npu_tensor.functions.neural import require_float, wide
from npu_tensor.functions.register import composite
from npu_tensor.functions.shape import meshgrid, stack
from npu_tensor.tensor import Tensor

__all__: list[str] = []


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


def _reflected(place: Tensor, low: float, high: float) -> Tensor:
    """Mirror places outside the limits at them until they are inside."""
    span = high - low
    if span <= 0:
        return place * 0
    distance = (place - low).abs()
    turns, rest = (distance / span).floor(), distance.fmod(span)
    return ops.where_op(turns.fmod(2) == 0, rest, span - rest) + low


def _pixels(coordinate: Tensor, extent: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Convert coordinates from -1 to 1 to positions between elements."""
    place = (coordinate + 1) / 2 * (extent - 1) if align_corners else ((coordinate + 1) * extent - 1) / 2
    if padding_mode == "reflection":
        place = _reflected(place, 0, extent - 1) if align_corners else _reflected(place, -0.5, extent - 0.5)
    return place if padding_mode == "zeros" else place.clamp(0, extent - 1)


@composite(method=False)
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Sample input at coordinates.

    Args:
        input: Floats (batch, channels, *places), with two or three places.
        grid: Coordinates (batch, *out, number of places) from -1 to 1, as returned by `affine_grid`.
        mode: "bilinear" (trilinear for three places) or "nearest".
        padding_mode: Values outside: "zeros", "border" or "reflection".
        align_corners: True if -1 and 1 are the centres of the outermost elements, False if they are their edges.

    Returns:
        Tensor (batch, channels, *out).

    >>> nt.grid_sample(nt.arange(4.0).reshape(1, 1, 2, 2), nt.zeros(1, 1, 1, 2), align_corners=True)
    """
    places = input.ndim - 2
    if places not in (2, 3) or grid.ndim != input.ndim or grid.shape[-1] != places or grid.shape[0] != input.shape[0]:
        raise ShapeError(f"a grid {list(grid.shape)} does not fit {list(input.shape)}")
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border", "reflection"):
        raise ArgumentError(f"mode {mode!r} and padding_mode {padding_mode!r} are not known")
    dtype, extents = require_float(input), input.shape[2:]
    samples = grid.shape[1:-1]
    coordinates = wide(grid).reshape(grid.shape[0], 1, math.prod(samples), places)
    at = [
        _pixels(coordinates[..., places - 1 - axis], extent, padding_mode, bool(align_corners))
        for axis, extent in enumerate(extents)
    ]
    flat = wide(input).reshape(*input.shape[:2], math.prod(extents))
    lower = [place.round() if mode == "nearest" else place.floor() for place in at]
    total = None
    for corner in itertools.product((0, 1), repeat=places) if mode == "bilinear" else [(0,) * places]:
        index, weight, inside = None, None, None
        for extent, place, low, step in zip(extents, at, lower, corner, strict=True):
            chosen = low + step
            valid = (chosen >= 0) & (chosen <= extent - 1)
            inside = valid if inside is None else inside & valid
            number = chosen.clamp(0, extent - 1).nan_to_num().long()
            index = number if index is None else index * extent + number
            part = place - low if step else 1 - (place - low)
            weight = part if weight is None else weight * part
        assert index is not None
        value = ops.gather_along(flat, index.expand(*flat.shape[:2], index.shape[-1]), -1)
        value = ops.where_op(inside, value if mode == "nearest" else value * weight, 0.0)
        total = value if total is None else total + value
    assert total is not None
    return total.reshape(*input.shape[:2], *samples).to(dtype)
