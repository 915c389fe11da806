"""Layouts of elements over an iteration space, as pure functions."""

from __future__ import annotations

from functools import lru_cache

from npu_tensor._util.cache_sizes import LAYOUTS
from npu_tensor.ops.declare import Layout
from npu_tensor.spec import contiguous_strides


@lru_cache(maxsize=LAYOUTS)
def full_layout(shape: tuple[int, ...]) -> Layout:
    """Return the layout with one element at every position, in order."""
    return Layout(shape, contiguous_strides(shape))


@lru_cache(maxsize=LAYOUTS)
def row_shapes(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape without its reduced dimensions, and the shape with them as 1."""
    without = tuple(extent for axis, extent in enumerate(shape) if axis not in dims)
    return without, tuple(1 if axis in dims else extent for axis, extent in enumerate(shape))


@lru_cache(maxsize=LAYOUTS)
def row_layout(shape: tuple[int, ...], dims: tuple[int, ...]) -> Layout:
    """Return the layout with one element per row, over the whole shape."""
    inner = iter(contiguous_strides(row_shapes(shape, dims)[0]))
    return Layout(shape, tuple(0 if axis in dims else next(inner) for axis in range(len(shape))))


@lru_cache(maxsize=LAYOUTS)
def broadcast(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """Return the layout of an operand over the shape that it broadcasts to."""
    lead = (0,) * (len(shape) - len(layout.shape))
    own = (0 if extent == 1 else stride for extent, stride in zip(layout.shape, layout.strides, strict=True))
    return Layout(shape, (*lead, *own), layout.offset)


@lru_cache(maxsize=LAYOUTS)
def lifted(layout: Layout, shape: tuple[int, ...], dims: tuple[int, ...]) -> Layout:
    """Return a layout over the rows as a layout over the whole shape. It may keep reduced dimensions as 1."""
    if len(layout.shape) == len(shape):
        inner = iter([stride for axis, stride in enumerate(layout.strides) if axis not in dims])
    else:
        inner = iter(layout.strides)
    return Layout(shape, tuple(0 if axis in dims else next(inner) for axis in range(len(shape))), layout.offset)


@lru_cache(maxsize=LAYOUTS)
def permuted(layout: Layout, order: tuple[int, ...]) -> Layout:
    """Return the layout with its dimensions in another order."""
    return Layout(
        tuple(layout.shape[axis] for axis in order), tuple(layout.strides[axis] for axis in order), layout.offset
    )


def are_neighbours(dims: tuple[int, ...]) -> bool:
    """Return True if reduced dimensions are neighbours, so that a row of a full result is evenly spaced in memory."""
    return dims[-1] - dims[0] == len(dims) - 1


def same_positions(a: Layout, b: Layout) -> bool:
    """Return True if both name the same element at every position. Strides of extents of 1 do not matter."""
    return a == b or (
        a.shape == b.shape
        and a.offset == b.offset
        and all(extent == 1 or s == t for extent, s, t in zip(a.shape, a.strides, b.strides, strict=True))
    )
