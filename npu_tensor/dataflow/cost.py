"""Predicted time of a design: what it moves and computes, against the rates of the array.

The same `Counters` come from `count`, which reads the design, and from the simulator, which counts what happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from npu_tensor.dataflow.array import Tile

__all__ = ["Channel", "Counters", "Limit", "Prediction"]

Limit = Literal["compute", "stream", "ddr", "dispatch"]


class Channel(NamedTuple):
    """A DMA channel that one end of a fifo uses. direction: "out" of the tile's memory into the stream, or "in"."""

    tile: Tile
    fifo: str
    direction: Literal["in", "out"]


@dataclass(frozen=True)
class Counters:
    """Of one run: cycles of kernel calls per core, bytes per DMA channel, bytes between host memory and array.

    transfers: DMA tasks that the host starts.
    """

    cycles: Mapping[Tile, int]
    stream_bytes: Mapping[Channel, int]
    ddr_bytes: int
    transfers: int


class Prediction(NamedTuple):
    """Predicted seconds of one run, what limits it, and the time that each resource alone would take."""

    seconds: float
    limit: Limit
    compute: float
    stream: float
    ddr: float
    dispatch: float
