"""Tiles and devices. Every Tile is one of its own, also on the place of another."""

from __future__ import annotations

import enum
from typing import Any

from .._standin.record import TileOp, current
from .._standin.signatures import checked

__all__ = ["AnyComputeTile", "AnyMemTile", "AnyShimTile", "Device", "Tile", "tile_kind", "typed"]


class AIETileType(enum.Enum):
    """As in aie.dialects."""

    CoreTile = "core"
    MemTile = "memtile"
    ShimNOCTile = "shim"


class Tile:
    """A place in the array."""

    @checked("Tile")
    def __init__(
        self, col: int | None, row: int | None, tile_type: AIETileType | None = None, allocation_scheme: Any = None
    ) -> None:
        self.col = col
        self.row = row
        self.tile_type = tile_type
        self.allocation_scheme = allocation_scheme
        self._op: TileOp | None = None

    @property
    def op(self) -> TileOp:
        """What it resolved to."""
        if self._op is None:
            raise ValueError("Cannot get op before it is set.")
        return self._op

    @op.setter
    def op(self, op: TileOp) -> None:
        if self._op is not None and self._op is not op:
            raise ValueError("Cannot change operation once it is set.")
        self._op = op

    def __str__(self) -> str:
        return f"Tile({self.col}, {self.row})"


def typed(tile: Tile, tile_type: AIETileType) -> Tile:
    """Another one of the same place and that type; ValueError if it has another."""
    if tile.tile_type not in (None, tile_type):
        raise ValueError(f"Expected a {tile_type} tile, but got tile_type={tile.tile_type}")
    return Tile(tile.col, tile.row, tile_type=tile_type)


AnyShimTile: Any = Tile(tile_type=AIETileType.ShimNOCTile)
AnyMemTile: Any = Tile(tile_type=AIETileType.MemTile)
AnyComputeTile: Any = Tile(tile_type=AIETileType.CoreTile)


ROWS = 6


def tile_kind(row: int) -> AIETileType:
    """Row 0 is the shim, row 1 the memtile, the others are cores."""
    return (AIETileType.ShimNOCTile, AIETileType.MemTile)[row] if row < 2 else AIETileType.CoreTile


class Device:
    """A device: its name in MLIR and its columns. Made anew by every resolve, so it has no arguments."""

    name: str
    cols: int
    rows = ROWS

    def __init__(self) -> None:
        self._resolved: dict[Any, TileOp] = {}

    def get_tile_type(self, col: int, row: int) -> AIETileType:
        """What stands there; ValueError outside of the device."""
        if not (0 <= col < self.cols and 0 <= row < ROWS):
            raise ValueError(f"Coordinates ({col}, {row}) are out of range for device ({self.cols} cols x {ROWS} rows)")
        return tile_kind(row)

    def resolve_tile(self, tile: Any) -> None:
        """Give the tile its operation: one per Tile."""
        if id(tile) in self._resolved:
            tile.op = self._resolved[id(tile)]
        else:
            tile.op = self._resolved[id(tile)] = self._logical(tile)
        if tile.op not in current().tiles:
            current().tiles.append(tile.op)

    def _logical(self, tile: Tile) -> TileOp:
        kind = tile.tile_type
        if kind is None:
            if tile.col is None or tile.row is None:
                raise ValueError(f"Cannot resolve {tile}: tile_type must be set or inferred from coordinates.")
            kind = self.get_tile_type(tile.col, tile.row)
        return TileOp(kind.value, tile.col, tile.row)


def _devices() -> dict[str, type[Device]]:
    found = {}
    for family, columns in (("NPU1", 4), ("NPU2", 8)):
        for cols in range(1, columns + 1):
            name = family if cols == columns else f"{family}Col{cols}"
            mlir = family.lower() if cols == columns else f"{family.lower()}_{cols}col"
            found[name] = type(name, (Device,), {"name": mlir, "cols": cols})
    return found


globals().update(_devices())
