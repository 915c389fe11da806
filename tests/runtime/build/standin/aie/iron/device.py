"""Tiles and devices."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from npu_tensor.dataflow.array import Tile as Tile


class Device(NamedTuple):
    """Its name in MLIR, and its columns."""

    name: str
    columns: int


def __getattr__(name: str) -> Any:
    """NPU1 with NPU1Col1 to NPU1Col3, NPU2 with NPU2Col1 to NPU2Col7."""
    family, _, columns = name.partition("Col")
    whole = {"NPU1": 4, "NPU2": 8}.get(family)
    if whole is None or (columns and columns not in map(str, range(1, whole))):
        raise AttributeError(name)
    return partial(Device, family.lower() + f"_{columns}col" * bool(columns), int(columns or whole))
