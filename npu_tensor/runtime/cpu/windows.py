"""Windows of images as operands of products, and the offsets of what they cover."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npu_tensor.ops.declare import Layout


class Places(NamedTuple):
    """Places of one spatial dimension of an image that the elements of a kernel meet.

    Attributes:
        extent: Extent of the image.
        distance: Elements in memory between neighbours.
        positions: Number of positions of the kernel.
        size: Number of elements of the kernel.
        step: Distance between positions, in places.
        gap: Distance between elements of the kernel, in places.
        start: Place that the first element meets at the first position.
    """

    extent: int
    distance: int
    positions: int
    size: int
    step: int
    gap: int
    start: int

    def at(self) -> NDArray[np.int64]:
        """Return the place that each element of the kernel (columns) meets at each position (rows)."""
        return np.arange(self.positions)[:, None] * self.step + np.arange(self.size) * self.gap + self.start

    def inside(self) -> NDArray[np.bool_]:
        """Return True for each entry of `at` that is inside the image."""
        at = self.at()
        return (at >= 0) & (at < self.extent)


def places_met(
    image: Layout, counts: Sequence[int], kernel: Sequence[int], attributes: Mapping[str, Any]
) -> list[Places]:
    """Return the places that a convolution with these attributes meets in a channels-last image, by dimension."""
    padding = [before for before, _ in attributes["padding"]]
    sizes = counts, kernel, attributes["stride"], attributes["dilation"], padding
    return [
        Places(extent, distance, count, size, step, gap, -before)
        for extent, distance, count, size, step, gap, before in zip(
            image.shape[1:-1], image.strides[1:-1], *sizes, strict=True
        )
    ]


class Windows(NamedTuple):
    """An image as operand A: a row has the elements that a kernel covers at one position, run by run of channels.

    The channels are neighbours in memory. Row r of the product at an index of the batch is position r + index . lines.
    Elements outside the image are 0. With `depthwise`, column c of the product only reads channel c.

    Attributes:
        dtype: Dtype in memory.
        batch: Elements between images, for each batch dimension.
        lines: Positions between products, for each batch dimension.
        channels: Number of channels that a row reads at each place of the kernel.
        places: One entry for each spatial dimension.
        depthwise: True if every channel is convolved on its own.
    """

    dtype: str
    batch: tuple[int, ...]
    lines: tuple[int, ...]
    channels: int
    places: tuple[Places, ...]
    depthwise: bool = False

    @property
    def taps(self) -> int:
        """Number of places of the kernel."""
        return math.prod([place.size for place in self.places])

    @property
    def is_inside(self) -> bool:
        """True if no position reaches outside the image."""
        return all(bool(place.inside().all()) for place in self.places)

    def runs(self) -> tuple[int, tuple[Places, ...]]:
        """Return the elements of a run, and the places of runs.

        Neighbours of the kernel that are neighbours in memory, and inside the image, are one run.
        """
        *others, last = self.places
        if self.depthwise or last.distance * last.gap != self.channels or not last.inside().all():
            return self.channels, self.places
        return self.channels * last.size, (*others, last._replace(size=1))


def strided_offsets(*layouts: Layout) -> NDArray[np.int64]:
    """Return the offsets of all elements of several dimensions, in elements and in row-major order."""
    offsets = np.zeros(1, np.int64)
    for layout in layouts:
        for size, stride in zip(layout.shape, layout.strides, strict=False):
            offsets = (offsets[:, None] + np.arange(size, dtype=np.int64) * stride).ravel()
    return offsets


def window_offsets(places: Sequence[Places]) -> NDArray[np.int64]:
    """Return the offset in elements of each element of a kernel (columns) at each position (rows), -1 outside."""
    offsets, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for place in places:
        shape = offsets.shape[0] * place.positions, offsets.shape[1] * place.size
        offsets = (offsets[:, None, :, None] + (place.at() * place.distance)[None, :, None, :]).reshape(shape)
        inside = (inside[:, None, :, None] & place.inside()[None, :, None, :]).reshape(shape)
    return np.where(inside, offsets, -1)
