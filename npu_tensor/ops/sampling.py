"""Ops on samples of (batch, channels, *places) at coordinates, and their gradients."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.ops.declare import Call, Resolution
from npu_tensor.ops.registry import op
from npu_tensor.ops.rules import of_tensors, require_tensor
from npu_tensor.spec import Spec

Array = np.ndarray[Any, Any]


@of_tensors("floats")
def _samples_rule(x: Spec, grid: Spec, mode: str, padding_mode: str, align_corners: bool) -> Resolution:
    places = x.ndim - 2
    if places not in (2, 3) or grid.ndim != x.ndim or grid.shape[-1] != places or grid.shape[0] != x.shape[0]:
        raise ShapeError(f"a grid {list(grid.shape)} does not fit {list(x.shape)}")
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border", "reflection"):
        raise ArgumentError(f"mode {mode!r} and padding_mode {padding_mode!r} are not known")
    register = "float64" if "float64" in (x.dtype.name, grid.dtype.name) else "float32"
    attributes = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    return Resolution(Spec.of((*x.shape[:2], *grid.shape[1:-1]), x.dtype), (register, register), attributes)


def _located(
    coordinate: Array, extent: int, mode: str, padding_mode: str, align_corners: bool
) -> tuple[Array, Array, Array]:
    """Return the lower neighbour of each coordinate, the distance from it, and the derivative of the position."""
    scale, shift = ((extent - 1) / 2, 0.0) if align_corners else (extent / 2, 0.5)
    place = (coordinate + 1) * scale - shift
    slope = np.full_like(place, scale)
    if padding_mode == "reflection":
        low, span = (0.0, extent - 1.0) if align_corners else (-0.5, float(extent))
        slope = slope * np.where(place < low, -1, 1)
        distance = abs(place - low)
        turns = np.floor(distance / span) if span else distance * 0
        rest = distance - turns * span if span else distance * 0
        is_odd = turns % 2 == 1
        place, slope = np.where(is_odd, span - rest, rest) + low, np.where(is_odd, -slope, slope)
    if padding_mode != "zeros":
        slope = np.where((place <= 0) | (place >= extent - 1), 0, slope)
        place = np.minimum(np.where(place > 0, place, 0), extent - 1)  # NaN becomes 0, as in PyTorch.
    lower = np.rint(place) if mode == "nearest" else np.floor(place)
    return lower, place - lower, slope


def _corners(
    grid: Array, extents: tuple[int, ...], mode: str, **options: Any
) -> Iterator[tuple[Array, Array, Array, list[Array]]]:
    """Yield for each neighbour of the samples: position, inside, weight, and derivatives of the weight by coordinate.

    All have the shape (batch, samples).
    """
    flat = grid.reshape(grid.shape[0], -1, len(extents))
    axes = [_located(flat[..., -1 - axis], extent, mode, **options) for axis, extent in enumerate(extents)]
    for corner in itertools.product((0, 1), repeat=len(extents)) if mode == "bilinear" else [(0,) * len(extents)]:
        index, inside = np.zeros(flat.shape[:2], np.int64), np.ones(flat.shape[:2], np.bool_)
        weights, slopes = list[Array](), list[Array]()
        for extent, (lower, distance, slope), step in zip(extents, axes, corner, strict=True):
            chosen = lower + step
            inside &= (chosen >= 0) & (chosen <= extent - 1)
            index = index * extent + np.nan_to_num(chosen.clip(0, extent - 1)).astype(np.int64)
            weights.append((distance if step else 1 - distance) if mode == "bilinear" else np.ones_like(distance))
            slopes.append(slope if step else -slope)
        others = [
            slope * math.prod([w for other, w in enumerate(weights) if other != axis], start=np.ones_like(slope))
            for axis, slope in enumerate(slopes)
        ]
        yield index, inside, math.prod(weights[1:], start=weights[0]), others


@op(kind="data", rule=_samples_rule, public=False)
def samples_at(input, grid, /, mode: str, padding_mode: str, align_corners: bool):
    """Sample input (batch, channels, *places) at the coordinates of grid (batch, *out, places)."""
    flat, total = input.reshape(*input.shape[:2], -1), np.zeros((), input.dtype)
    options = {"padding_mode": padding_mode, "align_corners": align_corners}
    for index, inside, weight, _ in _corners(grid, input.shape[2:], mode, **options):
        taken = np.take_along_axis(flat, np.broadcast_to(index[:, None], (*flat.shape[:2], index.shape[1])), 2)
        total = total + np.where(inside[:, None], taken * weight[:, None], 0)
    return total


def _gradient_rule(number: int) -> Any:
    @of_tensors("floats")
    def rule(*operands: Spec, of: Call) -> Resolution:
        spec, register = require_tensor(of.operands[number]), of.registers[0]
        return Resolution(spec, (register,) * len(operands), {"of": of})

    return rule


@op(kind="data", rule=_gradient_rule(0), public=False)
def samples_at_backward_0(grid, gradient, /, of: Call):
    """Compute the gradient of the input of the samples `of`."""
    batch, channels, *extents = require_tensor(of.operands[0]).shape
    result = np.zeros((batch, channels, math.prod(extents)), gradient.dtype)
    rows, planes = np.ogrid[:batch, :channels]
    flat = gradient.reshape(batch, channels, -1)
    for index, inside, weight, _ in _corners(grid, tuple(extents), **of.attributes):
        added = np.where(inside[:, None], flat * weight[:, None], 0)
        np.add.at(result, (rows[..., None], planes[..., None], index[:, None]), added)
    return result


@op(kind="data", rule=_gradient_rule(1), public=False)
def samples_at_backward_1(input, grid, gradient, /, of: Call):
    """Compute the gradient of the coordinates of the samples `of`."""
    flat, gradients = input.reshape(*input.shape[:2], -1), gradient.reshape(*input.shape[:2], -1)
    axes = [np.zeros((input.shape[0], gradients.shape[2]), gradient.dtype) for _ in input.shape[2:]]
    for index, inside, _, slopes in _corners(grid, input.shape[2:], **of.attributes):
        taken = np.take_along_axis(flat, np.broadcast_to(index[:, None], gradients.shape), 2)
        value = np.where(inside, (taken * gradients).sum(1), 0)
        axes = [axis + np.where(inside, value * slope, 0) for axis, slope in zip(axes, slopes, strict=True)]
    return np.stack(axes[::-1], -1)
